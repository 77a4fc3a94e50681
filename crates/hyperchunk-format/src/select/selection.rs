//! Selections made by callers. Source: specification §VIII.A, "Dataspace selections".

use super::Blocks;
use super::line::{Line, Pattern};
use crate::model::{Hyperslab, StoredSelection};
use crate::{Error, Result};
use std::ops::Range;

/// Selected elements of a dataspace, with their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All elements in row-major order. The result has the shape of the dataspace.
    All,
    /// No elements. The result has the shape `[0]`.
    None,
    /// Orthogonal selection: the product of one [`Axis`] for each dimension. The result has the same rank.
    Axes(Vec<Axis>),
    /// Single elements in the given order; repetitions are allowed. The result has one dimension.
    Points {
        /// Number of coordinates of a point.
        rank: usize,
        /// Coordinates of all points, one point after another.
        coordinates: Vec<u64>,
    },
    /// Union of boxes, in row-major order of their elements. The result has one dimension.
    Blocks(Blocks),
}

/// Selected indices of one dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Axis {
    /// `count` blocks of `block` indices, `stride` apart.
    Range {
        /// First index.
        start: u64,
        /// Distance between the starts of two blocks. Ignored for a single block.
        stride: u64,
        /// Number of blocks.
        count: u64,
        /// Number of indices in a block.
        block: u64,
    },
    /// Blocks with `length` indices in total; the last may be shorter.
    Cut {
        /// First index.
        start: u64,
        /// Distance between the starts of two blocks.
        stride: u64,
        /// Number of indices in a block, except the last.
        block: u64,
        /// Total number of indices.
        length: u64,
    },
    /// Listed indices in this order; repetitions are allowed.
    List(Vec<u64>),
}

impl Axis {
    /// Selects one index.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk_format::select::Axis;
    ///
    /// assert_eq!(Axis::index(5).length(), 1);
    /// ```
    #[must_use]
    pub fn index(index: u64) -> Self {
        Self::Range { start: index, stride: 1, count: 1, block: 1 }
    }

    /// Selects the indices of a range.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk_format::select::Axis;
    ///
    /// assert_eq!(Axis::range(5..8).length(), 3);
    /// ```
    #[must_use]
    pub fn range(range: Range<u64>) -> Self {
        let block = range.end.saturating_sub(range.start);
        Self::Range { start: range.start, stride: block.max(1), count: 1, block }
    }

    /// Selects `count` indices, `step` apart.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk_format::select::Axis;
    ///
    /// // The indices 1, 11, 21.
    /// assert_eq!(Axis::steps(1, 10, 3).length(), 3);
    /// ```
    #[must_use]
    pub fn steps(start: u64, step: u64, count: u64) -> Self {
        Self::Range { start, stride: step, count, block: 1 }
    }

    /// Returns the number of indices. Saturates.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Range { count, block, .. } => count.saturating_mul(*block),
            Self::Cut { length, .. } => *length,
            Self::List(indices) => indices.len() as u64,
        }
    }

    /// Checks the axis against the extent of dimension `axis`.
    pub(super) fn line(&self, axis: usize, extent: u64) -> Result<Line<'_>> {
        match self {
            Self::Range { start, stride, count, block } => {
                let length = count.checked_mul(*block).ok_or_else(|| {
                    Error::invalid(format!(
                        "{count} blocks of {block} indices exceed 2^64 - 1 on axis {axis}"
                    ))
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

    /// Resolves one dimension of a stored selection; the extent bounds an unlimited count or block.
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

impl Selection {
    /// Selects a range of each dimension.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk_format::select::Selection;
    ///
    /// assert_eq!(Selection::ranges([0..2, 5..8]).count(&[4, 10])?, 6);
    /// # Ok::<(), hyperchunk_format::Error>(())
    /// ```
    #[must_use]
    pub fn ranges<const RANK: usize>(ranges: [Range<u64>; RANK]) -> Self {
        Self::Axes(ranges.into_iter().map(Axis::range).collect())
    }

    /// Resolves a selection stored in a file; the extent bounds unlimited counts and blocks.
    ///
    /// # Errors
    /// Invalid if it does not fit the extent; Limit if the overlaps of its blocks are too complex.
    pub fn resolve(stored: &StoredSelection, dims: &[u64]) -> Result<Self> {
        let selection = match stored {
            StoredSelection::None => Self::None,
            StoredSelection::All => Self::All,
            StoredSelection::Points { rank, coordinates } => {
                Self::Points { rank: *rank, coordinates: coordinates.clone() }
            }
            StoredSelection::Blocks { rank, corners } => Self::Blocks(Blocks::new(*rank, corners)?),
            StoredSelection::Regular(slabs) => {
                check_rank(slabs.len(), dims)?;
                let axes = slabs.iter().zip(dims).map(|(slab, extent)| Axis::resolve(slab, *extent));
                Self::Axes(axes.collect())
            }
        };
        selection.check(dims)?;
        Ok(selection)
    }

    /// Checks that the selection fits an extent.
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
                        "{} coordinates do not form points of rank {rank}",
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

    /// Returns the shape of the result for a dataspace of this extent.
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

    /// Returns the number of selected elements.
    ///
    /// # Errors
    /// As [`Selection::check`]; Limit if there are more than 2⁶⁴ - 1.
    pub fn count(&self, dims: &[u64]) -> Result<u64> {
        self.check(dims)?;
        product(&self.shape(dims)).ok_or_else(|| Error::limit("a selection of more than 2^64 elements"))
    }

    /// Returns the bounding box; `None` if the selection is empty.
    ///
    /// # Errors
    /// As [`Selection::check`].
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

    /// Returns the bounding box in the grid of chunks; empty ranges if the selection is empty.
    ///
    /// # Errors
    /// As [`Selection::check`]; Corrupt if a chunk has no elements.
    pub fn chunk_region(&self, dims: &[u64], chunk: &[u64]) -> Result<Vec<Range<u64>>> {
        check_chunk(dims, chunk)?;
        let Some(bounds) = self.bounds(dims)? else { return Ok(vec![0..0; dims.len()]) };
        let scale = |(range, chunk): (Range<u64>, &u64)| {
            range.start.checked_div(*chunk).unwrap_or(0)..range.end.div_ceil((*chunk).max(1))
        };
        Ok(bounds.into_iter().zip(chunk).map(scale).collect())
    }
}

/// Returns the product; `None` if it exceeds 2⁶⁴ - 1. A factor of 0 takes precedence over an overflow.
pub(super) fn product(numbers: &[u64]) -> Option<u64> {
    if numbers.contains(&0) {
        return Some(0);
    }
    numbers.iter().try_fold(1_u64, |product, number| product.checked_mul(*number))
}

/// Checks the extent of a chunk: the rank of the dataspace, and no dimension of 0.
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
