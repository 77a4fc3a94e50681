//! Division of a committed dataset into the blocks of a regular grid: a block is copied as stored, or
//! composed from its layers (pieces, of which the later ones cover the earlier ones).

use crate::commit::overlap::{Layer, copy_elements, layers, rows};
use crate::format::manifest::StoredDataset;
use crate::read::hyperslabs::split_range;
use crate::read::log_cache::LogCache;
use crate::{Hyperslab, Log, PieceForm};
use hyperchunk::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A dataset cut into blocks.
#[derive(Debug)]
pub(crate) struct Blocks<'a> {
    stored: &'a StoredDataset,
    block: Vec<u64>,
    layers: Vec<Layer>,
    logs: &'a LogCache<'a>,
    /// Layers of each block that has written data, lowest first, by number in `layers`.
    touched: BTreeMap<Vec<u64>, Vec<u32>>,
}

/// Content of a block.
#[derive(Debug)]
pub(crate) enum Content<'a> {
    /// A chunk as its writer stored it: its bytes and its filter mask.
    Chunk(&'a [u8], u32),
    /// Decoded elements: of the whole block, or of its part within the extent.
    Elements(&'a [u8]),
}

/// Buffers of one thread.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    bytes: Vec<u8>,
}

fn narrow(size: u64) -> Result<usize> {
    usize::try_from(size).map_err(|_| Error::limit("a block larger than memory"))
}

impl<'a> Blocks<'a> {
    /// Cuts a dataset of an epoch into blocks of the given extent.
    pub(crate) fn new(logs: &'a LogCache<'a>, stored: &'a StoredDataset, block: Vec<u64>) -> Result<Self> {
        let layers: Vec<Layer> = layers(stored).collect();
        let mut touched: BTreeMap<Vec<u64>, Vec<u32>> = BTreeMap::new();
        for (number, layer) in layers.iter().enumerate() {
            let number = u32::try_from(number).map_err(|_| Error::limit("a dataset of 2^32 pieces"))?;
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

    /// Returns the keys (grid coordinates) of the blocks that have written data, in order.
    pub(crate) fn keys(&self) -> Vec<&[u64]> {
        self.touched.keys().map(|key| &**key).collect()
    }

    /// Returns the box of a block, which may reach past the extent.
    pub(crate) fn slab(&self, key: &[u64]) -> Hyperslab {
        let start: Vec<u64> = key.iter().zip(&self.block).map(|(key, block)| key * block).collect();
        Hyperslab::new(start, self.block.clone())
    }

    /// Returns the visible layers of a block, lowest first. Layers below one that covers all of
    /// `within` are left out.
    fn visible(&self, key: &[u64], within: &Hyperslab) -> Vec<&Layer> {
        let all = self.touched.get(key).map(Vec::as_slice).unwrap_or_default();
        let layers: Vec<&Layer> = all.iter().filter_map(|number| self.layers.get(*number as usize)).collect();
        let covers = |layer: &&Layer| {
            !layer.piece.form.is_fields() && layer.seen.intersection(within).as_ref() == Some(within)
        };
        let bottom = layers.iter().rposition(covers).unwrap_or(0);
        layers.get(bottom..).unwrap_or_default().to_vec()
    }

    fn log(&self, layer: &Layer) -> Result<Arc<Log>> {
        let part = self.stored.parts.get(layer.part);
        self.logs.get(part.ok_or_else(|| Error::corrupt("a part without a log"))?.log)
    }

    /// Returns the content of a block, or `None` outside the extent. With `whole`, a chunk that is
    /// the entire block is returned as stored, and any other content covers the whole block;
    /// without it, only the elements within the extent are returned.
    pub(crate) fn content<'s>(
        &self,
        key: &[u64],
        whole: bool,
        scratch: &'s mut Scratch,
    ) -> Result<Option<Content<'s>>> {
        let block = self.slab(key);
        let Some(within) = block.clipped(&self.stored.extent) else { return Ok(None) };
        let layers = self.visible(key, &within);
        if let [layer] = &*layers
            && let PieceForm::Chunk { mask } = layer.piece.form
            && whole
            && layer.piece.slab == block
            && layer.seen.intersection(&within).as_ref() == Some(&within)
        {
            hyperchunk::room::resize(&mut scratch.bytes, narrow(layer.piece.length)?)?;
            self.log(layer)?.read_at(layer.piece.offset, &mut scratch.bytes)?;
            return Ok(Some(Content::Chunk(&scratch.bytes, mask)));
        }
        let outer = if whole { &block } else { &within };
        self.fill(outer, &mut scratch.bytes)?;
        for layer in layers {
            if let Some(wanted) = layer.seen.intersection(&within) {
                let log = self.log(layer)?;
                copy_elements(
                    &log,
                    &self.stored.definition,
                    &layer.piece,
                    &wanted,
                    (outer, &mut scratch.bytes),
                )?;
            }
        }
        Ok(Some(Content::Elements(&scratch.bytes)))
    }

    /// Returns the written boxes of a block; they do not overlap.
    pub(crate) fn written(&self, key: &[u64]) -> Result<Vec<Hyperslab>> {
        let Some(within) = self.slab(key).clipped(&self.stored.extent) else { return Ok(Vec::new()) };
        let layers = self.visible(key, &within);
        if layers.first().is_some_and(|layer| layer.seen.intersection(&within).as_ref() == Some(&within)) {
            return Ok(vec![within]);
        }
        let mut covered = hyperchunk::room::filled(false, narrow(within.elements()?)?)?;
        for layer in layers {
            let Some(seen) = layer.seen.intersection(&within) else { continue };
            for (start, _, length) in rows(&seen, &within, &seen) {
                let range = narrow(start)?..narrow(start + length)?;
                covered.get_mut(range).unwrap_or_default().fill(true);
            }
        }
        let mut boxes = Vec::new();
        let mut at = 0;
        for run in covered.chunk_by(|one, other| one == other) {
            if run.first() == Some(&true) {
                split_range(&within, at, run.len() as u64, &mut boxes);
            }
            at += run.len() as u64;
        }
        Ok(boxes)
    }

    /// Fills a buffer for the elements of a box with the fill value.
    fn fill(&self, slab: &Hyperslab, bytes: &mut Vec<u8>) -> Result<()> {
        let definition = &self.stored.definition;
        let size = slab.elements()?.checked_mul(definition.element_size());
        let size = narrow(size.ok_or_else(|| Error::limit("a block of 2^64 bytes"))?)?;
        bytes.clear();
        hyperchunk::room::resize(bytes, size)?;
        if let Some(value) = definition.unwritten().filter(|value| !value.is_empty()) {
            for element in bytes.chunks_mut(value.len()) {
                element.copy_from_slice(value.get(..element.len()).unwrap_or_default());
            }
        }
        Ok(())
    }
}
