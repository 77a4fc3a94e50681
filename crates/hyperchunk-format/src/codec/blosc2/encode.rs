//! Encoder for frames: one chunk, without an array description, which readers do not need. Source:
//! README_CFRAME_FORMAT of Blosc2.

use crate::Result;
use crate::codec::blosc::Settings;
use crate::codec::{EncodeContext, EncodeOutcome};

/// Length of the header without metalayers.
const HEADER_BYTES: usize = 97;
/// Format version 2 with offsets of 64 bits; Blosc's own choice of split blocks.
const VERSION: u8 = 0x12;
const SPLIT_MODE: u8 = 3;
/// Empty list of metalayers.
const NO_METALAYERS: [u8; 10] = [0x93, 0xcd, 0, 7, 0xde, 0, 0, 0xdc, 0, 0];
/// Chunk of chunk offsets: a single chunk at 0.
const OFFSETS_CHUNK: [u8; 40] =
    *b"\x05\x01\x07\x08\x08\0\0\0\x08\0\0\0\x28\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// Trailer, which contains only its own length.
const TRAILER: [u8; 35] =
    *b"\x94\x01\x93\xcd\0\x06\xde\0\0\xdc\0\0\xce\0\0\0\x23\xd8\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// Total length of the chunk of offsets and the trailer.
const TRAILING_BYTES: usize = 75;

pub(super) fn encode(
    input: &[u8],
    output: &mut Vec<u8>,
    context: &EncodeContext<'_>,
) -> Result<EncodeOutcome> {
    let settings = Settings::new(context.parameters, true)?;
    let room = settings.room(input.len()).saturating_add(HEADER_BYTES).saturating_add(TRAILING_BYTES);
    let room = context.room(output, room)?;
    let (header, rest) = room.split_at_mut_checked(HEADER_BYTES).unwrap_or_default();
    let Some(length) = settings.chunk(input, rest, context)? else {
        return Ok(EncodeOutcome::Refused);
    };
    let (chunk, rest) = rest.split_at_mut_checked(length).unwrap_or_default();
    rest.iter_mut().zip(OFFSETS_CHUNK.into_iter().chain(TRAILER)).for_each(|(to, from)| *to = from);
    let size = HEADER_BYTES.saturating_add(length).saturating_add(TRAILING_BYTES);
    // Fields of the chunk: size of an element and of a block, filters, compressor.
    let &mut [_, _, _, element, _, _, _, _, b0, b1, b2, b3, _, _, _, _, ref filters @ ..] = chunk else {
        return Ok(EncodeOutcome::Refused);
    };
    let level = settings.level.to_le_bytes()[0];
    let wide = |marker: u8, value: usize| {
        let mut number = [marker, 0, 0, 0, 0, 0, 0, 0, 0];
        number.iter_mut().skip(1).zip((value as u64).to_be_bytes()).for_each(|(to, from)| *to = from);
        number
    };
    let narrow = |value: u32| {
        let [a, b, c, d] = value.to_be_bytes();
        [0xd2, a, b, c, d]
    };
    let small = |value: usize| narrow(u32::try_from(value).unwrap_or(u32::MAX));
    let fields: [&[u8]; 14] = [
        b"\x9e\xa8b2frame\0",
        &small(HEADER_BYTES),
        &wide(0xcf, size),
        &[0xa4, VERSION, 0, level << 4 | settings.format()?, SPLIT_MODE],
        &wide(0xd3, input.len()),
        &wide(0xd3, length),
        &narrow(element.into()),
        &narrow(u32::from_le_bytes([b0, b1, b2, b3])),
        &small(input.len()),
        // Threads, and no variable-length metalayers.
        &[0xd1, 0, 0, 0xd1, 0, 1, 0xc2],
        &[0xd8, 6],
        filters.get(..7).unwrap_or_default(),
        &[0; 9],
        &NO_METALAYERS,
    ];
    header.iter_mut().zip(fields.into_iter().flatten()).for_each(|(to, from)| *to = *from);
    Ok(EncodeOutcome::Written(size))
}
