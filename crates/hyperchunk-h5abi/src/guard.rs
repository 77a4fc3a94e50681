//! The one guard for every entry from C: no panic gets out, and every failure is on HDF5's error stack.

use crate::errors::{self, PREFIX};
use crate::library::Library;
use crate::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `body` and reports its failure to the library at `address`, the caller's.
pub(crate) fn guard<T>(address: usize, failed: T, body: impl FnOnce(&'static Library) -> Result<T>) -> T {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let library = Library::that_contains(address)?;
        match body(library) {
            Ok(value) => Ok(value),
            Err(error) => {
                errors::push(library, &format!("{PREFIX}{error}"));
                Err(error)
            }
        }
    }));
    match outcome {
        Ok(Ok(value)) => value,
        Ok(Err(_)) => failed,
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
                .unwrap_or_default();
            let error =
                Error::new(ErrorKind::Worker, format!("a defect in hyperchunk, please report it: {text}"));
            if let Ok(library) = Library::that_contains(address) {
                errors::push(library, &format!("{PREFIX}{error}"));
            }
            failed
        }
    }
}
