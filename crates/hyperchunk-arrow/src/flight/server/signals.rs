//! Signals that ask the server to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often it is looked at whether one came.
const LOOK_EVERY: Duration = Duration::from_millis(50);

static CAME: AtomicBool = AtomicBool::new(false);

/// Hears of Ctrl-C and of a plain `kill`, as long as it lives.
pub(super) struct Signals {
    #[cfg(unix)]
    before: [(libc::c_int, libc::sigaction); 2],
}

#[cfg(unix)]
extern "C" fn came(_: libc::c_int) {
    CAME.store(true, Ordering::Relaxed);
}

impl Signals {
    pub(super) fn listen() -> Self {
        CAME.store(false, Ordering::Relaxed);
        Self {
            #[cfg(unix)]
            before: [libc::SIGINT, libc::SIGTERM].map(|signal| (signal, replace(signal, &handler()))),
        }
    }

    /// Waits for one.
    pub(super) async fn wait() {
        while !CAME.load(Ordering::Relaxed) && !hyperchunk::io::is_interrupted() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
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
    // SAFETY: both are whole; the handler does nothing but store to an atomic.
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
