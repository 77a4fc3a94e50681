//! Queries about the connector itself, tokens, and values outside of objects (blobs).

use super::api::{Name, P};
use super::info::Info;
use super::object::Object;
use super::slot::enter;
use crate::symbols::{Herr, Hid};
use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

/// `H5VL_GET_CONN_LVL_CURR`.
const CURRENT: c_int = 0;

pub(super) unsafe extern "C" fn initialize<const L: usize>(_: Hid) -> Herr {
    0
}

pub(super) unsafe extern "C" fn terminate<const L: usize>() -> Herr {
    enter::<L, _>(-1, |slot| {
        slot.forget();
        Ok(0)
    })
}

/// Returns our class at the top and the native one at the bottom, so that the library accepts calls that need
/// a native file.
pub(super) unsafe extern "C" fn connector_class<const L: usize>(
    object: P,
    level: c_int,
    class: *mut P,
) -> Herr {
    enter::<L, _>(-1, |slot| {
        if level == CURRENT {
            // SAFETY: HDF5 passes a live place; it does not write to classes.
            unsafe { *class = (&raw const slot.class).cast_mut().cast() };
            return Ok(0);
        }
        // SAFETY: HDF5 passes an object of ours.
        let ours = unsafe { Object::from_pointer(object) };
        // SAFETY: the lower object; the address is passed on unchanged.
        Ok(unsafe { (slot.api.connector_class)(ours.under, ours.vol, level, class) })
    })
}

pub(super) unsafe extern "C" fn connector_capabilities<const L: usize>(info: P, flags: *mut u64) -> Herr {
    enter::<L, _>(-1, |slot| {
        let (vol, under) = match info {
            none if none.is_null() => (slot.native()?, null_mut()),
            // SAFETY: HDF5 passes an information of ours.
            some => unsafe { ((*some.cast::<Info>()).vol, (*some.cast::<Info>()).under) },
        };
        // SAFETY: the lower connector's own information; the address is passed on unchanged.
        Ok(unsafe { (slot.api.connector_capabilities)(under, vol, flags) })
    })
}

/// `name(object, arguments…)`, without a request.
macro_rules! ask {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => { $(
        pub(super) unsafe extern "C" fn $name<const L: usize>(object: P, $($argument: $type),*) -> Herr {
            enter::<L, _>(-1, |slot| {
                // SAFETY: HDF5 passes an object of ours; the arguments are passed on unchanged.
                Ok(unsafe {
                    let ours = Object::from_pointer(object);
                    (slot.api.$name)(ours.under, ours.vol, $($argument),*)
                })
            })
        }
    )* };
}

ask! {
    optional_query(class: c_int, operation: c_int, flags: *mut u64);
    blob_put(buffer: P, size: usize, id: P, context: P);
    blob_get(id: P, buffer: P, size: usize, context: P);
    blob_specific(id: P, args: P);
    blob_optional(id: P, args: P);
    token_compare(first: P, second: P, result: *mut c_int);
}

pub(super) unsafe extern "C" fn token_to_text<const L: usize>(
    object: P,
    kind: c_int,
    token: P,
    text: *mut *mut c_char,
) -> Herr {
    enter::<L, _>(-1, |slot| {
        // SAFETY: HDF5 passes an object of ours; the arguments are passed on unchanged.
        Ok(unsafe {
            let ours = Object::from_pointer(object);
            (slot.api.token_to_text)(ours.under, kind, ours.vol, token, text)
        })
    })
}

pub(super) unsafe extern "C" fn token_from_text<const L: usize>(
    object: P,
    kind: c_int,
    text: Name,
    token: P,
) -> Herr {
    enter::<L, _>(-1, |slot| {
        // SAFETY: HDF5 passes an object of ours; the arguments are passed on unchanged.
        Ok(unsafe {
            let ours = Object::from_pointer(object);
            (slot.api.token_from_text)(ours.under, kind, ours.vol, text, token)
        })
    })
}
