//! Process control of workers: leaving behind the threads that a library started when it was loaded (the
//! sandbox would not cover them), adopting orphans, and ending with the parent.

use super::SOCKET_FD;
use crate::error::{Error, Result, fail};
use crate::protocol::{self, Reply};
use crate::socket;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Maximum number of checks whether the parent has exited, and the pause between them.
const MAX_CHECKS: u32 = 10_000;
const CHECK_INTERVAL: Duration = Duration::from_micros(100);

/// Makes this process the parent of orphaned descendants.
///
/// # Errors
/// `Io`.
pub fn adopt_orphans() -> Result<()> {
    // SAFETY: the option takes an integer and changes an attribute of this process.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } != 0 {
        return Err(Error::last_os("cannot set PR_SET_CHILD_SUBREAPER"));
    }
    Ok(())
}

/// Makes this process end when its parent ends, the host with pid `host`. This process's own children, the
/// workers, end when it does.
///
/// # Errors
/// `Io`.
pub fn end_with_parent(host: i32) -> Result<()> {
    hyperchunk_sandbox::set_host(host);
    hyperchunk_sandbox::die_with_host()?;
    hyperchunk_sandbox::prefer_oom_kill();
    // Applies to later forks.
    hyperchunk_sandbox::set_host(std::process::id().cast_signed());
    Ok(())
}

/// Returns the number of this process's threads.
fn count() -> Result<usize> {
    let failed = |error: std::io::Error| hyperchunk_sandbox::proc_error("/proc/self/task", &error);
    Ok(std::fs::read_dir("/proc/self/task").map_err(failed)?.count())
}

/// If this process has more than one thread, forks and continues in the child, which has only the calling
/// thread. The parent exits; the child sends its pid to the host. `fork` forks as the language runtime
/// requires.
///
/// # Errors
/// `Io`, `Worker`, and the errors of `fork`.
pub fn leave_behind(fork: impl FnOnce() -> Result<i32>) -> Result<()> {
    if count()? == 1 {
        return Ok(());
    }
    let before = std::process::id();
    if fork()? != 0 {
        // SAFETY: exit handlers must not run: everything that they would clean up belongs to the child now.
        unsafe { libc::_exit(0) }
    }
    // The new parent must be the process that reaps workers before it is asked to signal its end.
    for _ in 0..MAX_CHECKS {
        if std::os::unix::process::parent_id() != before {
            // SAFETY: the host gave us this descriptor, and it stays open while we serve.
            let socket = unsafe { BorrowedFd::borrow_raw(SOCKET_FD) };
            let pid = std::process::id().cast_signed();
            return socket::send(socket, &protocol::encode_reply(&Reply::Moved(pid)), &[]);
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    fail!(Worker, "the multithreaded parent process did not exit within one second of the fork")
}
