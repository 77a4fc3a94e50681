//! Filters of Blosc chunks, between compressor and data. Source: Blosc's README_CHUNK_FORMAT, and its
//! library's output.

use crate::codec::bit_planes::Joiner;
use crate::codec::resize;
use crate::codec::shuffle::unshuffle;
use crate::{Error, ErrorKind, Result};

/// Filter of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    /// Byte shuffle, for elements of this size.
    Shuffle(usize),
    /// Bit shuffle. Chunks of versions 1 and 2 skip blocks whose number of elements is no multiple of eight.
    BitShuffle { size: usize, eights_only: bool },
    /// Exclusive or with the elements of the chunk's first block; in that block with the preceding element.
    Delta(usize),
    /// Byte differences within each of a number of streams. If `broken`, they restart for the bytes past a
    /// multiple of 16.
    ByteDelta { streams: usize, broken: bool },
}

/// Returns the filter with an identifier; `None` if it does not change the bytes on decoding.
pub(super) fn filter(id: u8, meta: u8, size: usize, item: usize, version: u8) -> Result<Option<Filter>> {
    let given = |size| if meta == 0 { size } else { usize::from(meta) };
    Ok(Some(match id {
        // No filter; truncation of precision for floats, for integers.
        0 | 4 | 36 => return Ok(None),
        1 => Filter::Shuffle(given(size)),
        2 => Filter::BitShuffle { size, eights_only: version <= 2 },
        3 => Filter::Delta(size),
        34 | 35 => Filter::ByteDelta { streams: given(item), broken: id == 34 },
        32 => return Err(Error::unsupported("Blosc2's filter ndcell (32)")),
        33 => return Err(Error::unsupported("Blosc2's filter ndmean (33)")),
        _ => {
            return Err(Error::unsupported(format!(
                "filter {id} of Blosc2, which is not one of its own filters"
            )));
        }
    }))
}

/// Decoder for a chain of filters; keeps its buffers.
#[derive(Debug, Default)]
pub(super) struct Filters {
    joiner: Joiner,
    /// Block after decompression, then after each filter.
    pub(super) block: Vec<u8>,
    other: Vec<u8>,
}

impl Filters {
    /// Decodes `block` into `to`. `first` is the chunk's first block, unless that is the block to decode.
    ///
    /// # Errors
    /// Limit if there is no memory.
    pub(super) fn undo(&mut self, filters: &[Filter], first: Option<&[u8]>, to: &mut [u8]) -> Result<()> {
        for (number, filter) in filters.iter().enumerate() {
            let last = number.saturating_add(1) == filters.len();
            match *filter {
                Filter::Delta(size) => delta(&mut self.block, first, size),
                Filter::ByteDelta { streams, broken } => byte_delta(&mut self.block, streams, broken),
                Filter::Shuffle(_) | Filter::BitShuffle { .. } => {
                    resize(&mut self.other, self.block.len())?;
                    let target = if last { &mut *to } else { &mut self.other };
                    match *filter {
                        Filter::BitShuffle { size, eights_only } => {
                            bit_unshuffle(&mut self.joiner, &self.block, target, size, eights_only);
                        }
                        Filter::Shuffle(size) => unshuffle(&self.block, target, size),
                        _ => {}
                    }
                    if last {
                        return Ok(());
                    }
                    std::mem::swap(&mut self.block, &mut self.other);
                }
            }
        }
        to.copy_from_slice(&self.block);
        Ok(())
    }
}

/// Inverts the bit shuffle. Elements past a multiple of eight, and incomplete elements, are unshuffled.
fn bit_unshuffle(joiner: &mut Joiner, from: &[u8], to: &mut [u8], size: usize, eights_only: bool) {
    let count = from.len().checked_div(size).unwrap_or(0);
    let eights = if eights_only && !count.is_multiple_of(8) { 0 } else { count & !7 };
    let end = eights.saturating_mul(size);
    let (planes, loose) = from.split_at_checked(end).unwrap_or((from, &[]));
    let (elements, loose_to) = to.split_at_mut_checked(end).unwrap_or_default();
    joiner.join(planes, elements, size);
    loose_to.copy_from_slice(loose);
}

/// Inverts the exclusive or, in place.
fn delta(block: &mut [u8], first: Option<&[u8]>, size: usize) {
    let size = match size {
        1 | 2 | 4 | 8 => size,
        _ if size.is_multiple_of(8) => 8,
        _ => 1,
    };
    let whole = block.len().saturating_sub(block.len().checked_rem(size).unwrap_or(0));
    let whole = block.get_mut(..whole).unwrap_or_default();
    if let Some(first) = first {
        whole.iter_mut().zip(first).for_each(|(byte, other)| *byte ^= other);
        return;
    }
    let mut before = [0; 8];
    for element in whole.chunks_exact_mut(size) {
        for (byte, before) in element.iter_mut().zip(&mut before) {
            *byte ^= *before;
            *before = *byte;
        }
    }
}

/// Inverts the byte differences, in place.
fn byte_delta(block: &mut [u8], streams: usize, broken: bool) {
    let length = block.len().checked_div(streams).unwrap_or(0);
    if length == 0 {
        return;
    }
    let add = |bytes: &mut [u8]| {
        let mut before = 0_u8;
        for byte in bytes {
            before = before.wrapping_add(*byte);
            *byte = before;
        }
    };
    for stream in block.chunks_exact_mut(length).take(streams) {
        let restart = if broken { length & !15 } else { length };
        let (front, back) = stream.split_at_mut_checked(restart).unwrap_or_default();
        add(front);
        add(back);
    }
}

/// Creates an error about a chunk's filters or blocks.
#[cold]
pub(super) fn damaged(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Filter, message)
}
