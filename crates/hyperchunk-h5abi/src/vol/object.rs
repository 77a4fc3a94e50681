//! Our objects, and how the library wraps and unwraps what it makes by itself.

use super::api::P;
use super::slot::{Slot, enter};
use crate::symbols::{Herr, Hid};
use std::ffi::c_int;
use std::ptr::null_mut;

/// What every callback gets: the object of the connector below.
pub(super) struct Object {
    pub(super) under: P,
    /// The connector below.
    pub(super) vol: Hid,
}

/// What the library needs to wrap objects that the connector below makes.
struct Context {
    vol: Hid,
    under: P,
}

impl Object {
    /// The object behind a callback's argument.
    ///
    /// # Safety
    /// `object` is one that [`Object::wrap`] made and that is not closed.
    pub(super) unsafe fn of<'a>(object: P) -> &'a Object {
        // SAFETY: by this function's contract.
        unsafe { &*object.cast::<Object>() }
    }

    /// The object below, or null for null.
    ///
    /// # Safety
    /// As for [`Object::of`], or null.
    pub(super) unsafe fn under(object: P) -> P {
        if object.is_null() {
            return object;
        }
        // SAFETY: by this function's contract.
        unsafe { Object::of(object) }.under
    }

    /// An object of ours around one of the connector below; null, which is failure, stays null.
    pub(super) fn wrap(under: P, vol: Hid) -> P {
        if under.is_null() {
            return under;
        }
        Box::into_raw(Box::new(Object { under, vol })).cast()
    }

    /// Frees an object whose lower one was closed.
    ///
    /// # Safety
    /// As for [`Object::of`]; nobody uses it any more.
    pub(super) unsafe fn free(object: P) {
        // SAFETY: by this function's contract it came from Box::into_raw.
        drop(unsafe { Box::from_raw(object.cast::<Object>()) });
    }
}

/// The object of the terminal connector.
pub(super) unsafe extern "C" fn get_object<const L: usize>(object: P) -> P {
    enter::<L, _>(null_mut(), |slot| {
        // SAFETY: HDF5 passes an object of ours.
        let object = unsafe { Object::of(object) };
        // SAFETY: the lower object and its connector.
        Ok(unsafe { (slot.api.get_object)(object.under, object.vol) })
    })
}

pub(super) unsafe extern "C" fn get_wrap_context<const L: usize>(object: P, context: *mut P) -> Herr {
    enter::<L, _>(-1, |slot| {
        // SAFETY: HDF5 passes an object of ours.
        let object = unsafe { Object::of(object) };
        let mut under = null_mut();
        // SAFETY: the lower object and a live place for its context.
        let status = unsafe { (slot.api.get_wrap_context)(object.under, object.vol, &raw mut under) };
        let made = Box::new(Context { vol: object.vol, under });
        // SAFETY: HDF5 passes a live place.
        unsafe { *context = Box::into_raw(made).cast() };
        Ok(status)
    })
}

pub(super) unsafe extern "C" fn wrap_object<const L: usize>(under: P, kind: c_int, context: P) -> P {
    enter::<L, _>(null_mut(), |slot| {
        // SAFETY: HDF5 passes a context that get_wrap_context made.
        let context = unsafe { &*context.cast::<Context>() };
        // SAFETY: an object of the connector below, and its context.
        let under = unsafe { (slot.api.wrap_object)(under, kind, context.vol, context.under) };
        Ok(Object::wrap(under, context.vol))
    })
}

pub(super) unsafe extern "C" fn unwrap_object<const L: usize>(object: P) -> P {
    enter::<L, _>(null_mut(), |slot| {
        // SAFETY: HDF5 passes an object of ours.
        let ours = unsafe { Object::of(object) };
        // SAFETY: the lower object and its connector.
        let under = unsafe { (slot.api.unwrap_object)(ours.under, ours.vol) };
        if !under.is_null() {
            // SAFETY: HDF5 gives the wrapper up.
            unsafe { Object::free(object) };
        }
        Ok(under)
    })
}

pub(super) unsafe extern "C" fn free_wrap_context<const L: usize>(context: P) -> Herr {
    enter::<L, _>(-1, |slot: &'static Slot| {
        // SAFETY: HDF5 gives up a context that get_wrap_context made.
        let context = unsafe { Box::from_raw(context.cast::<Context>()) };
        if context.under.is_null() {
            return Ok(0);
        }
        // SAFETY: the lower context, given up with ours.
        Ok(slot.keep_errors(|| unsafe { (slot.api.free_wrap_context)(context.under, context.vol) }))
    })
}
