//! The wall around a function: everything the worker gives up before it looks at untrusted code.
//!
//! The language's own sandbox is never the boundary; this is. [`restrict`] puts up independent layers, because each
//! stops something that no other does:
//!
//! | Layer | What only it stops |
//! |---|---|
//! | no_new_privs | set-user-id programs (and it is what lets an ordinary user use the next two) |
//! | rlimits | memory and CPU bombs, core dumps with input data in them |
//! | Landlock | files, where a runtime must keep `open` (loading a shared object, a compiler) |
//! | seccomp | everything that is not a file: processes, signals, sockets, `stat`, new kernel interfaces |
//! | namespaces | the network and System V IPC once more; best effort, since many containers refuse them |
//!
//! The first four are mandatory: [`restrict`] **fails closed** and the worker must then exit without touching the
//! function. Nothing here can be undone by the process that called it.
//!
//! A denied system call is never run. It ends the process: ordinary ones through a handler that writes down which call
//! it was ([`StatusPage`], a hint for the error message and no more), and those on the list of calls that no honest
//! function tries, plus the 32-bit and x32 calls, by the kernel's own hand.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod calls;
mod decision;
mod landlock;
mod layers;
mod namespaces;
mod parent;
mod process;
mod rlimits;
mod seccomp;
mod status;
mod syscall_names;
#[cfg(test)]
mod tests;

use std::os::fd::RawFd;
use std::path::PathBuf;

use crate::error::{Result, fail};
use crate::profile::Grants;

pub use layers::Layers;
pub(super) use parent::{die_with_host, set_host};
pub(super) use process::{first_to_go, no_proc};
pub use status::{DENIED_EXIT_CODE, STATUS_MAGIC, StatusPage, StopReason, prepare};
pub use syscall_names::syscall_name;

/// The descriptor of the worker's control socket: the only one that a function's process may send on or receive from.
///
/// It has to be a connected `SOCK_SEQPACKET` (or `SOCK_STREAM`) pair: on such a socket an address given to `sendmsg`
/// leads nowhere.
pub const CONTROL_SOCKET: RawFd = 3;

/// Whether this was built to measure what the sandbox costs (`bench/hdf5_udf.py`): then there is none, and reports and
/// `hyperchunk doctor` say so. No run-time setting does this; a worker built so is refused by every other host.
pub const UNCONTAINED: bool = option_env!("HYPERCHUNK_BUILD_WITHOUT_SANDBOX").is_some();

/// What kind of program is about to run; decides the system calls that it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// LuaJIT inside the worker; `jit` says whether it may make executable memory.
    Lua {
        /// Whether traces are compiled to machine code.
        jit: bool,
    },
    /// A shared object that is about to be loaded. Until [`end_loading`] the process may open files read-only (as far
    /// as Landlock lets it, which is: files that were handed to it) and map them executable.
    Cpp,
    /// CPython with every module that the function may use imported already.
    Python,
    /// WebAssembly. Until [`end_loading`] the process may make memory executable, which is how our compiler, and nothing of
    /// the module, runs; it can never open a file.
    Wasm,
    /// The driver of a GPU, which has threads and devices open already: no code of a function runs in this process, but what the
    /// driver makes of its kernels runs on the GPU. The process keeps what the driver does with what it has open.
    Cuda,
    /// A C++ compiler, which is started by `execve` after [`restrict`] and may start its own passes.
    Compiler,
}

/// What [`restrict`] shall leave to the process.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The kind of program.
    pub runtime: Runtime,
    /// Bytes of address space on top of what is mapped now. Inputs and outputs that are mapped later count.
    pub memory: u64,
    /// Seconds of CPU time of the whole process, from its start. But for a compiler, a soft limit: the
    /// host can raise it for each run.
    pub cpu_seconds: u64,
    /// The largest file that may be written, where one may be at all.
    pub file_size: u64,
    /// Whether the process may measure time more finely than the kernel's ticks, some milliseconds apart. Only for Lua can that be
    /// forbidden: CPython reads the clock whenever it takes a lock, and a module of WebAssembly has no clock but the one that we give it.
    pub fine_clocks: bool,
    /// What the profile grants; nothing to a compiler.
    pub grants: Grants,
    /// The one writable directory of a compiler; `None` for everything else.
    pub scratch: Option<PathBuf>,
    /// A folder with a compiler and its libraries, beside those of the system.
    pub tools: Option<PathBuf>,
    /// A folder that a compiler keeps what it compiles of its own libraries in.
    pub cache: Option<PathBuf>,
    /// The descriptors that stay open. List 0, 1 and 2 too: all others are closed.
    pub keep_descriptors: Vec<RawFd>,
}

/// What [`restrict`] achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The layers that are in force.
    pub layers: Layers,
    /// The number of the kernel's Landlock interface (at least 1).
    pub landlock_abi: u32,
}

/// Gives up capabilities before the driver of a GPU starts its threads, which would keep theirs: [`restrict`] reaches those of the calling
/// thread alone. Drivers work without, as they do for users who are not root.
pub fn before_driver() -> Result<()> {
    if UNCONTAINED { Ok(()) } else { process::drop_capabilities() }
}

/// Puts up every layer around the calling process, for good.
///
/// It must be called when the process has one thread only, after [`prepare`], and after the runtime has read every
/// file that it needs. If it fails, the process is in an unknown, partly restricted state: report the error and exit.
///
/// The process also gets its own session, and ends when its parent does.
pub fn restrict(policy: &Policy) -> Result<Report> {
    match (policy.runtime, &policy.scratch) {
        (Runtime::Compiler, None) => fail!(Worker, "lockdown: a compiler needs a scratch directory"),
        (Runtime::Compiler, Some(_)) | (_, None) => {}
        (_, Some(_)) => fail!(Worker, "lockdown: only a compiler has a scratch directory"),
    }
    if policy.runtime != Runtime::Compiler && (policy.tools.is_some() || policy.cache.is_some()) {
        fail!(Worker, "lockdown: only a compiler has tools and a cache")
    }
    // Filters reach the driver's threads, too; Landlock does not, and they can open nothing without it.
    if policy.runtime != Runtime::Cuda {
        process::require_one_thread()?;
    }
    if UNCONTAINED {
        die_with_host()?;
        return Ok(Report { layers: Layers::NONE, landlock_abi: 0 });
    }
    process::leave_session();
    if policy.runtime != Runtime::Python {
        // Those of Python have it from the process that forks them.
        first_to_go();
    }
    process::default_signals(policy.runtime)?;
    process::no_new_privileges()?;
    process::close_descriptors_but(&policy.keep_descriptors)?;
    let mut layers = Layers::NO_NEW_PRIVS;
    // A process with threads cannot enter a user namespace.
    if policy.runtime != Runtime::Cuda {
        layers |= namespaces::enter(policy.runtime)?;
    }
    process::drop_capabilities()?;
    process::clear_personality()?;
    // Both are reset by the kernel when the credentials change, so not before this point.
    die_with_host()?;
    process::forbid_inspection()?;
    if policy.runtime == (Runtime::Lua { jit: false })
        || (policy.runtime == Runtime::Python && !policy.grants.jit)
    {
        process::forbid_new_code();
    }
    let access = Access { coarse_clocks: has_coarse_clocks(policy), ..Access::of(&policy.grants) };
    if !policy.fine_clocks {
        process::bound_speculation();
    }
    if access.coarse_clocks && process::forbid_cycle_counter() {
        status::tell_fine_clocks()?;
    }
    rlimits::apply(policy, layers)?;
    layers |= Layers::RLIMITS;
    let landlock_abi = landlock::restrict(policy)?;
    layers |= Layers::LANDLOCK;
    seccomp::restrict(policy.runtime, access)?;
    layers |= Layers::SECCOMP;
    Ok(Report { layers, landlock_abi })
}

fn has_coarse_clocks(policy: &Policy) -> bool {
    !policy.fine_clocks && matches!(policy.runtime, Runtime::Lua { .. })
}

/// Ends the loading phase of [`Runtime::Cpp`] or [`Runtime::Wasm`]: from here on no file can be opened or looked at and no memory made
/// executable. In a process that was restricted for another runtime, or with other grants, it is an error.
///
/// The object's constructors ran before this call, with the rights of the loading phase, and could stay there by never
/// returning. So the loading phase must hold as a sandbox by itself (it does; what it lacks is listed in
/// `calls::LOADING`), and this is a reduction on top.
pub fn end_loading(runtime: Runtime, grants: &Grants) -> Result<()> {
    if UNCONTAINED {
        return Ok(());
    }
    seccomp::end_loading(runtime, Access::of(grants))
}

/// Which groups of system calls the grants bring. On which files is Landlock's matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Access {
    read: bool,
    write: bool,
    threads: bool,
    connect: bool,
    /// Machine code that Python makes.
    jit: bool,
    /// No clocks but those that tick every few milliseconds.
    coarse_clocks: bool,
}

impl Access {
    fn of(grants: &Grants) -> Self {
        Access {
            read: grants.has_files(),
            write: !grants.write.is_empty(),
            threads: grants.threads,
            connect: !grants.connect.is_empty(),
            jit: grants.jit,
            coarse_clocks: false,
        }
    }
}
