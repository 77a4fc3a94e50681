//! Per-thread buffers for gathering and compressing chunks.

use hyperchunk_format::codec::Encoder;

/// One thread's buffers.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// A whole decoded chunk.
    pub(super) chunk: Vec<u8>,
    pub(super) encoder: Encoder,
}
