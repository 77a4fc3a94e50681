//! Tests of the filters as programs, interpreted here instead of by the kernel.

use super::super::seccomp::{Phase, program, programs};
use super::super::{Access, Runtime};
use seccompiler::{BpfProgram, sock_filter};

const RUNTIMES: [Runtime; 7] = [
    Runtime::Lua { jit: false },
    Runtime::Lua { jit: true },
    Runtime::Cpp,
    Runtime::Wasm,
    Runtime::Python,
    Runtime::Cuda,
    Runtime::Compiler,
];

/// System call as a filter sees it.
#[derive(Clone, Copy, Debug)]
struct Call {
    number: u32,
    architecture: u32,
    arguments: [u64; 6],
}

impl Call {
    /// Returns the word at an offset of `struct seccomp_data`.
    fn word(&self, offset: u32) -> u32 {
        let argument = |at: u32| self.arguments[(at / 8) as usize].to_le_bytes();
        match offset {
            0 => self.number,
            4 => self.architecture,
            16.. => {
                let at = ((offset - 16) % 8) as usize;
                u32::from_le_bytes(argument(offset - 16)[at..at + 4].try_into().unwrap())
            }
            _ => panic!("word {offset}"),
        }
    }
}

/// Interprets a program as the kernel would.
fn verdict(program: &[sock_filter], call: &Call) -> u32 {
    let (mut at, mut a) = (0, 0);
    loop {
        let step = &program[at];
        at += 1;
        let test = match step.code {
            0x20 => {
                a = call.word(step.k);
                continue;
            }
            0x54 => {
                a &= step.k;
                continue;
            }
            0x05 => {
                at += step.k as usize;
                continue;
            }
            0x06 => return step.k,
            0x15 => a == step.k,
            0x25 => a > step.k,
            0x35 => a >= step.k,
            0x45 => a & step.k != 0,
            other => panic!("instruction {other:#x}"),
        };
        at += usize::from(if test { step.jt } else { step.jf });
    }
}

/// Returns the strictest of several verdicts, in the kernel's order.
fn strictest(programs: &[BpfProgram], call: &Call) -> u32 {
    // Of two with the same action, the kernel takes the verdict of the filter installed last.
    let verdicts = programs.iter().rev().map(|program| verdict(program, call));
    verdicts.min_by_key(|verdict| (verdict & libc::SECCOMP_RET_ACTION_FULL).cast_signed()).unwrap()
}

/// Returns calls of every number, with arguments at the boundaries of the rules.
fn calls() -> impl Iterator<Item = Call> {
    let architectures = [0xc000_003e, 0xc000_00b7, 0x4000_0003];
    let values = [0, 1, 2, 3, 4, 6, 9, 0o4755, 0x5421, 0x80000, 0x5356_4d41, 0x003d_0f00, u64::MAX, 1 << 32];
    architectures.into_iter().flat_map(move |architecture| {
        (0..600_u32).chain([0x3fff_ffff, 0x4000_0000, 0x4000_0001, u32::MAX]).flat_map(move |number| {
            values.into_iter().enumerate().flat_map(move |(n, value)| {
                let next = values[(n * 5 + 3) % values.len()];
                let third = u64::from(std::process::id());
                [
                    [value; 6],
                    [value, next, value, next, 0, 0],
                    [third, value, libc::SIGABRT as u64, 0, next, 0],
                ]
                .map(|arguments| Call { number, architecture, arguments })
            })
        })
    })
}

#[test]
fn one_filter_decides_as_several() {
    let grants = [
        Access::default(),
        Access { read: true, write: true, threads: true, connect: true, jit: true, coarse_clocks: false },
        Access { coarse_clocks: true, ..Access::default() },
        Access { connect: true, ..Access::default() },
    ];
    for runtime in RUNTIMES {
        for access in grants {
            for phase in [Phase::First, Phase::Final] {
                let several = programs(runtime, phase, access).unwrap();
                let one = program(runtime, phase, access).unwrap();
                for call in calls() {
                    let about = || format!("{runtime:?} {phase:?} {access:?} {call:?}");
                    assert_eq!(verdict(&one, &call), strictest(&several, &call), "{}", about());
                }
            }
        }
    }
}

#[test]
fn filters_fit_the_kernel() {
    const MAX_INSTRUCTIONS: usize = 4096;
    for runtime in RUNTIMES {
        for phase in [Phase::First, Phase::Final] {
            let length = program(runtime, phase, Access::default()).unwrap().len();
            assert!(length <= MAX_INSTRUCTIONS, "{runtime:?} {phase:?}: {length}");
        }
    }
}
