//! Selection of contiguous data.

use super::blocks::Walk;
use super::line::{IndexList, Line};
use super::program::{Program, Run, Segments};
use super::selection::product;
use super::{Selection, strides};
use crate::{Error, Result};
use std::sync::Arc;

const NO_BLOCKS: Run = Run { source: 0, step: 0, block: 0, count: 0, target: 0 };

/// Iterates over the elements of a selection in its order, as runs: number of the first element in row-major
/// order, and count.
///
/// # Errors
/// As [`Selection::count`]; Limit if the dataspace has more than 2⁶⁴ - 1 elements.
pub fn runs<'a>(selection: &'a Selection, dims: &[u64]) -> Result<Runs<'a>> {
    let nothing = Runs { source: Source::Single(None), blocks: NO_BLOCKS, pending: None };
    if selection.count(dims)? == 0 {
        return Ok(nothing);
    }
    let elements = product(dims).ok_or_else(|| Error::limit("a dataspace of more than 2^64 elements"))?;
    let strides = strides(dims);
    let source = match selection {
        Selection::None => return Ok(nothing),
        Selection::All => Source::Single(Some((0, elements))),
        Selection::Axes(axes) => {
            let mut segments = Vec::with_capacity(axes.len());
            for (at, (axis, extent)) in axes.iter().zip(dims).enumerate() {
                segments.push(match axis.line(at, *extent)? {
                    Line::Pattern(pattern) => Segments::Few(pattern.segments(0..*extent)),
                    Line::List(indices) => {
                        let list = Arc::new(IndexList::new(indices, *extent));
                        let range = list.range(0);
                        Segments::Many(list, range, 0)
                    }
                });
            }
            let places = super::strides(&selection.shape(dims));
            let axes = segments.into_iter().zip(strides).zip(places);
            let program = Program::new(axes.map(|((segments, source), target)| (segments, source, target)));
            Source::Program(Box::new(program))
        }
        Selection::Points { coordinates, .. } => Source::Points { coordinates, strides },
        Selection::Blocks(blocks) => Source::Blocks(blocks.walk(strides)),
    };
    Ok(Runs { source, blocks: NO_BLOCKS, pending: None })
}

/// Iterator over the elements of a selection as runs; see [`runs`].
#[derive(Debug)]
pub struct Runs<'a> {
    source: Source<'a>,
    /// Rest of a run of several blocks that do not touch.
    blocks: Run,
    /// Run to which the next one may be joined.
    pending: Option<(u64, u64)>,
}

#[derive(Debug)]
enum Source<'a> {
    Single(Option<(u64, u64)>),
    Program(Box<Program>),
    Points { coordinates: &'a [u64], strides: Vec<u64> },
    Blocks(Walk),
}

impl Runs<'_> {
    /// Returns the next run; the one after may continue it.
    fn take(&mut self) -> Option<(u64, u64)> {
        match &mut self.source {
            Source::Single(run) => run.take(),
            Source::Blocks(walk) => walk.next(),
            Source::Points { coordinates, strides } => {
                let (point, rest) = coordinates.split_at_checked(strides.len().max(1))?;
                *coordinates = rest;
                let steps = point.iter().zip(strides).map(|(index, stride)| index.wrapping_mul(*stride));
                Some((steps.fold(0, u64::wrapping_add), 1))
            }
            Source::Program(program) => {
                self.blocks = program.next()?;
                self.block()
            }
        }
    }

    /// Returns the next block of the run being split.
    #[inline]
    fn block(&mut self) -> Option<(u64, u64)> {
        self.blocks.count = self.blocks.count.checked_sub(1)?;
        let first = self.blocks.source;
        self.blocks.source = first.wrapping_add(self.blocks.step);
        Some((first as u64, self.blocks.block as u64))
    }
}

impl Iterator for Runs<'_> {
    type Item = (u64, u64);

    #[inline]
    fn next(&mut self) -> Option<(u64, u64)> {
        let (first, mut count) = match self.pending.take() {
            Some(run) => run,
            None => self.block().or_else(|| self.take())?,
        };
        // Blocks of one run have gaps between them, so only the last can be joined.
        while self.blocks.count == 0 {
            match self.take() {
                Some(next) if first.checked_add(count) == Some(next.0) => count = count.wrapping_add(next.1),
                next => {
                    self.pending = next;
                    break;
                }
            }
        }
        Some((first, count))
    }
}
