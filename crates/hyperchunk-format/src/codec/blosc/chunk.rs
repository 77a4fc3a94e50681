//! Chunks of Blosc 1 and 2. Source: README_CHUNK_FORMAT of Blosc and of Blosc2.
//!
//! A chunk is a header, the offsets of its blocks, an optional dictionary, and the blocks. Each block is
//! compressed as one stream, or as one stream for each byte of an element.

use super::filters::{Filter, Filters, damaged, filter};
use super::streams::Compressor;
use crate::codec::{Context, resize};
use crate::{Cursor, Error, Result};
use std::cell::RefCell;

/// Header sizes of Blosc 1 and Blosc 2.
const HEADER_BYTES_1: usize = 16;
const HEADER_BYTES_2: usize = 32;

/// Content of a whole chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content<'a> {
    /// One repeated value.
    Value(&'a [u8]),
    /// Uncompressed bytes.
    Stored(&'a [u8]),
    /// Offsets of the compressed blocks, four bytes each.
    Blocks(&'a [u8]),
}

/// Parsed chunk.
#[derive(Debug)]
pub(in crate::codec) struct Chunk<'a> {
    /// Whole chunk, including the header.
    bytes: &'a [u8],
    /// Decoded size in bytes.
    pub(in crate::codec) size: usize,
    /// Size of a block in bytes, except the last.
    pub(in crate::codec) block: usize,
    content: Content<'a>,
    /// Number of streams in a block, except the last.
    streams: usize,
    /// True if streams of zeros and of another repeated byte have special forms.
    runs: bool,
    compressor: Compressor<'a>,
    /// Filters in decoding order.
    filters: Vec<Filter>,
}

impl<'a> Chunk<'a> {
    /// Parses the chunk at the start of `input`. `item` is the size of an element according to its
    /// super-chunk.
    pub(in crate::codec) fn parse(input: &'a [u8], item: Option<usize>) -> Result<Self> {
        let mut cursor = Cursor::new(input, "Blosc chunk", 0);
        let [version, _, flags, element] = cursor.array()?;
        let mut size = || cursor.u32().map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        let (nbytes, block, length) = (size()?, size()?, size()?);
        let Some(bytes) = input.get(..length) else {
            return Err(damaged(format!(
                "a Blosc chunk of {length} bytes, of which only {} are stored",
                input.len()
            )));
        };
        if !(2..=6).contains(&version) {
            return Err(Error::unsupported(format!("Blosc format version {version}: expected 2 to 6")));
        }
        if element == 0 || block == 0 {
            return Err(damaged("Blosc elements or blocks of 0 bytes"));
        }
        let element = usize::from(element);
        let long = version > 2 && flags & 0x05 == 0x05;
        let extension: [u8; HEADER_BYTES_2 - HEADER_BYTES_1] =
            if long { cursor.array()? } else { short(flags, version)? };
        let [f0, f1, f2, f3, f4, f5, custom, _, m0, m1, m2, m3, m4, m5, more, flags2] = extension;
        refuse(flags2, more)?;
        let (ids, metas) = ([f0, f1, f2, f3, f4, f5], [m0, m1, m2, m3, m4, m5]);
        let mut filters = Vec::new();
        // Version 3 ignores the last slot.
        let slots = ids.into_iter().zip(metas).take(if version == 3 { 5 } else { 6 });
        for (id, meta) in slots.collect::<Vec<_>>().into_iter().rev() {
            filters.extend(filter(id, meta, element, item.unwrap_or(element), version)?);
        }
        let body = bytes.get(if long { HEADER_BYTES_2 } else { HEADER_BYTES_1 }..).unwrap_or_default();
        let block = block.min(nbytes.max(1));
        let content = content(body, nbytes, element, flags, flags2, block)?;
        let dictionary = match content {
            Content::Blocks(starts) if flags2 & 0x01 != 0 => Some(dictionary(body, starts.len())?),
            _ => None,
        };
        // Version 2 has no flag for split blocks; the rule is fixed.
        let split = flags & 0x10 == 0
            && (version > 2 || (element <= 16 && block.checked_div(element).unwrap_or(0) >= 128));
        let compressor = match content {
            Content::Blocks(_) => Compressor::new(flags >> 5, custom, dictionary)?,
            _ => Compressor::BloscLz,
        };
        let streams = if split { element } else { 1 };
        Ok(Self { bytes, size: nbytes, block, content, streams, runs: version > 2, compressor, filters })
    }

    /// Creates a chunk of `size` bytes, in blocks of `block`, that repeats one value.
    pub(in crate::codec) fn from_value(value: &'a [u8], size: usize, block: usize) -> Self {
        Self {
            bytes: &[],
            size,
            block: block.clamp(1, size.max(1)),
            content: Content::Value(value),
            streams: 1,
            runs: true,
            compressor: Compressor::BloscLz,
            filters: Vec::new(),
        }
    }

    /// True if other blocks need the first one for decoding.
    pub(in crate::codec) fn needs_first(&self) -> bool {
        matches!(self.content, Content::Blocks(_))
            && self.filters.iter().any(|filter| matches!(filter, Filter::Delta(_)))
    }

    /// Decodes the whole chunk.
    pub(in crate::codec) fn decode(
        &self,
        state: &mut State,
        output: &mut Vec<u8>,
        context: &Context<'_>,
    ) -> Result<()> {
        let output = context.room(output, self.size as u64)?;
        let end = self.block.min(output.len());
        let (first, rest) = output.split_at_mut_checked(end).unwrap_or_default();
        if !first.is_empty() {
            self.decode_block(state, 0, None, first)?;
        }
        for (number, to) in rest.chunks_mut(self.block).enumerate() {
            self.decode_block(state, number.saturating_add(1), Some(first), to)?;
        }
        Ok(())
    }

    /// Decodes one block, whose size is `to.len()`. `first` is block 0, unless that is the block to decode;
    /// see [`Chunk::needs_first`].
    pub(in crate::codec) fn decode_block(
        &self,
        state: &mut State,
        number: usize,
        first: Option<&[u8]>,
        to: &mut [u8],
    ) -> Result<()> {
        let starts = match self.content {
            Content::Value(value) => {
                fill(to, value);
                return Ok(());
            }
            Content::Stored(bytes) => {
                let start = number.saturating_mul(self.block);
                let Some(from) = bytes.get(start..start.saturating_add(to.len())) else {
                    return Err(damaged("a Blosc block past the end of its chunk"));
                };
                to.copy_from_slice(from);
                return Ok(());
            }
            Content::Blocks(starts) => starts,
        };
        let start = starts.as_chunks::<4>().0.get(number).map(|start| u32::from_le_bytes(*start));
        let Some(from) = start.and_then(|start| self.bytes.get(usize::try_from(start).ok()?..)) else {
            return Err(damaged("a Blosc block past the end of its chunk"));
        };
        let mut cursor = Cursor::new(from, "Blosc block", 0);
        let streams = if to.len() == self.block { self.streams } else { 1 };
        if to.len().checked_rem(streams) != Some(0) {
            return Err(damaged("a Blosc block that cannot be split"));
        }
        let size = to.len().checked_div(streams).unwrap_or(0);
        if self.filters.is_empty() {
            return to.chunks_mut(size.max(1)).try_for_each(|to| self.decode_stream(&mut cursor, to));
        }
        resize(&mut state.filters.block, to.len())?;
        let mut streams = state.filters.block.chunks_mut(size.max(1));
        streams.try_for_each(|to| self.decode_stream(&mut cursor, to))?;
        state.filters.undo(&self.filters, first, to)
    }

    /// Decodes the next stream into `to`.
    fn decode_stream(&self, cursor: &mut Cursor<'_>, to: &mut [u8]) -> Result<()> {
        let size = cursor.u32()?;
        if self.runs && size == 0 {
            to.fill(0);
            return Ok(());
        }
        if self.runs && size > i32::MAX as u32 {
            let (token, value) = (cursor.u8()?, size.wrapping_neg());
            let Some(value) = u8::try_from(value).ok().filter(|_| token & 1 != 0) else {
                return Err(Error::unsupported(format!(
                    "a Blosc stream of kind {token} with the size {size}"
                )));
            };
            to.fill(value);
            return Ok(());
        }
        let from = cursor.take(usize::try_from(size).unwrap_or(usize::MAX))?;
        if from.len() == to.len() {
            to.copy_from_slice(from);
            return Ok(());
        }
        self.compressor.decompress(from, to)
    }
}

/// Buffers kept from one chunk to the next.
#[derive(Debug, Default)]
pub(in crate::codec) struct State {
    filters: Filters,
    /// Block buffer for callers that decode block by block.
    #[cfg(feature = "blosc2")]
    pub(in crate::codec) block: Vec<u8>,
}

/// Maximum size of the buffers that threads keep.
const MAX_CACHED_BYTES: usize = 8 << 20;

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

impl State {
    /// Calls `with` with this thread's state.
    pub(in crate::codec) fn with<T>(with: impl FnOnce(&mut Self) -> T) -> T {
        // An exiting process no longer has thread-local values.
        let mut state = STATE.try_with(RefCell::take).unwrap_or_default();
        let result = with(&mut state);
        if state.filters.block.capacity() <= MAX_CACHED_BYTES {
            drop(STATE.try_with(|kept| kept.replace(state)));
        }
        result
    }
}

/// Returns the fields of a long header that are equivalent to a short one.
fn short(flags: u8, version: u8) -> Result<[u8; HEADER_BYTES_2 - HEADER_BYTES_1]> {
    let shuffle = if flags & 0x04 != 0 { 2 } else { flags & 0x01 };
    let delta = if flags & 0x08 == 0 { 0 } else { 3 };
    if version <= 2 && (delta != 0 || flags & 0x05 == 0x05) {
        return Err(Error::unsupported(format!("Blosc's flags {flags:#04x}")));
    }
    Ok([0, 0, 0, 0, delta, shuffle, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
}

/// Refuses unsupported features.
fn refuse(flags: u8, more: u8) -> Result<()> {
    if more != 0 {
        return Err(Error::unsupported("a Blosc2 chunk with blocks of variable length"));
    }
    if flags & 0x08 != 0 {
        return Err(Error::unsupported("a lazy Blosc2 chunk, whose data are stored elsewhere"));
    }
    if flags & 0x80 != 0 {
        return Err(Error::unsupported("an instrumented Blosc2 chunk, which has no data"));
    }
    Ok(())
}

/// Determines the content after the header.
fn content(
    body: &[u8],
    size: usize,
    element: usize,
    flags: u8,
    flags2: u8,
    block: usize,
) -> Result<Content<'_>> {
    let value = match flags2 >> 4 & 7 {
        0 => None,
        // Zeros, or uninitialized values.
        1 | 4 => Some(&[0][..]),
        2 => Some(nan(element)?),
        3 => Some(body),
        other => return Err(Error::unsupported(format!("unknown special values {other} of Blosc2"))),
    };
    if let Some(value) = value {
        // Each block starts with a whole value.
        if size.checked_rem(value.len()) != Some(0) || block.checked_rem(value.len()) != Some(0) {
            return Err(damaged(format!(
                "a Blosc chunk of {size} bytes repeats a value of {} bytes",
                value.len()
            )));
        }
        return Ok(Content::Value(value));
    }
    if flags & 0x02 != 0 {
        return match body.get(..size) {
            Some(body) => Ok(Content::Stored(body)),
            None => Err(damaged(format!("a Blosc chunk of {size} bytes stores only {} bytes", body.len()))),
        };
    }
    match size.div_ceil(block).checked_mul(4).and_then(|size| body.get(..size)) {
        Some(starts) => Ok(Content::Blocks(starts)),
        None => Err(damaged("a Blosc chunk too short for the offsets of its blocks")),
    }
}

/// Returns the bytes of C's `nan`, little-endian.
pub(in crate::codec) fn nan(element: usize) -> Result<&'static [u8]> {
    match element {
        4 => Ok(&[0, 0, 0xc0, 0x7f]),
        8 => Ok(&[0, 0, 0, 0, 0, 0, 0xf8, 0x7f]),
        _ => Err(damaged(format!("NaN in {element} bytes"))),
    }
}

/// Reads the dictionary after the offsets of the blocks.
fn dictionary(body: &[u8], at: usize) -> Result<&[u8]> {
    let mut cursor = Cursor::new(body, "Blosc dictionary", 0);
    cursor.skip(at)?;
    let size = cursor.u32()?;
    cursor.take(usize::try_from(size).unwrap_or(usize::MAX))
}

/// Fills `to` with copies of a value.
fn fill(to: &mut [u8], value: &[u8]) {
    match value {
        [byte] => to.fill(*byte),
        [] => {}
        _ => {
            for to in to.chunks_mut(value.len()) {
                to.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
            }
        }
    }
}
