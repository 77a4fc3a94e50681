//! Indexes without a structure: a single chunk, or all chunks contiguous. Source: specification §VII.A and B,
//! "The Single Chunk Index", "The Implicit Index".

use super::ChunkMap;
use super::linear::Linear;
use super::record::Format;
use super::region::Region;
use crate::model::Chunk;
use crate::{Error, ErrorKind, Image, Result};

/// Returns the only chunk; its stored size and filter mask are in the layout message.
pub(super) fn single(
    format: Format,
    region: &Region,
    address: u64,
    filtered: Option<(u64, u32)>,
) -> Result<Vec<Chunk>> {
    let scaled = vec![0; region.rank()];
    if region.ranges().iter().any(|range| range.end > 1) {
        return Err(Error::corrupt("a single chunk that is smaller than the dataset"));
    }
    let (size, filter_mask) = filtered.unwrap_or((format.chunk_bytes, 0));
    Ok(vec![Chunk { scaled, address, size, filter_mask }])
}

/// Returns the chunks that are stored contiguously from `address` on.
pub(super) fn chunks(
    image: Image<'_>,
    address: u64,
    map: &ChunkMap<'_>,
    format: Format,
    region: &Region,
) -> Result<Vec<Chunk>> {
    let mut linear = Linear::new(map, region, 0)?;
    let mut chunks = Vec::new();
    let mut from = 0;
    let size = format.chunk_bytes;
    while let Some(run) = linear.next(from) {
        let end = run.end.checked_mul(size).filter(|end| *end <= image.left(address));
        if end.is_none() {
            let message = format!("the file ends before the end of {} chunks of {size} bytes", run.end);
            return Err(Error::new(ErrorKind::Truncated, message).at(image.offset(address)?));
        }
        for number in run.clone() {
            image.visit()?;
            let address = address.saturating_add(number.saturating_mul(size));
            chunks.push(Chunk { scaled: linear.scaled(number), address, size, filter_mask: 0 });
        }
        from = run.end;
    }
    Ok(chunks)
}
