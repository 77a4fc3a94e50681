//! A dataset of a store block by block: for each block of a grid, what lies there, ready to be copied or painted.

use super::manifest::Stored;
use super::overlap::{Layer, layers, paint};
use super::{Log, Manifest, Place, Slab, log_of};
use crate::{Error, Result};
use hyperchunk_format::model::{FillTime, FillWhen};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// A dataset, cut into blocks.
#[derive(Debug)]
pub(super) struct Blocks<'a> {
    stored: &'a Stored,
    block: Vec<u64>,
    layers: Vec<Layer>,
    /// By the number of a log.
    logs: HashMap<u32, Log>,
    /// For each block that something was written to, its layers from the bottom up.
    touched: BTreeMap<Vec<u64>, Vec<u32>>,
}

/// What lies in a block.
#[derive(Debug)]
pub(super) enum Content<'a> {
    /// A chunk, as its writer left it: its bytes, and which filters were left out.
    Chunk(&'a [u8], u32),
    /// Elements of the whole block.
    Elements(&'a [u8]),
}

/// One thread's buffers.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    bytes: Vec<u8>,
}

fn narrow(size: u64) -> Result<usize> {
    usize::try_from(size).map_err(|_| Error::limit("a block larger than memory"))
}

impl<'a> Blocks<'a> {
    /// Cuts a dataset of an epoch into blocks of this extent.
    pub(super) fn new(path: &Path, manifest: &Manifest, stored: &'a Stored, block: Vec<u64>) -> Result<Self> {
        let layers: Vec<Layer> = layers(stored).collect();
        let mut logs = HashMap::new();
        for part in &stored.parts {
            let log = manifest.logs.get(part.log as usize);
            let log = log.ok_or_else(|| Error::corrupt(format!("no log of number {}", part.log)))?;
            if !logs.contains_key(&part.log) {
                logs.insert(part.log, Log::bytes_of(&log_of(path, log.writer))?);
            }
        }
        let mut touched: BTreeMap<Vec<u64>, Vec<u32>> = BTreeMap::new();
        for (number, layer) in layers.iter().enumerate() {
            let number = u32::try_from(number).map_err(|_| Error::limit("2^32 pieces"))?;
            let axes = layer.seen.start.iter().zip(&layer.seen.count).zip(&block);
            let ranges: Vec<(u64, u64)> = axes
                .map(|((start, count), block)| (start / block, (start + count.saturating_sub(1)) / block))
                .collect();
            let mut key: Vec<u64> = ranges.iter().map(|(first, _)| *first).collect();
            'keys: loop {
                touched.entry(key.clone()).or_default().push(number);
                for (place, (first, last)) in key.iter_mut().zip(&ranges).rev() {
                    if *place < *last {
                        *place += 1;
                        continue 'keys;
                    }
                    *place = *first;
                }
                break;
            }
        }
        Ok(Self { stored, block, layers, logs, touched })
    }

    /// The blocks that something was written to, in order.
    pub(super) fn keys(&self) -> Vec<&[u64]> {
        self.touched.keys().map(|key| &**key).collect()
    }

    /// Where a block lies; it may reach beyond the extent.
    pub(super) fn slab(&self, key: &[u64]) -> Slab {
        let start: Vec<u64> = key.iter().zip(&self.block).map(|(key, block)| key * block).collect();
        Slab::new(start, self.block.clone())
    }

    /// The layers of a block that are to be seen: without those that one lies over as a whole.
    fn visible(&self, key: &[u64], within: &Slab) -> Vec<&Layer> {
        let all = self.touched.get(key).map(Vec::as_slice).unwrap_or_default();
        let layers: Vec<&Layer> = all.iter().filter_map(|number| self.layers.get(*number as usize)).collect();
        let covers = |layer: &&Layer| layer.seen.intersection(within).as_ref() == Some(within);
        let bottom = layers.iter().rposition(covers).unwrap_or(0);
        layers.get(bottom..).unwrap_or_default().to_vec()
    }

    fn log(&self, layer: &Layer) -> Result<&Log> {
        let log = self.stored.parts.get(layer.part).and_then(|part| self.logs.get(&part.log));
        log.ok_or_else(|| Error::corrupt("a part without a log"))
    }

    /// What lies in a block. With `whole`, chunks that are all of it come as they are.
    pub(super) fn content<'s>(
        &self,
        key: &[u64],
        whole: bool,
        scratch: &'s mut Scratch,
    ) -> Result<Option<Content<'s>>> {
        let block = self.slab(key);
        let Some(within) = block.clipped(&self.stored.extent) else { return Ok(None) };
        let layers = self.visible(key, &within);
        if let [layer] = &*layers
            && let Place::Chunk { mask } = layer.piece.place
            && whole
            && layer.piece.slab == block
            && layer.seen.intersection(&within).as_ref() == Some(&within)
        {
            scratch.bytes.resize(narrow(layer.piece.length)?, 0);
            self.log(layer)?.read_at(layer.piece.offset, &mut scratch.bytes)?;
            return Ok(Some(Content::Chunk(&scratch.bytes, mask)));
        }
        let outer = if whole { &block } else { &within };
        self.fill(outer, &mut scratch.bytes)?;
        for layer in layers {
            if let Some(wanted) = layer.seen.intersection(&within) {
                let log = self.log(layer)?;
                paint(log, &self.stored.definition, &layer.piece, &wanted, (outer, &mut scratch.bytes))?;
            }
        }
        Ok(Some(Content::Elements(&scratch.bytes)))
    }

    /// The boxes of a block that something was written to, in no order; they do not overlap.
    pub(super) fn written(&self, key: &[u64]) -> Vec<Slab> {
        let mut boxes: Vec<Slab> = Vec::new();
        let Some(within) = self.slab(key).clipped(&self.stored.extent) else { return boxes };
        for layer in self.visible(key, &within) {
            let Some(seen) = layer.seen.intersection(&within) else { continue };
            let mut left = vec![seen];
            for known in &boxes {
                left = left.into_iter().flat_map(|slab| without(&slab, known)).collect();
            }
            boxes.extend(left);
        }
        boxes
    }

    /// Fills the bytes of a box with the fill value.
    fn fill(&self, slab: &Slab, bytes: &mut Vec<u8>) -> Result<()> {
        let definition = &self.stored.definition;
        let size = slab.elements()?.checked_mul(definition.element_size());
        let size = narrow(size.ok_or_else(|| Error::limit("2^64 bytes"))?)?;
        bytes.clear();
        match &definition.fill.value {
            FillWhen::User(value) if definition.fill.time != FillTime::Never && !value.is_empty() => {
                bytes.extend(value.iter().copied().cycle().take(size));
            }
            _ => bytes.resize(size, 0),
        }
        Ok(())
    }
}

/// What is left of a box without another.
fn without(slab: &Slab, other: &Slab) -> Vec<Slab> {
    let Some(common) = slab.intersection(other) else { return vec![slab.clone()] };
    let mut rest = slab.clone();
    let mut left = Vec::new();
    for axis in 0..slab.start.len() {
        let (start, end) = (rest.start[axis], rest.start[axis] + rest.count[axis]);
        let (first, last) = (common.start[axis], common.start[axis] + common.count[axis]);
        for (from, to) in [(start, first), (last, end)] {
            if from < to {
                let mut part = rest.clone();
                part.start[axis] = from;
                part.count[axis] = to - from;
                left.push(part);
            }
        }
        rest.start[axis] = first;
        rest.count[axis] = last - first;
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_without_another_is_what_is_left_of_it() {
        let mut state = 3_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..500 {
            let mut slab = || Slab::new([random(6), random(6)], [1 + random(6), 1 + random(6)]);
            let (one, other) = (slab(), slab());
            let left = without(&one, &other);
            for x in 0..12 {
                for y in 0..12 {
                    let point = Slab::new([x, y], [1, 1]);
                    let inside = |slab: &&Slab| slab.intersection(&point).is_some();
                    let expected = inside(&&one) && !inside(&&other);
                    assert_eq!(left.iter().filter(inside).count(), usize::from(expected));
                }
            }
        }
    }
}
