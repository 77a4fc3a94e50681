//! Floats whose layout has values that neither `f64` nor, for small ones, `f32` can hold: 80-bit and quadruple
//! precision, and layouts with other exponents.

use super::decimal::Decimal;
use hyperchunk::Error;
use hyperchunk::convert::Conversion;
use hyperchunk::model::{ByteOrder, Class, Datatype, Float, Normalization};

/// Reader of the exact values of such a layout.
pub(super) struct WideFloat {
    /// Conversion to 16 bytes with the same exponents, an implied first bit, and the mantissa at bit 0.
    conversion: Conversion,
    mantissa_bits: u16,
    exponent_bits: u16,
    bias: i64,
}

impl WideFloat {
    /// Creates a reader; `None` if `f32` (for `single`) or `f64` holds all values of the layout.
    pub(super) fn new(datatype: &Datatype, float: &Float, single: bool) -> Result<Option<Self>, Error> {
        let stored = u16::from(float.normalization != Normalization::Implied);
        let mantissa_bits = float.mantissa_bits.saturating_sub(stored).max(1);
        let (most_bits, largest, least) = if single { (23, 127, -149) } else { (52, 1023, -1074) };
        let bias = i64::try_from(float.exponent_bias).unwrap_or(i64::MAX);
        let end = 1_i64 << float.exponent_bits.min(62);
        let top = end.saturating_sub(2).saturating_sub(bias);
        let bottom = 1_i64.saturating_sub(bias).saturating_sub(mantissa_bits.into());
        if mantissa_bits <= most_bits && top <= largest && bottom >= least {
            return Ok(None);
        }
        let wide = Float {
            order: ByteOrder::Little,
            offset: 0,
            precision: 128,
            sign: 127,
            exponent_at: mantissa_bits,
            mantissa_at: 0,
            mantissa_bits,
            normalization: Normalization::Implied,
            ..*float
        };
        let conversion = Conversion::new(datatype, &Datatype { size: 16, class: Class::Float(wide) })?;
        Ok(Some(Self { conversion, mantissa_bits, exponent_bits: float.exponent_bits, bias }))
    }

    /// Returns the number in an element as text, and whether it is outside the range of doubles; `None` if it is
    /// equal to `converted`, infinite, or not a number.
    pub(super) fn text(&self, element: &[u8], converted: f64) -> Result<Option<(String, bool)>, Error> {
        let mut bytes = [0; 16];
        self.conversion.run(element, &mut bytes, 1)?;
        let bits = u128::from_le_bytes(bytes);
        let fraction = bits & ((1 << self.mantissa_bits) - 1);
        let all = (1_u128 << self.exponent_bits) - 1;
        let raw = bits >> self.mantissa_bits & all;
        if raw == all {
            return Ok(None);
        }
        let mantissa = if raw == 0 { fraction } else { fraction | 1 << self.mantissa_bits };
        let exponent = i64::try_from(raw.max(1)).unwrap_or(i64::MAX);
        let exponent = exponent.saturating_sub(self.bias).saturating_sub(self.mantissa_bits.into());
        if mantissa == 0 || is_same(mantissa, exponent, converted) {
            return Ok(None);
        }
        let sign = if bits >> 127 == 1 { "-" } else { "" };
        let Some(decimal) = Decimal::new(mantissa, exponent, fraction == 0 && raw > 1) else {
            // In C's notation of binary numbers.
            return Ok(Some((format!("{sign}0x{mantissa:x}p{exponent}"), true)));
        };
        // The same numbers as other floats are written without an exponent.
        let number = decimal.text((-4..=16).contains(&decimal.point));
        let is_outside = number.parse::<f64>().is_ok_and(|double| double == 0.0 || double.is_infinite());
        Ok(Some((format!("{sign}{number}"), is_outside)))
    }
}

/// Returns whether `mantissa × 2^exponent` is the magnitude of a double.
fn is_same(mantissa: u128, exponent: i64, double: f64) -> bool {
    if !double.is_finite() || double == 0.0 {
        return false;
    }
    let bits = double.to_bits();
    let raw = bits >> 52 & 0x7ff;
    let fraction = bits & ((1 << 52) - 1);
    let other = u128::from(if raw == 0 { fraction } else { fraction | 1 << 52 });
    let other_exponent = i64::try_from(raw.max(1)).unwrap_or(0) - 1075;
    let odd = |mantissa: u128, exponent: i64| {
        let zeros = mantissa.trailing_zeros();
        (mantissa >> zeros.min(127), exponent.saturating_add(zeros.into()))
    };
    odd(mantissa, exponent) == odd(other, other_exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The 80-bit layout of x86 processors.
    fn extended() -> (Datatype, Float) {
        let float = Float {
            order: ByteOrder::Little,
            offset: 0,
            precision: 80,
            sign: 79,
            exponent_at: 64,
            exponent_bits: 15,
            exponent_bias: 16_383,
            mantissa_at: 0,
            mantissa_bits: 64,
            normalization: Normalization::Set,
        };
        (Datatype { size: 16, class: Class::Float(float) }, float)
    }

    fn element(exponent: u16, mantissa: u64) -> [u8; 16] {
        (u128::from(exponent) << 64 | u128::from(mantissa)).to_le_bytes()
    }

    #[test]
    fn test_extended_numbers_beyond_doubles() {
        let (datatype, float) = extended();
        let wide = WideFloat::new(&datatype, &float, false).unwrap().unwrap();
        let check = |exponent: u16, mantissa: u64, converted: f64, expected: Option<(&str, bool)>| {
            let text = wide.text(&element(exponent, mantissa), converted).unwrap();
            assert_eq!(text.as_ref().map(|(text, outside)| (text.as_str(), *outside)), expected);
        };
        check(16_383, 1 << 63, 1.0, None);
        check(0, 0, 0.0, None);
        check(0x7fff, 1 << 63, f64::INFINITY, None);
        check(13_224 + 16_446, 0xd1ba_8323_fe55_8c61, f64::INFINITY, Some(("1e4000", true)));
        check(0x8000 | (13_224 + 16_446), 0xd1ba_8323_fe55_8c61, f64::NEG_INFINITY, Some(("-1e4000", true)));
        check(16_446 - 13_351, 0x9c3d_7386_4f38_05c0, 0.0, Some(("1e-4000", true)));
        check(16_446 - 65, 0xaaaa_aaaa_aaaa_aaab, 1.0 / 3.0, Some(("0.33333333333333333334", false)));
        // The least denormal number.
        check(0, 1, 0.0, Some(("4e-4951", true)));
    }

    #[test]
    fn test_small_layout_with_another_bias() {
        let Class::Float(single) = Datatype::ieee(4, ByteOrder::Big).class else { return };
        assert!(WideFloat::new(&Datatype::ieee(4, ByteOrder::Big), &single, true).unwrap().is_none());
        let float = Float { exponent_bias: 0, ..single };
        let datatype = Datatype { size: 4, class: Class::Float(float) };
        let wide = WideFloat::new(&datatype, &float, true).unwrap().unwrap();
        let text = wide.text(&(200_u32 << 23).to_be_bytes(), f64::INFINITY).unwrap();
        assert_eq!(text, Some(("1.606938e60".to_owned(), false)));
    }
}
