//! Compression of one zlib stream by several threads. Each compresses a part of the input, without matches in
//! other parts. Source: RFC 1950, sections 2.2 and 8.2 (checksum); RFC 1951, section 3.2.3 (blocks).
//!
//! In a part other than the last one, the last block is changed to be followed by others, and an empty stored
//! block continues the stream at a byte, as zlib's `Z_SYNC_FLUSH` does.

use super::{last_block, libdeflate};
use crate::Result;
use crate::codec::EncodeContext;
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

/// Minimum size of a part. Level 4 compresses so much in 0.3 ms; a thread takes a tenth of it to start.
const MIN_PART_BYTES: usize = 32 << 10;
/// Maximum number of parts for each thread. Some parts take longer than others: after the filter shuffle, one
/// half of the bytes may be zeros.
const MAX_PARTS_PER_THREAD: usize = 4;
/// Minimum size of a part at levels below [`MIN_SLOW_LEVEL`]. Level 1 compresses so much in 0.5 ms.
const MIN_FAST_PART_BYTES: usize = 128 << 10;
/// Lowest level at which parts may have [`MIN_PART_BYTES`].
const MIN_SLOW_LEVEL: i32 = 4;
/// Size of the stream's header, CMF and FLG.
const HEADER_BYTES: usize = 2;
/// Size of the checksum at the end of the stream.
const CHECKSUM_BYTES: usize = 4;
/// Maximum number of bytes that an empty stored block appends to a part.
const JOINT_BYTES: usize = 5;
/// Modulus of the checksum.
const ADLER_MODULUS: u64 = 65_521;

/// A compressed part of the input.
#[derive(Clone, Copy)]
struct Part {
    /// Number of compressed bytes.
    length: usize,
    /// Number of bytes before compression.
    decoded: usize,
    /// Checksum of the bytes before compression.
    checksum: u32,
}

/// Compresses `from` into the start of `to`, on at most `threads` threads, the calling one included. Returns
/// the number of bytes. Returns `None` if it takes only one thread.
///
/// # Errors
/// Limit if memory is insufficient.
pub(super) fn compress(
    from: &[u8],
    to: &mut Vec<u8>,
    level: i32,
    threads: usize,
    context: &EncodeContext<'_>,
) -> Result<Option<usize>> {
    let minimum = if level < MIN_SLOW_LEVEL { MIN_FAST_PART_BYTES } else { MIN_PART_BYTES };
    let most = threads.saturating_mul(MAX_PARTS_PER_THREAD);
    let count = most.min(from.len().checked_div(minimum).unwrap_or(0));
    // Level 0 only copies.
    if threads < 2 || count < 2 || level == 0 {
        return Ok(None);
    }
    compress_parts(from, to, level, (threads, count), context)
}

/// Compresses `from` into the start of `to`, in up to `count` parts, each by the first thread that is free.
fn compress_parts(
    from: &[u8],
    to: &mut Vec<u8>,
    level: i32,
    (threads, count): (usize, usize),
    context: &EncodeContext<'_>,
) -> Result<Option<usize>> {
    let part_size = from.len().div_ceil(count.max(1)).max(1);
    let slot = libdeflate::raw_bound(part_size, level)?.saturating_add(JOINT_BYTES);
    let parts = from.len().div_ceil(part_size);
    let size = slot.saturating_mul(parts).saturating_add(HEADER_BYTES + CHECKSUM_BYTES);
    let room = context.room(to, size)?;
    let Some((head, slots)) = room.split_at_mut_checked(HEADER_BYTES) else { return Ok(None) };
    head.copy_from_slice(&header(level));
    let jobs = Mutex::new(from.chunks(part_size).zip(slots.chunks_mut(slot)).enumerate());
    let work = || {
        let mut done = Vec::new();
        loop {
            let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((index, (from, to))) = next else { return Some(done) };
            done.push((index, compress_part(from, to, level, index.saturating_add(1) == parts)?));
        }
    };
    let done = std::thread::scope(|scope| {
        let start = || Builder::new().name("hyperchunk-deflate".into()).spawn_scoped(scope, work);
        // If no further thread can be started, the others do its work.
        let others: Vec<_> = (1..threads.min(parts)).map_while(|_| start().ok()).collect();
        let mut all = work();
        for other in others {
            let more = other.join().ok().flatten();
            all = all.zip(more).map(|(all, more)| [all, more].concat());
        }
        all
    });
    let Some(mut done) = done.filter(|done| done.len() == parts) else { return Ok(None) };
    done.sort_unstable_by_key(|(index, _)| *index);
    let parts: Vec<Part> = done.into_iter().map(|(_, part)| part).collect();
    Ok(join(room, slot, &parts))
}

/// Compresses a part. `None` if the part cannot be continued.
fn compress_part(from: &[u8], to: &mut [u8], level: i32, is_last: bool) -> Option<Part> {
    let length = libdeflate::compress_raw(from, to, level).ok()??;
    let length = if is_last { length } else { continued(to, length, from.len())? };
    Some(Part { length, decoded: from.len(), checksum: libdeflater::adler32(from) })
}

/// Changes a raw deflate stream of `length` bytes, which decompresses to `decoded` bytes, so that another one
/// can follow. Returns the new length.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "positions in bits are those of a slice that `find` has read"
)]
fn continued(stream: &mut [u8], length: usize, decoded: usize) -> Option<usize> {
    let last = last_block::find(stream.get(..length)?)?;
    if last.decoded != decoded as u64 || last.end.div_ceil(8) != length {
        return None;
    }
    *stream.get_mut(last.header / 8)? &= !(1 << (last.header % 8));
    let used = last.end % 8;
    if used > 0 {
        *stream.get_mut(last.end / 8)? &= (1 << used) - 1;
    }
    // BFINAL and BTYPE, of three bits and all zero, and padding.
    let end = (last.end + 3).div_ceil(8);
    stream.get_mut(length..end)?.fill(0);
    stream.get_mut(end..end + 4)?.copy_from_slice(&[0, 0, 0xff, 0xff]);
    Some(end + 4)
}

/// Joins parts that are stored `slot` bytes apart; returns the size of the stream.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "all positions are in the slice, whose size was computed with them"
)]
fn join(stream: &mut [u8], slot: usize, parts: &[Part]) -> Option<usize> {
    let (mut end, mut checksum) = (HEADER_BYTES, 1);
    for (index, part) in parts.iter().enumerate() {
        let start = HEADER_BYTES + index * slot;
        if start > end {
            stream.copy_within(start..start + part.length, end);
        }
        end += part.length;
        checksum = joined_checksum(checksum, part);
    }
    stream.get_mut(end..end + CHECKSUM_BYTES)?.copy_from_slice(&checksum.to_be_bytes());
    Some(end + CHECKSUM_BYTES)
}

/// Returns the checksum (Adler-32) of some bytes and a part that follows them.
#[expect(clippy::arithmetic_side_effects, reason = "the modulus has 16 bits, products 33")]
fn joined_checksum(before: u32, part: &Part) -> u32 {
    let sums = |checksum: u32| (u64::from(checksum & 0xffff), u64::from(checksum >> 16));
    let ((first, second), (part_first, part_second)) = (sums(before), sums(part.checksum));
    // The part's own sums begin with 1 and 0, but are continued from `first` and `second`.
    let shift = first + ADLER_MODULUS - 1;
    let low = (shift + part_first) % ADLER_MODULUS;
    let high = (second + part_second + part.decoded as u64 % ADLER_MODULUS * shift) % ADLER_MODULUS;
    u32::try_from(high << 16 | low).unwrap_or_default()
}

/// Returns the header of a stream: deflate with a window of 32 KiB, and zlib's class of levels, as libdeflate
/// assigns it.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "a header has 16 bits, of which the lowest five are added here"
)]
fn header(level: i32) -> [u8; HEADER_BYTES] {
    let class = match level {
        ..2 => 0,
        2..6 => 1,
        6..8 => 2,
        8.. => 3,
    };
    let header = 0x7800 | class << 6;
    (header + 31 - header % 31_u16).to_be_bytes()
}

#[cfg(test)]
mod tests;
