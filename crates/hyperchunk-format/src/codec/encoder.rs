//! Applying a whole pipeline to one chunk.

use super::{Codec, EncodeContext, Encoded, lookup, registered};
use crate::model::Filter;
use crate::{Error, ErrorKind, Result};

/// The most filters that a pipeline may have: the mask of a chunk has a bit for each.
const MOST_FILTERS: usize = 32;

/// Applies pipelines; keeps its buffers from chunk to chunk. What compressors need is kept by each thread.
#[derive(Debug, Default)]
pub struct Encoder {
    /// What the last filter made, unless that is still the chunk itself.
    front: Vec<u8>,
    /// What the next filter writes to.
    back: Vec<u8>,
}

impl Encoder {
    /// One without buffers yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes to store for `chunk`, and the mask with the bits of filters that were left out. Those are optional ones
    /// that gain nothing or cannot take the chunk, as libhdf5 has it. Without filters, `chunk` itself: nothing is copied.
    ///
    /// # Errors
    /// MissingFilter for a filter that is not known, Unsupported for one that cannot be written, Invalid if its parameters
    /// make no sense or a filter that is not optional cannot take the chunk, Limit if there is no memory.
    pub fn encode<'a>(&'a mut self, pipeline: &[Filter], chunk: &'a [u8]) -> Result<(&'a [u8], u32)> {
        if pipeline.len() > MOST_FILTERS {
            let message = format!("a pipeline of {} filters; {MOST_FILTERS} are the most", pipeline.len());
            return Err(Error::invalid(message));
        }
        let (mut mask, mut copied, mut length) = (0_u32, false, chunk.len());
        for (filter, bit) in pipeline.iter().zip((0..).map(|number| 1_u32.unbounded_shl(number))) {
            let input = if copied { &self.front } else { chunk };
            let input = input.get(..length).unwrap_or_default();
            let back = &mut self.back;
            match lookup(filter.id, |codec| match codec {
                Some(codec) => apply(codec, filter, input, back),
                None => Err(registered::missing(filter)),
            })? {
                Encoded::Same => {}
                Encoded::Refused => mask |= bit,
                Encoded::Written(written) => {
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

/// Applies one filter. It is only refused if it is optional.
fn apply(codec: &dyn Codec, filter: &Filter, input: &[u8], output: &mut Vec<u8>) -> Result<Encoded> {
    let context = EncodeContext { parameters: &filter.parameters, optional: filter.optional };
    let done = codec.encode(input, output, &context).map_err(|error| {
        // There is nothing that could be damaged but the parameters.
        let error = match error.kind() {
            ErrorKind::Filter => Error::invalid(error.message()),
            _ => error,
        };
        error.within(codec.name())
    })?;
    match done {
        // A filter whose result has a certain size, as a checksum, does not compress and so is wanted for something else.
        Encoded::Written(length)
            if filter.optional
                && length >= input.len()
                && codec.encoded_size(input.len(), &filter.parameters).is_none() =>
        {
            Ok(Encoded::Refused)
        }
        Encoded::Refused if !filter.optional => {
            let message = "it cannot take this chunk, or not make it smaller, and is not marked as optional";
            Err(Error::invalid(message).within(codec.name()))
        }
        done => Ok(done),
    }
}

#[cfg(test)]
mod tests;
