//! What a caller asks of a dataspace. Source: specification §VIII.A, "Dataspace selections".

use super::Blocks;
use super::line::{Line, Pattern};
use crate::model::{Hyperslab, Selection};
use crate::{Error, Result};
use std::ops::Range;

/// Which elements of a dataspace, in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// All, in row-major order. The result has the shape of the dataspace.
    All,
    /// None. The result has the shape `[0]`.
    None,
    /// What is on all axes, one [`Axis`] a dimension. The result has as many dimensions.
    Axes(Vec<Axis>),
    /// Single elements, in the order given; the same one may come again. The result has one dimension.
    Points {
        /// How many coordinates a point has.
        rank: usize,
        /// The coordinates of all points, one point after another.
        coordinates: Vec<u64>,
    },
    /// Boxes anywhere, in row-major order of their elements. The result has one dimension.
    Blocks(Blocks),
}

/// Which indices of one dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Axis {
    /// `count` blocks of `block` indices, each `stride` after the one before.
    Range {
        /// The first index.
        start: u64,
        /// From the start of a block to the start of the next. Not looked at for a single block.
        stride: u64,
        /// How many blocks.
        count: u64,
        /// How many indices a block has.
        block: u64,
    },
    /// As many blocks as hold `length` indices; the last may be cut short.
    Cut {
        /// The first index.
        start: u64,
        /// From the start of a block to the start of the next.
        stride: u64,
        /// How many indices a block has, but for the last.
        block: u64,
        /// How many indices there are.
        length: u64,
    },
    /// These indices, in this order; the same one may come again.
    List(Vec<u64>),
}

impl Axis {
    /// One index.
    #[must_use]
    pub fn index(index: u64) -> Self {
        Self::Range { start: index, stride: 1, count: 1, block: 1 }
    }

    /// The indices of a range.
    #[must_use]
    pub fn range(range: Range<u64>) -> Self {
        let block = range.end.saturating_sub(range.start);
        Self::Range { start: range.start, stride: block.max(1), count: 1, block }
    }

    /// Every `step`th index: `count` of them.
    #[must_use]
    pub fn steps(start: u64, step: u64, count: u64) -> Self {
        Self::Range { start, stride: step, count, block: 1 }
    }

    /// How many indices there are. Saturates.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Range { count, block, .. } => count.saturating_mul(*block),
            Self::Cut { length, .. } => *length,
            Self::List(indices) => indices.len() as u64,
        }
    }

    /// Checked against the extent of dimension `axis`.
    pub(super) fn line(&self, axis: usize, extent: u64) -> Result<Line<'_>> {
        match self {
            Self::Range { start, stride, count, block } => {
                let length = count.checked_mul(*block).ok_or_else(|| {
                    Error::invalid(format!("{count} blocks of {block} indices on axis {axis}"))
                })?;
                let stride = if *count <= 1 { (*block).max(1) } else { *stride };
                Pattern::new(axis, extent, *start, stride, *block, length).map(Line::Pattern)
            }
            Self::Cut { start, stride, block, length } => {
                Pattern::new(axis, extent, *start, *stride, *block, *length).map(Line::Pattern)
            }
            Self::List(indices) => match indices.iter().find(|index| **index >= extent) {
                Some(index) => Err(out_of_range(axis, *index, extent)),
                None => Ok(Line::List(indices)),
            },
        }
    }

    /// One dimension of a stored selection in an extent, which ends what has no end.
    fn resolve(slab: &Hyperslab, extent: u64) -> Self {
        let Hyperslab { start, stride, .. } = *slab;
        let left = extent.saturating_sub(start);
        match (slab.count, slab.block) {
            (Some(count), Some(block)) => Self::Range { start, stride, count, block },
            (Some(0), None) | (None, Some(0)) => Self::range(start..start),
            (_, None) => Self::range(start..start.saturating_add(left)),
            (None, Some(block)) if block >= stride => Self::range(start..start.saturating_add(left)),
            (None, Some(block)) => {
                let whole = left.checked_div(stride).unwrap_or(0);
                let rest = left.checked_rem(stride).unwrap_or(0).min(block);
                let length = whole.saturating_mul(block).saturating_add(rest);
                Self::Cut { start, stride, block, length }
            }
        }
    }
}

impl Choice {
    /// A selection that a file stores, in an extent: what has no end there ends with the extent.
    ///
    /// # Errors
    /// Invalid if it does not fit the extent; Limit if its blocks overlap in too many ways.
    pub fn resolve(selection: &Selection, dims: &[u64]) -> Result<Self> {
        let choice = match selection {
            Selection::None => Self::None,
            Selection::All => Self::All,
            Selection::Points { rank, coordinates } => {
                Self::Points { rank: *rank, coordinates: coordinates.clone() }
            }
            Selection::Blocks { rank, corners } => Self::Blocks(Blocks::new(*rank, corners)?),
            Selection::Regular(slabs) => {
                check_rank(slabs.len(), dims)?;
                let axes = slabs.iter().zip(dims).map(|(slab, extent)| Axis::resolve(slab, *extent));
                Self::Axes(axes.collect())
            }
        };
        choice.check(dims)?;
        Ok(choice)
    }

    /// Whether it fits an extent.
    ///
    /// # Errors
    /// Invalid, with the axis, the index and the extent.
    pub fn check(&self, dims: &[u64]) -> Result<()> {
        match self {
            Self::All | Self::None => Ok(()),
            Self::Axes(axes) => {
                check_rank(axes.len(), dims)?;
                let mut axes = axes.iter().zip(dims).enumerate();
                axes.try_for_each(|(at, (axis, extent))| axis.line(at, *extent).map(drop))
            }
            Self::Points { rank, coordinates } => {
                check_rank(*rank, dims)?;
                let partial = coordinates.len().checked_rem(*rank).unwrap_or(coordinates.len());
                if partial != 0 {
                    return Err(Error::invalid(format!(
                        "{} coordinates of points of rank {rank}",
                        coordinates.len()
                    )));
                }
                let check = |point: &[u64]| {
                    let mut axes = point.iter().zip(dims).enumerate();
                    match axes.find(|(_, (index, extent))| index >= extent) {
                        Some((axis, (index, extent))) => Err(out_of_range(axis, *index, *extent)),
                        None => Ok(()),
                    }
                };
                coordinates.chunks_exact((*rank).max(1)).try_for_each(check)
            }
            Self::Blocks(blocks) => {
                check_rank(blocks.rank(), dims)?;
                let bounds = blocks.bounds().into_iter().flatten();
                bounds.zip(dims).enumerate().try_for_each(|(axis, (range, extent))| {
                    if range.end <= *extent {
                        return Ok(());
                    }
                    Err(out_of_range(axis, range.end.saturating_sub(1), *extent))
                })
            }
        }
    }

    /// The shape of the result, for a dataspace of this extent.
    #[must_use]
    pub fn shape(&self, dims: &[u64]) -> Vec<u64> {
        match self {
            Self::All => dims.to_vec(),
            Self::None => vec![0],
            Self::Axes(axes) => axes.iter().map(Axis::length).collect(),
            Self::Points { rank, coordinates } => {
                vec![coordinates.len().checked_div(*rank).unwrap_or(0) as u64]
            }
            Self::Blocks(blocks) => vec![blocks.count()],
        }
    }

    /// How many elements it has.
    ///
    /// # Errors
    /// As [`Choice::check`]; Limit if they are more than 2⁶⁴ - 1.
    pub fn count(&self, dims: &[u64]) -> Result<u64> {
        self.check(dims)?;
        product(&self.shape(dims)).ok_or_else(|| Error::limit("a selection of more than 2^64 elements"))
    }

    /// The smallest box around it; `None` if it is empty.
    ///
    /// # Errors
    /// As [`Choice::check`].
    pub fn bounds(&self, dims: &[u64]) -> Result<Option<Vec<Range<u64>>>> {
        self.check(dims)?;
        if self.shape(dims).contains(&0) {
            return Ok(None);
        }
        Ok(match self {
            Self::None => None,
            Self::All => Some(dims.iter().map(|dim| 0..*dim).collect()),
            Self::Axes(axes) => {
                let lines = axes.iter().zip(dims).enumerate().map(|(at, (axis, dim))| axis.line(at, *dim));
                Some(lines.map(|line| line.map(|line| line.bounds())).collect::<Result<_>>()?)
            }
            Self::Points { rank, coordinates } => {
                let mut points = coordinates.chunks_exact((*rank).max(1));
                let first = points.next().unwrap_or_default();
                let mut bounds: Vec<_> = first.iter().map(|index| *index..index.saturating_add(1)).collect();
                for point in points {
                    for (range, index) in bounds.iter_mut().zip(point) {
                        *range = range.start.min(*index)..range.end.max(index.saturating_add(1));
                    }
                }
                Some(bounds)
            }
            Self::Blocks(blocks) => blocks.bounds(),
        })
    }

    /// The box in the grid of chunks that holds all that it touches; empty ranges if it is empty.
    ///
    /// # Errors
    /// As [`Choice::check`]; Corrupt if a chunk has no elements.
    pub fn chunk_region(&self, dims: &[u64], chunk: &[u64]) -> Result<Vec<Range<u64>>> {
        check_chunk(dims, chunk)?;
        let Some(bounds) = self.bounds(dims)? else { return Ok(vec![0..0; dims.len()]) };
        let scale = |(range, chunk): (Range<u64>, &u64)| {
            range.start.checked_div(*chunk).unwrap_or(0)..range.end.div_ceil((*chunk).max(1))
        };
        Ok(bounds.into_iter().zip(chunk).map(scale).collect())
    }
}

/// The product, unless it is more than 2⁶⁴ - 1. A 0 anywhere wins over an overflow.
pub(super) fn product(numbers: &[u64]) -> Option<u64> {
    if numbers.contains(&0) {
        return Some(0);
    }
    numbers.iter().try_fold(1_u64, |product, number| product.checked_mul(*number))
}

/// Chunks of an extent: as many dimensions, none of 0.
pub(super) fn check_chunk(dims: &[u64], chunk: &[u64]) -> Result<()> {
    if chunk.len() != dims.len() {
        return Err(Error::corrupt(format!(
            "chunks of rank {} in a dataspace of rank {}",
            chunk.len(),
            dims.len()
        )));
    }
    if chunk.contains(&0) && !dims.contains(&0) {
        return Err(Error::corrupt("a chunk with a dimension of 0"));
    }
    Ok(())
}

fn check_rank(rank: usize, dims: &[u64]) -> Result<()> {
    if rank == dims.len() {
        return Ok(());
    }
    Err(Error::invalid(format!("a selection of rank {rank} in a dataspace of rank {}", dims.len())))
}

pub(super) fn out_of_range(axis: usize, index: u64, extent: u64) -> Error {
    Error::invalid(format!("index {index} is out of range for axis {axis} with extent {extent}"))
}
