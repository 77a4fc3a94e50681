//! Blosc2 (32026): a contiguous frame of Blosc 2 chunks, optionally with a multidimensional array. Source:
//! README_CFRAME_FORMAT and README_B2ND_METALAYER of Blosc2. Parameters: the filter's version, the bytes in a
//! block, an element and a chunk, the level, the shuffle, the compressor; then the rank and the extent of the
//! chunk.

mod array;
mod encode;
mod frame;
#[cfg(test)]
mod tests;

use super::{Codec, Context, EncodeContext, EncodeOutcome};
use crate::Result;
use array::Array;
use frame::Frame;

/// Blosc2 codec.
#[derive(Debug)]
pub(super) struct Blosc2;

impl Codec for Blosc2 {
    fn id(&self) -> u16 {
        32026
    }

    fn name(&self) -> &'static str {
        "blosc2"
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        self.decode_over(input, output, context)
    }

    fn decode_over(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        let frame = Frame::parse(input, context)?;
        match frame.array {
            Some(description) => {
                let array = Array::parse(description, &frame)?;
                array.check(context.parameters)?;
                array.decode(&frame, output, context)
            }
            None => frame.decode(output, context),
        }
    }

    fn encode(
        &self,
        input: &[u8],
        output: &mut Vec<u8>,
        context: &EncodeContext<'_>,
    ) -> Result<EncodeOutcome> {
        encode::encode(input, output, context)
    }
}
