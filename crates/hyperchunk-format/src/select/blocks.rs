//! Boxes anywhere, as a tree of spans: the form in which their elements can be counted and walked in order.

use super::program::Run;
use crate::{Error, Result};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// How much work boxes may make before they are given up as made to cost time.
const WORK: usize = 16 << 20;
/// HDF5's own bound.
const MAX_RANK: usize = 32;

/// A union of boxes of a dataspace. Boxes may touch and overlap; an element counts once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks {
    rank: usize,
    /// Of all levels, children before their parents; the last is the root. Equal ones are one.
    nodes: Arc<[Node]>,
}

/// What is selected in one dimension, below a place in the dimensions before it.
#[derive(Debug, PartialEq, Eq, Default)]
struct Node {
    /// In order, apart from each other unless what is below differs.
    spans: Vec<Span>,
    /// How many elements they have.
    count: u64,
}

/// Indices with the same selection below them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    range: Range<u64>,
    /// The node of the next dimension; not used in the last.
    child: usize,
    /// How many elements one index has.
    each: u64,
    /// How many elements the spans before it have.
    before: u64,
}

impl Blocks {
    /// The boxes with these corners: of each its first and its last, inclusive, `2 × rank` numbers a box.
    ///
    /// # Errors
    /// Invalid if a box ends before it starts or a corner is not whole; Limit if boxes overlap in too many ways, or have more
    /// than 2⁶⁴ - 1 elements.
    pub fn new(rank: usize, corners: &[u64]) -> Result<Self> {
        if rank > MAX_RANK {
            return Err(Error::invalid(format!("boxes of rank {rank}")));
        }
        let numbers = rank.saturating_mul(2);
        if corners.len().checked_rem(numbers).unwrap_or(corners.len()) != 0 {
            return Err(Error::invalid(format!("{} coordinates of boxes of rank {rank}", corners.len())));
        }
        let mut boxes = Vec::new();
        for corners in corners.chunks_exact(numbers.max(1)) {
            let (first, last) = corners.split_at(rank);
            let ranges = first.iter().zip(last).map(|(first, last)| match last.checked_add(1) {
                Some(end) if first <= last => Ok(*first..end),
                _ => Err(Error::invalid(format!("a box from {first} to {last}"))),
            });
            boxes.push(ranges.collect::<Result<Vec<_>>>()?);
        }
        Self::of(rank, &boxes)
    }

    fn of(rank: usize, boxes: &[Vec<Range<u64>>]) -> Result<Self> {
        let mut builder = Builder { boxes, rank, ..Builder::default() };
        let all: Vec<usize> = (0..boxes.len()).collect();
        builder.node(0, all)?;
        Ok(Self { rank, nodes: builder.nodes.into() })
    }

    /// How many dimensions they have.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many elements they have.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.nodes.last().map_or(0, |root| root.count)
    }

    /// The smallest box around them; `None` if they have no elements.
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

    /// The spans of a node that touch a range.
    fn touching(&self, node: usize, range: &Range<u64>) -> &[Span] {
        let spans = self.nodes.get(node).map_or(&[][..], |node| &node.spans);
        let from = spans.partition_point(|span| span.range.end <= range.start);
        let to = spans.partition_point(|span| span.range.start < range.end);
        spans.get(from..to).unwrap_or_default()
    }

    /// The nodes below the spans of `nodes` that touch a range.
    fn children(&self, nodes: &[usize], range: &Range<u64>) -> Vec<usize> {
        let spans = nodes.iter().flat_map(|node| self.touching(*node, range));
        let mut children: Vec<usize> = spans.map(|span| span.child).collect();
        children.sort_unstable();
        children.dedup();
        children
    }

    /// How many elements lie in a box.
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

    /// Each run in a box, its source counted from the start of the box, whose rows have these strides.
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

    /// Appends the corners of the boxes of one row each that the elements of some ranks are.
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

    /// Walks the elements in order, in runs, with the strides of the dataspace.
    pub(super) fn walk(&self, strides: Vec<u64>) -> Walk {
        let mut walk = Walk { blocks: self.clone(), strides, stack: Vec::new() };
        walk.descend(self.root(), 0);
        walk
    }

    /// The chunks of this extent that they touch, in order.
    pub(super) fn chunks(&self, chunk: &[u64]) -> Chunks {
        Chunks { blocks: self.clone(), chunk: chunk.to_vec(), levels: Vec::new(), begun: false }
    }
}

/// The spans of a node that is being made: start, end and child of each.
type Spans = Vec<(u64, u64, usize)>;

/// Makes a tree of boxes.
#[derive(Default)]
struct Builder<'a> {
    boxes: &'a [Vec<Range<u64>>],
    rank: usize,
    nodes: Vec<Node>,
    /// The node for some boxes at a level.
    by_boxes: HashMap<(usize, Vec<usize>), usize>,
    /// The node with some spans at a level.
    by_spans: HashMap<(usize, Spans), usize>,
    work: usize,
}

impl Builder<'_> {
    /// The node of a level for these boxes, which is the last one made if it is new.
    fn node(&mut self, level: usize, boxes: Vec<usize>) -> Result<usize> {
        if level == self.rank {
            return Ok(0);
        }
        self.work = self.work.saturating_add(boxes.len()).saturating_add(1);
        if self.work > WORK {
            return Err(Error::limit("the boxes of a selection overlap in too many ways"));
        }
        let key = (level, boxes);
        if let Some(node) = self.by_boxes.get(&key) {
            return Ok(*node);
        }
        let spans = self.spans(level, &key.1)?;
        let node = self.intern(level, spans)?;
        self.by_boxes.insert(key, node);
        Ok(node)
    }

    /// The spans of a level for some boxes.
    fn spans(&mut self, level: usize, boxes: &[usize]) -> Result<Spans> {
        let source = self.boxes;
        let range = |at: usize| source.get(at).and_then(|ranges| ranges.get(level)).cloned().unwrap_or(0..0);
        let mut by_start: Vec<usize> = boxes.to_vec();
        by_start.sort_by_key(|at| range(*at).start);
        let mut spans = Spans::new();
        let mut next = by_start.into_iter().peekable();
        let mut active: Vec<usize> = Vec::new();
        let mut at = 0;
        loop {
            active.retain(|one| range(*one).end > at);
            if active.is_empty() {
                match next.peek() {
                    Some(one) => at = range(*one).start,
                    None => return Ok(spans),
                }
            }
            while let Some(one) = next.next_if(|one| range(*one).start <= at) {
                active.push(one);
            }
            let end = active.iter().map(|one| range(*one).end).min().unwrap_or(at);
            let end = next.peek().map_or(end, |one| end.min(range(*one).start));
            self.work = self.work.saturating_add(active.len());
            let mut below = active.clone();
            below.sort_unstable();
            let child = self.node(level.saturating_add(1), below)?;
            match spans.last_mut() {
                Some((_, last, before)) if *last == at && *before == child => *last = end,
                _ => spans.push((at, end, child)),
            }
            at = end;
        }
    }

    fn intern(&mut self, level: usize, spans: Spans) -> Result<usize> {
        // The root is made last, and no other node is at its level.
        if let Some(node) = self.by_spans.get(&(level, spans.clone())) {
            return Ok(*node);
        }
        let too_many = || Error::limit("a selection of more than 2^64 elements");
        let last_level = level.saturating_add(1) == self.rank;
        let mut node = Node::default();
        for (start, end, child) in &spans {
            let each = if last_level { 1 } else { self.nodes.get(*child).map_or(0, |child| child.count) };
            node.spans.push(Span { range: *start..*end, child: *child, each, before: node.count });
            let count = end.wrapping_sub(*start).checked_mul(each).ok_or_else(too_many)?;
            node.count = node.count.checked_add(count).ok_or_else(too_many)?;
        }
        let at = self.nodes.len();
        self.nodes.push(node);
        self.by_spans.insert((level, spans), at);
        Ok(at)
    }
}

/// The elements of blocks in order, as runs: first element, count.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    blocks: Blocks,
    strides: Vec<u64>,
    /// For each level: the node, the span in it, the index in the span, and where the level below starts.
    stack: Vec<(usize, usize, u64, u64)>,
}

impl Walk {
    /// Goes down to the first row below a node.
    fn descend(&mut self, mut node: usize, mut base: u64) {
        while let Some(stride) = self.strides.get(self.stack.len()) {
            let Some(span) = self.blocks.nodes.get(node).and_then(|node| node.spans.first()) else { return };
            let start = span.range.start;
            base = base.wrapping_add(start.wrapping_mul(*stride));
            self.stack.push((node, 0, start, base));
            node = span.child;
        }
    }

    /// Goes on to the next row, or the next span of this one.
    fn advance(&mut self) {
        while let Some((node, at, index, base)) = self.stack.pop() {
            let level = self.stack.len();
            let stride = self.strides.get(level).copied().unwrap_or(1);
            let Some(node_here) = self.blocks.nodes.get(node) else { break };
            let Some(span) = node_here.spans.get(at) else { break };
            let last_level = level.saturating_add(1) == self.blocks.rank;
            let next = index.saturating_add(1);
            let (at, next, child) = if !last_level && next < span.range.end {
                (at, next, span.child)
            } else {
                let at = at.saturating_add(1);
                match node_here.spans.get(at) {
                    Some(span) => (at, span.range.start, span.child),
                    None => continue,
                }
            };
            let base = base.wrapping_add(next.wrapping_sub(index).wrapping_mul(stride));
            self.stack.push((node, at, next, base));
            self.descend(child, base);
            return;
        }
    }
}

impl Iterator for Walk {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let (node, at, _, base) = self.stack.last()?;
        let span = self.blocks.nodes.get(*node)?.spans.get(*at)?;
        let run = (*base, span.range.end.wrapping_sub(span.range.start));
        self.advance();
        Some(run)
    }
}

/// The chunks that blocks touch, in order.
#[derive(Debug, Clone)]
pub(super) struct Chunks {
    blocks: Blocks,
    chunk: Vec<u64>,
    /// For each level: the nodes that can be met there, and the number of the chunk.
    levels: Vec<(Vec<usize>, u64)>,
    begun: bool,
}

impl Chunks {
    /// The first chunk at or after `number` that one of the nodes touches.
    fn first_chunk_of(&self, level: usize, nodes: &[usize], number: u64) -> Option<u64> {
        let chunk = self.chunk.get(level).copied().unwrap_or(1);
        let start = number.checked_mul(chunk)?;
        let first = nodes.iter().filter_map(|node| {
            let spans = self.blocks.touching(*node, &(start..u64::MAX));
            spans.first().map(|span| span.range.start.max(start))
        });
        first.min()?.checked_div(chunk)
    }

    fn range(&self, level: usize, number: u64) -> Range<u64> {
        let chunk = self.chunk.get(level).copied().unwrap_or(1);
        let start = number.saturating_mul(chunk);
        start..start.saturating_add(chunk)
    }

    /// Fills up the levels below, each with its first chunk.
    fn descend(&mut self) {
        while self.levels.len() < self.chunk.len() {
            let level = self.levels.len();
            let nodes = match self.levels.last() {
                None => vec![self.blocks.root()],
                Some((nodes, number)) => {
                    self.blocks.children(nodes, &self.range(level.saturating_sub(1), *number))
                }
            };
            let number = self.first_chunk_of(level, &nodes, 0).unwrap_or(0);
            self.levels.push((nodes, number));
        }
    }
}

impl Iterator for Chunks {
    type Item = Vec<u64>;

    fn next(&mut self) -> Option<Vec<u64>> {
        if self.blocks.count() == 0 {
            return None;
        }
        if !self.begun {
            self.begun = true;
            self.descend();
        } else {
            loop {
                let (nodes, number) = self.levels.pop()?;
                let after = number
                    .checked_add(1)
                    .and_then(|after| self.first_chunk_of(self.levels.len(), &nodes, after));
                if let Some(after) = after {
                    self.levels.push((nodes, after));
                    self.descend();
                    break;
                }
            }
        }
        Some(self.levels.iter().map(|(_, number)| *number).collect())
    }
}
