//! The state of one dataset of a store, shared by all its openings in this process.

use super::super::options::Codec;
use super::layers::{Layer, Layers, Source};
use super::peers::{PEERS_EPOCH, Peers};
use hyperchunk::model::AllocationTime;
use hyperchunk::select::{Axis, Selection};
use hyperchunk::{Error, Result};
use hyperchunk_store::{DatasetId, Definition, Extent, Hyperslab, LogWriter};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shared state of a dataset; see the module.
#[derive(Debug)]
pub(in crate::vol) struct SharedDataset {
    pub(in crate::vol) definition: Arc<Definition>,
    /// True if whole chunks are filtered when they are written, instead of when the store is packed.
    pub(super) filters: bool,
    /// Our log, and the dataset's number in it; `None` if read-only.
    own: Option<(LogWriter, u32)>,
    id: DatasetId,
    peers: Option<Arc<Peers>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    dims: Vec<u64>,
    layers: Layers,
    /// The index of our own layer.
    own: Option<usize>,
    /// The number of our own extents in the layer, and the last of them.
    extents: (usize, Vec<u64>),
    /// True if data were written since our own layer was updated.
    stale: bool,
    /// True if others gave the dataset a larger extent than this writer.
    is_ahead: bool,
    /// The generation of the peers' state in the layers.
    generation: u64,
}

impl SharedDataset {
    pub(super) fn new(
        id: DatasetId,
        definition: Definition,
        dims: Vec<u64>,
        others: Vec<Layer>,
        own: Option<(LogWriter, u32)>,
    ) -> Self {
        let mut layers = Layers::default();
        others.into_iter().for_each(|layer| layers.push(layer));
        let place = own.as_ref().map(|(writer, number)| {
            layers.push(Layer {
                source: Source::Own(writer.clone(), *number),
                pieces: Default::default(),
                epoch: u64::MAX,
            });
            layers.all.len().saturating_sub(1)
        });
        let extents = (0, dims.clone());
        let stale = own.is_some();
        let state =
            Mutex::new(State { dims, layers, own: place, extents, stale, is_ahead: false, generation: 0 });
        SharedDataset { definition: Arc::new(definition), filters: false, own, id, peers: None, state }
    }

    /// Enables filtering of chunks as they are written, if the options request it.
    pub(super) fn with_codec(mut self, codec: Codec) -> Self {
        self.filters = codec == Codec::Filters && !self.definition.pipeline.is_empty();
        self
    }

    /// Marks the extent as set by others, and not yet by this writer.
    pub(super) fn ahead(self, is_ahead: bool) -> Self {
        self.lock().is_ahead = is_ahead;
        self
    }

    /// Includes data that other writers flush.
    pub(super) fn with_peers(mut self, peers: Option<&Arc<Peers>>) -> Self {
        self.peers = peers.map(Arc::clone);
        self
    }

    /// Returns the size of an element in bytes.
    pub(super) fn element(&self) -> usize {
        usize::try_from(self.definition.element_size()).unwrap_or(usize::MAX)
    }

    /// Returns whether all of the dataset's space is allocated on creation.
    pub(super) fn is_early(&self) -> bool {
        self.definition.fill.allocation == AllocationTime::Early
    }

    /// Returns the current extent.
    pub(super) fn dims(&self) -> Vec<u64> {
        self.lock().dims.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state with our own layer and the flushed data of others up to date.
    fn current(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.with_own()?;
        let Some(peers) = &self.peers else { return Ok(state) };
        let generation = peers.refresh()?;
        if generation == state.generation {
            return Ok(state);
        }
        let found = peers.dataset(self.id)?;
        let own = state.own.map(|place| state.layers.all.remove(place));
        state.layers.all.retain(|layer| layer.epoch != PEERS_EPOCH);
        state.layers.all.extend(found.layers);
        state.own = own.as_ref().map(|_| state.layers.all.len());
        state.layers.all.extend(own);
        state.layers.forget();
        state.generation = generation;
        Ok(state)
    }

    /// Returns the state with our own layer up to date.
    fn with_own(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        if !state.stale {
            return Ok(state);
        }
        if let Some((writer, number)) = &self.own {
            let written = writer.written(*number)?;
            let place = state.own;
            let State { layers, extents: (known, last), .. } = &mut *state;
            if let Some(layer) = place.and_then(|place| layers.all.get_mut(place)) {
                let pieces = layer.pieces.len();
                written.pieces.iter().skip(pieces).for_each(|piece| layer.pieces.push(piece));
                for Extent { order, dims } in written.extents.iter().skip(*known) {
                    // A growing dimension clips nothing, including chunks that were written beyond the
                    // extent.
                    let clip =
                        dims.iter().zip(&*last).map(|(new, old)| if new < old { *new } else { u64::MAX });
                    let clip: Vec<u64> = clip.collect();
                    if clip.iter().any(|dim| *dim != u64::MAX) {
                        layer.pieces.clip(&Extent { order: *order, dims: clip });
                    }
                    last.clone_from(dims);
                    *known = known.saturating_add(1);
                }
            }
        }
        state.layers.forget();
        state.stale = false;
        Ok(state)
    }

    fn writer(&self) -> Result<(&LogWriter, u32)> {
        match &self.own {
            Some((writer, number)) => Ok((writer, *number)),
            None => Err(Error::invalid("the store is open for reading only")),
        }
    }

    /// Adopts the extent that others gave the dataset, if a write reaches beyond our own. Merely opening a
    /// dataset does not change it.
    fn adopt_extent(&self, boxes: &[Hyperslab]) -> Result<()> {
        let (writer, number) = self.writer()?;
        let mut state = self.lock();
        if !state.is_ahead {
            return Ok(());
        }
        let dims = writer.dataset(number)?.dims;
        let is_outside = |slab: &Hyperslab| {
            let ends = slab.start.iter().zip(&slab.count).map(|(start, count)| start.saturating_add(*count));
            ends.zip(&dims).any(|(end, dim)| end > *dim)
        };
        if boxes.iter().any(is_outside) {
            writer.set_extent(number, &state.dims)?;
            (state.is_ahead, state.stale) = (false, true);
        }
        Ok(())
    }

    pub(super) fn write_boxes(&self, boxes: &[Hyperslab], bytes: &[u8]) -> Result<()> {
        let (writer, number) = self.writer()?;
        self.adopt_extent(boxes)?;
        writer.write_boxes(number, boxes, bytes)?;
        self.lock().stale = true;
        Ok(())
    }

    /// Writes a byte range of each element of boxes.
    pub(super) fn write_fields(&self, boxes: &[Hyperslab], range: Range<u64>, bytes: &[u8]) -> Result<()> {
        let (writer, number) = self.writer()?;
        writer.write_fields(number, boxes, range, bytes)?;
        self.lock().stale = true;
        Ok(())
    }

    /// Writes a box; whole chunks are filtered.
    pub(super) fn write_filtered(&self, slab: &Hyperslab, bytes: &[u8]) -> Result<()> {
        let (writer, number) = self.writer()?;
        self.adopt_extent(std::slice::from_ref(slab))?;
        let axes = slab.start.iter().zip(&slab.count);
        let axes = axes.map(|(start, count)| Axis::range(*start..start.saturating_add(*count)));
        writer.write_filtered(number, &Selection::Axes(axes.collect()), bytes, 0)?;
        self.lock().stale = true;
        Ok(())
    }

    pub(super) fn write_chunk(&self, offset: &[u64], mask: u32, bytes: &[u8]) -> Result<()> {
        let (writer, number) = self.writer()?;
        let chunk = self.definition.chunk.clone().unwrap_or_else(|| vec![1; offset.len()]);
        self.adopt_extent(&[Hyperslab::new(offset, chunk)])?;
        writer.write_chunk(number, offset, mask, bytes)?;
        self.lock().stale = true;
        Ok(())
    }

    pub(super) fn set_extent(&self, dims: &[u64]) -> Result<()> {
        let (writer, number) = self.writer()?;
        let mut state = self.lock();
        writer.set_extent(number, dims)?;
        state.dims = dims.to_vec();
        (state.is_ahead, state.stale) = (false, true);
        Ok(())
    }

    /// Reads the elements of a box in C order.
    pub(super) fn read(&self, slab: &Hyperslab, out: &mut [u8]) -> Result<()> {
        // Data written by this process are on top.
        let mut own = self.with_own()?;
        if own.own.is_some_and(|place| own.layers.is_covered_by(place, slab)) {
            return own.layers.read(&self.definition, slab, out);
        }
        drop(own);
        self.current()?.layers.read(&self.definition, slab, out)
    }

    /// Runs `look` on the layers with all data.
    pub(super) fn with_layers<T>(&self, look: impl FnOnce(&mut Layers) -> T) -> Result<T> {
        Ok(look(&mut self.current()?.layers))
    }

    /// Returns whether this process, or other writers of the file, have changed elements or the extent since
    /// the last commit.
    pub(super) fn is_changed(&self) -> Result<bool> {
        let state = self.current()?;
        let is_changed = |layer: &Layer| layer.epoch >= PEERS_EPOCH && (layer.pieces.len() > 0);
        Ok(state.extents.0 > 0 || state.layers.all.iter().any(is_changed))
    }

    /// Returns whether anything was ever written.
    pub(super) fn is_written(&self) -> Result<bool> {
        self.with_layers(|layers| layers.all.iter().any(|layer| layer.pieces.len() > 0))
    }
}
