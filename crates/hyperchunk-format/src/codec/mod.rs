//! Filters: what is done to a chunk before it is stored, and that undone. Source: specification §IV.A.2.l; each filter names its own.

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
pub use filter::{PRESETS, Target, filter, preset};
pub use pipeline::Decoder;
pub use registry::{lookup, name_of, register_codec};
#[cfg(feature = "snappy")]
pub use snappy::{Snappy, SnappyBlock, SnappyBlocks};

use crate::{Error, Result};

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

impl Context<'_> {
    /// Makes `output` `size` bytes long, all to be overwritten, if that many may come out.
    ///
    /// # Errors
    /// Limit if they may not, or there is no memory for them.
    pub fn room<'o>(&self, output: &'o mut Vec<u8>, size: u64) -> Result<&'o mut [u8]> {
        let Some(size) = usize::try_from(size).ok().filter(|size| *size <= self.limit) else {
            return Err(Error::limit(format!("{size} bytes; at most {} may come out", self.limit)));
        };
        let more = size.saturating_sub(output.len());
        if output.try_reserve_exact(more).is_err() {
            return Err(Error::limit(format!("no memory for {size} bytes")));
        }
        output.resize(size, 0);
        Ok(output)
    }
}

/// What a filter knows when it is applied.
#[derive(Debug, Clone, Copy)]
pub struct EncodeContext<'a> {
    /// The filter's client data, from the pipeline.
    pub parameters: &'a [u32],
    /// Whether the filter may be left out for this chunk: then it need not try further once it sees that it gains nothing.
    pub optional: bool,
}

impl EncodeContext<'_> {
    /// Makes `output` at least `size` bytes long, whatever they are, and returns so many of them.
    ///
    /// # Errors
    /// Limit if there is no memory for them.
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

    /// How much room a compressor gets: less than the input where it may as well be left out, otherwise as much as its
    /// result can have at most.
    #[must_use]
    pub fn most(&self, input: &[u8], bound: usize) -> usize {
        if self.optional { bound.min(input.len().saturating_sub(1)) } else { bound }
    }
}

/// What a filter did with a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoded {
    /// Its result is that many bytes, the first of the output.
    Written(usize),
    /// Its result is the input as it is; the filter counts as applied.
    Same,
    /// It would gain nothing or cannot take this chunk. Optional filters are then left out, by the chunk's mask.
    Refused,
}

/// A filter of the pipeline. [`Codec::decode`] undoes it, [`Codec::encode`] applies it; the others only save time.
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

    /// As [`Codec::decode`], but `output` comes with an earlier chunk's bytes, which must be gone afterwards. A filter that
    /// knows how many bytes come out resizes and overwrites them, and so clears nothing in vain.
    ///
    /// # Errors
    /// As [`Codec::decode`].
    fn decode_over(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        output.clear();
        self.decode(input, output, context)
    }

    /// For a filter that leaves the bytes as they are, or only puts some behind them: how many of `input` there were
    /// before. Then nothing is copied, and the other two methods are not called.
    ///
    /// # Errors
    /// As [`Codec::decode`].
    fn kept(&self, input: &[u8], context: &Context<'_>) -> Result<Option<usize>> {
        let _ = (input, context);
        Ok(None)
    }

    /// Applies the filter: writes the result to the start of `output`, which comes with what an earlier chunk left there and
    /// may stay longer than the result.
    ///
    /// # Errors
    /// Unsupported if the filter can only be undone, Invalid if the parameters make no sense, Limit if there is no memory.
    fn encode(&self, input: &[u8], output: &mut Vec<u8>, context: &EncodeContext<'_>) -> Result<Encoded> {
        let _ = (input, output, context);
        let message =
            format!("chunks with the filter {} ({}) can be read, but not written", self.name(), self.id());
        Err(Error::unsupported(message))
    }

    /// How many bytes the filter makes of `size` when a chunk is written, if that is certain. The filters after it then
    /// know what to expect.
    fn encoded_size(&self, size: usize, parameters: &[u32]) -> Option<usize> {
        let _ = (size, parameters);
        None
    }
}
