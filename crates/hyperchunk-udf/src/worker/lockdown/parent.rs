//! The worker does not outlive its host.

use std::ffi::{c_int, c_ulong};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::error::{Error, Result};

/// The exit code of a worker whose host is gone.
pub(super) const HOST_GONE_EXIT_CODE: c_int = 119;

/// The process that has to be the parent; 0 where nobody has said.
static HOST: AtomicI32 = AtomicI32::new(0);

/// Says which process the host of this one, and of those that it forks, is.
pub(in crate::worker) fn set_host(pid: c_int) {
    HOST.store(pid, Ordering::Release);
}

/// Has the kernel end this process, by SIGKILL, when the host ends: no code can block, handle or undo that, since the filter has no
/// `prctl` that would, and what follows changes no credentials.
///
/// The kernel looks at the *thread* that started this process. That is one that lives as long as the host (`host/lasting.rs`), or the
/// only thread of the Python process that forks workers.
pub(in crate::worker) fn die_with_host() -> Result<()> {
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
    // It may have ended before it was asked for. (A parent in another pid namespace has no number here.)
    // SAFETY: getppid cannot fail and has no memory effects.
    let parent = unsafe { libc::getppid() };
    if parent != host && parent != 0 {
        // SAFETY: nothing of this process is to be undone, and nobody is there to tell.
        unsafe { libc::_exit(HOST_GONE_EXIT_CODE) }
    }
    Ok(())
}
