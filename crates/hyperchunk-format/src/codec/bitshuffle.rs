//! Bitshuffle (32008): bit planes of blocks of elements, compressed with LZ4 or zstd, or uncompressed.
//! Source: the description in bitshuffle's README, and its filter's output.
//!
//! Parameters: bitshuffle's version (two numbers), the size of an element, then optionally: the elements in a
//! block (0: derived from the size of an element), the compression, its level.

use super::bit_planes::{Joiner, Splitter};
use super::{Codec, Context, EncodeContext, EncodeOutcome, filled, lz4, zstd};
use crate::thread_state::with_state;
use crate::{Cursor, Error, ErrorKind, Result};
use std::cell::RefCell;

/// Target size in bytes of a block without compression.
const BLOCK_BYTES: usize = 8192;
/// Minimum number of elements in a default block.
const MIN_BLOCK_ELEMENTS: usize = 128;

thread_local! {
    /// Splitter, and buffer for the planes of a block.
    static SPLITTER: RefCell<(Splitter, Vec<u8>)> = RefCell::default();
}

/// Compression of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Lz4,
    Zstd,
}

/// Bitshuffle codec.
#[derive(Debug)]
pub(super) struct Bitshuffle;

impl Codec for Bitshuffle {
    fn id(&self) -> u16 {
        32008
    }

    fn name(&self) -> &'static str {
        "bitshuffle"
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        self.decode_over(input, output, context)
    }

    fn decode_over(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        let element = element_size(context.parameters)?;
        let compression = compression(context.parameters);
        let mut cursor = Cursor::new(input, "bitshuffle chunk", 0);
        let (size, block) = if compression == Compression::None {
            (input.len() as u64, parameter(context.parameters, 3))
        } else {
            let (size, bytes) = lz4::header(&mut cursor)?;
            (size, bytes.checked_div(element).unwrap_or(0))
        };
        let output = context.room(output, size)?;
        if output.len().checked_rem(element) != Some(0) {
            return Err(damaged("the size is not a whole number of elements"));
        }
        blocks(&mut cursor, output, element, block_bytes(block, element)?, compression)
    }

    fn encode(
        &self,
        input: &[u8],
        output: &mut Vec<u8>,
        context: &EncodeContext<'_>,
    ) -> Result<EncodeOutcome> {
        let element = element_size(context.parameters)?;
        let block = block_bytes(parameter(context.parameters, 3), element)?;
        if input.len().checked_rem(element) != Some(0) {
            return Ok(EncodeOutcome::Refused);
        }
        match compression(context.parameters) {
            Compression::None => {
                let room = context.room(output, input.len())?;
                with_state(&SPLITTER, |(splitter, _)| split(splitter, input, room, element, block));
                Ok(EncodeOutcome::Written(input.len()))
            }
            Compression::Lz4 => {
                compressed(input, output, context, (element, block), lz4::bound(block), lz4::compress)
            }
            Compression::Zstd => {
                let level = context.parameters.get(5).map_or(0, |level| level.cast_signed());
                compressed(input, output, context, (element, block), zstd::bound(block), |from, to| {
                    zstd::compress(from, to, level)?
                        .ok_or_else(|| Error::limit("too little room for a block"))
                })
            }
        }
    }

    fn encoded_size(&self, size: usize, parameters: &[u32]) -> Option<usize> {
        (compression(parameters) == Compression::None).then_some(size)
    }
}

fn parameter(parameters: &[u32], at: usize) -> usize {
    parameters.get(at).map_or(0, |value| usize::try_from(*value).unwrap_or(usize::MAX))
}

fn element_size(parameters: &[u32]) -> Result<usize> {
    match parameter(parameters, 2) {
        0 => Err(damaged("the filter parameter for the size of an element is missing or 0")),
        size => Ok(size),
    }
}

/// Returns the size in bytes of a block with this number of elements; 0 stands for the default number.
fn block_bytes(block: usize, element: usize) -> Result<usize> {
    let block = if block == 0 { default_block(element) } else { block };
    if !block.is_multiple_of(8) {
        return Err(damaged("the number of elements in a block is not a multiple of 8"));
    }
    Ok(block.saturating_mul(element))
}

/// Returns the compression; unknown numbers mean no compression, in both directions.
fn compression(parameters: &[u32]) -> Compression {
    match parameters.get(4) {
        Some(2) => Compression::Lz4,
        Some(3) => Compression::Zstd,
        _ => Compression::None,
    }
}

/// Returns the default number of elements in a block.
fn default_block(element: usize) -> usize {
    let fitting = BLOCK_BYTES.checked_div(element).unwrap_or(0);
    (fitting & !7).max(MIN_BLOCK_ELEMENTS)
}

/// Decodes `output` block by block. The last block has a multiple of eight elements; the rest is stored
/// unshuffled.
fn blocks(
    cursor: &mut Cursor<'_>,
    output: &mut [u8],
    element: usize,
    block: usize,
    compression: Compression,
) -> Result<()> {
    let loose = remainder_bytes(output.len(), element);
    let (blocks, loose) = output.split_at_mut_checked(output.len().saturating_sub(loose)).unwrap_or_default();
    let mut joiner = Joiner::default();
    let mut planes = filled(0, if compression == Compression::None { 0 } else { block.min(blocks.len()) })?;
    for to in blocks.chunks_mut(block) {
        let planes = match compression {
            Compression::None => cursor.take(to.len())?,
            Compression::Lz4 => {
                planes.truncate(to.len());
                lz4::decompress(lz4::next_block(cursor)?, &mut planes)?;
                &planes
            }
            Compression::Zstd => {
                planes.truncate(to.len());
                if zstd::decompress(lz4::next_block(cursor)?, &mut planes)? != to.len() {
                    return Err(damaged("a block of the wrong size"));
                }
                &planes
            }
        };
        joiner.join(planes, to, element);
    }
    loose.copy_from_slice(cursor.take(loose.len())?);
    Ok(())
}

/// Returns the number of bytes past the last multiple of eight elements.
fn remainder_bytes(size: usize, element: usize) -> usize {
    size.checked_rem(element.saturating_mul(8)).unwrap_or(0)
}

/// Shuffles `input` block by block into `output`, which has the same length.
fn split(splitter: &mut Splitter, input: &[u8], output: &mut [u8], element: usize, block: usize) {
    let end = input.len().saturating_sub(remainder_bytes(input.len(), element));
    let (elements, loose) = input.split_at_checked(end).unwrap_or((input, &[]));
    let (planes, loose_to) = output.split_at_mut_checked(end).unwrap_or_default();
    for (from, to) in elements.chunks(block).zip(planes.chunks_mut(block)) {
        splitter.split(from, to, element);
    }
    loose_to.copy_from_slice(loose);
}

/// Writes shuffled blocks, compressed to at most `bound` bytes each.
fn compressed(
    input: &[u8],
    output: &mut Vec<u8>,
    context: &EncodeContext<'_>,
    (element, block): (usize, usize),
    bound: usize,
    compress: impl Fn(&[u8], &mut [u8]) -> Result<usize>,
) -> Result<EncodeOutcome> {
    let mut frame = lz4::Frame::new(output, input.len(), block, bound, context)?;
    let end = input.len().saturating_sub(remainder_bytes(input.len(), element));
    let (elements, loose) = input.split_at_checked(end).unwrap_or((input, &[]));
    with_state(&SPLITTER, |(splitter, planes)| {
        for from in elements.chunks(block) {
            let planes = context.room(planes, from.len())?;
            splitter.split(from, planes, element);
            frame.block(|to| compress(planes, to))?;
            if frame.is_incompressible {
                break;
            }
        }
        Ok(())
    })?;
    if !frame.is_incompressible {
        frame.put(loose);
    }
    Ok(if frame.is_incompressible { EncodeOutcome::Refused } else { EncodeOutcome::Written(frame.at) })
}

#[cold]
fn damaged(message: &str) -> Error {
    Error::new(ErrorKind::Filter, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::bit_planes::tests::planes;
    use crate::codec::testing::{Dice, check_damaged, decoded, encoded};

    /// Reference implementation of the encoder.
    fn filtered(bytes: &[u8], element: usize, block: usize, compression: u32) -> Vec<u8> {
        let mut output = Vec::new();
        if compression != 0 {
            output.extend((bytes.len() as u64).to_be_bytes());
            output.extend((block as u32 * element as u32).to_be_bytes());
        }
        let (eights, loose) = bytes.split_at(bytes.len() - bytes.len() % (8 * element));
        for from in eights.chunks(block * element) {
            let planes = planes(from, element);
            let stored = match compression {
                0 => planes,
                2 => lz4_flex::block::compress(&planes),
                _ => ::zstd::bulk::compress(&planes, 1).unwrap(),
            };
            if compression != 0 {
                output.extend((stored.len() as u32).to_be_bytes());
            }
            output.extend(stored);
        }
        output.extend(loose);
        output
    }

    #[test]
    fn every_compression_size_and_rest() {
        let mut dice = Dice::new(1);
        for element in [1, 2, 3, 4, 8, 100, 1200] {
            for (count, block) in
                [(0, 8), (1, 8), (7, 128), (8, 8), (24, 16), (1031, 0), (5000, 0), (5000, 1024)]
            {
                let count = count.min(40_000 / element);
                let bytes: Vec<u8> = dice.bytes(count * element).iter().map(|byte| byte & 0x83).collect();
                for compression in [0, 2, 3] {
                    let blocks = if block == 0 { default_block(element) } else { block };
                    let stored = filtered(&bytes, element, blocks, compression);
                    let parameters = [0, 3, element as u32, block as u32, compression];
                    let found = decoded(&Bitshuffle, &stored, &parameters, bytes.len()).unwrap();
                    assert!(found == bytes, "{count} of {element} bytes, blocks of {block}, {compression}");
                    let parameters = [&parameters[..], &[1]].concat();
                    let own = encoded(&Bitshuffle, &bytes, &parameters).unwrap();
                    assert!(own == stored, "{count} of {element} bytes, blocks of {block}, {compression}");
                }
            }
        }
    }

    #[test]
    fn as_the_plugin_writes_it() {
        // Eleven numbers, 0, 3, 6, …, by hdf5plugin.
        let expected: Vec<u8> = (0..11_u16).flat_map(|i| (i * 3).to_le_bytes()).collect();
        let none = b"\xaaf\xb48\xc0\0\0\0\0\0\0\0\0\0\0\0\x18\0\x1b\0\x1e\0";
        let lz4 = b"\0\0\0\0\0\0\0\x16\0\0\0\x10\0\0\0\x12\xf0\x01\xaaf\xb48\xc0\0\0\0\0\0\0\0\0\0\0\0\x18\0\x1b\0\x1e\0";
        let zstd = b"\0\0\0\0\0\0\0\x16\0\0\x20\0\0\0\0\x15(\xb5/\xfd\x20\x10e\0\x000\xaaf\xb48\xc0\0\x01\0\x1b(\x02\x18\0\x1b\0\x1e\0";
        for (stored, parameters) in [
            (&none[..], &[0, 4, 2, 0, 0][..]),
            (none, &[0, 4, 2]),
            (lz4, &[0, 4, 2, 8, 2]),
            (zstd, &[0, 4, 2, 0, 3, 3]),
        ] {
            assert_eq!(decoded(&Bitshuffle, stored, parameters, 22).unwrap(), expected);
        }
    }

    #[test]
    fn damage() {
        let bytes: Vec<u8> = (0..700).map(|i| (i / 17) as u8).collect();
        for compression in [0, 2, 3] {
            let stored = filtered(&bytes, 4, 128, compression);
            check_damaged(&Bitshuffle, &stored, &[0, 3, 4, 128, compression], 700);
        }
    }
}
