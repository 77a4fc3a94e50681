//! Conversion of a comparison with any number to an equivalent comparison with a number of the column's type.

use super::{Comparison, Literal, Nan};
use arrow_array::ArrowPrimitiveType;
use arrow_array::types::Float16Type;
use arrow_schema::DataType;
use std::cmp::Ordering;

/// A comparison of a value with a bound that is a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// Greater, or not a number.
    NotLessOrEqual,
    /// Greater, equal, or not a number.
    NotLess,
}

/// The test of a column's values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Test {
    /// True for all values, or for none.
    Always(bool),
    I8(Op, i8),
    I16(Op, i16),
    I32(Op, i32),
    I64(Op, i64),
    U8(Op, u8),
    U16(Op, u16),
    U32(Op, u32),
    U64(Op, u64),
    F16(Op, Half),
    F32(Op, f32),
    F64(Op, f64),
}

/// A 16-bit floating-point number, from the crate that arrow uses.
pub(super) type Half = <Float16Type as ArrowPrimitiveType>::Native;

impl Test {
    /// Makes the test for a comparison with values of a type; `None` if they are not numbers, or cannot be
    /// compared in this way.
    pub(super) fn new(of: &DataType, comparison: Comparison, literal: &Literal, nan: Nan) -> Option<Self> {
        Some(match of {
            DataType::Int8 => integer(comparison, literal, Self::I8)?,
            DataType::Int16 => integer(comparison, literal, Self::I16)?,
            DataType::Int32 | DataType::Date32 | DataType::Time32(_) => {
                integer(comparison, literal, Self::I32)?
            }
            DataType::Int64
            | DataType::Date64
            | DataType::Time64(_)
            | DataType::Timestamp(_, _)
            | DataType::Duration(_) => integer(comparison, literal, Self::I64)?,
            DataType::UInt8 => integer(comparison, literal, Self::U8)?,
            DataType::UInt16 => integer(comparison, literal, Self::U16)?,
            DataType::UInt32 => integer(comparison, literal, Self::U32)?,
            DataType::UInt64 => integer(comparison, literal, Self::U64)?,
            DataType::Float16 => float(comparison, literal, nan, Half::from_f64, Half::to_f64, Self::F16)?,
            #[expect(clippy::cast_possible_truncation, reason = "to the nearest; what differs is seen")]
            DataType::Float32 => float(comparison, literal, nan, |real| real as f32, f64::from, Self::F32)?,
            DataType::Float64 => float(comparison, literal, nan, |real| real, |real| real, Self::F64)?,
            _ => return None,
        })
    }
}

impl From<Comparison> for Op {
    fn from(comparison: Comparison) -> Self {
        match comparison {
            Comparison::Equal => Self::Equal,
            Comparison::NotEqual => Self::NotEqual,
            Comparison::Less => Self::Less,
            Comparison::LessOrEqual => Self::LessOrEqual,
            Comparison::Greater => Self::Greater,
            Comparison::GreaterOrEqual => Self::GreaterOrEqual,
        }
    }
}

/// Makes a test of integers. The result is constant if the bound is outside of their type's range.
fn integer<T: TryFrom<i128>>(
    comparison: Comparison,
    literal: &Literal,
    test: fn(Op, T) -> Test,
) -> Option<Test> {
    let (comparison, number) = match literal {
        Literal::Whole(whole) => (comparison, *whole),
        // `arrow.bool8` stores booleans as integers.
        Literal::Truth(truth) => (comparison, i128::from(*truth)),
        Literal::Real(real) => match integer_comparison(comparison, *real) {
            Ok(found) => found,
            Err(always) => return Some(Test::Always(always)),
        },
        Literal::Text(_) => return None,
    };
    Some(match T::try_from(number) {
        Ok(bound) => test(comparison.into(), bound),
        // Beyond all values of the type, so all compare the same.
        Err(_) => {
            let order = if number < 0 { Ordering::Greater } else { Ordering::Less };
            Test::Always(comparison.holds(Some(order)))
        }
    })
}

/// Converts a comparison of integers with a real number to a comparison with an integer, or to a constant
/// result.
#[expect(clippy::cast_possible_truncation, reason = "whole, and within what the type has")]
#[expect(clippy::float_cmp, reason = "whether there is a fraction")]
fn integer_comparison(comparison: Comparison, real: f64) -> Result<(Comparison, i128), bool> {
    if real.is_nan() {
        return Err(comparison.holds(None));
    }
    // All integer columns compare the same with numbers beyond 1e30.
    let clamped = real.clamp(-1e30, 1e30);
    let floor = clamped.floor();
    match comparison {
        _ if floor == clamped => Ok((comparison, floor as i128)),
        Comparison::Equal => Err(false),
        Comparison::NotEqual => Err(true),
        Comparison::Less | Comparison::LessOrEqual => Ok((Comparison::LessOrEqual, floor as i128)),
        Comparison::Greater | Comparison::GreaterOrEqual => Ok((Comparison::Greater, floor as i128)),
    }
}

/// Makes a test of floating-point numbers. The bound is rounded to their type; all other values of the type
/// are on the same side of both numbers.
fn float<T: Copy>(
    comparison: Comparison,
    literal: &Literal,
    nan: Nan,
    nearest: fn(f64) -> T,
    widen: fn(T) -> f64,
    test: fn(Op, T) -> Test,
) -> Option<Test> {
    let (bound, order) = match literal {
        Literal::Real(real) if real.is_nan() => return None,
        Literal::Real(real) => {
            let bound = nearest(*real);
            (bound, widen(bound).partial_cmp(real)?)
        }
        Literal::Whole(whole) => {
            #[expect(clippy::cast_precision_loss, reason = "to the nearest; what differs is seen")]
            let bound = nearest(*whole as f64);
            (bound, compare_real_to_integer(widen(bound), *whole))
        }
        Literal::Text(_) | Literal::Truth(_) => return None,
    };
    let comparison = match (comparison, order) {
        (_, Ordering::Equal) => comparison,
        (Comparison::Equal, _) => return Some(Test::Always(false)),
        // Also true for NaN.
        (Comparison::NotEqual, _) => return Some(Test::Always(true)),
        (Comparison::Less | Comparison::LessOrEqual, Ordering::Less) => Comparison::LessOrEqual,
        (Comparison::Less | Comparison::LessOrEqual, Ordering::Greater) => Comparison::Less,
        (Comparison::Greater | Comparison::GreaterOrEqual, Ordering::Less) => Comparison::Greater,
        (Comparison::Greater | Comparison::GreaterOrEqual, Ordering::Greater) => Comparison::GreaterOrEqual,
    };
    let op = match (comparison, nan) {
        (Comparison::Greater, Nan::Largest) => Op::NotLessOrEqual,
        (Comparison::GreaterOrEqual, Nan::Largest) => Op::NotLess,
        _ => comparison.into(),
    };
    Some(test(op, bound))
}

/// Compares a floating-point number, which is not NaN, exactly with an integer.
#[expect(clippy::cast_possible_truncation, reason = "within what the type has")]
#[expect(clippy::float_cmp, reason = "whether there is a fraction")]
pub(crate) fn compare_real_to_integer(real: f64, whole: i128) -> Ordering {
    /// 2^127.
    const TWO_POW_127: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;
    if real >= TWO_POW_127 {
        return Ordering::Greater;
    }
    if real < -TWO_POW_127 {
        return Ordering::Less;
    }
    let floor = real.floor();
    match (floor as i128).cmp(&whole) {
        Ordering::Equal if floor != real => Ordering::Greater,
        order => order,
    }
}
