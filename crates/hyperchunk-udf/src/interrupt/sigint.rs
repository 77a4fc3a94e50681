//! Detection of SIGINT while a program waits in libhdf5 for a function: the program's own handler still runs,
//! and ours counts the signal.
//!
//! While a thread waits, our handler replaces the program's, and calls it. Nothing is done if the program has
//! the default action for SIGINT, which ends it, or ignores SIGINT.

use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Number of signals received by our handler.
static ARRIVED: AtomicU64 = AtomicU64::new(0);
/// Program's handler, and whether it takes three arguments.
static HANDLER: AtomicUsize = AtomicUsize::new(libc::SIG_IGN);
static TAKES_INFO: AtomicBool = AtomicBool::new(false);
static STATE: Mutex<State> = Mutex::new(State { waits: 0, program: None, is_off: false });

struct State {
    /// Number of waiting threads.
    waits: usize,
    /// Program's action, while ours is installed.
    program: Option<libc::sigaction>,
    /// Set if the program installed another handler meanwhile, which may call ours: ours must not be
    /// installed on top of it.
    is_off: bool,
}

/// Wait during which SIGINT is detected.
pub(super) struct SigintWatch {
    before: u64,
}

impl SigintWatch {
    /// Starts a wait, or returns `None` if the program does not handle SIGINT.
    pub(super) fn begin() -> Option<Self> {
        let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        if state.program.is_none() {
            state.program = if state.is_off { None } else { install() };
        }
        state.program?;
        state.waits = state.waits.saturating_add(1);
        Some(SigintWatch { before: ARRIVED.load(Ordering::Relaxed) })
    }

    pub(super) fn has_come(&self) -> bool {
        ARRIVED.load(Ordering::Relaxed) != self.before
    }
}

impl Drop for SigintWatch {
    fn drop(&mut self) {
        let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        state.waits = state.waits.saturating_sub(1);
        if state.waits > 0 {
            return;
        }
        let Some(program) = state.program.take() else { return };
        if current().is_some_and(|now| now.sa_sigaction == handler_address()) {
            // SAFETY: the program's own action, as returned by the system.
            unsafe { libc::sigaction(libc::SIGINT, &raw const program, null_mut()) };
        } else {
            state.is_off = true;
        }
    }
}

fn handler_address() -> usize {
    on_signal as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) as usize
}

fn current() -> Option<libc::sigaction> {
    // SAFETY: all zeros is a valid sigaction, which the system fills.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(libc::SIGINT, null(), &raw mut now) == 0).then_some(now)
    }
}

/// Installs our handler and returns the program's action; `None` if the program has no handler that can be
/// called from ours.
fn install() -> Option<libc::sigaction> {
    let program = current()?;
    let is_handled = !matches!(program.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
        && program.sa_sigaction != handler_address();
    if !is_handled || program.sa_flags & libc::SA_RESETHAND != 0 {
        return None;
    }
    HANDLER.store(program.sa_sigaction, Ordering::Relaxed);
    TAKES_INFO.store(program.sa_flags & libc::SA_SIGINFO != 0, Ordering::Release);
    let mut own = program;
    own.sa_sigaction = handler_address();
    own.sa_flags |= libc::SA_SIGINFO;
    // SAFETY: a handler that only counts and calls the program's, with the program's mask and flags. The code
    // stays loaded: plugins keep themselves.
    (unsafe { libc::sigaction(libc::SIGINT, &raw const own, null_mut()) } == 0).then_some(program)
}

extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    type SimpleHandler = extern "C" fn(libc::c_int);
    type InfoHandler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    ARRIVED.fetch_add(1, Ordering::Relaxed);
    let takes_info = TAKES_INFO.load(Ordering::Acquire);
    let handler = HANDLER.load(Ordering::Relaxed);
    if matches!(handler, libc::SIG_DFL | libc::SIG_IGN) {
        return;
    }
    // SAFETY: the program's handler, called as the system would call it.
    unsafe {
        if takes_info {
            std::mem::transmute::<usize, InfoHandler>(handler)(signal, info, context);
        } else {
            std::mem::transmute::<usize, SimpleHandler>(handler)(signal);
        }
    }
}
