//! The functions of libhdf5 that a connector calls, as HDF5 1.14 to 2.2 have them.

use crate::symbols::{Herr, Hid, functions};
use std::ffi::{c_char, c_int, c_uint, c_void};

/// An object of a connector, or arguments that go on as they are.
pub(super) type P = *mut c_void;
/// A name.
pub(super) type Name = *const c_char;

functions! {
    /// What a callback hands on to the connector below (object, location, connector, the callback's arguments), and what
    /// the callbacks themselves call.
    Api:
    attr_create = "H5VLattr_create": fn(P, P, Hid, Name, Hid, Hid, Hid, Hid, Hid, P) -> P;
    attr_open = "H5VLattr_open": fn(P, P, Hid, Name, Hid, Hid, P) -> P;
    attr_read = "H5VLattr_read": fn(P, Hid, Hid, P, Hid, P) -> Herr;
    attr_write = "H5VLattr_write": fn(P, Hid, Hid, P, Hid, P) -> Herr;
    attr_get = "H5VLattr_get": fn(P, Hid, P, Hid, P) -> Herr;
    attr_specific = "H5VLattr_specific": fn(P, P, Hid, P, Hid, P) -> Herr;
    attr_optional = "H5VLattr_optional": fn(P, Hid, P, Hid, P) -> Herr;
    attr_close = "H5VLattr_close": fn(P, Hid, Hid, P) -> Herr;
    dataset_create = "H5VLdataset_create": fn(P, P, Hid, Name, Hid, Hid, Hid, Hid, Hid, Hid, P) -> P;
    dataset_open = "H5VLdataset_open": fn(P, P, Hid, Name, Hid, Hid, P) -> P;
    dataset_read = "H5VLdataset_read": fn(usize, *const P, Hid, *const Hid, *const Hid, *const Hid, Hid, *const P, P) -> Herr;
    dataset_write = "H5VLdataset_write": fn(usize, *const P, Hid, *const Hid, *const Hid, *const Hid, Hid, *const P, P) -> Herr;
    dataset_get = "H5VLdataset_get": fn(P, Hid, P, Hid, P) -> Herr;
    dataset_specific = "H5VLdataset_specific": fn(P, Hid, P, Hid, P) -> Herr;
    dataset_optional = "H5VLdataset_optional": fn(P, Hid, P, Hid, P) -> Herr;
    dataset_close = "H5VLdataset_close": fn(P, Hid, Hid, P) -> Herr;
    datatype_commit = "H5VLdatatype_commit": fn(P, P, Hid, Name, Hid, Hid, Hid, Hid, Hid, P) -> P;
    datatype_open = "H5VLdatatype_open": fn(P, P, Hid, Name, Hid, Hid, P) -> P;
    datatype_get = "H5VLdatatype_get": fn(P, Hid, P, Hid, P) -> Herr;
    datatype_specific = "H5VLdatatype_specific": fn(P, Hid, P, Hid, P) -> Herr;
    datatype_optional = "H5VLdatatype_optional": fn(P, Hid, P, Hid, P) -> Herr;
    datatype_close = "H5VLdatatype_close": fn(P, Hid, Hid, P) -> Herr;
    file_create = "H5VLfile_create": fn(Name, c_uint, Hid, Hid, Hid, P) -> P;
    file_open = "H5VLfile_open": fn(Name, c_uint, Hid, Hid, P) -> P;
    file_get = "H5VLfile_get": fn(P, Hid, P, Hid, P) -> Herr;
    file_specific = "H5VLfile_specific": fn(P, Hid, P, Hid, P) -> Herr;
    file_optional = "H5VLfile_optional": fn(P, Hid, P, Hid, P) -> Herr;
    file_close = "H5VLfile_close": fn(P, Hid, Hid, P) -> Herr;
    group_create = "H5VLgroup_create": fn(P, P, Hid, Name, Hid, Hid, Hid, Hid, P) -> P;
    group_open = "H5VLgroup_open": fn(P, P, Hid, Name, Hid, Hid, P) -> P;
    group_get = "H5VLgroup_get": fn(P, Hid, P, Hid, P) -> Herr;
    group_specific = "H5VLgroup_specific": fn(P, Hid, P, Hid, P) -> Herr;
    group_optional = "H5VLgroup_optional": fn(P, Hid, P, Hid, P) -> Herr;
    group_close = "H5VLgroup_close": fn(P, Hid, Hid, P) -> Herr;
    link_create = "H5VLlink_create": fn(P, P, P, Hid, Hid, Hid, Hid, P) -> Herr;
    link_copy = "H5VLlink_copy": fn(P, P, P, P, Hid, Hid, Hid, Hid, P) -> Herr;
    link_move = "H5VLlink_move": fn(P, P, P, P, Hid, Hid, Hid, Hid, P) -> Herr;
    link_get = "H5VLlink_get": fn(P, P, Hid, P, Hid, P) -> Herr;
    link_specific = "H5VLlink_specific": fn(P, P, Hid, P, Hid, P) -> Herr;
    link_optional = "H5VLlink_optional": fn(P, P, Hid, P, Hid, P) -> Herr;
    object_open = "H5VLobject_open": fn(P, P, Hid, *mut c_int, Hid, P) -> P;
    object_copy = "H5VLobject_copy": fn(P, P, Name, P, P, Name, Hid, Hid, Hid, Hid, P) -> Herr;
    object_get = "H5VLobject_get": fn(P, P, Hid, P, Hid, P) -> Herr;
    object_specific = "H5VLobject_specific": fn(P, P, Hid, P, Hid, P) -> Herr;
    object_optional = "H5VLobject_optional": fn(P, P, Hid, P, Hid, P) -> Herr;
    connector_class = "H5VLintrospect_get_conn_cls": fn(P, Hid, c_int, *mut P) -> Herr;
    connector_capabilities = "H5VLintrospect_get_cap_flags": fn(P, Hid, *mut u64) -> Herr;
    optional_query = "H5VLintrospect_opt_query": fn(P, Hid, c_int, c_int, *mut u64) -> Herr;
    blob_put = "H5VLblob_put": fn(P, Hid, P, usize, P, P) -> Herr;
    blob_get = "H5VLblob_get": fn(P, Hid, P, P, usize, P) -> Herr;
    blob_specific = "H5VLblob_specific": fn(P, Hid, P, P) -> Herr;
    blob_optional = "H5VLblob_optional": fn(P, Hid, P, P) -> Herr;
    token_compare = "H5VLtoken_cmp": fn(P, Hid, P, P, *mut c_int) -> Herr;
    token_to_text = "H5VLtoken_to_str": fn(P, c_int, Hid, P, *mut *mut c_char) -> Herr;
    token_from_text = "H5VLtoken_from_str": fn(P, c_int, Hid, Name, P) -> Herr;
    optional = "H5VLoptional": fn(P, Hid, P, Hid, P) -> Herr;
    get_object = "H5VLget_object": fn(P, Hid) -> P;
    get_wrap_context = "H5VLget_wrap_ctx": fn(P, Hid, *mut P) -> Herr;
    wrap_object = "H5VLwrap_object": fn(P, c_int, Hid, P) -> P;
    unwrap_object = "H5VLunwrap_object": fn(P, Hid) -> P;
    free_wrap_context = "H5VLfree_wrap_ctx": fn(P, Hid) -> Herr;
    connector_by_value = "H5VLregister_connector_by_value": fn(c_int, Hid) -> Hid;
    connector_compare = "H5VLcmp_connector_cls": fn(*mut c_int, Hid, Hid) -> Herr;
    info_copy = "H5VLcopy_connector_info": fn(Hid, *mut P, P) -> Herr;
    info_compare = "H5VLcmp_connector_info": fn(*mut c_int, Hid, P, P) -> Herr;
    info_free = "H5VLfree_connector_info": fn(Hid, P) -> Herr;
    info_from_text = "H5VLconnector_str_to_info": fn(Name, Hid, *mut P) -> Herr;
    plist_vol_info = "H5Pget_vol_info": fn(Hid, *mut P) -> Herr;
    plist_set_vol = "H5Pset_vol": fn(Hid, Hid, P) -> Herr;
    plist_copy = "H5Pcopy": fn(Hid) -> Hid;
    plist_close = "H5Pclose": fn(Hid) -> Herr;
    error_take = "H5Eget_current_stack": fn() -> Hid;
    error_count = "H5Eget_num": fn(Hid) -> isize;
    error_close = "H5Eclose_stack": fn(Hid) -> Herr;
    error_put = "H5Eset_current_stack": fn(Hid) -> Herr;
}
