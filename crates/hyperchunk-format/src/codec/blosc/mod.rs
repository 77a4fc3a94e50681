//! Blosc (32001): self-describing chunks of Blosc 1. Parameters: two versions, the sizes of an element and of
//! a chunk, the level, the shuffle, the compressor; only used for encoding. Source: Blosc's
//! README_CHUNK_FORMAT.

mod blosclz;
mod chunk;
mod encode;
mod filters;
mod streams;
#[cfg(test)]
mod tests;

#[cfg(feature = "blosc2")]
pub(super) use chunk::nan;
pub(super) use chunk::{Chunk, State};
pub(super) use encode::Settings;

use super::{Codec, Context, EncodeContext, EncodeOutcome};
use crate::Result;

/// Blosc codec.
#[derive(Debug)]
pub(super) struct Blosc;

impl Codec for Blosc {
    fn id(&self) -> u16 {
        32001
    }

    fn name(&self) -> &'static str {
        "blosc"
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        self.decode_over(input, output, context)
    }

    fn decode_over(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        let chunk = Chunk::parse(input, None)?;
        State::with(|state| chunk.decode(state, output, context))
    }

    fn encode(
        &self,
        input: &[u8],
        output: &mut Vec<u8>,
        context: &EncodeContext<'_>,
    ) -> Result<EncodeOutcome> {
        let settings = Settings::new(context.parameters, false)?;
        let room = context.room(output, settings.room(input.len()))?;
        Ok(settings.chunk(input, room, context)?.map_or(EncodeOutcome::Refused, EncodeOutcome::Written))
    }
}
