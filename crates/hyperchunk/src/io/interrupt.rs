//! Whether the caller wants no more of what it waits for, as by pressing Ctrl-C.

use std::sync::OnceLock;

static ASK: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets what is asked, on the thread that waits for a network, ten times a second: if it says `true`, the read ends with an
/// error. Set once for the process.
pub fn set_interrupt(ask: fn() -> bool) {
    // Whoever came first stays.
    ASK.get_or_init(|| ask);
}

/// Whether to stop waiting. Asked by a thread that waits.
#[must_use]
pub fn is_wanted() -> bool {
    ASK.get().is_some_and(|ask| ask())
}
