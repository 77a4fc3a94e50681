//! Zstandard by ruzstd (Rust alone), for WebAssembly; decoding only.

use super::damaged;
#[cfg(target_family = "wasm")]
use crate::Error;
use crate::Result;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::Read as _;

/// First bytes of a frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Number of bytes that are decoded before they are copied to the output.
const STEP: usize = 1 << 18;

/// Returns the size of a frame's content, if the frame stores it. Source: RFC 8878, section 3.1.1.1.
pub(in crate::codec) fn stored_size(frame: &[u8]) -> Option<usize> {
    let descriptor = *frame.strip_prefix(&MAGIC)?.first()?;
    let single_segment = descriptor & 0x20 != 0;
    let window = usize::from(!single_segment);
    let dictionary = [0, 1, 2, 4].get(usize::from(descriptor & 3))?;
    let at = window.checked_add(*dictionary)?.checked_add(5)?;
    let field = |length: usize| frame.get(at..at.checked_add(length)?);
    let size = match descriptor >> 6 {
        0 if !single_segment => return None,
        0 => u64::from(*field(1)?.first()?),
        1 => u64::from(u16::from_le_bytes(field(2)?.try_into().ok()?)).checked_add(256)?,
        2 => u64::from(u32::from_le_bytes(field(4)?.try_into().ok()?)),
        _ => u64::from_le_bytes(field(8)?.try_into().ok()?),
    };
    usize::try_from(size).ok()
}

/// Returns the maximum size of a frame for `size` bytes.
#[cfg(target_family = "wasm")]
pub(in crate::codec) fn bound(size: usize) -> usize {
    size
}

/// Refuses to encode.
#[cfg(target_family = "wasm")]
pub(in crate::codec) fn compress(_from: &[u8], _to: &mut [u8], _level: i32) -> Result<Option<usize>> {
    Err(Error::unsupported("this build only decodes zstd"))
}

/// Decompresses frames into `to`; returns the number of bytes.
pub(in crate::codec) fn decompress(from: &[u8], to: &mut [u8]) -> Result<usize> {
    run(&mut FrameDecoder::new(), from, to)
}

/// Decompresses like [`decompress`], with a dictionary.
#[cfg(all(feature = "blosc", target_family = "wasm"))]
pub(in crate::codec) fn decompress_with(from: &[u8], to: &mut [u8], dictionary: &[u8]) -> Result<usize> {
    let mut decoder = FrameDecoder::new();
    let dictionary =
        ruzstd::decoding::Dictionary::decode_dict(dictionary).map_err(|error| damaged(&error))?;
    decoder.add_dict(dictionary).map_err(|error| damaged(&error))?;
    run(&mut decoder, from, to)
}

fn run(decoder: &mut FrameDecoder, mut from: &[u8], to: &mut [u8]) -> Result<usize> {
    let mut total = 0_usize;
    while !from.is_empty() {
        // The decoder ignores a bit of the descriptor that is reserved.
        if from.starts_with(&MAGIC) && from.get(4).is_some_and(|descriptor| descriptor & 0x08 != 0) {
            return Err(damaged(&"a frame of an unknown kind"));
        }
        match decoder.init(&mut from) {
            Ok(()) => {}
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                from = from.get(length..).ok_or_else(|| damaged(&"a skippable frame is truncated"))?;
                continue;
            }
            Err(error) => return Err(damaged(&error)),
        }
        let mut size = 0_usize;
        loop {
            let step = BlockDecodingStrategy::UptoBytes(STEP);
            decoder.decode_blocks(&mut from, step).map_err(|error| damaged(&error))?;
            let room = total.checked_add(size).and_then(|at| to.get_mut(at..)).unwrap_or_default();
            size = size.saturating_add(decoder.read(room).map_err(|error| damaged(&error))?);
            if decoder.can_collect() > 0 {
                return Err(damaged(&"the content is larger than the space for it"));
            }
            if decoder.is_finished() {
                break;
            }
        }
        // The decoder checks neither.
        let declared = decoder.content_size();
        if declared != 0 && declared != size as u64 {
            return Err(damaged(&format_args!("{size} bytes, but the frame declares {declared}")));
        }
        if decoder.get_checksum_from_data().is_some_and(|sum| decoder.get_calculated_checksum() != Some(sum))
        {
            return Err(damaged(&"the checksum is wrong"));
        }
        total = total.saturating_add(size);
    }
    Ok(total)
}
