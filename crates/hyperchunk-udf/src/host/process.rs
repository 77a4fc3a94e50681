//! Start and end of processes, without signal handlers or effects on the host's other children.

use super::spawner_thread;
use crate::error::{Error, Result, fail};
use std::ffi::{CString, OsString};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Process that can be signalled without the risk of hitting another one with a recycled pid.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: libc::pid_t,
    handle: Option<OwnedFd>,
    /// Set for our own children, which we must reap; the others are reaped by their parent.
    child: bool,
    reaped: Option<Exit>,
}

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Exit with this status.
    Status(i32),
    /// Termination by this signal.
    Signal(i32),
    /// Unknown, because other code reaped it.
    Unknown,
}

impl Exit {
    pub(crate) fn from_wait(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Exit::Signal(libc::WTERMSIG(status))
        } else {
            Exit::Status(libc::WEXITSTATUS(status))
        }
    }
}

/// Returns the environment of every worker, which takes nothing from the host's.
fn environment() -> Vec<CString> {
    [
        c"LC_ALL=C.UTF-8",
        c"PATH=/usr/local/bin:/usr/bin:/bin",
        // One thread: the sandbox allows no more.
        c"OPENBLAS_NUM_THREADS=1",
        c"OMP_NUM_THREADS=1",
        c"MKL_NUM_THREADS=1",
        // The allocators of pyarrow (which pandas, xarray and Dask import) and of polars otherwise start a
        // thread when loaded.
        c"JE_ARROW_MALLOC_CONF=background_thread:false",
        c"_RJEM_MALLOC_CONF=background_thread:false",
        // For libhdf5 in a function: the sandbox denies file locks.
        c"HDF5_USE_FILE_LOCKING=FALSE",
        // Keep freed blocks: NumPy's temporaries of one block serve the next.
        c"MALLOC_TRIM_THRESHOLD_=268435456",
        c"MALLOC_MMAP_THRESHOLD_=268435456",
        c"MALLOC_TOP_PAD_=1048576",
    ]
    .map(CString::from)
    .to_vec()
}

/// Returns the additional environment of a worker with a GPU: the user's choice of GPU and of driver, and
/// nvCOMP's path if `decompresses` is set and it is installed.
pub(crate) fn gpu_environment(
    programs: &super::Programs,
    decompresses: bool,
) -> Result<Vec<(String, OsString)>> {
    let mut list: Vec<(String, OsString)> = vec![
        // The sandbox denies writing to the cache.
        ("CUDA_CACHE_DISABLE".into(), "1".into()),
        ("CUDA_MODULE_LOADING".into(), "EAGER".into()),
    ];
    if crate::keys::is_set_uid() {
        return Ok(list);
    }
    let substitute = super::Programs::cuda_driver()?;
    for (name, value) in std::env::vars_os() {
        let Some(name) = name.to_str() else { continue };
        let chosen = ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"].contains(&name);
        // Settings of the driver that replaces the system's in tests.
        if chosen || (substitute.is_some() && name.starts_with("HYPERCHUNK_FAKE_CUDA")) {
            list.push((name.to_owned(), value));
        }
    }
    let nvcomp = if decompresses { programs.nvcomp(substitute.is_some())? } else { None };
    list.extend(nvcomp.map(|path| ("HYPERCHUNK_NVCOMP".to_owned(), path.into_os_string())));
    list.extend(substitute.map(|path| ("HYPERCHUNK_CUDA_DRIVER".to_owned(), path.into_os_string())));
    Ok(list)
}

/// Starts `program`, with `more` in its environment. `fds` become descriptors 3, 4, …; `stdout` and `stderr`
/// the standard ones; all others are closed.
pub(crate) fn spawn(
    program: &Path,
    arguments: &[&std::ffi::OsStr],
    fds: &[BorrowedFd<'_>],
    stdout: BorrowedFd<'_>,
    stderr: BorrowedFd<'_>,
    more: &[(&str, &std::ffi::OsStr)],
) -> Result<Process> {
    let c = |bytes: &[u8]| {
        CString::new(bytes).map_err(|_| {
            Error::new(crate::error::ErrorKind::Worker, "a path or argument contains a NUL".to_owned())
        })
    };
    let path = c(program.as_os_str().as_bytes())?;
    let mut words = vec![path.clone()];
    for a in arguments {
        words.push(c(a.as_bytes())?);
    }
    let mut environment = environment();
    for (name, value) in more {
        environment.push(c(&[name.as_bytes(), b"=", value.as_bytes()].concat())?);
    }
    // Above every number that the new process uses, so that no dup2 overwrites a source.
    let high: Vec<OwnedFd> =
        [stdout, stderr].iter().chain(fds).map(|&fd| duplicate_high(fd)).collect::<Result<_>>()?;
    let launch = Launch { path, words, environment, high };
    // The new process ends with the thread that starts it.
    let pid = match spawner_thread::run(move || launch.start())? {
        Ok(pid) => pid,
        Err(error) => fail!(Worker, "cannot start {}: {error}", program.display()),
    };
    let mut process = Process { pid, handle: None, child: true, reaped: None };
    match open_handle(pid) {
        Ok(handle) => process.handle = handle,
        Err(error) => {
            process.kill();
            process.wait(Duration::from_secs(1));
            return Err(error);
        }
    }
    Ok(process)
}

/// Everything needed to start a process.
struct Launch {
    path: CString,
    words: Vec<CString>,
    environment: Vec<CString>,
    /// Its descriptors from 1 on.
    high: Vec<OwnedFd>,
}

impl Launch {
    fn start(&self) -> std::io::Result<libc::pid_t> {
        let list = |v: &[CString]| {
            v.iter().map(|w| w.as_ptr().cast_mut()).chain([std::ptr::null_mut()]).collect::<Vec<_>>()
        };
        let (argv, envp) = (list(&self.words), list(&self.environment));
        let mut pid = 0;
        // SAFETY: the attribute objects are initialised before use and destroyed after it; every pointer is
        // to live NUL-terminated data; both lists end with null.
        let rc = unsafe {
            let mut actions: libc::posix_spawn_file_actions_t = std::mem::zeroed();
            let mut attributes: libc::posix_spawnattr_t = std::mem::zeroed();
            libc::posix_spawn_file_actions_init(&raw mut actions);
            libc::posix_spawnattr_init(&raw mut attributes);
            let mut signals: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut signals);
            libc::posix_spawnattr_setsigmask(&raw mut attributes, &raw const signals);
            libc::sigfillset(&raw mut signals);
            libc::posix_spawnattr_setsigdefault(&raw mut attributes, &raw const signals);
            let flags = libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
            libc::posix_spawnattr_setflags(&raw mut attributes, libc::c_short::try_from(flags).unwrap_or(0));
            libc::posix_spawn_file_actions_addopen(
                &raw mut actions,
                0,
                c"/dev/null".as_ptr(),
                libc::O_RDONLY,
                0,
            );
            for (target, fd) in (1..).zip(&self.high) {
                libc::posix_spawn_file_actions_adddup2(&raw mut actions, fd.as_raw_fd(), target);
            }
            let rc = libc::posix_spawn(
                &raw mut pid,
                self.path.as_ptr(),
                &raw const actions,
                &raw const attributes,
                argv.as_ptr(),
                envp.as_ptr(),
            );
            libc::posix_spawn_file_actions_destroy(&raw mut actions);
            libc::posix_spawnattr_destroy(&raw mut attributes);
            rc
        };
        if rc == 0 { Ok(pid) } else { Err(std::io::Error::from_raw_os_error(rc)) }
    }
}

/// Lower bound for duplicates: a new process uses smaller numbers.
const MIN_HIGH_FD: libc::c_int = 16;

fn duplicate_high(fd: BorrowedFd<'_>) -> Result<OwnedFd> {
    // SAFETY: plain system call on a live descriptor.
    let copy = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, MIN_HIGH_FD) };
    if copy < 0 {
        let error = std::io::Error::last_os_error();
        // EINVAL here means that the limit of descriptors is below the requested number.
        let is_limit = error.raw_os_error() == Some(libc::EINVAL);
        let error = if is_limit { std::io::Error::from_raw_os_error(libc::EMFILE) } else { error };
        return Err(Error::io("cannot duplicate a descriptor for the worker", &error));
    }
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Opens a pidfd, or returns `None` on kernels without them. Fails if no descriptor is left, since the
/// process could then not be ended reliably.
fn open_handle(pid: libc::pid_t) -> Result<Option<OwnedFd>> {
    // SAFETY: plain system call.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match i32::try_from(fd) {
        // SAFETY: the kernel just gave us this descriptor; pidfd_open sets close-on-exec.
        Ok(fd) if fd >= 0 => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        _ => match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::ENOSYS) => Ok(None),
            _ => Err(Error::last_os("cannot open a descriptor for the worker's process")),
        },
    }
}

impl Process {
    /// Wraps a process that another process of ours started and reaps.
    ///
    /// # Errors
    /// `Worker` on kernels without `pidfd_open`, `Io` if no pidfd can be opened: it could not be ended
    /// reliably.
    pub(crate) fn foreign(pid: libc::pid_t) -> Result<Self> {
        let handle = open_handle(pid)?;
        if handle.is_none() {
            fail!(Worker, "this kernel has no pidfd_open, which is needed to end a worker reliably")
        }
        Ok(Process { pid, handle, child: false, reaped: None })
    }

    /// Returns whether the pid still belongs to this process: the pid of an ended process may be reused.
    /// `false` if that cannot be determined.
    pub(crate) fn is_there(&self) -> bool {
        let none = std::ptr::null::<u8>();
        self.reaped.is_none()
            && self.handle.as_ref().is_some_and(|handle| {
                // SAFETY: plain system call on a descriptor that we own; no signal is sent.
                unsafe { libc::syscall(libc::SYS_pidfd_send_signal, handle.as_raw_fd(), 0, none, 0) == 0 }
            })
    }

    /// Returns whether the process is our own child, which we must reap.
    pub(crate) fn is_child(&self) -> bool {
        self.child
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&self) {
        if self.reaped.is_some() {
            return;
        }
        match &self.handle {
            // SAFETY: plain system call on a descriptor that we own.
            Some(h) => unsafe {
                libc::syscall(
                    libc::SYS_pidfd_send_signal,
                    h.as_raw_fd(),
                    libc::SIGKILL,
                    std::ptr::null::<u8>(),
                    0,
                );
            },
            // SAFETY: an unreaped child keeps its number. Kernels without pidfd are so old that there is no
            // other way.
            None if self.child => unsafe {
                libc::kill(self.pid, libc::SIGKILL);
            },
            None => {}
        }
    }

    /// Waits at most `limit` for the end of the process. Works only for our own children.
    pub(crate) fn wait(&mut self, limit: Duration) -> Option<Exit> {
        if !self.child {
            return None;
        }
        let deadline = Instant::now() + limit;
        let mut pause = Duration::from_micros(50);
        loop {
            if let Some(exit) = self.try_wait() {
                return Some(exit);
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
    }

    fn try_wait(&mut self) -> Option<Exit> {
        if self.reaped.is_some() {
            return self.reaped;
        }
        let mut status = 0;
        // SAFETY: waits for this child only.
        let rc = unsafe { libc::waitpid(self.pid, &raw mut status, libc::WNOHANG) };
        if rc == self.pid {
            self.reaped = Some(Exit::from_wait(status));
        } else if rc < 0 {
            // The host has reaped it: a shell, or a program that ignores SIGCHLD.
            self.reaped = Some(Exit::Unknown);
        }
        self.reaped
    }

    /// Restricts the process to the processors `cpus`.
    pub(crate) fn set_affinity(&self, cpus: &libc::cpu_set_t) {
        // SAFETY: the set is live and of that size. A failure costs speed only.
        unsafe { libc::sched_setaffinity(self.pid, size_of::<libc::cpu_set_t>(), cpus) };
    }

    /// Allows the process `seconds` of processor time from now on. Returns the number of further such runs
    /// within its hard limit.
    pub(crate) fn allow_cpu(&self, seconds: u64) -> u64 {
        let Some(used) = self.cpu_used() else { return u64::MAX };
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a live buffer of the size of a limit.
        if unsafe { libc::prlimit(self.pid, libc::RLIMIT_CPU, std::ptr::null(), &raw mut limit) } != 0 {
            return u64::MAX;
        }
        let wanted = used.as_secs().saturating_add(seconds).saturating_add(1);
        limit.rlim_cur = wanted.min(limit.rlim_max);
        // SAFETY: as above.
        unsafe { libc::prlimit(self.pid, libc::RLIMIT_CPU, &raw const limit, std::ptr::null_mut()) };
        // A process that has run for less than that is not replaced, since the user's own limit may be lower.
        let is_new = used.as_secs() < seconds;
        if is_new { u64::MAX } else { limit.rlim_max.saturating_sub(wanted) / seconds.saturating_add(1) }
    }

    /// Returns the processor time that the process has used.
    pub(crate) fn cpu_used(&self) -> Option<Duration> {
        let clock = (!self.pid << 3) | 2;
        let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the clock of a process, and a live buffer.
        if unsafe { libc::clock_gettime(clock, &raw mut used) } != 0 {
            return None;
        }
        Some(Duration::new(u64::try_from(used.tv_sec).ok()?, u32::try_from(used.tv_nsec).ok()?))
    }
}
