//! Indexes without a structure: a single chunk, or all chunks contiguous. Source: specification §VII.A and B,
//! "The Single Chunk Index", "The Implicit Index".

use super::EncodedIndex;
use super::linear::Linear;
use crate::model::{Chunk, ChunkIndex};
use crate::parse::chunk_index::{ChunkMap, Format};
use crate::{Error, Result};

/// Returns the index of a single chunk, which is stored entirely in the layout message.
pub(super) fn single(map: &ChunkMap<'_>, chunks: &[&Chunk]) -> Result<EncodedIndex> {
    let larger = map.dims.iter().zip(&map.chunked.dims).any(|(dim, chunk)| dim > chunk);
    let [chunk] = chunks else { return Err(Error::invalid("a single chunk, and the dataset has more")) };
    if larger || map.max.contains(&None) {
        return Err(Error::invalid("a single chunk that is smaller than the dataset's maximum extent"));
    }
    let filtered = map.filtered.then_some((chunk.size, chunk.filter_mask));
    Ok(ChunkIndex::Single { address: Some(chunk.address), filtered }.into())
}

/// Checks that the chunks are contiguous, so that the first address determines all.
pub(super) fn chunks(map: &ChunkMap<'_>, format: &Format, chunks: &[&Chunk]) -> Result<EncodedIndex> {
    if map.filtered || map.max.contains(&None) {
        return Err(Error::invalid("an implicit index for filtered chunks or an unlimited dimension"));
    }
    let mut dims = map.dims.iter().zip(&map.chunked.dims);
    let all = dims.try_fold(1_u64, |all, (dim, chunk)| all.checked_mul(dim.div_ceil((*chunk).max(1))));
    if all != Some(chunks.len() as u64) {
        return Err(Error::invalid(format!(
            "an implicit index of {} chunks, and the dataset has more",
            chunks.len()
        )));
    }
    let numbered = Linear::new(map, 0).number(chunks, u64::MAX)?;
    let first = chunks.first().map(|chunk| chunk.address);
    for (number, chunk) in numbered {
        let expected =
            number.checked_mul(format.chunk_bytes).zip(first).and_then(|(at, first)| first.checked_add(at));
        if expected != Some(chunk.address) {
            let message =
                format!("chunk {:?} is not contiguous, as an implicit index requires", chunk.scaled);
            return Err(Error::invalid(message));
        }
    }
    Ok(ChunkIndex::Implicit { address: first }.into())
}

/// True if the chunks, given once each in any order, are all chunks of the dataset, stored contiguously and
/// in order.
pub(super) fn side_by_side(map: &ChunkMap<'_>, chunks: &[Chunk]) -> bool {
    let counts = || map.dims.iter().zip(&map.chunked.dims).map(|(dim, chunk)| dim.div_ceil((*chunk).max(1)));
    let all = counts().try_fold(1_u64, u64::checked_mul);
    let size = chunks.first().map(|chunk| chunk.size);
    let Some((first, size)) = chunks.iter().map(|chunk| chunk.address).min().zip(size) else { return false };
    let lies_there = |chunk: &Chunk| {
        let number = chunk.scaled.iter().zip(counts()).try_fold(0_u64, |number, (at, count)| {
            number.checked_mul(count)?.checked_add(*at).filter(|_| *at < count)
        });
        let place = number.and_then(|number| number.checked_mul(size)?.checked_add(first));
        place == Some(chunk.address) && chunk.size == size
    };
    all == Some(chunks.len() as u64) && chunks.iter().all(lies_there)
}
