//! Cancellation of operations: callbacks that return whether the caller has cancelled, for example by Ctrl-C.

use crate::{Error, ErrorKind, Result};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static ASK: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets the process's callback, which is polled ten times a second on a thread that waits for a network. If
/// it returns `true`, the read ends with an error. Later calls of this function have no effect.
pub fn set_interrupt(ask: fn() -> bool) {
    ASK.get_or_init(|| ask);
}

/// Callback that returns `true` once the operation has been cancelled.
pub type Ask = Arc<dyn Fn() -> bool + Send + Sync>;

thread_local! {
    /// The callback of the operation that this thread runs now.
    static OWN: RefCell<Option<Ask>> = const { RefCell::new(None) };
}

/// Runs `work`, which is cancelled as soon as `ask` returns `true`: between chunks, while waiting for a
/// network, and while a live dataset's function runs. Threads that the engine starts for it poll `ask`,
/// too.
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

/// Replaces this thread's callback and returns the previous one. A thread that is ending (HDF5 closes files
/// there) no longer has thread-local values; its work cannot be cancelled.
fn replace(ask: Option<Ask>) -> Option<Ask> {
    OWN.try_with(|own| own.replace(ask)).ok().flatten()
}

/// Returns this thread's callback, to be passed to another thread that does a part of the work.
#[must_use]
pub fn current_interrupt() -> Option<Ask> {
    OWN.try_with(|own| own.borrow().clone()).ok().flatten()
}

/// Returns an error if the operation was cancelled.
pub(crate) fn check(ask: Option<&Ask>) -> Result<()> {
    match ask {
        Some(ask) if ask() => Err(Error::new(ErrorKind::Io, "interrupted: the operation was cancelled")),
        _ => Ok(()),
    }
}

/// Runs `work`, which is cancelled on all its threads once the process's callback has returned `true` on one
/// of them. `work` gets a callback that returns whether it is cancelled. Returns the result of `work`, and
/// whether it was cancelled.
pub fn with_process_interrupt<T>(work: impl FnOnce(&Ask) -> T) -> (T, bool) {
    let stopped = Arc::new(AtomicBool::new(false));
    let latch = Arc::clone(&stopped);
    let ask: Ask = Arc::new(move || {
        let asked = latch.load(Ordering::Relaxed) || ASK.get().is_some_and(|ask| ask());
        latch.fetch_or(asked, Ordering::Relaxed) || asked
    });
    let done = with_interrupt(Some(Arc::clone(&ask)), || work(&ask));
    (done, stopped.load(Ordering::Relaxed))
}

/// Returns whether this thread's operation was cancelled, by its own callback or the process's.
#[must_use]
pub fn is_wanted() -> bool {
    current_interrupt().is_some_and(|ask| ask()) || ASK.get().is_some_and(|ask| ask())
}
