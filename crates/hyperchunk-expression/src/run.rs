//! Evaluation in blocks, so that intermediate values stay in the cache.

use super::Kind;
use super::kernels;
use super::lanes::{as_output_bytes, bytes, bytes_mut, copy};
use super::plan::{Program, ValueLocation};
use crate::error::{Error, ErrorKind, Result, fail};
use std::mem::MaybeUninit;

/// Bytes of a block of the widest values, when there are few registers: inputs, registers and output together
/// stay in the nearest cache, and the processor prefetches the next block's inputs.
const BLOCK_BYTES: usize = 4096;
/// Block size for a single step, which has no intermediate values.
const SINGLE_BYTES: usize = 64 << 10;
/// Elements between two checks of the time limit.
const BATCH_ELEMENTS: usize = 1 << 15;
/// Minimum number of elements of a block.
const MIN_BLOCK_ELEMENTS: usize = 256;
/// Maximum bytes of all registers, unless blocks would be smaller than the minimum.
const MAX_REGISTER_BYTES: usize = 4 << 20;

/// Elements of an input, in the machine's byte order; bools are bytes, true unless 0.
#[derive(Clone, Copy, Debug)]
pub enum InputBytes<'a> {
    /// As many elements as the output.
    Each(&'a [u8]),
    /// One element, used for all elements of the output.
    One(&'a [u8]),
}

/// Memory for blocks. It serves any program, and is best reused by later calls.
#[derive(Debug, Default)]
pub struct Scratch {
    registers: Vec<Vec<u64>>,
}

impl Program {
    /// Computes the elements of `out`, of which there are as many as in the inputs.
    ///
    /// # Errors
    /// `Internal` when the sizes of inputs and output do not match, `Failed` when an element has no value;
    /// the content of the output is then undefined.
    pub fn evaluate(&self, inputs: &[InputBytes<'_>], out: &mut [u8], scratch: &mut Scratch) -> Result<()> {
        self.evaluate_into(inputs, as_output_bytes(out), scratch)
    }

    /// Like [`evaluate`](Program::evaluate), into uninitialised memory, which is fully written on success.
    ///
    /// # Errors
    /// As [`evaluate`](Program::evaluate).
    pub fn evaluate_into(
        &self,
        inputs: &[InputBytes<'_>],
        out: &mut [MaybeUninit<u8>],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let size = self.output.size();
        let count = out.len() / size;
        self.check(inputs, count, out.len())?;
        let registers = self.registers + 1;
        let bytes = if self.instructions.len() > 1 { BLOCK_BYTES } else { SINGLE_BYTES };
        let block = (MAX_REGISTER_BYTES / 8 / registers).min(bytes / self.widest()).max(MIN_BLOCK_ELEMENTS);
        scratch.prepare(registers, block)?;
        for &(constant, kind, register) in &self.constants {
            scratch.fill(register, constant, kind)?;
        }
        for &(input, register) in &self.loads {
            if let (Some(InputBytes::One(one)), Some(kind)) = (inputs.get(input), self.inputs.get(input)) {
                scratch.fill_one(register, one, *kind)?;
            }
        }
        let aligned = out.as_ptr().align_offset(8) == 0;
        let mut direct = vec![None; inputs.len()];
        let mut first = 0;
        for out in out.chunks_mut(block * size) {
            let n = out.len() / size;
            self.block((inputs, &mut direct), (first, n), out, aligned, scratch)?;
            first += n;
        }
        Ok(())
    }

    /// Runs [`evaluate_into`](Program::evaluate_into) in pieces, calling `go_on` after each, to enforce a
    /// time limit.
    ///
    /// # Errors
    /// The errors of `evaluate_into` and of `go_on`.
    pub fn evaluate_in_pieces<E: From<Error>>(
        &self,
        inputs: &[InputBytes<'_>],
        out: &mut [MaybeUninit<u8>],
        scratch: &mut Scratch,
        go_on: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let size = self.output().size();
        let mut first = 0;
        let mut part = Vec::with_capacity(inputs.len());
        for out in out.chunks_mut(BATCH_ELEMENTS * size) {
            let count = out.len() / size;
            part.clear();
            for (input, kind) in inputs.iter().zip(self.inputs()) {
                part.push(match input {
                    InputBytes::Each(all) => {
                        let range = first * kind.size()..(first + count) * kind.size();
                        InputBytes::Each(all.get(range).ok_or_else(internal_error)?)
                    }
                    one @ InputBytes::One(_) => *one,
                });
            }
            self.evaluate_into(&part, out, scratch)?;
            first += count;
            go_on()?;
        }
        Ok(())
    }

    /// Returns the size of the widest value in bytes.
    fn widest(&self) -> usize {
        let steps = self.instructions.iter().flat_map(|i| [i.from, i.to]);
        let kinds = steps.chain(self.inputs.iter().copied()).chain([self.output]);
        kinds.map(Kind::size).max().unwrap_or(1)
    }

    fn check(&self, inputs: &[InputBytes<'_>], count: usize, bytes: usize) -> Result<()> {
        let size = |n: usize| self.inputs.get(n).map_or(0, |k| k.size());
        let fits = inputs.iter().enumerate().all(|(n, input)| match input {
            InputBytes::Each(all) => Some(all.len()) == count.checked_mul(size(n)),
            InputBytes::One(one) => one.len() == size(n),
        });
        if inputs.len() != self.inputs.len() || !fits || count * self.output.size() != bytes {
            fail!(Internal, "the inputs of the expression do not fit its output of {count} elements")
        }
        Ok(())
    }

    /// Computes `n` elements from the `first` on. `direct` holds the parts of inputs that can be used in
    /// place.
    fn block<'a>(
        &self,
        (inputs, direct): (&[InputBytes<'a>], &mut [Option<&'a [u8]>]),
        (first, n): (usize, usize),
        out: &mut [MaybeUninit<u8>],
        aligned: bool,
        scratch: &mut Scratch,
    ) -> Result<()> {
        for &(input, register) in &self.loads {
            let (Some(InputBytes::Each(all)), Some(&kind)) = (inputs.get(input), self.inputs.get(input))
            else {
                continue;
            };
            let part = all.get(first * kind.size()..(first + n) * kind.size()).ok_or_else(internal_error)?;
            // Any byte except 0 is true, which the steps do not handle.
            if kind == Kind::Bool || part.as_ptr().align_offset(kind.size()) != 0 {
                scratch.load(register, part, kind)?;
            } else if let Some(slot) = direct.get_mut(input) {
                *slot = Some(part);
            }
        }
        for instruction in &self.instructions {
            // Taken out of the list, so that the other registers can be borrowed.
            let (index, size) = match instruction.result {
                ValueLocation::Register(register) => (register, instruction.to.size()),
                _ => (self.registers, self.output.size()),
            };
            let mut result = std::mem::take(scratch.registers.get_mut(index).ok_or_else(internal_error)?);
            let straight = aligned && matches!(instruction.result, ValueLocation::Output);
            let done = (|| {
                let mut arguments: [&[u8]; 3] = [&[]; 3];
                for (slot, &place) in
                    arguments.iter_mut().zip(&instruction.arguments).take(instruction.step.count())
                {
                    *slot = scratch.at(place, direct)?;
                }
                let kinds = argument_kinds(instruction);
                for (slot, kind) in arguments.iter_mut().zip(kinds).take(instruction.step.count()) {
                    *slot = slot.get(..n * kind.size()).ok_or_else(internal_error)?;
                }
                let room = if straight {
                    &mut *out
                } else {
                    bytes_mut(&mut result, n * size).ok_or_else(internal_error)?
                };
                kernels::compute(instruction.step, instruction.from, instruction.to, arguments, room)
            })();
            if done.is_ok() && !straight && matches!(instruction.result, ValueLocation::Output) {
                copy(bytes(&result, n * size).ok_or_else(internal_error)?, out);
            }
            if let Some(slot) = scratch.registers.get_mut(index) {
                *slot = result;
            }
            done?;
        }
        if let Some(place) = self.copied {
            let from = scratch.at(place, direct)?;
            copy(from.get(..n * self.output.size()).ok_or_else(internal_error)?, out);
        }
        Ok(())
    }
}

/// Returns the kinds of the arguments.
fn argument_kinds(instruction: &super::plan::Instruction) -> [Kind; 3] {
    let from = instruction.from;
    if instruction.step == super::plan::Step::Where { [Kind::Bool, from, from] } else { [from; 3] }
}

fn internal_error() -> Error {
    Error::new(ErrorKind::Internal, "internal error: a value of the expression has an unexpected size")
}

impl Scratch {
    fn prepare(&mut self, registers: usize, block: usize) -> Result<()> {
        self.registers.truncate(registers);
        let missing = registers.saturating_sub(self.registers.len());
        self.registers.extend(std::iter::repeat_with(Vec::new).take(missing));
        for register in &mut self.registers {
            if register.len() != block {
                register.clear();
                register
                    .try_reserve_exact(block)
                    .map_err(|_| Error::new(ErrorKind::Limit, "no memory for the blocks of an expression"))?;
                register.resize(block, 0);
            }
        }
        Ok(())
    }

    /// Returns the number of allocated bytes.
    pub fn kept(&self) -> usize {
        self.registers.iter().map(|r| r.capacity() * 8).sum()
    }

    fn fill(&mut self, register: usize, bits: u64, kind: Kind) -> Result<()> {
        let mut low = bits.to_le_bytes();
        let value = low.get_mut(..kind.size()).ok_or_else(internal_error)?;
        if cfg!(target_endian = "big") {
            value.reverse();
        }
        self.repeat(register, value)
    }

    fn fill_one(&mut self, register: usize, one: &[u8], kind: Kind) -> Result<()> {
        if kind == Kind::Bool {
            return self.repeat(register, &[u8::from(one.first().is_some_and(|&b| b != 0))]);
        }
        self.repeat(register, one)
    }

    fn repeat(&mut self, register: usize, one: &[u8]) -> Result<()> {
        let words = self.registers.get_mut(register).ok_or_else(internal_error)?;
        let length = size_of_val(words.as_slice());
        let room = bytes_mut(words, length).ok_or_else(internal_error)?;
        for to in room.chunks_exact_mut(one.len().max(1)) {
            copy(one, to);
        }
        Ok(())
    }

    fn load(&mut self, register: usize, part: &[u8], kind: Kind) -> Result<()> {
        let words = self.registers.get_mut(register).ok_or_else(internal_error)?;
        let room = bytes_mut(words, part.len()).ok_or_else(internal_error)?;
        if kind == Kind::Bool {
            for (to, &from) in room.iter_mut().zip(part) {
                to.write(u8::from(from != 0));
            }
        } else {
            copy(part, room);
        }
        Ok(())
    }

    fn at<'a>(&'a self, place: ValueLocation, direct: &[Option<&'a [u8]>]) -> Result<&'a [u8]> {
        let register = match place {
            ValueLocation::Register(register) => register,
            ValueLocation::Input(input, register) => match direct.get(input).copied().flatten() {
                Some(part) => return Ok(part),
                None => register,
            },
            ValueLocation::Output => return Err(internal_error()),
        };
        let words = self.registers.get(register).ok_or_else(internal_error)?;
        bytes(words, size_of_val(words.as_slice())).ok_or_else(internal_error)
    }
}
