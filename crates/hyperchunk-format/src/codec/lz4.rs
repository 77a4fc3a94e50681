//! LZ4 (32004): blocks of equal size, each compressed separately. Source: "HDF5 LZ4 filter" (at The HDF
//! Group's list of registered filters); *LZ4 Block Format Description*. The parameter, the size of a block (0
//! for 1 GiB), is only used for encoding.

use super::{Codec, Context, EncodeContext, EncodeOutcome};
use crate::thread_state::with_state;
use crate::{Cursor, Error, ErrorKind, Result};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use std::cell::RefCell;

/// Maximum expansion of an LZ4 block.
const MAX_EXPANSION: u64 = 255;
/// Default size of a block.
const DEFAULT_BLOCK_BYTES: usize = 1 << 30;
/// Maximum size of a block in LZ4.
const MAX_BLOCK_BYTES: usize = 0x7e00_0000;
/// Inputs below this size use smaller tables.
const SMALL_INPUT_BYTES: usize = u16::MAX as usize;

thread_local! {
    /// Hash tables of the compressor, for small and for other inputs; kept because of their size.
    static TABLES: RefCell<Option<[CompressTable; 2]>> = const { RefCell::new(None) };
}

/// LZ4 codec.
#[derive(Debug)]
pub(super) struct Lz4;

impl Codec for Lz4 {
    fn id(&self) -> u16 {
        32004
    }

    fn name(&self) -> &'static str {
        "lz4"
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        self.decode_over(input, output, context)
    }

    fn decode_over(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        let mut cursor = Cursor::new(input, "LZ4 chunk", 0);
        let (size, block) = header(&mut cursor)?;
        if size.div_ceil(MAX_EXPANSION) > cursor.left() as u64 {
            return Err(damaged("too short for its declared size"));
        }
        let output = context.room(output, size)?;
        if block == 0 && size != 0 {
            return Err(damaged("blocks of 0 bytes"));
        }
        for to in output.chunks_mut(block.max(1)) {
            let from = next_block(&mut cursor)?;
            if from.len() == to.len() { to.copy_from_slice(from) } else { decompress(from, to)? }
        }
        Ok(())
    }

    fn encode(
        &self,
        input: &[u8],
        output: &mut Vec<u8>,
        context: &EncodeContext<'_>,
    ) -> Result<EncodeOutcome> {
        let block = match context.parameters.first() {
            Some(size @ 1..) => usize::try_from(*size).unwrap_or(usize::MAX),
            _ => DEFAULT_BLOCK_BYTES,
        };
        if block > MAX_BLOCK_BYTES {
            return Err(Error::invalid(format!("blocks of {block} bytes, more than {MAX_BLOCK_BYTES}")));
        }
        // Limit of the plugin.
        if input.len() > i32::MAX as usize {
            return Ok(EncodeOutcome::Refused);
        }
        let block = block.min(input.len()).max(1);
        let mut frame = Frame::new(output, input.len(), block, bound(block), context)?;
        for from in input.chunks(block) {
            frame.block(|to| {
                let written = compress(from, to)?;
                if written < from.len() {
                    return Ok(written);
                }
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                Ok(from.len())
            })?;
            if frame.is_incompressible {
                return Ok(EncodeOutcome::Refused);
            }
        }
        Ok(EncodeOutcome::Written(frame.at))
    }
}

/// Writer of a chunk as a sequence of blocks, each preceded by its size.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    bytes: &'a mut [u8],
    /// Number of bytes written.
    pub(super) at: usize,
    /// Number of bytes from which on an optional filter saves nothing.
    most: usize,
    /// True if `most` is reached.
    pub(super) is_incompressible: bool,
}

impl<'a> Frame<'a> {
    /// Creates a writer for `size` bytes in blocks of `block`, which take at most `bound` bytes each.
    pub(super) fn new(
        output: &'a mut Vec<u8>,
        size: usize,
        block: usize,
        bound: usize,
        context: &EncodeContext<'_>,
    ) -> Result<Self> {
        let count = size.div_ceil(block.max(1)).saturating_add(1);
        // Once `is_incompressible` is set, no more blocks follow.
        let room = count.saturating_mul(bound.saturating_add(4));
        let most = if context.optional { size } else { usize::MAX };
        let room = room.min(most.saturating_add(bound)).saturating_add(16);
        let mut frame = Self { bytes: context.room(output, room)?, at: 0, most, is_incompressible: false };
        frame.put(&(size as u64).to_be_bytes());
        frame.put(&u32::try_from(block).unwrap_or(u32::MAX).to_be_bytes());
        Ok(frame)
    }

    /// Writes bytes unchanged.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        let end = self.at.saturating_add(bytes.len());
        if let Some(to) = self.bytes.get_mut(self.at..end) {
            to.copy_from_slice(bytes);
        }
        self.at = end;
        self.is_incompressible |= end >= self.most;
    }

    /// Writes a block with `compress`, which returns its length.
    pub(super) fn block(&mut self, compress: impl FnOnce(&mut [u8]) -> Result<usize>) -> Result<()> {
        let start = self.at.saturating_add(4);
        let written = compress(self.bytes.get_mut(start..).unwrap_or_default())?;
        self.put(&u32::try_from(written).unwrap_or(u32::MAX).to_be_bytes());
        self.at = start.saturating_add(written);
        self.is_incompressible |= self.at >= self.most;
        Ok(())
    }
}

/// Returns the maximum compressed size of a block of `size` bytes.
pub(super) fn bound(size: usize) -> usize {
    get_maximum_output_size(size)
}

/// Compresses a block into `to`, which must have [`bound`] bytes; returns the number of bytes.
pub(super) fn compress(from: &[u8], to: &mut [u8]) -> Result<usize> {
    with_state(&TABLES, |tables| {
        let [small, large] = tables.get_or_insert_with(|| [CompressTable::small(), CompressTable::large()]);
        let table = if from.len() < SMALL_INPUT_BYTES { small } else { large };
        compress_into_with_table(from, to, table).map_err(|error| Error::limit(error.to_string()))
    })
}

/// Reads the decoded size of a chunk, and the size of a block; both big-endian.
pub(super) fn header(cursor: &mut Cursor<'_>) -> Result<(u64, usize)> {
    let size = u64::from_be_bytes(cursor.array()?);
    let block = u32::from_be_bytes(cursor.array()?);
    Ok((size, usize::try_from(block).unwrap_or(usize::MAX)))
}

/// Reads the next compressed block, which is preceded by its size.
pub(super) fn next_block<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let size = u32::from_be_bytes(cursor.array()?);
    cursor.take(usize::try_from(size).unwrap_or(usize::MAX))
}

/// Decompresses an LZ4 block into `to`, which must be filled exactly.
pub(super) fn decompress(from: &[u8], to: &mut [u8]) -> Result<()> {
    check(lz4_flex::block::decompress_into(from, to), to.len())
}

/// Decompresses like [`decompress`], with a dictionary.
#[cfg(feature = "blosc")]
pub(super) fn decompress_with(from: &[u8], to: &mut [u8], dictionary: &[u8]) -> Result<()> {
    check(lz4_flex::block::decompress_into_with_dict(from, to, dictionary), to.len())
}

fn check(done: Result<usize, lz4_flex::block::DecompressError>, size: usize) -> Result<()> {
    match done {
        Ok(written) if written == size => Ok(()),
        Ok(written) => Err(damaged(&format!("{written} bytes in a block of {size}"))),
        Err(error) => Err(damaged(&error.to_string())),
    }
}

#[cold]
fn damaged(message: &str) -> Error {
    Error::new(ErrorKind::Filter, format!("damaged LZ4 data: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::{check_damaged, decoded, encoded};

    /// Reference implementation of the encoder, from its description.
    fn filtered(bytes: &[u8], block: usize) -> Vec<u8> {
        let mut output = (bytes.len() as u64).to_be_bytes().to_vec();
        output.extend((block as u32).to_be_bytes());
        for from in bytes.chunks(block) {
            let compressed = lz4_flex::block::compress(from);
            let stored = if compressed.len() < from.len() { &compressed } else { from };
            output.extend((stored.len() as u32).to_be_bytes());
            output.extend(stored);
        }
        output
    }

    #[test]
    fn blocks_compressed_and_not() {
        let bytes: Vec<u8> =
            (0..5000_u32).map(|i| if i < 2000 { i * i % 251 } else { i / 99 } as u8).collect();
        for length in [0, 1, 2, 999, 1000, 1001, 5000] {
            for block in [1, 7, 999, 1000, 1 << 30] {
                let bytes = &bytes[..length];
                let stored = filtered(bytes, block);
                assert_eq!(decoded(&Lz4, &stored, &[], length).unwrap(), bytes, "{length} {block}");
                let own = encoded(&Lz4, bytes, &[block as u32]).unwrap();
                assert_eq!(own, filtered(bytes, block.min(length).max(1)), "{length} {block}");
            }
        }
    }

    #[test]
    fn as_the_plugin_writes_it() {
        // 24 bytes in blocks of 16, by hdf5plugin: the first compressed, the last not.
        let stored = b"\0\0\0\0\0\0\0\x18\0\0\0\x10\0\0\0\n\x16a\x01\0Paaaaa\0\0\0\x08abcdefgh";
        assert_eq!(decoded(&Lz4, stored, &[16], 24).unwrap(), b"aaaaaaaaaaaaaaaaabcdefgh");
    }

    #[test]
    fn damage() {
        let bytes: Vec<u8> = (0..3000).map(|i| (i / 17) as u8).collect();
        check_damaged(&Lz4, &filtered(&bytes, 1000), &[], 3000);
        for (header, kind) in [
            (
                &b"\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\0\0 more bytes, as many as make it pass"[..],
                ErrorKind::Filter,
            ),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x10", ErrorKind::Filter),
            (b"\0\0\0\0\0\0\x20\0\0\0\0\x10 and as many bytes as that would need", ErrorKind::Limit),
        ] {
            assert_eq!(decoded(&Lz4, header, &[], 0x1000).unwrap_err().kind(), kind, "{header:?}");
        }
    }
}
