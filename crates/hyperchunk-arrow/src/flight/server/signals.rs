//! Signals that ask a server, or a follower, to stop.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval at which waiting code checks for a signal.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

static RECEIVED: AtomicBool = AtomicBool::new(false);

/// Guard that catches SIGINT and SIGTERM while it exists.
pub struct Signals {
    #[cfg(unix)]
    before: [(libc::c_int, libc::sigaction); 2],
}

#[cfg(unix)]
extern "C" fn on_signal(_: libc::c_int) {
    RECEIVED.store(true, Ordering::Relaxed);
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
        RECEIVED.store(false, Ordering::Relaxed);
        Self {
            #[cfg(unix)]
            before: [libc::SIGINT, libc::SIGTERM].map(|signal| (signal, replace(signal, &handler()))),
        }
    }

    /// Returns whether a signal was received.
    #[must_use]
    pub fn received(&self) -> bool {
        is_received()
    }

    /// Waits for a signal or a timeout; returns whether a signal was received.
    #[must_use]
    pub fn wait_for(&self, mut time: Duration) -> bool {
        while !is_received() && !time.is_zero() {
            let step = time.min(POLL_INTERVAL);
            std::thread::sleep(step);
            time -= step;
        }
        is_received()
    }

    /// Waits for a signal.
    pub(super) async fn wait() {
        while !is_received() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

fn is_received() -> bool {
    RECEIVED.load(Ordering::Relaxed) || hyperchunk::io::is_interrupted()
}

#[cfg(unix)]
fn handler() -> libc::sigaction {
    // SAFETY: sigaction has only numbers and nullable pointers, so all zeros is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
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
