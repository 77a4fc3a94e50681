//! Iterators over the elements of a tree of spans and over the chunks they belong to.

use super::Blocks;
use std::ops::Range;

/// Iterator over the elements of blocks in order, as runs: first element and count.
#[derive(Debug, Clone)]
pub(crate) struct Walk {
    blocks: Blocks,
    strides: Vec<u64>,
    /// For each dimension: node, number of the span, index in the dimension, and the element at which the next
    /// dimension starts.
    stack: Vec<(usize, usize, u64, u64)>,
}

impl Walk {
    pub(super) fn new(blocks: Blocks, strides: Vec<u64>) -> Self {
        let root = blocks.root();
        let mut walk = Self { blocks, strides, stack: Vec::new() };
        walk.descend(root, 0);
        walk
    }

    /// Descends to the first run below a node.
    fn descend(&mut self, mut node: usize, mut base: u64) {
        while let Some(stride) = self.strides.get(self.stack.len()) {
            let Some(span) = self.blocks.nodes.get(node).and_then(|node| node.spans.first()) else { return };
            let start = span.range.start;
            base = base.wrapping_add(start.wrapping_mul(*stride));
            self.stack.push((node, 0, start, base));
            node = span.child;
        }
    }

    /// Moves to the next run.
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

/// Iterator over the chunks that blocks touch, in order.
#[derive(Debug, Clone)]
pub(crate) struct Chunks {
    blocks: Blocks,
    chunk: Vec<u64>,
    /// For each level: the nodes reachable there, and the number of the chunk.
    levels: Vec<(Vec<usize>, u64)>,
    begun: bool,
}

impl Chunks {
    pub(super) fn new(blocks: Blocks, chunk: Vec<u64>) -> Self {
        Self { blocks, chunk, levels: Vec::new(), begun: false }
    }

    /// Returns the first chunk at or after `number` that one of the nodes touches.
    fn first_chunk(&self, level: usize, nodes: &[usize], number: u64) -> Option<u64> {
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

    /// Fills the levels below, each with its first chunk.
    fn descend(&mut self) {
        while self.levels.len() < self.chunk.len() {
            let level = self.levels.len();
            let nodes = match self.levels.last() {
                None => vec![self.blocks.root()],
                Some((nodes, number)) => {
                    self.blocks.children(nodes, &self.range(level.saturating_sub(1), *number))
                }
            };
            let number = self.first_chunk(level, &nodes, 0).unwrap_or(0);
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
                    .and_then(|after| self.first_chunk(self.levels.len(), &nodes, after));
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
