//! Which system calls each runtime keeps. Lists only; `seccomp` turns them into filters.
//!
//! A call that is in no list ends the process. Before adding one, think of what it does with a descriptor that the
//! function was handed, with a path, and with another process's number.

use std::ffi::{c_int, c_long};

/// Kept by every function, whatever its arguments: memory of its own, its own end, waiting, randomness, and descriptors
/// that are open already.
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

/// Kept by every function with some [arguments](ADVICE), and by compilers and drivers with all.
pub(super) const BOUNDED: &[c_long] = &[libc::SYS_futex, libc::SYS_madvise];

/// What memory may be advised to be: not to share pages that are equal with other processes', which tells what those hold by the time of a
/// write, nor to fail, nor to lose what a shared segment holds.
pub(super) const ADVICE: &[c_int] = &[
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
    // Guard pages (Linux 6.13), of newer C libraries for the stacks of threads.
    102,
    103,
];

/// What threads wait by: without the locks that hand on priorities, a part of the kernel with a history of faults.
pub(super) const WAITING: &[c_int] = &[
    libc::FUTEX_WAIT,
    libc::FUTEX_WAKE,
    libc::FUTEX_REQUEUE,
    libc::FUTEX_CMP_REQUEUE,
    libc::FUTEX_WAKE_OP,
    libc::FUTEX_WAIT_BITSET,
    libc::FUTEX_WAKE_BITSET,
];

/// The time as the kernel has it. Kept, but for functions with coarse clocks.
pub(super) const FINE_CLOCKS: &[c_long] = &[libc::SYS_clock_gettime, libc::SYS_gettimeofday];

/// Kept while a shared object is loaded, on top of [`COMMON`] (and `openat` for reading).
///
/// What a hostile constructor can do with them: nothing is readable that it was not handed, since Landlock allows no
/// path, but the error of `openat` or `newfstatat` tells it whether a path exists, and a path's size and times.
pub(super) const LOADING: &[c_long] = &[libc::SYS_newfstatat, libc::SYS_pread64];

/// Answered with "permission denied" for Python, whose modules probe files in places that cannot all be foreseen: `open`
/// then raises PermissionError and an `import` ImportError. Nothing that takes a path is allowed instead, not even
/// `newfstatat` for an open descriptor: which of the two it is depends on a string that the filter cannot see.
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

/// Kept where a profile grants paths to read, on top of [`COMMON`] (and `openat`). Landlock says which can be opened; it
/// does not govern those that tell whether any path exists, and its size and times.
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

/// Kept where a profile grants paths to write, on top of [`READING`]. Landlock governs all that take a path.
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

/// Which addresses a connection has. Kept where a profile grants connections; else answered with "not permitted" for Python,
/// whose text form of a socket asks, in the warning about one that was not closed.
pub(super) const ENDS: &[c_long] = &[libc::SYS_getpeername, libc::SYS_getsockname];

/// Answered with "no such call" for Python: what numerical libraries do to run faster and can do without (OpenBLAS binds
/// its buffers to a node, and asks for processors before it makes threads).
pub(super) const PYTHON_TUNING: &[c_long] = &[
    libc::SYS_get_mempolicy,
    libc::SYS_mbind,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_set_mempolicy,
];

/// Answered with "no such call" where a profile grants paths: libhdf5 locks what it opens, and goes on where that cannot be done. A lock of
/// a function's would keep other programs from a file.
pub(super) const LOCKS: &[c_long] = &[libc::SYS_flock];

/// Kept where the driver of a GPU runs, on top of [`COMMON`]: how it waits, wakes its threads and looks at itself. What it asks of
/// its devices are `ioctl`s on descriptors that it has.
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

/// Kept by a compiler and the programs that it starts, on top of [`COMMON`]. Landlock says on which files.
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

/// Answered with success for a compiler, and not done: modes of files by path, which Landlock does not govern. Linkers want
/// to make their output executable; Zig gives up if it cannot.
pub(super) const COMPILER_MODES: &[c_long] = &[
    libc::SYS_fchmodat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
];

/// Answered with "not permitted" for a compiler: times of files by path, for the same reason.
pub(super) const COMPILER_TIMES: &[c_long] = &[libc::SYS_utimensat];

/// What no function and no compiler ever needs: the kernel ends the process at once. Calls that are merely not allowed
/// are not here, so that their name can be told; `seccomp` and `prctl` are among those, since they are needed until the
/// last filter is in place.
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
    // Kernel interfaces with a history, or that run work outside the filter.
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
    // Another view of the system.
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
    // Another program without a path.
    libc::SYS_execveat,
    // The machine.
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

/// In addition for everything but a compiler: another program.
pub(super) const NEVER_FUNCTIONS: &[c_long] = &[libc::SYS_execve];
