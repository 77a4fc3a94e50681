//! Attacks by hostile code, as system calls, and the expected reaction of each runtime's sandbox.

use std::ffi::c_long;

use super::super::Runtime;
use super::harness::call;

/// Expected result for the process that makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedResult {
    /// Stopped by the handler, which names the call.
    Denied,
    /// Stopped by the handler for making memory executable.
    DeniedExecutable,
    /// Killed by the kernel.
    Killed,
    /// Continues with this error.
    Errno(i32),
    /// Succeeds.
    Allowed,
}

pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) number: c_long,
    pub(super) arguments: [usize; 6],
    /// Fate in Lua without JIT and in C++ after loading.
    pub(super) native: ExpectedResult,
    pub(super) python: ExpectedResult,
}

const CWD: usize = libc::AT_FDCWD as usize;
const EXECUTABLE: usize = (libc::PROT_READ | libc::PROT_EXEC) as usize;
const ANONYMOUS: usize = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
const FUTEX_TRYLOCK_PI: usize = libc::FUTEX_TRYLOCK_PI as usize;
const MERGEABLE: usize = libc::MADV_MERGEABLE as usize;
const SIGSYS: usize = libc::SIGSYS as usize;
const THREAD: usize = (libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD) as usize;

/// Attacks that would do harm if they succeeded: a real signal, and a process or thread on the stack of
/// another.
pub(super) const NO_CONTROL: [&str; 3] = ["tgkill-parent", "vfork", "clone-thread"];

/// Returns the attacks for the calling process. Except for [`NO_CONTROL`] they do no harm if they succeed,
/// and also run without a sandbox, as controls.
pub(super) fn attacks() -> Vec<Attack> {
    use ExpectedResult::{Denied, DeniedExecutable, Errno, Killed};
    let passwd = c"/etc/passwd".as_ptr() as usize;
    let scratch = Box::leak(Box::new([0_u64; 64])).as_mut_ptr() as usize;
    // SAFETY: getpid and getppid cannot fail and have no memory effects.
    let (own, parent) = unsafe { (libc::getpid() as usize, libc::getppid() as usize) };
    let mut list = Vec::new();
    let mut add = |name, number, arguments: &[usize], native, python| {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        list.push(Attack { name, number, arguments: all, native, python });
    };
    let eacces = Errno(libc::EACCES);
    let eperm = Errno(libc::EPERM);
    // Files.
    add("open-read", libc::SYS_openat, &[CWD, passwd, 0, 0], Denied, eacces);
    add("open-write", libc::SYS_openat, &[CWD, passwd, 1, 0], Denied, eacces);
    add("openat2", libc::SYS_openat2, &[CWD, passwd, scratch, 24], Denied, eacces);
    add("stat", libc::SYS_newfstatat, &[CWD, passwd, scratch, 0], eacces, eacces);
    add("stat-empty", libc::SYS_newfstatat, &[0, c"".as_ptr() as usize, scratch, 0x1000], eacces, eacces);
    add("statx", libc::SYS_statx, &[CWD, passwd, 0, 0x7ff, scratch], Denied, eacces);
    add("access", libc::SYS_faccessat, &[CWD, passwd, 4], Denied, eacces);
    add("readlink", libc::SYS_readlinkat, &[CWD, passwd, scratch, 64], Denied, eacces);
    add("getcwd", libc::SYS_getcwd, &[scratch, 64], Denied, eacces);
    add("unlink", libc::SYS_unlinkat, &[CWD, c"/nonexistent".as_ptr() as usize, 0], Denied, eacces);
    add("ftruncate", libc::SYS_ftruncate, &[2, 0], Denied, eacces);
    add("fallocate", libc::SYS_fallocate, &[2, 3, 0, 4096], Denied, Denied);
    add("memfd", libc::SYS_memfd_create, &[c"x".as_ptr() as usize, 0], Denied, Denied);
    add("ioctl", libc::SYS_ioctl, &[2, 0x5412, scratch], Errno(libc::ENOTTY), Errno(libc::ENOTTY));
    add("dup", libc::SYS_dup, &[2], Denied, Denied);
    add("fcntl-setfl", libc::SYS_fcntl, &[2, 4, 0], Denied, Denied);
    add("fcntl-seals", libc::SYS_fcntl, &[2, 1033, 1], Denied, Denied);
    add("write-elsewhere", libc::SYS_write, &[4, scratch, 1], Denied, Denied);
    add("writev", libc::SYS_writev, &[2, scratch, 0], Denied, Denied);
    // Sockets.
    add("socket-inet", libc::SYS_socket, &[2, 1, 0], Denied, Denied);
    add("socket-unix", libc::SYS_socket, &[1, 2, 0], Denied, Denied);
    add("socket-netlink", libc::SYS_socket, &[16, 3, 0], Denied, Denied);
    add("socketpair", libc::SYS_socketpair, &[1, 1, 0, scratch], Denied, Denied);
    add("connect", libc::SYS_connect, &[3, scratch, 16], Denied, Denied);
    add("send-elsewhere", libc::SYS_sendto, &[4, scratch, 1, 0x40, 0, 0], Denied, Denied);
    add("send-address", libc::SYS_sendto, &[3, scratch, 1, 0x40, scratch, 16], Denied, Denied);
    add("sendmsg-elsewhere", libc::SYS_sendmsg, &[4, scratch, 0x40], Denied, Denied);
    add("receive-elsewhere", libc::SYS_recvfrom, &[4, scratch, 1, 0x40, 0, 0], Denied, Denied);
    add("send-elsewhere-address", libc::SYS_sendto, &[4, scratch, 1, 0x40, scratch, 16], Denied, Denied);
    add("receive-message-elsewhere", libc::SYS_recvmsg, &[4, scratch, 0x40], Denied, Denied);
    add("bind", libc::SYS_bind, &[4, scratch, 16], Denied, Denied);
    add("listen", libc::SYS_listen, &[4, 1], Denied, Denied);
    add("accept", libc::SYS_accept4, &[4, 0, 0, 0], Denied, Denied);
    add("setsockopt", libc::SYS_setsockopt, &[4, 1, 2, scratch, 4], Denied, Denied);
    add("getsockopt", libc::SYS_getsockopt, &[4, 1, 17, scratch, scratch], Denied, Denied);
    add("setsockopt-control", libc::SYS_setsockopt, &[3, 1, 9, scratch, 4], Denied, Denied);
    // Processes.
    #[cfg(target_arch = "x86_64")]
    add("fork", libc::SYS_fork, &[], Denied, Denied);
    #[cfg(target_arch = "x86_64")]
    add("vfork", libc::SYS_vfork, &[], Denied, Denied);
    add("clone", libc::SYS_clone, &[17, 0, 0, 0, 0], Denied, Denied);
    add("clone-thread", libc::SYS_clone, &[THREAD, 0, 0, 0, 0], Denied, Denied);
    add("clone3", libc::SYS_clone3, &[scratch, 64], Errno(libc::ENOSYS), Errno(libc::ENOSYS));
    add("execve", libc::SYS_execve, &[passwd, 0, 0], Killed, Killed);
    add("execveat", libc::SYS_execveat, &[CWD, passwd, 0, 0, 0], Killed, Killed);
    add("kill-parent", libc::SYS_kill, &[parent, 0], Denied, Denied);
    add("kill-self", libc::SYS_kill, &[own, 0], Denied, Denied);
    add("tgkill-parent", libc::SYS_tgkill, &[parent, parent, 6], Denied, Denied);
    add("sigqueue", libc::SYS_rt_sigqueueinfo, &[parent, 0, scratch], Denied, Denied);
    add("ptrace", libc::SYS_ptrace, &[1, parent, 0, 0], Killed, Killed);
    add("vm-read", libc::SYS_process_vm_readv, &[parent, scratch, 1, scratch, 1, 0], Killed, Killed);
    add("vm-write", libc::SYS_process_vm_writev, &[parent, scratch, 1, scratch, 1, 0], Killed, Killed);
    add("pidfd", libc::SYS_pidfd_open, &[parent, 0], Killed, Killed);
    add("prlimit", libc::SYS_prlimit64, &[0, 7, 0, scratch], Denied, Denied);
    add("setrlimit", libc::SYS_setrlimit, &[7, scratch], Denied, Denied);
    // The sandbox itself.
    add("sigaction", libc::SYS_rt_sigaction, &[SIGSYS, 0, scratch, 8], Denied, eperm);
    add("sigprocmask", libc::SYS_rt_sigprocmask, &[0, 0, scratch, 8], eperm, eperm);
    add("prctl", libc::SYS_prctl, &[3, 0, 0, 0, 0], Denied, Denied);
    add("seccomp", libc::SYS_seccomp, &[1, 0, scratch], Denied, Denied);
    add("landlock", libc::SYS_landlock_create_ruleset, &[0, 0, 1], Denied, Denied);
    add(
        "mmap-exec",
        libc::SYS_mmap,
        &[0, 4096, EXECUTABLE, ANONYMOUS, usize::MAX, 0],
        DeniedExecutable,
        DeniedExecutable,
    );
    add("mprotect-exec", libc::SYS_mprotect, &[0, 0, EXECUTABLE], DeniedExecutable, DeniedExecutable);
    add("pkey-mprotect", libc::SYS_pkey_mprotect, &[0, 0, EXECUTABLE, usize::MAX], Denied, Denied);
    // A mapped input would grow into the rest of the reader's file.
    let enomem = Errno(libc::ENOMEM);
    add("mremap", libc::SYS_mremap, &[scratch, 4096, 8192, 1], enomem, enomem);
    // Denied arguments of calls that are otherwise allowed.
    add("futex-pi", libc::SYS_futex, &[scratch, FUTEX_TRYLOCK_PI, 0, 0], Denied, Denied);
    add("madvise-merge", libc::SYS_madvise, &[0, 0, MERGEABLE], Denied, Denied);
    let growing = ANONYMOUS | libc::MAP_GROWSDOWN as usize;
    add(
        "mmap-growing",
        libc::SYS_mmap,
        &[0, 4096, 1, growing, usize::MAX, 0],
        DeniedExecutable,
        DeniedExecutable,
    );
    let out_of_band = (libc::MSG_OOB | libc::MSG_DONTWAIT) as usize;
    add("recv-out-of-band", libc::SYS_recvfrom, &[3, scratch, 1, out_of_band], Denied, Denied);
    add("recvmsg-out-of-band", libc::SYS_recvmsg, &[3, scratch, out_of_band], Denied, Denied);
    add("sendmsg-out-of-band", libc::SYS_sendmsg, &[3, scratch, out_of_band], Denied, Denied);
    add("shmget", libc::SYS_shmget, &[0x7fff_1234, 4096, 0], Denied, Denied);
    // The kernel.
    add("bpf", libc::SYS_bpf, &[0, 0, 0], Killed, Killed);
    add("io_uring", libc::SYS_io_uring_setup, &[1, scratch], Killed, Killed);
    add("userfaultfd", libc::SYS_userfaultfd, &[1], Killed, Killed);
    add("keyctl", libc::SYS_keyctl, &[0, 0, 0], Killed, Killed);
    add("add_key", libc::SYS_add_key, &[0, 0, 0, 0, 0], Killed, Killed);
    add("perf", libc::SYS_perf_event_open, &[scratch, 0, 0, 0, 0], Killed, Killed);
    add("personality", libc::SYS_personality, &[0xffff_ffff], Killed, Killed);
    add("unshare", libc::SYS_unshare, &[0], Killed, Killed);
    add("setns", libc::SYS_setns, &[usize::MAX, 0], Killed, Killed);
    add("mount", libc::SYS_mount, &[0, 0, 0, 0, 0], Killed, Killed);
    add("chroot", libc::SYS_chroot, &[0], Killed, Killed);
    #[cfg(target_arch = "x86_64")]
    add("x32-getpid", 0x4000_0000 | libc::SYS_getpid, &[], Killed, Killed);
    add("unknown", 5000, &[], Denied, Denied);
    list
}

impl Attack {
    pub(super) fn run(&self) -> i64 {
        call(self.number, self.arguments)
    }

    /// Returns the fate where files are granted, none of them in the list: Landlock refuses, and the calls
    /// that it does not cover reveal no more than whether a path exists.
    pub(super) fn fate_with_files(&self, runtime: Runtime) -> ExpectedResult {
        match self.name {
            "open-read" | "open-write" => ExpectedResult::Errno(libc::EACCES),
            "stat" | "stat-empty" | "statx" | "getcwd" | "write-elsewhere" | "writev" => {
                ExpectedResult::Allowed
            }
            "unlink" => ExpectedResult::Errno(libc::ENOENT),
            // Error for the pipe.
            "ftruncate" => ExpectedResult::Errno(libc::EINVAL),
            _ => self.fate(runtime),
        }
    }

    /// Returns the fate where connections are granted: descriptors other than the control socket can be used
    /// as connections. They come from the host.
    pub(super) fn fate_with_network(&self, runtime: Runtime) -> ExpectedResult {
        match self.name {
            "write-elsewhere" | "send-elsewhere" => ExpectedResult::Allowed,
            "receive-elsewhere" => ExpectedResult::Errno(libc::EAGAIN),
            _ => self.fate(runtime),
        }
    }

    pub(super) fn fate(&self, runtime: Runtime) -> ExpectedResult {
        match (runtime, self.native) {
            (Runtime::Python, _) => self.python,
            (Runtime::Cuda, native) => match (self.name, self.python) {
                // Calls of a driver on its own descriptors.
                ("fcntl-setfl" | "write-elsewhere", _) => ExpectedResult::Allowed,
                ("getcwd" | "statx" | "access" | "readlink" | "unlink" | "ftruncate", python) => python,
                ("open-read" | "open-write" | "openat2", python) => python,
                _ => native,
            },
            (_, native) => native,
        }
    }
}
