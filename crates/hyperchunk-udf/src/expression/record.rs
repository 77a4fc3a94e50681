//! Expressions of records: code shared by the readers.

use super::{Expression, InputBytes, Kind, Program, Scratch};
use crate::error::{Result, fail};
use crate::escape::escape;
use crate::profile::Profile;
use crate::record::{Record, byte_size};
use crate::spec::is_single;
use std::mem::MaybeUninit;

/// Elements between two checks of the time limit.
const BATCH_ELEMENTS: usize = 1 << 15;

impl Program {
    /// Compiles the expression of a record, for inputs that currently have these kinds.
    ///
    /// # Errors
    /// `Invalid` when the record contradicts its expression, and the errors of [`Expression::compile`].
    pub fn from_record(record: &Record, kinds: &[Kind]) -> Result<Self> {
        let expression = Expression::parse(&record.source)?;
        if !expression.inputs().iter().eq(record.inputs.iter().map(|i| &i.name)) {
            fail!(Invalid, "the record's inputs are not those of its expression")
        }
        if !record.scratch.is_empty() || record.compiled.is_some() {
            fail!(Invalid, "the record of an expression has one output, and no compiled form")
        }
        if let Some(input) =
            record.inputs.iter().find(|i| !is_single(&i.dims) && i.dims != record.output.dims)
        {
            fail!(
                Invalid,
                "input {:?} has neither the output's shape nor one element",
                escape(&input.name, 80)
            )
        }
        expression.compile_for(kinds, &record.output.datatype)
    }

    /// Runs [`evaluate_into`](Program::evaluate_into) in pieces, calling `go_on` after each, to enforce a
    /// time limit.
    ///
    /// # Errors
    /// The errors of `evaluate_into` and of `go_on`.
    pub fn evaluate_in_pieces(
        &self,
        inputs: &[InputBytes<'_>],
        out: &mut [MaybeUninit<u8>],
        scratch: &mut Scratch,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
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
                        let Some(range) = all.get(range) else { fail!(Worker, "an input is too short") };
                        InputBytes::Each(range)
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
}

/// Checks that a block of this shape, with its inputs, is within the profile's limit.
///
/// # Errors
/// `Limit`.
pub fn check_data(record: &Record, shape: &[u64], profile: &Profile) -> Result<()> {
    let chunk = byte_size(&record.chunk, &record.output.datatype);
    let inputs =
        record.inputs.iter().map(|i| byte_size(if is_single(&i.dims) { &[] } else { shape }, &i.datatype));
    let bytes = inputs.fold(chunk, u64::saturating_add);
    if bytes > profile.limits.data {
        fail!(
            Limit,
            "one evaluation needs {} MiB for its inputs and outputs, over the limit of {} MiB (profile {}, `data`); attaching with `--chunks auto` makes evaluations small",
            bytes >> 20,
            profile.limits.data >> 20,
            profile.name
        )
    }
    Ok(())
}
