//! Whether the caller wants no more of what it waits for, as by pressing Ctrl-C.

use crate::{Error, ErrorKind, Result};
use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

static ASK: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets what is asked, on the thread that waits for a network, ten times a second: if it says `true`, the read ends with an
/// error. Set once for the process.
pub fn set_interrupt(ask: fn() -> bool) {
    // Whoever came first stays.
    ASK.get_or_init(|| ask);
}

/// Tells whether whoever wanted something has given it up.
pub type Ask = Arc<dyn Fn() -> bool + Send + Sync>;

thread_local! {
    /// For what this thread does at the moment.
    static OWN: RefCell<Option<Ask>> = const { RefCell::new(None) };
}

/// Does something that is given up as soon as `ask` says so: between chunks, while a network is waited for, while a function of
/// a live dataset runs. Threads that the engine starts for it ask, too.
pub fn with_interrupt<T>(ask: Option<Ask>, work: impl FnOnce() -> T) -> T {
    struct Back(Option<Ask>);
    impl Drop for Back {
        fn drop(&mut self) {
            drop(replace(self.0.take()));
        }
    }
    let _back = Back(replace(ask));
    work()
}

/// Sets what this thread asks. One that ends, on which HDF5 closes files, has no place for it any more: it is not given up.
fn replace(ask: Option<Ask>) -> Option<Ask> {
    OWN.try_with(|own| own.replace(ask)).ok().flatten()
}

/// What this thread asks, to be handed to another that does a part of it.
#[must_use]
pub fn current_interrupt() -> Option<Ask> {
    OWN.try_with(|own| own.borrow().clone()).ok().flatten()
}

/// Fails if what is being done was given up.
pub(crate) fn check(ask: Option<&Ask>) -> Result<()> {
    match ask {
        Some(ask) if ask() => Err(Error::new(ErrorKind::Io, "interrupted: nobody waits for it any more")),
        _ => Ok(()),
    }
}

/// Whether to stop waiting. Asked by a thread that waits.
#[must_use]
pub fn is_wanted() -> bool {
    current_interrupt().is_some_and(|ask| ask()) || ASK.get().is_some_and(|ask| ask())
}
