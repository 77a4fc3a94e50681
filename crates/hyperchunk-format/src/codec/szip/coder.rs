//! The lossless coder of CCSDS 121.0-B: blocks of samples, each in the code that suits it best.

use super::damaged;
use crate::Result;

/// Decodes blocks from a stream.
#[derive(Debug)]
pub(super) struct Coder<'a> {
    stream: Stream<'a>,
    /// Bits of a sample.
    bits: u32,
    /// Bits of what names a block's code.
    name: u32,
    /// Samples of a block.
    block: usize,
    predicted: bool,
}

/// A run of this many blocks of zeros goes to the end of its segment.
const REST_OF_SEGMENT: u32 = 5;
/// Blocks of a segment.
const SEGMENT: usize = 64;
/// The sums of two samples that the second extension knows are below this.
const SUMS: u32 = 13;

impl<'a> Coder<'a> {
    pub(super) fn new(stream: &'a [u8], bits: u32, block: usize, predicted: bool) -> Self {
        let name = match bits {
            0..=8 => 3,
            9..=16 => 4,
            _ => 5,
        };
        Self {
            stream: Stream { rest: stream, bits: 0, count: 0, short: false },
            bits,
            name,
            block,
            predicted,
        }
    }

    /// Decodes the blocks of one scan line, of which it has `count`; `samples` may leave out its end. If samples are
    /// predicted, the first one is stored as it is.
    pub(super) fn line(&mut self, samples: &mut [u32], count: usize) -> Result<()> {
        let mut done = 0_usize;
        while let Some(rest) = samples.get_mut(done.saturating_mul(self.block)..)
            && !rest.is_empty()
        {
            let blocks = self.blocks(rest, done, count)?;
            done = done.wrapping_add(blocks);
        }
        if self.stream.short {
            return Err(damaged("the stream ends early"));
        }
        if self.predicted {
            self.undo_prediction(samples);
        }
        Ok(())
    }

    /// Decodes block number `number` of the `count` of a line, or a run of blocks of zeros that starts with it, to the start
    /// of `rest`. Returns how many blocks it was.
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
                block.iter_mut().for_each(|sample| *sample = self.stream.take(self.bits));
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

    /// How many blocks of zeros there are from block `number` on.
    fn zero_blocks(&mut self, number: usize, count: usize) -> Result<usize> {
        let left = count.saturating_sub(number);
        let blocks = match self.stream.zeros().saturating_add(1) {
            REST_OF_SEGMENT => return Ok(left.min(SEGMENT.wrapping_sub(number % SEGMENT))),
            blocks if blocks > REST_OF_SEGMENT => blocks.wrapping_sub(1),
            blocks => blocks,
        };
        match usize::try_from(blocks) {
            Ok(blocks) if blocks <= left => Ok(blocks),
            _ => Err(damaged("a run of zeros is longer than its scan line")),
        }
    }

    /// Two samples in one code: m counts the pairs by their sum first. A reference sample takes the place of its block's
    /// first sample.
    fn second_extension(&mut self, block: &mut [u32]) -> Result<()> {
        for pair in block.as_chunks_mut::<2>().0 {
            let code = self.stream.zeros();
            let mut sum = 0;
            let mut before = 0_u32;
            while before.wrapping_add(sum) < code && sum < SUMS {
                sum = sum.wrapping_add(1);
                before = before.wrapping_add(sum);
            }
            if sum >= SUMS {
                return Err(damaged("no such pair of samples"));
            }
            let second = code.wrapping_sub(before);
            *pair = [sum.wrapping_sub(second), second];
        }
        Ok(())
    }

    /// The high parts of all samples, each as so many zeros and a one; then their `low` low bits.
    fn split(&mut self, samples: &mut [u32], low: u32) {
        samples.iter_mut().for_each(|sample| *sample = self.stream.zeros().wrapping_shl(low));
        if low > 0 {
            samples.iter_mut().for_each(|sample| *sample |= self.stream.take(low));
        }
    }

    /// Turns distances from the left neighbour into samples. Small distances of both signs are counted in turn; what is
    /// beyond the nearer end of the range counts from there.
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

/// The bits of the stream, the most significant first.
#[derive(Debug)]
struct Stream<'a> {
    rest: &'a [u8],
    /// The next bits, from the top. Below the first `count` may be some that are still in `rest`.
    bits: u64,
    count: u32,
    /// Whether more was asked for than there is.
    short: bool,
}

impl Stream<'_> {
    /// Makes `count` at least 56, unless the stream ends.
    #[inline]
    fn refill(&mut self) {
        let Some(word) = self.rest.first_chunk() else {
            self.refill_from_end();
            return;
        };
        self.bits |= u64::from_be_bytes(*word).wrapping_shr(self.count);
        let bytes = 63_u32.wrapping_sub(self.count) / 8;
        self.rest = self.rest.get(bytes as usize..).unwrap_or_default();
        self.count |= 56;
    }

    #[cold]
    fn refill_from_end(&mut self) {
        while self.count <= 56
            && let Some((byte, rest)) = self.rest.split_first()
        {
            self.bits |= u64::from(*byte).wrapping_shl(56_u32.wrapping_sub(self.count));
            self.count = self.count.wrapping_add(8);
            self.rest = rest;
        }
    }

    /// The next `width` bits, 1 to 32.
    #[inline]
    fn take(&mut self, width: u32) -> u32 {
        if self.count < width {
            self.refill();
            if self.count < width {
                self.short = true;
                return 0;
            }
        }
        let high = self.bits.wrapping_shr(64_u32.wrapping_sub(width));
        self.bits = self.bits.wrapping_shl(width);
        self.count = self.count.wrapping_sub(width);
        u32::try_from(high).unwrap_or(u32::MAX)
    }

    /// How many zeros there are before the next one.
    #[inline]
    fn zeros(&mut self) -> u32 {
        let mut before = 0_u32;
        loop {
            let zeros = self.bits.leading_zeros();
            if zeros < self.count {
                // Two shifts, because 63 zeros and a one are 64 bits.
                self.bits = self.bits.wrapping_shl(zeros).wrapping_shl(1);
                self.count = self.count.wrapping_sub(zeros).wrapping_sub(1);
                return before.wrapping_add(zeros);
            }
            before = before.wrapping_add(self.count);
            (self.bits, self.count) = (0, 0);
            self.refill();
            if self.count == 0 {
                self.short = true;
                return 0;
            }
        }
    }
}
