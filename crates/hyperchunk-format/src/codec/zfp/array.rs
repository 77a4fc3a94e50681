//! Header of a zfp stream, and assembly of blocks into an array. Source: zfp's documentation, "Low-level C
//! API" (modes and meta-data).

use super::bits::Bits;
use super::block::{self, MAX_BLOCK_VALUES, Mode};
use super::damaged;
use super::order::order;
use super::value::Value;
use crate::Result;

/// Largest number of a short mode.
const MAX_SHORT_MODE: u64 = 4094;
/// Limits that have no effect.
const MIN_BITS: u32 = 1;
const MAX_BITS: u32 = 16658;
const MAX_PLANES: u32 = 64;
const MIN_EXPONENT: i32 = -1074;

/// Number type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int32,
    Int64,
    Float,
    Double,
}

/// Compressed array.
#[derive(Debug)]
pub(super) struct Array {
    kind: Kind,
    /// Extent, fastest dimension first.
    extent: Vec<u64>,
    mode: Mode,
    /// True if a machine of the other byte order wrote it; the decoded values get that order.
    swapped: bool,
}

impl Array {
    /// Parses the header after its version.
    pub(super) fn parse(bits: &mut Bits<'_>, swapped: bool) -> Result<Self> {
        let kind = match bits.take(2) {
            0 => Kind::Int32,
            1 => Kind::Int64,
            2 => Kind::Float,
            _ => Kind::Double,
        };
        let dimensions = u32::try_from(bits.take(2)).unwrap_or(0).saturating_add(1);
        let width = 48_u32.checked_div(dimensions).unwrap_or(0);
        let extent = (0..dimensions).map(|_| bits.take(width).saturating_add(1)).collect();
        let mut mode = bits.take(12);
        if mode > MAX_SHORT_MODE {
            mode |= bits.take(52) << 12;
        }
        Ok(Self { kind, extent, mode: parse_mode(mode)?, swapped })
    }

    fn value_size(&self) -> usize {
        match self.kind {
            Kind::Int32 | Kind::Float => 4,
            Kind::Int64 | Kind::Double => 8,
        }
    }

    /// Returns the decoded size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.extent.iter().fold(self.value_size() as u64, |size, extent| size.saturating_mul(*extent))
    }

    /// Decodes the array to `output`, which must have its decoded size.
    pub(super) fn decode(&self, input: &[u8], output: &mut [u8]) -> Result<()> {
        match self.kind {
            Kind::Int32 => self.decode_as::<i32>(input, output),
            Kind::Int64 => self.decode_as::<i64>(input, output),
            Kind::Float => self.decode_as::<f32>(input, output),
            Kind::Double => self.decode_as::<f64>(input, output),
        }
    }

    fn decode_as<V: Value>(&self, input: &[u8], output: &mut [u8]) -> Result<()> {
        let extent: Vec<usize> =
            self.extent.iter().map(|extent| usize::try_from(*extent).unwrap_or(usize::MAX)).collect();
        let grid: Vec<usize> = extent.iter().map(|extent| extent.div_ceil(4)).collect();
        let blocks = grid.iter().fold(1_usize, |blocks, extent| blocks.saturating_mul(*extent));
        if blocks / 8 > input.len() {
            return Err(damaged("the zfp data are too short for the blocks of the array"));
        }
        let order = order(extent.len());
        let mut bits = Bits::new(input);
        let mut values = [V::default(); MAX_BLOCK_VALUES];
        let values = values.get_mut(..order.len()).unwrap_or_default();
        let mut place = vec![0_usize; grid.len()];
        for _ in 0..blocks {
            block::decode(&mut bits, self.mode, order, values);
            self.scatter(values, &place, &extent, output);
            for (at, extent) in place.iter_mut().zip(&grid) {
                *at = at.saturating_add(1);
                if *at < *extent {
                    break;
                }
                *at = 0;
            }
            bits.check()?;
        }
        Ok(())
    }

    /// Writes the part of a block inside the array, line by line.
    fn scatter<V: Value>(&self, values: &[V], place: &[usize], extent: &[usize], output: &mut [u8]) {
        let size = self.value_size();
        for (number, line) in values.chunks_exact(4).enumerate() {
            // The line's position in the block in all dimensions except the fastest, as two-bit digits.
            let mut digits = number;
            let (mut offset, mut step, mut width) = (0_usize, size, 0_usize);
            let mut within = true;
            for (dimension, (place, extent)) in place.iter().zip(extent).enumerate() {
                let mut at = place.saturating_mul(4);
                if dimension == 0 {
                    width = extent.saturating_sub(at).min(4);
                } else {
                    at = at.saturating_add(digits & 3);
                    digits >>= 2;
                    within &= at < *extent;
                }
                offset = offset.saturating_add(at.saturating_mul(step));
                step = step.saturating_mul(*extent);
            }
            if within {
                let to = output.get_mut(offset..).unwrap_or_default().chunks_exact_mut(size);
                line.iter().take(width).zip(to).for_each(|(value, to)| value.write(self.swapped, to));
            }
        }
    }
}

/// Decodes the number of a mode.
fn parse_mode(mode: u64) -> Result<Mode> {
    let free = Mode {
        least_bits: MIN_BITS,
        most_bits: MAX_BITS,
        planes: MAX_PLANES,
        exponent: MIN_EXPONENT,
        reversible: false,
    };
    let bits = |from: u32, mask: u64| u32::try_from(mode.unbounded_shr(from) & mask).unwrap_or(0);
    let number = bits(0, 0xfff);
    let mode = match number {
        // Fixed rate, fixed precision, lossless, fixed accuracy.
        0..2048 => {
            let rate = number.saturating_add(1);
            Mode { least_bits: rate, most_bits: rate, ..free }
        }
        2048..2176 => Mode { planes: number.saturating_sub(2047), ..free },
        2176 => Mode { reversible: true, ..free },
        2177..=4094 => {
            let above = i32::try_from(number.saturating_sub(2177)).unwrap_or(0);
            Mode { exponent: MIN_EXPONENT.saturating_add(above), ..free }
        }
        _ => {
            let exponent = i32::try_from(bits(49, 0x7fff)).unwrap_or(0).saturating_sub(16495);
            Mode {
                least_bits: bits(12, 0x7fff).saturating_add(1),
                most_bits: bits(27, 0x7fff).saturating_add(1),
                planes: bits(42, 0x7f).saturating_add(1),
                exponent,
                reversible: exponent < MIN_EXPONENT,
            }
        }
    };
    if mode.least_bits > mode.most_bits || mode.planes > MAX_PLANES {
        return Err(damaged("its parameters contradict each other"));
    }
    Ok(mode)
}
