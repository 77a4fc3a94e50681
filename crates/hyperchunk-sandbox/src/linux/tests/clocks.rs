//! Tests of the resolution with which functions can measure time.

use std::arch::x86_64::{__rdtscp, _rdtsc};
use std::ffi::c_long;
use std::mem::transmute;
use std::ptr;

use super::super::{DENIED_EXIT_CODE, Runtime, StopReason, restrict};
use super::harness::{Outcome, SURVIVED_EXIT_CODE, SharedPage, call, policy, run, step, worker_start};
use super::{Policy, lock};

/// Name, and a function that returns at least 0 on success.
type ClockReader = (&'static str, fn() -> i64);

/// Methods to read a clock.
const CLOCK_READERS: [ClockReader; 10] = [
    ("cycles", || {
        // SAFETY: it reads a register.
        i64::try_from(unsafe { _rdtsc() } >> 1).unwrap()
    }),
    ("cycles-and-processor", || {
        let mut processor = 0;
        // SAFETY: it reads registers, and writes to a local.
        i64::try_from(unsafe { __rdtscp(&mut processor) } >> 1).unwrap()
    }),
    ("fine", || clock(libc::CLOCK_MONOTONIC)),
    ("call-fine", || clock_call(libc::CLOCK_REALTIME)),
    ("call-spent", || clock_call(libc::CLOCK_PROCESS_CPUTIME_ID)),
    ("call-of-the-day", || {
        let mut time = [0_i64; 2];
        call(libc::SYS_gettimeofday, [time.as_mut_ptr() as usize, 0, 0, 0, 0, 0])
    }),
    ("old-page-of-the-day", || {
        let mut time = [0_i64; 2];
        old_page(0, time.as_mut_ptr() as usize)
    }),
    ("old-page-seconds", || old_page(0x400, 0)),
    ("coarse", || clock(libc::CLOCK_REALTIME_COARSE)),
    ("call-coarse", || clock_call(libc::CLOCK_MONOTONIC_COARSE)),
];

fn clock(id: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to a local.
    i64::from(unsafe { libc::clock_gettime(id, &mut time) })
}

fn clock_call(id: libc::clockid_t) -> i64 {
    let mut time = [0_i64; 2];
    call(libc::SYS_clock_gettime, [usize::try_from(id).unwrap(), time.as_mut_ptr() as usize, 0, 0, 0, 0])
}

/// Calls the vsyscall page, at the fixed address from which kernels once provided the time. Newer kernels do
/// not map it, or run the equivalent system call.
fn old_page(offset: usize, argument: usize) -> i64 {
    let at = ptr::with_exposed_provenance::<()>(0xffff_ffff_ff60_0000 + offset);
    // SAFETY: either a function of this form is mapped there, or the call faults, which ends a child made for
    // it.
    let function = unsafe { transmute::<*const (), extern "C" fn(usize, usize) -> c_long>(at) };
    function(argument, 0)
}

pub(super) fn scenario(name: &str) -> bool {
    let lock_coarsely = |shared: &SharedPage| {
        worker_start(shared);
        restrict(&Policy { fine_clocks: false, ..policy(Runtime::Lua { jit: false }) }).unwrap();
    };
    match name {
        "clocks" => {
            for (way, read) in CLOCK_READERS {
                step(&format!("stranger/{way}"), |shared| {
                    lock_coarsely(shared);
                    shared.put(0, read());
                });
                step(&format!("known/{way}"), |shared| {
                    lock(shared, Runtime::Cpp);
                    shared.put(0, read());
                });
                step(&format!("control/{way}"), |_| assert!(read() >= 0));
            }
            step("crash", |shared| {
                lock_coarsely(shared);
                // SAFETY: none; the point is to crash.
                unsafe { ptr::with_exposed_provenance_mut::<u8>(16).write_volatile(1) };
            });
            step("wild-jump", |shared| {
                lock_coarsely(shared);
                // A non-canonical address, for which the processor raises a fault without an address.
                // SAFETY: none; the point is to crash.
                unsafe { ptr::with_exposed_provenance_mut::<u8>(1 << 60).write_volatile(1) };
            });
        }
        _ => return false,
    }
    true
}

#[test]
fn strangers_have_coarse_clocks() {
    let Some(outcomes) = run("clocks", &[]) else { return };
    let find = |name: String| outcomes.iter().find(|outcome| outcome.step == name).unwrap();
    let survived =
        |outcome: &Outcome| outcome.code == i64::from(SURVIVED_EXIT_CODE) && outcome.values[0] >= 0;
    let stopped = |outcome: &Outcome, reason: StopReason| {
        outcome.code == i64::from(DENIED_EXIT_CODE) && outcome.reason == reason as i64
    };
    let crashed = |outcome: &Outcome| {
        (outcome.signal == i64::from(libc::SIGSEGV) && outcome.reason == 0)
            || stopped(outcome, StopReason::Fault)
    };
    for (way, _) in CLOCK_READERS {
        let control = find(format!("control/{way}"));
        // Kernels without the vsyscall page.
        assert!(survived(control) || (way.starts_with("old") && crashed(control)), "{control:?}");
        let outcome = find(format!("stranger/{way}"));
        let right = match way {
            "coarse" | "call-coarse" => survived(outcome),
            "cycles" | "cycles-and-processor" => stopped(outcome, StopReason::FineClock),
            // If the kernel's clock does not use the processor's counter, the C library makes the system
            // call.
            "fine" => stopped(outcome, StopReason::FineClock) || stopped(outcome, StopReason::DeniedCall),
            _ => stopped(outcome, StopReason::DeniedCall) || (way.starts_with("old") && crashed(outcome)),
        };
        assert!(right, "{outcome:?}");
        let known = find(format!("known/{way}"));
        let right = if way == "old-page-seconds" { !survived(known) } else { survived(known) };
        assert!(right || (way.starts_with("old") && crashed(known)), "{known:?}");
    }
    for name in ["crash", "wild-jump"] {
        let outcome = find(name.into());
        assert!(crashed(outcome), "{outcome:?}");
    }
}
