//! Tests of the layers other than the seccomp filter, and of missing layers.

use std::fs::{self, File};
use std::hint;
use std::os::fd::AsRawFd as _;
use std::ptr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::super::{Layers, Runtime, namespaces, parent, process, restrict, rlimits};
use super::harness::{
    Outcome, PAYLOAD, SURVIVED_EXIT_CODE, SharedPage, call, policy, run, step, worker_start,
};
use super::lock;

/// Descriptor that no policy keeps.
const LEAKED_FD: i32 = 77;
const LUA: Runtime = Runtime::Lua { jit: false };

pub(super) fn scenario(name: &str) -> bool {
    match name {
        "report" => {
            step("restrict", |shared| {
                let start = Instant::now();
                restrict_and_report(shared, LUA);
                shared.put(3, i64::try_from(start.elapsed().as_micros()).unwrap());
            });
            step("capabilities", |shared| {
                let entered = namespaces::enter(LUA).unwrap();
                process::drop_capabilities().unwrap();
                let status = fs::read_to_string("/proc/self/status").unwrap();
                let none = |set| status.contains(&format!("{set}:\t0000000000000000\n"));
                let dropped = ["CapInh", "CapPrm", "CapEff", "CapAmb"].into_iter().all(none);
                shared.put(0, i64::from(dropped));
                let nobody = status.contains("Uid:\t65534\t65534\t65534\t65534\n");
                shared.put(1, i64::from(nobody || !entered.contains(Layers::USERNS)));
            });
        }
        "switches" => switches_scenario(),
        "new-code" => step(name, |shared| {
            process::forbid_new_code();
            shared.put(0, call(libc::SYS_prctl, [PR_GET_MDWE, 0, 0, 0, 0, 0]));
            let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
            let memory = call(libc::SYS_mmap, [0, 4096, 3, private, usize::MAX, 0]);
            let memory = usize::try_from(memory).unwrap();
            shared.put(1, call(libc::SYS_mprotect, [memory, 4096, 5, 0, 0, 0]));
        }),
        "missing" => missing_scenario(),
        "limits" => limits_scenario(),
        "crashes" => {
            step("segv", |shared| {
                lock(shared, LUA);
                // SAFETY: none; the point is to crash.
                unsafe { ptr::with_exposed_provenance_mut::<u8>(16).write_volatile(1) };
            });
            step("abort", |shared| {
                lock(shared, LUA);
                // SAFETY: abort does not return.
                unsafe { libc::abort() };
            });
        }
        "descriptors" => step(name, |shared| {
            worker_start(shared);
            let secret = File::open("/etc/passwd").unwrap();
            for copy in [PAYLOAD, LEAKED_FD] {
                // SAFETY: the owner of either descriptor is not used again in this child.
                assert_eq!(unsafe { libc::dup2(secret.as_raw_fd(), copy) }, copy);
            }
            restrict(&policy(LUA)).unwrap();
            let mut buffer = [0_u8; 4];
            let read = |fd: i32, buffer: &mut [u8; 4]| {
                call(libc::SYS_read, [fd as usize, buffer.as_mut_ptr() as usize, 4, 0, 0, 0])
            };
            shared.put(0, read(LEAKED_FD, &mut buffer));
            shared.put(1, read(PAYLOAD, &mut buffer));
        }),
        "orphans" => step(name, orphan_scenario),
        _ => return false,
    }
    true
}

fn restrict_and_report(shared: &SharedPage, runtime: Runtime) {
    worker_start(shared);
    match restrict(&policy(runtime)) {
        Ok(report) => {
            shared.put(0, i64::from(report.layers.0));
            shared.put(1, i64::from(report.landlock_abi));
        }
        Err(error) => {
            eprintln!("refused: {error}");
            shared.put(2, 1);
        }
    }
}

/// Makes the kernel answer a call as one that lacks the feature would.
fn break_call(number: i64, errno: i32) {
    let rules = [(number, vec![])].into_iter().collect();
    let answer = SeccompAction::Errno(errno.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let program: BpfProgram =
        SeccompFilter::new(rules, SeccompAction::Allow, answer, arch).unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

const PR_SET_MDWE: u64 = 65;
const PR_GET_MDWE: usize = 66;
const PR_SET_SPECULATION_CTRL: u64 = 53;

/// Locks down processes with a filter that kills on a certain `prctl`: a killed process had made the call.
fn switches_scenario() {
    let deadly = |option: u64| {
        let argument = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, option).unwrap();
        let rules =
            [(libc::SYS_prctl, vec![SeccompRule::new(vec![argument]).unwrap()])].into_iter().collect();
        let arch = std::env::consts::ARCH.try_into().unwrap();
        let (pass, kill) = (SeccompAction::Allow, SeccompAction::KillProcess);
        let program: BpfProgram = SeccompFilter::new(rules, pass, kill, arch).unwrap().try_into().unwrap();
        seccompiler::apply_filter(&program).unwrap();
    };
    for (name, option, runtime, fine_clocks) in [
        ("code", PR_SET_MDWE, LUA, true),
        ("code-python", PR_SET_MDWE, Runtime::Python, true),
        ("code-jit", PR_SET_MDWE, Runtime::Lua { jit: true }, true),
        ("speculation", PR_SET_SPECULATION_CTRL, LUA, false),
        ("speculation-wasm", PR_SET_SPECULATION_CTRL, Runtime::Wasm, false),
        ("speculation-trusted", PR_SET_SPECULATION_CTRL, LUA, true),
    ] {
        step(name, |shared| {
            worker_start(shared);
            deadly(option);
            restrict(&super::super::Policy { fine_clocks, ..policy(runtime) }).unwrap();
        });
    }
}

fn missing_scenario() {
    for (name, number, errno) in [
        ("landlock", libc::SYS_landlock_create_ruleset, libc::ENOSYS),
        ("landlock-off", libc::SYS_landlock_create_ruleset, libc::EOPNOTSUPP),
        ("landlock-restrict", libc::SYS_landlock_restrict_self, libc::EPERM),
        ("seccomp", libc::SYS_seccomp, libc::EINVAL),
        ("close-range", libc::SYS_close_range, libc::ENOSYS),
        ("rlimits", libc::SYS_prlimit64, libc::EPERM),
        ("namespaces", libc::SYS_unshare, libc::ENOSPC),
    ] {
        step(name, |shared| {
            break_call(number, errno);
            restrict_and_report(shared, LUA);
        });
    }
    step("threads", |shared| {
        let _sleeper = thread::spawn(|| thread::sleep(Duration::from_secs(5)));
        restrict_and_report(shared, LUA);
    });
    step("scratch", |shared| {
        let with_scratch = super::super::Policy { scratch: Some("/tmp".into()), ..policy(LUA) };
        shared.put(2, i64::from(restrict(&with_scratch).is_err()));
        shared.put(3, i64::from(restrict(&policy(Runtime::Compiler)).is_err()));
    });
}

fn limits_scenario() {
    step("memory", |shared| {
        lock(shared, LUA);
        let map = |bytes: usize| {
            call(
                libc::SYS_mmap,
                [0, bytes, 3, (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize, usize::MAX, 0],
            )
        };
        shared.put(0, map(8 << 30));
        shared.put(1, map(100 << 20));
        shared.put(2, map(200 << 20));
        shared.put(3, i64::from(Vec::<u8>::new().try_reserve_exact(300 << 20).is_err()));
    });
    step("cpu", |shared| {
        worker_start(shared);
        restrict(&super::super::Policy { cpu_seconds: 1, ..policy(LUA) }).unwrap();
        loop {
            hint::spin_loop();
        }
    });
    step("values", |shared| {
        rlimits::apply(&policy(LUA), Layers::NONE).unwrap();
        let get = |resource| {
            let mut limit = libc::rlimit { rlim_cur: 7, rlim_max: 7 };
            // SAFETY: the call writes to a local.
            assert_eq!(unsafe { libc::getrlimit(resource, &mut limit) }, 0);
            (i64::try_from(limit.rlim_cur).unwrap_or(-1), i64::try_from(limit.rlim_max).unwrap_or(-1))
        };
        let zeros = [libc::RLIMIT_CORE, libc::RLIMIT_FSIZE, libc::RLIMIT_MEMLOCK, libc::RLIMIT_NPROC];
        shared.put(0, i64::from(zeros.into_iter().all(|resource| get(resource) == (0, 0))));
        shared.put(1, get(libc::RLIMIT_CPU).0);
        shared.put(2, get(libc::RLIMIT_CPU).1);
        shared.put(3, get(libc::RLIMIT_NOFILE).1);
        // An unprivileged process, and likewise its host, can raise its soft limit only up to the hard one.
        let raised = libc::rlimit { rlim_cur: 1000, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the limit is only read.
        shared.put(4, i64::from(unsafe { libc::setrlimit(libc::RLIMIT_CPU, &raised) }));
    });
}

/// Checks that a worker ends with its host, by a signal that cannot be blocked.
fn orphan_scenario(shared: &SharedPage) {
    let pulse = || shared.values[0].load(Ordering::SeqCst);
    let beats = || {
        let before = pulse();
        thread::sleep(Duration::from_millis(100));
        pulse() > before
    };
    // A busy machine may delay this.
    let comes = |wanted: bool| (0..50).any(|_| beats() == wanted);
    // SAFETY: this process has one thread.
    let host = unsafe { libc::fork() };
    if host == 0 {
        // SAFETY: this process has one thread.
        if unsafe { libc::fork() } == 0 {
            heartbeat(shared)
        }
        shared.put(1, i64::from(comes(true)));
        // SAFETY: _exit does not return.
        unsafe { libc::_exit(0) };
    }
    // SAFETY: the child is ours and its status is not needed.
    assert_eq!(unsafe { libc::waitpid(host, ptr::null_mut(), 0) }, host);
    shared.put(2, i64::from(!comes(false)));
}

fn heartbeat(shared: &SharedPage) -> ! {
    lock(shared, LUA);
    // Bounded to some ten seconds, in case the test fails.
    for _ in 0..10_000 {
        shared.values[0].fetch_add(1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: _exit does not return.
    unsafe { libc::_exit(parent::HOST_GONE_EXIT_CODE) }
}

fn find<'a>(outcomes: &'a [Outcome], name: &str) -> &'a Outcome {
    outcomes.iter().find(|outcome| outcome.step == name).unwrap()
}

fn layers(outcome: &Outcome) -> Layers {
    Layers(u32::try_from(outcome.values[0]).unwrap())
}

const NAMESPACES: [Layers; 4] = [Layers::USERNS, Layers::NETNS, Layers::IPCNS, Layers::UTSNS];

#[test]
fn the_layers_reached_are_reported() {
    let Some(outcomes) = run("report", &[]) else { return };
    let outcome = find(&outcomes, "restrict");
    assert_eq!(outcome.code, i64::from(SURVIVED_EXIT_CODE), "{outcome:?}");
    assert!(layers(outcome).contains(Layers::MANDATORY), "{outcome:?}");
    assert!(outcome.values[1] >= 1);
    let [_, abi, _, time, ..] = outcome.values[..] else { unreachable!() };
    eprintln!("layers: {}; Landlock {abi}; {time} µs", layers(outcome));
    let capabilities = find(&outcomes, "capabilities");
    assert_eq!(capabilities.values[..2], [1, 1], "{capabilities:?}");
}

#[test]
fn switches_of_the_kernel_are_thrown_for_those_who_need_them() {
    let Some(outcomes) = run("switches", &[]) else { return };
    for outcome in &outcomes {
        let thrown = !matches!(outcome.step.as_str(), "code-jit" | "speculation-trusted");
        assert_eq!(outcome.signal == i64::from(libc::SIGSYS), thrown, "{outcome:?}");
        assert_eq!(outcome.code == i64::from(SURVIVED_EXIT_CODE), !thrown, "{outcome:?}");
    }
}

/// Without a seccomp filter, this tests the kernel's own refusal.
#[test]
fn what_was_writable_never_becomes_executable() {
    let Some(outcomes) = run("new-code", &[]) else { return };
    let outcome = find(&outcomes, "new-code");
    if outcome.values[0] == -i64::from(libc::EINVAL) {
        eprintln!("this kernel has no PR_SET_MDWE");
        return;
    }
    assert_eq!(outcome.values[..2], [1, -i64::from(libc::EACCES)], "{outcome:?}");
}

#[test]
fn a_missing_layer_is_an_error_and_missing_namespaces_are_not() {
    let Some(outcomes) = run("missing", &[]) else { return };
    for outcome in &outcomes {
        assert_eq!(outcome.code, i64::from(SURVIVED_EXIT_CODE), "{outcome:?}");
        assert_eq!(outcome.values[2], i64::from(outcome.step != "namespaces"), "{outcome:?}");
    }
    let without = layers(find(&outcomes, "namespaces"));
    assert!(without.contains(Layers::MANDATORY));
    assert!(NAMESPACES.iter().all(|layer| !without.contains(*layer)), "{without}");
    assert_eq!(find(&outcomes, "scratch").values[3], 1);
}

#[test]
fn memory_and_time_are_limited() {
    let Some(outcomes) = run("limits", &[]) else { return };
    let memory = find(&outcomes, "memory");
    let too_much = -i64::from(libc::ENOMEM);
    assert_eq!((memory.values[0], memory.values[2]), (too_much, too_much), "{memory:?}");
    assert!(memory.values[1] > 0, "{memory:?}");
    assert_eq!(memory.values[3], 1);
    assert_eq!(find(&outcomes, "cpu").signal, i64::from(libc::SIGXCPU));
    assert_eq!(find(&outcomes, "values").values[..5], [1, 5, 360, 64, -1]);
}

#[test]
fn crashes_are_told_from_denied_calls() {
    let Some(outcomes) = run("crashes", &[]) else { return };
    assert_eq!(find(&outcomes, "segv").signal, i64::from(libc::SIGSEGV));
    assert_eq!(find(&outcomes, "abort").signal, i64::from(libc::SIGABRT));
}

#[test]
fn inherited_descriptors_are_closed() {
    let Some(outcomes) = run("descriptors", &[]) else { return };
    let outcome = find(&outcomes, "descriptors");
    assert_eq!(outcome.values[..2], [-i64::from(libc::EBADF), 4], "{outcome:?}");
}

#[test]
fn a_worker_ends_with_its_host() {
    let Some(outcomes) = run("orphans", &[]) else { return };
    let outcome = find(&outcomes, "orphans");
    assert!(outcome.values[0] > 10, "the worker never ran: {outcome:?}");
    assert_eq!(outcome.values[1..3], [1, 0], "{outcome:?}");
}

#[test]
fn descriptor_gaps() {
    let gaps = |keep: &[i32]| process::gaps(keep).unwrap();
    assert_eq!(gaps(&[]), [(0, u32::MAX)]);
    assert_eq!(gaps(&[0, 1, 2, 3]), [(4, u32::MAX)]);
    assert_eq!(gaps(&[7, 1, 1, 3, 2]), [(0, 0), (4, 6), (8, u32::MAX)]);
    assert!(process::gaps(&[-1]).is_err());
}

#[test]
fn layer_names() {
    let all = Layers(0xff);
    assert_eq!(Layers::from_names(all.names()), Ok(all));
    assert_eq!(Layers::from_names(["seccomp", "wall"]), Err("wall"));
    assert_eq!(Layers::MANDATORY.to_string(), "no_new_privs, rlimits, landlock, seccomp");
    assert!(!Layers::SECCOMP.contains(Layers::MANDATORY));
}
