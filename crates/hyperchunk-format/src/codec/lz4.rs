//! LZ4 (32004): blocks of equal size, each compressed by itself. Source: "HDF5 LZ4 filter" (at The HDF Group's list of
//! registered filters); *LZ4 Block Format Description*. The parameter, the size of a block, does not matter here.

use super::{Codec, Context};
use crate::{Cursor, Error, ErrorKind, Result};

/// No LZ4 block expands more.
const MOST_A_BYTE: u64 = 255;

/// The codec.
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
        if size.div_ceil(MOST_A_BYTE) > cursor.left() as u64 {
            return Err(damaged("too little for the size that it declares"));
        }
        let output = context.room(output, size)?;
        if block == 0 && size != 0 {
            return Err(damaged("blocks of no bytes"));
        }
        for to in output.chunks_mut(block.max(1)) {
            let from = next_block(&mut cursor)?;
            if from.len() == to.len() { to.copy_from_slice(from) } else { decompress(from, to)? }
        }
        Ok(())
    }
}

/// How many bytes a chunk has before compression, and how many of them make a block: big-endian.
pub(super) fn header(cursor: &mut Cursor<'_>) -> Result<(u64, usize)> {
    let size = u64::from_be_bytes(cursor.array()?);
    let block = u32::from_be_bytes(cursor.array()?);
    Ok((size, usize::try_from(block).unwrap_or(usize::MAX)))
}

/// The next compressed block, which has its size in front.
pub(super) fn next_block<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let size = u32::from_be_bytes(cursor.array()?);
    cursor.take(usize::try_from(size).unwrap_or(usize::MAX))
}

/// Fills `to` with what an LZ4 block was made from.
pub(super) fn decompress(from: &[u8], to: &mut [u8]) -> Result<()> {
    check(lz4_flex::block::decompress_into(from, to), to.len())
}

/// As [`decompress`], of a block that refers to a dictionary.
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
    use crate::codec::testing::{decoded, hurt};

    /// The filter, forwards.
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
                let stored = filtered(&bytes[..length], block);
                assert_eq!(decoded(&Lz4, &stored, &[], length).unwrap(), bytes[..length], "{length} {block}");
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
        hurt(&Lz4, &filtered(&bytes, 1000), &[], 3000);
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
