//! Selected indices of one dimension, and their subset in one chunk.

use super::Axis;
use super::selection::out_of_range;
use crate::{Error, Result};
use std::ops::Range;

/// `count` blocks of `block` indices, `step` apart, with consecutive positions in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Segment {
    /// First index, relative to the start of the chunk.
    pub(super) source: u64,
    /// Position of the first index in the result.
    pub(super) target: u64,
    pub(super) step: u64,
    pub(super) block: u64,
    pub(super) count: u64,
}

/// Selected indices of one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Pattern(Pattern),
    List(&'a [u64]),
}

/// Blocks at equal distances; the last may be shorter. Invariant: all indices are within the extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pattern {
    start: u64,
    /// At least `block`.
    stride: u64,
    /// Never 0.
    block: u64,
    length: u64,
}

impl Line<'_> {
    /// Returns the index at a position in the result.
    pub(super) fn at(&self, place: u64) -> u64 {
        match self {
            Self::Pattern(pattern) => pattern.at(place),
            Self::List(indices) => {
                usize::try_from(place).ok().and_then(|at| indices.get(at)).copied().unwrap_or(0)
            }
        }
    }

    pub(super) fn bounds(&self) -> Range<u64> {
        match self {
            Self::Pattern(pattern) => pattern.bounds(),
            Self::List(indices) => {
                let first = indices.iter().min().copied().unwrap_or(0);
                first..indices.iter().max().map_or(0, |last| last.saturating_add(1))
            }
        }
    }
}

impl Pattern {
    /// Selects a whole extent.
    pub(super) fn all(extent: u64) -> Self {
        Self { start: 0, stride: extent.max(1), block: extent.max(1), length: extent }
    }

    /// Creates a pattern, checked against the extent of dimension `axis`.
    pub(super) fn new(
        axis: usize,
        extent: u64,
        start: u64,
        stride: u64,
        block: u64,
        length: u64,
    ) -> Result<Self> {
        if length == 0 {
            return Ok(Self { start: 0, stride: 1, block: 1, length: 0 });
        }
        if block == 0 || stride < block {
            let message =
                format!("blocks of {block} indices, {stride} apart, are empty or overlap on axis {axis}");
            return Err(Error::invalid(message));
        }
        // Adjacent blocks are merged.
        let (stride, block) =
            if stride == block || length <= block { (length, length) } else { (stride, block) };
        let pattern = Self { start, stride, block, length };
        match pattern.last() {
            Some(last) if last < extent => Ok(pattern),
            last => Err(out_of_range(axis, last.unwrap_or(u64::MAX), extent)),
        }
    }

    /// Returns the last index; `None` if it exceeds 2⁶⁴ - 1.
    fn last(&self) -> Option<u64> {
        let last = self.length.checked_sub(1)?;
        let block = last.checked_div(self.block)?;
        block.checked_mul(self.stride)?.checked_add(last.checked_rem(self.block)?)?.checked_add(self.start)
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Returns the range of indices, if it has no gaps.
    pub(super) fn contiguous(&self) -> Option<Range<u64>> {
        (self.length <= self.block).then(|| self.bounds())
    }

    /// Returns the `length` indices from a position in the result on; `None` unless a block starts there, or
    /// contains all of them.
    pub(super) fn cut(&self, place: u64, length: u64) -> Option<Axis> {
        let start = self.at(place);
        let before = place.checked_rem(self.block).unwrap_or(0);
        if length <= self.block.saturating_sub(before) {
            return Some(Axis::range(start..start.saturating_add(length)));
        }
        let Self { stride, block, .. } = *self;
        (before == 0).then_some(Axis::Cut { start, stride, block, length })
    }

    /// Returns the number of contiguous indices from a position in the result on.
    pub(super) fn together(&self, place: u64) -> u64 {
        let before = place.checked_rem(self.block).unwrap_or(0);
        self.block.saturating_sub(before).min(self.length.saturating_sub(place))
    }

    pub(super) fn bounds(&self) -> Range<u64> {
        let end = self.last().map_or(self.start, |last| last.saturating_add(1));
        self.start..end
    }

    /// Returns the number of selected indices less than `index`.
    #[inline]
    pub(super) fn rank(&self, index: u64) -> u64 {
        let Some(distance) = index.checked_sub(self.start) else { return 0 };
        if self.length <= self.block {
            return distance.min(self.length);
        }
        let blocks = distance.checked_div(self.stride).unwrap_or(0);
        let rest = distance.checked_rem(self.stride).unwrap_or(0).min(self.block);
        blocks.saturating_mul(self.block).saturating_add(rest).min(self.length)
    }

    /// Returns the index at a position in the result. Wraps for a position at or past the end.
    #[inline]
    pub(super) fn at(&self, place: u64) -> u64 {
        if self.length <= self.block {
            return self.start.wrapping_add(place);
        }
        let block = place.checked_div(self.block).unwrap_or(0);
        let rest = place.checked_rem(self.block).unwrap_or(0);
        self.start.wrapping_add(block.wrapping_mul(self.stride)).wrapping_add(rest)
    }

    /// Returns the first selected index at or after `index`.
    pub(super) fn next(&self, index: u64) -> Option<u64> {
        let place = self.rank(index);
        (place < self.length).then(|| self.at(place))
    }

    /// Returns the segments in `range`, relative to its start: the rest of a block that begins before it,
    /// whole blocks, and a block that ends after it.
    #[inline]
    pub(super) fn segments(&self, range: Range<u64>) -> [Segment; 3] {
        let mut segments = [Segment::default(); 3];
        let [head, whole, tail] = &mut segments;
        let (mut place, end) = (self.rank(range.start), self.rank(range.end));
        if self.length <= self.block {
            let source = self.at(place).wrapping_sub(range.start);
            let block = end.saturating_sub(place);
            *head = Segment { source, target: place, step: 0, block, count: u64::from(block > 0) };
            return segments;
        }
        let mut take = |segment: &mut Segment, block: u64, count: u64| {
            if block > 0 && count > 0 {
                let source = self.at(place).wrapping_sub(range.start);
                *segment = Segment { source, target: place, step: self.stride, block, count };
                place = place.saturating_add(block.saturating_mul(count));
            }
            end.saturating_sub(place)
        };
        let left = take(head, 0, 0);
        let begun = self.rank(range.start).checked_rem(self.block).unwrap_or(0);
        let left = if begun == 0 { left } else { take(head, self.block.saturating_sub(begun).min(left), 1) };
        let left = take(whole, self.block, left.checked_div(self.block).unwrap_or(0)).min(left);
        take(tail, left, 1);
        segments
    }
}

/// List of indices, sorted by chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexList {
    /// Indices, grouped by chunk.
    indices: Vec<u64>,
    /// Positions in the result; `None` if they are in order.
    places: Option<Vec<u64>>,
    /// For each chunk with indices: its number, and the end of its indices.
    chunks: Vec<(u64, usize)>,
}

impl IndexList {
    pub(super) fn new(indices: &[u64], chunk: u64) -> Self {
        let mut chunks: Vec<(u64, usize)> = Vec::new();
        let mut here = 0..0;
        // Most lists increase: their chunks come in order, and one division a chunk is enough.
        for (at, index) in indices.iter().enumerate() {
            if here.contains(index) {
                continue;
            }
            let number = index.checked_div(chunk).unwrap_or(0);
            here.start = number.saturating_mul(chunk);
            here.end = here.start.saturating_add(chunk);
            if let Some((last, end)) = chunks.last_mut() {
                *end = at;
                if number < *last {
                    return Self::sorted(indices, chunk);
                }
            }
            chunks.push((number, indices.len()));
        }
        Self { indices: indices.to_vec(), places: None, chunks }
    }

    fn sorted(indices: &[u64], chunk: u64) -> Self {
        let number = |index: u64| index.checked_div(chunk).unwrap_or(0);
        let mut order: Vec<(u64, u64, u64)> =
            (0_u64..).zip(indices).map(|(place, index)| (number(*index), place, *index)).collect();
        order.sort_unstable();
        let mut end = 0_usize;
        let chunks = order.chunk_by(|(a, _, _), (b, _, _)| a == b).filter_map(|group| {
            end = end.saturating_add(group.len());
            group.first().map(|(number, _, _)| (*number, end))
        });
        let chunks = chunks.collect();
        let places = order.iter().map(|(_, place, _)| *place).collect();
        let indices = order.into_iter().map(|(_, _, index)| index).collect();
        Self { indices, places: Some(places), chunks }
    }

    /// Creates a list of positions in the result, ordered by the position in the data read.
    pub(super) fn of(places: Vec<u64>) -> Self {
        let chunks = vec![(0, places.len())];
        Self { indices: places, places: None, chunks }
    }

    /// Returns the range of entries of a chunk.
    pub(super) fn range(&self, number: u64) -> Range<usize> {
        let at = self.chunks.partition_point(|(chunk, _)| *chunk < number);
        let start = at.checked_sub(1).and_then(|before| self.chunks.get(before)).map_or(0, |(_, end)| *end);
        match self.chunks.get(at) {
            Some((chunk, end)) if *chunk == number => start..*end,
            _ => start..start,
        }
    }

    /// Returns the range of entries with indices in `range`, for a list whose chunks are single indices.
    pub(super) fn between(&self, range: &Range<u64>) -> Range<usize> {
        let end = |index: u64| {
            let at = self.chunks.partition_point(|(chunk, _)| *chunk < index);
            at.checked_sub(1).and_then(|before| self.chunks.get(before)).map_or(0, |(_, end)| *end)
        };
        end(range.start)..end(range.end)
    }

    /// Returns the number of distinct indices in a range, for a list whose chunks are single indices.
    pub(super) fn different(&self, range: &Range<u64>) -> u64 {
        let before = |index: u64| self.chunks.partition_point(|(chunk, _)| *chunk < index) as u64;
        before(range.end).saturating_sub(before(range.start))
    }

    /// Returns the range from the first to the last index in `range`, for a list whose chunks are single
    /// indices.
    pub(super) fn around(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let from = self.chunks.partition_point(|(chunk, _)| *chunk < range.start);
        let to = self.chunks.partition_point(|(chunk, _)| *chunk < range.end);
        let found = self.chunks.get(from..to)?;
        Some(found.first()?.0..found.last()?.0.checked_add(1)?)
    }

    /// Returns the segment that starts at an entry, and the entry after it.
    #[inline]
    pub(super) fn segment(&self, range: &Range<usize>, origin: u64) -> Option<(usize, Segment)> {
        let indices = self.indices.get(range.clone())?;
        let first = *indices.first()?;
        let places = self.places.as_ref().and_then(|places| places.get(range.clone()));
        let target = places.map_or(range.start as u64, |places| places.first().copied().unwrap_or(0));
        let follows = |numbers: &[u64], first: u64| {
            numbers.iter().zip(first..).take_while(|(number, expected)| *number == expected).count()
        };
        let block = follows(indices, first);
        let block = places.map_or(block, |places| follows(places, target).min(block));
        let segment =
            Segment { source: first.wrapping_sub(origin), target, step: 0, block: block as u64, count: 1 };
        Some((range.start.saturating_add(block), segment))
    }

    /// Returns the first chunk with indices at or after `number`.
    pub(super) fn next_chunk(&self, number: u64) -> Option<u64> {
        let at = self.chunks.partition_point(|(chunk, _)| *chunk < number);
        self.chunks.get(at).map(|(chunk, _)| *chunk)
    }
}
