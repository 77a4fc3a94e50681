//! Widening of small floating-point numbers that a native one holds exactly: half precision, bfloat16, FP8.

use super::elements::each;
use super::native::Native;
use crate::model::{ByteOrder, Class, Datatype, Float, Normalization};

/// Conversion of a small floating-point type to a native one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Widening {
    float: Float,
    size: usize,
    to: Native,
    /// True if NaNs keep their payload, as in the processor; otherwise they become all ones.
    payload: bool,
    /// Difference to add to an exponent.
    rebias: u64,
    /// Unit of denormal numbers.
    unit: f64,
}

impl Widening {
    /// Creates the conversion; `None` if the target cannot hold some value exactly.
    pub(super) fn new(from: &Datatype, to: &Datatype, payload: bool) -> Option<Self> {
        let Class::Float(float) = from.class else { return None };
        let (to, big) = Native::of(to)?;
        let (mantissa, least, most) = match to {
            Native::F32 => (23, -149, 127),
            Native::F64 => (52, -1022, 1023),
            _ => return None,
        };
        let bias = i64::try_from(float.exponent_bias).ok()?;
        let last = 1_i64.checked_shl(float.exponent_bits.into())?.checked_sub(2)?.checked_sub(bias)?;
        let unit = 1_i64.checked_sub(bias)?.checked_sub(float.mantissa_bits.into())?;
        let fits = float.mantissa_bits <= mantissa && last <= most && unit >= least;
        let plain = float.normalization == Normalization::Implied && float.order != ByteOrder::Vax && !big;
        let size = usize::try_from(from.size).ok().filter(|size| matches!(size, 1 | 2 | 4))?;
        let rebias = u64::try_from(1023_i64.checked_sub(bias)?).ok()?;
        // 2^unit.
        let unit = f64::from_bits(u64::try_from(unit.checked_add(1023)?).ok()?.checked_shl(52)?);
        (fits && plain).then_some(Self { float, size, to, payload, rebias, unit })
    }

    /// Converts `count` elements, `from_step` and `to_step` bytes apart.
    pub(super) fn run(&self, from: &[u8], from_step: usize, to: &mut [u8], to_step: usize, count: usize) {
        let big = self.float.order == ByteOrder::Big;
        each(from, from_step, to, to_step, count, |from, to| {
            let bits = match (self.size, from) {
                (1, [a, ..]) => u64::from(*a),
                (2, &[a, b, ..]) if big => u16::from_be_bytes([a, b]).into(),
                (2, &[a, b, ..]) => u16::from_le_bytes([a, b]).into(),
                (_, &[a, b, c, d, ..]) if big => u32::from_be_bytes([a, b, c, d]).into(),
                (_, &[a, b, c, d, ..]) => u32::from_le_bytes([a, b, c, d]).into(),
                _ => return,
            };
            let value = self.value(bits);
            match self.to {
                Native::F32 => {
                    #[expect(clippy::cast_possible_truncation, reason = "it fits, as was checked")]
                    let value = value as f32;
                    if let Some(to) = to.first_chunk_mut() {
                        *to = value.to_le_bytes();
                    }
                }
                _ => {
                    if let Some(to) = to.first_chunk_mut() {
                        *to = value.to_le_bytes();
                    }
                }
            }
        });
    }

    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "a mantissa of at most 52 bits")]
    fn value(&self, bits: u64) -> f64 {
        let ones = |count: u16| 1_u64.wrapping_shl(count.into()).wrapping_sub(1);
        let field = |at: u16, count: u16| bits.wrapping_shr(at.into()) & ones(count);
        let Float { exponent_bits, mantissa_bits, .. } = self.float;
        let raw = field(self.float.exponent_at, exponent_bits);
        let mantissa = field(self.float.mantissa_at, mantissa_bits);
        let sign = field(self.float.sign, 1).wrapping_shl(63);
        let fraction = mantissa.wrapping_shl(52_u32.wrapping_sub(mantissa_bits.into()));
        let magnitude = if raw == 0 {
            (mantissa as f64 * self.unit).to_bits()
        } else if raw != ones(exponent_bits) {
            raw.wrapping_add(self.rebias).wrapping_shl(52) | fraction
        } else if mantissa == 0 {
            f64::INFINITY.to_bits()
        } else if self.payload {
            f64::INFINITY.to_bits() | fraction | 1 << 51
        } else {
            f64::INFINITY.to_bits() | ones(52)
        };
        f64::from_bits(sign | magnitude)
    }
}
