//! The worker does not outlive its host.

use std::ffi::{c_int, c_ulong};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::error::{Error, Result};

/// The exit code of a worker whose host is gone.
pub(super) const HOST_GONE_EXIT_CODE: c_int = 119;

static HOST: AtomicI32 = AtomicI32::new(0);

/// Asks the kernel to tell when the host ends.
///
/// The kernel tells when the *thread* that started this process ends, and a host that keeps its workers may have started
/// this one in a thread pool that is gone by now. Hence a signal with a handler that looks at the host itself, and not
/// SIGKILL. (A compiler loses the handler with `execve` and dies with the thread, which waits for it.)
///
/// Native code could evade this, and gain an existence without a reader in a sandbox with a CPU limit.
pub(super) fn die_with_host() -> Result<()> {
    // SAFETY: getppid cannot fail and has no memory effects.
    HOST.store(unsafe { libc::getppid() }, Ordering::Release);
    let handler: extern "C" fn(c_int) = on_starting_thread_end;
    // SAFETY: sigaction is a plain C structure for which all zeros is a valid value (no flags, empty mask).
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the handler has the signature of one without SA_SIGINFO and does async-signal-safe things only.
    if unsafe { libc::sigaction(libc::SIGHUP, &action, ptr::null_mut()) } != 0 {
        return Err(Error::last_os("lockdown: sigaction"));
    }
    let signal = c_ulong::from(libc::SIGHUP.cast_unsigned());
    // SAFETY: the option takes an integer and changes an attribute of this process.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) } != 0 {
        return Err(Error::last_os("lockdown: PR_SET_PDEATHSIG"));
    }
    Ok(())
}

extern "C" fn on_starting_thread_end(_signal: c_int) {
    // SAFETY: getppid is async-signal-safe and has no memory effects.
    if unsafe { libc::getppid() } != HOST.load(Ordering::Acquire) {
        // SAFETY: _exit is async-signal-safe and does not return.
        unsafe { libc::_exit(HOST_GONE_EXIT_CODE) }
    }
}
