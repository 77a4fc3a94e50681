//! Data of a dataset that is open for writing.

use super::chunk_key::Key;
use super::encoding::Scratch;
use super::journal::{Entry, PlacedChunk, digest};
use super::tree::{DatasetNode, NodeId, NodeKind};
use super::writer::Inner;
use crate::read::spread;
use crate::{Error, ErrorKind, Result, room};
use hyperchunk_format::codec::{Decoder, Encoder};
use hyperchunk_format::convert::Conversion;
use hyperchunk_format::model::{Chunk, ExternalFile, FillTime, FillWhen, VirtualMapping};
use hyperchunk_format::select::{Axis, ChunkSelection, Selection, chunk_selections, runs};
use rustc_hash::FxHashMap;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// Minimum number of bytes that each thread compresses.
const MIN_BYTES_PER_THREAD: usize = 128 << 10;
/// Number of bytes of the fill value that are written to contiguous data at a time.
const FILL_BYTES: u64 = 1 << 20;

/// Location of a dataset's data.
#[derive(Debug)]
pub(super) enum Data {
    Compact(RwLock<Vec<u8>>),
    Contiguous {
        /// `None` until something is written.
        address: Mutex<Option<u64>>,
        size: u64,
    },
    Chunked(Chunks),
    External(Vec<ExternalFile>),
    Virtual(Vec<VirtualMapping>),
}

#[derive(Debug)]
pub(super) struct Chunks {
    pub(super) dims: Vec<u64>,
    /// Size of a decoded chunk in bytes.
    pub(super) bytes: usize,
    /// Stored chunks by scaled coordinates. The hash need not be collision-resistant: the coordinates come
    /// from the calling program.
    stored: Mutex<FxHashMap<Key, ChunkLocation>>,
    /// Lock held while a stored chunk is changed in place.
    changing: Mutex<()>,
    waiting: Mutex<PartialChunks>,
}

/// A stored chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkLocation {
    address: u64,
    size: u64,
    /// Number of bytes allocated at the address.
    room: u64,
    mask: u32,
    /// True if a commit includes the chunk; then it is not overwritten.
    committed: bool,
}

/// A chunk to be stored: scaled coordinates, stored bytes, and filter mask.
pub(super) type NewChunk<'a> = (Key, &'a [u8], u32);

/// Partially written chunks, which are kept decoded in memory until the rest is written.
#[derive(Debug, Default)]
struct PartialChunks {
    chunks: HashMap<Box<[u64]>, Vec<u8>>,
    order: VecDeque<Box<[u64]>>,
}

/// Elements to be written, in the caller's type.
pub(super) struct Elements<'a> {
    pub(super) data: &'a [u8],
    /// Size of one element in the caller's type.
    pub(super) size: usize,
    /// Conversion to the dataset's type; `None` if the types are equal.
    pub(super) conversion: Option<Conversion>,
}

impl Elements<'_> {
    /// Converts `count` elements, from `first` on, to the dataset's type and writes them to `target`.
    fn put(&self, first: usize, count: usize, target: &mut [u8]) -> Result<()> {
        let range = first.checked_mul(self.size).zip(count.checked_mul(self.size));
        let source = range.and_then(|(start, length)| self.data.get(start..start.checked_add(length)?));
        let source = source.ok_or_else(|| Error::invalid("there are fewer elements than are selected"))?;
        match &self.conversion {
            None => target.copy_from_slice(source),
            Some(conversion) => conversion.run(source, target, count)?,
        }
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Chunks {
    pub(super) fn new(dims: Vec<u64>, bytes: usize) -> Self {
        Self { dims, bytes, stored: Mutex::default(), changing: Mutex::default(), waiting: Mutex::default() }
    }

    /// Returns the stored chunks. With `commit`, marks all of them as committed.
    pub(super) fn stored(&self, commit: bool) -> Vec<Chunk> {
        let mut all = locked(&self.stored);
        let mut chunks = Vec::with_capacity(all.len());
        for (scaled, stored) in &mut *all {
            stored.committed |= commit;
            let ChunkLocation { address, size, mask: filter_mask, .. } = *stored;
            chunks.push(Chunk { scaled: scaled.to_vec(), address, size, filter_mask });
        }
        chunks
    }

    /// Stores a chunk.
    pub(super) fn place(
        &self,
        inner: &Inner,
        node: &DatasetNode,
        scaled: &[u64],
        bytes: &[u8],
        mask: u32,
    ) -> Result<()> {
        let size = bytes.len() as u64;
        // With a journal, the old chunk is kept until the new one is complete.
        if inner.journal.is_none() && locked(&self.stored).contains_key(scaled) {
            let _changing = locked(&self.changing);
            let old = locked(&self.stored).get(scaled).copied();
            if let Some(old) =
                old.filter(|old| !old.committed && size <= old.room && inner.sink.kept().is_none())
            {
                inner.sink.write_at(old.address, bytes)?;
                node.touch();
                locked(&self.stored).insert(scaled.into(), ChunkLocation { size, mask, ..old });
                return Ok(());
            }
            return self.place_new(inner, node, scaled, bytes, mask);
        }
        self.place_new(inner, node, scaled, bytes, mask)
    }

    fn place_new(
        &self,
        inner: &Inner,
        node: &DatasetNode,
        scaled: &[u64],
        bytes: &[u8],
        mask: u32,
    ) -> Result<()> {
        let size = bytes.len() as u64;
        let address = inner.take(size)?;
        inner.sink.write_at(address, bytes)?;
        self.record(inner, node, &[(scaled.into(), bytes, mask)], address)
    }

    /// Stores several chunks contiguously. `whole` has the bytes of all chunks, if they are contiguous in
    /// memory.
    pub(super) fn place_all(
        &self,
        inner: &Inner,
        node: &DatasetNode,
        chunks: &[NewChunk<'_>],
        whole: Option<&[u8]>,
    ) -> Result<()> {
        if inner.options.alignment > 1 || inner.space.page().is_some() {
            let mut each = chunks.iter();
            return each.try_for_each(|(scaled, bytes, mask)| self.place(inner, node, scaled, bytes, *mask));
        }
        let length = chunks.iter().map(|(_, bytes, _)| bytes.len() as u64).sum();
        let start = inner.take(length)?;
        if let Some(whole) = whole {
            inner.sink.write_at(start, whole)?;
        } else {
            let mut parts: Vec<IoSlice<'_>> =
                chunks.iter().map(|(_, bytes, _)| IoSlice::new(bytes)).collect();
            inner.sink.write_parts_at(start, &mut parts)?;
        }
        self.record(inner, node, chunks, start)
    }

    /// Records that the chunks are stored contiguously from `address` on.
    fn record(&self, inner: &Inner, node: &DatasetNode, chunks: &[NewChunk<'_>], address: u64) -> Result<()> {
        if inner.journal.is_some() {
            if node.has_vlen {
                inner.heap.flush(&inner.space, &*inner.sink, inner.edit.is_some())?;
            }
            inner.note_chunks(node.id(), chunks, address)?;
        }
        let mut next = address;
        node.touch();
        let mut stored = locked(&self.stored);
        stored.reserve(chunks.len());
        for (scaled, bytes, mask) in chunks {
            let size = bytes.len() as u64;
            let fresh = ChunkLocation { address: next, size, room: size, mask: *mask, committed: false };
            if let Some(old) = stored.insert(scaled.clone(), fresh) {
                inner.space.give_back(old.address, old.room, old.committed);
            }
            next += size;
        }
        Ok(())
    }

    /// Records that an unfiltered chunk is stored at an address.
    pub(super) fn place_at(&self, inner: &Inner, scaled: &[u64], address: u64) {
        self.forget_waiting(inner, scaled);
        let size = self.bytes as u64;
        let stored = ChunkLocation { address, size, room: size, mask: 0, committed: false };
        if let Some(old) = locked(&self.stored).insert(scaled.into(), stored) {
            inner.space.give_back(old.address, old.room, old.committed);
        }
    }

    /// Records a chunk that a killed writer has stored.
    pub(super) fn found(&self, placed: &PlacedChunk) {
        let PlacedChunk { address, size, mask, .. } = *placed;
        let stored = ChunkLocation { address, size, room: size, mask, committed: true };
        locked(&self.stored).insert((&*placed.scaled).into(), stored);
    }

    /// Removes all stored chunks; returns address and allocated size of each.
    pub(super) fn take_stored(&self) -> Vec<(u64, u64)> {
        let mut stored = locked(&self.stored);
        stored.drain().map(|(_, chunk)| (chunk.address, chunk.room)).collect()
    }

    /// Reads a chunk's stored bytes and filter mask.
    pub(super) fn read_stored(&self, inner: &Inner, scaled: &[u64]) -> Result<Option<(Vec<u8>, u32)>> {
        let Some(stored) = locked(&self.stored).get(scaled).copied() else { return Ok(None) };
        let too_large = |_| Error::limit("a chunk exceeds the address space");
        let size = usize::try_from(stored.size).map_err(too_large)?;
        let mut bytes = room::zeros(size)?;
        inner.sink.read_at(stored.address, &mut bytes)?;
        Ok(Some((bytes, stored.mask)))
    }

    /// Returns the scaled coordinates of the stored chunk with the highest address.
    pub(super) fn last_in_file(&self) -> Option<Key> {
        let stored = locked(&self.stored);
        stored.iter().max_by_key(|(_, chunk)| chunk.address).map(|(number, _)| number.clone())
    }

    /// Discards a partially written chunk.
    pub(super) fn forget_waiting(&self, inner: &Inner, scaled: &[u64]) {
        if inner.waiting_bytes.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut waiting = locked(&self.waiting);
        if waiting.take(scaled).is_some() {
            inner.waiting_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }

    /// Discards all partially written chunks.
    pub(super) fn forget_all_waiting(&self, inner: &Inner) {
        let mut waiting = locked(&self.waiting);
        inner.waiting_bytes.fetch_sub(waiting.chunks.len() * self.bytes, Ordering::Relaxed);
        *waiting = PartialChunks::default();
    }

    /// Replaces the stored chunks by the chunks of another state of the dataset.
    pub(super) fn replace(&self, other: &Self) {
        *locked(&self.stored) = std::mem::take(&mut *locked(&other.stored));
    }

    /// Stores all partially written chunks. If some fail, the others are stored, and the failed ones stay in
    /// memory.
    pub(super) fn flush(&self, inner: &Inner, node: &DatasetNode) -> Result<()> {
        let mut waiting = locked(&self.waiting);
        let keys: Vec<Box<[u64]>> = waiting.order.iter().cloned().collect();
        let chunks = &waiting.chunks;
        let jobs = keys.iter().filter_map(|key| Some((key, chunks.get(key)?)));
        let threads = inner.threads_for(keys.len().saturating_mul(self.bytes)).min(keys.len());
        let failed = Mutex::new((None, HashSet::new()));
        spread(
            threads,
            jobs,
            || inner.scratch(threads),
            |scratch, (key, bytes)| {
                let placed = scratch.encoder.encode(&node.pipeline, bytes);
                let placed = placed.and_then(|(stored, mask)| self.place(inner, node, key, stored, mask));
                if let Err(error) = placed {
                    let mut failed = locked(&failed);
                    failed.0.get_or_insert(error);
                    failed.1.insert(key.clone());
                }
                Ok(())
            },
        )?;
        let (error, failed) = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        let placed = chunks.len() - failed.len();
        inner.waiting_bytes.fetch_sub(placed * self.bytes, Ordering::Relaxed);
        waiting.chunks.retain(|key, _| failed.contains(key));
        waiting.order.retain(|key| failed.contains(key));
        error.map_or(Ok(()), Err)
    }

    /// Returns the number of a chunk's elements that are inside the extent.
    fn elements_within(&self, scaled: &[u64], dims: &[u64]) -> u64 {
        let extents = scaled
            .iter()
            .zip(&self.dims)
            .zip(dims)
            .map(|((number, chunk), dim)| dim.saturating_sub(number.saturating_mul(*chunk)).min(*chunk));
        extents.fold(1, u64::saturating_mul)
    }

    /// Applies a smaller extent: frees chunks outside of it, and sets elements outside of it to the fill
    /// value. There must be no partially written chunks.
    pub(super) fn shrink(&self, inner: &Inner, node: &DatasetNode, dims: &[u64]) -> Result<()> {
        let _changing = locked(&self.changing);
        let all: Vec<Key> = locked(&self.stored).keys().cloned().collect();
        let whole = self.dims.iter().fold(1, |product: u64, dim| product.saturating_mul(*dim));
        for scaled in all {
            let within = self.elements_within(&scaled, dims);
            if within == 0 {
                if let Some(old) = locked(&self.stored).remove(&*scaled) {
                    node.touch();
                    inner.space.give_back(old.address, old.room, old.committed);
                }
            } else if within < whole {
                let mut bytes = self.load(inner, node, &scaled)?;
                let mut kept = node.filled(self.bytes)?;
                let corner = scaled.iter().zip(&self.dims).zip(dims).map(|((number, chunk), dim)| {
                    Axis::range(0..dim.saturating_sub(number * chunk).min(*chunk))
                });
                let inside = Selection::Axes(corner.collect());
                for run in runs(&inside, &self.dims)? {
                    let (first, count) = run;
                    let range = byte_range(first, count, node.element_size)?;
                    if let (Some(to), Some(from)) = (kept.get_mut(range.clone()), bytes.get_mut(range)) {
                        to.copy_from_slice(from);
                    }
                }
                let mut scratch = inner.scratch(1);
                let (stored, mask) = scratch.encoder.encode(&node.pipeline, &kept)?;
                self.place_new(inner, node, &scaled, stored, mask)?;
            }
        }
        Ok(())
    }

    /// Returns a decoded chunk; the fill value if it is not stored.
    pub(super) fn load(&self, inner: &Inner, node: &DatasetNode, scaled: &[u64]) -> Result<Vec<u8>> {
        let Some((stored, mask)) = self.read_stored(inner, scaled)? else { return node.filled(self.bytes) };
        let mut decoder = Decoder::default();
        decoder.decode(&node.pipeline, mask, &stored, self.bytes).map(<[u8]>::to_vec)
    }
}

impl PartialChunks {
    fn take(&mut self, scaled: &[u64]) -> Option<Vec<u8>> {
        let bytes = self.chunks.remove(scaled)?;
        self.order.retain(|key| **key != *scaled);
        Some(bytes)
    }
}

fn byte_range(first: u64, count: u64, size: usize) -> Result<std::ops::Range<usize>> {
    let start = usize::try_from(first).ok().and_then(|first| first.checked_mul(size));
    let length = usize::try_from(count).ok().and_then(|count| count.checked_mul(size));
    match start.zip(length).and_then(|(start, length)| Some(start..start.checked_add(length)?)) {
        Some(range) => Ok(range),
        None => Err(Error::limit("the data exceed the address space")),
    }
}

impl DatasetNode {
    /// Returns `length` bytes of the fill value.
    pub(super) fn filled(&self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| Error::limit(format!("no memory for {length} bytes")))?;
        match self.fill_pattern() {
            Some(pattern) => {
                while bytes.len() < length {
                    bytes.extend_from_slice(pattern);
                }
                bytes.truncate(length);
            }
            None => bytes.resize(length, 0),
        }
        Ok(bytes)
    }

    /// Returns the bytes of an element that was never written; `None` for zeros.
    fn fill_pattern(&self) -> Option<&[u8]> {
        match &self.fill.value {
            FillWhen::User(pattern)
                if self.fill.time != FillTime::Never
                    && pattern.len() == self.element_size
                    && pattern.iter().any(|byte| *byte != 0) =>
            {
                Some(pattern)
            }
            _ => None,
        }
    }

    /// Writes the selected elements.
    pub(super) fn write(&self, inner: &Inner, selection: &Selection, elements: &Elements<'_>) -> Result<()> {
        let dims = self.dims();
        let count = selection.count(&dims)?;
        let length = usize::try_from(count).ok().and_then(|count| count.checked_mul(elements.size));
        if length != Some(elements.data.len()) {
            let (got, size) = (elements.data.len(), elements.size);
            let message = format!("got {got} bytes for {count} elements of {size} bytes");
            return Err(Error::invalid(message));
        }
        if count == 0 {
            return Ok(());
        }
        match &self.data {
            Data::Compact(bytes) => {
                let mut kept = bytes.write().unwrap_or_else(PoisonError::into_inner);
                let mut bytes = kept.clone();
                let mut next = 0;
                for (first, count) in runs(selection, &dims)? {
                    let range = byte_range(first, count, self.element_size)?;
                    let outside = || Error::invalid("the selection exceeds the data");
                    let target = bytes.get_mut(range).ok_or_else(outside)?;
                    let count = usize::try_from(count).unwrap_or(usize::MAX);
                    elements.put(next, count, target)?;
                    next += count;
                }
                if inner.journal.is_some() {
                    self.flush_sequences(inner)?;
                    inner.note(&[Entry::Compact { object: self.id(), data: bytes.clone() }])?;
                }
                self.touch();
                *kept = bytes;
                Ok(())
            }
            Data::Contiguous { address, size } => {
                let start = self.contiguous_start(inner, address, *size, count * self.element_size as u64)?;
                self.write_contiguous(inner, selection, &dims, elements, start)
            }
            Data::Chunked(chunks) => self.write_chunks(inner, chunks, selection, &dims, elements),
            Data::External(_) => Err(Error::unsupported("cannot write data that are in external files")),
            Data::Virtual(_) => Err(Error::unsupported("cannot write to a virtual dataset")),
        }
    }

    /// Returns the address of contiguous data, which are allocated at the first write.
    fn contiguous_start(
        &self,
        inner: &Inner,
        address: &Mutex<Option<u64>>,
        size: u64,
        written: u64,
    ) -> Result<u64> {
        let mut address = locked(address);
        if let Some(start) = *address {
            return Ok(start);
        }
        let start = inner.take(size)?;
        let pattern = self.fill_pattern();
        // Without a fill value, unwritten bytes can stay a hole, which reads as zeros; but reused space has
        // old data.
        let is_hole = inner.sink.has_holes() && inner.space.is_fresh(start);
        if written < size && (pattern.is_some() || !is_hole) {
            let step = FILL_BYTES / (self.element_size as u64).max(1) * self.element_size as u64;
            let step = step.max(self.element_size as u64).min(size);
            let piece = self.filled(usize::try_from(step).unwrap_or(usize::MAX))?;
            let mut at = 0;
            while at < size {
                let length = usize::try_from((size - at).min(step)).unwrap_or(piece.len());
                inner.sink.write_at(start + at, &piece[..length])?;
                at += length as u64;
            }
        }
        inner.note(&[Entry::Begins { object: self.id(), address: start }])?;
        self.touch();
        *address = Some(start);
        Ok(start)
    }

    /// Returns the address of contiguous data, of which the caller will write `written` bytes.
    pub(super) fn begin(&self, inner: &Inner, written: u64) -> Result<u64> {
        match &self.data {
            Data::Contiguous { address, size } => self.contiguous_start(inner, address, *size, written),
            _ => Err(Error::invalid("the dataset is not contiguous")),
        }
    }

    /// Writes the heap objects that elements refer to, before the elements are recorded.
    fn flush_sequences(&self, inner: &Inner) -> Result<()> {
        if self.has_vlen {
            inner.heap.flush(&inner.space, &*inner.sink, inner.edit.is_some())
        } else {
            Ok(())
        }
    }

    fn write_contiguous(
        &self,
        inner: &Inner,
        selection: &Selection,
        dims: &[u64],
        elements: &Elements<'_>,
        start: u64,
    ) -> Result<()> {
        let size = self.element_size;
        let mut converted = Vec::new();
        let mut next = 0;
        let mut done = Vec::new();
        let mut wrote = |offset: u64, bytes: &[u8]| {
            if inner.journal.is_some() {
                let (first, length) = (offset - start, bytes.len() as u64);
                done.push(Entry::Wrote { object: self.id(), first, length, digest: digest(bytes) });
            }
        };
        for (first, count) in runs(selection, dims)? {
            let mut offset = start + first * size as u64;
            let mut left = usize::try_from(count)
                .map_err(|_| Error::limit("the selection exceeds the address space"))?;
            if elements.conversion.is_none() {
                let range = byte_range(next as u64, count, size)?;
                let too_few = || Error::invalid("there are fewer elements than are selected");
                let bytes = elements.data.get(range).ok_or_else(too_few)?;
                inner.sink.write_at(offset, bytes)?;
                wrote(offset, bytes);
                next += left;
                continue;
            }
            while left > 0 {
                let some = left.min((1 << 20) / size.max(1)).max(1);
                room::resize(&mut converted, some.saturating_mul(size))?;
                elements.put(next, some, &mut converted)?;
                inner.sink.write_at(offset, &converted)?;
                wrote(offset, &converted);
                (next, left, offset) = (next + some, left - some, offset + converted.len() as u64);
            }
        }
        self.flush_sequences(inner)?;
        inner.note(&done)
    }

    fn write_chunks(
        &self,
        inner: &Inner,
        chunks: &Chunks,
        selection: &Selection,
        dims: &[u64],
        elements: &Elements<'_>,
    ) -> Result<()> {
        let simple = match selection {
            Selection::All => true,
            Selection::Axes(axes) => axes.iter().all(|axis| !matches!(axis, Axis::List(_))),
            _ => false,
        };
        let any_partial = AtomicBool::new(false);
        let mut jobs = chunk_selections(selection, dims, &chunks.dims)?;
        // The number of chunks is of interest only if there are fewer than threads.
        let first: Vec<ChunkSelection> = jobs.by_ref().take(inner.threads).collect();
        let threads = inner.threads_for(elements.data.len()).min(first.len());
        let jobs = first.into_iter().chain(jobs);
        spread(
            threads,
            jobs,
            || inner.scratch(threads),
            |scratch, piece: ChunkSelection| {
                let within = chunks.elements_within(piece.chunk(), dims);
                if !simple || piece.count() as u64 != within {
                    any_partial.store(true, Ordering::Relaxed);
                    return self.write_part(inner, chunks, &piece, elements);
                }
                let size = self.element_size;
                let whole = chunks.bytes / size.max(1);
                let straight = piece.only_run().filter(|run| {
                    elements.conversion.is_none() && run.count == 1 && run.source == 0 && run.block == whole
                });
                let chunk: &[u8] = if let Some(run) = straight {
                    let range = byte_range(run.target as u64, run.block as u64, size)?;
                    let too_few = || Error::invalid("there are fewer elements than are selected");
                    elements.data.get(range).ok_or_else(too_few)?
                } else {
                    if within < whole as u64 {
                        scratch.chunk = self.filled(chunks.bytes)?;
                    } else {
                        room::resize(&mut scratch.chunk, chunks.bytes)?;
                    }
                    scatter(&piece, elements, size, &mut scratch.chunk)?;
                    &scratch.chunk
                };
                let (stored, mask) = scratch.encoder.encode(&self.pipeline, chunk)?;
                chunks.forget_waiting(inner, piece.chunk());
                chunks.place(inner, self, piece.chunk(), stored, mask)
            },
        )?;
        if any_partial.load(Ordering::Relaxed)
            && inner.waiting_bytes.load(Ordering::Relaxed) > inner.options.waiting_bytes
        {
            chunks.flush(inner, self)?;
        }
        Ok(())
    }

    /// Writes some elements of a chunk, which is kept in memory until the others are written.
    fn write_part(
        &self,
        inner: &Inner,
        chunks: &Chunks,
        piece: &ChunkSelection,
        elements: &Elements<'_>,
    ) -> Result<()> {
        let mut waiting = locked(&chunks.waiting);
        if !waiting.chunks.contains_key(piece.chunk()) {
            // Otherwise no commit would succeed.
            Encoder::check(&self.pipeline)?;
            let room = inner.options.waiting_bytes.max(chunks.bytes);
            if inner.waiting_bytes.load(Ordering::Relaxed) + chunks.bytes > room
                && let Some(oldest) = waiting.order.front().cloned()
                && let Some(bytes) = waiting.chunks.get(&oldest)
            {
                let mut scratch = inner.scratch(1);
                let (stored, mask) = scratch.encoder.encode(&self.pipeline, bytes)?;
                chunks.place(inner, self, &oldest, stored, mask)?;
                waiting.take(&oldest);
                inner.waiting_bytes.fetch_sub(chunks.bytes, Ordering::Relaxed);
            }
            let bytes = chunks.load(inner, self, piece.chunk())?;
            inner.waiting_bytes.fetch_add(chunks.bytes, Ordering::Relaxed);
            waiting.order.push_back(piece.chunk().into());
            waiting.chunks.insert(piece.chunk().into(), bytes);
        }
        match waiting.chunks.get_mut(piece.chunk()) {
            Some(bytes) => scatter(piece, elements, self.element_size, bytes),
            None => Ok(()),
        }
    }
}

impl Inner {
    /// Stores all partially written chunks. If some fail, the others are still stored. Those of deleted datasets
    /// that cannot be encoded are dropped.
    pub(super) fn flush_waiting(&self) -> Result<()> {
        let tree = self.tree();
        let mut failed = None;
        let mut reachable: Option<HashSet<NodeId>> = None;
        for (number, node) in tree.nodes.iter().enumerate() {
            let NodeKind::Dataset(dataset) = &node.kind else { continue };
            let Data::Chunked(chunks) = &dataset.data else { continue };
            let Err(error) = chunks.flush(self, dataset) else { continue };
            let kinds = [ErrorKind::Unsupported, ErrorKind::MissingFilter, ErrorKind::Invalid];
            if kinds.contains(&error.kind()) {
                let reachable = reachable.get_or_insert_with(|| tree.reachable().into_iter().collect());
                if !reachable.contains(&NodeId(number)) {
                    chunks.forget_all_waiting(self);
                    continue;
                }
            }
            failed.get_or_insert(error);
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Copies selected elements to their positions in a chunk.
fn scatter(piece: &ChunkSelection, elements: &Elements<'_>, size: usize, chunk: &mut [u8]) -> Result<()> {
    piece.runs(|source, target, count| {
        let range = byte_range(source as u64, count as u64, size)?;
        let to = chunk.get_mut(range).ok_or_else(|| Error::invalid("the selection exceeds the chunk"))?;
        elements.put(target, count, to)
    })
}

impl Inner {
    /// Returns the number of threads for compressing this many bytes.
    pub(super) fn threads_for(&self, bytes: usize) -> usize {
        self.threads.min(bytes / MIN_BYTES_PER_THREAD).max(1)
    }

    /// Returns the buffers of one of `running` threads. Its encoder may start its share of the others that the
    /// file has, so that a single chunk is compressed by all of them.
    fn scratch(&self, running: usize) -> Scratch {
        Scratch { encoder: Encoder::with_threads(self.threads / running.max(1)), ..Scratch::default() }
    }
}

#[cfg(test)]
mod tests {
    use crate::write::{CreateOptions, DatasetOptions, MemorySink, NewLayout, NodeId, Writer};
    use crate::{File, OpenOptions};
    use hyperchunk_format::model::{ByteOrder, Dataspace, Datatype, Filter};
    use hyperchunk_format::select::{Axis, Selection};
    use std::sync::Arc;

    const FRAMES: usize = 6;
    /// Number of elements of a frame, which is one chunk.
    const FRAME: usize = 100_003;

    /// Returns a file with a dataset of frames. `step` frames are written and flushed at a time; with `split`,
    /// first the first half of each, which waits in memory for the other.
    fn written(threads: usize, values: &[u8], step: usize, split: bool) -> Vec<u8> {
        let sink = Arc::new(MemorySink::default());
        let options = CreateOptions { threads, ..CreateOptions::default() };
        let file = Writer::create_in(Arc::<MemorySink>::clone(&sink), None, &options).unwrap();
        let dims = [FRAMES as u64, FRAME as u64];
        let dataspace = Dataspace::Simple { dims: dims.to_vec(), max: dims.map(Some).to_vec() };
        let filter = |id, parameters| Filter { id, optional: true, name: None, parameters };
        let options = DatasetOptions::new(Datatype::integer(2, false, ByteOrder::Little), dataspace)
            .with_layout(NewLayout::Chunked(vec![1, FRAME as u64]))
            .with_pipeline(vec![filter(2, vec![2]), filter(1, vec![4])]);
        let dataset = file.create_dataset(NodeId::ROOT, b"frames", options).unwrap();
        let cuts = if split { vec![0, FRAME / 2, FRAME] } else { vec![0, FRAME] };
        for (number, some) in values.chunks(step * FRAME * 2).enumerate() {
            let first = (number * step) as u64;
            for cut in cuts.windows(2) {
                let half = cut[0]..cut[1];
                let frames = some.chunks_exact(FRAME * 2);
                let bytes: Vec<u8> =
                    frames.clone().flat_map(|frame| &frame[half.start * 2..half.end * 2]).copied().collect();
                let columns = Axis::range(half.start as u64..half.end as u64);
                let selection =
                    Selection::Axes(vec![Axis::range(first..first + frames.len() as u64), columns]);
                dataset.write(&selection, &bytes).unwrap();
            }
            file.flush().unwrap();
        }
        file.close().unwrap();
        sink.bytes()
    }

    #[test]
    fn test_chunks_split_among_threads_are_read_back() {
        // Counts of small numbers, which compress well but not trivially.
        let mut state = 1_u32;
        let values: Vec<u8> = (0..FRAMES * FRAME)
            .flat_map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let [.., high] = state.to_le_bytes();
                [high & 15, high >> 7]
            })
            .collect();
        let mut sizes = Vec::new();
        for (threads, step, split) in
            [(1, 1, false), (4, 1, false), (4, 2, false), (4, 3, false), (4, FRAMES, false), (4, 1, true)]
        {
            let bytes = written(threads, &values, step, split);
            sizes.push(bytes.len());
            let file = File::from_bytes(bytes, &OpenOptions::default()).unwrap();
            let root = file.root().unwrap().group().unwrap();
            let dataset = root.get(b"frames").unwrap().dataset().unwrap();
            let mut read = vec![0; values.len()];
            dataset.read(&Selection::All, &mut read).unwrap();
            assert!(read == values, "{threads} threads, {step} frames");
        }
        // Otherwise the chunks were not split.
        assert_ne!(sizes[0], sizes[1]);
    }
}
