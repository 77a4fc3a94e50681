//! The guard around every entry from C: panics are caught, and every failure goes to HDF5's error stack.

use crate::Result;
use crate::errors::{self, Area};
use crate::library::Library;
use crate::notice::Evaluation;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// Runs `body`, a callback of the filter plugin. Pushes its error onto the error stack of the libhdf5 that
/// contains `address` (the caller), and prints it to standard error if the program is unlikely to show that
/// stack. Returns `failed` on an error or a panic.
pub(crate) fn guard<T>(address: usize, failed: T, body: impl FnOnce(&'static Library) -> Result<T>) -> T {
    let library = match catch_unwind(|| Library::that_contains(address)) {
        Ok(Ok(library)) => library,
        Ok(Err(error)) => {
            say_once(&error);
            return failed;
        }
        Err(_) => return failed,
    };
    let evaluation = Evaluation::begin();
    let body = || body(library).inspect_err(|error| evaluation.failed(library, error));
    guard_in(library, Area::Live, failed, || body().map_err(Some))
}

/// Prints, once per process, why live datasets cannot be computed. Used if the caller is not a usable
/// libhdf5, so that there is no error stack to push to.
fn say_once(error: &crate::Error) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // There is no other way to report it if this fails.
        let _ = writeln!(std::io::stderr(), "{}cannot compute live datasets here: {error}", errors::PREFIX);
    });
}

/// Runs `body` and pushes its error onto the error stack of `library`; `None` is an error that is already
/// there.
pub(crate) fn guard_in<T, E: std::fmt::Display>(
    library: &'static Library,
    area: Area,
    failed: T,
    body: impl FnOnce() -> Result<T, Option<E>>,
) -> T {
    guarded(failed, body, |error| errors::push(library, area, error))
}

/// Like [`guard_in`], for calls that HDF5 makes while it tries alternatives: HDF5 may ignore a failure of
/// such a call, so the error is only added to the stack ([`errors::add`]).
pub(crate) fn guard_within<T, E: std::fmt::Display>(
    library: &'static Library,
    area: Area,
    failed: T,
    body: impl FnOnce() -> Result<T, E>,
) -> T {
    guarded(failed, || body().map_err(Some), |error| errors::add(library, area, error))
}

fn guarded<T, E: std::fmt::Display>(
    failed: T,
    body: impl FnOnce() -> Result<T, Option<E>>,
    tell: impl Fn(&dyn std::fmt::Display),
) -> T {
    let outcome = catch_unwind(AssertUnwindSafe(|| match body() {
        Ok(value) => Ok(value),
        Err(error) => {
            if let Some(error) = error {
                tell(&error);
            }
            Err(())
        }
    }));
    match outcome {
        Ok(Ok(value)) => value,
        Ok(Err(())) => failed,
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
                .unwrap_or_default();
            tell(&format_args!("a defect in hyperchunk, please report it: {text}"));
            failed
        }
    }
}
