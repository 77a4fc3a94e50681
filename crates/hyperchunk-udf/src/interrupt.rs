//! Interrupts: detects that the caller cancels its wait, for example with Ctrl-C.

mod sigint;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Interval between checks during a wait.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Callback of the program, if it has one.
static ASK: OnceLock<fn() -> bool> = OnceLock::new();
/// Time at which the callback was set: the origin of `LAST_INTERRUPT`.
static BEGIN: OnceLock<Instant> = OnceLock::new();
/// Time of the last interrupt, in milliseconds since `BEGIN` plus 1; 0 if there was none. It cancels every
/// wait that began before it, because the callback reports an interrupt to one thread only.
static LAST_INTERRUPT: AtomicU64 = AtomicU64::new(0);

/// Sets the callback that is polled while a worker computes. If it returns `true`, the worker is ended and
/// the read fails. Only the first call in a process has an effect.
pub fn set_interrupt(ask: fn() -> bool) {
    BEGIN.get_or_init(Instant::now);
    ASK.get_or_init(|| ask);
}

/// Wait that can be interrupted.
pub(crate) struct Wait {
    start: Instant,
    /// Watches for SIGINT, in programs that handle SIGINT themselves and did not call [`set_interrupt`].
    signals: Option<sigint::SigintWatch>,
}

impl Wait {
    pub(crate) fn begin() -> Self {
        let signals = if ASK.get().is_none() { sigint::SigintWatch::begin() } else { None };
        Wait { start: Instant::now(), signals }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns whether the wait is cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.signals.as_ref().is_some_and(sigint::SigintWatch::has_come) || is_interrupted(self.start)
    }
}

/// Returns whether the callback has cancelled a wait that started at `start`.
fn is_interrupted(start: Instant) -> bool {
    let (Some(ask), Some(begin)) = (ASK.get(), BEGIN.get()) else { return false };
    let milliseconds = |at: Instant| {
        u64::try_from(at.saturating_duration_since(*begin).as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    };
    if ask() {
        LAST_INTERRUPT.fetch_max(milliseconds(Instant::now()), Ordering::Relaxed);
        return true;
    }
    LAST_INTERRUPT.load(Ordering::Relaxed) > milliseconds(start)
}
