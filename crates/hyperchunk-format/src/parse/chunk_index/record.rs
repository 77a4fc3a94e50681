//! Records of chunks in an index.

use super::ChunkMap;
use super::linear::Linear;
use crate::model::Chunk;
use crate::{Cursor, Error, Result, Sizes};
use std::ops::Range;

/// Record format of a chunk: address and, if the dataset is filtered, stored size and filter mask.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Format {
    sizes: Sizes,
    /// Size of an unfiltered chunk.
    pub(crate) chunk_bytes: u64,
    /// Width of the stored size; 0 if the dataset is not filtered.
    pub(crate) size_width: usize,
    pub(crate) filtered: bool,
}

impl Format {
    pub(crate) fn new(sizes: Sizes, map: &ChunkMap<'_>) -> Result<Self> {
        let elements = map
            .chunked
            .dims
            .iter()
            .try_fold(map.chunked.element_size, |product, dim| product.checked_mul(*dim));
        let chunk_bytes = elements.ok_or_else(|| Error::corrupt("a chunk of more than 2⁶⁴ bytes"))?;
        let size_width = match map.chunked.version {
            _ if !map.filtered => 0,
            // Leaves room for filters that enlarge chunks.
            ..5 => (chunk_bytes.checked_ilog2().unwrap_or(0).saturating_add(8) / 8).saturating_add(1).min(8),
            _ => sizes.length.into(),
        };
        let size_width = usize::try_from(size_width).unwrap_or(8);
        Ok(Self { sizes, chunk_bytes, size_width, filtered: map.filtered })
    }

    /// Returns the size of a record.
    pub(crate) fn size(&self) -> usize {
        let filtered = if self.filtered { self.size_width.saturating_add(4) } else { 0 };
        usize::from(self.sizes.address).saturating_add(filtered)
    }

    /// Reads the next chunk's address, stored size and filter mask; `None` if it is not stored.
    pub(super) fn parse(&self, cursor: &mut Cursor<'_>) -> Result<Option<(u64, u64, u32)>> {
        let address = cursor.address(self.sizes)?;
        let (size, mask) = match self.filtered {
            true => (cursor.uint(self.size_width)?, cursor.u32()?),
            false => (self.chunk_bytes, 0),
        };
        Ok(address.map(|address| (address, size, mask)))
    }
}

/// Appends the chunks of a region from one part of an array; `bytes` has the records of the chunks `numbers`.
pub(super) fn append(
    linear: &mut Linear,
    format: Format,
    mut bytes: Cursor<'_>,
    numbers: Range<u64>,
    chunks: &mut Vec<Chunk>,
) -> Result<()> {
    let mut at = numbers.start;
    while let Some(run) = linear.next(at).filter(|run| run.start < numbers.end) {
        let skipped = run.start.saturating_sub(at).saturating_mul(format.size() as u64);
        bytes.skip(usize::try_from(skipped).unwrap_or(usize::MAX))?;
        at = run.end.min(numbers.end);
        for number in run.start..at {
            if let Some((address, size, filter_mask)) = format.parse(&mut bytes)? {
                chunks.push(Chunk { scaled: linear.scaled(number), address, size, filter_mask });
            }
        }
        if at == numbers.end {
            break;
        }
    }
    Ok(())
}
