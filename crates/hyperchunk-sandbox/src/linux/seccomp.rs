//! Seccomp filters.
//!
//! A filter of the `seccompiler` crate has only two verdicts, so one process needs several, which are
//! [joined](chain_programs) into one: the first that does not allow a call decides. (They are joined because
//! the kernel compiles each filter to machine code, and runs each at every call.)
//!
//! - The first ones kill the process at calls that no legitimate function makes.
//! - The next ones answer a call with an errno, or else allow it. Such calls are in the allow-list too: if
//!   the filters were installed one by one, as are the filters of the [two phases](Phase), the kernel would
//!   take the strictest verdict, and the trap would win.
//! - The last, the *allow-list*, allows a call or traps.
//!
//! A filter sees only the number and the argument registers of a call, not the memory to which an argument
//! points (a path, the flags of `clone3`), which another thread could change after a check anyway. Such calls
//! are allowed or denied whatever that memory contains.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_long};
use std::process;
use std::sync::OnceLock;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::{Access, CONTROL_SOCKET, Runtime, calls};
use crate::error::{Error, Result, fail};

#[cfg(target_arch = "x86_64")]
const ARCH: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: TargetArch = TargetArch::aarch64;

/// Installs the filters for `runtime`.
pub(super) fn restrict(runtime: Runtime, access: Access) -> Result<()> {
    // Only a driver already has threads.
    let flags = if runtime == Runtime::Cuda { EVERY_THREAD } else { 0 };
    install(&program(runtime, Phase::First, access)?, flags)?;
    let _ = FIRST.set((runtime, access));
    Ok(())
}

/// Parameters of the first phase's filter. The filter of the last phase is added to it: the kernel runs both
/// and takes the stricter verdict.
static FIRST: OnceLock<(Runtime, Access)> = OnceLock::new();

/// Installs the filters that end the loading phase, for every thread, in case constructors have started some.
pub(super) fn end_loading(runtime: Runtime, access: Access) -> Result<()> {
    if FIRST.get() != Some(&(runtime, access)) {
        fail!("lockdown: cannot end the loading phase of {runtime:?} with these grants: it was not begun")
    }
    let flags = if access.threads { EVERY_THREAD } else { 0 };
    install(&program(runtime, Phase::Final, access)?, flags)
}

/// Phase of the sandbox; only a C++ object and WebAssembly have a second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    First,
    Final,
}

/// Returns whether an object is being loaded, for which the process opens files.
fn is_loading(runtime: Runtime, phase: Phase) -> bool {
    runtime == Runtime::Cpp && phase == Phase::First
}

/// Returns whether our compiler generates machine code in this process.
fn is_compiling(runtime: Runtime, phase: Phase) -> bool {
    runtime == Runtime::Wasm && phase == Phase::First
}

/// Joins several filters into one: where one would allow a call, the next is evaluated.
pub(super) fn chain_programs(programs: Vec<BpfProgram>) -> Result<BpfProgram> {
    const RETURN: u16 = 0x06;
    const JUMP: u16 = 0x05;
    let last = programs.len().saturating_sub(1);
    let mut joined = BpfProgram::new();
    for (index, mut program) in programs.into_iter().enumerate() {
        let length = program.len();
        for (at, step) in program.iter_mut().enumerate().filter(|_| index < last) {
            if step.code == RETURN && step.k == libc::SECCOMP_RET_ALLOW {
                // Jumps count from the next instruction, forwards.
                let Ok(over) = u32::try_from(length - at - 1) else {
                    fail!("lockdown: a system call filter is too long");
                };
                *step = sock_filter { code: JUMP, jt: 0, jf: 0, k: over };
            }
        }
        joined.extend(program);
    }
    Ok(joined)
}

/// Returns the filter for `runtime`: its [`programs`], joined.
pub(super) fn program(runtime: Runtime, phase: Phase, access: Access) -> Result<BpfProgram> {
    chain_programs(programs(runtime, phase, access)?)
}

/// Returns the filters for `runtime` as separate programs, in order of evaluation.
pub(super) fn programs(runtime: Runtime, phase: Phase, access: Access) -> Result<Vec<BpfProgram>> {
    let filters = convert_error(filters(runtime, phase, access))?;
    let x32 = FIRST_X32_CALL.map(kill_from);
    let programs = x32.into_iter().map(Ok).chain(filters.into_iter().map(Filter::compile));
    convert_error(programs.collect())
}

/// Returns a filter that kills the process at calls with this number or a larger one.
fn kill_from(number: u32) -> BpfProgram {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const NUMBER_OFFSET: u32 = 0;
    let step = |code, k| sock_filter { code, jt: 0, jf: 0, k };
    vec![
        step(LOAD_WORD, NUMBER_OFFSET),
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: number },
        step(RETURN, libc::SECCOMP_RET_KILL_PROCESS),
        step(RETURN, libc::SECCOMP_RET_ALLOW),
    ]
}

fn convert_error<T>(result: Result<T, BackendError>) -> Result<T> {
    result.map_err(|error| Error::new(format!("lockdown: system call filter: {error}")))
}

/// Filter with two verdicts: `verdict` on calls in its table (if `listed`) or on all others, and allow
/// otherwise.
struct Filter {
    table: Table,
    listed: bool,
    verdict: SeccompAction,
}

impl Filter {
    fn compile(self) -> Result<BpfProgram, BackendError> {
        let (no, yes) = (SeccompAction::Allow, self.verdict);
        let (otherwise, listed) = if self.listed { (no, yes) } else { (yes, no) };
        SeccompFilter::new(self.table.0, otherwise, listed, ARCH)?.try_into()
    }
}

/// Returns the filters for `runtime`, in order of evaluation.
fn filters(runtime: Runtime, phase: Phase, access: Access) -> Result<Vec<Filter>, BackendError> {
    let mut filters =
        vec![Filter { table: killed_calls(runtime), listed: true, verdict: SeccompAction::KillProcess }];
    for (errno, table) in errno_calls(runtime, phase, access)? {
        filters.push(Filter { table, listed: true, verdict: SeccompAction::Errno(errno.unsigned_abs()) });
    }
    let table = allow_list(runtime, phase, access)?;
    filters.push(Filter { table, listed: false, verdict: SeccompAction::Trap });
    Ok(filters)
}

fn killed_calls(runtime: Runtime) -> Table {
    let mut never = Table::default();
    never.every(calls::NEVER);
    if runtime != Runtime::Compiler {
        never.every(calls::NEVER_FUNCTIONS);
    }
    never
}

/// Returns the calls that are answered with an errno instead of ending the process, grouped by errno.
fn errno_calls(
    runtime: Runtime,
    phase: Phase,
    access: Access,
) -> Result<BTreeMap<c_int, Table>, BackendError> {
    let mut answers = BTreeMap::<c_int, Table>::new();
    // An answer would take precedence over the allow-list.
    let granted = granted(runtime, access);
    let mut answer = |errno, calls: &[c_long]| {
        let not_granted: Vec<_> = calls.iter().copied().filter(|call| !granted.contains(call)).collect();
        answers.entry(errno).or_default().every(&not_granted);
    };
    // The flags of clone3 are in memory, where a filter cannot see them; the C library falls back to clone.
    answer(libc::ENOSYS, &[libc::SYS_clone3]);
    if runtime == Runtime::Compiler {
        answer(libc::EPERM, calls::COMPILER_TIMES);
        answer(0, calls::COMPILER_MODES);
        return Ok(answers);
    }
    // An input can be a mapped part of the host's file: growing the mapping would reveal the rest of the
    // file. Allocators fall back to a copy.
    answer(libc::ENOMEM, &[libc::SYS_mremap]);
    // The handler of denied calls must not be blocked or replaced. abort() changes the mask first and ignores
    // the result: with an errno, a failed assertion is reported as such and not as a denied call.
    answer(libc::EPERM, &[libc::SYS_rt_sigprocmask]);
    // printf() queries, before its first line, the kind of its file and whether it is a terminal, and
    // tolerates an error. (For the first, newer C libraries use fstat, which is allowed.)
    if runtime == Runtime::Cuda {
        let table = answers.entry(libc::ENOTTY).or_default();
        table.when(libc::SYS_ioctl, &[at_most(0, CONTROL_SOCKET)])?;
        // The driver searches for optional settings and libraries.
        answers.entry(libc::EACCES).or_default().every(calls::PYTHON_PATHS);
        answers.entry(libc::ENOSYS).or_default().every(TUNING);
        return Ok(answers);
    }
    if !access.connect {
        answer(libc::ENOTTY, &[libc::SYS_ioctl]);
    }
    if runtime != Runtime::Python && !is_loading(runtime, phase) {
        answer(libc::EACCES, &[libc::SYS_newfstatat]);
    }
    // Called by a new thread to find the end of its stack.
    if access.threads && runtime != Runtime::Python {
        answer(libc::ENOSYS, &[libc::SYS_sched_getaffinity]);
    }
    if runtime == Runtime::Python {
        answer(libc::EPERM, &[libc::SYS_rt_sigaction]);
        answer(libc::EPERM, calls::SOCKET_ADDRESSES);
        answer(libc::EACCES, calls::PYTHON_PATHS);
        answer(libc::ENOSYS, calls::PYTHON_TUNING);
        answer(libc::ENOSYS, calls::LOCKS);
    }
    if access.connect {
        // Except the call that makes a connection non-blocking.
        let table = answers.entry(libc::ENOTTY).or_default();
        table.when(libc::SYS_ioctl, &[at_most(0, CONTROL_SOCKET)])?;
        table.when(libc::SYS_ioctl, &[not_equal(1, NON_BLOCKING)])?;
    }
    Ok(answers)
}

/// Returns the calls that the grants allow, whatever their arguments except for `openat`.
fn granted(runtime: Runtime, access: Access) -> Vec<c_long> {
    let mut granted = Vec::new();
    // A CUDA kernel opens no files, whatever is granted.
    if matches!(runtime, Runtime::Compiler | Runtime::Cuda) {
        return granted;
    }
    if access.read {
        granted.push(libc::SYS_openat);
        granted.extend(calls::READING);
    }
    if access.write {
        granted.extend(calls::WRITING);
    }
    if access.connect {
        granted.extend(calls::SOCKET_ADDRESSES);
    }
    granted
}

/// Returns the table of allowed calls.
fn allow_list(runtime: Runtime, phase: Phase, access: Access) -> Result<Table, BackendError> {
    let mut table = Table::default();
    table.every(calls::COMMON);
    if matches!(runtime, Runtime::Cuda | Runtime::Compiler) {
        table.every(calls::BOUNDED);
    } else {
        for &advice in calls::MEMORY_ADVICE {
            table.when(libc::SYS_madvise, &[equals(2, advice)])?;
        }
        for &operation in calls::FUTEX_OPERATIONS {
            table.when(libc::SYS_futex, &[masked(1, FUTEX_OPERATION, operation)])?;
        }
    }
    // In the other runtimes no handler returns: a forged return would block signals and set every register.
    if matches!(runtime, Runtime::Wasm | Runtime::Cuda | Runtime::Compiler) {
        table.every(&[libc::SYS_rt_sigreturn]);
    }
    if access.coarse_clocks {
        for clock in [libc::CLOCK_REALTIME_COARSE, libc::CLOCK_MONOTONIC_COARSE] {
            table.when(libc::SYS_clock_gettime, &[equals(0, clock)])?;
        }
    } else {
        table.every(calls::FINE_CLOCKS);
    }
    for answered in errno_calls(runtime, phase, access)?.into_values() {
        table.0.extend(answered.0);
    }
    if runtime == Runtime::Compiler {
        table.every(calls::COMPILER);
        table.when(libc::SYS_clone, &[no_bits(0, NEW_NAMESPACES)])?;
        // Only its own limits: lowering another process's limits could make that process fail.
        table.when(libc::SYS_prlimit64, &[equals(0, 0)])?;
        for option in [libc::PR_SET_NAME, libc::PR_GET_NAME, PR_SET_VMA] {
            table.when(libc::SYS_prctl, &[equals(0, option)])?;
        }
        return Ok(table);
    }
    if runtime == Runtime::Cuda {
        table.every(calls::DRIVER);
        table.when(libc::SYS_ioctl, &[above(0, CONTROL_SOCKET)])?;
        // Wake-ups of its threads, through its own descriptors.
        table.when(libc::SYS_write, &[above(0, CONTROL_SOCKET)])?;
        table.when(libc::SYS_clone, &[all_bits(0, THREAD_FLAGS), no_bits(0, NEW_NAMESPACES)])?;
        table.when(libc::SYS_prctl, &[equals(0, libc::PR_SET_NAME)])?;
        for command in [libc::F_SETFD, libc::F_GETFL, libc::F_SETFL, libc::F_DUPFD_CLOEXEC] {
            table.when(libc::SYS_fcntl, &[equals(1, command)])?;
        }
    }
    let access = if runtime == Runtime::Cuda { Access::default() } else { access };
    let granted = granted(runtime, access);
    for &call in granted.iter().filter(|&&call| call != libc::SYS_openat) {
        table.0.insert(call, Vec::new());
    }
    if !access.write {
        for fd in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            table.when(libc::SYS_write, &[equals(0, fd)])?;
        }
    }
    for (call, flags) in [(libc::SYS_recvmsg, 2), (libc::SYS_recvfrom, 3), (libc::SYS_sendmsg, 2)] {
        table.when(call, &[equals(0, CONTROL_SOCKET), no_bits(flags, !ALLOWED_MESSAGE_FLAGS)])?;
    }
    table.when(
        libc::SYS_sendto,
        &[equals(0, CONTROL_SOCKET), no_bits(3, !ALLOWED_MESSAGE_FLAGS), is_null(4)],
    )?;
    if access.connect {
        connections(&mut table, access)?;
    }
    // In debug builds, the Rust library checks that a descriptor is open before closing it.
    table.when(libc::SYS_fcntl, &[equals(1, libc::F_GETFD)])?;
    // The end of abort(): a signal only to this process.
    let own_id = c_int::try_from(process::id()).unwrap_or(c_int::MAX);
    table.when(libc::SYS_tgkill, &[equals(0, own_id), equals(2, libc::SIGABRT)])?;
    let loading = is_loading(runtime, phase);
    if loading {
        for &call in calls::LOADING {
            table.0.insert(call, Vec::new());
        }
    }
    let compiling = is_compiling(runtime, phase);
    if loading || compiling {
        // One more filter can only restrict further. Other flags are denied: one of them creates a descriptor
        // through which other processes could answer calls.
        let flags = if access.threads { EVERY_THREAD } else { 0 };
        table.when(libc::SYS_seccomp, &[equals(0, SET_MODE_FILTER), equals(1, flags)])?;
    }
    if loading || access.read {
        let writing = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND | libc::O_TMPFILE;
        // Python gets Landlock's errno for files that it may not open. The mode of a created file never
        // includes set-user-id.
        let conditions = match (access.write, runtime) {
            (false, Runtime::Lua { .. } | Runtime::Cpp | Runtime::Wasm) => {
                [no_bits(2, writing | libc::O_PATH), no_bits(3, 0)]
            }
            _ => [no_bits(2, libc::O_PATH), no_bits(3, SPECIAL_MODES)],
        };
        table.when(libc::SYS_openat, &conditions)?;
    }
    if access.threads {
        table.when(libc::SYS_clone, &[all_bits(0, THREAD_FLAGS), no_bits(0, NEW_NAMESPACES)])?;
        table.when(libc::SYS_prctl, &[equals(0, libc::PR_SET_NAME)])?;
    }
    let makes_code = runtime == (Runtime::Lua { jit: true }) || (runtime == Runtime::Python && access.jit);
    // Memory that grows automatically, or has another page size, is never requested here.
    let unusual = if runtime == Runtime::Cuda { 0 } else { libc::MAP_GROWSDOWN | libc::MAP_HUGETLB };
    if loading || makes_code {
        table.when(libc::SYS_mmap, &[no_bits(3, unusual)])?;
        table.every(&[libc::SYS_mprotect]);
    } else {
        table.when(libc::SYS_mmap, &[no_bits(2, libc::PROT_EXEC), no_bits(3, unusual)])?;
        if compiling {
            table.every(&[libc::SYS_mprotect]);
            // Notifies other processors of new instructions.
            #[cfg(target_arch = "aarch64")]
            table.every(&[libc::SYS_membarrier]);
        } else {
            table.when(libc::SYS_mprotect, &[no_bits(2, libc::PROT_EXEC)])?;
        }
    }
    if runtime == Runtime::Python {
        for command in [libc::F_SETFD, libc::F_GETFL, libc::F_DUPFD_CLOEXEC] {
            table.when(libc::SYS_fcntl, &[equals(1, command)])?;
        }
    }
    Ok(table)
}

/// Allows the usual calls on connections, never with another address. Descriptors above the control socket
/// are connections that the host made, apart from granted files.
fn connections(table: &mut Table, access: Access) -> Result<(), BackendError> {
    let mine = || above(0, CONTROL_SOCKET);
    if !access.write {
        table.when(libc::SYS_write, &[mine()])?;
    }
    table.when(libc::SYS_recvfrom, &[mine(), no_bits(3, !ALLOWED_MESSAGE_FLAGS)])?;
    table.when(libc::SYS_sendto, &[mine(), no_bits(3, !ALLOWED_MESSAGE_FLAGS), is_null(4)])?;
    table.when(libc::SYS_shutdown, &[mine()])?;
    table.when(libc::SYS_ioctl, &[mine(), equals(1, NON_BLOCKING)])?;
    // Options that Python's `ssl` queries before it takes a socket, and that network libraries set on their
    // sockets.
    for option in [libc::SO_TYPE, libc::SO_ERROR, libc::SO_PROTOCOL, libc::SO_DOMAIN] {
        table.when(libc::SYS_getsockopt, &[mine(), equals(1, libc::SOL_SOCKET), equals(2, option)])?;
    }
    for (level, option) in [(libc::SOL_SOCKET, libc::SO_KEEPALIVE), (libc::IPPROTO_TCP, libc::TCP_NODELAY)] {
        table.when(libc::SYS_setsockopt, &[mine(), equals(1, level), equals(2, option)])?;
    }
    Ok(())
}

/// Allowed message flags: neither out of band nor zero-copy.
const ALLOWED_MESSAGE_FLAGS: c_int = libc::MSG_NOSIGNAL
    | libc::MSG_DONTWAIT
    | libc::MSG_CMSG_CLOEXEC
    | libc::MSG_TRUNC
    | libc::MSG_WAITALL
    | libc::MSG_PEEK
    | libc::MSG_MORE
    | libc::MSG_EOR;

/// Mask of the operation in a `futex` argument.
const FUTEX_OPERATION: c_int = 0x7f;

/// `FIONBIO`.
const NON_BLOCKING: c_int = 0x5421;

/// NUMA placement: answered with "no such call" for a driver, which determines it by itself.
const TUNING: &[c_long] =
    &[libc::SYS_get_mempolicy, libc::SYS_mbind, libc::SYS_sched_setaffinity, libc::SYS_set_mempolicy];

/// Flags that make a new task a thread instead of a process.
const THREAD_FLAGS: c_int = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;

/// Set-user-id, set-group-id and sticky.
const SPECIAL_MODES: c_int = 0o7000;

/// `SECCOMP_FILTER_FLAG_TSYNC`.
const EVERY_THREAD: c_int = 1;

const NEW_NAMESPACES: c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Naming of an anonymous mapping; newer C libraries do so for their heaps.
const PR_SET_VMA: c_int = 0x5356_4d41;

/// `SECCOMP_SET_MODE_FILTER`.
const SET_MODE_FILTER: c_int = 1;

/// System calls with the conditions under which an entry applies. No conditions: always.
#[derive(Clone, Debug, Default, PartialEq)]
struct Table(BTreeMap<i64, Vec<SeccompRule>>);

impl Table {
    /// Adds `calls` with any arguments.
    fn every(&mut self, calls: &[c_long]) {
        for call in calls {
            let earlier = self.0.insert(*call, Vec::new());
            debug_assert!(
                earlier.is_none_or(|rules| rules.is_empty()),
                "call {call} with and without conditions"
            );
        }
    }

    /// Adds `call` if all `conditions` hold, as an alternative to earlier entries.
    fn when(&mut self, call: c_long, conditions: &[Condition]) -> Result<(), BackendError> {
        let conditions = conditions.iter().map(Condition::compile).collect::<Result<Vec<_>, _>>()?;
        let rule = SeccompRule::new(conditions)?;
        let earlier = self.0.insert(call, Vec::new());
        debug_assert!(
            earlier.as_ref().is_none_or(|rules| !rules.is_empty()),
            "call {call} is already allowed without conditions"
        );
        let mut rules = earlier.unwrap_or_default();
        rules.push(rule);
        self.0.insert(call, rules);
        Ok(())
    }
}

/// Condition on the argument at an index.
struct Condition(u8, SeccompCmpArgLen, SeccompCmpOp, u64);

impl Condition {
    fn compile(&self) -> Result<SeccompCondition, BackendError> {
        let Condition(index, length, operator, value) = self;
        SeccompCondition::new(*index, length.clone(), operator.clone(), *value)
    }
}

/// Compares an `int` argument: the kernel ignores the upper half of the register, so the filter has to.
fn equals(index: u8, value: c_int) -> Condition {
    Condition(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, u64::from(value.cast_unsigned()))
}

fn not_equal(index: u8, value: c_int) -> Condition {
    Condition(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, u64::from(value.cast_unsigned()))
}

/// Matches a descriptor with a larger number. A negative descriptor is invalid, and the call fails.
fn above(index: u8, fd: c_int) -> Condition {
    Condition(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Gt, u64::from(fd.cast_unsigned()))
}

fn at_most(index: u8, fd: c_int) -> Condition {
    Condition(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Le, u64::from(fd.cast_unsigned()))
}

fn no_bits(index: u8, bits: c_int) -> Condition {
    let mask = u64::from(bits.cast_unsigned());
    Condition(index, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), 0)
}

/// Matches if the masked bits equal `value`.
fn masked(index: u8, bits: c_int, value: c_int) -> Condition {
    let mask = u64::from(bits.cast_unsigned());
    Condition(index, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), u64::from(value.cast_unsigned()))
}

fn all_bits(index: u8, bits: c_int) -> Condition {
    let mask = u64::from(bits.cast_unsigned());
    Condition(index, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), mask)
}

fn is_null(index: u8) -> Condition {
    Condition(index, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)
}

/// First call number of the x32 interface, which has the architecture of x86_64 and its own numbers: the
/// process is killed at any of these. (A 32-bit call has another architecture, at which every filter kills.)
const FIRST_X32_CALL: Option<u32> = if cfg!(target_arch = "x86_64") { Some(0x4000_0000) } else { None };

/// Installs a filter in the calling thread, or in all threads with [`EVERY_THREAD`]. `seccompiler`'s own
/// function would also need `prctl` in the loading phase.
fn install(program: &[sock_filter], flags: c_int) -> Result<()> {
    const {
        assert!(size_of::<sock_filter>() == size_of::<libc::sock_filter>());
        assert!(align_of::<sock_filter>() == align_of::<libc::sock_filter>());
    }
    let Ok(len) = u16::try_from(program.len()) else {
        fail!("lockdown: a system call filter is too long");
    };
    let description =
        libc::sock_fprog { len, filter: program.as_ptr().cast::<libc::sock_filter>().cast_mut() };
    // SAFETY: the kernel copies `len` instructions of the layout checked above and writes nothing.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, flags, &raw const description) };
    if result != 0 {
        return Err(Error::last_os("lockdown: seccomp"));
    }
    Ok(())
}
