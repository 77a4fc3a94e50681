//! Our object type, and the callbacks by which the library wraps and unwraps objects that it creates itself.

use super::api::P;
use super::failure::Outcome;
use super::slot::{NO_REQUEST, Slot, enter, enter_within};
use super::store::{self, LiveObject, OpenStore, Sources, StoreDataset};
use crate::symbols::{Herr, Hid};
use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;

/// `H5I_FILE`, `H5I_DATATYPE`.
const FILE: c_int = 1;
const DATATYPE: c_int = 3;
/// `H5I_DATASET`.
pub(super) const DATASET: c_int = 5;

/// The argument of every callback: a box around the object of the connector below.
pub(super) struct Object {
    pub(super) under: P,
    /// The connector below.
    pub(super) vol: Hid,
    /// The store to which the object belongs, if any.
    pub(super) file: Option<Arc<OpenStore>>,
    /// The dataset of the store, if the object is one.
    pub(super) dataset: Option<Box<StoreDataset>>,
    /// The locations of the dataset's sources, if the object is a virtual dataset.
    pub(super) sources: Option<Sources>,
    /// True if the library calls us when the object is closed. Objects that the library wraps for its own use
    /// are dropped without a call.
    told: bool,
}

thread_local! {
    /// True while the library creates an object for its own use.
    static WRAPS_INTERNALLY: Cell<bool> = const { Cell::new(false) };
    /// True if the library has just received a file for which it will create an identifier.
    static FILE_REQUESTED: Cell<bool> = const { Cell::new(false) };
}

/// Records whether the next file wrapped in this thread goes to the application.
pub(super) fn set_file_requested(given: bool) {
    FILE_REQUESTED.set(given);
}

/// Runs a call in which the library wraps a file for its own use.
pub(super) fn wrap_internally<T>(call: impl FnOnce() -> T) -> T {
    WRAPS_INTERNALLY.set(true);
    let result = call();
    WRAPS_INTERNALLY.set(false);
    result
}

/// The state needed to wrap objects that the connector below creates.
struct Context {
    vol: Hid,
    under: P,
    file: Option<Arc<OpenStore>>,
}

impl Object {
    /// Returns the object of a callback's argument.
    ///
    /// # Safety
    /// `object` was made by [`Object::wrap`] and is not closed.
    pub(super) unsafe fn from_pointer<'a>(object: P) -> &'a Object {
        // SAFETY: by this function's contract.
        unsafe { &*object.cast::<Object>() }
    }

    /// Returns the object below, or null for null.
    ///
    /// # Safety
    /// As for [`Object::from_pointer`], or null.
    pub(super) unsafe fn under(object: P) -> P {
        if object.is_null() {
            return object;
        }
        // SAFETY: by this function's contract.
        unsafe { Object::from_pointer(object) }.under
    }

    /// Wraps an object of the connector below; null, which is failure, stays null.
    pub(super) fn wrap(
        under: P,
        vol: Hid,
        file: Option<&Arc<OpenStore>>,
        dataset: Option<Box<StoreDataset>>,
    ) -> P {
        if under.is_null() {
            return under;
        }
        if let Some(file) = file {
            file.held();
        }
        Box::into_raw(Box::new(Object {
            under,
            vol,
            file: file.cloned(),
            dataset,
            sources: None,
            told: true,
        }))
        .cast()
    }

    /// Like [`Object::wrap`], for a dataset that the connector below opened, which may belong to a store. A
    /// stub whose dataset cannot be found in the store is an error, since the native dataset has no data.
    pub(super) fn wrap_dataset(
        slot: &'static Slot,
        under: P,
        vol: Hid,
        file: Option<&Arc<OpenStore>>,
    ) -> Outcome<P> {
        if under.is_null() {
            return Ok(under);
        }
        match store::divert(slot, under, vol, file) {
            Ok(Some((file, dataset))) => Ok(Object::wrap(under, vol, Some(&file), Some(dataset))),
            Ok(None) => {
                let sources = Sources::from_dataset(slot, under, vol);
                if sources.is_some() {
                    slot.reached(()).inspect_err(|_| close_dataset(slot, under, vol))?;
                }
                let object = Object::wrap(under, vol, file, None);
                // SAFETY: made above, and not shared yet.
                unsafe { (*object.cast::<Object>()).sources = sources };
                Ok(object)
            }
            Err(error) => {
                close_dataset(slot, under, vol);
                Err(error)
            }
        }
    }

    /// Wraps an object that the connector below opened by a name. An object of a store that this process
    /// writes, reached through a link to its file, is replaced by the one that this process has written.
    pub(super) fn wrap_opened(
        slot: &'static Slot,
        kind: c_int,
        under: P,
        vol: Hid,
        file: Option<&Arc<OpenStore>>,
    ) -> Outcome<P> {
        match store::live_object(slot, kind, under, vol, file)? {
            Some(LiveObject { under, vol, file }) => Object::wrap_kind(slot, kind, under, vol, Some(&file)),
            None => Object::wrap_kind(slot, kind, under, vol, file),
        }
    }

    /// Calls [`Object::wrap`] or [`Object::wrap_dataset`], by kind.
    pub(super) fn wrap_kind(
        slot: &'static Slot,
        kind: c_int,
        under: P,
        vol: Hid,
        file: Option<&Arc<OpenStore>>,
    ) -> Outcome<P> {
        if kind == DATASET {
            return Object::wrap_dataset(slot, under, vol, file);
        }
        Ok(Object::wrap(under, vol, file, None))
    }

    /// Closes the lower object, then frees ours. When the last object of a store's file is closed, the writer
    /// ends. If that fails, the application gets the error and may close again; objects that were closed stay
    /// closed.
    ///
    /// # Safety
    /// As for [`Object::from_pointer`]; after success it is not used any more.
    pub(super) unsafe fn close(object: P, lower: impl FnOnce(P, Hid) -> Herr) -> Outcome<Herr> {
        // SAFETY: by this function's contract.
        let file = unsafe { Object::from_pointer(object) }.file.clone();
        let mut reported = store::report_at_exit(file.as_deref());
        // SAFETY: by this function's contract.
        let outcome = unsafe { Object::close_once(object, lower) };
        match &outcome {
            Ok(status) if *status >= 0 => reported.succeeded(),
            Ok(_) => {}
            Err(failure) => reported.failed(failure),
        }
        outcome
    }

    /// Closes an object, without a report at exit.
    ///
    /// # Safety
    /// As for [`Object::close`].
    unsafe fn close_once(object: P, lower: impl FnOnce(P, Hid) -> Herr) -> Outcome<Herr> {
        // SAFETY: by this function's contract; it is not closed by another thread at the same time.
        let ours = unsafe { &mut *object.cast::<Object>() };
        if !ours.under.is_null() {
            if let Some(file) = ours.file.as_ref().filter(|_| ours.told) {
                file.before_close()?;
            }
            let status = lower(ours.under, ours.vol);
            if status < 0 {
                return Ok(status);
            }
            ours.under = null_mut();
            // The dataset's identifiers belong to the library, which is still loaded.
            ours.dataset = None;
        }
        if std::mem::replace(&mut ours.told, false)
            && let Some(file) = &ours.file
        {
            file.after_close()?;
        }
        // SAFETY: by this function's contract.
        unsafe { Object::free(object) };
        Ok(0)
    }

    /// Frees an object without closing the lower one.
    ///
    /// # Safety
    /// As for [`Object::from_pointer`]; it is not used any more.
    unsafe fn free(object: P) {
        // SAFETY: by this function's contract it came from Box::into_raw.
        let object = unsafe { Box::from_raw(object.cast::<Object>()) };
        if let Some(file) = object.file.as_ref().filter(|_| object.told) {
            file.released();
        }
    }
}

/// Closes a dataset of the connector below that is not shared.
fn close_dataset(slot: &'static Slot, under: P, vol: Hid) {
    // SAFETY: a lower dataset that is not shared.
    slot.keep_errors(|| unsafe { (slot.api.dataset_close)(under, vol, 0, NO_REQUEST) });
}

/// Returns the object of the terminal connector.
pub(super) unsafe extern "C" fn get_object<const L: usize>(object: P) -> P {
    enter::<L, _>(null_mut(), |slot| {
        // SAFETY: HDF5 passes an object of ours.
        let object = unsafe { Object::from_pointer(object) };
        // SAFETY: the lower object and its connector.
        Ok(unsafe { (slot.api.get_object)(object.under, object.vol) })
    })
}

pub(super) unsafe extern "C" fn get_wrap_context<const L: usize>(object: P, context: *mut P) -> Herr {
    enter_within::<L, _>(-1, |slot| {
        // SAFETY: HDF5 passes an object of ours.
        let object = unsafe { Object::from_pointer(object) };
        let mut under = null_mut();
        // SAFETY: the lower object and a live place for its context.
        let status = unsafe { (slot.api.get_wrap_context)(object.under, object.vol, &raw mut under) };
        let made = Box::new(Context { vol: object.vol, under, file: object.file.clone() });
        // SAFETY: HDF5 passes a live place.
        unsafe { *context = Box::into_raw(made).cast() };
        Ok(status)
    })
}

pub(super) unsafe extern "C" fn wrap_object<const L: usize>(under: P, kind: c_int, context: P) -> P {
    enter_within::<L, _>(null_mut(), |slot| {
        // SAFETY: HDF5 passes a context that get_wrap_context made.
        let context = unsafe { &*context.cast::<Context>() };
        // SAFETY: an object of the connector below, and its context.
        let under = unsafe { (slot.api.wrap_object)(under, kind, context.vol, context.under) };
        let forgotten =
            kind == DATATYPE || (kind == FILE && !FILE_REQUESTED.replace(false)) || WRAPS_INTERNALLY.get();
        if !under.is_null() && forgotten {
            let file = context.file.clone();
            let object = Object { under, vol: context.vol, file, dataset: None, sources: None, told: false };
            return Ok(Box::into_raw(Box::new(object)).cast());
        }
        Object::wrap_kind(slot, kind, under, context.vol, context.file.as_ref())
    })
}

pub(super) unsafe extern "C" fn unwrap_object<const L: usize>(object: P) -> P {
    enter::<L, _>(null_mut(), |slot| {
        // SAFETY: HDF5 passes an object of ours.
        let ours = unsafe { Object::from_pointer(object) };
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
    enter_within::<L, _>(-1, |slot: &'static Slot| {
        // SAFETY: HDF5 gives up a context that get_wrap_context made.
        let context = unsafe { Box::from_raw(context.cast::<Context>()) };
        if context.under.is_null() {
            return Ok(0);
        }
        // SAFETY: the lower context, given up with ours.
        Ok(slot.keep_errors(|| unsafe { (slot.api.free_wrap_context)(context.under, context.vol) }))
    })
}
