//! Whether the caller wants no more of what it waits for, as by pressing Ctrl-C.

use super::sigint;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A wait is looked at so often.
pub(crate) const LOOK: Duration = Duration::from_millis(200);

static ASK: OnceLock<fn() -> bool> = OnceLock::new();
static BEGIN: OnceLock<Instant> = OnceLock::new();
/// When somebody last wanted no more, in milliseconds: it goes for all that waited then, though one thread alone is told.
static WANTED: AtomicU64 = AtomicU64::new(0);

/// Sets what is asked while a worker computes: if it says `true`, the worker is ended, and the read is an error. Set once for the
/// process.
pub fn set_interrupt(ask: fn() -> bool) {
    BEGIN.get_or_init(Instant::now);
    // Whoever came first stays.
    ASK.get_or_init(|| ask);
}

/// A wait that can be stopped.
pub(crate) struct Wait {
    start: Instant,
    /// In a program that was not told of us, which [`set_interrupt`] would, and handles SIGINT itself.
    signals: Option<sigint::Watch>,
}

impl Wait {
    pub(crate) fn begin() -> Self {
        let signals = if ASK.get().is_none() { sigint::Watch::begin() } else { None };
        Wait { start: Instant::now(), signals }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Whether to stop.
    pub(crate) fn is_unwanted(&self) -> bool {
        self.signals.as_ref().is_some_and(sigint::Watch::has_come) || is_wanted(self.start)
    }
}

/// Whether to stop what began at `start`.
fn is_wanted(start: Instant) -> bool {
    let (Some(ask), Some(begin)) = (ASK.get(), BEGIN.get()) else { return false };
    let milliseconds = |at: Instant| {
        u64::try_from(at.saturating_duration_since(*begin).as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    };
    if ask() {
        WANTED.fetch_max(milliseconds(Instant::now()), Ordering::Relaxed);
        return true;
    }
    WANTED.load(Ordering::Relaxed) > milliseconds(start)
}
