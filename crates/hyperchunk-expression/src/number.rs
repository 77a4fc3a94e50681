//! Constant folding, with Python's semantics.

use super::kernels::FloatLane;
use super::tree::{Float, Number, Op, Rounding};
use crate::error::{Result, fail};

/// Result of folding.
pub(crate) enum FoldedValue {
    Number(Number),
    Truth(bool),
}

/// Computes `op` on numbers alone.
pub(crate) fn fold(op: Op, numbers: &[Number]) -> Result<FoldedValue> {
    let number = match *numbers {
        [a] => return unary(op, a),
        [a, b] => match compare(op, a, b) {
            Some(truth) => return Ok(FoldedValue::Truth(truth)),
            None => binary(op, a, b)?,
        },
        [c, a, b] => {
            if c.real() != 0.0 {
                a
            } else {
                b
            }
        }
        _ => fail!(Syntax, "an operator has no operands"),
    };
    Ok(FoldedValue::Number(number))
}

fn unary(op: Op, a: Number) -> Result<FoldedValue> {
    let x = a.real();
    let result = match (op, a) {
        (Op::Positive, a) => a,
        (Op::Rounding(_), a @ Number::Integer(_)) => a,
        (Op::Negative, Number::Integer(n)) => integer(n.checked_neg())?,
        (Op::Negative, Number::Real(x)) => Number::Real(-x),
        (Op::Absolute, Number::Integer(n)) => integer(n.checked_abs())?,
        (Op::Absolute, Number::Real(x)) => Number::Real(x.abs()),
        (Op::Invert, Number::Integer(n)) => Number::Integer(!n),
        (Op::Invert, Number::Real(_)) => fail!(Syntax, "~ takes integers"),
        (Op::SignOf, Number::Integer(n)) => Number::Integer(n.signum()),
        (Op::SignOf, Number::Real(x)) => Number::Real(sign(x)),
        (Op::Rounding(how), Number::Real(x)) => Number::Real(round(how, x)),
        (Op::Float(function), _) => Number::Real(float(function, x)),
        (Op::Not, _) => return Ok(FoldedValue::Truth(x == 0.0)),
        (Op::IsNan, _) => return Ok(FoldedValue::Truth(x.is_nan())),
        (Op::IsInf, _) => return Ok(FoldedValue::Truth(x.is_infinite())),
        (Op::IsFinite, _) => return Ok(FoldedValue::Truth(x.is_finite())),
        _ => fail!(Syntax, "an operator does not take one number"),
    };
    Ok(FoldedValue::Number(result))
}

fn compare(op: Op, a: Number, b: Number) -> Option<bool> {
    let order = match (a, b) {
        (Number::Integer(a), Number::Integer(b)) => Some(a.cmp(&b)),
        (a, b) => a.real().partial_cmp(&b.real()),
    };
    let truth = |n: Number| n.real() != 0.0;
    Some(match op {
        Op::Less => order.is_some_and(|o| o.is_lt()),
        Op::LessEqual => order.is_some_and(|o| o.is_le()),
        Op::Greater => order.is_some_and(|o| o.is_gt()),
        Op::GreaterEqual => order.is_some_and(|o| o.is_ge()),
        Op::Equal => order.is_some_and(|o| o.is_eq()),
        Op::NotEqual => order.is_none_or(|o| o.is_ne()),
        Op::And => truth(a) && truth(b),
        Op::Or => truth(a) || truth(b),
        _ => return None,
    })
}

fn binary(op: Op, a: Number, b: Number) -> Result<Number> {
    let (x, y) = (a.real(), b.real());
    if y == 0.0 && matches!(op, Op::Divide | Op::FloorDivide | Op::Remainder) {
        fail!(Syntax, "a number is divided by 0; write nan or inf if that is meant")
    }
    if let (Number::Integer(m), Number::Integer(n)) = (a, b)
        && let Some(result) = integers(op, m, n)
    {
        return integer(result);
    }
    let value = match op {
        Op::Add => x + y,
        Op::Subtract => x - y,
        Op::Multiply => x * y,
        Op::Divide => x / y,
        Op::FloorDivide => floor_divide(x, y),
        Op::Remainder => remainder(x, y),
        Op::Power => x.powf(y),
        Op::Atan2 => x.atan2(y),
        Op::Hypot => x.hypot(y),
        Op::Minimum => return Ok(if x < y || x.is_nan() { a } else { b }),
        Op::Maximum => return Ok(if x > y || x.is_nan() { a } else { b }),
        _ => fail!(Syntax, "& | ^ << and >> take integers; a power is written **"),
    };
    Ok(Number::Real(value))
}

/// Computes `op` on integers: `None` if the result is a real number, `Some(None)` if it is too large.
fn integers(op: Op, m: i128, n: i128) -> Option<Option<i128>> {
    Some(match op {
        Op::Add => m.checked_add(n),
        Op::Subtract => m.checked_sub(n),
        Op::Multiply => m.checked_mul(n),
        Op::FloorDivide => m.checked_div_euclid(n).map(|q| {
            // The quotient towards minus infinity differs from Euclid's if the divisor is negative.
            if n < 0 && m.rem_euclid(n) != 0 { q - 1 } else { q }
        }),
        Op::Remainder => m.checked_rem_euclid(n).map(|r| if n < 0 && r != 0 { r + n } else { r }),
        Op::Power if n >= 0 => u32::try_from(n).ok().and_then(|n| m.checked_pow(n)),
        Op::BitAnd => Some(m & n),
        Op::BitOr => Some(m | n),
        Op::BitXor => Some(m ^ n),
        Op::ShiftLeft => u32::try_from(n).ok().filter(|&n| n < 64).and_then(|n| m.checked_mul(1 << n)),
        Op::ShiftRight => u32::try_from(n).ok().map(|n| m >> n.min(127)),
        _ => return None,
    })
}

fn integer(value: Option<i128>) -> Result<Number> {
    match value {
        Some(n) if n.unsigned_abs() <= u128::from(u64::MAX) => Ok(Number::Integer(n)),
        _ => fail!(
            Syntax,
            "an integer here is too large; write one of the operands as a decimal number, such as 1e30"
        ),
    }
}

fn sign(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else if x == 0.0 {
        0.0
    } else {
        f64::NAN
    }
}

fn round(how: Rounding, x: f64) -> f64 {
    match how {
        Rounding::Floor => x.floor(),
        Rounding::Ceil => x.ceil(),
        Rounding::Truncate => x.trunc(),
        Rounding::Nearest => x.round_ties_even(),
    }
}

fn float(function: Float, x: f64) -> f64 {
    match function {
        Float::Sqrt => x.sqrt(),
        Float::Exp => x.exp(),
        Float::Expm1 => x.exp_m1(),
        Float::Log => x.ln(),
        Float::Log1p => x.ln_1p(),
        Float::Log2 => x.log2(),
        Float::Log10 => x.log10(),
        Float::Sin => x.sin(),
        Float::Cos => x.cos(),
        Float::Tan => x.tan(),
        Float::Asin => x.asin(),
        Float::Acos => x.acos(),
        Float::Atan => x.atan(),
        Float::Sinh => x.sinh(),
        Float::Cosh => x.cosh(),
        Float::Tanh => x.tanh(),
    }
}

fn floor_divide(a: f64, b: f64) -> f64 {
    FloatLane::floor_divide(a, b)
}

fn remainder(a: f64, b: f64) -> f64 {
    FloatLane::remainder(a, b)
}
