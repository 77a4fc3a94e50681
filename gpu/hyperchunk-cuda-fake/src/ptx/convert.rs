//! Conversions between types (`cvt`).

use super::arithmetic::{integer, signed, unsigned};
use super::instruction::{Kind, Rounding, Type};

/// Converts a value, as the bits of a register; `None` for an unsupported conversion.
pub(super) fn convert(
    value: u64,
    from: Type,
    to: Type,
    rounding: Rounding,
    flush: bool,
    saturate: bool,
) -> Option<u64> {
    match (from.kind == Kind::Float, to.kind == Kind::Float) {
        (false, false) => Some(extended(narrowed(integer(value, from), to, saturate), to)),
        (false, true) if rounding == Rounding::Nearest => {
            let whole = integer(value, from);
            // Both round once, to nearest.
            match to.bits {
                16 => Some(u64::from(half(whole as f64))),
                32 => Some(u64::from((whole as f32).to_bits())),
                _ => Some((whole as f64).to_bits()),
            }
        }
        (false, true) => None,
        (true, is_float) => {
            let wide = match from.bits {
                16 => single(value as u16),
                32 => {
                    let value = f32::from_bits(unsigned(value, 32) as u32);
                    let value = if flush && value.is_subnormal() { 0_f32.copysign(value) } else { value };
                    f64::from(value)
                }
                _ => f64::from_bits(value),
            };
            let rounded = match rounding {
                Rounding::None | Rounding::Nearest => wide,
                Rounding::IntegralNearest => wide.round_ties_even(),
                Rounding::IntegralZero => wide.trunc(),
                Rounding::IntegralDown => wide.floor(),
                Rounding::IntegralUp => wide.ceil(),
            };
            if !is_float {
                let integral = !matches!(rounding, Rounding::None | Rounding::Nearest);
                return integral.then(|| extended(to_integer(rounded, to), to));
            }
            if to.bits < from.bits && rounding == Rounding::None {
                return None;
            }
            let rounded = match (saturate, rounded.is_nan()) {
                (true, true) => 0.0,
                (true, false) => rounded.clamp(0.0, 1.0),
                _ => rounded,
            };
            Some(match to.bits {
                16 => u64::from(half(rounded)),
                32 if rounded.is_nan() => 0x7fff_ffff,
                32 => {
                    let value = rounded as f32;
                    let value = if flush && value.is_subnormal() { 0_f32.copysign(value) } else { value };
                    u64::from(value.to_bits())
                }
                _ => rounded.to_bits(),
            })
        }
    }
}

/// Converts an integer to the range of its type: truncated or saturated.
fn narrowed(value: i128, to: Type, saturate: bool) -> i128 {
    if !saturate {
        return value;
    }
    match to.kind {
        Kind::Signed => value.clamp(-(1 << (to.bits - 1)), (1 << (to.bits - 1)) - 1),
        _ => value.clamp(0, (1 << to.bits) - 1),
    }
}

/// Converts a float to the nearest integer of the type; NaN becomes 0.
fn to_integer(value: f64, to: Type) -> i128 {
    narrowed(value as i128, to, true)
}

/// Returns the bits of a register with a value of that type.
fn extended(value: i128, to: Type) -> u64 {
    match to.kind {
        Kind::Signed => signed(value as u64, to.bits).cast_unsigned(),
        _ => unsigned(value as u64, to.bits),
    }
}

/// Returns the value of a float of 16 bits.
fn single(bits: u16) -> f64 {
    let (sign, exponent, fraction) = (bits >> 15, i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let value = match exponent {
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        0 => fraction * f64::exp2(-24.0),
        _ => (1024.0 + fraction) * f64::exp2(f64::from(exponent - 25)),
    };
    if sign == 1 { -value } else { value }
}

/// Returns the nearest float of 16 bits, ties to even.
fn half(value: f64) -> u16 {
    let sign = u16::from(value.is_sign_negative()) << 15;
    let value = value.abs();
    if value.is_nan() {
        return 0x7fff;
    }
    if value >= 65520.0 {
        return sign | 0x7c00;
    }
    // The unit of the last place: 2^-24 below 2^-14, else 2^(e - 10).
    let exponent = if value < f64::exp2(-14.0) { -14 } else { value.log2().floor() as i32 };
    let exponent =
        if f64::exp2(f64::from(exponent)) > value && exponent > -14 { exponent - 1 } else { exponent };
    let places = (value / f64::exp2(f64::from(exponent - 10))).round_ties_even() as u16;
    // A carry goes into the exponent by itself.
    let bits =
        if exponent == -14 && places < 1024 { places } else { ((exponent + 14) as u16) * 1024 + places };
    sign | bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_and_what_is_between() {
        for bits in 0..=u16::MAX {
            let value = single(bits);
            if value.is_nan() {
                continue;
            }
            assert_eq!(half(value), bits, "{value}");
        }
        assert_eq!(half(65519.0), 0x7bff);
        assert_eq!(half(1.0 + f64::exp2(-11.0)), 0x3c00);
        assert_eq!(half(1.0 + 3.0 * f64::exp2(-11.0)), 0x3c02);
        assert_eq!(half(f64::exp2(-25.0)), 0);
        assert_eq!(half(f64::exp2(-25.0) * 1.01), 1);
    }
}
