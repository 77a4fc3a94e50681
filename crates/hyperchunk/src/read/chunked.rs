//! Data in chunks.

use super::cache::ChunkCache;
use super::output::Output;
use super::table::{StoredChunk, with_table};
use super::workers::spread;
use crate::dataset::Dataset;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::codec::Decoder;
use hyperchunk_format::model::{Chunk, Chunked, Filter};
use hyperchunk_format::select::{Choice, Piece, Run, pieces};

/// Reads that touch so many times as many chunks as there are stored go through those that are stored.
const SPARSE: u64 = 8;

/// What a thread keeps from chunk to chunk.
#[derive(Default)]
struct Scratch {
    stored: Vec<u8>,
    decoder: Decoder,
    gathered: Vec<u8>,
}

/// Everything about the chunks of one read.
struct Reading<'a> {
    dataset: &'a Dataset,
    chunked: &'a Chunked,
    output: &'a Output<'a>,
    /// What is read where no chunk is stored; zeros if `None`.
    fill: Option<Vec<u8>>,
    /// The size of a chunk before its filters, in bytes.
    chunk_bytes: usize,
    chunk_elements: u64,
}

/// Reads a selection of a chunked dataset.
pub(super) fn read(dataset: &Dataset, chunked: &Chunked, choice: &Choice, output: &Output<'_>) -> Result<()> {
    let limits = &dataset.object().file().options().limits;
    if chunked.element_size != dataset.datatype().size {
        let message = format!(
            "chunks of elements of {} bytes, {} in the datatype",
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
    let reading =
        Reading { dataset, chunked, output, fill, chunk_bytes, chunk_elements: elements.unwrap_or(0) };
    let region = choice.chunk_region(dataset.dims(), &chunked.dims)?;
    let touched = region.iter().map(|range| range.end.saturating_sub(range.start));
    let touched = touched.fold(1, u64::saturating_mul);
    with_table(dataset, chunked, &region, |table| {
        let jobs = pieces(choice, dataset.dims(), &chunked.dims)?;
        // Where few of many chunks are stored, it is not worth to look at each of them.
        let sparse = jobs.is_grid() && touched / SPARSE > table.len() as u64;
        let at_once = limits.in_flight_bytes / (3 * chunk_bytes as u64).max(1);
        let threads =
            dataset.threads_for(output.bytes()).min(usize::try_from(at_once).unwrap_or(usize::MAX).max(1));
        let read = |scratch: &mut Scratch, piece: Piece| {
            let found = table.find(piece.chunk());
            reading.piece(&piece, found, scratch).map_err(|error| match found {
                Some(chunk) => error.within("chunk").at(chunk.address),
                None => error,
            })
        };
        if sparse {
            // SAFETY: this thread is alone.
            unsafe { output.fill(0, output.len(), reading.fill.as_deref()) }?;
            let jobs = table.places().map(|place| jobs.of_chunk(place));
            return spread(threads, jobs, Scratch::default, |scratch, piece| {
                piece?.map_or(Ok(()), |piece| read(scratch, piece))
            });
        }
        spread(threads, jobs, Scratch::default, read)
    })
}

impl Reading<'_> {
    fn piece(&self, piece: &Piece, found: Option<StoredChunk>, scratch: &mut Scratch) -> Result<()> {
        let Some(chunk) = found else {
            // SAFETY: the pieces of a selection have disjoint targets, each piece is of one thread.
            return piece
                .runs(|_, target, count| unsafe { self.output.fill(target, count, self.fill.as_deref()) });
        };
        let pipeline = self.pipeline(piece.chunk());
        let whole = piece.count() as u64 == self.chunk_elements;
        if pipeline.is_empty() && !whole {
            return self.unfiltered_part(piece, chunk, scratch);
        }
        let key = (self.dataset.object().address(), chunk.address);
        let cached = !whole && ChunkCache::takes(self.chunk_bytes);
        let cache = &self.dataset.object().file().0.chunks;
        if let Some(bytes) = cached.then(|| cache.get(key)).flatten() {
            return self.scatter(piece, &bytes, &mut scratch.gathered);
        }
        read_at(self.dataset, chunk.address, chunk.size, &mut scratch.stored)?;
        let decoded =
            scratch.decoder.decode(pipeline, chunk.filter_mask, &scratch.stored, self.chunk_bytes)?;
        if cached {
            cache.insert(key, decoded);
        }
        self.scatter(piece, decoded, &mut scratch.gathered)
    }

    /// The filters of the chunk at a place.
    fn pipeline(&self, place: &[u64]) -> &[Filter] {
        let partial = || {
            let ends =
                place.iter().zip(&self.chunked.dims).map(|(scaled, dim)| (scaled + 1).saturating_mul(*dim));
            ends.zip(self.dataset.dims()).any(|(end, extent)| end > *extent)
        };
        if self.chunked.edge_chunks_unfiltered && partial() { &[] } else { self.dataset.pipeline() }
    }

    fn scatter(&self, piece: &Piece, chunk: &[u8], gathered: &mut Vec<u8>) -> Result<()> {
        // SAFETY: the pieces of a selection have disjoint targets, each piece is of one thread.
        piece.strided(|run| unsafe { self.output.put_run(&run, chunk, gathered) })
    }

    /// Reads only what is selected of a chunk that is stored as it is.
    fn unfiltered_part(&self, piece: &Piece, chunk: StoredChunk, scratch: &mut Scratch) -> Result<()> {
        if chunk.size != self.chunk_bytes as u64 {
            let message = format!("a chunk of {} bytes where {} should be", chunk.size, self.chunk_bytes);
            return Err(Error::new(ErrorKind::Filter, message));
        }
        let size = self.output.stored_size;
        let (mut first, mut end) = (usize::MAX, 0);
        piece.runs(|from, _, count| {
            first = first.min(from);
            end = end.max(from + count);
            Ok(())
        })?;
        if first >= end {
            return Ok(());
        }
        let start = chunk.address.checked_add((first * size) as u64);
        let start = start.ok_or_else(|| Error::corrupt("an address beyond 2^64"))?;
        read_at(self.dataset, start, ((end - first) * size) as u64, &mut scratch.stored)?;
        piece.strided(|run| {
            let run = Run { source: run.source - first, ..run };
            // SAFETY: as in `scatter`.
            unsafe { self.output.put_run(&run, &scratch.stored, &mut scratch.gathered) }
        })
    }
}

/// Reads a chunk as it is stored.
pub(crate) fn read_stored(dataset: &Dataset, chunk: &Chunk, buffer: &mut Vec<u8>) -> Result<()> {
    read_at(dataset, chunk.address, chunk.size, buffer)
        .map_err(|error| dataset.name(error.within("chunk").at(chunk.address)))
}

/// Fills `buffer` with the `size` bytes at an address.
fn read_at(dataset: &Dataset, address: u64, size: u64, buffer: &mut Vec<u8>) -> Result<()> {
    let file = dataset.object().file();
    let offset = file.superblock().base.checked_add(address);
    let end = offset.and_then(|offset| offset.checked_add(size)).filter(|end| *end <= file.size());
    let (Some(offset), Some(_), Ok(length)) = (offset, end, usize::try_from(size)) else {
        return Err(crate::io::ends_before(
            file.size(),
            address,
            usize::try_from(size).unwrap_or(usize::MAX),
        ));
    };
    // No need to clear what is read over.
    if buffer.len() > length {
        buffer.truncate(length);
    } else {
        buffer.resize(length, 0);
    }
    file.0.source.read_at(offset, buffer)
}
