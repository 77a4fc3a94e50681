//! Filters: encoding of chunks before storage, and decoding. Source: specification §IV.A.2.l; the source of
//! each filter is given in its module.

#[cfg(any(feature = "bitshuffle", feature = "blosc"))]
mod bit_planes;
mod bit_rounding;
mod bits;
#[cfg(feature = "bitshuffle")]
mod bitshuffle;
#[cfg(feature = "blosc")]
mod blosc;
#[cfg(feature = "blosc2")]
mod blosc2;
#[cfg(feature = "bzip2")]
mod bzip2;
#[cfg(feature = "deflate")]
mod deflate;
mod encoder;
#[cfg(any(feature = "sz", feature = "sz3"))]
mod error_bounded;
#[cfg(feature = "fcidecomp")]
mod fcidecomp;
mod filter;
mod fletcher32;
#[cfg(feature = "fcidecomp")]
mod jpeg_ls;
#[cfg(feature = "lz4")]
mod lz4;
mod lzf;
mod nbit;
mod pipeline;
mod registered;
mod registry;
#[cfg(test)]
mod sample;
mod scaleoffset;
mod shuffle;
#[cfg(feature = "snappy")]
mod snappy;
#[cfg(feature = "sperr")]
mod sperr;
#[cfg(feature = "sz")]
mod sz;
#[cfg(feature = "sz3")]
mod sz3;
mod szip;
#[cfg(test)]
mod testing;
#[cfg(feature = "zfp")]
mod zfp;
#[cfg(feature = "zstd")]
mod zstd;

pub use encoder::Encoder;
pub use filter::{PRESETS, Target, filter, preset, preset_with};
pub use pipeline::Decoder;
pub use registry::{filter_name, lookup, register_codec};
#[cfg(feature = "snappy")]
pub use snappy::{Snappy, SnappyBlock, SnappyBlocks};

use crate::{Error, Result};

/// Input of a filter's decoder.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Client data of the filter, from the pipeline.
    pub parameters: &'a [u32],
    /// Expected decoded size, if the rest of the pipeline determines it. A hint: check everything that
    /// depends on it.
    pub expected: Option<usize>,
    /// Maximum decoded size; a larger one must be an error of kind Limit.
    pub limit: usize,
}

/// Returns `count` copies of a value.
///
/// # Errors
/// Limit if there is no memory.
pub(crate) fn filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>> {
    let mut values = with_room(count)?;
    values.resize(count, value);
    Ok(values)
}

/// Returns an empty vector with room for `count` values.
///
/// # Errors
/// Limit if there is no memory.
pub(crate) fn with_room<T>(count: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    let reserved = values.try_reserve_exact(count);
    reserved.map_err(|_| Error::limit(format!("no memory for {count} values of a chunk")))?;
    Ok(values)
}

/// Resizes a buffer; new bytes are zero.
///
/// # Errors
/// Limit if there is no memory.
pub(crate) fn resize(buffer: &mut Vec<u8>, size: usize) -> Result<()> {
    let reserved = buffer.try_reserve_exact(size.saturating_sub(buffer.len()));
    reserved.map_err(|_| Error::limit(format!("no memory for {size} bytes")))?;
    buffer.resize(size, 0);
    Ok(())
}

impl Context<'_> {
    /// Resizes `output` to `size` bytes, all of which are to be overwritten, if the limit allows it.
    ///
    /// # Errors
    /// Limit if `size` exceeds the limit, or memory is insufficient.
    pub fn room<'o>(&self, output: &'o mut Vec<u8>, size: u64) -> Result<&'o mut [u8]> {
        let Some(size) = usize::try_from(size).ok().filter(|size| *size <= self.limit) else {
            return Err(Error::limit(format!(
                "the chunk decodes to {size} bytes, more than the limit of {}",
                self.limit
            )));
        };
        resize(output, size)?;
        Ok(output)
    }
}

/// Input of a filter's encoder.
#[derive(Debug, Clone, Copy)]
pub struct EncodeContext<'a> {
    /// Client data of the filter, from the pipeline.
    pub parameters: &'a [u32],
    /// True if the filter may be skipped for this chunk: it may then stop as soon as it saves nothing.
    pub optional: bool,
}

impl EncodeContext<'_> {
    /// Extends `output` to at least `size` bytes, with arbitrary content, and returns the first `size` of
    /// them.
    ///
    /// # Errors
    /// Limit if memory is insufficient.
    pub fn room<'o>(&self, output: &'o mut Vec<u8>, size: usize) -> Result<&'o mut [u8]> {
        let more = size.saturating_sub(output.len());
        if output.try_reserve_exact(more).is_err() {
            return Err(Error::limit(format!("no memory for {size} bytes")));
        }
        if more > 0 {
            output.resize(size, 0);
        }
        Ok(output.get_mut(..size).unwrap_or_default())
    }

    /// Returns the output size for a compressor: less than the input for an optional filter, otherwise the
    /// maximum size of its result.
    #[must_use]
    pub fn most(&self, input: &[u8], bound: usize) -> usize {
        if self.optional { bound.min(input.len().saturating_sub(1)) } else { bound }
    }
}

/// Result of a filter's encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncodeOutcome {
    /// Number of bytes written to the start of the output.
    Written(usize),
    /// The output is the unchanged input; the filter counts as applied.
    Same,
    /// No gain, or the chunk is unsuitable. An optional filter is then skipped, by the chunk's mask.
    Refused,
}

/// Returns the error for chunks with a filter that has no encoder.
fn only_decoded(name: &str, id: u16) -> Error {
    Error::unsupported(format!("chunks with the filter {name} ({id}) can be read, but not written"))
}

/// Implementation of a filter. Only [`Codec::decode`] and, for writing, [`Codec::encode`] are needed; the
/// other methods save time.
pub trait Codec: Send + Sync + std::fmt::Debug {
    /// Returns the registered filter identifier.
    fn id(&self) -> u16;

    /// Returns the name for messages.
    fn name(&self) -> &'static str;

    /// Decodes `input`: appends the original bytes to `output`, which is empty but may have capacity.
    ///
    /// # Errors
    /// Filter if the input is damaged, Unsupported if its variant is unknown, Limit if the result is too
    /// large.
    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()>;

    /// Decodes like [`Codec::decode`], but `output` has an earlier chunk's bytes, which must be replaced. A
    /// filter that knows the decoded size resizes and overwrites them, which saves clearing.
    ///
    /// # Errors
    /// As [`Codec::decode`].
    fn decode_over(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        output.clear();
        self.decode(input, output, context)
    }

    /// Returns the decoded length for a filter that leaves the bytes unchanged, or only appends some: the
    /// number of bytes of `input` to keep. In this case no bytes are copied, and the other two methods are
    /// not called.
    ///
    /// # Errors
    /// As [`Codec::decode`].
    fn kept(&self, input: &[u8], context: &Context<'_>) -> Result<Option<usize>> {
        let _ = (input, context);
        Ok(None)
    }

    /// Encodes `input`: writes the result to the start of `output`, which has arbitrary bytes of an earlier
    /// chunk and may stay longer than the result.
    ///
    /// # Errors
    /// Unsupported if the filter can only be decoded, Invalid if the parameters are invalid, Limit if memory
    /// is insufficient.
    fn encode(
        &self,
        input: &[u8],
        output: &mut Vec<u8>,
        context: &EncodeContext<'_>,
    ) -> Result<EncodeOutcome> {
        let _ = (input, output, context);
        Err(only_decoded(self.name(), self.id()))
    }

    /// Returns whether there is an encoder: false if [`Codec::encode`] is always an error.
    fn can_encode(&self) -> bool {
        true
    }

    /// Encodes like [`Codec::encode`], with the help of up to `threads` threads, the calling one included, that
    /// end before the call does. The result may depend on the number of threads, but not what it decodes to.
    ///
    /// # Errors
    /// As [`Codec::encode`].
    fn encode_on(
        &self,
        threads: usize,
        input: &[u8],
        output: &mut Vec<u8>,
        context: &EncodeContext<'_>,
    ) -> Result<EncodeOutcome> {
        let _ = threads;
        self.encode(input, output, context)
    }

    /// Returns the encoded size for `size` bytes, if it is fixed. It tells the following filters their
    /// expected size.
    fn encoded_size(&self, size: usize, parameters: &[u32]) -> Option<usize> {
        let _ = (size, parameters);
        None
    }
}
