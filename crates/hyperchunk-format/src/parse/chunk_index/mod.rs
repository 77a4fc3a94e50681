//! Chunk lookup: one interface to all chunk indexes. Source: specification §III.A.1 (B-trees), §VII,
//! "Appendix C: Types of Indexes for Dataset Chunks".

mod btree_v1;
mod btree_v2;
mod extensible_array;
mod fixed_array;
mod implicit;
mod linear;
mod record;
mod region;
mod row;

use crate::model::{Chunk, ChunkIndex, Chunked};
use crate::{Error, ErrorKind, Image, Result};
pub(crate) use record::Format;
use region::Region;
use std::ops::Range;

/// Properties of a dataset needed to find its chunks.
#[derive(Debug, Clone, Copy)]
pub struct ChunkMap<'m> {
    /// Layout.
    pub chunked: &'m Chunked,
    /// Current extent.
    pub dims: &'m [u64],
    /// Maximum extent; `None` if unlimited.
    pub max: &'m [Option<u64>],
    /// True if the pipeline has a filter.
    pub filtered: bool,
}

/// Lists all stored chunks, sorted by coordinates. Chunks outside the dataset's extent are omitted.
///
/// # Errors
/// Corrupt, Truncated, Unsupported, Limit; Need.
pub fn chunks(image: Image<'_>, map: &ChunkMap<'_>) -> Result<Vec<Chunk>> {
    let everywhere: Vec<Range<u64>> = map.dims.iter().map(|_| 0..u64::MAX).collect();
    within(image, map, &everywhere)
}

/// Lists the chunks as [`chunks`], but only in a region of the grid of chunks. Reads only the parts of the
/// index that the region needs.
///
/// # Errors
/// As [`chunks`]; Invalid if the region has another rank.
pub fn within(image: Image<'_>, map: &ChunkMap<'_>, region: &[Range<u64>]) -> Result<Vec<Chunk>> {
    let chunk = &map.chunked.dims;
    let rank = map.dims.len();
    if chunk.len() != rank || map.max.len() != rank || rank == 0 {
        return Err(Error::corrupt(format!("chunks of rank {} in a dataset of rank {rank}", chunk.len())));
    }
    if region.len() != rank {
        return Err(Error::invalid(format!("a region of rank {} in a dataset of rank {rank}", region.len())));
    }
    if chunk.contains(&0) {
        return Err(Error::corrupt("a chunk without elements"));
    }
    let counts = chunk.iter().zip(map.dims).map(|(chunk, dim)| dim.div_ceil((*chunk).max(1)));
    let Some(region) = Region::new(region.iter().zip(counts).map(|(r, count)| r.start..r.end.min(count)))
    else {
        return Ok(Vec::new());
    };
    let format = Format::new(image.sizes, map)?;
    let chunked = &map.chunked;
    let chunks = match &chunked.index {
        ChunkIndex::BTreeV1 { address: None }
        | ChunkIndex::Single { address: None, .. }
        | ChunkIndex::Implicit { address: None }
        | ChunkIndex::FixedArray { address: None }
        | ChunkIndex::ExtensibleArray { address: None }
        | ChunkIndex::BTreeV2 { address: None } => Ok(Vec::new()),
        ChunkIndex::BTreeV1 { address: Some(root) } => btree_v1::chunks(image, *root, chunked, &region),
        ChunkIndex::Single { address: Some(address), filtered } => {
            implicit::single(format, &region, *address, *filtered)
        }
        ChunkIndex::Implicit { address: Some(address) } => {
            implicit::chunks(image, *address, map, format, &region)
        }
        ChunkIndex::FixedArray { address: Some(header) } => {
            fixed_array::chunks(image, *header, map, format, &region)
        }
        ChunkIndex::ExtensibleArray { address: Some(header) } => {
            extensible_array::chunks(image, *header, map, format, &region)
        }
        ChunkIndex::BTreeV2 { address: Some(header) } => btree_v2::chunks(image, *header, format, &region),
    };
    chunks.map_err(|error| match error.kind() {
        ErrorKind::Need => error,
        _ => error.within("chunk index"),
    })
}

/// Guesses the file range of all chunks, if the root of the index suggests that they were written one after
/// another. A caller that needs all chunks may then fetch them together with their index. Reads only the root
/// of the index.
///
/// # Errors
/// As [`chunks`].
pub fn in_a_row(image: Image<'_>, map: &ChunkMap<'_>) -> Result<Option<Range<u64>>> {
    let ChunkIndex::BTreeV1 { address: Some(root) } = &map.chunked.index else { return Ok(None) };
    if map.chunked.dims.len() != map.dims.len() || map.chunked.dims.contains(&0) {
        return Ok(None);
    }
    let counts = map.dims.iter().zip(&map.chunked.dims).map(|(dim, chunk)| dim.div_ceil((*chunk).max(1)));
    let counts: Vec<u64> = counts.collect();
    let total = counts.iter().copied().fold(1, u64::saturating_mul);
    let leaves = btree_v1::leaves(image, *root, map.chunked, &counts)?;
    Ok(row::contiguous_range(&leaves, total))
}

#[cfg(test)]
mod tests;
