//! Encoder for chunks of Blosc 1 and 2.

use super::filters::damaged;
use super::streams::Writer;
use crate::codec::bit_planes::Splitter;
use crate::codec::shuffle::shuffle;
use crate::codec::{EncodeContext, lz4};
use crate::thread_state::with_state;
use crate::{Error, Result};
use std::cell::RefCell;

/// Maximum size of a chunk.
const MAX_CHUNK_BYTES: usize = i32::MAX as usize - 32;
/// Minimum size of a chunk to compress.
const MIN_CHUNK_BYTES: usize = 128;
/// Limits for splitting a block into one stream for each byte of an element: maximum size of an element,
/// minimum number of elements.
const MAX_STREAMS: usize = 16;
const MIN_ELEMENTS: usize = 128;

/// Bits of the header's flags.
const BYTES_SHUFFLED: u8 = 0x01;
const STORED: u8 = 0x02;
const BITS_SHUFFLED: u8 = 0x04;
const NOT_SPLIT: u8 = 0x10;

thread_local! {
    /// Splitter, and buffer for a block after its filter.
    static STATE: RefCell<(Splitter, Vec<u8>)> = RefCell::default();
}

/// Parameters of the encoder.
#[derive(Debug, Clone, Copy)]
pub(in crate::codec) struct Settings {
    /// Size of an element, at most 255.
    pub(in crate::codec) element: usize,
    pub(in crate::codec) level: u32,
    /// Shuffle: 0 none, 1 bytes, 2 bits.
    pub(in crate::codec) shuffle: u32,
    /// Compressor number in the filter's parameters.
    pub(in crate::codec) compressor: u32,
    /// True for Blosc 2.
    pub(in crate::codec) second: bool,
}

impl Settings {
    /// Reads the settings from the parameters of either filter.
    pub(in crate::codec) fn new(parameters: &[u32], second: bool) -> Result<Self> {
        let parameter = |at: usize, usual| parameters.get(at).copied().unwrap_or(usual);
        let element = match parameter(2, 0) {
            0 => return Err(damaged("the filter parameter for the size of an element is missing or 0")),
            size => usize::try_from(size).ok().filter(|size| *size <= 255).unwrap_or(1),
        };
        let (level, shuffle, compressor) = (parameter(4, 5), parameter(5, 1), parameter(6, 0));
        if level > 9 {
            return Err(Error::invalid(format!("level {level}: expected 0 to 9")));
        }
        if shuffle > 2 {
            return Err(Error::unsupported(format!("cannot write with Blosc's filter {shuffle}")));
        }
        // Shuffling single bytes has no effect.
        let shuffle = if element == 1 && shuffle == 1 { 0 } else { shuffle };
        Ok(Self { element, level, shuffle, compressor, second })
    }

    /// Returns the size of a block for a chunk of `size` bytes: a multiple of eight elements, larger at
    /// higher levels.
    fn block(&self, size: usize) -> usize {
        const KIB: [usize; 10] = [32, 32, 64, 64, 128, 128, 256, 256, 512, 1024];
        let kib = KIB.get(self.level as usize).copied().unwrap_or(128);
        let unit = self.element.saturating_mul(8);
        let units = kib.saturating_mul(1024).checked_div(unit).unwrap_or(0).max(1);
        units.saturating_mul(unit).min(size)
    }

    /// Returns the compressor's number in headers.
    #[cfg(feature = "blosc2")]
    pub(in crate::codec) fn format(&self) -> Result<u8> {
        Writer::new(self.compressor, self.level, self.second).map(Writer::format)
    }

    fn header(&self) -> usize {
        if self.second { 32 } else { 16 }
    }

    /// Returns the buffer size needed to encode a chunk of `size` bytes.
    pub(in crate::codec) fn room(&self, size: usize) -> usize {
        let block = self.block(size).max(1);
        // The offset of a block, and the sizes of its streams.
        let blocks = size.div_ceil(block).saturating_mul(MAX_STREAMS.saturating_add(2).saturating_mul(4));
        size.saturating_add(blocks).saturating_add(lz4::bound(block)).saturating_add(64)
    }

    /// Encodes `input` at the start of `to`, which must be large enough, and returns the length. Returns
    /// `None` if the input is too large for Blosc, or if the filter is optional and would save nothing.
    pub(in crate::codec) fn chunk(
        &self,
        input: &[u8],
        to: &mut [u8],
        context: &EncodeContext<'_>,
    ) -> Result<Option<usize>> {
        if input.is_empty() || input.len() > MAX_CHUNK_BYTES {
            return Ok(None);
        }
        let most = if context.optional { input.len() } else { usize::MAX };
        let stored = input.len().saturating_add(self.header());
        if self.level > 0 && input.len() >= MIN_CHUNK_BYTES {
            let block = self.block(input.len());
            if let Some(length) = self.blocks(input, block, to, most.min(stored))? {
                return Ok(Some(length));
            }
        }
        if context.optional {
            return Ok(None);
        }
        self.write_header(input.len(), self.block(input.len()), stored, STORED, to);
        if let Some(to) = to.get_mut(self.header()..stored) {
            to.copy_from_slice(input);
        }
        Ok(Some(stored))
    }

    /// Encodes the blocks; returns `None` if they take `most` bytes or more.
    fn blocks(&self, input: &[u8], block: usize, to: &mut [u8], most: usize) -> Result<Option<usize>> {
        let writer = Writer::new(self.compressor, self.level, self.second)?;
        let elements = block.checked_div(self.element).unwrap_or(0);
        let split = writer.splits()
            && self.element <= MAX_STREAMS
            && elements >= MIN_ELEMENTS
            && block.checked_rem(self.element) == Some(0);
        let mut starts = self.header();
        let mut at = input.len().div_ceil(block).saturating_mul(4).saturating_add(starts);
        with_state(&STATE, |(splitter, filtered)| {
            for from in input.chunks(block) {
                put(to, starts, at);
                starts = starts.saturating_add(4);
                let from = self.filter(from, splitter, filtered);
                let streams = if split && from.len() == block { self.element } else { 1 };
                let size = from.len().checked_div(streams).unwrap_or(0).max(1);
                for stream in from.chunks(size) {
                    at = self.stream(writer, stream, to, at)?;
                    if at >= most {
                        return Ok(None);
                    }
                }
            }
            let flags = if split { 0 } else { NOT_SPLIT } | writer.format() << 5;
            self.write_header(input.len(), block, at, flags, to);
            Ok(Some(at))
        })
    }

    /// Applies the filter to a block.
    fn filter<'a>(&self, from: &'a [u8], splitter: &mut Splitter, filtered: &'a mut Vec<u8>) -> &'a [u8] {
        if self.shuffle == 0 {
            return from;
        }
        filtered.resize(from.len(), 0);
        if self.shuffle == 1 {
            shuffle(from, filtered, self.element);
            return filtered;
        }
        let count = from.len().checked_div(self.element).unwrap_or(0);
        // Blosc 1 does not shuffle blocks whose number of elements is no multiple of eight.
        let eights = if !self.second && !count.is_multiple_of(8) { 0 } else { count & !7 };
        let end = eights.saturating_mul(self.element);
        let (elements, loose) = from.split_at_checked(end).unwrap_or((from, &[]));
        let (planes, loose_to) = filtered.split_at_mut_checked(end).unwrap_or_default();
        splitter.split(elements, planes, self.element);
        loose_to.copy_from_slice(loose);
        filtered
    }

    /// Writes the size of a stream and the stream at `at`; returns its end.
    fn stream(&self, writer: Writer, from: &[u8], to: &mut [u8], at: usize) -> Result<usize> {
        let start = at.saturating_add(4);
        // Blosc 2 has a special form for zeros.
        if self.second && from.iter().fold(0, |all, byte| all | byte) == 0 {
            put(to, at, 0);
            return Ok(start);
        }
        let written = match writer.compress(from, to.get_mut(start..).unwrap_or_default())? {
            Some(written) if written < from.len() => written,
            _ => {
                let end = start.saturating_add(from.len());
                if let Some(to) = to.get_mut(start..end) {
                    to.copy_from_slice(from);
                }
                from.len()
            }
        };
        put(to, at, written);
        Ok(start.saturating_add(written))
    }

    fn write_header(&self, size: usize, block: usize, length: usize, flags: u8, to: &mut [u8]) {
        let shuffled = match self.shuffle {
            1 => BYTES_SHUFFLED,
            2 => BITS_SHUFFLED,
            _ => 0,
        };
        // Both flags together announce the longer header, which has the filters in six slots.
        let shuffled = if self.second { BYTES_SHUFFLED | BITS_SHUFFLED } else { shuffled };
        let element = self.element.to_le_bytes()[0];
        let version = if self.second { 5 } else { 2 };
        if let Some(to) = to.get_mut(..self.header()) {
            to.fill(0);
            let start = [version, 1, flags | shuffled, element];
            to.iter_mut().zip(start).for_each(|(to, from)| *to = from);
            // The last filter slot, followed by the compressor's number in the filter's parameters.
            let numbers = [self.shuffle, self.compressor].map(|number| number.to_le_bytes()[0]);
            to.iter_mut().skip(21).zip(numbers).for_each(|(to, from)| *to = from);
        }
        put(to, 4, size);
        put(to, 8, block);
        put(to, 12, length);
    }
}

/// Writes a 32-bit number.
fn put(to: &mut [u8], at: usize, value: usize) {
    if let Some(to) = to.get_mut(at..at.saturating_add(4)) {
        to.copy_from_slice(&u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes());
    }
}
