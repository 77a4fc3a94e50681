//! Snappy (32003): blocks of equal size, each compressed separately, as in HDF5-UDF's filter for GPUs.
//! Source: Snappy's *format description*; the chunks written by snappy-cuda. The parameter, the size of a
//! block (32 KiB), is only used for encoding.
//!
//! A chunk has its size and the size of a block, both as Snappy's variable-length integers of up to 32 bits,
//! and then the blocks: a block's stored size (four bytes, little-endian), and a Snappy stream without its
//! preamble.

use super::filter::SNAPPY_BLOCKS as BLOCKS;
use super::{Codec, Context, EncodeContext, EncodeOutcome};
use crate::thread_state::with_state;
use crate::{Cursor, Error, ErrorKind, Result};
use snap::raw::max_compress_len;
use std::cell::RefCell;
use std::ops::Range;

/// Default size of a block, snappy-cuda's.
const DEFAULT_BLOCK_BYTES: u32 = 32 << 10;
/// Maximum expansion of a Snappy stream: 3 bytes for 64.
const MAX_EXPANSION: u64 = 22;
/// Size in bytes of a block's stored size.
const SIZE_BYTES: usize = 4;

thread_local! {
    /// Compressor, kept because of its size.
    static ENCODER: RefCell<Option<snap::raw::Encoder>> = const { RefCell::new(None) };
    /// Block with its preamble.
    static STREAM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Snappy codec, for direct use.
#[derive(Debug, Clone, Copy)]
pub struct Snappy;

/// Block of a Snappy chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnappyBlock {
    /// Range of its Snappy stream in the chunk. The four bytes before it are its stored size.
    pub stored: Range<usize>,
    /// Decoded size in bytes.
    pub size: u32,
}

impl SnappyBlock {
    /// Returns four bytes, and the number of the last ones of them that are the preamble with which any
    /// Snappy library can read the stream. The four bytes may replace the block's stored size, directly
    /// before the stream.
    ///
    /// `None` for blocks of 256 MiB and more, whose preamble does not fit.
    #[must_use]
    pub fn preamble(&self) -> Option<([u8; SIZE_BYTES], usize)> {
        let (bytes, length) = varint(self.size);
        let preamble = bytes.get(..length)?;
        let mut slot = [0; SIZE_BYTES];
        slot.get_mut(SIZE_BYTES.checked_sub(length)?..)?.copy_from_slice(preamble);
        Some((slot, length))
    }
}

/// Iterator over the blocks of a chunk.
#[derive(Debug)]
pub struct SnappyBlocks<'a> {
    stored: &'a [u8],
    cursor: Cursor<'a>,
    size: u32,
    block: u32,
    left: u32,
}

impl<'a> SnappyBlocks<'a> {
    /// Creates an iterator over the blocks of `stored`.
    ///
    /// # Errors
    /// Filter if the chunk is damaged, or its declared size exceeds the maximum expansion.
    pub fn new(stored: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(stored, "Snappy chunk", 0);
        let (size, block) = (read_varint(&mut cursor)?, read_varint(&mut cursor)?);
        if block == 0 && size > 0 {
            return Err(damaged("blocks of 0 bytes"));
        }
        if u64::from(size).div_ceil(MAX_EXPANSION) > cursor.left() as u64 {
            return Err(damaged("too short for its declared size"));
        }
        Ok(Self { stored, cursor, size, block, left: size })
    }

    /// Returns the decoded size of the chunk in bytes.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the decoded size of each block except the last.
    #[must_use]
    pub fn block(&self) -> u32 {
        self.block
    }

    fn read(&mut self) -> Result<Option<SnappyBlock>> {
        if self.left == 0 {
            return match self.cursor.left() {
                0 => Ok(None),
                more => Err(damaged(&format!("{more} bytes after the last block"))),
            };
        }
        let length = usize::try_from(self.cursor.u32()?).unwrap_or(usize::MAX);
        let start = self.stored.len().saturating_sub(self.cursor.left());
        self.cursor.skip(length)?;
        let size = self.left.min(self.block);
        self.left = self.left.saturating_sub(size);
        Ok(Some(SnappyBlock { stored: start..start.saturating_add(length), size }))
    }
}

impl Iterator for SnappyBlocks<'_> {
    type Item = Result<SnappyBlock>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.read().transpose();
        if matches!(next, Some(Err(_))) {
            // After an error the iteration ends.
            (self.left, self.cursor) = (0, Cursor::new(&[], "Snappy chunk", 0));
        }
        next
    }
}

impl Codec for Snappy {
    fn id(&self) -> u16 {
        32003
    }

    fn name(&self) -> &'static str {
        "snappy"
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        self.decode_over(input, output, context)
    }

    fn decode_over(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        let mut blocks = SnappyBlocks::new(input)?;
        let mut rest = context.room(output, blocks.size().into())?;
        for block in &mut blocks {
            let block = block?;
            let size = usize::try_from(block.size).unwrap_or(usize::MAX);
            let (to, after) = rest.split_at_mut_checked(size).unwrap_or_default();
            decompress(input.get(block.stored.clone()).unwrap_or_default(), block.size, to)?;
            rest = after;
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
            None | Some(0) => DEFAULT_BLOCK_BYTES,
            Some(size) if BLOCKS.contains(size) => *size,
            Some(size) => {
                let (least, most) = (BLOCKS.start(), BLOCKS.end());
                return Err(Error::invalid(format!("blocks of {size} bytes: expected {least} to {most}")));
            }
        };
        let Ok(size) = u32::try_from(input.len()) else { return Ok(EncodeOutcome::Refused) };
        let length = usize::try_from(block).unwrap_or(usize::MAX).min(input.len()).max(1);
        let bound = max_compress_len(length).saturating_add(SIZE_BYTES);
        // Once `most` is reached, no more blocks follow.
        let most = if context.optional { input.len() } else { usize::MAX };
        let blocks = input.len().div_ceil(length).saturating_mul(bound);
        let room = blocks.min(most.saturating_add(bound)).saturating_add(2 * MAX_VARINT_BYTES);
        let output = context.room(output, room)?;
        let mut at = 0;
        for (bytes, length) in [varint(size), varint(block)] {
            put(output, at, bytes.get(..length).unwrap_or_default());
            at = at.saturating_add(length);
        }
        for from in input.chunks(length) {
            at = at.saturating_add(compress(from, output.get_mut(at..).unwrap_or_default())?);
            if at >= most {
                return Ok(EncodeOutcome::Refused);
            }
        }
        Ok(if at >= most { EncodeOutcome::Refused } else { EncodeOutcome::Written(at) })
    }
}

/// Compresses a block, preceded by its stored size; returns the total number of bytes.
fn compress(from: &[u8], to: &mut [u8]) -> Result<usize> {
    // The stream has a preamble of at most three bytes, which ends at the end of the stored size.
    let size = u32::try_from(from.len()).unwrap_or(u32::MAX);
    let (_, preamble) = varint(size);
    let start = SIZE_BYTES.saturating_sub(preamble);
    let compress = |encoder: &mut Option<snap::raw::Encoder>| {
        encoder
            .get_or_insert_with(snap::raw::Encoder::new)
            .compress(from, to.get_mut(start..).unwrap_or_default())
    };
    let written = with_state(&ENCODER, compress).map_err(|error| Error::limit(error.to_string()))?;
    let stream = written.saturating_sub(preamble);
    put(to, 0, &u32::try_from(stream).unwrap_or(u32::MAX).to_le_bytes());
    Ok(stream.saturating_add(SIZE_BYTES))
}

/// Decompresses a block into `to`, which must be filled exactly.
fn decompress(from: &[u8], size: u32, to: &mut [u8]) -> Result<()> {
    with_state(&STREAM, |stream| {
        let (preamble, length) = varint(size);
        stream.clear();
        stream.extend_from_slice(preamble.get(..length).unwrap_or_default());
        stream.extend_from_slice(from);
        match snap::raw::Decoder::new().decompress(stream, to) {
            Ok(written) if written == to.len() => Ok(()),
            Ok(written) => Err(damaged(&format!("{written} bytes in a block of {}", to.len()))),
            Err(error) => Err(damaged(&error.to_string())),
        }
    })
}

fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(to) = to.get_mut(at..at.saturating_add(bytes.len())) {
        to.copy_from_slice(bytes);
    }
}

/// Maximum length of a variable-length integer.
const MAX_VARINT_BYTES: usize = 5;

/// Encodes a variable-length integer and returns its length: seven bits a byte, lowest first; the highest bit
/// is set in all bytes except the last.
fn varint(value: u32) -> ([u8; MAX_VARINT_BYTES], usize) {
    let (mut bytes, mut rest, mut length) = ([0; MAX_VARINT_BYTES], value, 0_usize);
    for byte in &mut bytes {
        *byte = (rest & 0x7f) as u8;
        rest >>= 7;
        length = length.saturating_add(1);
        if rest == 0 {
            break;
        }
        *byte |= 0x80;
    }
    (bytes, length)
}

fn read_varint(cursor: &mut Cursor<'_>) -> Result<u32> {
    let mut value = 0_u64;
    for shift in (0_u32..).step_by(7).take(MAX_VARINT_BYTES) {
        let byte = cursor.u8()?;
        value |= u64::from(byte & 0x7f).unbounded_shl(shift);
        if byte & 0x80 == 0 {
            return u32::try_from(value).map_err(|_| damaged("a size of more than 32 bits"));
        }
    }
    Err(damaged("a size of more than 32 bits"))
}

#[cold]
fn damaged(message: &str) -> Error {
    Error::new(ErrorKind::Filter, format!("damaged Snappy data: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::{Dice, check_damaged, decoded, encoded};

    /// Reference implementation of the encoder, from its description.
    fn filtered(bytes: &[u8], block: usize) -> Vec<u8> {
        let number = |value: usize| {
            let (bytes, length) = varint(value as u32);
            bytes[..length].to_vec()
        };
        let mut output = [number(bytes.len()), number(block)].concat();
        for from in bytes.chunks(block) {
            let stream = snap::raw::Encoder::new().compress_vec(from).unwrap();
            let stream = &stream[number(from.len()).len()..];
            output.extend((stream.len() as u32).to_le_bytes());
            output.extend(stream);
        }
        output
    }

    fn sample(length: usize) -> Vec<u8> {
        let mut dice = Dice::new(length as u64);
        (0..length).map(|at| if at % 5000 < 3000 { (at / 99) as u8 } else { dice.next() as u8 }).collect()
    }

    #[test]
    fn blocks_of_any_size() {
        for length in [0, 1, 2, 1023, 1024, 1025, 32_768, 32_769, 200_000] {
            let bytes = sample(length);
            for block in [1, 7, 999, 1024, 32_768, 65_535, 1 << 20] {
                let stored = filtered(&bytes, block);
                assert_eq!(decoded(&Snappy, &stored, &[], length).unwrap(), bytes, "{length} {block}");
            }
            for block in [1024, 4096, 32_768, 65_535] {
                assert_eq!(encoded(&Snappy, &bytes, &[block as u32]).unwrap(), filtered(&bytes, block));
            }
            assert_eq!(encoded(&Snappy, &bytes, &[]).unwrap(), filtered(&bytes, 32_768));
        }
        for noise in [0, 1, 100, 40_000] {
            encoded(&Snappy, &Dice::new(2).bytes(noise), &[0]).unwrap();
        }
        for block in [1, 1023, 65_536] {
            assert_eq!(encoded(&Snappy, b"anything", &[block]).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }

    #[test]
    fn as_it_is_described() {
        // 40 bytes in blocks of 32: a literal `ab` and a match of 30 bytes; a literal `ccc` and a match of 5.
        let stored = b"\x28\x20\x06\0\0\0\x04ab\x76\x02\0\x06\0\0\0\x08ccc\x05\x01";
        let bytes = [&b"ab".repeat(16)[..], &b"c".repeat(8)].concat();
        assert_eq!(decoded(&Snappy, stored, &[], 40).unwrap(), bytes);
        let blocks: Vec<_> = SnappyBlocks::new(stored).unwrap().map(Result::unwrap).collect();
        let expected = [SnappyBlock { stored: 6..12, size: 32 }, SnappyBlock { stored: 16..22, size: 8 }];
        assert_eq!(blocks, expected);
    }

    #[test]
    fn blocks_are_streams_for_any_library() {
        let bytes = sample(100_000);
        for block in [1024, 32_768, 65_535] {
            let mut stored = encoded(&Snappy, &bytes, &[block]).unwrap();
            let blocks = SnappyBlocks::new(&stored).unwrap();
            assert_eq!((blocks.size(), blocks.block()), (100_000, block));
            let blocks: Vec<_> = blocks.map(Result::unwrap).collect();
            let mut found = Vec::new();
            for SnappyBlock { stored: at, size } in &blocks {
                let block = SnappyBlock { stored: at.clone(), size: *size };
                let (preamble, length) = block.preamble().unwrap();
                stored[at.start - length..at.start].copy_from_slice(&preamble[4 - length..]);
                let stream = &stored[at.start - length..at.end];
                found.extend(snap::raw::Decoder::new().decompress_vec(stream).unwrap());
            }
            assert_eq!(found, bytes);
        }
        let size = |size| SnappyBlock { stored: 4..9, size }.preamble();
        assert_eq!(size((1 << 28) - 1), Some(([0xff, 0xff, 0xff, 0x7f], 4)));
        assert_eq!(size(1 << 28), None);
    }

    #[test]
    fn damage() {
        for block in [100, 1000, 32_768] {
            check_damaged(&Snappy, &filtered(&sample(3000), block), &[block as u32], 3000);
        }
        for (stored, kind) in [
            (&b""[..], ErrorKind::Corrupt),
            (b"\x05", ErrorKind::Corrupt),
            (b"\xff\xff\xff\xff\xff\x01\x20", ErrorKind::Filter),
            (b"\xff\xff\xff\xff\x1f\x20", ErrorKind::Filter),
            (b"\x08\0\x06\0\0\0\x08ccc\x05\x01", ErrorKind::Filter),
            // Larger than possible.
            (b"\xff\xff\xff\xff\x0f\x20\x06\0\0\0\x08ccc\x05\x01", ErrorKind::Filter),
            // A block too short, too long, one too many, one too few.
            (b"\x09\x20\x06\0\0\0\x08ccc\x05\x01", ErrorKind::Filter),
            (b"\x07\x20\x06\0\0\0\x08ccc\x05\x01", ErrorKind::Filter),
            (b"\x08\x20\x06\0\0\0\x08ccc\x05\x01\x01\0\0\0\0", ErrorKind::Filter),
            (b"\x09\x08\x06\0\0\0\x08ccc\x05\x01", ErrorKind::Corrupt),
            // A match before the start of the block.
            (b"\x10\x08\x06\0\0\0\x08ccc\x05\x01\x04\0\0\0\0a\x0d\x02", ErrorKind::Filter),
        ] {
            assert_eq!(decoded(&Snappy, stored, &[], 1000).unwrap_err().kind(), kind, "{stored:?}");
        }
        let bomb = filtered(&[0; 1 << 20], 32_768);
        assert_eq!(decoded(&Snappy, &bomb, &[], 1000).unwrap_err().kind(), ErrorKind::Limit);
        let mut blocks = SnappyBlocks::new(b"\x40\x08\x00\0\0\0\xff\xff").unwrap();
        blocks.next().unwrap().unwrap();
        assert!(blocks.next().unwrap().is_err());
        assert!(blocks.next().is_none(), "nothing follows an error");
    }
}
