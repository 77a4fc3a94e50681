//! Records of chunks in an index.

use super::linear::{NumberedChunk, split_before};
use crate::checksum::lookup3;
use crate::encode::UNDEFINED;
use crate::model::Chunk;
use crate::parse::chunk_index::Format;
use crate::{Error, Result};
use std::ops::Range;

/// Size of a checksum.
pub(super) const CHECKSUM_BYTES: u64 = 4;

/// Maximum size of an index that is built in memory. A larger array would consist mostly of unused entries.
const MAX_INDEX_BYTES: u64 = 1 << 32;

/// Checks the size of an array's blocks for building it in memory.
///
/// # Errors
/// Limit if the size is unknown or too large.
pub(super) fn fitting(bytes: Option<u64>) -> Result<usize> {
    bytes
        .filter(|bytes| *bytes <= MAX_INDEX_BYTES)
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| Error::limit("an array far larger than its chunks need: use a version 2 B-tree"))
}

/// Appends the record of a chunk.
pub(super) fn push(bytes: &mut Vec<u8>, format: &Format, chunk: &Chunk) {
    bytes.extend_from_slice(&chunk.address.to_le_bytes());
    if format.filtered {
        // Larger sizes were refused before.
        let size = chunk.size.to_le_bytes();
        bytes.extend_from_slice(size.get(..format.size_width).unwrap_or(&size));
        bytes.extend_from_slice(&chunk.filter_mask.to_le_bytes());
    }
}

/// Appends the records of `count` chunks that are not stored.
fn push_none(bytes: &mut Vec<u8>, format: &Format, count: u64) {
    let added = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(format.size());
    if format.filtered {
        for _ in 0..count {
            bytes.extend_from_slice(&UNDEFINED.to_le_bytes());
            bytes.resize(bytes.len().saturating_add(format.size().saturating_sub(8)), 0);
        }
    } else {
        bytes.resize(bytes.len().saturating_add(added), 0xff);
    }
}

/// Appends a part of an array: the records of these numbers, of which `chunks` are stored.
pub(super) fn push_all(
    bytes: &mut Vec<u8>,
    format: &Format,
    numbers: Range<u64>,
    chunks: &[NumberedChunk<'_>],
) {
    let mut at = numbers.start;
    for (number, chunk) in chunks {
        push_none(bytes, format, number.saturating_sub(at));
        push(bytes, format, chunk);
        at = number.saturating_add(1);
    }
    push_none(bytes, format, numbers.end.saturating_sub(at));
}

/// Appends the pages of an array, each with its checksum. Pages without a stored chunk stay zero; the bitmap
/// marks them as uninitialized.
pub(super) fn push_pages(
    bytes: &mut Vec<u8>,
    format: &Format,
    numbers: Range<u64>,
    page: u64,
    chunks: &[NumberedChunk<'_>],
) {
    let mut rest = chunks;
    let mut start = numbers.start;
    while start < numbers.end {
        let end = start.saturating_add(page.max(1)).min(numbers.end);
        let (inside, after) = split_before(rest, end);
        let at = bytes.len();
        if inside.is_empty() {
            let length =
                end.saturating_sub(start).saturating_mul(format.size() as u64).saturating_add(CHECKSUM_BYTES);
            bytes.resize(at.saturating_add(usize::try_from(length).unwrap_or(usize::MAX)), 0);
        } else {
            push_all(bytes, format, start..end, inside);
            push_checksum(bytes, at);
        }
        (rest, start) = (after, end);
    }
}

/// Sets the bits of the pages with stored chunks. `first` is the bit of the page that starts with chunk
/// number `start`. Bits count from the most significant one of each byte.
pub(super) fn set_bits(bits: &mut [u8], first: u64, start: u64, page: u64, chunks: &[NumberedChunk<'_>]) {
    for (number, _) in chunks {
        let bit = number.saturating_sub(start).checked_div(page).unwrap_or(0).saturating_add(first);
        if let Some(byte) = usize::try_from(bit / 8).ok().and_then(|byte| bits.get_mut(byte)) {
            *byte |= 0x80_u8 >> (bit % 8);
        }
    }
}

/// Appends the checksum of all bytes from `start` on.
pub(super) fn push_checksum(bytes: &mut Vec<u8>, start: usize) {
    let sum = lookup3(bytes.get(start..).unwrap_or_default());
    bytes.extend_from_slice(&sum.to_le_bytes());
}
