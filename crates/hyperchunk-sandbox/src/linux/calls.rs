//! System calls allowed to each runtime. Lists only; `seccomp` builds the filters from them.
//!
//! A call that is in no list ends the process. Before adding one, consider its effect on a descriptor
//! that the function was passed, on a path, and on another process by its pid.

use std::ffi::{c_int, c_long};

/// Allowed to every function, with any arguments: its own memory, its own exit, waiting, randomness, and
/// descriptors that are already open.
pub(super) const COMMON: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fstat,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
];

/// Allowed to every function with some arguments ([`MEMORY_ADVICE`], [`FUTEX_OPERATIONS`]), and to compilers
/// and drivers with all.
pub(super) const BOUNDED: &[c_long] = &[libc::SYS_futex, libc::SYS_madvise];

/// Allowed advice of `madvise`. Excluded, among others: merging equal pages with other processes (the time of
/// a write then reveals their content), simulating memory failures, and discarding the content of a shared
/// segment.
pub(super) const MEMORY_ADVICE: &[c_int] = &[
    libc::MADV_NORMAL,
    libc::MADV_RANDOM,
    libc::MADV_SEQUENTIAL,
    libc::MADV_WILLNEED,
    libc::MADV_DONTNEED,
    libc::MADV_FREE,
    libc::MADV_HUGEPAGE,
    libc::MADV_NOHUGEPAGE,
    libc::MADV_DONTDUMP,
    libc::MADV_DODUMP,
    libc::MADV_WIPEONFORK,
    libc::MADV_KEEPONFORK,
    libc::MADV_COLD,
    libc::MADV_PAGEOUT,
    libc::MADV_POPULATE_READ,
    libc::MADV_POPULATE_WRITE,
    // Guard pages (Linux 6.13), used by newer C libraries for the stacks of threads.
    102,
    103,
];

/// Allowed futex operations. Excluded: priority-inheritance locks, a part of the kernel with a history of
/// vulnerabilities.
pub(super) const FUTEX_OPERATIONS: &[c_int] = &[
    libc::FUTEX_WAIT,
    libc::FUTEX_WAKE,
    libc::FUTEX_REQUEUE,
    libc::FUTEX_CMP_REQUEUE,
    libc::FUTEX_WAKE_OP,
    libc::FUTEX_WAIT_BITSET,
    libc::FUTEX_WAKE_BITSET,
];

/// Clocks with full resolution. Allowed except to functions with coarse clocks.
pub(super) const FINE_CLOCKS: &[c_long] = &[libc::SYS_clock_gettime, libc::SYS_gettimeofday];

/// Allowed while a shared object is loaded, in addition to [`COMMON`] (and `openat` for reading).
///
/// A hostile constructor can read only files that it was passed and paths that the profile grants, since
/// Landlock allows no others. But `newfstatat`, and the error of `openat`, reveal whether any path exists,
/// and its size and times.
pub(super) const LOADING: &[c_long] = &[libc::SYS_newfstatat, libc::SYS_pread64];

/// Answered with "permission denied" for Python, whose modules probe files in unpredictable places: `open`
/// then raises PermissionError and an `import` ImportError. A profile's grants allow some of them
/// ([`READING`], [`WRITING`]). Without a grant not even `newfstatat` for an open descriptor is allowed: it
/// differs from `newfstatat` for a path only in a string that the filter cannot see.
pub(super) const PYTHON_PATHS: &[c_long] = &[
    libc::SYS_chdir,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fchdir,
    libc::SYS_fstatfs,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getxattr,
    libc::SYS_linkat,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_readlinkat,
    libc::SYS_renameat2,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_symlinkat,
    libc::SYS_truncate,
    libc::SYS_unlinkat,
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_renameat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

/// Allowed if the profile grants paths for reading, in addition to [`COMMON`] (and `openat`). Landlock
/// restricts the opening of files; it does not cover the calls that reveal whether any path exists, and its
/// size and times.
pub(super) const READING: &[c_long] = &[
    libc::SYS_fadvise64,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_newfstatat,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_statx,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
];

/// Allowed if the profile grants paths for writing, in addition to [`READING`]. Landlock covers all calls
/// with a path.
pub(super) const WRITING: &[c_long] = &[
    libc::SYS_fdatasync,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_mkdirat,
    libc::SYS_pwrite64,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_write,
    libc::SYS_writev,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_renameat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

/// Queries of a connection's addresses. Allowed if the profile grants connections; otherwise answered with
/// "not permitted" for Python, which makes them for the `repr` of a socket, in the warning about an unclosed
/// socket.
pub(super) const SOCKET_ADDRESSES: &[c_long] = &[libc::SYS_getpeername, libc::SYS_getsockname];

/// Answered with "no such call" for Python: optional tuning by numerical libraries (OpenBLAS binds its
/// buffers to a NUMA node, and queries the processors before it starts threads).
pub(super) const PYTHON_TUNING: &[c_long] = &[
    libc::SYS_get_mempolicy,
    libc::SYS_mbind,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_set_mempolicy,
];

/// Answered with "no such call" if the profile grants paths: libhdf5 locks files that it opens, and continues
/// if locking is not possible. A lock held by a function would keep other programs from a file.
pub(super) const LOCKS: &[c_long] = &[libc::SYS_flock];

/// Allowed if a GPU driver runs in the process, in addition to [`COMMON`]: calls to wait, to wake its threads
/// and to inspect itself. It controls its devices by `ioctl`s on descriptors that it already has.
pub(super) const DRIVER: &[c_long] = &[
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_getrusage,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    libc::SYS_pipe2,
    libc::SYS_pselect6,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pipe,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
];

/// Allowed to a compiler and its child processes, in addition to [`COMMON`]. Landlock restricts the files.
pub(super) const COMPILER: &[c_long] = &[
    libc::SYS_chdir,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_execve,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fchdir,
    libc::SYS_fchmod,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getpgid,
    libc::SYS_getrusage,
    libc::SYS_ioctl,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    libc::SYS_mkdirat,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pipe2,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_renameat2,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_getaffinity,
    libc::SYS_sendfile,
    libc::SYS_set_tid_address,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_unlinkat,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_write,
    libc::SYS_writev,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_arch_prctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_dup2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_getpgrp,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_getrlimit,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pipe,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_renameat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// Answered with success for a compiler, without effect: modes of files by path, which Landlock does not
/// cover. Linkers try to make their output executable; Zig aborts if that fails.
pub(super) const COMPILER_MODES: &[c_long] = &[
    libc::SYS_fchmodat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
];

/// Answered with "not permitted" for a compiler: times of files by path, which Landlock does not cover
/// either.
pub(super) const COMPILER_TIMES: &[c_long] = &[libc::SYS_utimensat];

/// Needed by no function and no compiler: the kernel kills the process at once. Calls that are merely not
/// allowed are not in this list, so that the error can name them; `seccomp` and `prctl` are among the latter,
/// since they are needed until the last filter is installed.
pub(super) const NEVER: &[c_long] = &[
    // Other processes.
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    // Kernel interfaces with a history of vulnerabilities, or that run work outside the filter.
    libc::SYS_bpf,
    libc::SYS_fanotify_init,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    // Changes of the namespaces and of the view of the file system.
    libc::SYS_chroot,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_setns,
    libc::SYS_umount2,
    libc::SYS_unshare,
    // Execution of a program without a path.
    libc::SYS_execveat,
    // Configuration of the machine.
    libc::SYS_acct,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_load,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Additionally denied to everything except a compiler: running another program.
pub(super) const NEVER_FUNCTIONS: &[c_long] = &[libc::SYS_execve];
