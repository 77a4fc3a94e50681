//! Filters that only round floats before a lossless filter: BitGroom (32022), Granular BitRound (32023) and
//! BitRound (32032). Decoding does nothing. Source: the list of registered filters.

use super::{Codec, Context};
use crate::Result;

/// Codec of these filters.
#[derive(Debug)]
pub(super) struct BitRounding {
    /// Filter identifier.
    pub id: u16,
    /// Filter name.
    pub name: &'static str,
}

impl Codec for BitRounding {
    fn id(&self) -> u16 {
        self.id
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn can_encode(&self) -> bool {
        false
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, _: &Context<'_>) -> Result<()> {
        output.extend_from_slice(input);
        Ok(())
    }

    fn kept(&self, input: &[u8], _: &Context<'_>) -> Result<Option<usize>> {
        Ok(Some(input.len()))
    }

    fn encoded_size(&self, size: usize, _: &[u32]) -> Option<usize> {
        Some(size)
    }
}
