//! Clean-up of idle workers without another read: frees their memory and descriptors, and reaps their
//! processes.
//!
//! A thread does this while there are any. It blocks all signals, which belong to the program's threads.

use super::pool::Pool;
use super::{keep_loaded, mapped, zygote};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Delay before retrying a cache that another thread holds.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Size of the thread's stack, which has a shallow call depth.
const STACK_BYTES: usize = 128 << 10;
/// Interval of checking idle workers.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Process whose thread runs, or 0. After a fork, the child has no such thread.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Ensures that the clean-up thread runs, now that there is an idle worker.
pub(super) fn watch() {
    let own = std::process::id();
    if PROCESS.swap(own, Ordering::AcqRel) == own {
        return;
    }
    keep_loaded();
    let started = without_signals(|| {
        std::thread::Builder::new().name("hyperchunk-idle".into()).stack_size(STACK_BYTES).spawn(run).is_ok()
    });
    if !started {
        // The next read tries again, and removes ended workers.
        PROCESS.store(0, Ordering::Release);
    }
}

/// Runs `work` with all signals blocked; a thread started in it keeps them blocked.
pub(super) fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: all zeros is a valid sigset_t; live sets.
    let before = unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    };
    let result = work();
    // SAFETY: the mask from above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    result
}

fn run() {
    loop {
        while let Some(next) = end_idle() {
            std::thread::sleep(
                next.saturating_duration_since(Instant::now()).clamp(RETRY_INTERVAL, POLL_INTERVAL),
            );
        }
        PROCESS.store(0, Ordering::Release);
        // A session added after the check has found this thread, unless it was added after the store.
        if end_idle().is_none() || PROCESS.swap(std::process::id(), Ordering::AcqRel) != 0 {
            return;
        }
    }
}

/// Ends everything that was idle for too long. Returns the time of the next check, if anything is left.
fn end_idle() -> Option<Instant> {
    // Workers first: the Python process that forked one does not end before it.
    [Pool::global().end_idle(), mapped::end_idle(), zygote::end_idle()].into_iter().flatten().min()
}
