//! `H5VL_class_t`, version 3, which is identical in HDF5 1.13, 1.14, 2.0 and 2.2.

use super::{NAME, dataset, file, forward, info, introspect, link, object};
use std::ffi::{c_char, c_int, c_uint, c_void};

/// `H5VL_VERSION`.
const VERSION: c_uint = 3;
/// The connector's number. 256 to 511 are for unregistered connectors.
const VALUE: c_int = 313;

type Callback = *const c_void;

/// The class as HDF5 registers it. Callbacks are listed in the order of the structures of `H5VLconnector.h`.
#[repr(C)]
pub(super) struct Class {
    version: c_uint,
    value: c_int,
    name: *const c_char,
    connector_version: c_uint,
    capabilities: u64,
    initialize: Callback,
    terminate: Callback,
    info_size: usize,
    info: [Callback; 5],
    wrap: [Callback; 5],
    attr: [Callback; 8],
    dataset: [Callback; 8],
    datatype: [Callback; 6],
    file: [Callback; 6],
    group: [Callback; 6],
    link: [Callback; 6],
    object: [Callback; 5],
    introspect: [Callback; 3],
    request: [Callback; 6],
    blob: [Callback; 4],
    token: [Callback; 3],
    optional: Callback,
}

const _: () = assert!(std::mem::offset_of!(Class, capabilities) == 24);
const _: () = assert!(std::mem::offset_of!(Class, initialize) == 32);
const _: () =
    assert!(size_of::<Class>() == 32 + 8 * (2 + 6 + 5 + 8 + 8 + 6 + 6 + 6 + 6 + 5 + 3 + 6 + 4 + 3 + 1));

macro_rules! row {
    ($($callback:path),* $(,)?) => { [$($callback as *const () as Callback),*] };
}

/// Returns the class with the callbacks of slot `L`.
#[rustfmt::skip]
pub(super) fn class<const L: usize>() -> Class {
    let [initialize, terminate, optional] =
        row![introspect::initialize::<L>, introspect::terminate::<L>, forward::optional::<L>];
    Class {
        version: VERSION,
        value: VALUE,
        name: NAME.as_ptr(),
        connector_version: 1,
        capabilities: 0,
        initialize,
        terminate,
        info_size: size_of::<info::Info>(),
        info: row![info::copy::<L>, info::compare::<L>, info::free::<L>, info::to_text::<L>, info::from_text::<L>],
        wrap: row![
            object::get_object::<L>, object::get_wrap_context::<L>, object::wrap_object::<L>,
            object::unwrap_object::<L>, object::free_wrap_context::<L>,
        ],
        attr: row![
            forward::attr_create::<L>, forward::attr_open::<L>, forward::attr_read::<L>, forward::attr_write::<L>,
            forward::attr_get::<L>, forward::attr_specific::<L>, forward::attr_optional::<L>, forward::attr_close::<L>,
        ],
        dataset: row![
            dataset::dataset_create::<L>, dataset::dataset_open::<L>, dataset::dataset_read::<L>,
            dataset::dataset_write::<L>, dataset::dataset_get::<L>, dataset::dataset_specific::<L>,
            dataset::dataset_optional::<L>, forward::dataset_close::<L>,
        ],
        datatype: row![
            forward::datatype_commit::<L>, forward::datatype_open::<L>, forward::datatype_get::<L>,
            forward::datatype_specific::<L>, forward::datatype_optional::<L>, forward::datatype_close::<L>,
        ],
        file: row![
            file::file_create::<L>, file::file_open::<L>, file::file_get::<L>, file::file_specific::<L>,
            file::file_optional::<L>, forward::file_close::<L>,
        ],
        group: row![
            forward::group_create::<L>, link::group_open::<L>, forward::group_get::<L>, link::group_specific::<L>,
            forward::group_optional::<L>, forward::group_close::<L>,
        ],
        link: row![
            link::link_create::<L>, link::link_copy::<L>, link::link_move::<L>, forward::link_get::<L>,
            forward::link_specific::<L>, forward::link_optional::<L>,
        ],
        object: row![
            link::object_open::<L>, link::object_copy::<L>, link::object_get::<L>, forward::object_specific::<L>,
            forward::object_optional::<L>,
        ],
        introspect: row![
            introspect::connector_class::<L>, introspect::connector_capabilities::<L>, introspect::optional_query::<L>,
        ],
        request: [std::ptr::null(); 6],
        blob: row![
            introspect::blob_put::<L>, introspect::blob_get::<L>, introspect::blob_specific::<L>,
            introspect::blob_optional::<L>,
        ],
        token: row![introspect::token_compare::<L>, introspect::token_to_text::<L>, introspect::token_from_text::<L>],
        optional,
    }
}
