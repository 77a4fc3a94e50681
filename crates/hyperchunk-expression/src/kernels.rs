//! Single steps on a block of elements: loops that the compiler vectorises.

use super::lanes::{Lane, view, view_mut};
use super::plan::{Basic, Step};
use super::tree::{Float, Rounding};
use super::{Kind, casts, wide};
use crate::error::{Error, ErrorKind, Result, fail};
use std::mem::MaybeUninit;

/// Memory that a step writes.
pub(crate) type OutputBytes = [MaybeUninit<u8>];

/// Applies `step` to values of kind `from`, with a result of kind `to`. The arguments that the step does not
/// have are empty. The steps called *mixed* compare a signed integer with an unsigned one.
///
/// # Errors
/// `Failed` when there is no result: NaN converted to an integer, or an integer raised to a negative power.
/// `Internal` when the memory has the wrong size, or the step does not exist for these kinds.
pub(crate) fn compute(
    step: Step,
    from: Kind,
    to: Kind,
    arguments: [&[u8]; 3],
    out: &mut OutputBytes,
) -> Result<()> {
    let [a, b, c] = arguments;
    match (step, from) {
        (Step::Cast, _) => casts::cast(from, to, a, out),
        (Step::Narrow, _) => map1(a, out, casts::round_to_odd),
        (Step::Where, _) => match from.size() {
            1 => choose::<u8>(a, b, c, out),
            2 => choose::<u16>(a, b, c, out),
            4 => choose::<u32>(a, b, c, out),
            _ => choose::<u64>(a, b, c, out),
        },
        (Step::LessMixed, _) => map2(a, b, out, |a: i64, b: u64| u8::from(a < 0 || a.cast_unsigned() < b)),
        (Step::LessEqualMixed, _) => {
            map2(a, b, out, |a: i64, b: u64| u8::from(a < 0 || a.cast_unsigned() <= b))
        }
        (Step::GreaterMixed, _) => {
            map2(a, b, out, |a: i64, b: u64| u8::from(a >= 0 && a.cast_unsigned() > b))
        }
        (Step::GreaterEqualMixed, _) => {
            map2(a, b, out, |a: i64, b: u64| u8::from(a >= 0 && a.cast_unsigned() >= b))
        }
        (Step::EqualMixed, _) => map2(a, b, out, |a: i64, b: u64| u8::from(a >= 0 && a.cast_unsigned() == b)),
        (_, Kind::Bool) => truth(step, a, b, out),
        (_, Kind::Int8) => whole::<i8>(step, a, b, out),
        (_, Kind::Int16) => whole::<i16>(step, a, b, out),
        (_, Kind::Int32) => whole::<i32>(step, a, b, out),
        (_, Kind::Int64) => whole::<i64>(step, a, b, out),
        (_, Kind::UInt8) => whole::<u8>(step, a, b, out),
        (_, Kind::UInt16) => whole::<u16>(step, a, b, out),
        (_, Kind::UInt32) => whole::<u32>(step, a, b, out),
        (_, Kind::UInt64) => whole::<u64>(step, a, b, out),
        (_, Kind::Float32) => real::<f32>(step, a, b, out),
        (_, Kind::Float64) => real::<f64>(step, a, b, out),
    }
}

fn wrong_size() -> Error {
    Error::new(ErrorKind::Internal, "the memory of a block of an expression does not fit its elements")
}

fn unsupported_step<T>(step: Step) -> Result<T> {
    fail!(Internal, "{step:?} does not support these types")
}

pub(crate) fn map1<T: Lane, R: Lane>(a: &[u8], out: &mut OutputBytes, f: impl Fn(T) -> R) -> Result<()> {
    let (Some(a), Some(out)) = (view::<T>(a), view_mut::<R>(out)) else { return Err(wrong_size()) };
    if a.len() != out.len() {
        return Err(wrong_size());
    }
    wide::each(out.iter_mut().zip(a), |(out, &a)| {
        out.write(f(a));
    });
    Ok(())
}

pub(crate) fn map2<T: Lane, U: Lane, R: Lane>(
    a: &[u8],
    b: &[u8],
    out: &mut OutputBytes,
    f: impl Fn(T, U) -> R,
) -> Result<()> {
    let (Some(a), Some(b), Some(out)) = (view::<T>(a), view::<U>(b), view_mut::<R>(out)) else {
        return Err(wrong_size());
    };
    if a.len() != out.len() || b.len() != out.len() {
        return Err(wrong_size());
    }
    wide::each(out.iter_mut().zip(a).zip(b), |((out, &a), &b)| {
        out.write(f(a, b));
    });
    Ok(())
}

/// Unsigned integers, for a branch-free selection.
trait Bits: Lane {
    fn pick(condition: u8, a: Self, b: Self) -> Self;
}

macro_rules! bits {
    ($($t:ty)*) => {$(
        impl Bits for $t {
            fn pick(condition: u8, a: Self, b: Self) -> Self {
                let mask = <$t>::from(condition).wrapping_neg();
                (a & mask) | (b & !mask)
            }
        }
    )*};
}
bits!(u8 u16 u32 u64);

/// Selects elements by conditions, which are bools: 0 or 1.
fn choose<T: Bits>(condition: &[u8], a: &[u8], b: &[u8], out: &mut OutputBytes) -> Result<()> {
    let (Some(a), Some(b), Some(out)) = (view::<T>(a), view::<T>(b), view_mut::<T>(out)) else {
        return Err(wrong_size());
    };
    if condition.len() != out.len() || a.len() != out.len() || b.len() != out.len() {
        return Err(wrong_size());
    }
    wide::each(out.iter_mut().zip(condition).zip(a).zip(b), |(((out, &c), &a), &b)| {
        out.write(T::pick(c, a, b));
    });
    Ok(())
}

/// Applies a step to bools, which are bytes of 0 or 1.
fn truth(step: Step, a: &[u8], b: &[u8], out: &mut OutputBytes) -> Result<()> {
    match step {
        Step::Invert => map1(a, out, |a: u8| a ^ 1),
        Step::BitAnd => map2(a, b, out, |a: u8, b: u8| a & b),
        Step::BitOr => map2(a, b, out, |a: u8, b: u8| a | b),
        Step::BitXor | Step::NotEqual => map2(a, b, out, |a: u8, b: u8| a ^ b),
        Step::Equal => map2(a, b, out, |a: u8, b: u8| a ^ b ^ 1),
        Step::Less => map2(a, b, out, |a: u8, b: u8| u8::from(a < b)),
        Step::LessEqual => map2(a, b, out, |a: u8, b: u8| u8::from(a <= b)),
        _ => unsupported_step(step),
    }
}

/// Integers with NumPy's semantics: overflow wraps around, and a division by 0 is 0.
trait IntegerLane: Lane + Ord {
    const ZERO: Self;
    fn negative(self) -> Self;
    fn absolute(self) -> Self;
    fn sign(self) -> Self;
    fn invert(self) -> Self;
    fn add(self, b: Self) -> Self;
    fn subtract(self, b: Self) -> Self;
    fn multiply(self, b: Self) -> Self;
    fn floor_divide(self, b: Self) -> Self;
    fn remainder(self, b: Self) -> Self;
    fn power(self, b: Self) -> Self;
    fn and(self, b: Self) -> Self;
    fn or(self, b: Self) -> Self;
    fn xor(self, b: Self) -> Self;
    fn shift_left(self, b: Self) -> Self;
    fn shift_right(self, b: Self) -> Self;
}

macro_rules! whole_numbers {
    ($($t:ty)*) => {$(
        #[allow(unused_comparisons, reason = "the same text for types without a sign")]
        #[allow(clippy::absurd_extreme_comparisons, reason = "the same text for types without a sign")]
        #[allow(clippy::cast_possible_truncation, reason = "a shift is compared with the bits before")]
        impl IntegerLane for $t {
            const ZERO: Self = 0;
            fn negative(self) -> Self {
                self.wrapping_neg()
            }
            fn absolute(self) -> Self {
                if self < 0 { self.wrapping_neg() } else { self }
            }
            fn sign(self) -> Self {
                <$t>::from(self > 0).wrapping_sub(<$t>::from(self < 0))
            }
            fn invert(self) -> Self {
                !self
            }
            fn add(self, b: Self) -> Self {
                self.wrapping_add(b)
            }
            fn subtract(self, b: Self) -> Self {
                self.wrapping_sub(b)
            }
            fn multiply(self, b: Self) -> Self {
                self.wrapping_mul(b)
            }
            fn floor_divide(self, b: Self) -> Self {
                if b == 0 {
                    return 0;
                }
                let down = self.wrapping_rem(b) != 0 && (self < 0) != (b < 0);
                self.wrapping_div(b).wrapping_sub(<$t>::from(down))
            }
            fn remainder(self, b: Self) -> Self {
                if b == 0 {
                    return 0;
                }
                let rest = self.wrapping_rem(b);
                if rest != 0 && (rest < 0) != (b < 0) { rest.wrapping_add(b) } else { rest }
            }
            fn power(self, b: Self) -> Self {
                let (mut result, mut base, mut left): (Self, Self, u64) = (1, self, b as u64);
                while left > 0 {
                    if left & 1 == 1 {
                        result = result.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    left >>= 1;
                }
                result
            }
            fn and(self, b: Self) -> Self {
                self & b
            }
            fn or(self, b: Self) -> Self {
                self | b
            }
            fn xor(self, b: Self) -> Self {
                self ^ b
            }
            fn shift_left(self, b: Self) -> Self {
                if (b as u64) < u64::from(<$t>::BITS) { self.wrapping_shl(b as u32) } else { 0 }
            }
            fn shift_right(self, b: Self) -> Self {
                // Past the last bit only the sign remains.
                let bits = (b as u64).min(u64::from(<$t>::BITS) - 1) as u32;
                if (b as u64) < u64::from(<$t>::BITS) || self < 0 { self.wrapping_shr(bits) } else { 0 }
            }
        }
    )*};
}
whole_numbers!(i8 i16 i32 i64 u8 u16 u32 u64);

fn whole<T: IntegerLane>(step: Step, a: &[u8], b: &[u8], out: &mut OutputBytes) -> Result<()> {
    match step {
        Step::Negative => map1(a, out, T::negative),
        Step::Absolute => map1(a, out, T::absolute),
        Step::Sign => map1(a, out, T::sign),
        Step::Invert => map1(a, out, T::invert),
        Step::Add => map2(a, b, out, T::add),
        Step::Subtract => map2(a, b, out, T::subtract),
        Step::Multiply => map2(a, b, out, T::multiply),
        Step::FloorDivide => map2(a, b, out, T::floor_divide),
        Step::Remainder => map2(a, b, out, T::remainder),
        Step::Power => {
            if view::<T>(b).is_none_or(|b| b.iter().any(|&b| b < T::ZERO)) {
                fail!(Failed, "an integer is raised to a negative power; convert it with float64(x)")
            }
            map2(a, b, out, T::power)
        }
        Step::Minimum => map2(a, b, out, T::min),
        Step::Maximum => map2(a, b, out, T::max),
        Step::BitAnd => map2(a, b, out, T::and),
        Step::BitOr => map2(a, b, out, T::or),
        Step::BitXor => map2(a, b, out, T::xor),
        Step::ShiftLeft => map2(a, b, out, T::shift_left),
        Step::ShiftRight => map2(a, b, out, T::shift_right),
        Step::Less => map2(a, b, out, |a: T, b: T| u8::from(a < b)),
        Step::LessEqual => map2(a, b, out, |a: T, b: T| u8::from(a <= b)),
        Step::Equal => map2(a, b, out, |a: T, b: T| u8::from(a == b)),
        Step::NotEqual => map2(a, b, out, |a: T, b: T| u8::from(a != b)),
        _ => unsupported_step(step),
    }
}

/// Floats with NumPy's semantics.
pub(crate) trait FloatLane: Lane + PartialOrd {
    fn negative(self) -> Self;
    fn absolute(self) -> Self;
    fn sign(self) -> Self;
    fn is_nan(self) -> bool;
    fn is_inf(self) -> bool;
    fn is_finite(self) -> bool;
    fn add(self, b: Self) -> Self;
    fn subtract(self, b: Self) -> Self;
    fn multiply(self, b: Self) -> Self;
    fn divide(self, b: Self) -> Self;
    /// Returns the quotient rounded towards minus infinity.
    fn floor_divide(self, b: Self) -> Self;
    /// Returns the remainder, with the sign of the divisor.
    fn remainder(self, b: Self) -> Self;
    fn power(self, b: Self) -> Self;
    fn atan2(self, b: Self) -> Self;
    fn hypot(self, b: Self) -> Self;
    /// Returns the smaller value, or NaN if either is NaN.
    fn minimum(self, b: Self) -> Self;
    /// Returns the larger value, or NaN if either is NaN.
    fn maximum(self, b: Self) -> Self;
    fn round(how: Rounding, a: &[u8], out: &mut OutputBytes) -> Result<()>;
    fn function(function: Float, a: &[u8], out: &mut OutputBytes) -> Result<()>;
}

macro_rules! real_numbers {
    ($($t:ident)*) => {$(
        impl FloatLane for $t {
            fn negative(self) -> Self {
                -self
            }
            fn absolute(self) -> Self {
                self.abs()
            }
            fn sign(self) -> Self {
                if self > 0.0 { 1.0 } else if self < 0.0 { -1.0 } else if self == 0.0 { 0.0 } else { self }
            }
            fn is_nan(self) -> bool {
                $t::is_nan(self)
            }
            fn is_inf(self) -> bool {
                $t::is_infinite(self)
            }
            fn is_finite(self) -> bool {
                $t::is_finite(self)
            }
            fn add(self, b: Self) -> Self {
                self + b
            }
            fn subtract(self, b: Self) -> Self {
                self - b
            }
            fn multiply(self, b: Self) -> Self {
                self * b
            }
            fn divide(self, b: Self) -> Self {
                self / b
            }
            fn floor_divide(self, b: Self) -> Self {
                if b == 0.0 {
                    return self / b;
                }
                let rest = self % b;
                let mut quotient = (self - rest) / b;
                if rest != 0.0 && (b < 0.0) != (rest < 0.0) {
                    quotient -= 1.0;
                }
                if quotient == 0.0 {
                    return (0.0 as $t).copysign(self / b);
                }
                let down = quotient.floor();
                if quotient - down > 0.5 { down + 1.0 } else { down }
            }
            fn remainder(self, b: Self) -> Self {
                let rest = self % b;
                if b == 0.0 {
                    return rest;
                }
                if rest == 0.0 {
                    return (0.0 as $t).copysign(b);
                }
                if (b < 0.0) != (rest < 0.0) { rest + b } else { rest }
            }
            fn power(self, b: Self) -> Self {
                self.powf(b)
            }
            fn atan2(self, b: Self) -> Self {
                $t::atan2(self, b)
            }
            fn hypot(self, b: Self) -> Self {
                $t::hypot(self, b)
            }
            fn minimum(self, b: Self) -> Self {
                if self < b || $t::is_nan(self) { self } else { b }
            }
            fn maximum(self, b: Self) -> Self {
                if self > b || $t::is_nan(self) { self } else { b }
            }
            fn round(how: Rounding, a: &[u8], out: &mut OutputBytes) -> Result<()> {
                match how {
                    Rounding::Floor => map1(a, out, $t::floor),
                    Rounding::Ceil => map1(a, out, $t::ceil),
                    Rounding::Truncate => map1(a, out, $t::trunc),
                    Rounding::Nearest => map1(a, out, $t::round_ties_even),
                }
            }
            fn function(function: Float, a: &[u8], out: &mut OutputBytes) -> Result<()> {
                match function {
                    Float::Sqrt => map1(a, out, $t::sqrt),
                    Float::Exp => map1(a, out, $t::exp),
                    Float::Expm1 => map1(a, out, $t::exp_m1),
                    Float::Log => map1(a, out, $t::ln),
                    Float::Log1p => map1(a, out, $t::ln_1p),
                    Float::Log2 => map1(a, out, $t::log2),
                    Float::Log10 => map1(a, out, $t::log10),
                    Float::Sin => map1(a, out, $t::sin),
                    Float::Cos => map1(a, out, $t::cos),
                    Float::Tan => map1(a, out, $t::tan),
                    Float::Asin => map1(a, out, $t::asin),
                    Float::Acos => map1(a, out, $t::acos),
                    Float::Atan => map1(a, out, $t::atan),
                    Float::Sinh => map1(a, out, $t::sinh),
                    Float::Cosh => map1(a, out, $t::cosh),
                    Float::Tanh => map1(a, out, $t::tanh),
                }
            }
        }
    )*};
}
real_numbers!(f32 f64);

fn real<T: FloatLane>(step: Step, a: &[u8], b: &[u8], out: &mut OutputBytes) -> Result<()> {
    match step {
        Step::Negative => map1(a, out, T::negative),
        Step::Absolute => map1(a, out, T::absolute),
        Step::Sign => map1(a, out, T::sign),
        Step::Rounding(how) => T::round(how, a, out),
        Step::Float(function) => T::function(function, a, out),
        Step::IsNan => map1(a, out, |a: T| u8::from(a.is_nan())),
        Step::IsInf => map1(a, out, |a: T| u8::from(a.is_inf())),
        Step::IsFinite => map1(a, out, |a: T| u8::from(a.is_finite())),
        Step::Add => map2(a, b, out, T::add),
        Step::Subtract => map2(a, b, out, T::subtract),
        Step::Multiply => map2(a, b, out, T::multiply),
        Step::Divide => map2(a, b, out, T::divide),
        Step::Ratio(over, under) => ratio::<T>(over, under, a, b, out),
        Step::FloorDivide => map2(a, b, out, T::floor_divide),
        Step::Remainder => map2(a, b, out, T::remainder),
        Step::Power => map2(a, b, out, T::power),
        Step::Atan2 => map2(a, b, out, T::atan2),
        Step::Hypot => map2(a, b, out, T::hypot),
        Step::Minimum => map2(a, b, out, T::minimum),
        Step::Maximum => map2(a, b, out, T::maximum),
        Step::Less => map2(a, b, out, |a: T, b: T| u8::from(a < b)),
        Step::LessEqual => map2(a, b, out, |a: T, b: T| u8::from(a <= b)),
        Step::Equal => map2(a, b, out, |a: T, b: T| u8::from(a == b)),
        Step::NotEqual => map2(a, b, out, |a: T, b: T| u8::from(a != b)),
        _ => unsupported_step(step),
    }
}

/// Computes a ratio in one pass instead of three: while dividing, the processor fetches the next inputs.
fn ratio<T: FloatLane>(over: Basic, under: Basic, a: &[u8], b: &[u8], out: &mut OutputBytes) -> Result<()> {
    macro_rules! of {
        ($over:ident, $under:ident) => {
            map2(a, b, out, |a: T, b: T| T::divide(T::$over(a, b), T::$under(a, b)))
        };
    }
    match (over, under) {
        (Basic::Add, Basic::Add) => of!(add, add),
        (Basic::Add, Basic::Subtract) => of!(add, subtract),
        (Basic::Add, Basic::Multiply) => of!(add, multiply),
        (Basic::Subtract, Basic::Add) => of!(subtract, add),
        (Basic::Subtract, Basic::Subtract) => of!(subtract, subtract),
        (Basic::Subtract, Basic::Multiply) => of!(subtract, multiply),
        (Basic::Multiply, Basic::Add) => of!(multiply, add),
        (Basic::Multiply, Basic::Subtract) => of!(multiply, subtract),
        (Basic::Multiply, Basic::Multiply) => of!(multiply, multiply),
    }
}
