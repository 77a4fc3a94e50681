//! Numbers in the host part of a source, with C++'s semantics; undefined behaviour is an error.

use super::types::Number;
use crate::error::{Result, fail};

/// Number with its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Value {
    pub(super) number: Number,
    repr: ValueRepr,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ValueRepr {
    Integer(i128),
    Float(f64),
}

/// Binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Multiply,
    Divide,
    Remainder,
    Add,
    Subtract,
    Left,
    Right,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    And,
    Xor,
    Or,
}

impl Binary {
    fn is_comparison(self) -> bool {
        use Binary::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        matches!(self, Less | LessEqual | Greater | GreaterEqual | Equal | NotEqual)
    }

    fn is_shift(self) -> bool {
        matches!(self, Binary::Left | Binary::Right)
    }

    fn needs_integers(self) -> bool {
        self.is_shift() || matches!(self, Binary::Remainder | Binary::And | Binary::Xor | Binary::Or)
    }

    /// Returns the type of the result.
    pub(super) fn number(self, a: Number, b: Number, line: u32) -> Result<Number> {
        if self.needs_integers() && (a.is_float() || b.is_float()) {
            fail!(Syntax, "line {line}: this operator needs integers")
        }
        Ok(if self.is_comparison() {
            Number::Bool
        } else if self.is_shift() {
            a.promoted()
        } else {
            a.common(b)
        })
    }
}

/// Function of the mathematical library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    Ceil,
    Floor,
    Round,
    Trunc,
    Sqrt,
}

impl Value {
    pub(super) fn integer(number: Number, value: i128) -> Self {
        Value { number, repr: ValueRepr::Integer(value) }
    }

    pub(super) fn float(number: Number, value: f64) -> Self {
        Value { number, repr: ValueRepr::Float(value) }
    }

    pub(super) fn truth(value: bool) -> Self {
        Value::integer(Number::Bool, i128::from(value))
    }

    pub(super) fn is_true(self) -> bool {
        match self.repr {
            ValueRepr::Integer(value) => value != 0,
            ValueRepr::Float(value) => value != 0.0,
        }
    }

    /// Converts the number to another type.
    pub(super) fn to(self, number: Number, line: u32) -> Result<Value> {
        if number == Number::Bool {
            return Ok(Value::truth(self.is_true()));
        }
        let repr = match (self.repr, number.is_float()) {
            (ValueRepr::Integer(value), false) => ValueRepr::Integer(wrap_integer(value, number)),
            #[expect(clippy::cast_precision_loss, reason = "the nearest, as in C++")]
            (ValueRepr::Integer(value), true) => ValueRepr::Float(match number {
                Number::Float => f64::from(value as f32),
                _ => value as f64,
            }),
            #[expect(clippy::cast_possible_truncation, reason = "the nearest, as in C++")]
            (ValueRepr::Float(value), true) => ValueRepr::Float(match number {
                Number::Float => f64::from(value as f32),
                _ => value,
            }),
            (ValueRepr::Float(value), false) => {
                let whole = value.trunc();
                let (low, high) = range(number);
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "bounds that are powers of two, or next to one"
                )]
                let inside = whole >= low as f64 && whole < high as f64 + 1.0;
                if !inside {
                    fail!(Syntax, "line {line}: {value} does not fit {}", number.spelling())
                }
                #[expect(clippy::cast_possible_truncation, reason = "inside the range")]
                let whole = whole as i128;
                ValueRepr::Integer(whole)
            }
        };
        Ok(Value { number, repr })
    }

    pub(super) fn binary(self, operator: Binary, other: Value, line: u32) -> Result<Value> {
        let number = operator.number(self.number, other.number, line)?;
        let common = if operator.is_shift() { number } else { self.number.common(other.number) };
        let a = self.to(common, line)?;
        let b = if operator.is_shift() { other } else { other.to(common, line)? };
        match (a.repr, b.repr) {
            (ValueRepr::Integer(a), ValueRepr::Integer(b)) => integers(operator, a, b, number, line),
            (ValueRepr::Float(a), ValueRepr::Float(b)) => floats(operator, a, b, common, line),
            _ => fail!(Syntax, "line {line}: this operator needs integers"),
        }
    }

    pub(super) fn negative(self, line: u32) -> Result<Value> {
        match self.repr {
            ValueRepr::Integer(value) => wrap_result(-value, self.number.promoted(), line),
            ValueRepr::Float(value) => Ok(Value::float(self.number, -value)),
        }
    }

    pub(super) fn inverted(self, line: u32) -> Result<Value> {
        match self.repr {
            ValueRepr::Integer(value) => {
                Ok(Value::integer(self.number.promoted(), wrap_integer(!value, self.number.promoted())))
            }
            ValueRepr::Float(_) => fail!(Syntax, "line {line}: ~ needs an integer"),
        }
    }

    pub(super) fn rounded(self, rounding: Rounding) -> Value {
        let number = if self.number == Number::Float { Number::Float } else { Number::Double };
        let value = match self.repr {
            #[expect(clippy::cast_precision_loss, reason = "the nearest, as in C++")]
            ValueRepr::Integer(value) => value as f64,
            ValueRepr::Float(value) => value,
        };
        let value = match rounding {
            Rounding::Ceil => value.ceil(),
            Rounding::Floor => value.floor(),
            Rounding::Round => value.round(),
            Rounding::Trunc => value.trunc(),
            #[expect(clippy::cast_possible_truncation, reason = "in the argument's type")]
            Rounding::Sqrt if number == Number::Float => f64::from((value as f32).sqrt()),
            Rounding::Sqrt => value.sqrt(),
        };
        Value::float(number, value)
    }

    /// Returns a size or an index; `None` if it is negative, too large or not an integer.
    pub(super) fn whole(self) -> Option<u64> {
        match self.repr {
            ValueRepr::Integer(value) => u64::try_from(value).ok(),
            ValueRepr::Float(_) => None,
        }
    }

    /// Returns the bytes of the value in memory.
    pub(super) fn bytes(self) -> Vec<u8> {
        let size = self.number.size();
        match self.repr {
            ValueRepr::Integer(value) => value.to_le_bytes().into_iter().take(size).collect(),
            #[expect(clippy::cast_possible_truncation, reason = "it is one of that type")]
            ValueRepr::Float(value) if self.number == Number::Float => (value as f32).to_le_bytes().to_vec(),
            ValueRepr::Float(value) => value.to_le_bytes().to_vec(),
        }
    }
}

fn range(number: Number) -> (i128, i128) {
    let bits = number.size() * 8;
    match number.is_signed() {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    }
}

/// Converts an integer to a type, modulo its range.
fn wrap_integer(value: i128, number: Number) -> i128 {
    let (low, high) = range(number);
    let count = high - low + 1;
    (value - low).rem_euclid(count) + low
}

/// Returns the result of an operation: unsigned numbers wrap around.
fn wrap_result(value: i128, number: Number, line: u32) -> Result<Value> {
    let fitting = wrap_integer(value, number);
    if number.is_signed() && fitting != value {
        fail!(Syntax, "line {line}: {value} is too large for {}", number.spelling())
    }
    Ok(Value::integer(number, fitting))
}

fn integers(operator: Binary, a: i128, b: i128, number: Number, line: u32) -> Result<Value> {
    let bits = i128::try_from(number.size() * 8).unwrap_or(0);
    let value = match operator {
        // Products of unsigned numbers may overflow; the lost bits would be cut off anyway.
        Binary::Multiply => a.wrapping_mul(b),
        Binary::Divide | Binary::Remainder if b == 0 => fail!(Syntax, "line {line}: division by zero"),
        Binary::Divide => a / b,
        Binary::Remainder => a % b,
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Left | Binary::Right if !(0..bits).contains(&b) => {
            fail!(Syntax, "line {line}: undefined shift by {b} bits")
        }
        Binary::Left => a << b,
        Binary::Right => a >> b,
        Binary::And => a & b,
        Binary::Xor => a ^ b,
        Binary::Or => a | b,
        Binary::Less => return Ok(Value::truth(a < b)),
        Binary::LessEqual => return Ok(Value::truth(a <= b)),
        Binary::Greater => return Ok(Value::truth(a > b)),
        Binary::GreaterEqual => return Ok(Value::truth(a >= b)),
        Binary::Equal => return Ok(Value::truth(a == b)),
        Binary::NotEqual => return Ok(Value::truth(a != b)),
    };
    wrap_result(value, number, line)
}

#[expect(clippy::float_cmp, reason = "that is what the source asks")]
fn floats(operator: Binary, a: f64, b: f64, number: Number, line: u32) -> Result<Value> {
    let value = match operator {
        Binary::Multiply => a * b,
        Binary::Divide => a / b,
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Less => return Ok(Value::truth(a < b)),
        Binary::LessEqual => return Ok(Value::truth(a <= b)),
        Binary::Greater => return Ok(Value::truth(a > b)),
        Binary::GreaterEqual => return Ok(Value::truth(a >= b)),
        Binary::Equal => return Ok(Value::truth(a == b)),
        Binary::NotEqual => return Ok(Value::truth(a != b)),
        _ => fail!(Syntax, "line {line}: this operator needs integers"),
    };
    // One operation on two floats gives the same result in double, rounded once more.
    Value::float(Number::Double, value).to(number, line)
}
