//! Datasets of many pieces for plain libhdf5: a source dataset for each block of a log, and a
//! virtual dataset over them.
//!
//! A list of external files is in row-major order, so a block takes as many segments as it has
//! rows. As a dataset of its own, a block is one segment, regardless of its shape.

use super::overlap::layers;
use crate::commit::external_links::UnlinkedReason;
use crate::format::fragment_offset::{inside, is_in};
use crate::format::manifest::StoredDataset;
use crate::format::piece::block_extent;
use crate::format::piece::is_of_members;
use crate::{Definition, Hyperslab, Marker, PieceForm};
use hyperchunk::write::{DatasetOptions, NewLayout, NodeId, Writer};
use hyperchunk::{Error, Result};
use hyperchunk_format::model::{
    self, AllocationTime, Class, Dataspace, Datatype, ExternalFile, FillTime, FillValue, FillWhen, Member,
    Name, SourceName, StoredSelection, VirtualMapping,
};

use std::ops::Range;

/// Maximum number of blocks: libhdf5 opens each of them to read everything.
const MAX_BLOCKS: usize = 4096;
/// Maximum number of visible boxes, after overlaps are cut out.
const MAX_BOXES: usize = 1 << 14;
/// Maximum of the number of blocks times the number of member groups that pieces hold separately.
const MAX_PARTS: usize = 1 << 14;
/// Approximate size in bytes of a chunk in a block of fill values.
const FILL_CHUNK_BYTES: u64 = 16 << 10;

/// A block: elements of a dataset that are contiguous in a log, in C order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Block {
    /// Its box in the dataset. The box of a chunk may reach past the extent.
    slab: Hyperslab,
    /// Location of its bytes; `None` for fill values.
    file: Option<ExternalFile>,
    /// The parts of it that no later data cover.
    seen: Vec<Hyperslab>,
    /// Datatype of its elements if it differs from the dataset's: some members only.
    members: Option<Datatype>,
}

/// Source datasets of a virtual dataset.
#[derive(Debug, Clone)]
pub struct Blocks {
    all: Vec<Block>,
    /// Value of elements that no block has.
    fill: Option<Vec<u8>>,
}

impl Blocks {
    /// Returns the number of blocks.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

/// A piece whose elements are in C order in a log, before blocks are formed.
struct Candidate {
    slab: Hyperslab,
    seen: Hyperslab,
    part: usize,
    form: PieceForm,
    offset: u64,
    length: u64,
}

impl Candidate {
    /// Appends a piece that continues this one in the log and in the dataset; returns whether it
    /// does.
    fn extend(&mut self, next: &Candidate) -> bool {
        let whole = self.seen == self.slab && next.seen == next.slab;
        // Pieces of fields hold only their own bytes, so consecutive ones are contiguous.
        let alike = self.part == next.part && self.form.range(0) == next.form.range(0);
        if !whole || !alike || self.offset.saturating_add(self.length) != next.offset {
            return false;
        }
        let same = |axis: usize| {
            self.slab.start[axis] == next.slab.start[axis] && self.slab.count[axis] == next.slab.count[axis]
        };
        let differing: Vec<usize> = (0..self.slab.start.len()).filter(|axis| !same(*axis)).collect();
        let [axis] = differing[..] else { return false };
        // C order continues along the slowest dimension with more than one element.
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

/// Returns the blocks that a dataset consists of, at most `room` of them. `name` returns the file
/// name of a log or of a fragment.
pub(crate) fn blocks(
    stored: &StoredDataset,
    room: usize,
    name: &dyn Fn(u32, Option<&Definition>) -> Option<Name>,
) -> Result<std::result::Result<Blocks, UnlinkedReason>> {
    let mut found: Vec<Candidate> = Vec::new();
    for layer in layers(stored) {
        let is_plain = match layer.piece.form {
            PieceForm::Raw | PieceForm::Fields { .. } => true,
            PieceForm::Chunk { .. } => stored.definition.pipeline.is_empty(),
        };
        if !is_plain {
            return Ok(Err(UnlinkedReason::Chunks));
        }
        let (slab, seen) = (layer.piece.slab, layer.seen);
        let form = layer.piece.form;
        let length = slab.elements()?.saturating_mul(form.size(stored.definition.element_size()));
        let next = Candidate { slab, seen, part: layer.part, form, offset: layer.piece.offset, length };
        if found.last_mut().is_some_and(|last| last.extend(&next)) {
            continue;
        }
        if found.len() >= MAX_BLOCKS.min(room) {
            return Ok(Err(UnlinkedReason::Segments));
        }
        found.push(next);
    }
    let atoms = match Atoms::from_datatype(&stored.definition.datatype, &found) {
        Some(atoms) if found.len().saturating_mul(atoms.0.len()) <= MAX_PARTS => atoms,
        Some(_) => return Ok(Err(UnlinkedReason::Segments)),
        None => return Ok(Err(UnlinkedReason::Fields)),
    };
    let mut all = Vec::new();
    let mut boxes = 0;
    for (number, candidate) in found.iter().enumerate() {
        let shown = atoms.visible_parts(candidate.form, &candidate.seen, &found[number + 1..]);
        for (members, seen) in shown {
            boxes += seen.len();
            if boxes > MAX_BOXES || all.len() >= MAX_BLOCKS.min(room) {
                return Ok(Err(UnlinkedReason::Segments));
            }
            let log = stored.parts.get(candidate.part).map_or(0, |part| part.log);
            let definition = is_in(candidate.offset).then_some(&stored.definition);
            let name =
                name(log, definition).ok_or_else(|| Error::corrupt(format!("no log of number {log}")))?;
            let offset = if is_in(candidate.offset) { inside(candidate.offset) } else { candidate.offset };
            let file = Some(ExternalFile { name, offset, size: Some(candidate.length) });
            let members = atoms.datatype(&stored.definition.datatype, candidate.form, &members);
            all.push(Block { slab: candidate.slab.clone(), file, seen, members });
        }
    }
    if found.iter().any(|candidate| candidate.form.is_fields()) {
        // libhdf5 considers an element with any mapping complete, so unwritten members are mapped
        // as well.
        let slab = Hyperslab::new(vec![0; stored.extent.len()], stored.extent.clone());
        for (members, seen) in atoms.visible_parts(PieceForm::Raw, &slab, &found) {
            boxes += seen.len();
            if boxes > MAX_BOXES || all.len() >= MAX_BLOCKS.min(room) {
                return Ok(Err(UnlinkedReason::Segments));
            }
            let members = atoms.datatype(&stored.definition.datatype, PieceForm::Raw, &members);
            all.push(Block { slab: slab.clone(), file: None, seen, members });
        }
    }
    if all.is_empty() && room == 0 {
        return Ok(Err(UnlinkedReason::Segments));
    }
    if all.is_empty() {
        let slab = Hyperslab::new(vec![0; stored.extent.len()], stored.extent.clone());
        all.push(Block { seen: vec![slab.clone()], slab, file: None, members: None });
    }
    Ok(Ok(Blocks { all, fill: stored.definition.unwritten().map(<[u8]>::to_vec) }))
}

/// Groups of members of a compound, by number, that each piece has either completely or not at all.
/// For other datatypes, or without fields, a single empty group that stands for the whole element.
///
/// Mappings to blocks with different members of the same elements may be read in any order; libhdf5
/// 2.0 does not follow the order of the list.
struct Atoms(Vec<Vec<usize>>, Vec<Range<u64>>);

impl Atoms {
    /// Forms the groups; `None` if some fields are not whole members.
    fn from_datatype(datatype: &Datatype, found: &[Candidate]) -> Option<Self> {
        let mut ranges: Vec<(u64, u64)> = found
            .iter()
            .filter(|candidate| candidate.form.is_fields())
            .map(|candidate| candidate.form.range(0))
            .map(|range| (range.start, range.end))
            .collect();
        ranges.sort_unstable();
        ranges.dedup();
        if ranges.is_empty() {
            return Some(Self(vec![Vec::new()], Vec::new()));
        }
        if !ranges.iter().all(|(start, end)| is_of_members(datatype, &(*start..*end))) {
            return None;
        }
        let Class::Compound { members } = &datatype.class else { return None };
        let places: Vec<Range<u64>> =
            members.iter().map(|member| member.offset..member.offset + member.datatype.size).collect();
        let mut atoms: Vec<(Vec<bool>, Vec<usize>)> = Vec::new();
        for (number, place) in places.iter().enumerate() {
            let key: Vec<bool> =
                ranges.iter().map(|(start, end)| *start <= place.start && place.end <= *end).collect();
            match atoms.iter_mut().find(|(known, _)| *known == key) {
                Some((_, atom)) => atom.push(number),
                None => atoms.push((key, vec![number])),
            }
        }
        Some(Self(atoms.into_iter().map(|(_, atom)| atom).collect(), places))
    }

    /// Returns whether a piece has the members of a group.
    fn has_members(&self, form: PieceForm, atom: &[usize]) -> bool {
        let Some(member) = atom.first().and_then(|number| self.1.get(*number)) else { return true };
        let range = form.range(u64::MAX);
        range.start <= member.start && member.end <= range.end
    }

    /// Returns the visible parts of a box of a piece that others overlap: members, and the boxes in
    /// which they are visible.
    fn visible_parts(
        &self,
        form: PieceForm,
        slab: &Hyperslab,
        over: &[Candidate],
    ) -> Vec<(Vec<usize>, Vec<Hyperslab>)> {
        let mut shown: Vec<(Vec<usize>, Vec<Hyperslab>)> = Vec::new();
        for atom in self.0.iter().filter(|atom| self.has_members(form, atom)) {
            let mut seen = vec![slab.clone()];
            for over in
                over.iter().filter(|over| intersects(slab, &over.seen) && self.has_members(over.form, atom))
            {
                seen = seen.iter().flat_map(|slab| subtract(slab, &over.seen)).collect();
            }
            match shown.iter_mut().find(|(_, known)| *known == seen) {
                _ if seen.is_empty() => {}
                Some((members, _)) => members.extend_from_slice(atom),
                None => shown.push((atom.clone(), seen)),
            }
        }
        shown
    }

    /// Returns the datatype of a block with these members of a piece's elements; `None` if it is
    /// the dataset's.
    fn datatype(&self, datatype: &Datatype, form: PieceForm, wanted: &[usize]) -> Option<Datatype> {
        let Class::Compound { members } = &datatype.class else { return None };
        let all = wanted.is_empty() || wanted.len() == members.len();
        if all && !form.is_fields() {
            return None;
        }
        let range = form.range(datatype.size);
        let some = members.iter().enumerate().filter(|(number, _)| wanted.contains(number));
        let some = some.map(|(_, member)| {
            let offset = member.offset.saturating_sub(range.start);
            Member { offset, ..member.clone() }
        });
        let class = Class::Compound { members: some.collect() };
        Some(Datatype { class, size: range.end - range.start })
    }
}

/// Returns whether two boxes have an element in common.
fn intersects(one: &Hyperslab, other: &Hyperslab) -> bool {
    let both = one.start.iter().zip(&one.count).zip(other.start.iter().zip(&other.count));
    both.into_iter().all(|((a, n), (b, m))| *a < b.saturating_add(*m) && *b < a.saturating_add(*n))
}

/// Returns boxes that do not overlap and cover the elements of `slab` outside of `over`.
fn subtract(slab: &Hyperslab, over: &Hyperslab) -> Vec<Hyperslab> {
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

/// Creates the blocks of a dataset in a skeleton.
pub(crate) fn make(
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
            None if block.members.is_some() => {
                NewLayout::Chunked(block_extent(&dims, datatype.size, FILL_CHUNK_BYTES))
            }
            None => NewLayout::Contiguous,
        };
        let dataspace = Dataspace::Simple { dims: dims.clone(), max };
        let datatype = block.members.as_ref().unwrap_or(datatype);
        let mut options = DatasetOptions::new(datatype.clone(), dataspace).with_layout(layout);
        options.fill = match (&block.file, &blocks.fill) {
            (None, fill) => fill.as_deref().map_or(UNSET, filled),
            (Some(_), _) => FillValue {
                value: FillWhen::Undefined,
                allocation: AllocationTime::Late,
                time: FillTime::Never,
            },
        };
        let made = writer.create_dataset(epoch, number.to_string().as_bytes(), options)?;
        if block.file.is_none() && block.members.is_some() {
            // If a dataset has no data at all, libhdf5 fills whole elements. If one chunk exists,
            // it reads the others as regular data, and combines their members with those from other
            // blocks.
            let zeros = hyperchunk::room::zeros(usize::try_from(datatype.size).unwrap_or_default())?;
            let chunk = block_extent(&dims, datatype.size, FILL_CHUNK_BYTES).iter().product::<u64>();
            let one = blocks.fill.as_deref().unwrap_or(&zeros);
            // Several elements have at most `FILL_CHUNK_BYTES`; a single one can be larger.
            let several = (chunk > 1).then(|| one.repeat(usize::try_from(chunk).unwrap_or_default()));
            made.write_chunk(&vec![0; dims.len()], several.as_deref().unwrap_or(one), 0)?;
        }
    }
    Ok(())
}

/// Returns the layout and the fill value of the virtual dataset over the blocks.
pub(crate) fn layout(marker: Marker, blocks: &Blocks) -> (NewLayout, FillValue) {
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
    (NewLayout::Virtual(mappings), blocks.fill.as_deref().map_or(UNSET, filled))
}

/// A fill value of zeros.
const UNSET: FillValue =
    FillValue { value: FillWhen::Default, allocation: AllocationTime::Incremental, time: FillTime::IfSet };

fn filled(value: &[u8]) -> FillValue {
    FillValue {
        value: FillWhen::User(value.to_vec()),
        allocation: AllocationTime::Incremental,
        time: FillTime::IfSet,
    }
}

/// Returns a box as a selection of a dataset that begins at `origin`.
fn selection(slab: &Hyperslab, origin: &[u64]) -> StoredSelection {
    let axes = slab.start.iter().zip(&slab.count).zip(origin);
    let axes = axes.map(|((start, count), origin)| model::Hyperslab {
        start: start - origin,
        stride: *count,
        count: Some(1),
        block: Some(*count),
    });
    StoredSelection::Regular(axes.collect())
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
                    Hyperslab::new(start, (0..rank).map(|_| 1 + random(4)).collect::<Vec<_>>())
                };
                let (one, other) = (slab(), slab());
                let left = subtract(&one, &other);
                assert_eq!(intersects(&one, &other), one.intersection(&other).is_some(), "{rank} {round}");
                for (number, part) in left.iter().enumerate() {
                    assert!(part.intersection(&other).is_none() && !part.count.contains(&0));
                    assert_eq!(part.intersection(&one).as_ref(), Some(part));
                    assert!(left[number + 1..].iter().all(|next| !intersects(part, next)), "{rank} {round}");
                }
                let common = one.intersection(&other).map_or(0, |common| common.elements().unwrap());
                let sum: u64 = left.iter().map(|part| part.elements().unwrap()).sum();
                assert_eq!(sum + common, one.elements().unwrap(), "{rank} {round}");
            }
        }
    }
}
