//! System call filters.
//!
//! A filter of the `seccompiler` crate knows two verdicts, so one process needs several, which are [joined](chained) into one:
//! the first that does not allow a call decides. (One, since the kernel makes machine code of each, and runs each at every call.)
//!
//! - The first ones kill at calls that no honest function tries.
//! - The next ones answer a call with an errno, or else allow it. Such calls are in the allow-list too: were the filters installed one by
//!   one, as those of the [two phases](Phase) are, the kernel would take the strictest verdict, and the trap would win.
//! - The last, the *allow-list*, decides what passes: allow, or else trap.
//!
//! What they decide by number alone is [found by halving](super::decision); they are only asked of the rest.
//!
//! Filters see numbers only. Where an argument points to memory (a path, the flags of `clone3`) a filter that trusted
//! it could be raced, so such calls are allowed or denied whole.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_long};
use std::process;
use std::sync::OnceLock;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::decision::{self, Outcome};
use super::{Access, CONTROL_SOCKET, Runtime, calls};
use crate::error::{Error, ErrorKind, Result, fail};

#[cfg(target_arch = "x86_64")]
const ARCH: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: TargetArch = TargetArch::aarch64;

/// Installs the filters for `runtime`.
pub(super) fn restrict(runtime: Runtime, access: Access) -> Result<()> {
    // Only a driver has threads already.
    let flags = if runtime == Runtime::Cuda { EVERY_THREAD } else { 0 };
    install(&program(runtime, Phase::First, access)?, flags)?;
    let _ = FIRST.set((runtime, access));
    Ok(())
}

/// What the first phase's filter was made for: that of the last is only what is to come to it.
static FIRST: OnceLock<(Runtime, Access)> = OnceLock::new();

/// Installs the filters that end the loading phase: for every thread, should constructors have started some.
pub(super) fn end_loading(runtime: Runtime, access: Access) -> Result<()> {
    if FIRST.get() != Some(&(runtime, access)) {
        fail!(Worker, "lockdown: the loading phase of {runtime:?} with these grants was never begun")
    }
    let flags = if access.threads { EVERY_THREAD } else { 0 };
    install(&program(runtime, Phase::Final, access)?, flags)
}

/// Which of the two sets of filters; only a C++ object and WebAssembly have a second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    First,
    Final,
}

/// Whether an object is being loaded, for which the process opens files.
fn is_loading(runtime: Runtime, phase: Phase) -> bool {
    runtime == Runtime::Cpp && phase == Phase::First
}

/// Whether our compiler makes machine code in this process.
fn is_compiling(runtime: Runtime, phase: Phase) -> bool {
    runtime == Runtime::Wasm && phase == Phase::First
}

/// One filter of several: where one would allow a call, the next is asked.
pub(super) fn chained(programs: Vec<BpfProgram>) -> Result<BpfProgram> {
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
                    fail!(Worker, "lockdown: a system call filter is too long");
                };
                *step = sock_filter { code: JUMP, jt: 0, jf: 0, k: over };
            }
        }
        joined.extend(program);
    }
    Ok(joined)
}

/// The filter for `runtime`: what [`chained`] makes of its [`filters`], in fewer steps. That of the last phase leaves to that of the first,
/// which stays in force, what that decides as strictly.
pub(super) fn program(runtime: Runtime, phase: Phase, access: Access) -> Result<BpfProgram> {
    let in_force = match phase {
        Phase::First => Vec::new(),
        Phase::Final => told(filters(runtime, Phase::First, access))?,
    };
    let mut filters = told(filters(runtime, phase, access))?;
    let numbers: BTreeSet<u32> = filters
        .iter()
        .chain(&in_force)
        .flat_map(|filter| filter.table.0.keys())
        .filter_map(|n| u32::try_from(*n).ok())
        .collect();
    let run = |number| match is_decided(&in_force, &filters, number) {
        true => (number, Outcome::Verdict(libc::SECCOMP_RET_ALLOW)),
        false => (number, outcome(&filters, number)),
    };
    let mut runs = vec![run(0)];
    for number in numbers {
        runs.extend([number, number + 1].map(run));
    }
    if phase == Phase::First {
        runs.extend(FOREIGN.map(|first| (first, Outcome::Verdict(libc::SECCOMP_RET_KILL_PROCESS))));
    }
    runs.dedup_by_key(|(first, _)| *first);
    let asked: BTreeSet<i64> = runs
        .iter()
        .filter(|(_, outcome)| *outcome == Outcome::Arguments)
        .map(|(number, _)| i64::from(*number))
        .collect();
    for filter in &mut filters {
        filter.table.0.retain(|number, _| asked.contains(number));
    }
    filters.retain(|filter| !filter.listed || !filter.table.0.is_empty());
    let arguments = filters.into_iter().map(Filter::compile).collect::<Result<Vec<_>, _>>();
    decision::by_number(runs, chained(told(arguments)?)?)
}

/// Whether filters that are in force are at least as strict on a number as others that would come to them, whatever the arguments. Of two
/// verdicts, the kernel takes that with the smaller action.
fn is_decided(in_force: &[Filter], filters: &[Filter], number: u32) -> bool {
    let action = |verdict: u32| (verdict & libc::SECCOMP_RET_ACTION_FULL).cast_signed();
    match (outcome(in_force, number), outcome(filters, number)) {
        (Outcome::Verdict(before), Outcome::Verdict(now)) => before == now || action(before) < action(now),
        // None of those that come kills.
        (Outcome::Verdict(before), Outcome::Arguments) => action(before) <= action(libc::SECCOMP_RET_TRAP),
        (Outcome::Arguments, Outcome::Verdict(now)) => now == libc::SECCOMP_RET_ALLOW,
        (Outcome::Arguments, Outcome::Arguments) => rules(in_force, number).eq(rules(filters, number)),
    }
}

/// What each filter has for a number, and its verdict, for those that say anything of it.
fn rules(
    filters: &[Filter],
    number: u32,
) -> impl Iterator<Item = (Option<&Vec<SeccompRule>>, bool, &SeccompAction)> {
    filters.iter().filter_map(move |filter| {
        let found = filter.table.0.get(&i64::from(number));
        (found.is_some() || !filter.listed).then_some((found, filter.listed, &filter.verdict))
    })
}

/// What these filters say of a number.
fn outcome(filters: &[Filter], number: u32) -> Outcome {
    for filter in filters {
        let verdict = match (filter.table.0.get(&i64::from(number)), filter.listed) {
            (Some(rules), _) if !rules.is_empty() => return Outcome::Arguments,
            (Some(_), true) | (None, false) => &filter.verdict,
            _ => &SeccompAction::Allow,
        };
        if *verdict != SeccompAction::Allow {
            return Outcome::Verdict(u32::from(verdict.clone()));
        }
    }
    Outcome::Verdict(libc::SECCOMP_RET_ALLOW)
}

/// The filters for `runtime` as programs of their own, in the order in which they are asked.
#[cfg(test)]
pub(super) fn programs(runtime: Runtime, phase: Phase, access: Access) -> Result<Vec<BpfProgram>> {
    let filters = told(filters(runtime, phase, access))?;
    let foreign = FOREIGN.filter(|_| phase == Phase::First).map(decision::kill_from);
    let programs = foreign.into_iter().map(Ok).chain(filters.into_iter().map(Filter::compile));
    told(programs.collect())
}

fn told<T>(result: Result<T, BackendError>) -> Result<T> {
    result.map_err(|error| Error::new(ErrorKind::Worker, format!("lockdown: system call filter: {error}")))
}

/// One that knows two verdicts: `verdict` on what is in its table, or on what is not, and else to allow.
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

/// The filters for `runtime`, in the order in which they are asked.
fn filters(runtime: Runtime, phase: Phase, access: Access) -> Result<Vec<Filter>, BackendError> {
    let mut filters = Vec::new();
    let mut answers = answered(runtime, phase, access)?;
    if phase == Phase::Final {
        // Those of the first phase are still in force.
        let before = answered(runtime, Phase::First, access)?;
        answers.retain(|errno, table| before.get(errno) != Some(table));
    } else {
        filters.push(Filter { table: never(runtime), listed: true, verdict: SeccompAction::KillProcess });
    }
    for (errno, table) in answers {
        filters.push(Filter { table, listed: true, verdict: SeccompAction::Errno(errno.unsigned_abs()) });
    }
    let table = allow_list(runtime, phase, access)?;
    filters.push(Filter { table, listed: false, verdict: SeccompAction::Trap });
    Ok(filters)
}

fn never(runtime: Runtime) -> Table {
    let mut never = Table::default();
    never.every(calls::NEVER);
    if runtime != Runtime::Compiler {
        never.every(calls::NEVER_FUNCTIONS);
    }
    never
}

/// The calls that are answered with an errno instead of ending the process, by that errno.
fn answered(runtime: Runtime, phase: Phase, access: Access) -> Result<BTreeMap<c_int, Table>, BackendError> {
    let mut answers = BTreeMap::<c_int, Table>::new();
    // An answer would win over the list of what is allowed.
    let granted = granted(runtime, access);
    let mut answer = |errno, calls: &[c_long]| {
        let left: Vec<_> = calls.iter().copied().filter(|call| !granted.contains(call)).collect();
        answers.entry(errno).or_default().every(&left);
    };
    // Its flags are in memory, where a filter cannot see them; the C library falls back to clone.
    answer(libc::ENOSYS, &[libc::SYS_clone3]);
    if runtime == Runtime::Compiler {
        answer(libc::EPERM, calls::COMPILER_TIMES);
        answer(0, calls::COMPILER_MODES);
        return Ok(answers);
    }
    // An input can be a mapped piece of the reader's file: grown, the mapping would show the rest of it. Allocators fall
    // back to a copy.
    answer(libc::ENOMEM, &[libc::SYS_mremap]);
    // Nothing may block or replace the handler of denied calls. abort() changes the mask first and does not look at the
    // result: with an errno, a failed assertion ends as what it is and not as a denied call.
    answer(libc::EPERM, &[libc::SYS_rt_sigprocmask]);
    // printf() asks, before its first line, what kind of file it writes to and whether it is a terminal, and does not mind
    // getting no answer. (For the first, newer C libraries use fstat, which is allowed.)
    if runtime == Runtime::Cuda {
        let table = answers.entry(libc::ENOTTY).or_default();
        table.when(libc::SYS_ioctl, &[at_most(0, CONTROL_SOCKET)])?;
        // It looks for settings and libraries that it can do without.
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
    // Asked for by a new thread that looks where its stack ends.
    if access.threads && runtime != Runtime::Python {
        answer(libc::ENOSYS, &[libc::SYS_sched_getaffinity]);
    }
    if runtime == Runtime::Python {
        answer(libc::EPERM, &[libc::SYS_rt_sigaction]);
        answer(libc::EPERM, calls::ENDS);
        answer(libc::EACCES, calls::PYTHON_PATHS);
        answer(libc::ENOSYS, calls::PYTHON_TUNING);
        answer(libc::ENOSYS, calls::LOCKS);
    }
    if access.connect {
        // But for what switches a connection to not waiting.
        let table = answers.entry(libc::ENOTTY).or_default();
        table.when(libc::SYS_ioctl, &[at_most(0, CONTROL_SOCKET)])?;
        table.when(libc::SYS_ioctl, &[not_equal(1, NON_BLOCKING)])?;
    }
    Ok(answers)
}

/// The calls that the grants bring, whatever their arguments but for `openat`.
fn granted(runtime: Runtime, access: Access) -> Vec<c_long> {
    let mut granted = Vec::new();
    // A kernel opens nothing, whatever is granted.
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
        granted.extend(calls::ENDS);
    }
    granted
}

/// What passes.
fn allow_list(runtime: Runtime, phase: Phase, access: Access) -> Result<Table, BackendError> {
    let mut table = Table::default();
    table.every(calls::COMMON);
    if matches!(runtime, Runtime::Cuda | Runtime::Compiler) {
        table.every(calls::BOUNDED);
    } else {
        for &advice in calls::ADVICE {
            table.when(libc::SYS_madvise, &[equals(2, advice)])?;
        }
        for &operation in calls::WAITING {
            table.when(libc::SYS_futex, &[masked(1, FUTEX_OPERATION, operation)])?;
        }
    }
    // Elsewhere no handler returns: a forged return would block signals and set every register.
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
    for answered in answered(runtime, phase, access)?.into_values() {
        table.0.extend(answered.0);
    }
    if runtime == Runtime::Compiler {
        table.every(calls::COMPILER);
        table.when(libc::SYS_clone, &[no_bits(0, NEW_NAMESPACES)])?;
        // Its own limits only: those of another process of the user could be lowered until it fails.
        table.when(libc::SYS_prlimit64, &[equals(0, 0)])?;
        for option in [libc::PR_SET_NAME, libc::PR_GET_NAME, PR_SET_VMA] {
            table.when(libc::SYS_prctl, &[equals(0, option)])?;
        }
        return Ok(table);
    }
    if runtime == Runtime::Cuda {
        table.every(calls::DRIVER);
        table.when(libc::SYS_ioctl, &[above(0, CONTROL_SOCKET)])?;
        // Its threads' wake-ups, through descriptors of its own.
        table.when(libc::SYS_write, &[above(0, CONTROL_SOCKET)])?;
        table.when(libc::SYS_clone, &[all_bits(0, THREAD), no_bits(0, NEW_NAMESPACES)])?;
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
        table.when(call, &[equals(0, CONTROL_SOCKET), no_bits(flags, !MESSAGES)])?;
    }
    table.when(libc::SYS_sendto, &[equals(0, CONTROL_SOCKET), no_bits(3, !MESSAGES), is_null(4)])?;
    if access.connect {
        connections(&mut table, access)?;
    }
    // The Rust library asks in debug builds whether a descriptor that it closes is open.
    table.when(libc::SYS_fcntl, &[equals(1, libc::F_GETFD)])?;
    // The end of abort(): a signal to nobody but this process.
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
        // One more filter can only take away. No other flags: one of them makes a descriptor that others could answer on.
        let flags = if access.threads { EVERY_THREAD } else { 0 };
        table.when(libc::SYS_seccomp, &[equals(0, SET_MODE_FILTER), equals(1, flags)])?;
    }
    if loading || access.read {
        let writing = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND | libc::O_TMPFILE;
        // Python learns from Landlock's errno what it may not open. A program that others run as this user is never made.
        let refused = match (access.write, runtime) {
            (false, Runtime::Lua { .. } | Runtime::Cpp | Runtime::Wasm) => {
                [no_bits(2, writing | libc::O_PATH), no_bits(3, 0)]
            }
            _ => [no_bits(2, libc::O_PATH), no_bits(3, SPECIAL_MODES)],
        };
        table.when(libc::SYS_openat, &refused)?;
    }
    if access.threads {
        table.when(libc::SYS_clone, &[all_bits(0, THREAD), no_bits(0, NEW_NAMESPACES)])?;
        table.when(libc::SYS_prctl, &[equals(0, libc::PR_SET_NAME)])?;
    }
    let makes_code = runtime == (Runtime::Lua { jit: true }) || (runtime == Runtime::Python && access.jit);
    // Memory that grows by itself, or is of another size of pages: nothing here asks for it.
    let unusual = if runtime == Runtime::Cuda { 0 } else { libc::MAP_GROWSDOWN | libc::MAP_HUGETLB };
    if loading || makes_code {
        table.when(libc::SYS_mmap, &[no_bits(3, unusual)])?;
        table.every(&[libc::SYS_mprotect]);
    } else {
        table.when(libc::SYS_mmap, &[no_bits(2, libc::PROT_EXEC), no_bits(3, unusual)])?;
        if compiling {
            table.every(&[libc::SYS_mprotect]);
            // How other processors learn of new instructions.
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

/// Descriptors above the control socket are, beside granted files, connections that the host made: what is done with those,
/// and never to another address.
fn connections(table: &mut Table, access: Access) -> Result<(), BackendError> {
    let mine = || above(0, CONTROL_SOCKET);
    if !access.write {
        table.when(libc::SYS_write, &[mine()])?;
    }
    table.when(libc::SYS_recvfrom, &[mine(), no_bits(3, !MESSAGES)])?;
    table.when(libc::SYS_sendto, &[mine(), no_bits(3, !MESSAGES), is_null(4)])?;
    table.when(libc::SYS_shutdown, &[mine()])?;
    table.when(libc::SYS_ioctl, &[mine(), equals(1, NON_BLOCKING)])?;
    // What Python's `ssl` asks before it takes a socket, and what network libraries set on theirs.
    for option in [libc::SO_TYPE, libc::SO_ERROR, libc::SO_PROTOCOL, libc::SO_DOMAIN] {
        table.when(libc::SYS_getsockopt, &[mine(), equals(1, libc::SOL_SOCKET), equals(2, option)])?;
    }
    for (level, option) in [(libc::SOL_SOCKET, libc::SO_KEEPALIVE), (libc::IPPROTO_TCP, libc::TCP_NODELAY)] {
        table.when(libc::SYS_setsockopt, &[mine(), equals(1, level), equals(2, option)])?;
    }
    Ok(())
}

/// How messages may be sent and received: not out of band, and not without copying them.
const MESSAGES: c_int = libc::MSG_NOSIGNAL
    | libc::MSG_DONTWAIT
    | libc::MSG_CMSG_CLOEXEC
    | libc::MSG_TRUNC
    | libc::MSG_WAITALL
    | libc::MSG_PEEK
    | libc::MSG_MORE
    | libc::MSG_EOR;

/// The part of a `futex` operation that says which one it is.
const FUTEX_OPERATION: c_int = 0x7f;

/// `FIONBIO`.
const NON_BLOCKING: c_int = 0x5421;

/// Where memory of a process lies: answered with "no such call" for a driver, which knows for itself.
const TUNING: &[c_long] =
    &[libc::SYS_get_mempolicy, libc::SYS_mbind, libc::SYS_sched_setaffinity, libc::SYS_set_mempolicy];

/// What makes a new task a thread, and not a process.
const THREAD: c_int = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;

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

/// Names an anonymous mapping; newer C libraries do so for their heaps.
const PR_SET_VMA: c_int = 0x5356_4d41;

/// `SECCOMP_SET_MODE_FILTER`.
const SET_MODE_FILTER: c_int = 1;

/// System calls and the conditions under which each is meant. No conditions: always.
#[derive(Clone, Debug, Default, PartialEq)]
struct Table(BTreeMap<i64, Vec<SeccompRule>>);

impl Table {
    /// Adds `calls` whatever their arguments.
    fn every(&mut self, calls: &[c_long]) {
        for call in calls {
            let earlier = self.0.insert(*call, Vec::new());
            debug_assert!(
                earlier.is_none_or(|rules| rules.is_empty()),
                "call {call} with and without conditions"
            );
        }
    }

    /// Adds `call` where all `conditions` hold, as an alternative to those added before.
    fn when(&mut self, call: c_long, conditions: &[Condition]) -> Result<(), BackendError> {
        let conditions = conditions.iter().map(Condition::compile).collect::<Result<Vec<_>, _>>()?;
        let rule = SeccompRule::new(conditions)?;
        let earlier = self.0.insert(call, Vec::new());
        debug_assert!(
            earlier.as_ref().is_none_or(|rules| !rules.is_empty()),
            "call {call} is there without conditions"
        );
        let mut rules = earlier.unwrap_or_default();
        rules.push(rule);
        self.0.insert(call, rules);
        Ok(())
    }
}

/// A condition on the argument at an index.
struct Condition(u8, SeccompCmpArgLen, SeccompCmpOp, u64);

impl Condition {
    fn compile(&self) -> Result<SeccompCondition, BackendError> {
        let Condition(index, length, operator, value) = self;
        SeccompCondition::new(*index, length.clone(), operator.clone(), *value)
    }
}

/// An `int` argument: the kernel ignores the upper half of the register, so the filter has to.
fn equals(index: u8, value: c_int) -> Condition {
    Condition(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, u64::from(value.cast_unsigned()))
}

fn not_equal(index: u8, value: c_int) -> Condition {
    Condition(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, u64::from(value.cast_unsigned()))
}

/// A descriptor with a larger number. One that is negative is none, and an error.
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

/// Whether some bits are exactly these.
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

/// The first number of the x32 interface, which has the architecture of x86_64 and numbers of its own: all are killed at.
/// (A 32-bit call has another architecture.)
const FOREIGN: Option<u32> = if cfg!(target_arch = "x86_64") { Some(0x4000_0000) } else { None };

/// Installs a filter in the calling thread. The crate's own function would need `prctl` in the loading phase too.
fn install(program: &[sock_filter], flags: c_int) -> Result<()> {
    const {
        assert!(size_of::<sock_filter>() == size_of::<libc::sock_filter>());
        assert!(align_of::<sock_filter>() == align_of::<libc::sock_filter>());
    }
    let Ok(len) = u16::try_from(program.len()) else {
        fail!(Worker, "lockdown: a system call filter is too long");
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
