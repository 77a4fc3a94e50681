//! Opening and creating files, and what can be asked about files by name.

use super::api::{Name, P};
use super::failure::Outcome;
use super::info::Info;
use super::object::Object;
use super::slot::{NO_REQUEST, PropertyList, Slot, enter};
use crate::symbols::{Herr, Hid};
use std::ffi::{c_int, c_uint};
use std::ptr::null_mut;

/// `H5VL_file_specific_t`.
const REOPEN: c_int = 1;
const IS_ACCESSIBLE: c_int = 2;
const DELETE: c_int = 3;

/// `H5VL_file_specific_args_t` of the operations that name a file.
#[repr(C)]
#[derive(Clone, Copy)]
struct ByName {
    operation: c_int,
    name: Name,
    fapl: Hid,
    accessible: *mut bool,
}

/// `H5VL_file_specific_args_t` of a reopen.
#[repr(C)]
struct Reopen {
    operation: c_int,
    file: *mut P,
}

/// What an access list says to us, and a copy of it for the connector below.
struct Below {
    fapl: PropertyList,
    vol: Hid,
}

impl Below {
    fn of(slot: &'static Slot, fapl: Hid) -> Outcome<Self> {
        let info = Info::of_list(slot, fapl);
        let (vol, under_info) = match &info {
            Some(info) => (info.vol, info.under),
            None => (slot.native()?, null_mut()),
        };
        // SAFETY: any identifier may be asked for a copy.
        let copy = unsafe { (slot.api.plist_copy)(fapl) };
        if copy < 0 {
            return Err(None);
        }
        let fapl = PropertyList { slot, id: copy };
        // SAFETY: a list of our own, and information that the connector below understands; HDF5 copies it.
        if unsafe { (slot.api.plist_set_vol)(fapl.id, vol, under_info) } < 0 {
            return Err(None);
        }
        Ok(Below { fapl, vol })
    }
}

pub(super) unsafe extern "C" fn file_create<const L: usize>(
    name: Name,
    flags: c_uint,
    fcpl: Hid,
    fapl: Hid,
    dxpl: Hid,
    _: P,
) -> P {
    enter::<L, _>(null_mut(), |slot| {
        let below = Below::of(slot, fapl)?;
        // SAFETY: the arguments go on as they came, but for the access list.
        let under = unsafe { (slot.api.file_create)(name, flags, fcpl, below.fapl.id, dxpl, NO_REQUEST) };
        Ok(Object::wrap(under, below.vol))
    })
}

pub(super) unsafe extern "C" fn file_open<const L: usize>(
    name: Name,
    flags: c_uint,
    fapl: Hid,
    dxpl: Hid,
    _: P,
) -> P {
    enter::<L, _>(null_mut(), |slot| {
        let below = Below::of(slot, fapl)?;
        // SAFETY: the arguments go on as they came, but for the access list.
        let under = unsafe { (slot.api.file_open)(name, flags, below.fapl.id, dxpl, NO_REQUEST) };
        Ok(Object::wrap(under, below.vol))
    })
}

pub(super) unsafe extern "C" fn file_specific<const L: usize>(object: P, args: P, dxpl: Hid, _: P) -> Herr {
    enter::<L, _>(-1, |slot| {
        // SAFETY: every variant of the arguments begins with its operation.
        let operation = unsafe { *args.cast::<c_int>() };
        let call = slot.api.file_specific;
        if matches!(operation, IS_ACCESSIBLE | DELETE) {
            // SAFETY: arguments of an operation that names a file; DELETE's lack the last field, which is not read.
            let (name, fapl) = unsafe {
                let named = args.cast::<ByName>();
                ((*named).name, (*named).fapl)
            };
            let accessible = match operation {
                // SAFETY: as above.
                IS_ACCESSIBLE => unsafe { (*args.cast::<ByName>()).accessible },
                _ => null_mut(),
            };
            // After a native open that failed, HDF5 asks every connector that it finds, and reports the first failure.
            return slot.keep_earlier_errors(|| {
                let below = Below::of(slot, fapl)?;
                let mut named = ByName { operation, name, fapl: below.fapl.id, accessible };
                // SAFETY: no object, as HDF5 itself calls it; our own live arguments.
                Ok(unsafe { call(null_mut(), below.vol, (&raw mut named).cast(), dxpl, NO_REQUEST) })
            });
        }
        // SAFETY: HDF5 passes an object of ours.
        let ours = unsafe { Object::of(object) };
        let vol = ours.vol;
        // SAFETY: the arguments go on as they came; an object of is_equal arrives unwrapped.
        let status = unsafe { call(ours.under, vol, args, dxpl, NO_REQUEST) };
        if operation == REOPEN && status >= 0 {
            // SAFETY: arguments of a reopen, whose file is now one of the connector below.
            unsafe {
                let file = (*args.cast::<Reopen>()).file;
                *file = Object::wrap(*file, vol);
            }
        }
        Ok(status)
    })
}
