//! The processor's part: reads stored bytes into page-locked memory, checks headers and checksums of
//! compressed data, and decodes chunks that the GPU cannot.

use super::plan::{Conversion, Task};
use super::{ChunkBytes, Input, Options, Request};
use crate::cufile::RegisteredFile;
use crate::error::fail;
use crate::nvcomp::Algorithm;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::codec::{Context, Decoder, SnappyBlocks, lookup};
use std::os::unix::fs::FileExt as _;

const FLETCHER32: u16 = 3;
/// Sizes of zlib's header and checksum.
const ZLIB_HEADER_BYTES: usize = 2;
const ZLIB_CHECKSUM_BYTES: usize = 4;
/// The LZ4 filter's header: the total size and the block size; before each block, its stored size.
const LZ4_HEADER_BYTES: usize = 12;
const LZ4_SIZE_BYTES: usize = 4;

/// A piece of compressed data: its place in the task's memory, and its destination in the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) from: usize,
    pub(super) bytes: usize,
    pub(super) to: usize,
    pub(super) room: usize,
}

/// The result of preparing a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PreparedTask {
    /// Pieces to decompress.
    pub(super) items: Vec<Item>,
    /// Pieces to copy into the chunk unchanged.
    pub(super) copies: Vec<Item>,
    /// The expected checksum of the decompressed bytes.
    pub(super) adler32: Option<u32>,
    /// True if cuFile read the data, so that they are on the GPU.
    pub(super) by_cufile: bool,
    /// True if the GPU should not process the chunk: the processor decodes it, and reports errors.
    pub(super) needs_host: bool,
}

/// Registers the file with cuFile, if that is used and supports the file.
pub(super) fn register<'a>(request: &Request<'a>, options: &Options<'a>) -> Option<RegisteredFile<'a>> {
    match (options.cufile, request.input) {
        (Some(cufile), Input::File(file)) => cufile.register(file).ok(),
        _ => None,
    }
}

/// Returns whether the processor need not examine the data, so that cuFile may read them.
pub(super) fn is_for_cufile(task: &Task<'_>) -> bool {
    let plain = match task.how {
        Conversion::Plain => true,
        Conversion::Gpu { algorithm, fletcher32, .. } => !fletcher32 && algorithm.is_none(),
        Conversion::Fill | Conversion::Cpu => false,
    };
    plain && matches!(task.stored, ChunkBytes::At { .. })
}

/// Returns the distance of a task's start from the next multiple of 16, chosen so that compressed data are
/// aligned.
pub(super) fn alignment_offset(task: &Task<'_>) -> usize {
    match task.how {
        Conversion::Gpu { algorithm: Some(Algorithm::Deflate), .. } => 16 - ZLIB_HEADER_BYTES,
        _ => 0,
    }
}

/// Fills a task's page-locked memory.
pub(super) fn prepare(
    task: &Task<'_>,
    request: &Request<'_>,
    to: &mut [u8],
    decoder: &mut Decoder,
    scratch: &mut Vec<u8>,
) -> Result<PreparedTask> {
    match task.how {
        Conversion::Cpu => {
            let decoded = decode(task, request, decoder, scratch)?;
            to.copy_from_slice(decoded);
            Ok(PreparedTask::default())
        }
        Conversion::Plain | Conversion::Fill => read(task, request, to).map(|()| PreparedTask::default()),
        Conversion::Gpu { algorithm, fletcher32, .. } => {
            read(task, request, to)?;
            let on_host = PreparedTask { needs_host: true, ..PreparedTask::default() };
            let length = if fletcher32 {
                let context = Context { parameters: &[], expected: None, limit: usize::MAX };
                let kept = lookup(FLETCHER32, |codec| codec.map(|codec| codec.kept(to, &context)));
                match kept {
                    Some(Ok(Some(kept))) if kept <= to.len() => kept,
                    _ => return Ok(on_host),
                }
            } else {
                to.len()
            };
            let stored = &mut to[..length];
            let prepared = match algorithm {
                None => (length >= task.raw).then(PreparedTask::default),
                Some(Algorithm::Snappy) => snappy(stored, task),
                Some(Algorithm::Zstd) => zstd(stored, task),
                Some(Algorithm::Deflate) => zlib(stored, task),
                Some(Algorithm::Lz4) => lz4(stored, task),
            };
            Ok(prepared.unwrap_or(on_host))
        }
    }
}

/// Decodes a task's chunk with the processor.
pub(super) fn decode<'a>(
    task: &Task<'a>,
    request: &Request<'_>,
    decoder: &'a mut Decoder,
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8]> {
    let stored = match task.stored {
        ChunkBytes::Bytes(bytes) => bytes,
        _ => {
            scratch.clear();
            if scratch.try_reserve(task.bytes()).is_err() {
                fail!(Limit, "{}: no memory for {} bytes", task.place(), task.bytes())
            }
            scratch.resize(task.bytes(), 0);
            read(task, request, scratch)?;
            scratch
        }
    };
    let decoded = decoder.decode(request.filters, task.mask, stored, task.raw);
    decoded.map_err(|error| Error::from(error).within(task.place()))
}

/// Reads a task's stored bytes.
fn read(task: &Task<'_>, request: &Request<'_>, to: &mut [u8]) -> Result<()> {
    match (task.stored, request.input) {
        (ChunkBytes::Bytes(bytes) | ChunkBytes::Fill(bytes), _) => {
            to.copy_from_slice(bytes);
            Ok(())
        }
        (ChunkBytes::At { offset, .. }, Input::Reader(reader)) => {
            reader(offset, to).map_err(|error| error.within(task.place()))
        }
        (ChunkBytes::At { offset, .. }, Input::File(file)) => {
            file.read_exact_at(to, offset).map_err(|error| {
                let kind = match error.kind() {
                    std::io::ErrorKind::UnexpectedEof => ErrorKind::Damaged,
                    _ => ErrorKind::Io,
                };
                Error::new(kind, format!("{}: {} bytes: {error}", task.place(), to.len()))
            })
        }
    }
}

/// Prepares a frame of Zstandard (RFC 8878). A frame with a checksum is left to the processor: nvCOMP does
/// not verify it.
fn zstd(stored: &[u8], task: &Task<'_>) -> Option<PreparedTask> {
    let [0x28, 0xb5, 0x2f, 0xfd, descriptor, ..] = stored else { return None };
    if descriptor & 4 != 0 {
        return None;
    }
    let item = Item { from: 0, bytes: stored.len(), to: 0, room: task.raw };
    Some(PreparedTask { items: vec![item], ..PreparedTask::default() })
}

/// Prepares the blocks of the Snappy filter: each stored size is replaced by the preamble of raw Snappy.
fn snappy(stored: &mut [u8], task: &Task<'_>) -> Option<PreparedTask> {
    let blocks = SnappyBlocks::new(stored).ok()?;
    if u64::from(blocks.size()) != task.raw as u64 {
        return None;
    }
    let blocks = blocks.collect::<hyperchunk_format::Result<Vec<_>>>().ok()?;
    let (mut prepared, mut to) = (PreparedTask::default(), 0);
    for block in blocks {
        let (preamble, length) = block.preamble()?;
        let start = block.stored.start.checked_sub(preamble.len())?;
        stored.get_mut(start..block.stored.start)?.copy_from_slice(&preamble);
        let (bytes, room) = (length + block.stored.len(), block.size as usize);
        prepared.items.push(Item { from: block.stored.start - length, bytes, to, room });
        to += room;
    }
    Some(prepared)
}

/// Prepares the data between the header and the checksum of a zlib stream (RFC 1950).
fn zlib(stored: &[u8], task: &Task<'_>) -> Option<PreparedTask> {
    let end = stored.len().checked_sub(ZLIB_CHECKSUM_BYTES).filter(|end| *end > ZLIB_HEADER_BYTES)?;
    let header = u16::from_be_bytes([stored[0], stored[1]]);
    let (method, has_dictionary) = (stored[0] & 15, stored[1] & 0x20 != 0);
    if method != 8 || has_dictionary || !header.is_multiple_of(31) {
        return None;
    }
    let checksum = stored[end..].try_into().ok().map(u32::from_be_bytes)?;
    let item = Item { from: ZLIB_HEADER_BYTES, bytes: end - ZLIB_HEADER_BYTES, to: 0, room: task.raw };
    Some(PreparedTask { items: vec![item], adler32: Some(checksum), ..PreparedTask::default() })
}

/// Prepares the blocks of the LZ4 filter, moved so that each begins at a multiple of four.
fn lz4(stored: &mut [u8], task: &Task<'_>) -> Option<PreparedTask> {
    let size = u64::from_be_bytes(stored.get(..8)?.try_into().ok()?);
    let block = u32::from_be_bytes(stored.get(8..LZ4_HEADER_BYTES)?.try_into().ok()?) as usize;
    if size != task.raw as u64 || block == 0 || (!block.is_multiple_of(8) && block < task.raw) {
        return None;
    }
    let mut prepared = PreparedTask::default();
    let (mut at, mut free) = (LZ4_HEADER_BYTES, 0_usize);
    for to in (0..task.raw).step_by(block) {
        let room = block.min(task.raw - to);
        let bytes = u32::from_be_bytes(stored.get(at..at + LZ4_SIZE_BYTES)?.try_into().ok()?) as usize;
        at += LZ4_SIZE_BYTES;
        let end = at.checked_add(bytes).filter(|end| *end <= stored.len())?;
        // Blocks only move forward in memory: the four bytes before each are dropped, and at most three are
        // added.
        let from = free.next_multiple_of(4);
        stored.copy_within(at..end, from);
        let item = Item { from, bytes, to, room };
        // An incompressible block is stored unchanged.
        if bytes == room {
            prepared.copies.push(item)
        } else {
            prepared.items.push(item)
        }
        (at, free) = (end, from + bytes);
    }
    Some(prepared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::geometry::Copy;
    use hyperchunk_format::codec::{Codec as _, EncodeContext, EncodeOutcome, Snappy};

    fn task(raw: usize) -> Task<'static> {
        let how = Conversion::Gpu { algorithm: None, shuffle: None, fletcher32: false };
        Task { stored: ChunkBytes::Bytes(&[]), mask: 0, how, raw, copies: Vec::<Copy>::new() }
    }

    #[test]
    fn zlib_streams() {
        let check = |stored: &[u8]| zlib(stored, &task(9));
        let nine = [0x78, 0x9c, 0x33, 0x34, 0x00, 0x09, 0x1e, 0x01, 0xde];
        let found = check(&nine).unwrap();
        assert_eq!((found.items[0].from, found.items[0].bytes, found.adler32), (2, 3, Some(0x091e_01de)));
        for wrong in [
            &nine[..6],
            &[],
            &[0x79, 0x9c, 1, 2, 3, 4, 5],
            &[0x78, 0x9d, 1, 2, 3, 4, 5],
            &[0x78, 0xbb, 1, 2, 3, 4, 5],
        ] {
            assert_eq!(check(wrong), None, "{wrong:x?}");
        }
    }

    #[test]
    fn zstandard_frames() {
        let check = |stored: &[u8]| zstd(stored, &task(9)).map(|found| found.items[0].bytes);
        assert_eq!(check(&[0x28, 0xb5, 0x2f, 0xfd, 0x20, 9, 1, 0, 0]), Some(9));
        assert_eq!(check(&[0x28, 0xb5, 0x2f, 0xfd, 0x24, 9, 1, 0, 0]), None);
        assert_eq!(check(&[0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]), None);
        assert_eq!(check(&[0x28, 0xb5, 0x2f, 0xfd]), None);
    }

    #[test]
    fn lz4_blocks_move_together() {
        let mut stored = Vec::new();
        stored.extend(20_u64.to_be_bytes());
        stored.extend(8_u32.to_be_bytes());
        for block in [&b"abc"[..], b"12345678", b"xy"] {
            stored.extend((block.len() as u32).to_be_bytes());
            stored.extend(block);
        }
        let check = |stored: &[u8], raw: usize| lz4(&mut stored.to_vec(), &task(raw));
        let mut moved = stored.clone();
        let found = lz4(&mut moved, &task(20)).unwrap();
        let item = |from, bytes, to, room| Item { from, bytes, to, room };
        assert_eq!(found.items, [item(0, 3, 0, 8), item(12, 2, 16, 4)]);
        assert_eq!(found.copies, [item(4, 8, 8, 8)]);
        assert_eq!((&moved[..3], &moved[4..12], &moved[12..14]), (&b"abc"[..], &b"12345678"[..], &b"xy"[..]));
        assert_eq!(check(&stored, 21), None);
        for length in 0..stored.len() {
            assert_eq!(check(&stored[..length], 20), None, "{length}");
        }
        stored[12] = 0xff;
        assert_eq!(check(&stored, 20), None);
    }

    #[test]
    fn snappy_blocks_get_their_preambles() {
        let chunk: Vec<u8> = (0..5000_u32).map(|i| (i / 40) as u8).collect();
        let context = EncodeContext { parameters: &[2048], optional: false };
        let mut stored = Vec::new();
        let EncodeOutcome::Written(size) = Snappy.encode(&chunk, &mut stored, &context).unwrap() else {
            panic!("refused")
        };
        stored.truncate(size);
        let found = snappy(&mut stored.clone(), &task(5000)).unwrap();
        let rooms: Vec<_> = found.items.iter().map(|item| (item.to, item.room)).collect();
        assert_eq!(rooms, [(0, 2048), (2048, 2048), (4096, 904)]);
        let mut moved = stored.clone();
        snappy(&mut moved, &task(5000)).unwrap();
        for item in found.items {
            // The preamble is the block's size in groups of seven bits.
            let [low, high] = [moved[item.from], moved[item.from + 1]].map(usize::from);
            assert_eq!((low & 0x7f) + high * 128, item.room);
        }
        assert_eq!(snappy(&mut stored.clone(), &task(4999)), None);
        for length in 0..stored.len() {
            assert_eq!(snappy(&mut stored[..length].to_vec(), &task(5000)), None, "{length}");
        }
    }
}
