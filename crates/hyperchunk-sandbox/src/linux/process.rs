//! Smaller restrictions of a process, each made by one or two system calls.

use std::ffi::{c_int, c_ulong};
use std::fs;
use std::mem;
use std::os::fd::RawFd;
use std::ptr;

use super::Runtime;
use crate::error::{Error, Result, fail};

const NONE: c_ulong = 0;

/// Returns the error for a failed read in `/proc`.
pub fn proc_error(what: &str, error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::new(format!(
            "{what}: expected the list of this process's threads, got none, since no /proc is mounted here, and without it the sandbox cannot be applied; mount it (mount -t proc proc /proc), or have the container do so"
        )),
        _ => Error::io(what, error),
    }
}

/// Fails unless the calling thread is the only one: Landlock and seccomp filters would not cover the others.
pub(super) fn require_one_thread() -> Result<()> {
    let failed = |error: std::io::Error| proc_error("lockdown: /proc/self/task", &error);
    let tasks = fs::read_dir("/proc/self/task").map_err(failed)?;
    let tasks: Vec<fs::DirEntry> = tasks.collect::<Result<_, _>>().map_err(failed)?;
    // A single task is the caller, whatever its number is in this /proc.
    if tasks.len() == 1 {
        return Ok(());
    }
    let own = std::process::id().to_string();
    let others: Vec<_> = tasks.iter().filter(|task| task.file_name() != own.as_str()).collect();
    let name = |task: &&fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        format!("{:?}", name.trim_end())
    };
    let names: Vec<String> = others.iter().take(8).map(name).collect();
    fail!(
        "lockdown: expected one thread, got {} ({}): a library that was loaded (an import that the profile grants) starts threads when it is loaded, which the sandbox would not cover; grant it to no profile",
        tasks.len(),
        names.join(", ")
    )
}

/// Makes the OOM killer prefer this process. A failure (where /proc cannot be written) is ignored, since this
/// is no security boundary.
pub fn prefer_oom_kill() {
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
}

/// Leaves the terminal and the host's process group by starting a session. A process that already leads a
/// group keeps it.
pub(super) fn leave_session() {
    // SAFETY: setsid has no memory effects.
    let _ = unsafe { libc::setsid() };
}

/// Resets signal settings that were inherited or made by runtimes, so that a crash or an exceeded CPU limit
/// ends the process with the corresponding signal: an ignored SIGXCPU would disable that limit, and a handler
/// that reports a crash would itself violate the seccomp filter.
///
/// WebAssembly keeps the three handlers that turn faults of a module into traps; they end the process at any
/// other fault.
pub(super) fn default_signals(runtime: Runtime) -> Result<()> {
    let traps = [libc::SIGSEGV, libc::SIGFPE, libc::SIGILL];
    let traps = traps.into_iter().filter(|_| runtime != Runtime::Wasm);
    for signal in [libc::SIGXCPU, libc::SIGBUS, libc::SIGABRT, libc::SIGTERM].into_iter().chain(traps) {
        // SAFETY: SIG_DFL is a valid disposition of each of these signals.
        if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(Error::last_os("lockdown: signal"));
        }
    }
    // SAFETY: a sigset_t is a plain array of integers.
    let mut none: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: `none` is a local that sigemptyset only writes to.
    unsafe { libc::sigemptyset(&mut none) };
    // SAFETY: `none` is initialised and the old mask is not asked for.
    if unsafe { libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut()) } != 0 {
        return Err(Error::last_os("lockdown: sigprocmask"));
    }
    Ok(())
}

/// Ensures that no program started by this process can gain privileges.
pub(super) fn no_new_privileges() -> Result<()> {
    prctl("PR_SET_NO_NEW_PRIVS", libc::PR_SET_NO_NEW_PRIVS, 1)
}

/// Forbids core dumps, and inspection of this process by other processes of the user.
pub(super) fn forbid_inspection() -> Result<()> {
    prctl("PR_SET_DUMPABLE", libc::PR_SET_DUMPABLE, 0)
}

/// Reverts [`forbid_inspection`] while `/proc/self/uid_map` must be writable.
pub(super) fn allow_inspection() -> Result<()> {
    prctl("PR_SET_DUMPABLE", libc::PR_SET_DUMPABLE, 1)
}

fn unsigned(value: c_int) -> c_ulong {
    c_ulong::try_from(value).unwrap_or_default()
}

fn prctl(name: &str, option: c_int, value: c_ulong) -> Result<()> {
    // SAFETY: every option that is used here takes integers only and changes attributes of this process.
    if unsafe { libc::prctl(option, value, NONE, NONE, NONE) } != 0 {
        return Err(Error::last_os(format_args!("lockdown: {name}")));
    }
    Ok(())
}

/// Makes reading the processor's cycle counter a fault. This also disables the fine clocks of the vDSO, which
/// read that counter. Returns whether the system supports it.
pub(super) fn forbid_cycle_counter() -> bool {
    prctl("PR_SET_TSC", libc::PR_SET_TSC, unsigned(libc::PR_TSC_SIGSEGV)).is_ok()
}

/// Ensures that memory that is or was writable never becomes executable, in addition to the seccomp filter.
/// Older kernels lack this setting.
pub(super) fn forbid_new_code() {
    const PR_SET_MDWE: c_int = 65;
    const REFUSE_EXEC_GAIN: c_ulong = 1;
    let _ = prctl("PR_SET_MDWE", PR_SET_MDWE, REFUSE_EXEC_GAIN);
}

/// Restricts speculative execution in this process, whose side channels could reveal data of other processes:
/// no load passes an earlier store with an unknown address, and no indirect branch is predicted from other
/// processes' branches. Permanent, where the system supports it.
pub(super) fn bound_speculation() {
    const PR_SET_SPECULATION_CTRL: c_int = 53;
    const STORE_BYPASS: c_ulong = 0;
    const INDIRECT_BRANCH: c_ulong = 1;
    const FORCE_DISABLE: c_ulong = 1 << 3;
    for which in [STORE_BYPASS, INDIRECT_BRANCH] {
        // The kernel rejects a setting that it applies to all processes already, or does not support.
        // SAFETY: the option takes numbers and changes an attribute of this process.
        unsafe { libc::prctl(PR_SET_SPECULATION_CTRL, which, FORCE_DISABLE, NONE, NONE) };
    }
}

/// Closes every descriptor that is not in `keep`.
pub(super) fn close_descriptors_but(keep: &[RawFd]) -> Result<()> {
    for (first, last) in gaps(keep)? {
        // SAFETY: descriptors are numbers; the owner of a closed one is never used again (see `restrict`).
        if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0_u32) } != 0 {
            return Err(Error::last_os("lockdown: close_range"));
        }
    }
    Ok(())
}

/// Returns the ranges of descriptors between those in `keep`, both ends included.
pub(super) fn gaps(keep: &[RawFd]) -> Result<Vec<(u32, u32)>> {
    let mut sorted = keep
        .iter()
        .map(|fd| u32::try_from(*fd))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| Error::new("lockdown: a descriptor to keep is negative"))?;
    sorted.sort_unstable();
    let mut gaps = Vec::new();
    let mut next = 0;
    for fd in sorted {
        if fd > next {
            gaps.push((next, fd - 1));
        }
        next = next.max(fd + 1);
    }
    gaps.push((next, u32::MAX));
    Ok(gaps)
}

/// Drops every capability: a worker started by root has some, and so has a process in its own user namespace.
pub(super) fn drop_capabilities() -> Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: c_int,
    }
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Data {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header { version: VERSION_3, pid: 0 };
    let none = [Data { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: header and data have the kernel's layout of version 3, which reads two data elements.
    if unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) } != 0 {
        return Err(Error::last_os("lockdown: capset"));
    }
    Ok(())
}

/// Clears READ_IMPLIES_EXEC, which a process inherits and which would defeat the rule against executable
/// memory.
pub(super) fn clear_personality() -> Result<()> {
    const QUERY: c_ulong = 0xffff_ffff;
    // SAFETY: personality takes an integer and changes flags of this process only; this value changes none.
    let current = unsafe { libc::personality(QUERY) };
    if current < 0 {
        return Err(Error::last_os("lockdown: personality"));
    }
    if current & libc::READ_IMPLIES_EXEC == 0 {
        return Ok(());
    }
    // SAFETY: as above; this value clears one flag.
    if unsafe { libc::personality(unsigned(current & !libc::READ_IMPLIES_EXEC)) } < 0 {
        return Err(Error::last_os("lockdown: personality"));
    }
    Ok(())
}
