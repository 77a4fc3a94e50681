//! Datasets of many pieces for plain libhdf5: a dataset for each block of a log, and a virtual dataset over them.
//!
//! A list of external files is in row-major order, so that a block takes as many segments as it has rows. As a dataset of its
//! own, a block is one segment, whatever its shape.

use super::fragment::{inside, is_in};
use super::link::Unlinked;
use super::manifest::Stored;
use super::overlap::layers;
use super::{Definition, Marker, Place, Slab};
use crate::write::{DatasetOptions, NewLayout, NodeId, Writer};
use crate::{Error, Result};
use hyperchunk_format::model::{
    AllocationTime, Dataspace, Datatype, ExternalFile, FillTime, FillValue, FillWhen, Hyperslab, Name,
    Selection, SourceName, VirtualMapping,
};

/// Largest number of blocks: libhdf5 opens each of them to read all.
const MAX_BLOCKS: usize = 4096;
/// Largest number of boxes that are left of all blocks where others lie over them.
const MAX_BOXES: usize = 1 << 14;
/// Name of the group in the root group that has the blocks.
pub(crate) const GROUP: &[u8] = b".hyperchunk-store";

/// A block: elements of a dataset that lie in one piece in a log, in C order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Block {
    /// Its box in the dataset. That of a chunk may reach beyond the extent.
    slab: Slab,
    /// Where its bytes lie; `None` for fill values.
    file: Option<ExternalFile>,
    /// What is to be seen of it.
    seen: Vec<Slab>,
}

/// What a virtual dataset is over.
#[derive(Debug, Clone)]
pub struct Blocks {
    all: Vec<Block>,
    /// What elements read as that no block has.
    fill: Option<Vec<u8>>,
}

impl Blocks {
    /// Number of blocks.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

/// A piece whose elements lie in C order in a log, while blocks are sought.
struct Candidate {
    slab: Slab,
    seen: Slab,
    part: usize,
    offset: u64,
    length: u64,
}

impl Candidate {
    /// Takes in a piece that goes on where this one ends, in the log and in the dataset.
    fn extend(&mut self, next: &Candidate) -> bool {
        let whole = self.seen == self.slab && next.seen == next.slab;
        if !whole || self.part != next.part || self.offset.saturating_add(self.length) != next.offset {
            return false;
        }
        let same = |axis: usize| {
            self.slab.start[axis] == next.slab.start[axis] && self.slab.count[axis] == next.slab.count[axis]
        };
        let differing: Vec<usize> = (0..self.slab.start.len()).filter(|axis| !same(*axis)).collect();
        let [axis] = differing[..] else { return false };
        // C order goes on along the slowest dimension that has more than one element.
        if self.slab.start[axis].saturating_add(self.slab.count[axis]) != next.slab.start[axis]
            || self.slab.count[..axis].iter().any(|count| *count != 1)
        {
            return false;
        }
        self.slab.count[axis] += next.slab.count[axis];
        self.seen = self.slab.clone();
        self.length += next.length;
        true
    }
}

/// The blocks that a dataset consists of, at most `room` of them. `name` is what a log is called.
pub(super) fn blocks(
    stored: &Stored,
    room: usize,
    name: &dyn Fn(u32, Option<&Definition>) -> Option<Name>,
) -> Result<std::result::Result<Blocks, Unlinked>> {
    let mut found: Vec<Candidate> = Vec::new();
    for layer in layers(stored) {
        let is_plain = match layer.piece.place {
            Place::Raw => true,
            Place::Chunk { .. } => stored.definition.pipeline.is_empty(),
        };
        if !is_plain {
            return Ok(Err(Unlinked::Chunks));
        }
        let (slab, seen) = (layer.piece.slab, layer.seen);
        let length = slab.elements()?.saturating_mul(stored.definition.element_size());
        let next = Candidate { slab, seen, part: layer.part, offset: layer.piece.offset, length };
        if found.last_mut().is_some_and(|last| last.extend(&next)) {
            continue;
        }
        if found.len() >= MAX_BLOCKS.min(room) {
            return Ok(Err(Unlinked::Segments));
        }
        found.push(next);
    }
    let mut all = Vec::new();
    let mut boxes = 0;
    for (number, candidate) in found.iter().enumerate() {
        let mut seen = vec![candidate.seen.clone()];
        for over in &found[number + 1..] {
            if meet(&candidate.seen, &over.seen) {
                seen = seen.iter().flat_map(|slab| without(slab, &over.seen)).collect();
            }
        }
        boxes += seen.len();
        if boxes > MAX_BOXES {
            return Ok(Err(Unlinked::Segments));
        }
        if seen.is_empty() {
            continue;
        }
        let log = stored.parts.get(candidate.part).map_or(0, |part| part.log);
        let definition = is_in(candidate.offset).then_some(&stored.definition);
        let name = name(log, definition).ok_or_else(|| Error::corrupt(format!("no log of number {log}")))?;
        let offset = if is_in(candidate.offset) { inside(candidate.offset) } else { candidate.offset };
        let file = Some(ExternalFile { name, offset, size: Some(candidate.length) });
        all.push(Block { slab: candidate.slab.clone(), file, seen });
    }
    if all.is_empty() && room == 0 {
        return Ok(Err(Unlinked::Segments));
    }
    if all.is_empty() {
        let slab = Slab::new(vec![0; stored.extent.len()], stored.extent.clone());
        all.push(Block { seen: vec![slab.clone()], slab, file: None });
    }
    Ok(Ok(Blocks { all, fill: stored.definition.unwritten().map(<[u8]>::to_vec) }))
}

/// Whether two boxes have an element in common.
fn meet(one: &Slab, other: &Slab) -> bool {
    let both = one.start.iter().zip(&one.count).zip(other.start.iter().zip(&other.count));
    both.into_iter().all(|((a, n), (b, m))| *a < b.saturating_add(*m) && *b < a.saturating_add(*n))
}

/// What is left of a box where another lies over it.
fn without(slab: &Slab, over: &Slab) -> Vec<Slab> {
    let Some(common) = slab.intersection(over) else { return vec![slab.clone()] };
    let mut left = Vec::new();
    let mut rest = slab.clone();
    for axis in 0..slab.start.len() {
        let (start, end) = (rest.start[axis], rest.start[axis] + rest.count[axis]);
        let (first, last) = (common.start[axis], common.start[axis] + common.count[axis]);
        for range in [start..first, last..end] {
            if !range.is_empty() {
                let mut part = rest.clone();
                (part.start[axis], part.count[axis]) = (range.start, range.end - range.start);
                left.push(part);
            }
        }
        (rest.start[axis], rest.count[axis]) = (first, last - first);
    }
    left
}

/// Makes the blocks of a dataset in a skeleton.
pub(super) fn make(
    writer: &Writer,
    group: NodeId,
    marker: Marker,
    datatype: &Datatype,
    blocks: &Blocks,
) -> Result<()> {
    let dataset = writer.create_group(group, marker.dataset.to_string().as_bytes(), false)?;
    let epoch = writer.create_group(dataset, marker.epoch.to_string().as_bytes(), false)?;
    for (number, block) in blocks.all.iter().enumerate() {
        let dims = block.slab.count.clone();
        let max = dims.iter().copied().map(Some).collect();
        let layout = match &block.file {
            Some(file) => NewLayout::External(vec![file.clone()]),
            None => NewLayout::Contiguous,
        };
        let dataspace = Dataspace::Simple { dims, max };
        let mut options = DatasetOptions::new(datatype.clone(), dataspace).with_layout(layout);
        options.fill = match (&block.file, &blocks.fill) {
            (None, Some(fill)) => filled(fill),
            _ => FillValue {
                value: FillWhen::Undefined,
                allocation: AllocationTime::Late,
                time: FillTime::Never,
            },
        };
        writer.create_dataset(epoch, number.to_string().as_bytes(), options)?;
    }
    Ok(())
}

/// The virtual dataset over the blocks, as it is made: its layout and its fill value.
pub(super) fn layout(marker: Marker, blocks: &Blocks) -> (NewLayout, FillValue) {
    let name = |text: &str| SourceName { parts: vec![Name::from(text)] };
    let mut mappings = Vec::new();
    for (number, block) in blocks.all.iter().enumerate() {
        let dataset = name(&marker.block(number));
        for seen in &block.seen {
            mappings.push(VirtualMapping {
                file: name("."),
                dataset: dataset.clone(),
                source: selection(seen, &block.slab.start),
                target: selection(seen, &vec![0; seen.start.len()]),
            });
        }
    }
    let unset = FillValue {
        value: FillWhen::Default,
        allocation: AllocationTime::Incremental,
        time: FillTime::IfSet,
    };
    (NewLayout::Virtual(mappings), blocks.fill.as_deref().map_or(unset, filled))
}

fn filled(value: &[u8]) -> FillValue {
    FillValue {
        value: FillWhen::User(value.to_vec()),
        allocation: AllocationTime::Incremental,
        time: FillTime::IfSet,
    }
}

/// A box as a selection of a dataset that begins at `origin`.
fn selection(slab: &Slab, origin: &[u64]) -> Selection {
    let axes = slab.start.iter().zip(&slab.count).zip(origin);
    let axes = axes.map(|((start, count), origin)| Hyperslab {
        start: start - origin,
        stride: *count,
        count: Some(1),
        block: Some(*count),
    });
    Selection::Regular(axes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_box_is_what_the_other_does_not_have() {
        let mut state = 11_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for rank in 1..4 {
            for round in 0..300 {
                let mut slab = || {
                    let start: Vec<u64> = (0..rank).map(|_| random(5)).collect();
                    Slab::new(start, (0..rank).map(|_| 1 + random(4)).collect::<Vec<_>>())
                };
                let (one, other) = (slab(), slab());
                let left = without(&one, &other);
                assert_eq!(meet(&one, &other), one.intersection(&other).is_some(), "{rank} {round}");
                for (number, part) in left.iter().enumerate() {
                    assert!(part.intersection(&other).is_none() && !part.count.contains(&0));
                    assert_eq!(part.intersection(&one).as_ref(), Some(part));
                    assert!(left[number + 1..].iter().all(|next| !meet(part, next)), "{rank} {round}");
                }
                let common = one.intersection(&other).map_or(0, |common| common.elements().unwrap());
                let sum: u64 = left.iter().map(|part| part.elements().unwrap()).sum();
                assert_eq!(sum + common, one.elements().unwrap(), "{rank} {round}");
            }
        }
    }
}
