//! Test harness: runs hostile code in a separate process, as an ordinary user, in private mount, process and
//! network namespaces, each step in a forked child with a deadline.
//!
//! The test binary starts itself again for one *scenario* (see [`scenario`]); that process forks a child per
//! step and prints its outcome (see [`step`]), which [`run`] parses.

use std::env;
use std::ffi::{c_int, c_long};
use std::fs;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use super::super::{CONTROL_SOCKET, Policy, Rights, Runtime, StatusPage, prepare};

const SCENARIO: &str = "HYPERCHUNK_LOCKDOWN_SCENARIO";
const OUTSIDE: &str = "HYPERCHUNK_LOCKDOWN_OUTSIDE";
/// Set this where a machine without namespaces must count as a failure.
const REQUIRED: &str = "HYPERCHUNK_LOCKDOWN_TESTS_REQUIRED";
const NOBODY_UID: u32 = 65534;
const DEADLINE_S: u32 = 10;

/// Exit code of a child that completed its step.
pub(super) const SURVIVED_EXIT_CODE: c_int = 42;

/// Memory shared by a child with its waiting parent.
#[repr(C)]
pub(super) struct SharedPage {
    pub(super) status: StatusPage,
    pub(super) values: [AtomicI64; 8],
}

impl SharedPage {
    pub(super) fn put(&self, index: usize, value: i64) {
        self.values[index].store(value, Ordering::SeqCst);
    }
}

/// Outcome of a step's child.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) step: String,
    pub(super) code: i64,
    pub(super) signal: i64,
    pub(super) reason: i64,
    pub(super) syscall: i64,
    pub(super) values: Vec<i64>,
}

/// Runs a scenario in a separate process and returns the outcomes of its steps; `None` if this machine has no
/// way to isolate it.
pub(super) fn run(name: &str, variables: &[(&str, &Path)]) -> Option<Vec<Outcome>> {
    let Some(isolation) = isolation() else {
        assert!(env::var_os(REQUIRED).is_none(), "this machine refuses the namespaces that the tests need");
        eprintln!("skipped: this machine refuses the namespaces that the tests need");
        return None;
    };
    let test = concat!(module_path!(), "::scenario").split_once("::").unwrap().1.replace("harness::", "");
    let output = Command::new(&isolation[0])
        .args(&isolation[1..])
        .arg(env::current_exe().unwrap())
        .args(["--exact", &test, "--ignored", "--nocapture", "--test-threads=1"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env(SCENARIO, name)
        .env(OUTSIDE, namespaces().join(" "))
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scenario {name}: {}\n{text}\n{errors}", output.status);
    let outcomes: Vec<Outcome> = text.lines().filter_map(parse).collect();
    assert!(!outcomes.is_empty(), "scenario {name} has no steps:\n{text}\n{errors}");
    eprint!("{errors}");
    Some(outcomes)
}

/// Returns the command that runs another one in private namespaces, determined once.
fn isolation() -> Option<&'static [String]> {
    static FOUND: OnceLock<Option<Vec<String>>> = OnceLock::new();
    let find = || {
        let mut command = vec!["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child"];
        // SAFETY: geteuid cannot fail and has no memory effects.
        command.push(if unsafe { libc::geteuid() } == 0 { "--mount-proc" } else { "--user" });
        let works = Command::new(command[0]).args(&command[1..]).arg("true").stderr(Stdio::null()).status();
        works.is_ok_and(|status| status.success()).then(|| command.into_iter().map(String::from).collect())
    };
    FOUND.get_or_init(find).as_deref()
}

fn namespaces() -> Vec<String> {
    let name = |kind| fs::read_link(format!("/proc/self/ns/{kind}")).unwrap().to_string_lossy().into_owned();
    ["mnt", "pid", "net"].map(name).into()
}

/// Returns the name of the scenario of this process, after checking that it may run here.
pub(super) fn scenario() -> Option<String> {
    let name = env::var(SCENARIO).ok()?;
    let outside = env::var(OUTSIDE).unwrap();
    assert!(namespaces().iter().all(|inside| !outside.contains(inside)), "not in private namespaces");
    become_nobody();
    Some(name)
}

fn become_nobody() {
    // SAFETY: these calls change the credentials of this process and have no memory effects.
    unsafe {
        if libc::geteuid() == 0 {
            assert_eq!(libc::setgroups(0, ptr::null()), 0);
            assert_eq!(libc::setresgid(NOBODY_UID, NOBODY_UID, NOBODY_UID), 0);
            assert_eq!(libc::setresuid(NOBODY_UID, NOBODY_UID, NOBODY_UID), 0);
            // The change of user made the process undumpable, which a worker is not at its start.
            assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
        }
        assert_ne!(libc::geteuid(), 0);
    }
}

/// Runs `body` in a forked child, for at most [`DEADLINE_S`] seconds, and prints its outcome.
pub(super) fn step(name: &str, body: impl FnOnce(&SharedPage)) {
    assert!(!name.contains(' '));
    let shared = map_shared();
    // SAFETY: the child uses a copy of this process, in which no other thread is running.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: alarm has no memory effects.
        unsafe { libc::alarm(DEADLINE_S) };
        let code = match catch_unwind(AssertUnwindSafe(|| body(shared))) {
            Ok(()) => SURVIVED_EXIT_CODE,
            Err(_) => 101,
        };
        // SAFETY: _exit does not return.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the child is ours and `status` a local.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 };
    let signal = if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) } else { 0 };
    let (reason, call) = shared.status.stop().map_or((0, -1), |(reason, call)| (reason as u32, call));
    let values: Vec<String> = shared.values.iter().map(|v| v.load(Ordering::SeqCst).to_string()).collect();
    println!("\nSTEP {name} {code} {signal} {reason} {call} {}", values.join(" "));
}

fn parse(line: &str) -> Option<Outcome> {
    let mut words = line.strip_prefix("STEP ")?.split(' ');
    let step = words.next()?.to_owned();
    let numbers: Vec<i64> = words.map(|word| word.parse().unwrap()).collect();
    let [code, signal, reason, syscall, values @ ..] = numbers.as_slice() else { panic!("{line}") };
    Some(Outcome {
        step,
        code: *code,
        signal: *signal,
        reason: *reason,
        syscall: *syscall,
        values: values.to_vec(),
    })
}

fn map_shared() -> &'static SharedPage {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, which is zeroed and never unmapped; all zeros is a valid `SharedPage`.
    unsafe {
        let page = libc::mmap(ptr::null_mut(), size_of::<SharedPage>(), protection, flags, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        &*page.cast::<SharedPage>()
    }
}

/// Starts as a worker does: the control socket in its place, its other end on the next descriptor, the
/// handler installed.
pub(super) fn worker_start(shared: &SharedPage) {
    let mut pair = [0; 2];
    // SAFETY: the calls write to `pair` only; the owners of descriptors 3 and 4 are not used again in this
    // child.
    unsafe {
        assert_eq!(libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0, pair.as_mut_ptr()), 0);
        // Moved to high numbers first, in case one of the pair is 3 or 4 itself.
        let [near, far] = pair.map(|fd| libc::fcntl(fd, libc::F_DUPFD, 100));
        assert_eq!(libc::dup2(near, CONTROL_SOCKET), CONTROL_SOCKET);
        assert_eq!(libc::dup2(far, PEER), PEER);
        prepare((&raw const shared.status).cast_mut());
    }
}

/// Other end of the control socket in [`worker_start`], for which a real worker has no descriptor.
pub(super) const PEER: RawFd = 4;
/// Further descriptor for scenarios.
pub(super) const PAYLOAD: RawFd = 5;

pub(super) fn policy(runtime: Runtime) -> Policy {
    Policy {
        runtime,
        memory: 256 << 20,
        cpu_seconds: 5,
        file_size: 0,
        fine_clocks: true,
        rights: Rights::default(),
        scratch: None,
        tools: None,
        cache: None,
        keep_descriptors: vec![0, 1, 2, CONTROL_SOCKET, PEER, PAYLOAD],
    }
}

/// Makes a system call as a function would. Returns the result, or the negated errno.
pub(super) fn call(number: c_long, arguments: [usize; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: all effects on the memory of this process, a child made for the call, are intended by the
    // caller.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result != -1 { result } else { -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap()) }
}
