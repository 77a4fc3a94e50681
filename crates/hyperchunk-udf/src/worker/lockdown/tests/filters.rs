//! The one filter that is installed, against the several that it is joined of.

use super::super::seccomp::{Phase, parts, program};
use super::super::{Access, Runtime};
use seccompiler::sock_filter;

const KILL: u32 = 0x8000_0000;
const TRAP: u32 = 0x0003_0000;
const ERRNO: u32 = 0x0005_0000;

/// What the kernel does with a filter. Call: the number, the architecture, the instruction pointer, six arguments.
fn verdict(program: &[sock_filter], call: &[u32; 16]) -> u32 {
    let (mut at, mut value) = (0, 0);
    loop {
        let step = &program[at];
        at += 1;
        let jump = |yes: bool| usize::from(if yes { step.jt } else { step.jf });
        match step.code {
            0x20 => value = call[usize::try_from(step.k).unwrap() / 4],
            0x54 => value &= step.k,
            0x05 => at += usize::try_from(step.k).unwrap(),
            0x15 => at += jump(value == step.k),
            0x25 => at += jump(value > step.k),
            0x35 => at += jump(value >= step.k),
            0x45 => at += jump(value & step.k != 0),
            0x06 => return step.k,
            other => panic!("instruction {other:#x}"),
        }
    }
}

/// The strictest of what several filters say: the kernel's order is that of the numbers, with the sign.
fn strictest(programs: &[Vec<sock_filter>], call: &[u32; 16]) -> u32 {
    programs
        .iter()
        .map(|program| verdict(program, call))
        .min_by_key(|v| (v & 0xffff_0000).cast_signed())
        .unwrap()
}

fn cases() -> Vec<(Runtime, Phase, Access)> {
    let mut cases = Vec::new();
    for runtime in [
        Runtime::Lua { jit: false },
        Runtime::Lua { jit: true },
        Runtime::Cpp,
        Runtime::Python,
        Runtime::Wasm,
        Runtime::Compiler,
    ] {
        for bits in [0, 1, 2, 4, 8, 16, 31] {
            let [read, write, threads, connect, jit] = [1, 2, 4, 8, 16].map(|bit| bits & bit != 0);
            // Who may write may read.
            let access = Access { read: read || write, write, threads, connect, jit };
            let nothing = matches!(runtime, Runtime::Wasm | Runtime::Compiler);
            if nothing && bits != 0 {
                continue;
            }
            cases.push((runtime, Phase::First, access));
            if matches!(runtime, Runtime::Cpp | Runtime::Wasm) {
                cases.push((runtime, Phase::Final, access));
            }
        }
    }
    cases
}

#[test]
fn the_joined_filter_says_what_its_parts_say() {
    let own = i32::try_from(std::process::id()).unwrap().cast_unsigned();
    // Descriptors, flags of open, of memory, of clone and of sockets, commands.
    let numbers =
        [0, 1, 2, 3, 4, 5, 7, 16, own, 0x200, 0o100, 0x5421, 0x1_0000, 0x7c02_0000, 0x8000_0000, u32::MAX];
    let architecture = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
    let (mut seen, mut calls) = ([0u32; 4], 0);
    for (runtime, phase, access) in cases() {
        let (parts, joined) =
            (parts(runtime, phase, access).unwrap(), program(runtime, phase, access).unwrap());
        assert!((1..4096).contains(&joined.len()), "{runtime:?} {access:?}: {}", joined.len());
        for number in (0..520).chain([0x4000_0000, 0x4000_0027, u32::MAX]) {
            for (n, &first) in numbers.iter().enumerate() {
                let second = numbers[(n * 7 + 3) % numbers.len()];
                let mut call = [0; 16];
                (call[0], call[1]) = (number, architecture);
                for argument in 0..6 {
                    call[4 + 2 * argument] = if argument % 2 == 0 { first } else { second };
                }
                // The address that goes with what is sent.
                call[12] = u32::from(n % 3 == 0);
                let (one, many) = (verdict(&joined, &call), strictest(&parts, &call));
                assert_eq!(
                    one, many,
                    "{runtime:?} {phase:?} {access:?}: call {number} {first:#x} {second:#x}"
                );
                seen[match one & 0xffff_0000 {
                    KILL => 0,
                    TRAP => 1,
                    ERRNO => 2,
                    _ => 3,
                }] += 1;
                calls += 1;
            }
        }
        // Another architecture's.
        assert_eq!(verdict(&joined, &[0; 16]) & 0xffff_0000, KILL);
    }
    assert!(seen.iter().all(|&n| n > calls / 1000), "{seen:?}");
}
