//! Unions of boxes as a tree of spans, in which their elements can be counted and iterated in order.

mod build;
mod walk;

pub(super) use walk::{Chunks, Walk};

use super::program::Run;
use crate::{Error, Result};
use build::Builder;
use std::ops::Range;
use std::sync::Arc;

/// HDF5's maximum rank (`H5S_MAX_RANK`).
const MAX_RANK: usize = 32;

/// Union of boxes of a dataspace. Boxes may touch and overlap; each element counts once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks {
    rank: usize,
    /// Nodes of all levels, children before their parents; the last is the root. Equal nodes are shared.
    nodes: Arc<[Node]>,
}

/// Selected indices of one dimension, for a fixed position in the preceding dimensions.
#[derive(Debug, PartialEq, Eq, Default)]
struct Node {
    /// Spans in order; adjacent ones are merged unless their children differ.
    spans: Vec<Span>,
    /// Number of elements.
    count: u64,
}

/// Range of indices with the same selection in the following dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    range: Range<u64>,
    /// Node of the next dimension; unused in the last.
    child: usize,
    /// Number of elements selected for each index.
    each: u64,
    /// Number of elements in the preceding spans.
    before: u64,
}

impl Blocks {
    /// Creates the union of boxes given by their first and last corners, inclusive: `2 × rank` numbers a box.
    ///
    /// # Errors
    /// Invalid if a box ends before it starts or a corner is incomplete; Limit if the overlaps are too
    /// complex, or if there are more than 2⁶⁴ - 1 elements.
    pub fn new(rank: usize, corners: &[u64]) -> Result<Self> {
        if rank > MAX_RANK {
            return Err(Error::invalid(format!("boxes of rank {rank}, expected at most {MAX_RANK}")));
        }
        let numbers = rank.saturating_mul(2);
        if corners.len().checked_rem(numbers).unwrap_or(corners.len()) != 0 {
            return Err(Error::invalid(format!(
                "{} coordinates do not form boxes of rank {rank}",
                corners.len()
            )));
        }
        let mut boxes = Vec::new();
        for corners in corners.chunks_exact(numbers.max(1)) {
            let (first, last) = corners.split_at(rank);
            let ranges = first.iter().zip(last).map(|(first, last)| match last.checked_add(1) {
                Some(end) if first <= last => Ok(*first..end),
                _ => Err(Error::invalid(format!(
                    "a box from {first} to {last}, expected a last index after the first and below 2^64 - 1"
                ))),
            });
            boxes.push(ranges.collect::<Result<Vec<_>>>()?);
        }
        Self::of(rank, &boxes)
    }

    fn of(rank: usize, boxes: &[Vec<Range<u64>>]) -> Result<Self> {
        let mut builder = Builder::new(rank, boxes);
        let all: Vec<usize> = (0..boxes.len()).collect();
        builder.node(0, all)?;
        Ok(Self { rank, nodes: builder.nodes.into() })
    }

    /// Returns the number of dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.nodes.last().map_or(0, |root| root.count)
    }

    /// Returns the bounding box; `None` if there are no elements.
    #[must_use]
    pub fn bounds(&self) -> Option<Vec<Range<u64>>> {
        if self.count() == 0 {
            return None;
        }
        let mut bounds = Vec::with_capacity(self.rank);
        let mut level = vec![self.root()];
        while bounds.len() < self.rank {
            let nodes = level.iter().filter_map(|node| self.nodes.get(*node));
            let first = nodes.clone().filter_map(|node| node.spans.first()).map(|span| span.range.start);
            let last = nodes.filter_map(|node| node.spans.last()).map(|span| span.range.end);
            bounds.push(first.min().unwrap_or(0)..last.max().unwrap_or(0));
            level = self.children(&level, &(0..u64::MAX));
        }
        Some(bounds)
    }

    fn root(&self) -> usize {
        self.nodes.len().saturating_sub(1)
    }

    /// Returns the spans of a node that touch a range.
    fn touching(&self, node: usize, range: &Range<u64>) -> &[Span] {
        let spans = self.nodes.get(node).map_or(&[][..], |node| &node.spans);
        let from = spans.partition_point(|span| span.range.end <= range.start);
        let to = spans.partition_point(|span| span.range.start < range.end);
        spans.get(from..to).unwrap_or_default()
    }

    /// Returns the nodes below the spans of `nodes` that touch a range.
    fn children(&self, nodes: &[usize], range: &Range<u64>) -> Vec<usize> {
        let spans = nodes.iter().flat_map(|node| self.touching(*node, range));
        let mut children: Vec<usize> = spans.map(|span| span.child).collect();
        children.sort_unstable();
        children.dedup();
        children
    }

    /// Returns the number of elements in a box.
    pub(super) fn count_in(&self, bounds: &[Range<u64>]) -> u64 {
        fn below(blocks: &Blocks, node: usize, bounds: &[Range<u64>]) -> u64 {
            let Some((range, rest)) = bounds.split_first() else { return 1 };
            let spans = blocks.touching(node, range).iter();
            let each = spans.map(|span| {
                let (start, end) = (span.range.start.max(range.start), span.range.end.min(range.end));
                end.saturating_sub(start).saturating_mul(below(blocks, span.child, rest))
            });
            each.fold(0, u64::saturating_add)
        }
        if self.nodes.is_empty() { 0 } else { below(self, self.root(), bounds) }
    }

    /// Calls `each` for every run in a box. The source of a run is relative to the start of the box;
    /// `strides` are the strides of the source.
    pub(super) fn for_each<E>(
        &self,
        bounds: &[Range<u64>],
        strides: &[u64],
        each: &mut impl FnMut(Run) -> Result<(), E>,
    ) -> Result<(), E> {
        self.runs_below(self.root(), bounds, strides, (0, 0), each)
    }

    fn runs_below<E>(
        &self,
        node: usize,
        bounds: &[Range<u64>],
        strides: &[u64],
        (source, target): (u64, u64),
        each: &mut impl FnMut(Run) -> Result<(), E>,
    ) -> Result<(), E> {
        let (Some((range, bounds)), Some((stride, strides))) = (bounds.split_first(), strides.split_first())
        else {
            return Ok(());
        };
        for span in self.touching(node, range) {
            let (start, end) = (span.range.start.max(range.start), span.range.end.min(range.end));
            let mut source = source.wrapping_add(start.wrapping_sub(range.start).wrapping_mul(*stride));
            let skipped = start.wrapping_sub(span.range.start).wrapping_mul(span.each);
            let mut target = target.wrapping_add(span.before).wrapping_add(skipped);
            if bounds.is_empty() {
                each(Run::single(source, target, end.wrapping_sub(start)))?;
                continue;
            }
            for _ in start..end {
                self.runs_below(span.child, bounds, strides, (source, target), each)?;
                source = source.wrapping_add(*stride);
                target = target.wrapping_add(span.each);
            }
        }
        Ok(())
    }

    /// Appends the corners of one-row boxes that cover the elements at the positions `ranks` in the order of
    /// the selection.
    pub(super) fn corners(&self, ranks: Range<u64>, corners: &mut Vec<u64>) {
        self.corners_below(self.root(), ranks, &mut Vec::with_capacity(self.rank), corners);
    }

    fn corners_below(&self, node: usize, ranks: Range<u64>, at: &mut Vec<u64>, corners: &mut Vec<u64>) {
        let spans = self.nodes.get(node).map_or(&[][..], |node| &node.spans);
        let from = spans.partition_point(|span| span.before <= ranks.start).saturating_sub(1);
        for span in spans.iter().skip(from).take_while(|span| span.before < ranks.end) {
            let (start, end) =
                (ranks.start.saturating_sub(span.before), ranks.end.saturating_sub(span.before));
            let indices = span.range.end.saturating_sub(span.range.start);
            let first = start.checked_div(span.each).unwrap_or(0);
            let last = end.div_ceil(span.each.max(1)).min(indices);
            if at.len().saturating_add(1) == self.rank {
                for last in [first, last.saturating_sub(1)] {
                    corners.extend_from_slice(at);
                    corners.push(span.range.start.saturating_add(last));
                }
                continue;
            }
            for index in first..last {
                let before = index.saturating_mul(span.each);
                let below = start.saturating_sub(before)..end.saturating_sub(before).min(span.each);
                at.push(span.range.start.saturating_add(index));
                self.corners_below(span.child, below, at, corners);
                at.pop();
            }
        }
    }

    /// Iterates over the elements in order, as runs, with the strides of the dataspace.
    pub(super) fn walk(&self, strides: Vec<u64>) -> Walk {
        Walk::new(self.clone(), strides)
    }

    /// Iterates over the touched chunks of this extent, in order.
    pub(super) fn chunks(&self, chunk: &[u64]) -> Chunks {
        Chunks::new(self.clone(), chunk.to_vec())
    }
}
