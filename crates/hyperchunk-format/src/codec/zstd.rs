//! Zstandard (32015): one frame a chunk. Source: RFC 8878. The parameter, the level, is only used for
//! encoding.

#[cfg(not(target_family = "wasm"))]
mod libzstd;
#[cfg(any(target_family = "wasm", test))]
mod rust;

use super::{Codec, Context, EncodeContext, EncodeOutcome};
use crate::{Error, ErrorKind, Result};
#[cfg(feature = "blosc")]
pub(super) use library::decompress_with;
pub(super) use library::{bound, compress, decompress};
#[cfg(not(target_family = "wasm"))]
use libzstd as library;
#[cfg(target_family = "wasm")]
use rust as library;

/// First output size to try if a frame does not store its size.
const FIRST_OUTPUT_BYTES: usize = 1 << 16;

/// Default level, and highest level.
const DEFAULT_LEVEL: i32 = 3;
const MAX_LEVEL: i32 = 22;

/// Zstandard codec.
#[derive(Debug)]
pub(super) struct Zstd;

impl Codec for Zstd {
    fn id(&self) -> u16 {
        32015
    }

    fn name(&self) -> &'static str {
        "zstd"
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        self.decode_over(input, output, context)
    }

    fn decode_over(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        let declared = library::stored_size(input);
        let guess = context.expected.unwrap_or(FIRST_OUTPUT_BYTES).min(context.limit);
        let mut size = declared.unwrap_or(guess);
        loop {
            let to = context.room(output, size as u64)?;
            match decompress(input, to) {
                Ok(length) => {
                    output.truncate(length);
                    return Ok(());
                }
                // The output may have been too small. If not, decoding fails again at the limit.
                Err(_) if declared.is_none() && size < context.limit => {
                    size = size.saturating_mul(4).max(FIRST_OUTPUT_BYTES).min(context.limit);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn encode(
        &self,
        input: &[u8],
        output: &mut Vec<u8>,
        context: &EncodeContext<'_>,
    ) -> Result<EncodeOutcome> {
        // Nonexistent levels are clamped, as in the plugin.
        let level = context.parameters.first().map_or(DEFAULT_LEVEL, |level| level.cast_signed());
        let room = context.room(output, context.most(input, bound(input.len())))?;
        let written = compress(input, room, level.clamp(1, MAX_LEVEL))?;
        Ok(written.map_or(EncodeOutcome::Refused, EncodeOutcome::Written))
    }
}

#[cold]
fn damaged(error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Filter, format!("damaged zstd data: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::{Dice, check_damaged, decoded, encoded};
    use std::io::Write;

    /// Creates a frame without its size.
    fn streamed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
        for piece in bytes.chunks(1000) {
            encoder.write_all(piece).unwrap();
            encoder.flush().unwrap();
        }
        encoder.finish().unwrap()
    }

    #[test]
    fn frames_with_and_without_their_size() {
        let bytes: Vec<u8> = Dice::new(1).bytes(300_000).iter().map(|byte| byte % 7).collect();
        for length in [0, 1, 1000, 65_536, 65_537, 300_000] {
            let bytes = &bytes[..length];
            let whole = zstd::bulk::compress(bytes, 1).unwrap();
            assert_eq!(decoded(&Zstd, &whole, &[1], length).unwrap(), bytes);
            assert_eq!(decoded(&Zstd, &streamed(bytes), &[1], length).unwrap(), bytes);
            let own = encoded(&Zstd, bytes, &[1]).unwrap();
            assert_eq!(own, whole);
            assert_eq!(library::stored_size(&own), Some(length), "readers need the size");
            let (one, two) = bytes.split_at(length / 3);
            let two_frames = [zstd::bulk::compress(one, 9).unwrap(), streamed(two)].concat();
            assert_eq!(decoded(&Zstd, &two_frames, &[9], length).unwrap(), bytes);
        }
    }

    #[test]
    fn test_libraries_agree() {
        let mut dice = Dice::new(7);
        for length in [0, 1, 255, 256, 70_000, 300_000] {
            let bytes: Vec<u8> = dice.bytes(length).iter().map(|byte| byte % 7).collect();
            let mut sum = zstd::bulk::Compressor::new(3).unwrap();
            sum.include_checksum(true).unwrap();
            let frames = [
                (zstd::bulk::compress(&bytes, 1).unwrap(), false),
                (sum.compress(&bytes).unwrap(), true),
                (streamed(&bytes), false),
            ];
            for (frame, is_summed) in frames {
                assert_eq!(rust::stored_size(&frame), library::stored_size(&frame));
                let mut room = vec![0; length];
                assert_eq!(rust::decompress(&frame, &mut room).unwrap(), length);
                assert_eq!(room, bytes);
                if length > 0 {
                    rust::decompress(&frame, &mut room[1..]).unwrap_err();
                }
                for _ in 0..200 {
                    let mut damaged = frame.clone();
                    let place = dice.below(damaged.len());
                    damaged[place] ^= 1 << dice.below(8);
                    let (mut one, mut other) = (vec![0; length], vec![0; length]);
                    let sizes = [decompress(&damaged, &mut one), rust::decompress(&damaged, &mut other)];
                    if let [Ok(size), Ok(same)] = sizes {
                        assert_eq!((size, &one), (same, &other));
                    }
                    if is_summed && sizes[1].is_ok() {
                        assert_eq!(other, bytes);
                    }
                }
                drop(rust::decompress(&frame[..frame.len() / 2], &mut vec![0; length]));
            }
            let two = [streamed(&bytes), zstd::bulk::compress(&bytes, 9).unwrap()].concat();
            assert_eq!(rust::decompress(&two, &mut vec![0; 2 * length]).unwrap(), 2 * length);
        }
    }

    #[test]
    fn damage() {
        let bytes: Vec<u8> = (0..3000).map(|i| (i / 17) as u8).collect();
        check_damaged(&Zstd, &zstd::bulk::compress(&bytes, 3).unwrap(), &[3], 3000);
        check_damaged(&Zstd, &streamed(&bytes), &[3], 3000);
    }

    #[test]
    fn bombs() {
        let bomb = zstd::bulk::compress(&[0; 1 << 20], 3).unwrap();
        assert_eq!(decoded(&Zstd, &bomb, &[], 1000).unwrap_err().kind(), ErrorKind::Limit);
        assert_eq!(
            decoded(&Zstd, &streamed(&[0; 1 << 20]), &[], 1000).unwrap_err().kind(),
            ErrorKind::Filter
        );
    }
}
