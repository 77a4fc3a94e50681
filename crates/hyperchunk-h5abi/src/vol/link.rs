//! Callbacks whose arguments hold a second object of ours: links, mounts, copies, and objects opened by their
//! kind.

use super::api::{Name, P};
use super::object::{Object, set_file_requested};
use super::slot::{NO_REQUEST, enter};
use super::store;
use crate::symbols::{Herr, Hid};
use std::ffi::c_int;
use std::ptr::null_mut;

/// `H5I_GROUP`.
const GROUP: c_int = 2;
/// `H5VL_LINK_CREATE_HARD`.
const HARD: c_int = 0;
/// `H5VL_OBJECT_GET_FILE`.
const GET_FILE: c_int = 0;
/// `H5VL_GROUP_MOUNT`.
const MOUNT: c_int = 0;

/// The beginning of `H5VL_link_create_args_t`.
#[repr(C)]
pub(super) struct LinkArguments {
    operation: c_int,
    /// The target of a hard link, or null.
    target: P,
}

/// `H5VL_group_specific_args_t`, of a mount.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct MountArguments {
    operation: c_int,
    name: Name,
    child: P,
    plist: Hid,
}

/// Returns the connector below two objects, of which one may be null, meaning "the same as the other".
///
/// # Safety
/// Each is null or an object of ours.
unsafe fn below(first: P, second: P) -> Hid {
    match if first.is_null() { second } else { first } {
        none if none.is_null() => -1,
        // SAFETY: by this function's contract.
        object => unsafe { Object::from_pointer(object) }.vol,
    }
}

pub(super) unsafe extern "C" fn link_create<const L: usize>(
    args: *mut LinkArguments,
    object: P,
    at: P,
    lcpl: Hid,
    lapl: Hid,
    dxpl: Hid,
    _: P,
) -> Herr {
    enter::<L, _>(-1, |slot| {
        // SAFETY: HDF5 passes live arguments and objects of ours; the target is put back after the call.
        unsafe {
            let target = if (*args).operation == HARD { (*args).target } else { null_mut() };
            let vol = below(object, target);
            if let Some(ours) = object.cast::<Object>().as_ref() {
                store::check_location(ours.file.as_ref(), at)?;
                store::check_value(ours.file.as_ref(), args.cast())?;
            }
            if !target.is_null() {
                (*args).target = Object::from_pointer(target).under;
            }
            let under = Object::under(object);
            let status = (slot.api.link_create)(args.cast(), under, at, vol, lcpl, lapl, dxpl, NO_REQUEST);
            if !target.is_null() {
                (*args).target = target;
            }
            Ok(status)
        }
    })
}

macro_rules! from_to {
    ($($name:ident;)*) => { $(
        pub(super) unsafe extern "C" fn $name<const L: usize>(
            from: P,
            at: P,
            to: P,
            to_at: P,
            lcpl: Hid,
            lapl: Hid,
            dxpl: Hid,
            _: P,
        ) -> Herr {
            enter::<L, _>(-1, |slot| {
                // SAFETY: HDF5 passes objects of ours, or null for one of them.
                Ok(unsafe {
                    let place = if to.is_null() { from } else { to };
                    if let Some(ours) = place.cast::<Object>().as_ref() {
                        store::check_location(ours.file.as_ref(), to_at)?;
                    }
                    let (vol, below_from, below_to) = (below(from, to), Object::under(from), Object::under(to));
                    (slot.api.$name)(below_from, at, below_to, to_at, vol, lcpl, lapl, dxpl, NO_REQUEST)
                })
            })
        }
    )* };
}

from_to! {
    link_copy;
    link_move;
}

pub(super) unsafe extern "C" fn group_specific<const L: usize>(
    object: P,
    args: *mut MountArguments,
    dxpl: Hid,
    _: P,
) -> Herr {
    enter::<L, _>(-1, |slot| {
        // SAFETY: HDF5 passes an object of ours and live arguments; those of a mount have a second object of ours.
        Ok(unsafe {
            let ours = Object::from_pointer(object);
            let call = slot.api.group_specific;
            if (*args).operation == MOUNT {
                let mut below = MountArguments { child: Object::under((*args).child), ..*args };
                call(ours.under, ours.vol, (&raw mut below).cast(), dxpl, NO_REQUEST)
            } else {
                call(ours.under, ours.vol, args.cast(), dxpl, NO_REQUEST)
            }
        })
    })
}

pub(super) unsafe extern "C" fn group_open<const L: usize>(
    object: P,
    at: P,
    name: Name,
    gapl: Hid,
    dxpl: Hid,
    _: P,
) -> P {
    enter::<L, _>(null_mut(), |slot| {
        // SAFETY: HDF5 passes an object of ours.
        let ours = unsafe { Object::from_pointer(object) };
        if let Some(file) = &ours.file {
            file.check()?;
        }
        // SAFETY: the arguments are passed on unchanged.
        let under = unsafe { (slot.api.group_open)(ours.under, at, ours.vol, name, gapl, dxpl, NO_REQUEST) };
        Object::wrap_opened(slot, GROUP, under, ours.vol, ours.file.as_ref())
    })
}

pub(super) unsafe extern "C" fn object_open<const L: usize>(
    object: P,
    at: P,
    kind: *mut c_int,
    dxpl: Hid,
    _: P,
) -> P {
    enter::<L, _>(null_mut(), |slot| {
        // SAFETY: HDF5 passes an object of ours.
        let ours = unsafe { Object::from_pointer(object) };
        let mut found = 0;
        // SAFETY: the arguments are passed on unchanged, except for the address of the kind.
        let under =
            unsafe { (slot.api.object_open)(ours.under, at, ours.vol, &raw mut found, dxpl, NO_REQUEST) };
        // SAFETY: HDF5 passes a live place, or null.
        if let Some(place) = unsafe { kind.as_mut() } {
            *place = found;
        }
        Object::wrap_opened(slot, found, under, ours.vol, ours.file.as_ref())
    })
}

pub(super) unsafe extern "C" fn object_copy<const L: usize>(
    from: P,
    at: P,
    name: Name,
    to: P,
    to_at: P,
    to_name: Name,
    ocpypl: Hid,
    lcpl: Hid,
    dxpl: Hid,
    _: P,
) -> Herr {
    enter::<L, _>(-1, |slot| {
        // SAFETY: HDF5 passes two objects of ours, and a callback's arguments.
        unsafe {
            let (from, to) = (Object::from_pointer(from), Object::from_pointer(to));
            store::check_name(to.file.as_ref(), to_name)?;
            store::copy(slot, from, to, store::Copy { at, name, to_at, to_name, ocpypl, lcpl, dxpl })
        }
    })
}

pub(super) unsafe extern "C" fn object_get<const L: usize>(
    object: P,
    at: P,
    args: P,
    dxpl: Hid,
    _: P,
) -> Herr {
    enter::<L, _>(-1, |slot| {
        // SAFETY: HDF5 passes an object of ours, and arguments that begin with their operation.
        let (ours, operation) = unsafe { (Object::from_pointer(object), *args.cast::<c_int>()) };
        // SAFETY: the arguments are passed on unchanged.
        let status = unsafe { (slot.api.object_get)(ours.under, at, ours.vol, args, dxpl, NO_REQUEST) };
        set_file_requested(operation == GET_FILE && status >= 0);
        Ok(status)
    })
}
