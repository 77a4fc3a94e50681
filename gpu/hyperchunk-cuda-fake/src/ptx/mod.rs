//! An interpreter of PTX on the CPU. Source: *Parallel Thread Execution ISA*.
//!
//! It supports the instructions that NVRTC produces for plain kernels. Anything else is an error that names
//! it: nothing is skipped that could change a value.

mod arithmetic;
mod convert;
mod decode;
mod instruction;
mod lexer;
mod parse;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use instruction::Program;
pub(crate) use parse::parse;
pub(crate) use run::{Fault, Grid, Memory, run};
