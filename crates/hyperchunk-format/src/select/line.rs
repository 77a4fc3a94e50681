//! The selected indices of one dimension, and those of them that are in one chunk.

use super::Axis;
use super::choice::out_of_range;
use crate::{Error, Result};
use std::ops::Range;

/// `count` blocks of `block` indices, each `step` after the one before, whose places in the result are one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Segment {
    /// The first index, from the start of the chunk.
    pub(super) source: u64,
    /// Its place in the result.
    pub(super) target: u64,
    pub(super) step: u64,
    pub(super) block: u64,
    pub(super) count: u64,
}

/// The selected indices of one dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    Pattern(Pattern),
    List(Vec<u64>),
}

/// Blocks at equal distances; the last may be cut short. Checked: all indices are within the extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pattern {
    start: u64,
    /// At least `block`.
    stride: u64,
    /// Never 0.
    block: u64,
    length: u64,
}

impl Line {
    /// The index at a place in the result.
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
    /// All of an extent.
    pub(super) fn all(extent: u64) -> Self {
        Self { start: 0, stride: extent.max(1), block: extent.max(1), length: extent }
    }

    /// Checked against the extent of dimension `axis`.
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
            let message = format!("blocks of {block} indices, {stride} apart, on axis {axis}");
            return Err(Error::invalid(message));
        }
        // One after another, they are one.
        let (stride, block) =
            if stride == block || length <= block { (length, length) } else { (stride, block) };
        let pattern = Self { start, stride, block, length };
        match pattern.last() {
            Some(last) if last < extent => Ok(pattern),
            last => Err(out_of_range(axis, last.unwrap_or(u64::MAX), extent)),
        }
    }

    /// The last index; `None` if beyond 2⁶⁴.
    fn last(&self) -> Option<u64> {
        let last = self.length.checked_sub(1)?;
        let block = last.checked_div(self.block)?;
        block.checked_mul(self.stride)?.checked_add(last.checked_rem(self.block)?)?.checked_add(self.start)
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The range that it is, if it has no gaps.
    pub(super) fn contiguous(&self) -> Option<Range<u64>> {
        (self.length <= self.block).then(|| self.bounds())
    }

    /// `length` indices from a place on, if that is where a block starts or all of them are in one.
    pub(super) fn cut(&self, place: u64, length: u64) -> Option<Axis> {
        let start = self.at(place);
        let before = place.checked_rem(self.block).unwrap_or(0);
        if length <= self.block.saturating_sub(before) {
            return Some(Axis::range(start..start.saturating_add(length)));
        }
        let Self { stride, block, .. } = *self;
        (before == 0).then_some(Axis::Cut { start, stride, block, length })
    }

    /// How many indices without a gap there are from a place on.
    pub(super) fn together(&self, place: u64) -> u64 {
        let before = place.checked_rem(self.block).unwrap_or(0);
        self.block.saturating_sub(before).min(self.length.saturating_sub(place))
    }

    pub(super) fn bounds(&self) -> Range<u64> {
        let end = self.last().map_or(self.start, |last| last.saturating_add(1));
        self.start..end
    }

    /// How many indices are less than `index`.
    pub(super) fn rank(&self, index: u64) -> u64 {
        let Some(distance) = index.checked_sub(self.start) else { return 0 };
        let blocks = distance.checked_div(self.stride).unwrap_or(0);
        let rest = distance.checked_rem(self.stride).unwrap_or(0).min(self.block);
        blocks.saturating_mul(self.block).saturating_add(rest).min(self.length)
    }

    /// The index at a place in the result. Wraps for a place at or beyond the end.
    pub(super) fn at(&self, place: u64) -> u64 {
        let block = place.checked_div(self.block).unwrap_or(0);
        let rest = place.checked_rem(self.block).unwrap_or(0);
        self.start.wrapping_add(block.wrapping_mul(self.stride)).wrapping_add(rest)
    }

    /// The first index at or after `index`.
    pub(super) fn next(&self, index: u64) -> Option<u64> {
        let place = self.rank(index);
        (place < self.length).then(|| self.at(place))
    }

    /// Those in `range`, from its start: a block that begins before it, whole blocks, a block that ends after it.
    pub(super) fn segments(&self, range: Range<u64>) -> [Segment; 3] {
        let mut segments = [Segment::default(); 3];
        let [head, whole, tail] = &mut segments;
        let (mut place, end) = (self.rank(range.start), self.rank(range.end));
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

/// A list of indices, sorted by chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    segments: Vec<Segment>,
    /// Of each chunk that has indices: its number, and where its segments end.
    chunks: Vec<(u64, usize)>,
}

impl Listed {
    pub(super) fn new(indices: &[u64], chunk: u64) -> Self {
        let number = |index: u64| index.checked_div(chunk).unwrap_or(0);
        let in_order = indices.is_sorted_by_key(|index| number(*index));
        let mut listed = Self { segments: Vec::new(), chunks: Vec::new() };
        if in_order {
            for (place, index) in (0_u64..).zip(indices) {
                listed.push(number(*index), *index, place, chunk);
            }
        } else {
            let mut order: Vec<(u64, u64)> =
                (0_u64..).zip(indices).map(|(place, index)| (*index, place)).collect();
            order.sort_by_key(|(index, _)| number(*index));
            for (index, place) in order {
                listed.push(number(index), index, place, chunk);
            }
        }
        listed
    }

    /// Segments of one chunk.
    pub(super) fn of(segments: Vec<Segment>) -> Self {
        let chunks = vec![(0, segments.len())];
        Self { segments, chunks }
    }

    fn push(&mut self, number: u64, index: u64, target: u64, chunk: u64) {
        let source = index.wrapping_sub(number.wrapping_mul(chunk));
        let end = self.segments.len().saturating_add(1);
        match self.chunks.last_mut() {
            Some((last, after)) if *last == number => {
                if let Some(segment) = self.segments.last_mut() {
                    let follows = |start: u64, at: u64| start.wrapping_add(segment.block) == at;
                    if follows(segment.source, source) && follows(segment.target, target) {
                        segment.block = segment.block.saturating_add(1);
                        return;
                    }
                }
                *after = end;
            }
            _ => self.chunks.push((number, end)),
        }
        self.segments.push(Segment { source, target, step: 0, block: 1, count: 1 });
    }

    /// Where the segments in a chunk are.
    pub(super) fn range(&self, number: u64) -> Range<usize> {
        let at = self.chunks.partition_point(|(chunk, _)| *chunk < number);
        let start = at.checked_sub(1).and_then(|before| self.chunks.get(before)).map_or(0, |(_, end)| *end);
        match self.chunks.get(at) {
            Some((chunk, end)) if *chunk == number => start..*end,
            _ => start..start,
        }
    }

    /// A segment of a range.
    pub(super) fn get(&self, range: &Range<usize>, at: usize) -> Option<&Segment> {
        self.segments.get(range.clone())?.get(at)
    }

    /// How many indices a range has.
    pub(super) fn count(&self, range: Range<usize>) -> u64 {
        let segments = self.segments.get(range).unwrap_or_default();
        segments.iter().fold(0, |count, segment| count.saturating_add(segment.block))
    }

    /// The first chunk with indices at or after `number`.
    pub(super) fn next_chunk(&self, number: u64) -> Option<u64> {
        let at = self.chunks.partition_point(|(chunk, _)| *chunk < number);
        self.chunks.get(at).map(|(chunk, _)| *chunk)
    }
}
