//! Scope of process ids: the ids of two processes are comparable only within one scope.

use crate::LogHeader;
use std::sync::OnceLock;

/// Returns a hash of this machine's boot id and the process namespace; 0 if the system does not
/// provide them.
#[must_use]
pub fn place() -> u64 {
    static PLACE: OnceLock<u64> = OnceLock::new();
    *PLACE.get_or_init(|| {
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok();
        let namespace = std::fs::read_link("/proc/self/ns/pid").ok();
        let (Some(boot), Some(namespace)) = (boot, namespace) else { return 0 };
        let text = [boot.as_slice(), namespace.as_os_str().as_encoded_bytes()].concat();
        twox_hash::XxHash3_64::oneshot(&text).max(1)
    })
}

/// Returns whether a process is running; `None` if its scope is another one.
#[must_use]
pub(crate) fn is_running(scope: u64, process: u32) -> Option<bool> {
    (scope != 0 && process != 0 && scope == place()).then(|| exists(process))
}

/// Returns whether a process exists, which `/proc` may hide if it belongs to another user.
#[cfg(unix)]
fn exists(process: u32) -> bool {
    let Ok(process) = libc::pid_t::try_from(process) else { return false };
    // SAFETY: signal 0 is not sent; it is only checked whether one could be sent.
    let found = unsafe { libc::kill(process, 0) } == 0;
    found || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

#[cfg(not(unix))]
fn exists(_: u32) -> bool {
    true
}

/// Returns whether the process that wrote a log is known to have ended.
#[must_use]
pub(crate) fn is_stopped(header: &LogHeader) -> bool {
    is_running(header.place, header.process) == Some(false)
}
