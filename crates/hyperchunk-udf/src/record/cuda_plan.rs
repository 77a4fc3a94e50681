//! Check of a record with a CUDA source.

use super::Record;
use crate::cuda::{Dataset, Program};
use crate::error::{Result, fail};

impl Record {
    /// Checks that the source has a plan for its first block, with the types in the record.
    ///
    /// # Errors
    /// The errors of [`Program::parse`], [`Program::check`], [`Program::plan`] and [`Program::ptx`].
    pub fn check_cuda_plan(&self) -> Result<()> {
        let program = Program::parse(&self.source)?;
        let Some(compiled) = &self.compiled else { fail!(Invalid, "the record has no compiled form") };
        program.ptx(&compiled.object)?;
        // A growing dataset may still be empty.
        let Ok((offset, shape)) = self.block(&vec![0; self.output.dims.len()]) else { return Ok(()) };
        let parts: Vec<_> = self.parts(&offset, &shape).collect();
        let inputs = 1..=self.inputs.len();
        let datasets: Vec<_> = self
            .slots()
            .zip(&parts)
            .enumerate()
            .map(|(n, (slot, (start, dims)))| Dataset {
                name: &slot.name,
                datatype: &slot.datatype,
                dims,
                start,
                output: !inputs.contains(&n),
            })
            .collect();
        program.check(&datasets)?;
        program.plan(&datasets).map(drop)
    }
}
