//! Lossless decoder of CCSDS 121.0-B: blocks of samples, each in its best code.

use super::super::bits::{number, numbers, window};
use super::damaged;
use crate::Result;

/// Decoder of the blocks in a stream.
#[derive(Debug)]
pub(super) struct Coder<'a> {
    stream: Stream<'a>,
    /// Bits in a sample.
    bits: u32,
    /// Bits in a code option identifier.
    name: u32,
    /// Samples in a block.
    block: usize,
    predicted: bool,
}

/// Length code of a zero-block run that extends to the end of its segment.
pub(super) const REST_OF_SEGMENT: u32 = 5;
/// Blocks in a segment.
pub(super) const SEGMENT_BLOCKS: usize = 64;
/// Upper bound of the sum of two samples in the second extension.
const MAX_SUM: u32 = 13;

/// Returns the number of bits of a code option identifier.
pub(super) fn name_bits(bits: u32) -> u32 {
    match bits {
        0..=8 => 3,
        9..=16 => 4,
        _ => 5,
    }
}

impl<'a> Coder<'a> {
    pub(super) fn new(stream: &'a [u8], bits: u32, block: usize, predicted: bool) -> Self {
        let stream = Stream { bytes: stream, at: 0 };
        Self { stream, bits, name: name_bits(bits), block, predicted }
    }

    /// Decodes the blocks of one scan line, which has `count` of them; `samples` may omit its end. With
    /// prediction, the first sample is stored uncoded.
    pub(super) fn line(&mut self, samples: &mut [u32], count: usize) -> Result<()> {
        let mut done = 0_usize;
        while let Some(rest) = samples.get_mut(done.saturating_mul(self.block)..)
            && !rest.is_empty()
        {
            let blocks = self.blocks(rest, done, count)?;
            done = done.wrapping_add(blocks);
            if self.stream.at > self.stream.bytes.len().saturating_mul(8) {
                return Err(damaged("the stream ends early"));
            }
        }
        if self.predicted {
            self.undo_prediction(samples);
        }
        Ok(())
    }

    /// Decodes block number `number` of the `count` blocks of a line, or a zero-block run that starts with
    /// it, to the start of `rest`. Returns the number of blocks.
    fn blocks(&mut self, rest: &mut [u32], number: usize, count: usize) -> Result<usize> {
        let code = self.stream.take(self.name);
        let last = (1_u32 << self.name).wrapping_sub(1);
        let low_entropy = (code == 0).then(|| self.stream.take(1));
        let raw = code == last;
        let reference = (self.predicted && number == 0 && !raw).then(|| self.stream.take(self.bits));
        let mut blocks = 1;
        if low_entropy == Some(0) {
            blocks = self.zero_blocks(number, count)?;
            let samples = blocks.wrapping_mul(self.block).min(rest.len());
            rest.get_mut(..samples).unwrap_or_default().fill(0);
        } else {
            let block = rest.get_mut(..self.block).unwrap_or_default();
            if raw {
                self.stream.take_each(self.bits, block, |sample, bits| *sample = bits);
            } else if low_entropy.is_some() {
                self.second_extension(block)?;
            } else {
                let coded = block.get_mut(usize::from(reference.is_some())..).unwrap_or_default();
                self.split(coded, code.wrapping_sub(1));
            }
        }
        if let (Some(to), Some(reference)) = (rest.first_mut(), reference) {
            *to = reference;
        }
        Ok(blocks)
    }

    /// Reads the length of the zero-block run from block `number` on.
    fn zero_blocks(&mut self, number: usize, count: usize) -> Result<usize> {
        let left = count.saturating_sub(number);
        let blocks = match self.stream.zeros().saturating_add(1) {
            REST_OF_SEGMENT => return Ok(left.min(SEGMENT_BLOCKS.wrapping_sub(number % SEGMENT_BLOCKS))),
            blocks if blocks > REST_OF_SEGMENT => blocks.wrapping_sub(1),
            blocks => blocks,
        };
        match usize::try_from(blocks) {
            Ok(blocks) if blocks <= left => Ok(blocks),
            _ => Err(damaged("a run of zeros is longer than its scan line")),
        }
    }

    /// Decodes pairs of samples from one code each: pairs are enumerated by their sum first. A reference
    /// sample replaces its block's first sample.
    fn second_extension(&mut self, block: &mut [u32]) -> Result<()> {
        for pair in block.as_chunks_mut::<2>().0 {
            let code = self.stream.zeros();
            let mut sum = 0;
            let mut before = 0_u32;
            while before.wrapping_add(sum) < code && sum < MAX_SUM {
                sum = sum.wrapping_add(1);
                before = before.wrapping_add(sum);
            }
            if sum >= MAX_SUM {
                return Err(damaged("an invalid code of a pair of samples"));
            }
            let second = code.wrapping_sub(before);
            *pair = [sum.wrapping_sub(second), second];
        }
        Ok(())
    }

    /// Decodes split samples: all high parts, each as a number of zeros and a one, then the `low` low bits of
    /// each.
    fn split(&mut self, samples: &mut [u32], low: u32) {
        self.stream.zeros_each(samples, low);
        if low > 0 {
            self.stream.take_each(low, samples, |sample, bits| *sample |= bits);
        }
    }

    /// Converts distances from the left neighbour to samples. Small distances alternate in sign; larger ones
    /// count from the nearer end of the range.
    fn undo_prediction(&self, samples: &mut [u32]) {
        let most = u32::MAX.wrapping_shr(32_u32.wrapping_sub(self.bits));
        let half = (most / 2).wrapping_add(1);
        let Some((first, rest)) = samples.split_first_mut() else {
            return;
        };
        let mut sample = *first;
        for distance in rest {
            let coded = *distance;
            let end = if sample & half == 0 { 0 } else { most };
            let magnitude = (coded >> 1).wrapping_add(coded & 1);
            sample = if magnitude <= end ^ sample {
                sample.wrapping_add((coded >> 1) ^ (coded & 1).wrapping_neg())
            } else {
                end ^ coded
            };
            *distance = sample;
        }
    }
}

/// Bit reader, most significant bit first. Returns zeros past the end, which callers detect from `at`.
#[derive(Debug)]
struct Stream<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Stream<'_> {
    /// Reads up to 32 bits.
    fn take(&mut self, width: u32) -> u32 {
        let bits = number(self.bytes, self.at, width);
        self.at = self.at.saturating_add(width as usize);
        u32::try_from(bits).unwrap_or(u32::MAX)
    }

    /// Reads `width` bits for each sample.
    #[inline]
    fn take_each(&mut self, width: u32, samples: &mut [u32], put: impl Fn(&mut u32, u32)) {
        let bits = samples.len().wrapping_mul(width as usize);
        numbers((self.bytes, self.at, width), samples, |sample, bits| {
            put(sample, u32::try_from(bits).unwrap_or(u32::MAX));
        });
        self.at = self.at.saturating_add(bits);
    }

    /// Reads the number of zeros before the next one.
    fn zeros(&mut self) -> u32 {
        let mut count = [0];
        self.zeros_each(&mut count, 0);
        count[0]
    }

    /// Sets each sample to the number of zeros before the next one, shifted left.
    fn zeros_each(&mut self, samples: &mut [u32], shift: u32) {
        /// Number of valid bits in a window.
        const WINDOW_BITS: u32 = 57;
        // Bits are reversed, since the lowest set bit of a number is quick to find and clear.
        let ones = |at| window(self.bytes, at).reverse_bits() & (u64::MAX >> (64 - WINDOW_BITS));
        let (mut left, mut start, mut before) = (ones(self.at), 0_u32, 0_u32);
        for sample in samples {
            while left == 0 {
                before = before.wrapping_add(WINDOW_BITS).wrapping_sub(start);
                self.at = self.at.saturating_add(WINDOW_BITS as usize);
                if self.at / 8 >= self.bytes.len() {
                    self.at = usize::MAX;
                    return;
                }
                (left, start) = (ones(self.at), 0);
            }
            let place = left.trailing_zeros();
            *sample = before.wrapping_add(place).wrapping_sub(start).wrapping_shl(shift);
            (before, start) = (0, place.wrapping_add(1));
            left &= left.wrapping_sub(1);
        }
        self.at = self.at.saturating_add(start as usize);
    }
}
