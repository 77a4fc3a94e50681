//! Contiguous frames. Source: README_CFRAME_FORMAT of Blosc2. Numbers in the frame are in MessagePack format,
//! the ones in chunks little-endian.

use crate::codec::Context;
use crate::codec::blosc::{Chunk, State, nan};
use crate::{Cursor, Error, ErrorKind, Result};

/// Offset of the metalayers in a frame.
const METALAYERS_OFFSET: usize = 0x57;
/// Names of the metalayer that describes an array: current and former.
const ARRAY_METALAYERS: [&[u8]; 2] = [b"b2nd", b"caterva"];

/// Parsed frame.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    /// Whole frame.
    bytes: &'a [u8],
    /// Offset of its first chunk.
    header: usize,
    /// Sizes in bytes: decoded frame, chunk, block.
    size: usize,
    chunk: usize,
    block: usize,
    /// Size of an element.
    pub(super) element: usize,
    /// Offsets of the chunks from the first one. Negative: a special value instead of a stored chunk.
    offsets: Vec<i64>,
    /// Array description, if any.
    pub(super) array: Option<&'a [u8]>,
}

impl<'a> Frame<'a> {
    /// Parses the frame in `input`.
    pub(super) fn parse(input: &'a [u8], context: &Context<'_>) -> Result<Self> {
        let mut cursor = Cursor::new(input, "Blosc2 frame", 0);
        cursor.skip(1)?;
        if cursor.take(9)? != b"\xa8b2frame\0" {
            return Err(damaged("the data are not a Blosc2 frame"));
        }
        let header = size(number(&mut cursor, 0xd2)?)?;
        let length = size(number(&mut cursor, 0xcf)?)?;
        cursor.skip(1)?;
        let [general, kind, _, _] = cursor.array()?;
        let total = size(number(&mut cursor, 0xd3)?)?;
        let stored = size(number(&mut cursor, 0xd3)?)?;
        let element = size(number(&mut cursor, 0xd2)?)?;
        let block = size(number(&mut cursor, 0xd2)?)?;
        let chunk = size(number(&mut cursor, 0xd2)?)?;
        if general & 0x0f > 3 || kind != 0 {
            let message = format!("Blosc2's frame format version {} of type {kind}", general & 0x0f);
            return Err(Error::unsupported(message));
        }
        let Some(bytes) = input.get(..length) else {
            return Err(damaged(&format!(
                "a Blosc2 frame of {length} bytes, of which only {} are stored",
                input.len()
            )));
        };
        if element == 0 || (chunk == 0 && total != 0) {
            return Err(Error::unsupported("a Blosc2 frame with chunks of different size"));
        }
        let mut frame =
            Self { bytes, header, size: total, chunk, block, element, offsets: Vec::new(), array: None };
        frame.read_offsets(header.saturating_add(stored), context)?;
        frame.array = frame.find_array()?;
        Ok(frame)
    }

    /// Reads `offsets` from the chunk at `at`.
    fn read_offsets(&mut self, at: usize, context: &Context<'_>) -> Result<()> {
        let count = self.size.div_ceil(self.chunk.max(1));
        if count == 0 {
            return Ok(());
        }
        let index = Chunk::parse(self.bytes.get(at..).unwrap_or_default(), None)?;
        if count.checked_mul(8) != Some(index.size) {
            return Err(damaged(&format!(
                "a Blosc2 frame of {count} chunks with {} bytes of offsets",
                index.size
            )));
        }
        let mut offsets = Vec::new();
        let limit = context.limit.max(1 << 16);
        State::with(|state| index.decode(state, &mut offsets, &Context { limit, ..*context }))?;
        self.offsets.extend(offsets.as_chunks().0.iter().map(|offset| i64::from_le_bytes(*offset)));
        Ok(())
    }

    /// Finds the array description, if there is one.
    fn find_array(&self) -> Result<Option<&'a [u8]>> {
        let header = self.bytes.get(..self.header).unwrap_or_default();
        let mut cursor = Cursor::new(header, "Blosc2 metalayers", 0);
        if header.len() <= METALAYERS_OFFSET {
            return Ok(None);
        }
        cursor.skip(METALAYERS_OFFSET)?;
        // MessagePack array of three: size of the next, map from names to offsets, and the values.
        let ([_, _, _, _, marker], count) = (cursor.array::<5>()?, u16::from_be_bytes(cursor.array()?));
        if marker != 0xde {
            return Err(damaged("Blosc2 metalayers without their names"));
        }
        for _ in 0..count {
            let length = cursor.u8()? & 0x1f;
            let name = cursor.take(length.into())?;
            let at = size(number(&mut cursor, 0xd2)?)?;
            if !ARRAY_METALAYERS.contains(&name) {
                continue;
            }
            let mut cursor = Cursor::new(header.get(at..).unwrap_or_default(), "Blosc2 metalayer", at as u64);
            let length = size(number(&mut cursor, 0xc6)?)?;
            return cursor.take(length).map(Some);
        }
        Ok(None)
    }

    /// Returns the number of chunks.
    pub(super) fn count(&self) -> usize {
        self.offsets.len()
    }

    /// Returns a chunk.
    pub(super) fn chunk(&self, number: usize) -> Result<Chunk<'a>> {
        let Some(offset) = self.offsets.get(number).copied() else {
            return Err(damaged(&format!("no chunk {number} in a Blosc2 frame")));
        };
        let left = self.size.saturating_sub(number.saturating_mul(self.chunk));
        let held = left.min(self.chunk);
        let Ok(offset) = usize::try_from(offset) else {
            let [.., kind] = offset.to_le_bytes();
            // Zeros, uninitialized values, and NaN.
            let value = if kind & 5 != 0 { &[0][..] } else { nan(self.element)? };
            return Ok(Chunk::from_value(value, held, self.block));
        };
        let bytes = self.bytes.get(self.header.saturating_add(offset)..).unwrap_or_default();
        let chunk = Chunk::parse(bytes, Some(self.element))?;
        if chunk.size != held {
            return Err(damaged(&format!("a Blosc2 chunk of {} bytes instead of {held}", chunk.size)));
        }
        Ok(chunk)
    }

    /// Decodes the whole frame.
    pub(super) fn decode(&self, output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        if self.count() == 1 {
            let chunk = self.chunk(0)?;
            return State::with(|state| chunk.decode(state, output, context));
        }
        // Checks the declared size against the limit before use.
        context.room(output, self.size as u64)?;
        output.clear();
        let mut chunk = Vec::new();
        for number in 0..self.count() {
            let stored = self.chunk(number)?;
            State::with(|state| stored.decode(state, &mut chunk, context))?;
            output.extend_from_slice(&chunk);
        }
        Ok(())
    }
}

/// Reads a MessagePack number with the expected marker; returns its bits.
pub(super) fn number(cursor: &mut Cursor<'_>, marker: u8) -> Result<u64> {
    let found = cursor.u8()?;
    if found != marker {
        return Err(damaged(&format!("{marker:#04x} expected in a Blosc2 frame, {found:#04x} found")));
    }
    match marker {
        0xd3 | 0xcf => cursor.array().map(u64::from_be_bytes),
        _ => cursor.array().map(u32::from_be_bytes).map(u64::from),
    }
}

/// Converts a number to a size; a negative one is too large.
pub(super) fn size(number: u64) -> Result<usize> {
    usize::try_from(number)
        .ok()
        .filter(|size| *size <= isize::MAX as usize)
        .ok_or_else(|| damaged(&format!("a size of {number} bytes in a Blosc2 frame")))
}

#[cold]
pub(super) fn damaged(message: &str) -> Error {
    Error::new(ErrorKind::Filter, message)
}
