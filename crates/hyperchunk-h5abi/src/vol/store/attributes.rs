//! Copying the attributes of an object of the lower connector to another one of the same file.

use super::super::api::P;
use super::super::failure::{ON_ERROR_STACK, Outcome, done, refuse};
use super::super::slot::{NO_REQUEST, Slot};
use super::location::Location;
use crate::symbols::Hid;
use std::ffi::c_int;

/// `H5VL_OBJECT_GET_INFO`, `H5O_INFO_ALL`.
const GET_INFO: i64 = 3;
const ALL: u32 = 7;
/// `H5VL_ATTR_GET_ACPL` and so on.
const GET_LIST: i64 = 0;
const GET_NAME: i64 = 2;
const GET_SPACE: i64 = 3;
const GET_TYPE: i64 = 5;
/// `H5I_ATTR`.
const ATTRIBUTE: c_int = 7;

/// `H5O_info2_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ObjectInfo {
    file: u64,
    /// Identifies the object in its file.
    pub(super) token: [u8; 16],
    kind: c_int,
    references: u32,
    times: [i64; 4],
    attributes: u64,
}

/// `H5VL_object_get_args_t` for object information.
#[repr(C)]
struct InfoArguments {
    operation: i64,
    fields: u32,
    info: *mut ObjectInfo,
}

/// `H5VL_attr_get_args_t` with an identifier.
#[repr(C)]
struct GetArguments {
    operation: i64,
    answer: Hid,
}

/// `H5VL_attr_get_args_t` for a name.
#[repr(C)]
struct GetNameArguments {
    operation: i64,
    at: Location,
    size: usize,
    buffer: *mut u8,
    length: *mut usize,
}

/// Returns the information of an object.
pub(super) fn info(slot: &Slot, object: P, vol: Hid, kind: c_int) -> Outcome<ObjectInfo> {
    let mut info = ObjectInfo::default();
    let mut args = InfoArguments { operation: GET_INFO, fields: ALL, info: &raw mut info };
    let mut at = Location::itself(kind);
    // SAFETY: a lower object, a location that is the object itself, a live place.
    done(unsafe { (slot.api.object_get)(object, at.pointer(), vol, (&raw mut args).cast(), 0, NO_REQUEST) })?;
    Ok(info)
}

fn ask(slot: &Slot, attribute: P, vol: Hid, operation: i64) -> Outcome<Hid> {
    let mut args = GetArguments { operation, answer: -1 };
    // SAFETY: a lower attribute, and arguments of an operation that answers with an identifier.
    done(unsafe { (slot.api.attr_get)(attribute, vol, (&raw mut args).cast(), 0, NO_REQUEST) })?;
    Ok(args.answer)
}

/// Copies all attributes.
pub(super) fn copy(slot: &Slot, from: P, to: P, vol: Hid, kind: c_int) -> Outcome<()> {
    let aapl = slot.default_list(c"H5P_LST_ATTRIBUTE_ACCESS_ID_g")?;
    for number in 0..info(slot, from, vol, kind)?.attributes {
        let mut at = Location::numbered(slot, kind, number)?;
        // SAFETY: a lower object, a location of our own, the default list.
        let attribute =
            unsafe { (slot.api.attr_open)(from, at.pointer(), vol, std::ptr::null(), aapl, 0, NO_REQUEST) };
        if attribute.is_null() {
            return Err(ON_ERROR_STACK);
        }
        let copied = copy_one(slot, attribute, to, vol, kind, aapl);
        // SAFETY: the attribute from above.
        slot.keep_errors(|| unsafe { (slot.api.attr_close)(attribute, vol, 0, NO_REQUEST) });
        copied?;
    }
    Ok(())
}

fn copy_one(slot: &Slot, attribute: P, to: P, vol: Hid, kind: c_int, aapl: Hid) -> Outcome<()> {
    let mut name = vec![0_u8; 65536];
    let mut length = 0;
    let mut args = GetNameArguments {
        operation: GET_NAME,
        at: Location::itself(ATTRIBUTE),
        size: name.len(),
        buffer: name.as_mut_ptr(),
        length: &raw mut length,
    };
    // SAFETY: a lower attribute, live places.
    done(unsafe { (slot.api.attr_get)(attribute, vol, (&raw mut args).cast(), 0, NO_REQUEST) })?;
    let datatype = ask(slot, attribute, vol, GET_TYPE)?;
    let space = ask(slot, attribute, vol, GET_SPACE)?;
    let list = ask(slot, attribute, vol, GET_LIST)?;
    let dxpl = slot.default_list(c"H5P_LST_DATASET_XFER_ID_g")?;
    let copied = (|| {
        // SAFETY: identifiers of our own.
        let (count, size) = unsafe { ((slot.api.selected)(space), (slot.api.type_size)(datatype)) };
        let bytes = usize::try_from(count).unwrap_or(0).checked_mul(size);
        let mut values = Vec::new();
        match bytes {
            Some(bytes) if values.try_reserve_exact(bytes).is_ok() => values.resize(bytes, 0_u8),
            _ => refuse!("no memory for an attribute"),
        }
        let mut at = Location::itself(kind);
        // SAFETY: a buffer with room for all elements; the name ends with a NUL, of which the buffer has more.
        unsafe {
            let api = &slot.api;
            if bytes != Some(0) {
                done((api.attr_read)(
                    attribute,
                    vol,
                    datatype,
                    values.as_mut_ptr().cast(),
                    dxpl,
                    NO_REQUEST,
                ))?;
            }
            let name = name.as_ptr().cast();
            let new =
                (api.attr_create)(to, at.pointer(), vol, name, datatype, space, list, aapl, 0, NO_REQUEST);
            if new.is_null() {
                return Err(ON_ERROR_STACK);
            }
            let written = if bytes == Some(0) {
                0
            } else {
                (api.attr_write)(new, vol, datatype, values.as_mut_ptr().cast(), dxpl, NO_REQUEST)
            };
            slot.keep_errors(|| {
                (api.attr_close)(new, vol, 0, NO_REQUEST);
                // Frees the memory that HDF5 allocated for sequences and strings.
                (slot.library.f.vlen_reclaim)(datatype, space, 0, values.as_mut_ptr().cast());
            });
            done(written).map(drop)
        }
    })();
    // SAFETY: identifiers of our own.
    slot.keep_errors(|| unsafe {
        (slot.api.type_close)(datatype);
        (slot.api.space_close)(space);
        (slot.api.plist_close)(list);
    });
    copied
}
