//! Tests of the sandbox. `tests::harness` explains how hostile code runs without harm.

mod attacks;
#[cfg(target_arch = "x86_64")]
mod clocks;
mod filters;
mod grants;
mod harness;
mod languages;
mod layers;

use std::ptr;

use attacks::{ExpectedResult, NO_CONTROL, attacks};
use harness::{Outcome, PEER, SURVIVED_EXIT_CODE, SharedPage, call, policy, run, step, worker_start};

use super::{
    CONTROL_SOCKET, DENIED_EXIT_CODE, Policy, Rights, Runtime, StopReason, end_loading, restrict,
    syscall_name,
};

const FUNCTIONS: [(&str, Runtime); 3] =
    [("lua", Runtime::Lua { jit: false }), ("cpp", Runtime::Cpp), ("python", Runtime::Python)];
/// Functions, and the host's side of kernels, which has no grants except the GPU.
const ATTACKED: [(&str, Runtime); 4] = [FUNCTIONS[0], FUNCTIONS[1], FUNCTIONS[2], ("cuda", Runtime::Cuda)];

/// Entry of the process that `harness::run` starts.
#[test]
#[ignore = "started by the other tests, in a process of its own"]
fn scenario() {
    let Some(name) = harness::scenario() else { return };
    match name.as_str() {
        "attacks" => attack_scenario(),
        "controls" => each_attack(|name, index| {
            if !NO_CONTROL.contains(&name) {
                step(name, |shared| {
                    worker_start(shared);
                    shared.put(0, attacks()[index].run());
                });
            }
        }),
        "allowed" => FUNCTIONS.iter().for_each(|(name, runtime)| {
            step(name, |shared| {
                lock(shared, *runtime);
                honest_calls(shared);
            });
        }),
        other => {
            #[cfg(target_arch = "x86_64")]
            if clocks::scenario(other) {
                return;
            }
            let known = layers::scenario(other) || languages::scenario(other) || grants::scenario(other);
            assert!(known, "no scenario {other}");
        }
    }
}

/// Applies the complete sandbox of a function.
fn lock(shared: &SharedPage, runtime: Runtime) {
    lock_with(shared, runtime, Rights::default());
}

fn lock_with(shared: &SharedPage, runtime: Runtime, rights: Rights) {
    worker_start(shared);
    lock_keeping(runtime, rights);
}

/// Like [`lock_with`], with unchanged descriptors.
fn lock_keeping(runtime: Runtime, rights: Rights) {
    restrict(&Policy { rights: rights.clone(), file_size: 1 << 16, ..policy(runtime) }).unwrap();
    if runtime == Runtime::Cpp {
        end_loading(runtime, &rights).unwrap();
    }
}

/// Returns whether an attack is harmless for this runtime. A driver has threads, of which one on another's
/// stack does harm, and may use all forms of waiting and of memory.
fn may_be_tried(runtime: Runtime, attack: &str) -> bool {
    runtime != Runtime::Cuda
        || !["clone-thread", "futex-pi", "madvise-merge", "mmap-growing"].contains(&attack)
}

fn each_attack(mut action: impl FnMut(&str, usize)) {
    attacks().iter().enumerate().for_each(|(index, attack)| action(attack.name, index));
}

fn attack_scenario() {
    for (name, runtime) in ATTACKED {
        each_attack(|attack, index| {
            if !may_be_tried(runtime, attack) {
                return;
            }
            step(&format!("{name}/{attack}"), |shared| {
                // Computed here, since some arguments are process ids.
                let attack = &attacks()[index];
                lock(shared, runtime);
                shared.put(0, attack.run());
            });
        });
        #[cfg(target_arch = "x86_64")]
        step(&format!("{name}/int80"), |shared| {
            lock(shared, runtime);
            shared.put(0, i64::from(getpid_by_32_bit_call()));
        });
    }
}

#[cfg(target_arch = "x86_64")]
fn getpid_by_32_bit_call() -> i32 {
    let mut result = 20;
    // SAFETY: the 32-bit getpid takes nothing and changes eax (and, on some kernels, r8 to r11).
    unsafe {
        std::arch::asm!("int 0x80", inout("eax") result, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    result
}

#[test]
fn every_attack_meets_its_fate() {
    let Some(outcomes) = run("attacks", &[]) else { return };
    let mut wrong = Vec::new();
    for (language, runtime) in ATTACKED {
        for attack in attacks().iter().filter(|attack| may_be_tried(runtime, attack.name)) {
            let name = format!("{language}/{}", attack.name);
            let outcome = outcomes.iter().find(|outcome| outcome.step == name).unwrap();
            let fate = attack.fate(runtime);
            if !met(outcome, fate, attack.number) {
                wrong.push(format!("{fate:?} expected: {outcome:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for outcome in outcomes.iter().filter(|outcome| outcome.step.ends_with("/int80")) {
        // Without 32-bit support in the kernel the instruction itself is a fault.
        let signals = [libc::SIGSYS, libc::SIGSEGV].map(i64::from);
        assert!(signals.contains(&outcome.signal), "{outcome:?}");
    }
}

fn met(outcome: &Outcome, fate: ExpectedResult, number: i64) -> bool {
    let stopped = |reason| {
        outcome.code == i64::from(DENIED_EXIT_CODE)
            && outcome.syscall == number
            && outcome.reason == i64::from(reason as u32)
    };
    match fate {
        ExpectedResult::Denied => stopped(StopReason::DeniedCall),
        ExpectedResult::DeniedExecutable => stopped(StopReason::ExecutableMemory),
        ExpectedResult::Killed => outcome.signal == i64::from(libc::SIGSYS),
        ExpectedResult::Allowed => outcome.code == i64::from(SURVIVED_EXIT_CODE) && outcome.values[0] >= 0,
        ExpectedResult::Errno(errno) => {
            outcome.code == i64::from(SURVIVED_EXIT_CODE) && outcome.values[0] == -i64::from(errno)
        }
    }
}

/// Control: without a sandbox the same calls do not end the process, and the most important ones succeed.
#[test]
fn attacks_work_without_the_sandbox() {
    let Some(outcomes) = run("controls", &[]) else { return };
    let ended: Vec<_> =
        outcomes.iter().filter(|outcome| outcome.code != i64::from(SURVIVED_EXIT_CODE)).collect();
    assert!(ended.is_empty(), "{ended:#?}");
    for name in
        ["open-read", "stat", "access", "memfd", "socket-inet", "socket-unix", "kill-self", "mmap-exec"]
    {
        let outcome = outcomes.iter().find(|outcome| outcome.step == name).unwrap();
        assert!(outcome.values[0] >= 0, "{outcome:?}");
    }
}

/// Makes the calls that an honest function needs.
fn honest_calls(shared: &SharedPage) {
    let mut heap = vec![1_u8; 32 << 20];
    heap.resize(64 << 20, 2);
    drop(heap);
    assert!(call(libc::SYS_getpid, [0; 6]) > 0);
    let mut random = [0_u8; 16];
    assert_eq!(call(libc::SYS_getrandom, [random.as_mut_ptr() as usize, 16, 0, 0, 0, 0]), 16);
    let mut time = [0_i64; 2];
    assert_eq!(call(libc::SYS_clock_gettime, [1, time.as_mut_ptr() as usize, 0, 0, 0, 0]), 0);
    std::thread::sleep(std::time::Duration::from_millis(1));
    let message = b"done";
    // SAFETY: the buffer outlives the call.
    let sent =
        unsafe { libc::send(CONTROL_SOCKET, message.as_ptr().cast(), message.len(), libc::MSG_NOSIGNAL) };
    assert_eq!(sent, 4);
    let mut answer = [0_u8; 8];
    // SAFETY: the buffer outlives the call and has the given length.
    let received = unsafe { libc::read(PEER, answer.as_mut_ptr().cast(), answer.len()) };
    assert_eq!(received, 4);
    eprintln!("a function may write to its error stream");
    // SAFETY: the string is a literal; a null stream stands for all.
    unsafe {
        assert!(libc::puts(c"and to its output, by way of the C library".as_ptr()) > 0);
        assert_eq!(libc::fflush(ptr::null_mut()), 0);
    }
    // SAFETY: a new anonymous mapping of the kernel's choice.
    let page =
        unsafe { libc::mmap(ptr::null_mut(), 4096, 3, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    // SAFETY: the mapping was made above and has no other user.
    unsafe {
        assert_eq!(libc::mprotect(page, 4096, libc::PROT_READ), 0);
        assert_eq!(libc::munmap(page, 4096), 0);
    }
    shared.put(0, 1);
}

#[test]
fn honest_functions_run() {
    let Some(outcomes) = run("allowed", &[]) else { return };
    assert_eq!(outcomes.len(), FUNCTIONS.len());
    for outcome in outcomes {
        assert_eq!((outcome.code, outcome.values[0]), (i64::from(SURVIVED_EXIT_CODE), 1), "{outcome:?}");
    }
}

#[test]
fn system_calls_have_names() {
    assert_eq!(syscall_name(libc::SYS_connect), Some("connect"));
    assert_eq!(syscall_name(libc::SYS_clone3), Some("clone3"));
    assert_eq!(syscall_name(-1), None);
    assert_eq!(syscall_name(1 << 40), None);
    for list in [
        super::calls::COMMON,
        super::calls::COMPILER,
        super::calls::DRIVER,
        super::calls::PYTHON_PATHS,
        super::calls::NEVER,
    ] {
        for number in list {
            assert!(syscall_name(*number).is_some(), "call {number}");
        }
    }
}
