//! Signals that ask a server, or a follower, to stop.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval at which waiting code checks for a signal.
const LOOK_EVERY: Duration = Duration::from_millis(50);

static CAME: AtomicBool = AtomicBool::new(false);

/// Guard that catches SIGINT and SIGTERM while it exists.
pub struct Signals {
    #[cfg(unix)]
    before: [(libc::c_int, libc::sigaction); 2],
}

#[cfg(unix)]
extern "C" fn came(_: libc::c_int) {
    CAME.store(true, Ordering::Relaxed);
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signals").finish_non_exhaustive()
    }
}

impl Signals {
    /// Installs the handlers. Only one guard may exist at a time.
    #[must_use]
    pub fn listen() -> Self {
        CAME.store(false, Ordering::Relaxed);
        Self {
            #[cfg(unix)]
            before: [libc::SIGINT, libc::SIGTERM].map(|signal| (signal, replace(signal, &handler()))),
        }
    }

    /// Returns whether a signal was received.
    #[must_use]
    pub fn came(&self) -> bool {
        has_come()
    }

    /// Waits for a signal or a timeout; returns whether a signal was received.
    #[must_use]
    pub fn wait_for(&self, mut time: Duration) -> bool {
        while !has_come() && !time.is_zero() {
            let step = time.min(LOOK_EVERY);
            std::thread::sleep(step);
            time -= step;
        }
        has_come()
    }

    /// Waits for a signal.
    pub(super) async fn wait() {
        while !has_come() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

fn has_come() -> bool {
    CAME.load(Ordering::Relaxed) || hyperchunk::io::is_interrupted()
}

#[cfg(unix)]
fn handler() -> libc::sigaction {
    // SAFETY: all its fields are numbers and pointers, for which zeros mean nothing set.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = came as extern "C" fn(libc::c_int) as usize;
    action.sa_flags = libc::SA_RESTART;
    action
}

#[cfg(unix)]
fn replace(signal: libc::c_int, action: &libc::sigaction) -> libc::sigaction {
    // SAFETY: as above.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both are initialised; the handler does nothing but store to an atomic.
    unsafe { libc::sigaction(signal, action, &raw mut before) };
    before
}

#[cfg(unix)]
impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            replace(*signal, before);
        }
    }
}
