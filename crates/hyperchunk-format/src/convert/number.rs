//! Numbers of any bit layout: bits → value → bits. Source: specification §IV.A.2.d, classes 0 and 1; HDF5's
//! rules for values out of range.

use crate::model::{ByteOrder, Class, Datatype, Float, Normalization};
use crate::{Error, ErrorKind, Result};

/// Maximum number of bits of a value.
const MAX_BITS: u32 = 128;

/// Bit layout of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Format {
    size: usize,
    order: ByteOrder,
    /// First significant bit, and number of significant bits.
    offset: u32,
    precision: u32,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Signed,
    Unsigned,
    Float(Float),
}

/// Rounding mode for results of floating-point type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    /// To nearest, ties to even; infinity if at least half a step above the largest number. HDF5's rule for
    /// integer sources.
    Even,
    /// Like the processor between native types: ties to even, and infinity for all values beyond the largest
    /// number. NaNs keep as much of their payload as fits.
    Native,
    /// To nearest, ties away from zero; infinity only from the power of two after the largest number on.
    /// HDF5's rule for floating-point sources.
    Away,
}

/// Decoded number.
#[derive(Debug, Clone, Copy)]
enum Value {
    Integer {
        negative: bool,
        magnitude: u128,
    },
    Zero {
        negative: bool,
    },
    /// `1.fraction × 2^exponent`; the first bit of the fraction is bit 127.
    Finite {
        negative: bool,
        exponent: i64,
        fraction: u128,
    },
    Infinity {
        negative: bool,
    },
    /// NaN with its payload, from bit 127 down.
    Nan {
        negative: bool,
        payload: u128,
    },
}

impl Format {
    /// Reads the bit layout of a datatype.
    ///
    /// # Errors
    /// Conversion if the datatype is not a number, or its layout is unusable.
    pub(super) fn new(datatype: &Datatype) -> Result<Self> {
        let refuse =
            |what: &str| Err(Error::new(ErrorKind::Conversion, format!("cannot convert: expected {what}")));
        let size = usize::try_from(datatype.size).unwrap_or(usize::MAX);
        let (order, offset, precision, kind) = match &datatype.class {
            Class::Integer { order, signed, offset, precision } => {
                (*order, *offset, *precision, if *signed { Kind::Signed } else { Kind::Unsigned })
            }
            Class::Bitfield { order, offset, precision } => (*order, *offset, *precision, Kind::Unsigned),
            // The fields of a floating-point number count from the first bit of its bytes.
            Class::Float(float) => (
                float.order,
                0,
                u16::try_from(size.saturating_mul(8)).unwrap_or(u16::MAX),
                Kind::Float(*float),
            ),
            _ => return refuse("a number"),
        };
        let (offset, precision) = (u32::from(offset), u32::from(precision));
        if precision == 0 || precision > MAX_BITS {
            return refuse(&format!("a number of 1 to {MAX_BITS} bits, got {precision}"));
        }
        if offset.saturating_add(precision) as usize > size.saturating_mul(8) {
            return refuse(&format!(
                "the bits of a number within its {size} bytes, got {precision} bits from bit {offset} on"
            ));
        }
        match kind {
            Kind::Signed | Kind::Unsigned if order == ByteOrder::Vax => {
                return refuse("a little- or big-endian integer, got VAX byte order");
            }
            _ if order == ByteOrder::Vax && size % 2 != 0 => {
                return refuse(&format!("a VAX number of an even size, got {size} bytes"));
            }
            Kind::Float(float) => {
                let end = |at: u16, bits: u16| u32::from(at).saturating_add(u32::from(bits));
                let last = end(float.exponent_at, float.exponent_bits)
                    .max(end(float.mantissa_at, float.mantissa_bits))
                    .max(end(float.sign, 1));
                if last > precision {
                    return refuse(&format!(
                        "the fields of a floating-point number within {precision} bits, got {last} bits"
                    ));
                }
                // Exponents plus a bias fit into an i64; at least 8 of the 128 bits of a fraction are left
                // for rounding.
                if !(1..=62).contains(&float.exponent_bits) || !(1..=120).contains(&float.mantissa_bits) {
                    return refuse(&format!(
                        "1 to 62 exponent bits and 1 to 120 mantissa bits, got {} and {}",
                        float.exponent_bits, float.mantissa_bits
                    ));
                }
            }
            _ => {}
        }
        Ok(Self { size, order, offset, precision, kind })
    }

    /// Returns whether the formats differ only in byte order, one little- and one big-endian, and possibly in
    /// sign.
    pub(super) fn differs_only_in_byte_order(&self, other: &Self) -> bool {
        let unordered = |format: &Self| match format.kind {
            Kind::Float(float) => Some(Float { order: ByteOrder::Little, ..float }),
            Kind::Signed | Kind::Unsigned => None,
        };
        let orders = (self.order, other.order);
        matches!(orders, (ByteOrder::Little, ByteOrder::Big) | (ByteOrder::Big, ByteOrder::Little))
            && self.size == other.size
            && (self.offset, self.precision) == (other.offset, other.precision)
            && unordered(self) == unordered(other)
            // Bits outside a value are cleared, not moved.
            && (matches!(self.kind, Kind::Float(_)) || self.precision as usize == self.size.saturating_mul(8))
    }

    /// Converts one element.
    #[inline]
    pub(super) fn convert(&self, from: &[u8], to: &Self, rounding: Rounding, target: &mut [u8]) {
        let value = self.decode(self.load(from));
        to.store(to.encode(value, rounding), target);
    }

    /// Converts like [`Format::convert`], but for bit fields: excess bits are cut off.
    #[inline]
    pub(super) fn convert_bits(&self, from: &[u8], to: &Self, target: &mut [u8]) {
        to.store(self.load(from) & ones(to.precision), target);
    }

    /// Returns the significant bits of an element.
    #[inline]
    fn load(&self, bytes: &[u8]) -> u128 {
        let whole = match (self.order, bytes.get(..self.size)) {
            (ByteOrder::Little, Some([a])) | (ByteOrder::Big, Some([a])) => u128::from(*a),
            (ByteOrder::Little, Some(&[a, b])) => u16::from_le_bytes([a, b]).into(),
            (ByteOrder::Big, Some(&[a, b])) => u16::from_be_bytes([a, b]).into(),
            (ByteOrder::Little, Some(&[a, b, c, d])) => u32::from_le_bytes([a, b, c, d]).into(),
            (ByteOrder::Big, Some(&[a, b, c, d])) => u32::from_be_bytes([a, b, c, d]).into(),
            (ByteOrder::Little, Some(&[a, b, c, d, e, f, g, h])) => {
                u64::from_le_bytes([a, b, c, d, e, f, g, h]).into()
            }
            (ByteOrder::Big, Some(&[a, b, c, d, e, f, g, h])) => {
                u64::from_be_bytes([a, b, c, d, e, f, g, h]).into()
            }
            _ if self.size > 16 => return self.load_large(bytes),
            _ => self.load_any_size(bytes),
        };
        (whole >> self.offset) & ones(self.precision)
    }

    fn load_any_size(&self, bytes: &[u8]) -> u128 {
        let mut little = [0; 16];
        let bytes = bytes.get(..self.size).unwrap_or_default();
        match self.order {
            ByteOrder::Little => little.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from),
            ByteOrder::Big => little.iter_mut().zip(bytes.iter().rev()).for_each(|(to, from)| *to = *from),
            ByteOrder::Vax => {
                for (to, from) in little.chunks_exact_mut(2).zip(bytes.rchunks_exact(2)) {
                    to.copy_from_slice(from);
                }
            }
        }
        u128::from_le_bytes(little)
    }

    fn load_large(&self, bytes: &[u8]) -> u128 {
        let bit = |value: u128, at: u32| {
            let (byte, bit) = self.byte_and_bit(at);
            let set = bytes.get(byte).is_some_and(|byte| byte >> bit & 1 == 1);
            if set { value | 1 << at } else { value }
        };
        (0..self.precision).fold(0, bit)
    }

    /// Stores the bits as an element; insignificant bits become 0.
    #[inline]
    fn store(&self, bits: u128, target: &mut [u8]) {
        let bits = bits << self.offset;
        let little = bits.to_le_bytes();
        match (self.order, target.get_mut(..self.size)) {
            (ByteOrder::Little, Some(target)) if self.size <= 16 => {
                target.copy_from_slice(little.get(..self.size).unwrap_or_default());
            }
            (ByteOrder::Big, Some(target)) if self.size <= 16 => {
                target.copy_from_slice(little.get(..self.size).unwrap_or_default());
                target.reverse();
            }
            (ByteOrder::Vax, Some(target)) if self.size <= 16 => {
                for (to, from) in target.rchunks_exact_mut(2).zip(little.chunks_exact(2)) {
                    to.copy_from_slice(from);
                }
            }
            (_, Some(target)) => self.store_large(bits >> self.offset, target),
            _ => {}
        }
    }

    fn store_large(&self, bits: u128, target: &mut [u8]) {
        target.fill(0);
        for at in (0..self.precision).filter(|at| bits >> at & 1 == 1) {
            let (byte, bit) = self.byte_and_bit(at);
            if let Some(byte) = target.get_mut(byte) {
                *byte |= 1 << bit;
            }
        }
    }

    /// Returns the byte of a significant bit, and the bit's position in that byte.
    fn byte_and_bit(&self, at: u32) -> (usize, u32) {
        let at = at.saturating_add(self.offset);
        let byte = (at / 8) as usize;
        let last = self.size.saturating_sub(1);
        let byte = match self.order {
            ByteOrder::Little => byte,
            ByteOrder::Big => last.saturating_sub(byte),
            // Pairs from last to first, with the bytes of each in order.
            ByteOrder::Vax => last.saturating_sub(byte) ^ 1,
        };
        (byte, at % 8)
    }

    #[inline]
    fn decode(&self, bits: u128) -> Value {
        match self.kind {
            Kind::Unsigned => Value::Integer { negative: false, magnitude: bits },
            Kind::Signed => {
                let negative = bits >> self.precision.saturating_sub(1) & 1 == 1;
                let magnitude = if negative { bits.wrapping_neg() & ones(self.precision) } else { bits };
                Value::Integer { negative, magnitude }
            }
            Kind::Float(float) => decode_float(&float, bits),
        }
    }

    #[inline]
    fn encode(&self, value: Value, rounding: Rounding) -> u128 {
        match self.kind {
            Kind::Float(float) => encode_float(&float, value, rounding),
            kind => encode_integer(kind == Kind::Signed, self.precision, value),
        }
    }
}

/// Returns a mask of `count` ones.
#[inline]
fn ones(count: u32) -> u128 {
    u128::MAX.checked_shr(MAX_BITS.saturating_sub(count)).unwrap_or(0)
}

/// Shifts left; returns 0 if all bits are shifted out.
#[inline]
fn left(value: u128, by: u32) -> u128 {
    value.checked_shl(by).unwrap_or(0)
}

/// Shifts right; returns 0 if all bits are shifted out.
#[inline]
fn right(value: u128, by: u32) -> u128 {
    value.checked_shr(by).unwrap_or(0)
}

/// Returns the bias; a bias that does not fit exceeds every exponent.
fn bias(float: &Float) -> i64 {
    i64::try_from(float.exponent_bias).unwrap_or(i64::MAX)
}

fn decode_float(float: &Float, bits: u128) -> Value {
    let field = |at: u16, count: u16| right(bits, at.into()) & ones(count.into());
    let negative = field(float.sign, 1) == 1;
    let (exponent_bits, mantissa_bits) = (u32::from(float.exponent_bits), u32::from(float.mantissa_bits));
    let raw = field(float.exponent_at, float.exponent_bits);
    // From bit 127 down.
    let mantissa =
        left(field(float.mantissa_at, float.mantissa_bits), MAX_BITS.saturating_sub(mantissa_bits));
    let implied = float.normalization == Normalization::Implied;
    if raw == ones(exponent_bits) {
        // A bit that is always set carries no information.
        let payload = if implied { mantissa } else { mantissa << 1 };
        return if payload == 0 { Value::Infinity { negative } } else { Value::Nan { negative, payload } };
    }
    let raw_exponent = i64::try_from(raw).unwrap_or(i64::MAX);
    let exponent = raw_exponent.saturating_sub(bias(float));
    if implied && raw != 0 {
        return Value::Finite { negative, exponent, fraction: mantissa };
    }
    if mantissa == 0 {
        return Value::Zero { negative };
    }
    // The first set bit becomes the integer bit. Exponent field 0 has the weights of field 1: the first
    // mantissa bit has 2^(1−bias) if the integer bit is stored, half of that if the integer bit is implied.
    let zeros = mantissa.leading_zeros();
    let exponent = exponent.saturating_sub(zeros.into()).saturating_add((!implied && raw == 0).into());
    Value::Finite { negative, exponent, fraction: left(mantissa, zeros.saturating_add(1)) }
}

fn encode_integer(signed: bool, precision: u32, value: Value) -> u128 {
    let most = if signed { ones(precision.saturating_sub(1)) } else { ones(precision) };
    let saturated = |negative: bool, magnitude: Option<u128>| match (negative, magnitude) {
        (false, magnitude) => magnitude.unwrap_or(most).min(most),
        (true, _) if !signed => 0,
        // The least value has a magnitude one greater than the largest.
        (true, Some(magnitude)) if magnitude <= most => magnitude.wrapping_neg() & ones(precision),
        (true, _) => most.wrapping_add(1) & ones(precision),
    };
    match value {
        Value::Integer { negative, magnitude } => saturated(negative && magnitude != 0, Some(magnitude)),
        Value::Zero { .. } | Value::Nan { .. } => 0,
        Value::Infinity { negative } => saturated(negative, None),
        Value::Finite { exponent, .. } if exponent < 0 => 0,
        Value::Finite { negative, exponent, fraction } => {
            let whole = u32::try_from(exponent).ok().filter(|exponent| *exponent < MAX_BITS);
            let magnitude = whole.map(|exponent| {
                let below = right(fraction, MAX_BITS.saturating_sub(exponent));
                left(1, exponent) | below
            });
            saturated(negative, magnitude)
        }
    }
}

fn encode_float(float: &Float, value: Value, rounding: Rounding) -> u128 {
    let (exponent_bits, mantissa_bits) = (u32::from(float.exponent_bits), u32::from(float.mantissa_bits));
    let implied = float.normalization == Normalization::Implied;
    let build = |negative: bool, raw: i64, mantissa: u128| {
        left(u128::from(negative), float.sign.into())
            | left(u128::from(raw.unsigned_abs()) & ones(exponent_bits), float.exponent_at.into())
            | left(mantissa & ones(mantissa_bits), float.mantissa_at.into())
    };
    // First bit of the mantissa, if it is stored.
    let first = if implied { 0 } else { left(1, mantissa_bits.saturating_sub(1)) };
    // Number of fraction bits.
    let after = if implied { mantissa_bits } else { mantissa_bits.saturating_sub(1) };
    let special_exponent = i64::try_from(ones(exponent_bits)).unwrap_or(i64::MAX);
    let infinity = |negative: bool| build(negative, special_exponent, first);
    let (negative, exponent, fraction) = match value {
        Value::Integer { magnitude: 0, .. } => return 0,
        Value::Integer { negative, magnitude } => {
            let zeros = magnitude.leading_zeros();
            let exponent = i64::from(127_u32.saturating_sub(zeros));
            (negative, exponent, left(magnitude, zeros.saturating_add(1)))
        }
        Value::Zero { negative } => return build(negative, 0, 0),
        Value::Infinity { negative } => return infinity(negative),
        Value::Nan { negative, .. } if rounding != Rounding::Native => {
            return build(negative, special_exponent, ones(mantissa_bits));
        }
        Value::Nan { negative, payload } => {
            let quiet = right(payload | 1 << 127, MAX_BITS.saturating_sub(after));
            return build(negative, special_exponent, first | quiet);
        }
        Value::Finite { negative, exponent, fraction } => (negative, exponent, fraction),
    };
    let raw = exponent.saturating_add(bias(float));
    if raw >= special_exponent {
        return infinity(negative);
    }
    // Denormal numbers: the mantissa is shifted right.
    let shift = u32::try_from(1_i64.saturating_sub(raw).clamp(0, 1000)).unwrap_or(0);
    let (kept, dropped) = if shift == 0 {
        (right(fraction, MAX_BITS.saturating_sub(after)), left(fraction, after))
    } else {
        // Includes the integer bit. The bit shifted out stays as a sticky bit, for rounding.
        let whole = right(fraction, 1) | 1 << 127 | (fraction & 1);
        let bits = after.saturating_add(1).checked_sub(shift);
        let kept = bits.map_or(0, |bits| right(whole, MAX_BITS.saturating_sub(bits)));
        // If no bit remains, the value is less than half a step.
        let dropped = bits.map_or(1, |bits| left(whole, bits));
        (kept, dropped)
    };
    let half = 1_u128 << 127;
    let up = match rounding {
        Rounding::Away => dropped >= half,
        Rounding::Even | Rounding::Native => dropped > half || (dropped == half && kept & 1 == 1),
    };
    let largest = shift == 0 && raw == special_exponent.saturating_sub(1) && kept == ones(after);
    if largest && dropped != 0 {
        match rounding {
            Rounding::Native => return infinity(negative),
            Rounding::Even if up => return infinity(negative),
            _ => return build(negative, special_exponent.saturating_sub(1), first | kept),
        }
    }
    let kept = kept.wrapping_add(u128::from(up));
    // A carry out of the fraction increments the exponent.
    let carry = i64::from(right(kept, after) & 1 == 1);
    let raw = if shift == 0 { raw.saturating_add(carry) } else { carry };
    let first = if raw == 0 { 0 } else { first };
    build(negative, raw, first | (kept & ones(after)))
}
