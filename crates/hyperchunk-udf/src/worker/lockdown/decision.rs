//! The verdict on a system call's number, found by halving.
//!
//! The filters of `seccompiler` compare a number with one after another. The kernel tries each filter with every number there is when
//! it is installed, and makes machine code of all of it: half a millisecond for ours, of the four that a worker takes to start. Here as
//! many comparisons as a number has bits find the run of numbers that it is in, and only what depends on arguments is asked of
//! such a filter.

use crate::error::{Result, fail};
use seccompiler::{BpfProgram, sock_filter};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

const LOAD_WORD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
/// Where `struct seccomp_data` has them.
const NUMBER_OFFSET: u32 = 0;
const ARCHITECTURE_OFFSET: u32 = 4;

/// What becomes of a call of some number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// This verdict, whatever the arguments.
    Verdict(u32),
    /// What the filter for arguments says.
    Arguments,
}

/// Numbers from one on, up to those of the next run.
pub(super) type Run = (u32, Outcome);

/// The filter for `runs`, whose first begins at 0 and of which each begins behind the one before. It kills at calls of another
/// architecture. `arguments` is the filter for arguments.
pub(super) fn by_number(mut runs: Vec<Run>, arguments: BpfProgram) -> Result<BpfProgram> {
    runs.dedup_by(|next, before| next.1 == before.1);
    let mut tree = halved(&runs)?;
    let length = tree.len();
    for (at, step) in tree.iter_mut().enumerate().filter(|(_, step)| step.code == JUMP && step.k == u32::MAX)
    {
        step.k = over(length - at - 1)?;
    }
    let mut program = vec![
        step(LOAD_WORD, ARCHITECTURE_OFFSET),
        sock_filter { code: JUMP_IF_EQUAL, jt: 1, jf: 0, k: ARCHITECTURE },
        step(RETURN, libc::SECCOMP_RET_KILL_PROCESS),
        step(LOAD_WORD, NUMBER_OFFSET),
    ];
    program.extend(tree);
    program.extend(arguments);
    Ok(program)
}

fn step(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

/// Of a jump. They go forwards, and count from the next instruction.
fn over(steps: usize) -> Result<u32> {
    match u32::try_from(steps) {
        Ok(steps) => Ok(steps),
        Err(_) => fail!(Worker, "lockdown: a system call filter is too long"),
    }
}

/// The tree for these runs. Jumps of [`u32::MAX`] are to its end, wherever that will be.
fn halved(runs: &[Run]) -> Result<BpfProgram> {
    let (below, above) = runs.split_at(runs.len() / 2);
    let &[(middle, outcome), ..] = above else {
        fail!(Worker, "lockdown: a system call filter without verdicts")
    };
    if below.is_empty() {
        return Ok(vec![match outcome {
            Outcome::Verdict(verdict) => step(RETURN, verdict),
            Outcome::Arguments => step(JUMP, u32::MAX),
        }]);
    }
    let below = halved(below)?;
    let mut tree = Vec::new();
    if let Ok(near) = u8::try_from(below.len()) {
        tree.push(sock_filter { code: JUMP_IF_AT_LEAST, jt: near, jf: 0, k: middle });
    } else {
        tree.push(sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: middle });
        tree.push(step(JUMP, over(below.len())?));
    }
    tree.extend(below);
    tree.extend(halved(above)?);
    Ok(tree)
}

/// The filter that kills at this number and all behind it.
#[cfg(test)]
pub(super) fn kill_from(number: u32) -> BpfProgram {
    vec![
        step(LOAD_WORD, NUMBER_OFFSET),
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: number },
        step(RETURN, libc::SECCOMP_RET_KILL_PROCESS),
        step(RETURN, libc::SECCOMP_RET_ALLOW),
    ]
}
