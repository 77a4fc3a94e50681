//! Binary search for the verdict on a system call's number.
//!
//! The filters of `seccompiler` compare a number with one after another. At installation the kernel runs each
//! filter with every existing number, and compiles all of it to machine code: half a millisecond for ours, of
//! the four that a worker takes to start. Here, a binary search needs one comparison for each bit of the
//! number, and only verdicts that depend on arguments are left to such a filter.

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
/// Offsets in `struct seccomp_data`.
const NUMBER_OFFSET: u32 = 0;
const ARCHITECTURE_OFFSET: u32 = 4;

/// Result for a call's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// This verdict, whatever the arguments.
    Verdict(u32),
    /// Verdict of the filter for arguments.
    Arguments,
}

/// Range of numbers, given by the first; it ends at the start of the next run.
pub(super) type Run = (u32, Outcome);

/// Builds the filter for `runs`, which are sorted and start at number 0. It kills calls of another
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

/// Converts the distance of a jump. Jumps go forwards, and count from the next instruction.
fn over(steps: usize) -> Result<u32> {
    match u32::try_from(steps) {
        Ok(steps) => Ok(steps),
        Err(_) => fail!(Worker, "lockdown: a system call filter is too long"),
    }
}

/// Builds the search tree for these runs. Jumps of [`u32::MAX`] go to the end of the tree and are patched
/// later.
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

/// Builds a filter that kills this number and all larger ones.
#[cfg(test)]
pub(super) fn kill_from(number: u32) -> BpfProgram {
    vec![
        step(LOAD_WORD, NUMBER_OFFSET),
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: number },
        step(RETURN, libc::SECCOMP_RET_KILL_PROCESS),
        step(RETURN, libc::SECCOMP_RET_ALLOW),
    ]
}
