//! Encoding of a chunk with a whole pipeline.

use super::{Codec, EncodeContext, EncodeOutcome, lookup, only_decoded, registered};
use crate::model::Filter;
use crate::{Error, ErrorKind, Result};

/// Maximum number of filters in a pipeline: a chunk's mask has one bit for each.
const MAX_FILTERS: usize = 32;

/// Pipeline encoder; keeps its buffers from chunk to chunk. Compressor state is kept by each thread.
#[derive(Debug, Default)]
pub struct Encoder {
    /// Result of the last filter, unless the chunk is still unchanged.
    front: Vec<u8>,
    /// Output of the next filter.
    back: Vec<u8>,
    /// Number of threads for one chunk; 0 as 1.
    threads: usize,
}

impl Encoder {
    /// Creates an encoder without buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an encoder that may encode each chunk on up to `threads` threads, the calling one included, if
    /// a filter can do so. Such chunks are larger by up to 2 %, and depend on the number of threads.
    #[must_use]
    pub fn with_threads(threads: usize) -> Self {
        Self { threads, ..Self::default() }
    }

    /// Checks that chunks can be encoded: that each filter is known and has an encoder.
    ///
    /// # Errors
    /// MissingFilter for an unknown filter, Unsupported for one without an encoder.
    pub fn check(pipeline: &[Filter]) -> Result<()> {
        pipeline.iter().try_for_each(|filter| {
            lookup(filter.id, |codec| match codec {
                Some(codec) if codec.can_encode() => Ok(()),
                Some(codec) => Err(only_decoded(codec.name(), codec.id()).within(codec.name())),
                None => Err(registered::missing(filter)),
            })
        })
    }

    /// Encodes `chunk` and returns the bytes to store, and the mask of the skipped filters. As in libhdf5,
    /// optional filters that save nothing or cannot handle the chunk are skipped. Without filters it returns
    /// `chunk` itself, without a copy.
    ///
    /// # Errors
    /// MissingFilter for an unknown filter, Unsupported for one without an encoder, Invalid if its parameters
    /// are invalid or a mandatory filter cannot handle the chunk, Limit if memory is insufficient.
    pub fn encode<'a>(&'a mut self, pipeline: &[Filter], chunk: &'a [u8]) -> Result<(&'a [u8], u32)> {
        if pipeline.len() > MAX_FILTERS {
            let message = format!("a pipeline of {} filters, more than {MAX_FILTERS}", pipeline.len());
            return Err(Error::invalid(message));
        }
        let (mut mask, mut copied, mut length) = (0_u32, false, chunk.len());
        for (filter, bit) in pipeline.iter().zip((0..).map(|number| 1_u32.unbounded_shl(number))) {
            let input = if copied { &self.front } else { chunk };
            let input = input.get(..length).unwrap_or_default();
            let (back, threads) = (&mut self.back, self.threads);
            match lookup(filter.id, |codec| match codec {
                Some(codec) => apply(codec, filter, threads, input, back),
                None => Err(registered::missing(filter)),
            })? {
                EncodeOutcome::Same => {}
                EncodeOutcome::Refused => mask |= bit,
                EncodeOutcome::Written(written) => {
                    std::mem::swap(&mut self.front, &mut self.back);
                    length = written.min(self.front.len());
                    copied = true;
                }
            }
        }
        let bytes = if copied { &self.front } else { chunk };
        Ok((bytes.get(..length).unwrap_or_default(), mask))
    }
}

/// Applies one filter. The result is only `Refused` for an optional one.
fn apply(
    codec: &dyn Codec,
    filter: &Filter,
    threads: usize,
    input: &[u8],
    output: &mut Vec<u8>,
) -> Result<EncodeOutcome> {
    let context = EncodeContext { parameters: &filter.parameters, optional: filter.optional };
    let done = match threads {
        0..=1 => codec.encode(input, output, &context),
        _ => codec.encode_on(threads, input, output, &context),
    };
    let done = done.map_err(|error| {
        // Only the parameters can be at fault.
        let error = match error.kind() {
            ErrorKind::Filter => Error::invalid(error.message()),
            _ => error,
        };
        error.within(codec.name())
    })?;
    match done {
        // A filter with a result of known size, such as a checksum, does not compress and so serves another
        // purpose.
        EncodeOutcome::Written(length)
            if filter.optional
                && length >= input.len()
                && codec.encoded_size(input.len(), &filter.parameters).is_none() =>
        {
            Ok(EncodeOutcome::Refused)
        }
        EncodeOutcome::Refused if !filter.optional => {
            let message = "the filter cannot encode this chunk, or not make it smaller, and is not optional";
            Err(Error::invalid(message).within(codec.name()))
        }
        done => Ok(done),
    }
}

#[cfg(test)]
mod tests;
