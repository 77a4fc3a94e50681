//! Queries: boxes that may hold matching values, and the values themselves.

use super::boxes::{elements, merged};
use super::zone::{fill_may_match, requested_box, zone_map};
use super::{Elements, Predicate, Zone, ZoneMap, ZoneRequest, rows};
use crate::{Extreme, Hyperslab};
use hyperchunk::model::Datatype;
use hyperchunk::slabs::{Steps, split_into_slabs};
use hyperchunk::{Dataset, Error, Result};
use std::collections::HashSet;

/// Number of bytes read at a time.
const PART_BYTES: u64 = 8 << 20;
/// Maximum number of such parts, 32 TiB in total.
const MAX_PARTS: usize = 1 << 22;

/// Candidate regions of a query. There are no matches outside them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Answer {
    /// Candidate boxes, in order.
    pub boxes: Vec<Hyperslab>,
    /// Number of bytes of statistics that were read.
    pub bytes_scanned: u64,
    /// Total size of the boxes in bytes.
    pub bytes_candidate: u64,
    /// Number of these bytes without statistics.
    pub unknown: u64,
    /// Size of the queried region in bytes.
    pub total: u64,
    /// True if the boxes do not overlap.
    disjoint: bool,
}

/// Matching values.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MatchBatch {
    /// Indices of the values, concatenated.
    pub indices: Vec<u64>,
    /// The values, in the dataset's datatype.
    pub values: Vec<u8>,
}

/// Reader of the boxes of an answer, part by part; nothing else is read.
#[derive(Debug)]
pub struct Matches {
    dataset: Dataset,
    predicate: Predicate,
    elements: Elements,
    /// In reverse order: the next part is the last one.
    remaining: Vec<Hyperslab>,
    seen: Option<HashSet<Vec<u64>>>,
    bytes: Vec<u8>,
    bytes_scanned: u64,
}

/// See [`super::Queries::query`] and [`super::Queries::query_all`]. Without statistics, all elements are
/// one candidate box if `or_all` is true.
pub(super) fn query(
    dataset: &Dataset,
    predicate: &Predicate,
    slab: Option<&Hyperslab>,
    or_all: bool,
) -> Result<Answer> {
    let numbers = Elements::from_datatype(dataset.datatype()).map_err(|error| dataset.with_context(error))?;
    let wanted = requested_box(dataset, slab)?;
    let size = numbers.size();
    let ask = ZoneRequest {
        wanted: &wanted,
        keep: &|statistics| predicate.judge(statistics, size).yes,
        bare: fill_may_match(dataset, numbers, predicate)?,
        limits: &dataset.object().file().options().limits,
    };
    let zoned = match or_all && !rows::has_statistics(dataset)? && !wanted.count.contains(&0) {
        true => {
            let zone = Zone { seen: vec![wanted.clone()], statistics: None, whole: false, origin: None };
            ZoneMap { zones: vec![zone], bare: Vec::new(), bytes_scanned: 0, disjoint: true }
        }
        false => zone_map(dataset, &ask)?,
    };
    let bytes = |boxes: &[Hyperslab]| elements(boxes).saturating_mul(size as u64);
    let unknown = zoned.zones.iter().filter(|zone| zone.statistics.is_none());
    let unknown = unknown.fold(0, |sum: u64, zone| sum.saturating_add(bytes(&zone.seen)));
    let boxes = zoned.zones.into_iter().flat_map(|zone| zone.seen).chain(zoned.bare);
    let boxes = merged(boxes.collect());
    Ok(Answer {
        bytes_candidate: bytes(&boxes),
        boxes,
        bytes_scanned: zoned.bytes_scanned,
        unknown,
        total: wanted.elements()?.saturating_mul(size as u64),
        disjoint: zoned.disjoint,
    })
}

/// See [`super::Queries::matches`].
pub(super) fn matches(dataset: &Dataset, predicate: &Predicate, answer: &Answer) -> Result<Matches> {
    let elements =
        Elements::from_datatype(dataset.datatype()).map_err(|error| dataset.with_context(error))?;
    let mut left = Vec::new();
    for slab in &answer.boxes {
        split_slab(dataset, slab, &mut left)?;
    }
    left.reverse();
    let seen = (!answer.disjoint).then(HashSet::new);
    let (dataset, predicate) = (dataset.clone(), predicate.clone());
    Ok(Matches { dataset, predicate, elements, remaining: left, seen, bytes: Vec::new(), bytes_scanned: 0 })
}

/// Splits a box into parts that are read at a time.
fn split_slab(dataset: &Dataset, slab: &Hyperslab, out: &mut Vec<Hyperslab>) -> Result<()> {
    let steps = slab.start.iter().zip(&slab.count);
    let steps = steps.map(|(start, count)| Steps { start: *start, step: 1, count: *count }).collect();
    for selection in split_into_slabs(dataset, steps, PART_BYTES) {
        if out.len() > MAX_PARTS {
            return Err(dataset.with_context(Error::limit(
                "the boxes are too large to be read: query a part of the dataset",
            )));
        }
        out.extend(crate::boxes(&selection, dataset.dims())?);
    }
    Ok(())
}

/// Reads the elements of a box.
pub(crate) fn read_slab(dataset: &Dataset, slab: &Hyperslab, size: usize, bytes: &mut Vec<u8>) -> Result<()> {
    let count = usize::try_from(slab.elements()?).ok().and_then(|count| count.checked_mul(size));
    let count = count.ok_or_else(|| Error::limit("a box larger than memory"))?;
    hyperchunk::room::resize(bytes, count).map_err(|error| dataset.with_context(error))?;
    dataset.read(&slab.to_selection(), bytes)
}

/// Calls `each` with the parts of a box and their elements.
pub(crate) fn read_parts(
    dataset: &Dataset,
    slab: &Hyperslab,
    size: usize,
    each: &mut dyn FnMut(&Hyperslab, &[u8]),
) -> Result<()> {
    let (mut parts, mut bytes) = (Vec::new(), Vec::new());
    split_slab(dataset, slab, &mut parts)?;
    for part in parts {
        read_slab(dataset, &part, size, &mut bytes)?;
        each(&part, &bytes);
    }
    Ok(())
}

impl Matches {
    /// Returns the number of bytes read until now.
    #[must_use]
    pub fn bytes_scanned(&self) -> u64 {
        self.bytes_scanned
    }

    /// Returns matching values as numbers.
    #[must_use]
    pub fn numbers(&self, found: &MatchBatch) -> Vec<Extreme> {
        self.elements.values(&found.values).numbers()
    }

    /// Returns the next part that has matches; `None` at the end.
    ///
    /// # Errors
    /// Errors of reading.
    #[expect(clippy::should_implement_trait, reason = "reading may fail")]
    pub fn next(&mut self) -> Result<Option<MatchBatch>> {
        let size = self.elements.size();
        while let Some(slab) = self.remaining.pop() {
            let mut bytes = std::mem::take(&mut self.bytes);
            read_slab(&self.dataset, &slab, size, &mut bytes)?;
            self.bytes_scanned = self.bytes_scanned.saturating_add(bytes.len() as u64);
            let mut found = MatchBatch { indices: Vec::new(), values: Vec::new() };
            let MatchBatch { indices, values } = &mut found;
            self.predicate.find(self.elements, &slab, &bytes, indices, values);
            if let Some(seen) = &mut self.seen {
                found = once(&found, slab.start.len(), size, seen);
            }
            self.bytes = bytes;
            if !found.values.is_empty() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// Returns the matches that were not found before.
fn once(found: &MatchBatch, rank: usize, size: usize, seen: &mut HashSet<Vec<u64>>) -> MatchBatch {
    let mut left = MatchBatch { indices: Vec::new(), values: Vec::new() };
    for (at, value) in found.values.chunks_exact(size).enumerate() {
        let index = found.indices.get(at * rank..(at + 1) * rank).unwrap_or_default();
        if seen.insert(index.to_vec()) {
            left.indices.extend_from_slice(index);
            left.values.extend_from_slice(value);
        }
    }
    left
}

impl Predicate {
    /// Returns whether a value, in the representation of a datatype, matches.
    ///
    /// # Errors
    /// Unsupported for datatypes that are not plain numbers; Invalid for bytes that are not one value.
    pub fn matches_value(&self, datatype: &Datatype, value: &[u8]) -> Result<bool> {
        let elements = Elements::from_datatype(datatype)?;
        if value.len() != elements.size() {
            return Err(Error::invalid(format!(
                "a value of {} bytes, expected {}",
                value.len(),
                elements.size()
            )));
        }
        let mut held = Vec::new();
        self.test(&elements.values(value), &mut held);
        Ok(held == [true])
    }

    /// Finds the matching elements of a box.
    pub(crate) fn find(
        &self,
        elements: Elements,
        slab: &Hyperslab,
        bytes: &[u8],
        indices: &mut Vec<u64>,
        values: &mut Vec<u8>,
    ) {
        let mut held = Vec::new();
        self.test(&elements.values(bytes), &mut held);
        for ((at, value), _) in
            (0..).zip(bytes.chunks_exact(elements.size())).zip(held).filter(|(_, held)| *held)
        {
            indices.extend(element_index(slab, at));
            values.extend_from_slice(value);
        }
    }
}

/// Returns the index of an element of a box.
pub(super) fn element_index(slab: &Hyperslab, mut at: u64) -> Vec<u64> {
    let mut index = slab.start.clone();
    for (index, count) in index.iter_mut().zip(&slab.count).rev() {
        *index += at % (*count).max(1);
        at /= (*count).max(1);
    }
    index
}
