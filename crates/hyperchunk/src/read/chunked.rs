//! Reads of chunked datasets.

use super::cache::ChunkCache;
use super::clusters::{Cluster, Divider};
use super::fetch::{Part, Parts, Scratch};
use super::output::Output;
use super::table::{ChunkTable, StoredChunk, with_table};
use super::workers::spread;
use crate::dataset::Dataset;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::model::{Chunk, Chunked, Filter};
use hyperchunk_format::select::{ChunkSelection, ChunkSelections, Column, Run, Selection, chunk_selections};
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::Arc;

/// A read that touches more than this many times the number of stored chunks iterates over the stored ones.
const SPARSE_FACTOR: u64 = 8;
/// Minimum size in bytes of a part of a vectored read. For smaller parts, reading the chunk into a buffer and
/// copying it is faster.
const MIN_PART_BYTES: usize = 512;

/// State of one read of a chunked dataset.
pub(super) struct ChunkedRead<'a> {
    dataset: &'a Dataset,
    chunked: &'a Chunked,
    output: &'a Output<'a>,
    /// The value of elements in chunks that are not stored; zeros if `None`.
    fill: Option<Vec<u8>>,
    /// The size of a decoded chunk, in bytes.
    chunk_bytes: usize,
    chunk_elements: u64,
}

/// Reads a selection of a chunked dataset.
pub(super) fn read(
    dataset: &Dataset,
    chunked: &Chunked,
    selection: &Selection,
    output: &Output<'_>,
) -> Result<()> {
    let limits = &dataset.object().file().options().limits;
    let reading = ChunkedRead::new(dataset, chunked, output)?;
    reading.with_pieces(selection, |table, jobs, sparse| {
        let at_once = limits.in_flight_bytes / (3 * reading.chunk_bytes as u64).max(1);
        let threads =
            dataset.threads_for(output.bytes()).min(usize::try_from(at_once).unwrap_or(usize::MAX).max(1));
        let read = |scratch: &mut Scratch, piece: ChunkSelection| {
            let found = table.find(piece.chunk());
            reading.piece(&piece, found, scratch).map_err(|error| named(error, found))
        };
        if sparse {
            // SAFETY: this thread is alone.
            unsafe { output.fill(0, output.count(), reading.fill.as_deref()) }?;
            let jobs = table.places().map(|place| jobs.in_chunk(place));
            return spread(threads, jobs, Scratch::default, |scratch, piece| {
                piece?.map_or(Ok(()), |piece| read(scratch, piece))
            });
        }
        spread(threads, jobs, Scratch::default, read)
    })
}

/// Loads the index of the chunks that a selection touches; the dataset caches it if it is small.
pub(super) fn prepare(dataset: &Dataset, chunked: &Chunked, selection: &Selection) -> Result<()> {
    let region = selection.chunk_region(dataset.dims(), &chunked.dims)?;
    with_table(dataset, chunked, &region, |_| Ok(()))
}

/// Lists the parts of the file that a selection of a chunked dataset needs. Elements in cached chunks, and in
/// chunks that are not stored, are written to the output at once.
pub(super) fn plan<'a>(
    dataset: &'a Dataset,
    chunked: &'a Chunked,
    selection: &Selection,
    output: &'a Output<'a>,
    parts: &mut Parts<'a>,
) -> Result<()> {
    let reading = Arc::new(ChunkedRead::new(dataset, chunked, output)?);
    let source = &dataset.object().file().0.source;
    let mut scratch = Scratch::default();
    let mut divider = Divider::new(output.stored_size);
    reading.each_stored(selection, |piece, chunk| {
        let mut add = |part: Part<'a>| parts.add(source, part);
        let added = match reading.takes_parts(&piece) {
            true => reading.add_unfiltered(piece, chunk, &mut divider, &mut add),
            false => reading.part(piece, chunk, &mut scratch).map(|part| part.into_iter().for_each(add)),
        };
        added.map_err(|error| named(error, Some(chunk)))
    })
}

/// Adds the chunk's address to an error.
pub(super) fn named(error: Error, found: Option<StoredChunk>) -> Error {
    match found {
        Some(chunk) => error.within("chunk").at(chunk.address),
        None => error,
    }
}

impl<'a> ChunkedRead<'a> {
    pub(super) fn new(dataset: &'a Dataset, chunked: &'a Chunked, output: &'a Output<'a>) -> Result<Self> {
        let limits = &dataset.object().file().options().limits;
        if chunked.element_size != dataset.datatype().size {
            let message = format!(
                "the chunks have elements of {} bytes, the datatype {}",
                chunked.element_size,
                dataset.datatype().size
            );
            return Err(Error::corrupt(message));
        }
        let elements = chunked.dims.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim));
        let bytes = elements.and_then(|elements| elements.checked_mul(chunked.element_size));
        let bytes =
            bytes.filter(|bytes| *bytes <= limits.chunk_bytes).and_then(|bytes| usize::try_from(bytes).ok());
        let Some(chunk_bytes) = bytes else {
            return Err(Error::limit(format!(
                "chunks of more than {} bytes (limit `chunk_bytes`)",
                limits.chunk_bytes
            )));
        };
        let fill = dataset.unwritten()?;
        Ok(Self { dataset, chunked, output, fill, chunk_bytes, chunk_elements: elements.unwrap_or(0) })
    }

    /// Calls `with` with the stored chunks, the pieces of the selection (each in one chunk), and whether to
    /// iterate over the chunks rather than the pieces: true if few of the touched chunks are stored.
    fn with_pieces(
        &self,
        selection: &Selection,
        with: impl FnOnce(&ChunkTable, ChunkSelections, bool) -> Result<()>,
    ) -> Result<()> {
        let (dataset, chunked) = (self.dataset, self.chunked);
        let region = selection.chunk_region(dataset.dims(), &chunked.dims)?;
        let touched = region.iter().map(|range| range.end.saturating_sub(range.start));
        let touched = touched.fold(1, u64::saturating_mul);
        with_table(dataset, chunked, &region, |table| {
            let jobs = chunk_selections(selection, dataset.dims(), &chunked.dims)?;
            let sparse = jobs.is_grid() && touched / SPARSE_FACTOR > table.len() as u64;
            with(table, jobs, sparse)
        })
    }

    /// Calls `each` for the pieces of a selection of a live dataset. It is an error if the chunk of a piece
    /// is not stored, because live datasets have no fill value.
    pub(super) fn each_there(
        &self,
        selection: &Selection,
        mut each: impl FnMut(ChunkSelection, StoredChunk) -> Result<()>,
    ) -> Result<()> {
        self.with_pieces(selection, |table, mut jobs, _| {
            jobs.try_for_each(|piece| match table.find(piece.chunk()) {
                Some(chunk) => each(piece, chunk),
                None => {
                    let message = "a chunk of a live dataset holds nothing: a program that does not know live \
                                   datasets may have resized it; `hyperchunk udf extend` adds the missing stubs";
                    Err(Error::corrupt(message).within("chunk"))
                }
            })
        })
    }

    /// Calls `each` for the pieces of a selection that are in stored chunks. Fills the others with the fill
    /// value.
    pub(super) fn each_stored(
        &self,
        selection: &Selection,
        mut each: impl FnMut(ChunkSelection, StoredChunk) -> Result<()>,
    ) -> Result<()> {
        self.with_pieces(selection, |table, jobs, sparse| {
            let mut add = |piece: ChunkSelection| match table.find(piece.chunk()) {
                Some(chunk) => each(piece, chunk),
                None => self.unstored(&piece),
            };
            if sparse {
                // SAFETY: this thread is alone.
                unsafe { self.output.fill(0, self.output.count(), self.fill.as_deref()) }?;
                return table.places().try_for_each(|place| jobs.in_chunk(place)?.map_or(Ok(()), &mut add));
            }
            jobs.into_iter().try_for_each(add)
        })
    }

    /// Adds the parts of the file that a piece of an unfiltered chunk needs.
    fn add_unfiltered(
        self: &Arc<Self>,
        piece: ChunkSelection,
        chunk: StoredChunk,
        divider: &mut Divider,
        add: &mut dyn FnMut(Part<'a>),
    ) -> Result<()> {
        let Some((first, range)) = self.unfiltered_range(&piece, chunk)? else { return Ok(()) };
        let Some(clusters) = divider.divide(&piece) else {
            let range = located(self.dataset, range.start, range.end - range.start)?;
            let reading = Arc::clone(self);
            let work = move |bytes: &[u8], scratch: &mut Scratch| {
                reading.scatter_from(&piece, first, bytes, scratch)
            };
            add(Part { range, work: Box::new(work) });
            return Ok(());
        };
        for Cluster { elements, runs } in clusters {
            let range = self.addresses(chunk, &elements)?;
            let range = located(self.dataset, range.start, range.end - range.start)?;
            let reading = Arc::clone(self);
            let work = move |bytes: &[u8], scratch: &mut Scratch| {
                runs.iter().try_for_each(|run| reading.scatter_run(*run, elements.start, bytes, scratch))
            };
            add(Part { range, work: Box::new(work) });
        }
        Ok(())
    }

    /// Returns the part of the file with a stored chunk of which a piece is needed; `None` if the piece was
    /// complete without it, from the cache.
    fn part(
        self: &Arc<Self>,
        piece: ChunkSelection,
        chunk: StoredChunk,
        scratch: &mut Scratch,
    ) -> Result<Option<Part<'a>>> {
        let whole = self.is_whole(&piece);
        let reading = Arc::clone(self);
        let key = (self.dataset.object().address(), chunk.address);
        let cached = !whole && ChunkCache::takes(self.chunk_bytes);
        if let Some(bytes) = cached.then(|| self.dataset.object().file().0.chunks.get(key)).flatten() {
            self.scatter(&piece, &bytes, &mut scratch.gathered)?;
            return Ok(None);
        }
        let range = located(self.dataset, chunk.address, chunk.size)?;
        let work = move |bytes: &[u8], scratch: &mut Scratch| {
            let decoded = scratch.decoder.decode_padded(
                reading.pipeline(piece.chunk()),
                chunk.filter_mask,
                bytes,
                reading.chunk_bytes,
                reading.bytes_inside(piece.chunk()),
            );
            let scattered = decoded.and_then(|decoded| {
                if cached {
                    reading.dataset.object().file().0.chunks.insert(key, decoded);
                }
                reading.scatter(&piece, decoded, &mut scratch.gathered)
            });
            scattered.map_err(|error| reading.dataset.with_context(named(error, Some(chunk))))
        };
        Ok(Some(Part { range, work: Box::new(work) }))
    }
}

impl ChunkedRead<'_> {
    /// Returns the size of a decoded chunk, in bytes.
    pub(super) fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// Returns the number of bytes up to a chunk's last element inside the extent: a chunk at the edge may be
    /// stored without the rest.
    fn bytes_inside(&self, place: &[u64]) -> usize {
        let elements = self.chunked.elements_inside(place, self.dataset.dims());
        let bytes = elements.saturating_mul(self.chunked.element_size);
        usize::try_from(bytes).unwrap_or(usize::MAX).min(self.chunk_bytes)
    }

    /// Returns whether a piece is the whole chunk.
    pub(super) fn is_whole(&self, piece: &ChunkSelection) -> bool {
        piece.count() as u64 == self.chunk_elements
    }

    /// Returns whether a piece needs only some of the stored bytes of its chunk.
    fn takes_parts(&self, piece: &ChunkSelection) -> bool {
        self.pipeline(piece.chunk()).is_empty() && !self.is_whole(piece)
    }

    /// Returns a piece's part of the output, if the piece is its whole chunk, contiguous and not converted.
    ///
    /// # Safety
    /// No other thread may have this piece while the result lives, and no two pieces the same targets.
    #[expect(clippy::mut_from_ref, reason = "disjoint parts of one buffer; see the contract")]
    pub(super) unsafe fn whole_chunk(&self, piece: &ChunkSelection) -> Result<Option<&mut [u8]>> {
        if !self.output.is_copy() || !self.is_whole(piece) {
            return Ok(None);
        }
        match piece.only_run() {
            Some(run) if run.source == 0 && run.count == 1 && run.block == piece.count() => {
                // SAFETY: the caller's promise.
                unsafe { self.output.direct(run.target, run.block) }.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Fills a piece of a chunk that is not stored with the fill value.
    fn unstored(&self, piece: &ChunkSelection) -> Result<()> {
        // SAFETY: the pieces of a selection have disjoint targets, each piece is of one thread.
        piece.runs(|_, target, count| unsafe { self.output.fill(target, count, self.fill.as_deref()) })
    }

    fn piece(&self, piece: &ChunkSelection, found: Option<StoredChunk>, scratch: &mut Scratch) -> Result<()> {
        let Some(chunk) = found else { return self.unstored(piece) };
        if self.takes_parts(piece) {
            return self.unfiltered_part(piece, chunk, scratch);
        }
        let pipeline = self.pipeline(piece.chunk());
        let whole = self.is_whole(piece);
        if pipeline.is_empty() && self.straight(piece, chunk)? {
            return Ok(());
        }
        let key = (self.dataset.object().address(), chunk.address);
        let cached = !whole && ChunkCache::takes(self.chunk_bytes);
        let cache = &self.dataset.object().file().0.chunks;
        if let Some(bytes) = cached.then(|| cache.get(key)).flatten() {
            return self.scatter(piece, &bytes, &mut scratch.gathered);
        }
        read_at(self.dataset, chunk.address, chunk.size, &mut scratch.stored)?;
        let least = self.bytes_inside(piece.chunk());
        let decoded = scratch.decoder.decode_padded(
            pipeline,
            chunk.filter_mask,
            &scratch.stored,
            self.chunk_bytes,
            least,
        )?;
        if cached {
            cache.insert(key, decoded);
        }
        self.scatter(piece, decoded, &mut scratch.gathered)
    }

    /// Returns the filters of the chunk with these scaled coordinates.
    fn pipeline(&self, place: &[u64]) -> &[Filter] {
        let partial = || {
            let ends =
                place.iter().zip(&self.chunked.dims).map(|(scaled, dim)| (scaled + 1).saturating_mul(*dim));
            ends.zip(self.dataset.dims()).any(|(end, extent)| end > *extent)
        };
        if self.chunked.edge_chunks_unfiltered && partial() { &[] } else { self.dataset.pipeline() }
    }

    pub(super) fn scatter(&self, piece: &ChunkSelection, chunk: &[u8], gathered: &mut Vec<u8>) -> Result<()> {
        if self.output.is_copy() {
            // SAFETY: the pieces of a selection have disjoint targets, each piece is of one thread.
            return piece.columns(|column| unsafe { self.output.put_column(&column, chunk) });
        }
        // SAFETY: as above.
        piece.strided(|run| unsafe { self.output.put_run(&run, chunk, gathered) })
    }

    /// Reads a whole unfiltered chunk directly into the output. Returns false, with nothing read, if reading
    /// it into a buffer and copying is better.
    fn straight(&self, piece: &ChunkSelection, chunk: StoredChunk) -> Result<bool> {
        let size = self.output.stored_size;
        if !self.output.is_copy() || chunk.size != self.chunk_bytes as u64 {
            return Ok(false);
        }
        let (mut parts, mut next) = (Vec::new(), 0);
        let in_order = piece.strided(|run| {
            if run.source != next || run.count != 1 || run.block * size < MIN_PART_BYTES {
                return Err(None);
            }
            next += run.block;
            // SAFETY: the pieces of a selection have disjoint targets, and so have the runs of one.
            let part = unsafe { self.output.direct(run.target, run.block) };
            parts.push(IoSliceMut::new(part.map_err(Some)?));
            Ok(())
        });
        match in_order {
            Ok(()) => {}
            Err(None) => return Ok(false),
            Err(Some(error)) => return Err(error),
        }
        let range = located(self.dataset, chunk.address, chunk.size)?;
        self.dataset.object().file().0.source.read_parts_at(range.start, &mut parts)?;
        Ok(true)
    }

    /// Reads the selected part of an unfiltered chunk.
    fn unfiltered_part(
        &self,
        piece: &ChunkSelection,
        chunk: StoredChunk,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Some((first, range)) = self.unfiltered_range(piece, chunk)? else { return Ok(()) };
        let mut stored = std::mem::take(&mut scratch.stored);
        read_at(self.dataset, range.start, range.end - range.start, &mut stored)?;
        let scattered = self.scatter_from(piece, first, &stored, scratch);
        scratch.stored = stored;
        scattered
    }

    /// Returns the first selected element of an unfiltered chunk, and the addresses of the selected part.
    fn unfiltered_range(
        &self,
        piece: &ChunkSelection,
        chunk: StoredChunk,
    ) -> Result<Option<(usize, Range<u64>)>> {
        let least = self.bytes_inside(piece.chunk()) as u64;
        if chunk.size > self.chunk_bytes as u64 || chunk.size < least {
            let message = format!("a chunk has {} bytes, expected {}", chunk.size, self.chunk_bytes);
            return Err(Error::new(ErrorKind::Filter, message));
        }
        let (mut first, mut end) = (usize::MAX, 0);
        piece.columns(|column| {
            if let Some((span, _)) = column.spans() {
                first = first.min(column.source);
                end = end.max(column.source + span);
            }
            Ok(())
        })?;
        if first >= end {
            return Ok(None);
        }
        Ok(Some((first, self.addresses(chunk, &(first..end))?)))
    }

    /// Returns the addresses of elements of an unfiltered chunk.
    fn addresses(&self, chunk: StoredChunk, elements: &Range<usize>) -> Result<Range<u64>> {
        let size = self.output.stored_size as u64;
        let address = |element: usize| chunk.address.checked_add((element as u64).checked_mul(size)?);
        match (address(elements.start), address(elements.end)) {
            (Some(start), Some(end)) => Ok(start..end),
            _ => Err(Error::corrupt("an address past 2^64 - 1")),
        }
    }

    /// Copies the elements of a piece into the output. `bytes` are the chunk's from element `first` on.
    fn scatter_from(
        &self,
        piece: &ChunkSelection,
        first: usize,
        bytes: &[u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        if self.output.is_copy() {
            return piece.columns(|column| {
                let column = Column { source: column.source - first, ..column };
                // SAFETY: as in `scatter`.
                unsafe { self.output.put_column(&column, bytes) }
            });
        }
        piece.strided(|run| self.scatter_run(run, first, bytes, scratch))
    }

    /// Copies the elements of one run of a piece into the output. `bytes` are the chunk's from element `first`
    /// on.
    fn scatter_run(&self, run: Run, first: usize, bytes: &[u8], scratch: &mut Scratch) -> Result<()> {
        let run = Run { source: run.source - first, ..run };
        if self.output.is_copy() {
            // SAFETY: as in `scatter`.
            return unsafe { self.output.put_column(&run.into(), bytes) };
        }
        // SAFETY: as in `scatter`.
        unsafe { self.output.put_run(&run, bytes, &mut scratch.gathered) }
    }
}

/// Reads the stored bytes of a chunk.
pub(crate) fn read_stored(dataset: &Dataset, chunk: &Chunk, buffer: &mut Vec<u8>) -> Result<()> {
    read_at(dataset, chunk.address, chunk.size, buffer)
        .map_err(|error| dataset.with_context(error.within("chunk").at(chunk.address)))
}

/// Fills `buffer` with the `size` bytes at an address.
pub(super) fn read_at(dataset: &Dataset, address: u64, size: u64, buffer: &mut Vec<u8>) -> Result<()> {
    let range = located(dataset, address, size)?;
    let length = usize::try_from(size).map_err(|_| Error::limit("a chunk larger than the address space"))?;
    // The buffer is overwritten, so it need not be cleared.
    if buffer.len() > length {
        buffer.truncate(length);
    } else {
        crate::room::resize(buffer, length)?;
    }
    dataset.object().file().0.source.read_at(range.start, buffer)
}

/// Returns the file range of the `size` bytes at an address.
pub(super) fn located(dataset: &Dataset, address: u64, size: u64) -> Result<Range<u64>> {
    let file = dataset.object().file();
    let offset = file.superblock().base.checked_add(address);
    let end = offset.and_then(|offset| offset.checked_add(size)).filter(|end| *end <= file.size());
    match (offset, end) {
        (Some(offset), Some(end)) => Ok(offset..end),
        _ => Err(crate::io::ends_before(file.size(), address, usize::try_from(size).unwrap_or(usize::MAX))),
    }
}
