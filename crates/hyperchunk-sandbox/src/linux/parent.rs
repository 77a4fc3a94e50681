//! Ensures that the worker does not outlive its host.

use std::ffi::{c_int, c_ulong};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::error::{Error, Result};

/// Exit code of a worker whose host has ended.
pub(super) const HOST_GONE_EXIT_CODE: c_int = 119;

/// Required parent process; 0 if not set.
static HOST: AtomicI32 = AtomicI32::new(0);

/// Sets the host process of this one, and of its forks.
pub fn set_host(pid: c_int) {
    HOST.store(pid, Ordering::Release);
}

/// Makes the kernel kill this process by SIGKILL when the host ends. No code can block, handle or undo that,
/// since the filter denies the required `prctl`, and no later step changes credentials.
///
/// The kernel watches the *thread* that started this process: one that exists as long as the host
/// (`host/spawner_thread.rs`), or the only thread of the Python process that forks workers.
pub fn die_with_host() -> Result<()> {
    // SAFETY: getppid cannot fail and has no memory effects.
    let parent = unsafe { libc::getppid() };
    let host = match HOST.load(Ordering::Acquire) {
        0 => parent,
        host => host,
    };
    let signal = c_ulong::from(libc::SIGKILL.cast_unsigned());
    // SAFETY: the option takes an integer and changes an attribute of this process.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) } != 0 {
        return Err(Error::last_os("lockdown: PR_SET_PDEATHSIG"));
    }
    // The parent may have ended before the call. (A parent in another pid namespace has pid 0 here.)
    // SAFETY: getppid cannot fail and has no memory effects.
    let parent = unsafe { libc::getppid() };
    if parent != host && parent != 0 {
        // SAFETY: this process has nothing to clean up, and there is no host to report to.
        unsafe { libc::_exit(HOST_GONE_EXIT_CODE) }
    }
    Ok(())
}
