//! Callbacks that pass a call on to the lower object unchanged, and wrap the result if it is an object.

use super::api::{Name, P};
use super::object::Object;
use super::slot::{NO_REQUEST, enter};
use super::store;
use crate::symbols::{Herr, Hid};
use std::ptr::null_mut;

/// `name(object, arguments…)`.
macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => { $(
        pub(super) unsafe extern "C" fn $name<const L: usize>(object: P, $($argument: $type,)* _: P) -> Herr {
            enter::<L, _>(-1, |slot| {
                // SAFETY: HDF5 passes an object of ours; the arguments are passed on unchanged.
                Ok(unsafe {
                    let ours = Object::from_pointer(object);
                    (slot.api.$name)(ours.under, ours.vol, $($argument,)* NO_REQUEST)
                })
            })
        }
    )* };
}

/// `name(object, location, arguments…)`.
macro_rules! forward_at {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => { $(
        pub(super) unsafe extern "C" fn $name<const L: usize>(object: P, at: P, $($argument: $type,)* _: P) -> Herr {
            enter::<L, _>(-1, |slot| {
                // SAFETY: HDF5 passes an object of ours; the arguments are passed on unchanged.
                Ok(unsafe {
                    let ours = Object::from_pointer(object);
                    (slot.api.$name)(ours.under, at, ours.vol, $($argument,)* NO_REQUEST)
                })
            })
        }
    )* };
}

/// `name(object, location, arguments…)` that opens an object, or creates an attribute.
macro_rules! make {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => { $(
        pub(super) unsafe extern "C" fn $name<const L: usize>(object: P, at: P, $($argument: $type,)* _: P) -> P {
            enter::<L, _>(null_mut(), |slot| {
                // SAFETY: HDF5 passes an object of ours.
                let ours = unsafe { Object::from_pointer(object) };
                if let Some(file) = &ours.file {
                    file.check()?;
                }
                // SAFETY: the arguments are passed on unchanged.
                let under = unsafe { (slot.api.$name)(ours.under, at, ours.vol, $($argument,)* NO_REQUEST) };
                Ok(Object::wrap(under, ours.vol, ours.file.as_ref(), None))
            })
        }
    )* };
}

/// `name(object, location, name, arguments…)` that creates an object under a name.
macro_rules! make_named {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => { $(
        pub(super) unsafe extern "C" fn $name<const L: usize>(
            object: P,
            at: P,
            name: Name,
            $($argument: $type,)*
            _: P,
        ) -> P {
            enter::<L, _>(null_mut(), |slot| {
                // SAFETY: HDF5 passes an object of ours.
                let ours = unsafe { Object::from_pointer(object) };
                if let Some(file) = &ours.file {
                    file.check()?;
                }
                // SAFETY: HDF5 passes a name, or null.
                unsafe { store::check_name(ours.file.as_ref(), name) }?;
                let call = slot.api.$name;
                // SAFETY: the arguments are passed on unchanged.
                let under = unsafe { call(ours.under, at, ours.vol, name, $($argument,)* NO_REQUEST) };
                Ok(Object::wrap(under, ours.vol, ours.file.as_ref(), None))
            })
        }
    )* };
}

/// `name(object, transfer list)` that closes an object.
macro_rules! close {
    ($($name:ident;)*) => { $(
        pub(super) unsafe extern "C" fn $name<const L: usize>(object: P, dxpl: Hid, _: P) -> Herr {
            enter::<L, _>(-1, |slot| {
                // SAFETY: HDF5 passes an object of ours and gives it up if this succeeds.
                unsafe {
                    Object::close(object, |under, vol| (slot.api.$name)(under, vol, dxpl, NO_REQUEST))
                }
            })
        }
    )* };
}

forward! {
    attr_read(kind: Hid, buffer: P, dxpl: Hid);
    attr_write(kind: Hid, buffer: P, dxpl: Hid);
    attr_get(args: P, dxpl: Hid);
    attr_optional(args: P, dxpl: Hid);
    datatype_get(args: P, dxpl: Hid);
    datatype_specific(args: P, dxpl: Hid);
    datatype_optional(args: P, dxpl: Hid);
    group_get(args: P, dxpl: Hid);
    group_optional(args: P, dxpl: Hid);
    optional(args: P, dxpl: Hid);
}

forward_at! {
    attr_specific(args: P, dxpl: Hid);
    link_get(args: P, dxpl: Hid);
    link_specific(args: P, dxpl: Hid);
    link_optional(args: P, dxpl: Hid);
    object_specific(args: P, dxpl: Hid);
    object_optional(args: P, dxpl: Hid);
}

make! {
    attr_create(name: Name, kind: Hid, space: Hid, acpl: Hid, aapl: Hid, dxpl: Hid);
    attr_open(name: Name, aapl: Hid, dxpl: Hid);
    datatype_open(name: Name, tapl: Hid, dxpl: Hid);
}

make_named! {
    datatype_commit(kind: Hid, lcpl: Hid, tcpl: Hid, tapl: Hid, dxpl: Hid);
    group_create(lcpl: Hid, gcpl: Hid, gapl: Hid, dxpl: Hid);
}

close! {
    attr_close;
    datatype_close;
    file_close;
    group_close;
    dataset_close;
}
