//! The layers, in the order in which [`restrict`] applies them.

mod calls;
mod landlock;
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
use crate::layers::{Layers, UNCONTAINED};

pub use landlock::{LANDLOCK_FOR_FILES, open_granted};
pub use parent::{die_with_host, set_host};
pub use process::{prefer_oom_kill, proc_error};
pub use status::{DENIED_EXIT_CODE, STATUS_MAGIC, StatusPage, StopReason, prepare};
pub use syscall_names::syscall_name;

/// Descriptor of the worker's control socket: the only one on which a function's process may send or receive.
///
/// It has to be a connected `SOCK_SEQPACKET` (or `SOCK_STREAM`) pair: on such a socket an address given to
/// `sendmsg` has no effect.
pub const CONTROL_SOCKET: RawFd = 3;

/// Kind of the program about to run; decides the system calls that it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// LuaJIT inside the worker; `jit` says whether it may make executable memory.
    Lua {
        /// Set if traces are compiled to machine code.
        jit: bool,
    },
    /// Shared object that is about to be loaded. Until [`end_loading`] the process may map files
    /// executable and open those that it was passed or granted: read-only, unless writing is granted.
    Cpp,
    /// CPython, with every module that the function may use already imported.
    Python,
    /// WebAssembly. Until [`end_loading`] the process may make memory executable, which only our compiler
    /// uses, before any code of the module runs. Loading opens no file.
    Wasm,
    /// GPU driver with its threads and devices already open. No code of a function runs in this process, but
    /// the driver runs the function's kernels on the GPU. The process keeps the calls that the driver makes
    /// on its open devices.
    Cuda,
    /// C++ compiler, which is started by `execve` after [`restrict`] and may start its own passes.
    Compiler,
}

/// Rights that a user granted to a program, in addition to its inputs and outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Files and folders that may be read, with everything below them.
    pub read: Vec<PathBuf>,
    /// Files and folders that may be read and written, with everything below them.
    pub write: Vec<PathBuf>,
    /// Set if threads may be started.
    pub threads: bool,
    /// Set if the process gets connected sockets from its host, and may use them.
    pub connect: bool,
    /// Set if Python may generate machine code, as Numba does.
    pub jit: bool,
}

impl Rights {
    /// Returns whether any file is granted.
    pub fn has_files(&self) -> bool {
        !self.read.is_empty() || !self.write.is_empty()
    }
}

/// Rights that [`restrict`] leaves to the process.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Kind of program.
    pub runtime: Runtime,
    /// Bytes of address space in addition to the currently mapped ones. Later mappings of inputs and outputs
    /// count. Not enforced for a GPU driver.
    pub memory: u64,
    /// Seconds of CPU time of the whole process, from its start. Except for a compiler, this is a soft limit,
    /// which the host can raise for each run.
    pub cpu_seconds: u64,
    /// Maximum size of a written file, if writing is granted at all.
    pub file_size: u64,
    /// Set if the process may measure time more finely than the kernel's ticks, some milliseconds apart.
    /// Only for Lua can that be forbidden: CPython reads the clock whenever it takes a lock, and a
    /// WebAssembly module has only the clock that we provide.
    pub fine_clocks: bool,
    /// Granted rights; none for a compiler.
    pub rights: Rights,
    /// The one writable directory of a compiler; `None` for everything else.
    pub scratch: Option<PathBuf>,
    /// Folder with a compiler and its libraries, in addition to the system's.
    pub tools: Option<PathBuf>,
    /// Folder in which a compiler caches its compiled libraries.
    pub cache: Option<PathBuf>,
    /// Descriptors that stay open. List 0, 1 and 2 too: all others are closed.
    pub keep_descriptors: Vec<RawFd>,
}

/// Result of [`restrict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Active layers.
    pub layers: Layers,
    /// Version of the kernel's Landlock interface (at least 1).
    pub landlock_abi: u32,
}

/// Drops capabilities. To be called before the GPU driver starts its threads, which would otherwise keep
/// theirs: [`restrict`] changes only the calling thread's. Drivers work without capabilities, as they do for
/// users who are not root.
pub fn before_driver() -> Result<()> {
    if UNCONTAINED { Ok(()) } else { process::drop_capabilities() }
}

/// Applies every layer to the calling process, permanently.
///
/// Must be called after [`prepare`], after the runtime has read every file that it needs and, except for
/// [`Runtime::Cuda`], while the process has only one thread. If it fails, the process is in an unknown,
/// partly restricted state: report the error and exit.
///
/// The process also gets its own session, and ends when its parent does.
pub fn restrict(policy: &Policy) -> Result<Report> {
    match (policy.runtime, &policy.scratch) {
        (Runtime::Compiler, None) => fail!("lockdown: a compiler needs a scratch directory"),
        (Runtime::Compiler, Some(_)) | (_, None) => {}
        (_, Some(_)) => fail!("lockdown: only a compiler has a scratch directory"),
    }
    if policy.runtime != Runtime::Compiler && (policy.tools.is_some() || policy.cache.is_some()) {
        fail!("lockdown: only a compiler has tools and a cache")
    }
    // The filters are installed in the driver's threads, too. Landlock covers only this thread; the filters
    // let no thread open a file.
    if policy.runtime != Runtime::Cuda {
        process::require_one_thread()?;
    }
    if UNCONTAINED {
        die_with_host()?;
        return Ok(Report { layers: Layers::NONE, landlock_abi: 0 });
    }
    process::leave_session();
    if policy.runtime != Runtime::Python {
        // Python workers inherit this setting from the process that forks them.
        prefer_oom_kill();
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
    // After all changes of credentials (namespaces, capabilities), at which the kernel resets the signal on
    // the host's end and permits inspection again.
    die_with_host()?;
    process::forbid_inspection()?;
    if policy.runtime == (Runtime::Lua { jit: false })
        || (policy.runtime == Runtime::Python && !policy.rights.jit)
    {
        process::forbid_new_code();
    }
    let access = Access { coarse_clocks: has_coarse_clocks(policy), ..Access::from_rights(&policy.rights) };
    if !policy.fine_clocks {
        process::bound_speculation();
    }
    if access.coarse_clocks && process::forbid_cycle_counter() {
        status::record_faults()?;
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

/// Ends the loading phase of [`Runtime::Cpp`] or [`Runtime::Wasm`]: from here on no memory can be made
/// executable, and no file opened or examined unless the profile grants paths. Fails in a process that was
/// restricted for another runtime, or with other rights.
///
/// The object's constructors ran before this call, with the rights of the loading phase, and could keep them
/// by never returning. So the loading phase must be a sufficient sandbox by itself (it is; its gaps are
/// listed in `calls::LOADING`), and this is a further reduction.
pub fn end_loading(runtime: Runtime, rights: &Rights) -> Result<()> {
    if UNCONTAINED {
        return Ok(());
    }
    seccomp::end_loading(runtime, Access::from_rights(rights))
}

/// Groups of system calls that the rights allow. Landlock restricts the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Access {
    read: bool,
    write: bool,
    threads: bool,
    connect: bool,
    /// Machine code generated by Python.
    jit: bool,
    /// Only clocks with a resolution of a few milliseconds.
    coarse_clocks: bool,
}

impl Access {
    fn from_rights(rights: &Rights) -> Self {
        Access {
            read: rights.has_files(),
            write: !rights.write.is_empty(),
            threads: rights.threads,
            connect: rights.connect,
            jit: rights.jit,
            coarse_clocks: false,
        }
    }
}
