//! Undoing a whole pipeline for one chunk.

use super::{Codec, Context, lookup, registered};
use crate::model::Filter;
use crate::{Error, ErrorKind, Result};

/// Undoes pipelines; keeps its buffers from chunk to chunk.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The bytes that came out of the last filter, unless they still lie in what was stored.
    front: Vec<u8>,
    /// What the next filter writes to.
    back: Vec<u8>,
    /// For each filter, how many bytes must come out of it, where that is known.
    sizes: Vec<Option<usize>>,
}

impl Decoder {
    /// The bytes that were filtered to `stored`: exactly `expected` of them. `mask` has the chunk's bits for filters that
    /// were left out. A chunk without filters is not copied. What is there beyond `expected` is left out, as libhdf5 does
    /// up to 2.0; where it makes up what is missing, this is an error.
    ///
    /// # Errors
    /// MissingFilter with the filter's name and how to get it; Filter if the chunk is damaged or too short.
    pub fn decode<'a>(
        &'a mut self,
        pipeline: &[Filter],
        mask: u32,
        stored: &'a [u8],
        expected: usize,
    ) -> Result<&'a [u8]> {
        self.decode_padded(pipeline, mask, stored, expected, expected)
    }

    /// As [`Decoder::decode`], for a chunk that reaches beyond the extent of its dataset: some writers store it up to its last
    /// element inside. Of `expected` bytes, at least `least` must be there; the others are zeros.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn decode_padded<'a>(
        &'a mut self,
        pipeline: &[Filter],
        mask: u32,
        stored: &'a [u8],
        expected: usize,
        least: usize,
    ) -> Result<&'a [u8]> {
        self.foresee(pipeline, mask, expected);
        // Filters that gain nothing, or put headers before small chunks, write more than they read.
        let limit = expected.saturating_mul(4).saturating_add(1 << 16);
        let mut copied = false;
        let mut length = stored.len();
        let sizes = self.sizes.iter().copied();
        for ((number, filter), size) in pipeline.iter().enumerate().zip(sizes).rev() {
            if is_left_out(mask, number) {
                continue;
            }
            let input = if copied { &self.front } else { stored };
            let input = input.get(..length).unwrap_or_default();
            let context = Context { parameters: &filter.parameters, expected: size, limit };
            let back = &mut self.back;
            let kept = lookup(filter.id, |codec| match codec {
                Some(codec) => undo(codec, input, back, &context),
                None => Err(registered::missing(filter)),
            })?;
            if let Some(kept) = kept {
                length = kept.min(length);
            } else {
                std::mem::swap(&mut self.front, &mut self.back);
                length = self.front.len();
                copied = true;
            }
        }
        if (least..expected).contains(&length) {
            if !copied {
                self.front.clear();
                self.front.extend_from_slice(stored);
            }
            self.front.truncate(length);
            self.front.resize(expected, 0);
            return Ok(&self.front);
        }
        let bytes = if copied { &self.front } else { stored };
        bytes.get(..length).and_then(|bytes| bytes.get(..expected)).ok_or_else(|| {
            let message = format!("the chunk has {length} bytes after its filters instead of {expected}");
            Error::new(ErrorKind::Filter, message)
        })
    }

    /// Fills `sizes`: known from the first filter on, until one whose result may have any size.
    fn foresee(&mut self, pipeline: &[Filter], mask: u32, expected: usize) {
        let mut size = Some(expected);
        self.sizes.clear();
        self.sizes.extend(pipeline.iter().enumerate().map(|(number, filter)| {
            let before = size;
            if !is_left_out(mask, number) {
                size = before.and_then(|before| {
                    lookup(filter.id, |codec| codec?.encoded_size(before, &filter.parameters))
                });
            }
            before
        }));
    }
}

/// Whether the mask of a chunk says that this filter was not applied. It has bits for 32 filters.
fn is_left_out(mask: u32, number: usize) -> bool {
    mask & 1_u32.unbounded_shl(u32::try_from(number).unwrap_or(u32::MAX)) != 0
}

/// Undoes one filter: into `output`, or how many bytes of `input` are the result.
fn undo(
    codec: &dyn Codec,
    input: &[u8],
    output: &mut Vec<u8>,
    context: &Context<'_>,
) -> Result<Option<usize>> {
    let done = codec.kept(input, context).and_then(|kept| match kept {
        Some(kept) => Ok(Some(kept)),
        None => codec.decode_over(input, output, context).map(|()| None),
    });
    done.map_err(|error| {
        let error = match error.kind() {
            ErrorKind::Corrupt | ErrorKind::Truncated => Error::new(ErrorKind::Filter, error.message()),
            _ => error,
        };
        error.within(codec.name())
    })
}

#[cfg(test)]
mod tests;
