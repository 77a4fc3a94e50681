//! Queries: boxes that may hold what is asked for, and the values that are.

use super::boxes::{elements, merged};
use super::{Ask, Elements, Predicate};
use crate::slabs::{Steps, slabs_of};
use crate::store::{Extreme, Slab};
use crate::{Dataset, Error, Result};
use std::collections::HashSet;

/// So many bytes are read at a time.
const AT_ONCE: u64 = 8 << 20;
/// No more such parts are read, 32 TiB.
const PARTS: usize = 1 << 22;

/// Where values may lie that were asked for. Nowhere else are any.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Answer {
    /// Boxes, in order.
    pub boxes: Vec<Slab>,
    /// How many bytes of statistics were looked at to find them.
    pub looked_at: u64,
    /// How many bytes the boxes have.
    pub left: u64,
    /// How many of them nothing is known of.
    pub unknown: u64,
    /// How many bytes were asked about.
    pub total: u64,
    /// Whether no element is in two of the boxes.
    disjoint: bool,
}

/// Values that were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// The index of each, one behind the other.
    pub indices: Vec<u64>,
    /// The values, as the dataset has them.
    pub values: Vec<u8>,
}

/// Reads the boxes of an answer, part by part; nothing else is read.
#[derive(Debug)]
pub struct Matches {
    dataset: Dataset,
    predicate: Predicate,
    elements: Elements,
    /// The last one is the next.
    left: Vec<Slab>,
    seen: Option<HashSet<Vec<u64>>>,
    bytes: Vec<u8>,
    looked_at: u64,
}

impl Dataset {
    /// Where values may lie that are what a predicate asks for, in all of it or in a box.
    ///
    /// # Errors
    /// Unsupported for elements that are no plain numbers, and where nothing is known of them; Invalid for a box outside the
    /// extent; those of reading statistics.
    pub fn query(&self, predicate: &Predicate, slab: Option<&Slab>) -> Result<Answer> {
        let numbers = Elements::of(self.datatype()).map_err(|error| self.name(error))?;
        let wanted = self.asked(slab)?;
        let size = numbers.size();
        let ask = Ask {
            wanted: &wanted,
            keep: &|statistics| predicate.judge(statistics, size).yes,
            bare: self.fill_may(numbers, predicate)?,
            limits: &self.object().file().options().limits,
        };
        let zoned = self.zoned(&ask)?;
        let bytes = |boxes: &[Slab]| elements(boxes).saturating_mul(size as u64);
        let unknown = zoned.zones.iter().filter(|zone| zone.statistics.is_none());
        let unknown = unknown.fold(0, |sum: u64, zone| sum.saturating_add(bytes(&zone.seen)));
        let boxes = zoned.zones.into_iter().flat_map(|zone| zone.seen).chain(zoned.bare);
        let boxes = merged(boxes.collect());
        Ok(Answer {
            left: bytes(&boxes),
            boxes,
            looked_at: zoned.looked_at,
            unknown,
            total: wanted.elements()?.saturating_mul(size as u64),
            disjoint: zoned.disjoint,
        })
    }

    /// The values that a predicate asks for, of an answer to it.
    ///
    /// # Errors
    /// As [`Dataset::query`].
    pub fn matches(&self, predicate: &Predicate, answer: &Answer) -> Result<Matches> {
        let elements = Elements::of(self.datatype()).map_err(|error| self.name(error))?;
        let mut left = Vec::new();
        for slab in &answer.boxes {
            self.parts(slab, &mut left)?;
        }
        left.reverse();
        let seen = (!answer.disjoint).then(HashSet::new);
        let (dataset, predicate) = (self.clone(), predicate.clone());
        Ok(Matches { dataset, predicate, elements, left, seen, bytes: Vec::new(), looked_at: 0 })
    }

    /// Parts of a box that are read at a time.
    fn parts(&self, slab: &Slab, out: &mut Vec<Slab>) -> Result<()> {
        let steps = slab.start.iter().zip(&slab.count);
        let steps = steps.map(|(start, count)| Steps { start: *start, step: 1, count: *count }).collect();
        for choice in slabs_of(self, steps, AT_ONCE) {
            if out.len() > PARTS {
                return Err(self.name(Error::limit("boxes too large to be read: ask about a part")));
            }
            out.extend(crate::store::boxes(&choice, self.dims())?);
        }
        Ok(())
    }

    /// The elements of a box.
    pub(crate) fn read_slab(&self, slab: &Slab, size: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let count = usize::try_from(slab.elements()?).ok().and_then(|count| count.checked_mul(size));
        let count = count.ok_or_else(|| Error::limit("a box larger than memory"))?;
        bytes.clear();
        bytes.resize(count, 0);
        self.read(&slab.choice(), bytes)
    }

    /// Calls `each` with the parts of a box and their elements.
    pub(crate) fn read_parts(
        &self,
        slab: &Slab,
        size: usize,
        each: &mut dyn FnMut(&Slab, &[u8]),
    ) -> Result<()> {
        let (mut parts, mut bytes) = (Vec::new(), Vec::new());
        self.parts(slab, &mut parts)?;
        for part in parts {
            self.read_slab(&part, size, &mut bytes)?;
            each(&part, &bytes);
        }
        Ok(())
    }
}

impl Matches {
    /// How many bytes were read until now.
    #[must_use]
    pub fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// The values that were found, as numbers.
    #[must_use]
    pub fn numbers(&self, found: &Found) -> Vec<Extreme> {
        self.elements.values(&found.values).numbers()
    }

    /// The next part that has any; `None` behind the last.
    ///
    /// # Errors
    /// Those of reading.
    #[expect(clippy::should_implement_trait, reason = "what is read may fail")]
    pub fn next(&mut self) -> Result<Option<Found>> {
        let size = self.elements.size();
        while let Some(slab) = self.left.pop() {
            let mut bytes = std::mem::take(&mut self.bytes);
            self.dataset.read_slab(&slab, size, &mut bytes)?;
            self.looked_at = self.looked_at.saturating_add(bytes.len() as u64);
            let mut found = Found { indices: Vec::new(), values: Vec::new() };
            let Found { indices, values } = &mut found;
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

/// Those that were not found before.
fn once(found: &Found, rank: usize, size: usize, seen: &mut HashSet<Vec<u64>>) -> Found {
    let mut left = Found { indices: Vec::new(), values: Vec::new() };
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
    /// Finds the elements of a box that are asked for.
    pub(crate) fn find(
        &self,
        elements: Elements,
        slab: &Slab,
        bytes: &[u8],
        indices: &mut Vec<u64>,
        values: &mut Vec<u8>,
    ) {
        let mut held = Vec::new();
        self.test(&elements.values(bytes), &mut held);
        for ((at, value), _) in
            (0..).zip(bytes.chunks_exact(elements.size())).zip(held).filter(|(_, held)| *held)
        {
            indices.extend(index_of(slab, at));
            values.extend_from_slice(value);
        }
    }
}

/// The index of an element of a box.
pub(super) fn index_of(slab: &Slab, mut at: u64) -> Vec<u64> {
    let mut index = slab.start.clone();
    for (index, count) in index.iter_mut().zip(&slab.count).rev() {
        *index += at % (*count).max(1);
        at /= (*count).max(1);
    }
    index
}
