//! Lowering of the syntax tree to steps, with types by NumPy's rules.
//!
//! Literals have no type: they take the type of the other operand, as in NumPy 2. Two things differ from
//! NumPy. The result of an operation on literals alone has no type either, including `sqrt(2)`. And functions
//! of small integers give `float64`, like division, not `float16` or `float32`.

use super::Kind;
use super::number::{FoldedValue, fold};
use super::parse::ParsedExpression;
use super::plan::{Id, Origin, Step, Steps};
use super::tree::{Float, Number, Op, Part};
use crate::error::{Result, fail};

/// Number without a type, or a typed value.
#[derive(Clone, Copy, Debug)]
enum Operand {
    Number(Number),
    Value(Id),
}

/// Result of a part.
#[derive(Clone, Copy, Debug)]
enum PartValue {
    /// Result of comparing numbers.
    Truth(bool),
    Operand(Operand),
}

impl From<Operand> for PartValue {
    fn from(operand: Operand) -> Self {
        PartValue::Operand(operand)
    }
}

pub(crate) fn lower(parsed: &ParsedExpression, inputs: &[Kind]) -> Result<Steps> {
    if inputs.len() != parsed.names.len() {
        fail!(
            Syntax,
            "expected a type for each input, got {} types for {} inputs",
            inputs.len(),
            parsed.names.len()
        )
    }
    let mut lower = Lowering { steps: Steps::default() };
    let mut operands: Vec<PartValue> = Vec::with_capacity(parsed.parts.len());
    for part in &parsed.parts {
        let operand = match *part {
            Part::Number(n) => Operand::Number(n).into(),
            Part::Truth(truth) => PartValue::Truth(truth),
            Part::Input(n) => {
                let kind = inputs.get(n).copied().unwrap_or(Kind::Float64);
                Operand::Value(lower.steps.push(Origin::Input(n), kind)).into()
            }
            Part::Call(op, three, count) => {
                let get = |id: usize| operands.get(id).copied().unwrap_or(PartValue::Truth(false));
                let arguments = three.map(get);
                let used = arguments.get(..usize::from(count)).unwrap_or_default();
                lower.call(op, used)?
            }
        };
        operands.push(operand);
    }
    let result = match operands.last() {
        Some(&PartValue::Operand(Operand::Value(id))) => id,
        Some(&PartValue::Operand(Operand::Number(n))) => lower.materialize(n)?,
        Some(&PartValue::Truth(truth)) => lower.bool_constant(truth),
        None => fail!(Syntax, "the expression is empty"),
    };
    lower.steps.finish(result);
    Ok(lower.steps)
}

struct Lowering {
    steps: Steps,
}

impl Lowering {
    fn call(&mut self, op: Op, operands: &[PartValue]) -> Result<PartValue> {
        if let (Op::Invert, [PartValue::Truth(truth)]) = (op, operands) {
            return Ok(PartValue::Truth(!truth));
        }
        let number = |meaning: &PartValue| match *meaning {
            PartValue::Operand(Operand::Number(n)) => Some(n),
            // As in Python, where True is 1.
            PartValue::Truth(truth) => Some(Number::Integer(truth.into())),
            PartValue::Operand(Operand::Value(_)) => None,
        };
        let numbers: Vec<Number> = operands.iter().filter_map(number).collect();
        // A cast gives a type; the branches of `where` get their type even if the condition consists of
        // numbers.
        if numbers.len() == operands.len() && !matches!(op, Op::Cast(_)) {
            return Ok(match fold(op, &numbers)? {
                FoldedValue::Number(n) => Operand::Number(n).into(),
                FoldedValue::Truth(truth) => PartValue::Truth(truth),
            });
        }
        let mut typed = Vec::with_capacity(3);
        for meaning in operands {
            typed.push(match *meaning {
                PartValue::Truth(truth) => Operand::Value(self.bool_constant(truth)),
                PartValue::Operand(operand) => operand,
            });
        }
        let id = match *typed {
            [Operand::Value(a)] => self.unary(op, a)?,
            [Operand::Number(n)] => {
                let kind = if let Op::Cast(kind) = op { kind } else { Kind::Float64 };
                let from = if kind.range().is_some() && matches!(n, Number::Integer(_)) {
                    return Ok(Operand::Value(self.constant(n, kind)?).into());
                } else {
                    self.materialize(Number::Real(n.real()))?
                };
                self.steps.cast(from, kind)
            }
            [a, b] => self.binary(op, a, b)?,
            [c, a, b] => {
                let condition = match c {
                    Operand::Value(id) => id,
                    Operand::Number(n) => self.materialize(n)?,
                };
                let condition = self.steps.cast(condition, Kind::Bool);
                let kind = self.common(a, b)?;
                let (a, b) = (self.as_kind(a, kind)?, self.as_kind(b, kind)?);
                self.steps.step(Step::Where, &[condition, a, b], kind)
            }
            _ => fail!(Syntax, "an operator has no operands"),
        };
        Ok(Operand::Value(id).into())
    }

    fn unary(&mut self, op: Op, a: Id) -> Result<Id> {
        let kind = self.steps.value_kind(a);
        let float = if kind.is_float() { kind } else { Kind::Float64 };
        Ok(match op {
            Op::Positive => a,
            Op::Negative if kind == Kind::Bool => fail!(Syntax, "- does not take bool values; write `not`"),
            Op::Negative => self.steps.step(Step::Negative, &[a], kind),
            Op::Invert if kind.is_float() => fail!(Syntax, "~ takes integers and bools, not {}", kind.name()),
            Op::Invert => self.steps.step(Step::Invert, &[a], kind),
            Op::Not => {
                let truth = self.steps.cast(a, Kind::Bool);
                self.steps.step(Step::Invert, &[truth], Kind::Bool)
            }
            Op::Absolute if kind.is_unsigned() || kind == Kind::Bool => a,
            Op::Absolute => self.steps.step(Step::Absolute, &[a], kind),
            Op::SignOf if kind == Kind::Bool => a,
            Op::SignOf => self.steps.step(Step::Sign, &[a], kind),
            Op::Rounding(_) if !kind.is_float() => a,
            Op::Rounding(how) => self.steps.step(Step::Rounding(how), &[a], kind),
            Op::Float(function) => self.float(function, a, float),
            Op::IsNan | Op::IsInf | Op::IsFinite if !kind.is_float() => {
                self.steps.push(Origin::Constant(u64::from(op == Op::IsFinite)), Kind::Bool)
            }
            Op::IsNan => self.steps.step(Step::IsNan, &[a], Kind::Bool),
            Op::IsInf => self.steps.step(Step::IsInf, &[a], Kind::Bool),
            Op::IsFinite => self.steps.step(Step::IsFinite, &[a], Kind::Bool),
            Op::Cast(kind) => self.steps.cast(a, kind),
            _ => fail!(Syntax, "an operator does not take one value"),
        })
    }

    fn float(&mut self, function: Float, a: Id, kind: Kind) -> Id {
        let a = self.steps.cast(a, kind);
        self.steps.step(Step::Float(function), &[a], kind)
    }

    fn binary(&mut self, op: Op, a: Operand, b: Operand) -> Result<Id> {
        match op {
            Op::And | Op::Or => {
                let (a, b) = (self.as_truth(a)?, self.as_truth(b)?);
                let step = if op == Op::And { Step::BitAnd } else { Step::BitOr };
                return Ok(self.steps.step(step, &[a, b], Kind::Bool));
            }
            Op::Less | Op::LessEqual | Op::Greater | Op::GreaterEqual | Op::Equal | Op::NotEqual => {
                return self.compare(op, a, b);
            }
            Op::Power => {
                if let Some(id) = self.small_power(a, b)? {
                    return Ok(id);
                }
            }
            _ => {}
        }
        let common = self.common(a, b)?;
        let whole = common.is_signed() || common.is_unsigned();
        let bool_ = common == Kind::Bool;
        let (step, kind) = match op {
            Op::Subtract if bool_ => {
                fail!(Syntax, "- does not take two bool values; != or ^ tells them apart")
            }
            Op::Add if bool_ => (Step::BitOr, common),
            Op::Multiply | Op::Minimum if bool_ => (Step::BitAnd, common),
            Op::Maximum if bool_ => (Step::BitOr, common),
            Op::Add => (Step::Add, common),
            Op::Subtract => (Step::Subtract, common),
            Op::Multiply => (Step::Multiply, common),
            Op::Minimum => (Step::Minimum, common),
            Op::Maximum => (Step::Maximum, common),
            Op::Divide if !common.is_float() => (Step::Divide, Kind::Float64),
            Op::Divide => (Step::Divide, common),
            Op::FloorDivide => (Step::FloorDivide, if bool_ { Kind::Int8 } else { common }),
            Op::Remainder => (Step::Remainder, if bool_ { Kind::Int8 } else { common }),
            Op::Power => (Step::Power, if bool_ { Kind::Int8 } else { common }),
            Op::Atan2 => (Step::Atan2, if common.is_float() { common } else { Kind::Float64 }),
            Op::Hypot => (Step::Hypot, if common.is_float() { common } else { Kind::Float64 }),
            Op::BitAnd if whole || bool_ => (Step::BitAnd, common),
            Op::BitOr if whole || bool_ => (Step::BitOr, common),
            Op::BitXor if whole || bool_ => (Step::BitXor, common),
            Op::ShiftLeft if whole || bool_ => (Step::ShiftLeft, if bool_ { Kind::Int8 } else { common }),
            Op::ShiftRight if whole || bool_ => (Step::ShiftRight, if bool_ { Kind::Int8 } else { common }),
            _ => fail!(
                Syntax,
                "& | ^ << and >> take integers and bools, not {}; a power is written **, and between comparisons go `and` and `or`",
                common.name()
            ),
        };
        let (a, b) = (self.as_kind(a, kind)?, self.as_kind(b, kind)?);
        Ok(self.steps.step(step, &[a, b], kind))
    }

    /// Replaces powers by cheaper operations with exactly the same result.
    fn small_power(&mut self, a: Operand, b: Operand) -> Result<Option<Id>> {
        let (Operand::Value(a), Operand::Number(n)) = (a, b) else { return Ok(None) };
        let kind = self.steps.value_kind(a);
        if let (Number::Integer(n), false) = (n, kind.is_float())
            && n < 0
        {
            fail!(Syntax, "integers have no negative powers; write 1 / x ** {}, or float64(x) ** {n}", -n)
        }
        let float = kind.is_float();
        Ok(match n {
            Number::Integer(2) if kind != Kind::Bool => Some(self.steps.step(Step::Multiply, &[a, a], kind)),
            Number::Real(x) if float && x.to_bits() == 2f64.to_bits() => {
                Some(self.steps.step(Step::Multiply, &[a, a], kind))
            }
            _ => None,
        })
    }

    fn compare(&mut self, op: Op, a: Operand, b: Operand) -> Result<Id> {
        // a > b is b < a.
        let (op, a, b) = match op {
            Op::Greater => (Op::Less, b, a),
            Op::GreaterEqual => (Op::LessEqual, b, a),
            op => (op, a, b),
        };
        let (ka, kb) = (self.whole_kind(a, b), self.whole_kind(b, a));
        let step = match op {
            Op::Less => Step::Less,
            Op::LessEqual => Step::LessEqual,
            Op::Equal => Step::Equal,
            _ => Step::NotEqual,
        };
        let common = match (ka, kb) {
            // Integers are compared exactly, even if they have no common type.
            (Some(ka), Some(kb)) => ka.promote(kb),
            _ => self.common(a, b)?,
        };
        if let (Some(ka), Some(kb), Kind::Float64) = (ka, kb, common) {
            let (signed, unsigned) = (Kind::Int64, Kind::UInt64);
            let left_has_sign = ka.is_signed();
            let (a, b) = if left_has_sign {
                (self.as_kind(a, signed)?, self.as_kind(b, unsigned)?)
            } else {
                (self.as_kind(a, unsigned)?, self.as_kind(b, signed)?)
            };
            debug_assert!(left_has_sign || kb.is_signed());
            let (step, pair) = match (op, left_has_sign) {
                (Op::Less, true) => (Step::LessMixed, [a, b]),
                (Op::Less, false) => (Step::GreaterMixed, [b, a]),
                (Op::LessEqual, true) => (Step::LessEqualMixed, [a, b]),
                (Op::LessEqual, false) => (Step::GreaterEqualMixed, [b, a]),
                (_, true) => (Step::EqualMixed, [a, b]),
                (_, false) => (Step::EqualMixed, [b, a]),
            };
            let id = self.steps.step(step, &pair, Kind::Bool);
            return Ok(if op == Op::NotEqual {
                self.steps.step(Step::Invert, &[id], Kind::Bool)
            } else {
                id
            });
        }
        let (a, b) = (self.as_kind(a, common)?, self.as_kind(b, common)?);
        Ok(self.steps.step(step, &[a, b], Kind::Bool))
    }

    /// Returns the integer type of an operand of a comparison. A number takes the other operand's type if it
    /// fits, otherwise the smallest type that can represent it.
    fn whole_kind(&self, operand: Operand, other: Operand) -> Option<Kind> {
        match operand {
            Operand::Value(id) => Some(self.steps.value_kind(id)).filter(|k| k.range().is_some()),
            Operand::Number(Number::Integer(n)) => {
                let other =
                    if let Operand::Value(id) = other { Some(self.steps.value_kind(id)) } else { None };
                let usual = [Kind::Int8, Kind::Int16, Kind::Int32, Kind::Int64, Kind::UInt64];
                let fits = |k: &Kind| k.range().is_some_and(|(low, high)| low <= n && n <= high);
                other.into_iter().chain(usual).find(fits)
            }
            Operand::Number(Number::Real(_)) => None,
        }
    }

    /// Returns the type in which an operation on two operands is computed.
    fn common(&self, a: Operand, b: Operand) -> Result<Kind> {
        let weak = |kind: Kind, number: Number| match number {
            Number::Integer(_) if kind == Kind::Bool => Kind::Int64,
            Number::Integer(_) => kind,
            Number::Real(_) if kind.is_float() => kind,
            Number::Real(_) => Kind::Float64,
        };
        Ok(match (a, b) {
            (Operand::Value(a), Operand::Value(b)) => {
                self.steps.value_kind(a).promote(self.steps.value_kind(b))
            }
            (Operand::Value(a), Operand::Number(n)) | (Operand::Number(n), Operand::Value(a)) => {
                weak(self.steps.value_kind(a), n)
            }
            (Operand::Number(a), Operand::Number(b)) => match (a, b) {
                (Number::Integer(_), Number::Integer(_)) => Kind::Int64,
                _ => Kind::Float64,
            },
        })
    }

    fn as_kind(&mut self, operand: Operand, kind: Kind) -> Result<Id> {
        match operand {
            Operand::Value(id) => Ok(self.steps.cast(id, kind)),
            Operand::Number(n) => self.constant(n, kind),
        }
    }

    fn as_truth(&mut self, operand: Operand) -> Result<Id> {
        match operand {
            Operand::Value(id) => Ok(self.steps.cast(id, Kind::Bool)),
            Operand::Number(n) => Ok(self.bool_constant(n.real() != 0.0)),
        }
    }

    /// Gives a type to a number without another operand.
    fn materialize(&mut self, number: Number) -> Result<Id> {
        let kind = match number {
            Number::Integer(n) if i64::try_from(n).is_err() => Kind::UInt64,
            Number::Integer(_) => Kind::Int64,
            Number::Real(_) => Kind::Float64,
        };
        self.constant(number, kind)
    }

    fn bool_constant(&mut self, truth: bool) -> Id {
        self.steps.push(Origin::Constant(u64::from(truth)), Kind::Bool)
    }

    fn constant(&mut self, number: Number, kind: Kind) -> Result<Id> {
        let bits = match (number, kind.range()) {
            (Number::Integer(n), Some((low, high))) if low <= n && n <= high => {
                // Two's complement in the low bytes.
                let bytes = n.to_le_bytes();
                bytes.iter().take(8).rev().fold(0u64, |bits, &b| bits << 8 | u64::from(b))
            }
            (Number::Integer(n), Some(_)) => fail!(
                Syntax,
                "{n} does not fit {}, the type of the other operand; convert that first, as in int32(x) or float64(x)",
                kind.name()
            ),
            (n, None) if kind == Kind::Bool => u64::from(n.real() != 0.0),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "rounded to the nearest float32, as NumPy does"
            )]
            (n, _) if kind == Kind::Float32 => u64::from((n.real() as f32).to_bits()),
            (n, _) => n.real().to_bits(),
        };
        Ok(self.steps.push(Origin::Constant(bits), kind))
    }
}
