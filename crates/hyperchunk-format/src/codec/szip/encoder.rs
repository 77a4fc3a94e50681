//! Lossless encoder of CCSDS 121.0-B. Where the recommendation leaves a choice, it follows libaec, so that
//! both produce the same stream.

use super::super::bits::Packer;
use super::coder::{REST_OF_SEGMENT, SEGMENT_BLOCKS, name_bits};

/// Encoder of scan lines to a stream.
#[derive(Debug)]
pub(super) struct Encoder<'a> {
    packer: Packer<'a>,
    /// Number of bits written.
    length: usize,
    /// Bits in a sample.
    bits: u32,
    /// Bits in a code option identifier.
    name: u32,
    /// Samples in a block.
    block: usize,
    predicted: bool,
    /// Number of low bits at which the last block was split; the search for the next block starts there.
    low: u32,
}

impl<'a> Encoder<'a> {
    /// Creates an encoder that writes to `stream`, which must be long enough.
    pub(super) fn new(stream: &'a mut [u8], bits: u32, block: usize, predicted: bool) -> Self {
        let packer = Packer::new(stream);
        Self { packer, length: 0, bits, name: name_bits(bits), block, predicted, low: 0 }
    }

    /// Pads the stream with zeros to whole bytes; returns its length in bytes.
    pub(super) fn finish(self) -> usize {
        self.packer.finish();
        self.length.div_ceil(8)
    }

    /// Encodes one scan line of whole blocks. Overwrites the samples with their coded distances.
    pub(super) fn line(&mut self, samples: &mut [u32]) {
        let reference = if self.predicted { self.predict(samples) } else { None };
        let blocks = samples.len().checked_div(self.block).unwrap_or(0);
        let (mut zeros, mut zero_reference) = (0_u32, None);
        for (number, block) in (1_usize..).zip(samples.chunks_exact(self.block)) {
            let reference = reference.filter(|_| number == 1);
            if block.iter().all(|sample| *sample == 0) {
                if zeros == 0 {
                    zero_reference = reference;
                }
                zeros = zeros.wrapping_add(1);
                if number == blocks || number % SEGMENT_BLOCKS == 0 {
                    self.zero_blocks(if zeros < REST_OF_SEGMENT { zeros } else { 0 }, zero_reference);
                    zeros = 0;
                }
                continue;
            }
            if zeros > 0 {
                self.zero_blocks(zeros, zero_reference);
                zeros = 0;
            }
            self.block(block, reference);
        }
    }

    /// Replaces samples by their distances from the left neighbours; returns the first sample.
    fn predict(&self, samples: &mut [u32]) -> Option<u32> {
        let most = u32::MAX.wrapping_shr(32_u32.wrapping_sub(self.bits));
        let first = *samples.first()?;
        let mut before = first;
        for sample in samples {
            let value = *sample;
            // Distances alternate in sign, up to the nearer end of the range.
            *sample = if value >= before {
                let distance = value.wrapping_sub(before);
                if distance <= before { distance.wrapping_mul(2) } else { value }
            } else {
                let distance = before.wrapping_sub(value);
                if distance <= most.wrapping_sub(before) {
                    distance.wrapping_mul(2).wrapping_sub(1)
                } else {
                    most.wrapping_sub(value)
                }
            };
            before = value;
        }
        Some(first)
    }

    fn put(&mut self, value: u32, width: u32) {
        self.packer.put(value.into(), width);
        self.length = self.length.wrapping_add(width as usize);
    }

    /// Writes a number of zeros and a one.
    fn zeros(&mut self, mut count: u32) {
        while count >= 63 {
            self.put(0, 63);
            count = count.wrapping_sub(63);
        }
        self.put(1, count.wrapping_add(1));
    }

    fn reference(&mut self, reference: Option<u32>) {
        if let Some(reference) = reference {
            self.put(reference, self.bits);
        }
    }

    /// Writes a zero-block run; `count` 0 stands for all blocks up to the end of the segment.
    fn zero_blocks(&mut self, count: u32, reference: Option<u32>) {
        self.put(0, self.name.wrapping_add(1));
        self.reference(reference);
        self.zeros(match count {
            0 => REST_OF_SEGMENT.wrapping_sub(1),
            REST_OF_SEGMENT.. => count,
            _ => count.wrapping_sub(1),
        });
    }

    /// Writes a block with a nonzero sample, in its shortest code.
    fn block(&mut self, block: &[u32], reference: Option<u32>) {
        let coded = block.get(usize::from(reference.is_some())..).unwrap_or_default();
        let raw = (coded.len() as u64).wrapping_mul(self.bits.into());
        let split = self.search(coded);
        let pairs = pairs(block, raw);
        if split < raw && split < pairs {
            self.put(self.low.wrapping_add(1), self.name);
            self.reference(reference);
            coded.iter().for_each(|sample| self.zeros(sample.wrapping_shr(self.low)));
            coded.iter().for_each(|sample| self.put(*sample, self.low));
        } else if split >= raw && raw <= pairs {
            self.put(u32::MAX, self.name);
            self.reference(reference);
            coded.iter().for_each(|sample| self.put(*sample, self.bits));
        } else {
            self.put(1, self.name.wrapping_add(1));
            self.reference(reference);
            for [first, second] in block.as_chunks::<2>().0 {
                let sum = first.wrapping_add(*second);
                self.zeros(triangle(sum.into()).wrapping_add(*second));
            }
        }
    }

    /// Finds the best number of low bits for splitting samples, starting from the last block's; returns the
    /// total number of bits.
    fn search(&mut self, coded: &[u32]) -> u64 {
        let most = 1_u32.wrapping_shl(self.name).wrapping_sub(3);
        let count = coded.len() as u64;
        // Number of zeros in the high parts, and total number of bits.
        let cost = |low: u32| {
            let zeros =
                coded.iter().fold(0_u64, |sum, sample| sum.wrapping_add(sample.wrapping_shr(low).into()));
            (zeros, zeros.wrapping_add(count.wrapping_mul(u64::from(low).wrapping_add(1))))
        };
        let start = self.low;
        let (mut zeros, mut least) = cost(start);
        // Another low bit costs one bit a sample, and saves at most the number of zeros.
        while zeros >= count && self.low < most {
            let next = cost(self.low.wrapping_add(1));
            if next.1 >= least {
                break;
            }
            self.low = self.low.wrapping_add(1);
            (zeros, least) = next;
        }
        while self.low <= start && self.low > 0 {
            let next = cost(self.low.wrapping_sub(1));
            if next.1 >= least {
                break;
            }
            self.low = self.low.wrapping_sub(1);
            least = next.1;
            if next.0 >= count {
                break;
            }
        }
        least
    }
}

/// Returns the number of codes for pairs with a smaller sum.
fn triangle(sum: u64) -> u32 {
    u32::try_from(sum.wrapping_mul(sum.wrapping_add(1)) / 2).unwrap_or(u32::MAX)
}

/// Returns the number of bits of the second extension, or `u64::MAX` if it exceeds `limit`.
fn pairs(block: &[u32], limit: u64) -> u64 {
    let mut bits = 1_u64;
    for [first, second] in block.as_chunks::<2>().0 {
        let sum = u64::from(*first).wrapping_add((*second).into());
        let code = u64::from(triangle(sum)).wrapping_add((*second).into());
        bits = bits.wrapping_add(code).wrapping_add(1);
        if bits > limit {
            return u64::MAX;
        }
    }
    bits
}
