//! Numbering of chunks, for the indexes that number all chunks of the maximum extent.

use crate::model::Chunk;
use crate::parse::chunk_index::ChunkMap;
use crate::{Error, Result};

/// Chunk with its number.
pub(super) type NumberedChunk<'c> = (u64, &'c Chunk);

/// Row-major numbering of chunks.
#[derive(Debug)]
pub(super) struct Linear {
    /// Stride of each axis; `None` beyond 2⁶⁴.
    strides: Vec<Option<u64>>,
    /// Number of chunks of the maximum extent; `None` beyond 2⁶⁴ or if unlimited.
    pub(super) count: Option<u64>,
}

impl Linear {
    /// Creates a row-major numbering with the axis `slowest` moved to the front.
    pub(super) fn new(map: &ChunkMap<'_>, slowest: usize) -> Self {
        let mut strides = vec![None; map.max.len()];
        let mut stride = Some(1_u64);
        for axis in (0..strides.len()).filter(|axis| *axis != slowest).rev().chain([slowest]) {
            if let Some(own) = strides.get_mut(axis) {
                *own = stride;
            }
            let count = map.max.get(axis).copied().flatten().zip(map.chunked.dims.get(axis));
            stride = stride
                .zip(count)
                .and_then(|(step, (max, dim))| step.checked_mul(max.div_ceil((*dim).max(1))));
        }
        Self { strides, count: stride }
    }

    /// Numbers the chunks and sorts them. All numbers must be less than `end`.
    ///
    /// # Errors
    /// Limit if a number is not.
    pub(super) fn number<'c>(&self, chunks: &[&'c Chunk], end: u64) -> Result<Vec<NumberedChunk<'c>>> {
        let mut numbered = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let mut axes = chunk.scaled.iter().zip(&self.strides);
            let number = axes.try_fold(0_u64, |number, (at, stride)| match (at, stride) {
                (0, _) => Some(number),
                (at, stride) => number.checked_add(at.checked_mul((*stride)?)?),
            });
            let number = number.filter(|number| *number < end).ok_or_else(|| {
                Error::limit(format!(
                    "chunk {:?} is beyond the {end} chunks that the index can have",
                    chunk.scaled
                ))
            })?;
            numbered.push((number, *chunk));
        }
        if !numbered.is_sorted_by_key(|(number, _)| *number) {
            numbered.sort_unstable_by_key(|(number, _)| *number);
        }
        Ok(numbered)
    }
}

/// Splits the chunks into the ones with numbers less than `end`, and the rest.
pub(super) fn split_before<'n, 'c>(
    chunks: &'n [NumberedChunk<'c>],
    end: u64,
) -> (&'n [NumberedChunk<'c>], &'n [NumberedChunk<'c>]) {
    let at = chunks.partition_point(|(number, _)| *number < end);
    chunks.split_at_checked(at).unwrap_or((chunks, &[]))
}
