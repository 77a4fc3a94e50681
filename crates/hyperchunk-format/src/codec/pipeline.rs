//! Decoding of a chunk with a whole pipeline.

use super::{Codec, Context, lookup, registered};
use crate::model::Filter;
use crate::{Error, ErrorKind, Result};

/// Pipeline decoder; keeps its buffers from chunk to chunk.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Result of the last filter, unless it is still a part of the stored bytes.
    front: Vec<u8>,
    /// Output of the next filter.
    back: Vec<u8>,
    /// Expected decoded size of each filter, where known.
    sizes: Vec<Option<usize>>,
}

impl Decoder {
    /// Decodes `stored` to exactly `expected` bytes. `mask` has the bits of the filters that were skipped for
    /// the chunk. A chunk without filters is not copied. Excess bytes are ignored, as in libhdf5 up to 2.0.
    /// Missing bytes are an error, whereas libhdf5 returns arbitrary ones.
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

    /// Decodes like [`Decoder::decode`], for a chunk that extends past its dataset's extent: some writers
    /// store it only up to the last element inside the extent. At least `least` of the `expected` bytes must
    /// be present; the others become zeros.
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
        self.predict_sizes(pipeline, mask, expected);
        // Filters that save nothing, or add headers to small chunks, produce more than they read.
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
            super::resize(&mut self.front, expected)?;
            return Ok(&self.front);
        }
        let bytes = if copied { &self.front } else { stored };
        bytes.get(..length).and_then(|bytes| bytes.get(..expected)).ok_or_else(|| {
            let message = format!("the chunk has {length} bytes after its filters instead of {expected}");
            Error::new(ErrorKind::Filter, message)
        })
    }

    /// Fills `sizes`: they are known from the first filter up to the first one with a result of variable
    /// size.
    fn predict_sizes(&mut self, pipeline: &[Filter], mask: u32, expected: usize) {
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

/// True if the mask of a chunk marks this filter as skipped. It has bits for 32 filters.
fn is_left_out(mask: u32, number: usize) -> bool {
    mask & 1_u32.unbounded_shl(u32::try_from(number).unwrap_or(u32::MAX)) != 0
}

/// Decodes one filter into `output`, or returns the number of bytes of `input` that are the result.
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
