//! Threads that a library starts when it is loaded, which the sandbox would not cover.

use super::SOCKET;
use crate::error::{Error, Result, fail};
use crate::protocol::{self, Answer};
use crate::socket;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// How often, and how long each time, a new process looks whether the one before it has ended.
const LOOKS: u32 = 10_000;
const PAUSE: Duration = Duration::from_micros(100);

/// Makes this process the parent of all that descends from it and whose parent ends.
///
/// # Errors
/// `Io`.
pub fn adopt_orphans() -> Result<()> {
    // SAFETY: the option takes an integer and changes an attribute of this process.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } != 0 {
        return Err(Error::last_os("PR_SET_CHILD_SUBREAPER"));
    }
    Ok(())
}

/// Ends this process, whose children are workers, and them with it, when its parent ends, which is the host of this number.
///
/// # Errors
/// `Io`.
pub fn end_with_parent(host: i32) -> Result<()> {
    super::lockdown::set_host(host);
    super::lockdown::die_with_host()?;
    super::lockdown::first_to_go();
    // What it forks from now on.
    super::lockdown::set_host(std::process::id().cast_signed());
    Ok(())
}

/// The number of this process's threads.
fn count() -> Result<usize> {
    let failed = |error: std::io::Error| super::lockdown::no_proc("/proc/self/task", &error);
    Ok(std::fs::read_dir("/proc/self/task").map_err(failed)?.count())
}

/// Goes on in a copy of this process that has the calling thread alone, if there are others; `fork` makes it, as the runtime has to do
/// it. This process ends, and the host is told which one has taken its place.
///
/// # Errors
/// `Io`, `Worker`, what `fork` gives.
pub fn leave_behind(fork: impl FnOnce() -> Result<i32>) -> Result<()> {
    if count()? == 1 {
        return Ok(());
    }
    let before = std::process::id();
    if fork()? != 0 {
        // SAFETY: no handler of the process's end is to run: all that they would undo is the copy's now.
        unsafe { libc::_exit(0) }
    }
    // Its parent has to be the one that reaps workers before it asks to be told of its end.
    for _ in 0..LOOKS {
        if std::os::unix::process::parent_id() != before {
            // SAFETY: the host gave us this descriptor, and nobody closes it while we serve.
            let socket = unsafe { BorrowedFd::borrow_raw(SOCKET) };
            let pid = std::process::id().cast_signed();
            return socket::send(socket, &protocol::encode_answer(&Answer::Moved(pid)), &[]);
        }
        std::thread::sleep(PAUSE);
    }
    fail!(Worker, "the process that has started threads does not end")
}
