//! Samples of a JPEG-LS scan: prediction from neighbours, adaptive Golomb codes for the errors, and runs.
//! Source: ITU-T T.87, annex A; the names are the standard's.

use super::bits::Bits;
use super::damaged;
use crate::Result;

/// Base-2 logarithm of the run length, by the run index (A.7.1.1).
const J: [u32; 32] =
    [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 9, 10, 11, 12, 13, 14, 15];
/// Number of contexts of samples outside runs.
const REGULAR_CONTEXTS: usize = 365;
/// Largest error.
const MAX_ERROR: i64 = 65535;

/// Parameters of the sample coding.
#[derive(Debug)]
pub(super) struct Coding {
    /// MAXVAL: the largest sample.
    largest: i32,
    /// NEAR: the allowed error of a sample; and the resulting quantization step.
    near: i32,
    step: i32,
    /// RANGE, in samples.
    range: i32,
    /// qbpp and LIMIT: the length of an error without a Golomb code, and of the longest code.
    error_bits: u32,
    limit: u32,
    /// RESET.
    reset: i64,
    /// Quantized gradients for -`largest` to `largest`.
    gradients: Vec<i8>,
}

impl Coding {
    /// Creates the coding for samples of `precision` bits, from the stream's `preset` (0: defaults) and the
    /// scan's `near`.
    pub(super) fn new(precision: u32, preset: [u16; 5], near: u8) -> Result<Self> {
        let [largest, t1, t2, t3, reset] = preset.map(i32::from);
        let most = 1_i32.unbounded_shl(precision).saturating_sub(1);
        let largest = if largest == 0 { most } else { largest };
        let near = i32::from(near);
        let [usual1, usual2, usual3] = thresholds(largest, near);
        let or = |given: i32, usual: i32| if given == 0 { usual } else { given };
        let (t1, t2, t3) = (or(t1, usual1), or(t2, usual2), or(t3, usual3));
        let ordered = near < t1 && t1 <= t2 && t2 <= t3 && t3 <= largest;
        if largest > most || near > largest / 2 || !ordered {
            return Err(damaged("JPEG-LS parameters that contradict each other"));
        }
        let step = near.saturating_mul(2).saturating_add(1);
        let span = largest.saturating_add(near.saturating_mul(2));
        let range = span.checked_div(step).unwrap_or(0).saturating_add(1);
        let bits = |count: i32| u32::BITS.saturating_sub(count.saturating_sub(1).max(0).leading_zeros());
        let sample_bits = bits(largest.saturating_add(1)).max(2);
        let limit = sample_bits.saturating_add(sample_bits.max(8)).saturating_mul(2);
        let quantize = |gradient: i32| {
            let level = match gradient.abs() {
                size if size <= near => 0,
                size if size < t1 => 1,
                size if size < t2 => 2,
                size if size < t3 => 3,
                _ => 4_i8,
            };
            if gradient < 0 { level.wrapping_neg() } else { level }
        };
        let gradients = (largest.wrapping_neg()..=largest).map(quantize).collect();
        let reset = or(reset, 64).into();
        Ok(Self { largest, near, step, range, error_bits: bits(range), limit, reset, gradients })
    }
}

/// Returns the default thresholds (C.2.4.1.1.1).
fn thresholds(largest: i32, near: i32) -> [i32; 3] {
    let clamp = |value: i32, least: i32| if value > largest || value < least { least } else { value };
    let plus = |value: i32, nears: i32| value.saturating_add(near.saturating_mul(nears));
    let [t1, t2, t3] = if largest >= 128 {
        let factor = largest.min(4095).saturating_add(128) / 256;
        let by = |factors: i32, more: i32| factor.saturating_mul(factors).saturating_add(more);
        [plus(by(1, 2), 3), plus(by(4, 3), 5), plus(by(17, 4), 7)]
    } else {
        let factor = 256_i32.checked_div(largest.saturating_add(1)).unwrap_or(1);
        let by = |value: i32| value.checked_div(factor).unwrap_or(0);
        [plus(by(3), 3).max(2), plus(by(7), 5).max(3), plus(by(21), 7).max(4)]
    };
    let t1 = clamp(t1, near.saturating_add(1));
    let t2 = clamp(t2, t1);
    [t1, t2, clamp(t3, t2)]
}

/// Statistics of one context: A, B, C and N.
#[derive(Debug, Clone, Copy)]
struct Regular {
    sizes: i64,
    bias: i64,
    correction: i32,
    count: i64,
}

/// Statistics of run interruptions: A, N and Nn; and RItype.
#[derive(Debug, Clone, Copy)]
struct Interruption {
    sizes: i64,
    count: i64,
    negative: i64,
    kind: i64,
}

/// Scan being decoded.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    coding: Coding,
    bits: Bits<'a>,
    contexts: Vec<Regular>,
    interruptions: [Interruption; 2],
}

#[expect(
    clippy::arithmetic_side_effects,
    reason = "samples have 16 bits, errors 17, and sums at most 65,535 of them: all fit twice in their types"
)]
impl<'a> Scan<'a> {
    /// Creates a scan at its first bit.
    pub(super) fn new(coding: Coding, bits: Bits<'a>) -> Self {
        let sizes = i64::from((coding.range + 32) / 64).max(2);
        let contexts = vec![Regular { sizes, bias: 0, correction: 0, count: 1 }; REGULAR_CONTEXTS];
        let interruption = |kind| Interruption { sizes, count: 1, negative: 0, kind };
        Self { coding, bits, contexts, interruptions: [interruption(0), interruption(1)] }
    }

    /// Returns the position of the marker after the scan.
    pub(super) fn end(&self) -> usize {
        self.bits.end()
    }

    /// Decodes a line of one component. Both lines have an extra sample at each side.
    #[expect(
        clippy::indexing_slicing,
        reason = "hot; all indices are at most that of the last sample, which is checked"
    )]
    pub(super) fn line(&mut self, before: &[i32], line: &mut [i32], run: &mut usize) -> Result<()> {
        let width = before.len().min(line.len()).saturating_sub(2);
        let mut x = 1;
        while x <= width {
            let (a, b, c, d) = (line[x - 1], before[x], before[x - 1], before[x + 1]);
            let context = self.context(a, b, c, d);
            if context != 0 {
                line[x] = self.regular(context, predict(a, b, c))?;
                x += 1;
                continue;
            }
            let length = self.run_length(width + 1 - x, run)?;
            line[x..x + length].fill(a);
            x += length;
            if x <= width {
                let b = before[x];
                let same = (a - b).abs() <= self.coding.near;
                let error = self.interruption(usize::from(same), *run)?;
                line[x] = if same {
                    self.sample(a, error)
                } else {
                    self.sample(b, if a > b { -error } else { error })
                };
                *run = run.saturating_sub(1);
                x += 1;
            }
        }
        self.bits.check()
    }

    /// Decodes a line of components that are interleaved sample by sample.
    #[expect(clippy::indexing_slicing, reason = "as in `line`")]
    pub(super) fn lines(
        &mut self,
        before: &[Vec<i32>],
        lines: &mut [Vec<i32>],
        run: &mut usize,
    ) -> Result<()> {
        let shortest = before.iter().chain(&*lines).map(Vec::len).min();
        let width = shortest.unwrap_or(0).saturating_sub(2);
        let mut contexts = vec![0; lines.len()];
        let mut x = 1;
        while x <= width {
            for ((context, before), line) in contexts.iter_mut().zip(before).zip(&*lines) {
                *context = self.context(line[x - 1], before[x], before[x - 1], before[x + 1]);
            }
            if contexts.iter().any(|context| *context != 0) {
                for ((context, before), line) in contexts.iter().zip(before).zip(&mut *lines) {
                    line[x] = self.regular(*context, predict(line[x - 1], before[x], before[x - 1]))?;
                }
                x += 1;
                continue;
            }
            let length = self.run_length(width + 1 - x, run)?;
            for line in &mut *lines {
                let a = line[x - 1];
                line[x..x + length].fill(a);
            }
            x += length;
            if x <= width {
                for (before, line) in before.iter().zip(&mut *lines) {
                    let (a, b) = (line[x - 1], before[x]);
                    let error = self.interruption(0, *run)?;
                    line[x] = self.sample(b, if a > b { -error } else { error });
                }
                *run = run.saturating_sub(1);
                x += 1;
            }
        }
        self.bits.check()
    }

    /// Returns the context of a sample from its neighbours: left, above, above left and above right. A
    /// negative context has all signs inverted.
    #[inline]
    fn context(&self, a: i32, b: i32, c: i32, d: i32) -> i32 {
        let quantized = |gradient: i32| {
            let index = usize::try_from(gradient + self.coding.largest).unwrap_or(0);
            i32::from(self.coding.gradients.get(index).copied().unwrap_or(0))
        };
        81 * quantized(d - b) + 9 * quantized(b - c) + quantized(c - a)
    }

    /// Decodes a sample outside runs (A.4 to A.6).
    #[inline]
    fn regular(&mut self, number: i32, predicted: i32) -> Result<i32> {
        let sign = if number < 0 { -1 } else { 1 };
        let index = usize::try_from(number.unsigned_abs()).unwrap_or(0);
        let Some(context) = self.contexts.get(index).copied() else {
            return Err(damaged("a JPEG-LS context that does not exist"));
        };
        let predicted = (predicted + sign * context.correction).clamp(0, self.coding.largest);
        let k = parameter(context.count, context.sizes);
        let code = self.golomb(k, self.coding.limit)?;
        let error = (code >> 1) ^ -(code & 1);
        let inverted = self.coding.near == 0 && k == 0 && 2 * context.bias <= -context.count;
        let error = if inverted { !error } else { error };
        let short = i32::try_from(error).ok().filter(|_| error.abs() <= MAX_ERROR);
        let Some(short) = short else { return Err(damaged("a JPEG-LS error that is too large")) };
        if let Some(context) = self.contexts.get_mut(index) {
            context.update(error, &self.coding);
        }
        Ok(self.sample(predicted, sign * short))
    }

    /// Returns the sample with a given prediction error (A.4.5, A.5.3).
    #[inline]
    fn sample(&self, predicted: i32, error: i32) -> i32 {
        let Coding { largest, near, step, range, .. } = self.coding;
        let mut sample = predicted + error * step;
        if sample < -near {
            sample += range * step;
        } else if sample > largest + near {
            sample -= range * step;
        }
        sample.clamp(0, largest)
    }

    /// Decodes the length of a run of at most `left` samples (A.7.1.2).
    fn run_length(&mut self, left: usize, run: &mut usize) -> Result<usize> {
        let bits = |run: usize| J.get(run).copied().unwrap_or(0);
        let mut length = 0_usize;
        while self.bits.take(1) == 1 {
            let whole = 1_usize << bits(*run);
            let count = whole.min(left - length);
            length += count;
            if count == whole && *run < J.len() - 1 {
                *run += 1;
            }
            if length == left {
                return Ok(length);
            }
        }
        let rest = self.bits.take(bits(*run));
        length += usize::try_from(rest).unwrap_or(usize::MAX / 2);
        if length > left { Err(damaged("a JPEG-LS run beyond its line")) } else { Ok(length) }
    }

    /// Decodes the error of the sample after a run (A.7.2).
    fn interruption(&mut self, kind: usize, run: usize) -> Result<i32> {
        let limit = self.coding.limit.saturating_sub(J.get(run).copied().unwrap_or(0) + 1);
        let Some(mut context) = self.interruptions.get(kind).copied() else { return Ok(0) };
        let k = parameter(context.count, context.sizes + (context.count >> 1) * context.kind);
        let code = self.golomb(k, limit)?;
        let folded = code + context.kind;
        let size = (folded + 1) >> 1;
        let mostly_negative = k != 0 || 2 * context.negative >= context.count;
        let error = if mostly_negative == (folded & 1 == 1) { -size } else { size };
        let short = i32::try_from(error).ok().filter(|_| error.abs() <= MAX_ERROR);
        let Some(short) = short else { return Err(damaged("a JPEG-LS error that is too large")) };
        context.negative += i64::from(error < 0);
        context.sizes += (code + 1 - context.kind) >> 1;
        if context.count == self.coding.reset {
            context.sizes >>= 1;
            context.count >>= 1;
            context.negative >>= 1;
        }
        context.count += 1;
        if let Some(to) = self.interruptions.get_mut(kind) {
            *to = context;
        }
        Ok(short)
    }

    /// Decodes a number in a Golomb code, or uncoded (A.5.3).
    #[inline]
    fn golomb(&mut self, k: u32, limit: u32) -> Result<i64> {
        let most = limit.saturating_sub(self.coding.error_bits + 1);
        let high = self.bits.zeros();
        if high < most {
            return Ok(i64::from(high) << k | i64::from(self.bits.take(k)));
        }
        if high > limit {
            return Err(damaged("a JPEG-LS code that is too long"));
        }
        Ok(i64::from(self.bits.take(self.coding.error_bits)) + 1)
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "as above")]
impl Regular {
    /// Updates the statistics with an error (A.6).
    #[inline]
    fn update(&mut self, error: i64, coding: &Coding) {
        self.bias += error * i64::from(coding.step);
        self.sizes += error.abs();
        if self.count == coding.reset {
            self.sizes >>= 1;
            self.bias >>= 1;
            self.count >>= 1;
        }
        self.count += 1;
        if self.bias <= -self.count {
            self.bias = (self.bias + self.count).max(1 - self.count);
            self.correction = (self.correction - 1).max(-128);
        } else if self.bias > 0 {
            self.bias = (self.bias - self.count).min(0);
            self.correction = (self.correction + 1).min(127);
        }
    }
}

/// Returns the parameter of a Golomb code: the least k with `count` · 2ᵏ ≥ `sizes` (A.5.1).
#[inline]
fn parameter(count: i64, sizes: i64) -> u32 {
    let k = count.leading_zeros().saturating_sub(sizes.leading_zeros());
    if count.unbounded_shl(k) < sizes { k.saturating_add(1) } else { k }
}

/// Returns the median edge prediction of a sample from its left, upper and upper left neighbours (A.4.1).
#[inline]
fn predict(a: i32, b: i32, c: i32) -> i32 {
    if c >= a.max(b) {
        a.min(b)
    } else if c <= a.min(b) {
        a.max(b)
    } else {
        a.wrapping_add(b).wrapping_sub(c)
    }
}
