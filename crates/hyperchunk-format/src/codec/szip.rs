//! Szip (4): the chunk as one stream of CCSDS 121.0-B's lossless coder, preceded by its length. Source: the
//! comments of HDF5's H5Zszip.c, and libaec's replacement of the szip library where the recommendation leaves
//! a choice.

mod coder;
mod encoder;

use super::bits::Order;
use super::{Codec, Context, EncodeContext, EncodeOutcome, filled};
use crate::{Error, ErrorKind, Result};
use coder::Coder;
use encoder::Encoder;

/// Bits of the option mask: most significant byte first; prediction from the left neighbour. The others do
/// not matter to a decoder.
const MSB: u32 = 16;
const NEAREST_NEIGHBOUR: u32 = 32;

/// Maximum expansion: 9 to 11 bits for 64 blocks of 32 samples.
const MAX_EXPANSION: u64 = 8192;

/// Maximum number of blocks in a scan line, libaec's.
const MAX_LINE_BLOCKS: usize = 4096;

/// Szip codec.
#[derive(Debug)]
pub(super) struct Szip;

impl Codec for Szip {
    fn id(&self) -> u16 {
        4
    }

    fn name(&self) -> &'static str {
        "szip"
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        self.decode_over(input, output, context)
    }

    fn decode_over(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        let parameters = Parameters::new(context.parameters)?;
        let Some((length, stream)) = input.split_first_chunk() else {
            return Err(damaged("a chunk too short for its length field"));
        };
        let length = u32::from_le_bytes(*length);
        if u64::from(length) / MAX_EXPANSION > stream.len() as u64 {
            return Err(damaged("a stream too short for its decoded length"));
        }
        parameters.decode(stream, context.room(output, length.into())?)
    }

    fn encode(
        &self,
        input: &[u8],
        output: &mut Vec<u8>,
        context: &EncodeContext<'_>,
    ) -> Result<EncodeOutcome> {
        let parameters = Parameters::new(context.parameters)?;
        let unit = parameters.width.wrapping_mul(parameters.planes);
        let Some(length) =
            u32::try_from(input.len()).ok().filter(|_| input.len().checked_rem(unit) == Some(0))
        else {
            return Ok(EncodeOutcome::Refused);
        };
        let samples = input.len().checked_div(parameters.width).unwrap_or(0);
        let line = parameters.whole(parameters.line);
        if line.checked_div(parameters.block).unwrap_or(0) > MAX_LINE_BLOCKS {
            return Err(Error::invalid(format!(
                "scan lines of more than {MAX_LINE_BLOCKS} blocks are not supported"
            )));
        }
        let mut samples_of_line = vec![0_u32; line];
        let lines = samples.div_ceil(parameters.line);
        let bound = parameters.bound(lines.saturating_mul(line)).saturating_add(4);
        let (header, stream) = context.room(output, bound)?.split_at_mut_checked(4).unwrap_or_default();
        header.copy_from_slice(&length.to_le_bytes());
        let mut encoder = Encoder::new(stream, parameters.bits, parameters.block, parameters.predicted);
        let mut done = 0_usize;
        while done < samples {
            let wanted = parameters.line.min(samples.wrapping_sub(done));
            let (given, padding) = samples_of_line.split_at_mut_checked(wanted).unwrap_or_default();
            if !parameters.load(input, done, given) {
                return Ok(EncodeOutcome::Refused);
            }
            padding.fill(if parameters.predicted { given.last().copied().unwrap_or(0) } else { 0 });
            encoder.line(&mut samples_of_line);
            done = done.wrapping_add(wanted);
        }
        Ok(EncodeOutcome::Written(encoder.finish().saturating_add(4)))
    }
}

#[cold]
fn damaged(message: &str) -> Error {
    Error::new(ErrorKind::Filter, message)
}

/// Decoded filter parameters.
#[derive(Debug)]
struct Parameters {
    /// Bits in a sample, 1 to 32.
    bits: u32,
    /// Size in bytes of a sample in the chunk.
    width: usize,
    order: Order,
    predicted: bool,
    /// Samples in a block.
    block: usize,
    /// Samples in a scan line, after which the stream is padded to whole blocks.
    line: usize,
    /// Number of byte planes: elements of 32 and 64 bits are coded as bytes, first the first bytes of all
    /// elements, and so on. 1 for other elements.
    planes: usize,
}

impl Parameters {
    fn new(parameters: &[u32]) -> Result<Self> {
        let wrong = |what: &str| Err(damaged(&format!("invalid filter parameters: {what}")));
        let &[mask, block, bits, line, ..] = parameters else {
            return wrong("too few");
        };
        if block % 2 != 0 || !(2..=32).contains(&block) {
            return wrong("pixels of a block");
        }
        if line == 0 {
            return wrong("pixels of a scan line");
        }
        let (bits, planes) = match bits {
            1..=31 => (bits, 1),
            32 => (8, 4),
            64 => (8, 8),
            _ => return wrong("bits of a pixel"),
        };
        Ok(Self {
            bits,
            width: match bits {
                1..=8 => 1,
                9..=16 => 2,
                _ => 4,
            },
            order: if mask & MSB == 0 { Order::Little } else { Order::Big },
            predicted: mask & NEAREST_NEIGHBOUR != 0,
            block: usize::try_from(block).unwrap_or(32),
            line: usize::try_from(line).unwrap_or(usize::MAX),
            planes,
        })
    }

    /// Rounds a number of samples up to whole blocks.
    fn whole(&self, samples: usize) -> usize {
        samples.checked_next_multiple_of(self.block).unwrap_or(usize::MAX)
    }

    /// Returns the maximum size in bytes of the codes for this number of samples.
    fn bound(&self, samples: usize) -> usize {
        // The code option identifier of each block, and all bits of its samples.
        let bits = samples.div_ceil(self.block).saturating_mul(8);
        let bits = bits.saturating_add(samples.saturating_mul(self.bits as usize));
        (bits / 8).saturating_add(16)
    }

    /// Reads samples from number `first` on. Returns false if one has excess bits.
    fn load(&self, input: &[u8], first: usize, samples: &mut [u32]) -> bool {
        let from = input.get(first.wrapping_mul(self.width)..).unwrap_or_default();
        match (self.width, self.order) {
            _ if self.planes > 1 => self.load_planes(input, first, samples),
            (1, _) => load_as(from, samples, |[byte]| byte.into()),
            (2, Order::Little) => load_as(from, samples, |bytes| u16::from_le_bytes(bytes).into()),
            (2, Order::Big) => load_as(from, samples, |bytes| u16::from_be_bytes(bytes).into()),
            (_, Order::Little) => load_as(from, samples, u32::from_le_bytes),
            (_, Order::Big) => load_as(from, samples, u32::from_be_bytes),
        }
        let all = samples.iter().fold(0, |all, sample| all | *sample);
        all.checked_shr(self.bits).unwrap_or(0) == 0
    }

    /// Reads samples from byte planes: the inverse of [`Parameters::store_planes`].
    fn load_planes(&self, input: &[u8], mut first: usize, mut samples: &mut [u32]) {
        let count = input.len().checked_div(self.planes).unwrap_or(0);
        while let (Some(plane), Some(element)) = (first.checked_div(count), first.checked_rem(count))
            && !samples.is_empty()
        {
            let here = count.wrapping_sub(element).min(samples.len());
            let (now, later) = samples.split_at_mut_checked(here).unwrap_or_default();
            let start = element.wrapping_mul(self.planes).wrapping_add(plane);
            let bytes = input.get(start..).unwrap_or_default().iter().step_by(self.planes);
            now.iter_mut().zip(bytes).for_each(|(to, byte)| *to = (*byte).into());
            samples = later;
            first = first.wrapping_add(here);
        }
    }

    /// Decodes until `output` is full.
    fn decode(&self, stream: &[u8], output: &mut [u8]) -> Result<()> {
        let unit = self.width.wrapping_mul(self.planes);
        if output.len().checked_rem(unit) != Some(0) {
            return Err(damaged("its length is not a whole number of elements"));
        }
        let samples = output.len().checked_div(self.width).unwrap_or(0);
        // A scan line with its padding, but not longer than all samples.
        let whole = |samples| self.whole(samples);
        let mut line = filled(0_u32, whole(self.line).min(whole(samples)))?;
        let mut coder = Coder::new(stream, self.bits, self.block, self.predicted);
        let mut done = 0_usize;
        while done < samples {
            let wanted = self.line.min(samples.wrapping_sub(done));
            let blocks = line.get_mut(..whole(wanted)).unwrap_or_default();
            // The number of blocks in a line bounds a run of zeros.
            coder.line(blocks, whole(self.line).checked_div(self.block).unwrap_or(0))?;
            self.store(blocks.get(..wanted).unwrap_or_default(), done, output);
            done = done.wrapping_add(wanted);
        }
        Ok(())
    }

    /// Writes the samples from number `first` on.
    fn store(&self, samples: &[u32], first: usize, output: &mut [u8]) {
        if self.planes > 1 {
            self.store_planes(samples, first, output);
            return;
        }
        let output = output.get_mut(first.wrapping_mul(self.width)..).unwrap_or_default();
        match (self.width, self.order) {
            (1, _) => store_as(samples, output, |sample| [sample.to_le_bytes()[0]]),
            (2, Order::Little) => store_as(samples, output, |sample| {
                let [a, b, ..] = sample.to_le_bytes();
                [a, b]
            }),
            (2, Order::Big) => store_as(samples, output, |sample| {
                let [a, b, ..] = sample.to_le_bytes();
                [b, a]
            }),
            (_, Order::Little) => store_as(samples, output, u32::to_le_bytes),
            (_, Order::Big) => store_as(samples, output, u32::to_be_bytes),
        }
    }

    /// Writes bytes to their elements: sample `first` is byte `first / count` of element `first % count`.
    fn store_planes(&self, mut samples: &[u32], mut first: usize, output: &mut [u8]) {
        let count = output.len().checked_div(self.planes).unwrap_or(0);
        while let (Some(plane), Some(element)) = (first.checked_div(count), first.checked_rem(count))
            && !samples.is_empty()
        {
            let here = count.wrapping_sub(element).min(samples.len());
            let (now, later) = samples.split_at_checked(here).unwrap_or((samples, &[]));
            let start = element.wrapping_mul(self.planes).wrapping_add(plane);
            let bytes = output.get_mut(start..).unwrap_or_default().iter_mut().step_by(self.planes);
            bytes.zip(now).for_each(|(to, sample)| *to = sample.to_le_bytes()[0]);
            samples = later;
            first = first.wrapping_add(here);
        }
    }
}

fn store_as<const WIDTH: usize>(samples: &[u32], output: &mut [u8], bytes: impl Fn(u32) -> [u8; WIDTH]) {
    for (to, sample) in output.as_chunks_mut().0.iter_mut().zip(samples) {
        *to = bytes(*sample);
    }
}

fn load_as<const WIDTH: usize>(input: &[u8], samples: &mut [u32], number: impl Fn([u8; WIDTH]) -> u32) {
    for (to, sample) in samples.iter_mut().zip(input.as_chunks().0) {
        *to = number(*sample);
    }
}

#[cfg(test)]
mod tests;
