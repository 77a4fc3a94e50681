//! Zstandard (32015): one frame a chunk. Source: RFC 8878. The parameter, the level, is only used for
//! encoding.

use super::{Codec, Context, EncodeContext, EncodeOutcome};
use crate::thread_state::with_state;
use crate::{Error, ErrorKind, Result};
use std::cell::RefCell;
use zstd::bulk::{Compressor, Decompressor};

/// First output size to try if a frame does not store its size.
const FIRST_OUTPUT_BYTES: usize = 1 << 16;

/// Default level, and highest level.
const DEFAULT_LEVEL: i32 = 3;
const MAX_LEVEL: i32 = 22;

thread_local! {
    /// Compressor with its level.
    static COMPRESSOR: RefCell<Option<(i32, Compressor<'static>)>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

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
        let declared = Decompressor::upper_bound(input);
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

/// Returns the maximum size of a frame for `size` bytes.
pub(super) fn bound(size: usize) -> usize {
    zstd::zstd_safe::compress_bound(size)
}

/// Compresses `from` into `to`; returns the number of bytes, or `None` if they do not fit.
pub(super) fn compress(from: &[u8], to: &mut [u8], level: i32) -> Result<Option<usize>> {
    with_state(&COMPRESSOR, |kept| {
        let compressor = match kept {
            Some((of, compressor)) if *of == level => compressor,
            _ => {
                let made = Compressor::new(level).map_err(|error| Error::limit(error.to_string()))?;
                &mut kept.insert((level, made)).1
            }
        };
        match compressor.compress_to_buffer(from, to) {
            Ok(written) => Ok(Some(written)),
            Err(_) if to.len() < bound(from.len()) => Ok(None),
            Err(error) => Err(Error::limit(error.to_string())),
        }
    })
}

/// Decompresses a frame into `to`; returns the number of bytes.
pub(super) fn decompress(from: &[u8], to: &mut [u8]) -> Result<usize> {
    with_state(&DECOMPRESSOR, |state| {
        let state = match state {
            Some(state) => state,
            None => state.insert(Decompressor::new().map_err(|error| Error::limit(error.to_string()))?),
        };
        state.decompress_to_buffer(from, to).map_err(|error| damaged(&error))
    })
}

/// Decompresses like [`decompress`], with a dictionary.
#[cfg(feature = "blosc")]
pub(super) fn decompress_with(from: &[u8], to: &mut [u8], dictionary: &[u8]) -> Result<usize> {
    let state = Decompressor::with_dictionary(dictionary);
    state.and_then(|mut state| state.decompress_to_buffer(from, to)).map_err(|error| damaged(&error))
}

#[cold]
fn damaged(error: &std::io::Error) -> Error {
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
            assert_eq!(Decompressor::upper_bound(&own), Some(length), "readers need the size");
            let (one, two) = bytes.split_at(length / 3);
            let two_frames = [zstd::bulk::compress(one, 9).unwrap(), streamed(two)].concat();
            assert_eq!(decoded(&Zstd, &two_frames, &[9], length).unwrap(), bytes);
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
