//! Filters: what was done to a chunk before it was stored, undone. Source: specification §IV.A.2.l; each filter names its own.

mod pipeline;
mod registry;

pub use pipeline::Decoder;
pub use registry::{lookup, register_codec};

use crate::Result;

/// What a filter knows when it undoes its work.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The filter's client data, from the pipeline.
    pub parameters: &'a [u32],
    /// How many bytes should come out, where the rest of the pipeline tells. A hint: check what depends on it.
    pub expected: Option<usize>,
    /// More bytes than this must never come out: an error of kind Limit instead.
    pub limit: usize,
}

/// A filter of the pipeline.
pub trait Codec: Send + Sync + std::fmt::Debug {
    /// Its registered number.
    fn id(&self) -> u16;

    /// Its name in messages.
    fn name(&self) -> &'static str;

    /// Undoes the filter: appends the bytes that `input` was made from to `output`, which comes empty and with
    /// whatever capacity it has.
    ///
    /// # Errors
    /// Filter if the input is damaged, Unsupported if it is of a kind not known, Limit if too much would come out.
    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()>;
}
