//! Idle workers end without another read: their memory and descriptors are given back, and their processes reaped.
//!
//! A thread looks after them for as long as there are any. It blocks all signals, which are for the program's threads.

use super::pool::Pool;
use super::{keep_loaded, mapped, zygote};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What is held by another thread is looked at again after this.
pub(super) const BUSY: Duration = Duration::from_millis(100);
/// The thread's stack: it calls little.
const STACK_BYTES: usize = 128 << 10;
/// While workers are idle, so often it is looked what they do.
const LOOK: Duration = Duration::from_millis(250);

/// The process whose thread runs, or 0. After a fork, the child has none.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Has idle workers ended in time, now that there is one.
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
        // The next read tries again, and clears away those that have ended.
        PROCESS.store(0, Ordering::Release);
    }
}

/// Does `work` with all signals blocked; a thread that it starts keeps them so.
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
            std::thread::sleep(next.saturating_duration_since(Instant::now()).clamp(BUSY, LOOK));
        }
        PROCESS.store(0, Ordering::Release);
        // A session that came after the look has found a thread, unless it came after the store.
        if end_idle().is_none() || PROCESS.swap(std::process::id(), Ordering::AcqRel) != 0 {
            return;
        }
    }
}

/// Ends what was idle for too long; returns when to look again, if anything is left.
fn end_idle() -> Option<Instant> {
    // Workers first: the Python process that forked one does not end before it.
    [Pool::global().end_idle(), mapped::end_idle(), zygote::end_idle()].into_iter().flatten().min()
}
