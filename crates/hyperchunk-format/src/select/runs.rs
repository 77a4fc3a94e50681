//! A selection of data that lie in one piece.

use super::blocks::Walk;
use super::choice::product;
use super::line::{Line, Listed};
use super::program::{Program, Run, Segments};
use super::{Choice, strides};
use crate::{Error, Result};
use std::sync::Arc;

/// The elements of a selection in its order, as runs: the number of the first element in row-major order, and how many.
///
/// # Errors
/// As [`Choice::count`]; Limit if the dataspace has more than 2⁶⁴ - 1 elements.
pub fn runs<'a>(choice: &'a Choice, dims: &[u64]) -> Result<Runs<'a>> {
    let nothing = Runs { source: Source::Single(None), pending: None };
    if choice.count(dims)? == 0 {
        return Ok(nothing);
    }
    let elements = product(dims).ok_or_else(|| Error::limit("a dataspace of more than 2^64 elements"))?;
    let strides = strides(dims);
    let source = match choice {
        Choice::None => return Ok(nothing),
        Choice::All => Source::Single(Some((0, elements))),
        Choice::Axes(axes) => {
            let mut segments = Vec::with_capacity(axes.len());
            for (at, (axis, extent)) in axes.iter().zip(dims).enumerate() {
                segments.push(match axis.line(at, *extent)? {
                    Line::Pattern(pattern) => Segments::Few(pattern.segments(0..*extent)),
                    Line::List(indices) => {
                        let list = Arc::new(Listed::new(&indices, *extent));
                        let range = list.range(0);
                        Segments::Many(list, range)
                    }
                });
            }
            let places = super::strides(&choice.shape(dims));
            let axes = segments.into_iter().zip(strides).zip(places);
            let program = Program::new(axes.map(|((segments, source), target)| (segments, source, target)));
            Source::Program(Box::new(program), None)
        }
        Choice::Points { coordinates, .. } => Source::Points { coordinates, strides },
        Choice::Blocks(blocks) => Source::Blocks(blocks.walk(strides)),
    };
    Ok(Runs { source, pending: None })
}

/// The elements of a selection in its order, as runs: the number of the first element in row-major order, and how many.
#[derive(Debug)]
pub struct Runs<'a> {
    source: Source<'a>,
    /// The run that may go on in the next.
    pending: Option<(u64, u64)>,
}

#[derive(Debug)]
enum Source<'a> {
    Single(Option<(u64, u64)>),
    /// With the run that is being taken apart.
    Program(Box<Program>, Option<Run>),
    Points {
        coordinates: &'a [u64],
        strides: Vec<u64>,
    },
    Blocks(Walk),
}

impl Iterator for Source<'_> {
    type Item = (u64, u64);

    #[inline]
    fn next(&mut self) -> Option<(u64, u64)> {
        match self {
            Self::Single(run) => run.take(),
            Self::Program(program, current) => {
                let mut run = match current.take() {
                    Some(run) => run,
                    None => program.next()?,
                };
                let first = (run.source as u64, run.block as u64);
                if run.count > 1 {
                    run.source = run.source.wrapping_add(run.step);
                    run.count = run.count.wrapping_sub(1);
                    *current = Some(run);
                }
                Some(first)
            }
            Self::Points { coordinates, strides } => {
                let (point, rest) = coordinates.split_at_checked(strides.len().max(1))?;
                *coordinates = rest;
                let steps = point.iter().zip(strides).map(|(index, stride)| index.wrapping_mul(*stride));
                Some((steps.fold(0, u64::wrapping_add), 1))
            }
            Self::Blocks(walk) => walk.next(),
        }
    }
}

impl Iterator for Runs<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let (first, mut count) = match self.pending.take() {
            Some(run) => run,
            None => self.source.next()?,
        };
        for next in self.source.by_ref() {
            if first.checked_add(count) != Some(next.0) {
                self.pending = Some(next);
                break;
            }
            count = count.wrapping_add(next.1);
        }
        Some((first, count))
    }
}
