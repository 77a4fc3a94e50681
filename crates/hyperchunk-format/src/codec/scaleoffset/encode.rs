//! Scale-offset encoder: the same bytes as libhdf5 on little-endian machines.

use super::super::bits::{Order, Packer, each, pack};
use super::{EncodeContext, EncodeOutcome, HEADER_BYTES, Kind, Parameters, power_of_ten_32, power_of_ten_64};
use crate::{Error, Result};

/// Parameters of a chunk, determined before its elements are packed.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// Bits of an element.
    bits: u32,
    /// Bits of the minimum.
    minimum: u64,
}

pub(super) fn encode(
    input: &[u8],
    output: &mut Vec<u8>,
    parameters: &Parameters,
    context: &EncodeContext<'_>,
) -> Result<EncodeOutcome> {
    let Parameters { count, size, order, .. } = *parameters;
    if u64::from(count).checked_mul(size.into()) != Some(input.len() as u64) {
        return Err(Error::invalid(format!(
            "{} bytes do not form {count} elements of {size} bytes",
            input.len()
        )));
    }
    let elements = (input, usize::try_from(size).unwrap_or(8), order);
    match (parameters.kind, size) {
        (Kind::Integer, _) => integers(elements, output, parameters, context),
        (Kind::Float(exponent), 4) => floats::<f32>(elements, exponent, output, parameters, context),
        (Kind::Float(exponent), _) => floats::<f64>(elements, exponent, output, parameters, context),
    }
}

type Elements<'a> = (&'a [u8], usize, Order);

/// Writes the header, and reserves space for the elements.
fn start<'o>(
    plan: Plan,
    input: usize,
    parameters: &Parameters,
    output: &'o mut Vec<u8>,
    context: &EncodeContext<'_>,
) -> Result<(&'o mut [u8], usize)> {
    let packed = if plan.bits == parameters.size.wrapping_mul(8) {
        input
    } else {
        // libhdf5 always adds one byte to the whole ones.
        let bits = u128::from(parameters.count).wrapping_mul(plan.bits.into());
        usize::try_from(bits / 8).unwrap_or(usize::MAX).saturating_add(1)
    };
    let size = packed.saturating_add(HEADER_BYTES);
    let (header, rest) = context.room(output, size)?.split_at_mut_checked(HEADER_BYTES).unwrap_or_default();
    header.fill(0);
    let minimum = plan.minimum.to_le_bytes();
    let fields = plan.bits.to_le_bytes().into_iter().chain([8]).chain(minimum);
    header.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
    Ok((rest, size))
}

/// Stores all bits of all elements, little-endian.
fn whole((input, size, order): Elements<'_>, output: &mut [u8]) {
    output.iter_mut().zip(input).for_each(|(to, from)| *to = *from);
    if order == Order::Big {
        output.chunks_exact_mut(size.max(1)).for_each(<[u8]>::reverse);
    }
}

/// Returns the number of bits needed for `count` different numbers.
fn width(count: u64) -> u32 {
    64_u32.wrapping_sub(count.saturating_sub(1).leading_zeros())
}

fn integers(
    elements: Elements<'_>,
    output: &mut Vec<u8>,
    parameters: &Parameters,
    context: &EncodeContext<'_>,
) -> Result<EncodeOutcome> {
    let full = parameters.size.wrapping_mul(8);
    let mask = u64::MAX.wrapping_shr(64_u32.wrapping_sub(full));
    let fill = parameters.fill.map(|fill| fill & mask);
    // With the sign bit inverted, signed numbers have the order of unsigned ones.
    let sign_bit = if parameters.signed { 1_u64.wrapping_shl(full.wrapping_sub(1)) } else { 0 };
    let (mut least, mut most) = (u64::MAX, 0);
    match fill {
        Some(fill) => each(elements, |value| {
            if value != fill {
                least = least.min(value ^ sign_bit);
                most = most.max(value ^ sign_bit);
            }
        }),
        None => each(elements, |value| {
            least = least.min(value ^ sign_bit);
            most = most.max(value ^ sign_bit);
        }),
    }
    if least > most {
        // Only fill values.
        (least, most) = (sign_bit, sign_bit);
    }
    let (range, least) = (most.wrapping_sub(least), least ^ sign_bit);
    // Sign-extended to 64 bits.
    let minimum = if parameters.signed {
        let shift = 64_u32.wrapping_sub(full);
        least.wrapping_shl(shift).cast_signed().wrapping_shr(shift).cast_unsigned()
    } else {
        least
    };
    let plan = match parameters.bits {
        Some(bits) => Plan { bits, minimum },
        // In this case libhdf5 stores no minimum, except for signed bytes without a fill value.
        None if range > mask.wrapping_sub(2) => {
            let kept = parameters.signed && full == 8 && fill.is_none();
            Plan { bits: full, minimum: if kept { minimum } else { 0 } }
        }
        None => {
            let count = range.wrapping_add(1).wrapping_add(fill.is_some().into());
            Plan { bits: width(count), minimum }
        }
    };
    let (to, size) = start(plan, elements.0.len(), parameters, output, context)?;
    if plan.bits == full {
        whole(elements, to);
        return Ok(EncodeOutcome::Written(size));
    }
    let mut packer = Packer::new(to);
    let packed = (&mut packer, plan.bits);
    match fill {
        // All ones stand for the fill value.
        Some(fill) => {
            pack(elements, packed, |value| if value == fill { u64::MAX } else { value.wrapping_sub(minimum) })
        }
        None => pack(elements, packed, |value| value.wrapping_sub(minimum)),
    }
    packer.finish();
    Ok(EncodeOutcome::Written(size))
}

/// Floating-point number, with C's functions.
trait Real: Copy + PartialOrd {
    const ZERO: Self;
    /// First whole number that exceeds an integer with as many bits.
    const END: Self;
    fn from_bits(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn power_of_ten(exponent: i32) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn distance(self) -> Self;
    fn rounded(self) -> Self;
    fn whole(self) -> i64;
    fn wide(self) -> f64;
    fn is_no_number(self) -> bool;
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const END: Self = 2_147_483_648.0;
    #[expect(clippy::cast_possible_truncation, reason = "an element of four bytes")]
    fn from_bits(bits: u64) -> Self {
        Self::from_bits(bits as u32)
    }
    fn bits(self) -> u64 {
        self.to_bits().into()
    }
    fn power_of_ten(exponent: i32) -> Self {
        power_of_ten_32(exponent)
    }
    fn minus(self, other: Self) -> Self {
        self - other
    }
    fn times(self, other: Self) -> Self {
        self * other
    }
    fn distance(self) -> Self {
        self.abs()
    }
    fn rounded(self) -> Self {
        self.round()
    }
    #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
    fn whole(self) -> i64 {
        self.round() as i64
    }
    fn wide(self) -> f64 {
        self.into()
    }
    fn is_no_number(self) -> bool {
        self.is_nan()
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const END: Self = 9_223_372_036_854_775_808.0;
    fn from_bits(bits: u64) -> Self {
        Self::from_bits(bits)
    }
    fn bits(self) -> u64 {
        self.to_bits()
    }
    fn power_of_ten(exponent: i32) -> Self {
        power_of_ten_64(exponent)
    }
    fn minus(self, other: Self) -> Self {
        self - other
    }
    fn times(self, other: Self) -> Self {
        self * other
    }
    fn distance(self) -> Self {
        self.abs()
    }
    fn rounded(self) -> Self {
        self.round()
    }
    #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
    fn whole(self) -> i64 {
        self.round() as i64
    }
    fn wide(self) -> f64 {
        self
    }
    fn is_no_number(self) -> bool {
        self.is_nan()
    }
}

fn floats<T: Real>(
    elements: Elements<'_>,
    exponent: i32,
    output: &mut Vec<u8>,
    parameters: &Parameters,
    context: &EncodeContext<'_>,
) -> Result<EncodeOutcome> {
    let full = parameters.size.wrapping_mul(8);
    let fill = parameters.fill.map(T::from_bits);
    let less = exponent.saturating_neg();
    let (scale, near_wide, near) = (T::power_of_ten(exponent), power_of_ten_64(less), T::power_of_ten(less));
    let (mut range, mut no_number) = (None::<(T, T)>, false);
    each(elements, |bits| {
        let value = T::from_bits(bits);
        no_number |= value.is_no_number();
        if fill.is_some_and(|fill| value.minus(fill).wide().abs() < near_wide) {
            return;
        }
        let (least, most) = range.get_or_insert((value, value));
        if value > *most {
            *most = value;
        }
        if value < *least {
            *least = value;
        }
    });
    let (least, most) = range.unwrap_or((T::ZERO, T::ZERO));
    let span = most.times(scale).minus(least.times(scale));
    let plan = if span.rounded() > T::END {
        Plan { bits: full, minimum: 0 }
    } else if no_number || span.is_no_number() {
        // libhdf5 would store an arbitrary number for NaN.
        return Ok(EncodeOutcome::Refused);
    } else {
        let count = span.whole().wrapping_add(1).cast_unsigned();
        let bits = width(count.wrapping_add(fill.is_some().into()));
        Plan { bits: bits.min(full), minimum: least.bits() }
    };
    let (to, size) = start(plan, elements.0.len(), parameters, output, context)?;
    if plan.bits == full {
        whole(elements, to);
        return Ok(EncodeOutcome::Written(size));
    }
    let least = least.times(scale);
    let mut packer = Packer::new(to);
    pack(elements, (&mut packer, plan.bits), |bits| {
        let value = T::from_bits(bits);
        match fill {
            Some(fill) if value.minus(fill).distance() < near => u64::MAX,
            _ => value.times(scale).minus(least).whole().cast_unsigned(),
        }
    });
    packer.finish();
    Ok(EncodeOutcome::Written(size))
}
