//! VOL connector for sharded stores and files over a network. Everything is passed on to native HDF5, except
//! the raw data of datasets in a sharded store.
//!
//! HDF5 passes every call of the application to one callback of [`class`]. An object of ours is a box around
//! the object of the connector below, which is native HDF5 unless `under_vol` says otherwise. A process may
//! contain several libhdf5: each has a [`slot`] with its own functions, and its own instances of the
//! callbacks, which are generic over the slot's number.
//!
//! **Invariant:** messages that a failed call left on the error stack stay there: HDF5 calls for cleaning up
//! go through [`slot::Slot::keep_errors`].

#![allow(clippy::too_many_arguments, reason = "HDF5's callbacks have as many as they have")]

mod api;
mod class;
mod dataset;
mod driver;
mod failure;
mod file;
mod forward;
mod info;
mod introspect;
mod link;
mod mpi;
mod object;
mod options;
mod remote;
mod slot;
mod store;

use crate::library::Library;
use std::ffi::{CStr, c_void};

/// The connector's name, for `HDF5_VOL_CONNECTOR`.
pub const NAME: &CStr = c"hyperchunk";

/// Implements `H5PLget_plugin_info`, given its return address: returns the class for the calling libhdf5, or
/// null.
pub extern "C" fn plugin_info(caller: usize) -> *const c_void {
    crate::filter::keep_loaded();
    hyperchunk_store::register();
    let found = std::panic::catch_unwind(|| Library::that_contains(caller).and_then(slot::class_for));
    match found {
        Ok(Ok(class)) => class.cast(),
        Ok(Err(error)) => {
            if let Ok(library) = Library::that_contains(caller) {
                crate::errors::push(library, crate::errors::Area::Store, error);
            }
            std::ptr::null()
        }
        Err(_) => std::ptr::null(),
    }
}
