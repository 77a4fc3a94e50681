//! Table of stored chunks and their locations.

use crate::Result;
use crate::dataset::Dataset;
use hyperchunk_format::model::{Chunk, Chunked};
use hyperchunk_format::parse::chunk_index::{self, ChunkMap};
use hyperchunk_format::parse::extents::{self, Extent};
use std::ops::Range;

/// Maximum size of a chunk grid whose index is always read whole and cached.
const SMALL_GRID_CHUNKS: u64 = 1 << 16;

/// Stored chunks by their scaled coordinates.
#[derive(Debug)]
pub(crate) struct ChunkTable {
    rank: usize,
    /// The scaled coordinates in row-major order, `rank` for each chunk.
    scaled: Vec<u64>,
    chunks: Vec<StoredChunk>,
}

/// Location of a stored chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredChunk {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) filter_mask: u32,
}

impl ChunkTable {
    fn new(rank: usize, mut chunks: Vec<Chunk>) -> Self {
        if !chunks.is_sorted_by(|a, b| a.scaled <= b.scaled) {
            chunks.sort_by(|a, b| a.scaled.cmp(&b.scaled));
        }
        let scaled = chunks.iter().flat_map(|chunk| chunk.scaled.iter().copied()).collect();
        let place = |chunk: &Chunk| StoredChunk {
            address: chunk.address,
            size: chunk.size,
            filter_mask: chunk.filter_mask,
        };
        Self { rank, scaled, chunks: chunks.iter().map(place).collect() }
    }

    /// Returns the number of chunks.
    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Returns the scaled coordinates of the chunks, in row-major order.
    pub(crate) fn places(&self) -> impl Iterator<Item = &[u64]> + Send {
        self.scaled.chunks_exact(self.rank.max(1))
    }

    /// Returns the chunk with these scaled coordinates, if it is stored.
    pub(crate) fn find(&self, scaled: &[u64]) -> Option<StoredChunk> {
        let (mut low, mut high) = (0, self.chunks.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.scaled[middle * self.rank..(middle + 1) * self.rank].cmp(scaled) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(self.chunks[middle]),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }
}

/// Lists all stored chunks of a dataset, in row-major order.
pub(crate) fn all_chunks(dataset: &Dataset) -> Result<Vec<Chunk>> {
    let Some(chunked) = dataset.chunked() else { return Ok(Vec::new()) };
    if let Some(chunks) = indexed(dataset, chunked)? {
        return Ok(chunks);
    }
    let map = chunk_map(dataset, chunked);
    let mut chunks = dataset.object().parse(|image, _| chunk_index::chunks(image, &map))?;
    chunks.sort_by(|a, b| a.scaled.cmp(&b.scaled));
    Ok(chunks)
}

/// Lists all stored chunks, and the file extents of their index that are known for certain.
pub(crate) fn all_chunks_and_extents(dataset: &Dataset) -> Result<(Vec<Chunk>, Vec<Extent>)> {
    let Some(chunked) = dataset.chunked() else { return Ok((Vec::new(), Vec::new())) };
    let map = chunk_map(dataset, chunked);
    dataset.object().parse(|image, _| extents::index(image, &map))
}

/// Lists the stored chunks of `region`, a box in the grid, in row-major order.
pub(crate) fn chunks_within(
    dataset: &Dataset,
    chunked: &Chunked,
    region: &[Range<u64>],
) -> Result<Vec<Chunk>> {
    if let Some(mut chunks) = indexed(dataset, chunked)? {
        let is_in = |chunk: &Chunk| chunk.scaled.iter().zip(region).all(|(at, range)| range.contains(at));
        chunks.retain(is_in);
        return Ok(chunks);
    }
    let map = chunk_map(dataset, chunked);
    let mut chunks = dataset.object().parse(|image, _| chunk_index::within(image, &map, region))?;
    chunks.sort_by(|a, b| a.scaled.cmp(&b.scaled));
    Ok(chunks)
}

/// Calls `with` with a table that has at least the chunks of `region`, a box in the grid.
pub(crate) fn with_table<T>(
    dataset: &Dataset,
    chunked: &Chunked,
    region: &[Range<u64>],
    with: impl FnOnce(&ChunkTable) -> Result<T>,
) -> Result<T> {
    let cached = &dataset.0.table;
    if let Some(table) = cached.get() {
        return with(table);
    }
    if let Some(chunks) = indexed(dataset, chunked)? {
        return with(cached.get_or_init(|| ChunkTable::new(chunked.dims.len(), chunks)));
    }
    let grid = dataset.dims().iter().zip(&chunked.dims).map(|(extent, chunk)| extent.div_ceil(*chunk));
    let places = grid.fold(1, u64::saturating_mul);
    let touched =
        region.iter().map(|range| range.end.saturating_sub(range.start)).fold(1, u64::saturating_mul);
    let map = chunk_map(dataset, chunked);
    if places > SMALL_GRID_CHUNKS && touched < places / 4 {
        let chunks = dataset.object().parse(|image, _| chunk_index::within(image, &map, region))?;
        return with(&ChunkTable::new(chunked.dims.len(), chunks));
    }
    let chunks = dataset.object().parse(|image, _| chunk_index::chunks(image, &map))?;
    with(cached.get_or_init(|| ChunkTable::new(chunked.dims.len(), chunks)))
}

/// Returns all stored chunks, in row-major order, if the file's index has a table of them.
fn indexed(dataset: &Dataset, chunked: &Chunked) -> Result<Option<Vec<Chunk>>> {
    let file = dataset.object().file();
    let Some(index) = &file.0.index else { return Ok(None) };
    let grid = crate::survey::grid(dataset.dims(), &chunked.dims);
    let end = file.size().saturating_sub(file.superblock().base);
    index.chunks(dataset.object().address(), &grid, end)
}

/// Collects the properties of a dataset that locate its chunks.
pub(super) fn chunk_map<'a>(dataset: &'a Dataset, chunked: &'a Chunked) -> ChunkMap<'a> {
    let max = match dataset.dataspace() {
        hyperchunk_format::model::Dataspace::Simple { max, .. } => max.as_slice(),
        _ => &[],
    };
    ChunkMap { chunked, dims: dataset.dims(), max, filtered: !dataset.pipeline().is_empty() }
}
