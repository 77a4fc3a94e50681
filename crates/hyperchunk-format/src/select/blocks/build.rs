//! Construction of a tree of spans from boxes.

use super::{Node, Span};
use crate::{Error, Result};
use std::collections::HashMap;
use std::ops::Range;

/// Bound on the work of building the tree: number of boxes that all steps together may handle. Only boxes
/// crafted to be slow exceed it.
const MAX_HANDLED_BOXES: usize = 16 << 20;

/// Spans of a node under construction: start, end and child of each.
type Spans = Vec<(u64, u64, usize)>;

/// Builder of a tree of spans.
#[derive(Default)]
pub(super) struct Builder<'a> {
    boxes: &'a [Vec<Range<u64>>],
    rank: usize,
    pub(super) nodes: Vec<Node>,
    /// Node by level and boxes.
    by_boxes: HashMap<(usize, Vec<usize>), usize>,
    /// Node by level and spans.
    by_spans: HashMap<(usize, Spans), usize>,
    work: usize,
}

impl<'a> Builder<'a> {
    pub(super) fn new(rank: usize, boxes: &'a [Vec<Range<u64>>]) -> Self {
        Self { boxes, rank, ..Self::default() }
    }

    /// Returns the node of a level for these boxes; a new node is the last in `nodes`.
    pub(super) fn node(&mut self, level: usize, boxes: Vec<usize>) -> Result<usize> {
        if level == self.rank {
            return Ok(0);
        }
        self.work = self.work.saturating_add(boxes.len()).saturating_add(1);
        if self.work > MAX_HANDLED_BOXES {
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

    /// Computes the spans of a level by a sweep over the boxes.
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
        // The root is created last, and it is the only node of its level.
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
