//! Evaluation of instructions on values. Integers wrap, floats round to nearest.

use super::instruction::{Compare, Kind, Operation, RoundingDirection, Type};

/// Zero-extends the lowest `bits` bits.
pub(super) fn unsigned(value: u64, bits: u32) -> u64 {
    if bits >= 64 { value } else { value & ((1 << bits) - 1) }
}

/// Sign-extends the lowest `bits` bits.
pub(super) fn signed(value: u64, bits: u32) -> i64 {
    let shift = 64_u32.saturating_sub(bits);
    (value.cast_signed() << shift) >> shift
}

/// Returns the integer value of a register of that type.
pub(super) fn integer(value: u64, ty: Type) -> i128 {
    match ty.kind {
        Kind::Signed => i128::from(signed(value, ty.bits)),
        _ => i128::from(unsigned(value, ty.bits)),
    }
}

fn float32(value: u64) -> f32 {
    f32::from_bits((value & u64::from(u32::MAX)) as u32)
}

fn flushed(value: f32, flush: bool) -> f32 {
    if flush && value.is_subnormal() { 0_f32.copysign(value) } else { value }
}

/// Returns the bits of a result of 32 bits; a GPU has only one NaN.
fn bits32(value: f32) -> u64 {
    if value.is_nan() { 0x7fff_ffff } else { u64::from(value.to_bits()) }
}

/// Computes an operation on its inputs, as the bits of a register.
pub(super) fn compute(operation: Operation, ty: Type, from: [u64; 4], flush: bool, saturate: bool) -> u64 {
    match (ty.kind, ty.bits) {
        (Kind::Float, 32) => {
            let [a, b, c, _] = from.map(|value| flushed(float32(value), flush));
            match compute_floats(operation, f64::from(a), f64::from(b), c.into(), true) {
                Float::Value32(value) => {
                    let value = flushed(value, flush);
                    let value = if saturate {
                        if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) }
                    } else {
                        value
                    };
                    bits32(value)
                }
                Float::Value64(_) | Float::Bits => compute_bits(operation, ty, from),
            }
        }
        (Kind::Float, 64) => {
            let [a, b, c, _] = from.map(f64::from_bits);
            match compute_floats(operation, a, b, c, false) {
                Float::Value64(value) => if saturate { value.clamp(0.0, 1.0) } else { value }.to_bits(),
                Float::Value32(_) | Float::Bits => compute_bits(operation, ty, from),
            }
        }
        _ => compute_bits(operation, ty, from),
    }
}

/// Computes a sum or product with directed rounding. The nearest value and its error are known exactly.
pub(super) fn directed(operation: Operation, bits: u32, towards: RoundingDirection, from: [u64; 3]) -> u64 {
    let sum = |a: f64, b: f64| {
        let s = a + b;
        let back = s - a;
        (s, (a - (s - back)) + (b - back))
    };
    if bits == 32 {
        let [a, b, c] = from.map(|value| f64::from(float32(value)));
        // Products of floats of 32 bits are exact in 64.
        let (value, lacks) = match operation {
            Operation::Add => sum(a, b),
            Operation::Sub => sum(a, -b),
            Operation::MulLow => (a * b, 0.0),
            _ => sum(a * b, c),
        };
        let nearest = value as f32;
        let more = value - f64::from(nearest);
        let more = if more == 0.0 { lacks } else { more };
        let up = towards == RoundingDirection::Up || (towards == RoundingDirection::Zero && value < 0.0);
        return bits32(match more.partial_cmp(&0.0) {
            Some(order) if order.is_gt() && up => nearest.next_up(),
            Some(order) if order.is_lt() && !up => nearest.next_down(),
            _ => nearest,
        });
    }
    let [a, b, _] = from.map(f64::from_bits);
    let (nearest, more) = match operation {
        Operation::Add => sum(a, b),
        Operation::Sub => sum(a, -b),
        _ => (a * b, a.mul_add(b, -(a * b))),
    };
    let up = towards == RoundingDirection::Up || (towards == RoundingDirection::Zero && nearest < 0.0);
    match more.partial_cmp(&0.0) {
        Some(order) if order.is_gt() && up => nearest.next_up(),
        Some(order) if order.is_lt() && !up => nearest.next_down(),
        _ => nearest,
    }
    .to_bits()
}

/// Computes a word of a multi-word sum, and the carry to the next.
pub(super) fn carry(operation: Operation, ty: Type, from: [u64; 3], carried: bool) -> (u64, bool) {
    let whole = Type { kind: Kind::Unsigned, ..ty };
    let [a, b, c] = from.map(|value| integer(value, whole).cast_unsigned());
    let one = u128::from(carried);
    let total = match operation {
        Operation::Add => a + b + one,
        // A borrow shows above the word.
        Operation::Sub => a.wrapping_sub(b).wrapping_sub(one),
        _ => {
            let product = compute(
                if operation == Operation::MadLow { Operation::MulLow } else { Operation::MulHigh },
                ty,
                [from[0], from[1], 0, 0],
                false,
                false,
            );
            u128::from(product) + c + one
        }
    };
    (unsigned(total as u64, ty.bits), total >> ty.bits != 0)
}

enum Float {
    Value32(f32),
    Value64(f64),
    /// Not an operation on floats: the bits are moved.
    Bits,
}

/// Computes operations on floats: in 32 bits for values of that type, so that each rounds once.
fn compute_floats(operation: Operation, a: f64, b: f64, c: f64, narrow: bool) -> Float {
    macro_rules! each {
        ($single:expr, $double:expr) => {
            if narrow {
                Float::Value32($single(a as f32, b as f32, c as f32))
            } else {
                Float::Value64($double(a, b, c))
            }
        };
    }
    /// The smaller one, or the one that is a number; -0 is less than 0.
    macro_rules! lesser {
        ($a:expr, $b:expr, $swap:expr) => {
            match $a.partial_cmp(&$b) {
                None => {
                    if $a.is_nan() {
                        $b
                    } else {
                        $a
                    }
                }
                Some(std::cmp::Ordering::Equal) => {
                    if $a.is_sign_negative() != $swap {
                        $a
                    } else {
                        $b
                    }
                }
                Some(order) => {
                    if order.is_lt() != $swap {
                        $a
                    } else {
                        $b
                    }
                }
            }
        };
    }
    match operation {
        Operation::Add => each!(|a: f32, b: f32, _: f32| a + b, |a: f64, b: f64, _: f64| a + b),
        Operation::Sub => each!(|a: f32, b: f32, _: f32| a - b, |a: f64, b: f64, _: f64| a - b),
        Operation::MulLow => each!(|a: f32, b: f32, _: f32| a * b, |a: f64, b: f64, _: f64| a * b),
        Operation::Div => each!(|a: f32, b: f32, _: f32| a / b, |a: f64, b: f64, _: f64| a / b),
        Operation::Fma => each!(|a: f32, b, c| a.mul_add(b, c), |a: f64, b, c| a.mul_add(b, c)),
        Operation::Min => each!(
            |a: f32, b: f32, _: f32| lesser!(a, b, false),
            |a: f64, b: f64, _: f64| lesser!(a, b, false)
        ),
        Operation::Max => {
            each!(|a: f32, b: f32, _: f32| lesser!(a, b, true), |a: f64, b: f64, _: f64| lesser!(a, b, true))
        }
        Operation::Sqrt => each!(|a: f32, _: f32, _: f32| a.sqrt(), |a: f64, _: f64, _: f64| a.sqrt()),
        Operation::Reciprocal => each!(|a: f32, _: f32, _: f32| 1.0 / a, |a: f64, _: f64, _: f64| 1.0 / a),
        Operation::ReciprocalSqrt => {
            each!(|a: f32, _: f32, _: f32| (1.0 / f64::from(a).sqrt()) as f32, |a: f64, _: f64, _: f64| 1.0
                / a.sqrt())
        }
        Operation::Exp2 => {
            each!(|a: f32, _: f32, _: f32| f64::from(a).exp2() as f32, |a: f64, _: f64, _: f64| a.exp2())
        }
        Operation::Log2 => {
            each!(|a: f32, _: f32, _: f32| f64::from(a).log2() as f32, |a: f64, _: f64, _: f64| a.log2())
        }
        Operation::Sin => {
            each!(|a: f32, _: f32, _: f32| f64::from(a).sin() as f32, |a: f64, _: f64, _: f64| a.sin())
        }
        Operation::Cos => {
            each!(|a: f32, _: f32, _: f32| f64::from(a).cos() as f32, |a: f64, _: f64, _: f64| a.cos())
        }
        Operation::Tanh => {
            each!(|a: f32, _: f32, _: f32| f64::from(a).tanh() as f32, |a: f64, _: f64, _: f64| a.tanh())
        }
        _ => Float::Bits,
    }
}

/// Computes operations on integers and on bits.
fn compute_bits(operation: Operation, ty: Type, from: [u64; 4]) -> u64 {
    let [a, b, c, d] = from;
    let bits = ty.bits;
    let whole = |value: u64| integer(value, ty);
    let top = 1_u64 << (bits - 1);
    let (narrow_a, narrow_b) = (unsigned(a, bits), unsigned(b, bits));
    let divide = |rem: bool| match (whole(a), whole(b)) {
        // As on GPUs.
        (_, 0) if !rem => -1,
        (a, 0) => a,
        (a, b) if rem => a % b,
        (a, b) => a / b,
    };
    let low = |value: i128| unsigned(value as u64, bits);
    match operation {
        Operation::Move => unsigned(a, bits),
        Operation::Add => unsigned(a.wrapping_add(b), bits),
        Operation::Sub => unsigned(a.wrapping_sub(b), bits),
        Operation::MulLow => unsigned(a.wrapping_mul(b), bits),
        Operation::MulHigh => low((whole(a).wrapping_mul(whole(b))) >> bits),
        Operation::MulWide => whole(a).wrapping_mul(whole(b)) as u64,
        Operation::MadLow => unsigned(a.wrapping_mul(b).wrapping_add(c), bits),
        Operation::MadHigh => low((whole(a).wrapping_mul(whole(b)) >> bits).wrapping_add(whole(c))),
        Operation::MadWide => (whole(a).wrapping_mul(whole(b)) as u64).wrapping_add(c),
        Operation::Div => low(divide(false)),
        Operation::Rem => low(divide(true)),
        Operation::Min => low(whole(a).min(whole(b))),
        Operation::Max => low(whole(a).max(whole(b))),
        Operation::Abs if ty.kind == Kind::Float => narrow_a & !top,
        Operation::Abs => low(whole(a).wrapping_abs()),
        Operation::Neg if ty.kind == Kind::Float => narrow_a ^ top,
        Operation::Neg => unsigned(a.wrapping_neg(), bits),
        Operation::CopySign => (narrow_b & !top) | (narrow_a & top),
        Operation::And => narrow_a & narrow_b,
        Operation::Or => narrow_a | narrow_b,
        Operation::Xor => narrow_a ^ narrow_b,
        Operation::Not => unsigned(!a, bits),
        Operation::LogicalNot => u64::from(narrow_a == 0),
        Operation::Shl => match unsigned(b, 32) {
            count if count < u64::from(bits) => unsigned(a << count, bits),
            _ => 0,
        },
        Operation::Shr => {
            let count = unsigned(b, 32).min(127);
            low(whole(a) >> count)
        }
        Operation::PopCount => u64::from(narrow_a.count_ones()),
        Operation::LeadingZeros => u64::from(narrow_a.leading_zeros() - (64 - bits)),
        Operation::FindHighest | Operation::FindHighestShift => {
            let value =
                if ty.kind == Kind::Signed && narrow_a & top != 0 { unsigned(!a, bits) } else { narrow_a };
            match (value.checked_ilog2(), operation) {
                (None, _) => u64::from(u32::MAX),
                (Some(at), Operation::FindHighest) => u64::from(at),
                (Some(at), _) => u64::from(bits - 1 - at),
            }
        }
        Operation::Reverse => a.reverse_bits() >> (64 - bits),
        Operation::Extract => extract(ty, a, b, c),
        Operation::Insert => {
            let (at, count) = (unsigned(c, 8).min(64) as u32, unsigned(d, 8).min(64) as u32);
            let count = count.min(bits.saturating_sub(at));
            if count == 0 {
                return narrow_b;
            }
            let mask = unsigned(u64::MAX, count) << at;
            (narrow_b & !mask) | ((narrow_a << at) & mask)
        }
        Operation::Permute => permute(a, b, c),
        Operation::FunnelLeft
        | Operation::FunnelLeftClamp
        | Operation::FunnelRight
        | Operation::FunnelRightClamp => {
            let clamp = matches!(operation, Operation::FunnelLeftClamp | Operation::FunnelRightClamp);
            let count = if clamp { unsigned(c, 32).min(32) } else { c & 31 };
            let both = unsigned(a, 32) | unsigned(b, 32) << 32;
            let left = matches!(operation, Operation::FunnelLeft | Operation::FunnelLeftClamp);
            if left { (both << count) >> 32 } else { unsigned(both >> count, 32) }
        }
        Operation::Lookup(table) => {
            let (a, b, c) = (unsigned(a, 32), unsigned(b, 32), unsigned(c, 32));
            let mut result = 0;
            for row in 0..8_u64 {
                let pick = |value: u64, bit: u64| if row & bit != 0 { value } else { !value };
                if u64::from(table) >> row & 1 != 0 {
                    result |= pick(a, 4) & pick(b, 2) & pick(c, 1);
                }
            }
            unsigned(result, 32)
        }
        Operation::AbsoluteDifference => low((whole(a) - whole(b)).abs().wrapping_add(whole(c))),
        Operation::Select => unsigned(if c & 1 != 0 { a } else { b }, bits),
        Operation::SelectBySign => unsigned(if signed(c, 32) >= 0 { a } else { b }, bits),
        // The remaining operations are only for floats, as the decoder ensures.
        Operation::Fma
        | Operation::Sqrt
        | Operation::Reciprocal
        | Operation::ReciprocalSqrt
        | Operation::Exp2
        | Operation::Log2
        | Operation::Sin
        | Operation::Cos
        | Operation::Tanh => 0,
    }
}

fn extract(ty: Type, a: u64, at: u64, count: u64) -> u64 {
    let (at, count) = (unsigned(at, 8).min(255) as u32, unsigned(count, 8) as u32);
    if count == 0 {
        return 0;
    }
    let sign_at = (at.saturating_add(count) - 1).min(ty.bits - 1);
    let value = integer(a, Type { kind: Kind::Unsigned, ..ty });
    let field = unsigned((value >> at.min(127)) as u64, count.min(64));
    let have = ty.bits.saturating_sub(at).min(count);
    let negative = ty.kind == Kind::Signed && (value >> sign_at) & 1 != 0;
    let field = if negative && have < 64 { field | (u64::MAX << have) } else { field };
    unsigned(field, ty.bits)
}

fn permute(a: u64, b: u64, selector: u64) -> u64 {
    let bytes = (unsigned(a, 32) | unsigned(b, 32) << 32).to_le_bytes();
    let mut result = [0; 8];
    for (at, to) in result.iter_mut().take(4).enumerate() {
        let pick = (selector >> (at * 4)) as usize;
        let byte = bytes[pick & 7];
        *to = if pick & 8 != 0 { if byte & 0x80 != 0 { 0xff } else { 0 } } else { byte };
    }
    u64::from_le_bytes(result)
}

/// Returns the result of a comparison.
pub(super) fn compare(compare: Compare, unordered: bool, ty: Type, a: u64, b: u64) -> bool {
    let order = match (ty.kind, ty.bits) {
        (Kind::Float, 32) => float32(a).partial_cmp(&float32(b)),
        (Kind::Float, _) => f64::from_bits(a).partial_cmp(&f64::from_bits(b)),
        _ => Some(integer(a, ty).cmp(&integer(b, ty))),
    };
    let Some(order) = order else { return unordered || compare == Compare::NaN };
    match compare {
        Compare::Equal => order.is_eq(),
        Compare::NotEqual => order.is_ne(),
        Compare::Less => order.is_lt(),
        Compare::LessEqual => order.is_le(),
        Compare::Greater => order.is_gt(),
        Compare::GreaterEqual => order.is_ge(),
        Compare::Number => true,
        Compare::NaN => false,
    }
}
