//! Which rows: comparisons of columns with values, evaluated exactly.
//!
//! Numbers are compared by what they are, not by what a cast makes of them: `id < 0.5` of whole numbers is `id < 1`, and
//! `x == 0.1` is true of no 32-bit float. Comparisons with NaN are false, `!=` is true. Of nulls nothing is true, as in SQL.

use super::names::shortened;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, downcast_dictionary_array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Schema, TimeUnit};
use hyperchunk::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// No predicate has more comparisons and values.
const MOST_NODES: usize = 1 << 16;
/// No predicate is deeper.
const DEEPEST: usize = 64;

/// Which rows are wanted.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Predicate {
    /// Those of which all are true.
    And(Vec<Predicate>),
    /// Those of which any is true.
    Or(Vec<Predicate>),
    /// Those of which it is false.
    Not(Box<Predicate>),
    /// Those whose value in a column compares so.
    Compare(String, Comparison, Literal),
    /// Those whose value in a column is one of these.
    In(String, Vec<Literal>),
    /// Those that have no value in a column.
    IsNull(String),
}

/// How a value compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they say what they are")]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What a value is compared with.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Literal {
    /// A whole number.
    Whole(i128),
    /// Any other number; never NaN.
    Real(f64),
    /// A text.
    Text(String),
    /// True or false.
    Truth(bool),
}

const NAMES: [(Comparison, &str); 6] = [
    (Comparison::Equal, "=="),
    (Comparison::NotEqual, "!="),
    (Comparison::Less, "<"),
    (Comparison::LessOrEqual, "<="),
    (Comparison::Greater, ">"),
    (Comparison::GreaterOrEqual, ">="),
];

impl Comparison {
    fn parse(text: &str) -> Option<Self> {
        if text == "=" {
            return Some(Self::Equal);
        }
        NAMES.iter().find(|(_, name)| *name == text).map(|(comparison, _)| *comparison)
    }

    fn name(self) -> &'static str {
        NAMES.iter().find(|(comparison, _)| *comparison == self).map_or("==", |(_, name)| name)
    }

    /// Whether it is so for values in this order; `None` for values without an order (NaN).
    pub(super) fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => order.is_some_and(Ordering::is_le),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }
}

fn bad(what: impl std::fmt::Display) -> Error {
    Error::invalid(format!("`where` makes no sense: {what}"))
}

impl Predicate {
    /// The predicate of its JSON.
    ///
    /// # Errors
    /// Invalid if it is none, Limit if it is too large.
    pub fn parse(value: &Value) -> Result<Self> {
        parse(value, &mut MOST_NODES.clone(), DEEPEST)
    }

    /// It as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let all = |parts: &[Self]| Value::Array(parts.iter().map(Self::to_json).collect());
        match self {
            Self::And(parts) => json!({ "and": all(parts) }),
            Self::Or(parts) => json!({ "or": all(parts) }),
            Self::Not(part) => json!({ "not": part.to_json() }),
            Self::Compare(column, comparison, literal) => {
                json!([column, comparison.name(), literal.to_json()])
            }
            Self::In(column, literals) => {
                json!([column, "in", literals.iter().map(Literal::to_json).collect::<Vec<_>>()])
            }
            Self::IsNull(column) => json!([column, "is null"]),
        }
    }

    /// The columns that it looks at.
    #[must_use]
    pub fn columns(&self) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        self.collect(&mut found);
        found
    }

    fn collect<'a>(&'a self, found: &mut BTreeSet<&'a str>) {
        match self {
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(|part| part.collect(found)),
            Self::Not(part) => part.collect(found),
            Self::Compare(column, _, _) | Self::In(column, _) | Self::IsNull(column) => {
                found.insert(column);
            }
        }
    }

    /// Checks that it can be evaluated over batches of a schema.
    ///
    /// # Errors
    /// Invalid if there is no such column, or its values cannot be compared so; Unsupported for types without an order.
    pub fn check(&self, schema: &Schema) -> Result<()> {
        let batch = RecordBatch::new_empty(schema.clone().into());
        self.evaluate(&batch).map(|_| ())
    }

    /// The rows of a batch that are wanted.
    ///
    /// # Errors
    /// As [`Predicate::check`].
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        Ok(BooleanArray::new(self.answer(batch)?.yes, None))
    }

    fn answer(&self, batch: &RecordBatch) -> Result<Answer> {
        let rows = batch.num_rows();
        match self {
            Self::And(parts) => parts.iter().try_fold(Answer::all(rows), |so_far, part| {
                let part = part.answer(batch)?;
                Ok(Answer { yes: &so_far.yes & &part.yes, no: &so_far.no | &part.no })
            }),
            Self::Or(parts) => parts.iter().try_fold(Answer::none(rows), |so_far, part| {
                let part = part.answer(batch)?;
                Ok(Answer { yes: &so_far.yes | &part.yes, no: &so_far.no & &part.no })
            }),
            Self::Not(part) => {
                let part = part.answer(batch)?;
                Ok(Answer { yes: part.no, no: part.yes })
            }
            Self::Compare(name, comparison, literal) => {
                let column = column(batch, name)?;
                compare(column, *comparison, literal).map_err(|error| named(name, &error))
            }
            Self::In(name, literals) => {
                let column = column(batch, name)?;
                let start = Answer::of(BooleanBuffer::new_unset(rows), column);
                literals.iter().try_fold(start, |so_far, literal| {
                    let one =
                        compare(column, Comparison::Equal, literal).map_err(|error| named(name, &error))?;
                    Ok(Answer { yes: &so_far.yes | &one.yes, no: &so_far.no & &one.no })
                })
            }
            Self::IsNull(name) => {
                let yes = match column(batch, name)?.logical_nulls() {
                    Some(nulls) => !nulls.inner(),
                    None => BooleanBuffer::new_unset(rows),
                };
                Ok(Answer { no: !&yes, yes })
            }
        }
    }
}

impl Literal {
    fn parse(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(truth) => Some(Self::Truth(*truth)),
            Value::String(text) => Some(Self::Text(text.clone())),
            Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(whole), _, _) => Some(Self::Whole(whole.into())),
                (_, Some(whole), _) => Some(Self::Whole(whole.into())),
                (_, _, Some(real)) if real.is_finite() => Some(Self::Real(real)),
                _ => None,
            },
            // JSON has no words for these.
            Value::Object(object) if object.len() == 1 => match object.get("float")?.as_str()? {
                "inf" => Some(Self::Real(f64::INFINITY)),
                "-inf" => Some(Self::Real(f64::NEG_INFINITY)),
                _ => None,
            },
            _ => None,
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Whole(whole) => match (i64::try_from(*whole), u64::try_from(*whole)) {
                (Ok(whole), _) => json!(whole),
                (_, Ok(whole)) => json!(whole),
                _ => Value::Null,
            },
            Self::Real(real) if real.is_finite() => json!(real),
            Self::Real(real) => json!({ "float": if *real > 0.0 { "inf" } else { "-inf" } }),
            Self::Text(text) => json!(text),
            Self::Truth(truth) => json!(truth),
        }
    }
}

fn parse(value: &Value, left: &mut usize, depth: usize) -> Result<Predicate> {
    let spent = |left: &mut usize| match left.checked_sub(1) {
        Some(rest) => {
            *left = rest;
            Ok(())
        }
        None => Err(Error::new(ErrorKind::Limit, "`where` has too many parts")),
    };
    spent(left)?;
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Error::new(ErrorKind::Limit, format!("`where` is more than {DEEPEST} deep")));
    };
    let mut all =
        |parts: &[Value]| parts.iter().map(|part| parse(part, left, depth)).collect::<Result<Vec<_>>>();
    match value {
        Value::Array(parts) => {
            let Some(Value::String(name)) = parts.first() else { return Ok(Predicate::And(all(parts)?)) };
            let operator = parts.get(1).and_then(Value::as_str);
            let wrong =
                || bad(format_args!("[column, operator, value] is expected for {:?}", shortened(name)));
            match (operator.ok_or_else(wrong)?, parts.get(2..).unwrap_or_default()) {
                ("is null", []) => Ok(Predicate::IsNull(name.clone())),
                ("is not null", []) => Ok(Predicate::Not(Box::new(Predicate::IsNull(name.clone())))),
                ("in", [Value::Array(values)]) => {
                    let values = values.iter().map(|value| {
                        spent(left)?;
                        Literal::parse(value).ok_or_else(|| bad("a value is a number, a text, true or false"))
                    });
                    Ok(Predicate::In(name.clone(), values.collect::<Result<_>>()?))
                }
                (operator, [value]) => {
                    let comparison = Comparison::parse(operator)
                        .ok_or_else(|| bad(format_args!("there is no operator {:?}", shortened(operator))))?;
                    let literal = Literal::parse(value)
                        .ok_or_else(|| bad("a value is a number, a text, true or false"))?;
                    Ok(Predicate::Compare(name.clone(), comparison, literal))
                }
                _ => Err(wrong()),
            }
        }
        Value::Object(object) if object.len() == 1 => {
            match object.iter().next().map(|(key, value)| (key.as_str(), value)) {
                Some(("and", Value::Array(parts))) => Ok(Predicate::And(all(parts)?)),
                Some(("or", Value::Array(parts))) => Ok(Predicate::Or(all(parts)?)),
                Some(("not", part)) => Ok(Predicate::Not(Box::new(parse(part, left, depth)?))),
                _ => Err(bad("an object is {\"and\": […]}, {\"or\": […]} or {\"not\": …}")),
            }
        }
        _ => Err(bad("a list or an object is expected")),
    }
}

/// Of which rows something is true, and of which it is false; of nulls it is neither.
struct Answer {
    yes: BooleanBuffer,
    no: BooleanBuffer,
}

impl Answer {
    fn all(rows: usize) -> Self {
        Self { yes: BooleanBuffer::new_set(rows), no: BooleanBuffer::new_unset(rows) }
    }

    fn none(rows: usize) -> Self {
        Self { yes: BooleanBuffer::new_unset(rows), no: BooleanBuffer::new_set(rows) }
    }

    /// Where the column has values, it is as `yes` says.
    fn of(yes: BooleanBuffer, column: &dyn Array) -> Self {
        match column.logical_nulls() {
            Some(nulls) => Self { no: &!&yes & nulls.inner(), yes: &yes & nulls.inner() },
            None => Self { no: !&yes, yes },
        }
    }
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    batch.column_by_name(name).ok_or_else(|| {
        let message = format!("`where` asks for the column {:?}, which the table has not", shortened(name));
        Error::invalid(message)
    })
}

fn named(column: &str, error: &Error) -> Error {
    Error::new(error.kind(), format!("column {:?}: {}", shortened(column), error.message()))
}

fn compare(column: &ArrayRef, comparison: Comparison, literal: &Literal) -> Result<Answer> {
    let array: &dyn Array = column;
    let wrong = || {
        let message = format!("{} values cannot be compared with {}", array.data_type(), literal.to_json());
        Err(Error::invalid(message))
    };
    macro_rules! whole {
        ($type:ty) => {
            integers::<$type>(array, comparison, literal).map_or_else(wrong, Ok)
        };
    }
    match array.data_type() {
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::UInt8 => whole!(UInt8Type),
        DataType::UInt16 => whole!(UInt16Type),
        DataType::UInt32 => whole!(UInt32Type),
        DataType::UInt64 => whole!(UInt64Type),
        DataType::Date32 => whole!(Date32Type),
        DataType::Date64 => whole!(Date64Type),
        DataType::Timestamp(TimeUnit::Second, _) => whole!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => whole!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => whole!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => whole!(TimestampNanosecondType),
        DataType::Duration(TimeUnit::Second) => whole!(DurationSecondType),
        DataType::Duration(TimeUnit::Millisecond) => whole!(DurationMillisecondType),
        DataType::Duration(TimeUnit::Microsecond) => whole!(DurationMicrosecondType),
        DataType::Duration(TimeUnit::Nanosecond) => whole!(DurationNanosecondType),
        DataType::Float16 => {
            reals::<Float16Type>(array, comparison, literal, half::f16_to_f64).map_or_else(wrong, Ok)
        }
        DataType::Float32 => {
            reals::<Float32Type>(array, comparison, literal, f64::from).map_or_else(wrong, Ok)
        }
        DataType::Float64 => {
            reals::<Float64Type>(array, comparison, literal, |value| value).map_or_else(wrong, Ok)
        }
        DataType::Boolean => {
            let Literal::Truth(truth) = literal else { return wrong() };
            let values = array.as_boolean().values();
            let yes = values.iter().map(|value| comparison.holds(Some(value.cmp(truth)))).collect();
            Ok(Answer::of(yes, array))
        }
        DataType::Utf8 => texts(array, comparison, literal, array.as_string::<i32>()).map_or_else(wrong, Ok),
        DataType::LargeUtf8 => {
            texts(array, comparison, literal, array.as_string::<i64>()).map_or_else(wrong, Ok)
        }
        DataType::Utf8View => {
            texts(array, comparison, literal, array.as_string_view()).map_or_else(wrong, Ok)
        }
        DataType::Dictionary(_, _) => downcast_dictionary_array!(
            array => {
                // What is true of a value is true of all rows that have it.
                let values = compare(array.values(), comparison, literal)?;
                let keys = array.keys();
                let of = |mask: &BooleanBuffer| BooleanBuffer::collect_bool(array.len(), |row| {
                    let key = keys.is_valid(row).then(|| array.key(row)).flatten();
                    key.is_some_and(|key| key < mask.len() && mask.value(key))
                });
                Ok(Answer { yes: of(&values.yes), no: of(&values.no) })
            },
            _ => wrong()
        ),
        other => Err(Error::unsupported(format!("values of the type {other} are not compared"))),
    }
}

/// 16-bit floats, by the crate that arrow has them from.
mod half {
    use super::{ArrowPrimitiveType, Float16Type};

    pub(super) fn f16_to_f64(value: <Float16Type as ArrowPrimitiveType>::Native) -> f64 {
        value.to_f64()
    }
}

fn texts<'a>(
    array: &dyn Array,
    comparison: Comparison,
    literal: &Literal,
    values: impl IntoIterator<Item = Option<&'a str>>,
) -> Option<Answer> {
    let Literal::Text(text) = literal else { return None };
    let holds =
        |value: Option<&str>| value.is_some_and(|value| comparison.holds(Some(value.cmp(text.as_str()))));
    Some(Answer::of(values.into_iter().map(holds).collect(), array))
}

/// Whole numbers compared with any number: the number is moved to where the column's type has one, so that the loop is of
/// that type alone.
fn integers<T: ArrowPrimitiveType>(
    array: &dyn Array,
    comparison: Comparison,
    literal: &Literal,
) -> Option<Answer>
where
    T::Native: Into<i128> + TryFrom<i128> + Ord,
{
    let number = match literal {
        Literal::Whole(whole) => *whole,
        // As `arrow.bool8` has them.
        Literal::Truth(truth) => i128::from(*truth),
        Literal::Real(real) => return Some(beside_real::<T>(array, comparison, *real)),
        Literal::Text(_) => return None,
    };
    Some(beside_whole::<T>(array, comparison, number))
}

fn beside_whole<T: ArrowPrimitiveType>(array: &dyn Array, comparison: Comparison, number: i128) -> Answer
where
    T::Native: Into<i128> + TryFrom<i128> + Ord,
{
    let values = array.as_primitive::<T>().values();
    let Ok(bound) = T::Native::try_from(number) else {
        // Beyond all values of the type: all compare the same.
        let order = if number < 0 { Ordering::Greater } else { Ordering::Less };
        return Answer::of(constant(values.len(), comparison.holds(Some(order))), array);
    };
    let of = |holds: fn(&T::Native, &T::Native) -> bool| {
        BooleanBuffer::collect_bool(values.len(), |row| {
            values.get(row).is_some_and(|value| holds(value, &bound))
        })
    };
    let yes = match comparison {
        Comparison::Equal => of(|a, b| a == b),
        Comparison::NotEqual => of(|a, b| a != b),
        Comparison::Less => of(|a, b| a < b),
        Comparison::LessOrEqual => of(|a, b| a <= b),
        Comparison::Greater => of(|a, b| a > b),
        Comparison::GreaterOrEqual => of(|a, b| a >= b),
    };
    Answer::of(yes, array)
}

#[expect(clippy::cast_possible_truncation, reason = "whole, and within what the type has")]
fn beside_real<T: ArrowPrimitiveType>(array: &dyn Array, comparison: Comparison, real: f64) -> Answer
where
    T::Native: Into<i128> + TryFrom<i128> + Ord,
{
    // A cast saturates, and beyond 2^100 all columns of whole numbers compare the same.
    let clamped = real.clamp(-1e30, 1e30);
    let (floor, whole) = (clamped.floor() as i128, clamped.floor() == clamped);
    match comparison {
        _ if whole => beside_whole::<T>(array, comparison, floor),
        Comparison::Equal => Answer::of(constant(array.len(), false), array),
        Comparison::NotEqual => Answer::of(constant(array.len(), true), array),
        Comparison::Less | Comparison::LessOrEqual => {
            beside_whole::<T>(array, Comparison::LessOrEqual, floor)
        }
        Comparison::Greater | Comparison::GreaterOrEqual => {
            beside_whole::<T>(array, Comparison::Greater, floor)
        }
    }
}

fn constant(rows: usize, value: bool) -> BooleanBuffer {
    if value { BooleanBuffer::new_set(rows) } else { BooleanBuffer::new_unset(rows) }
}

/// Floats compared with any number: as 64-bit floats, which have all values of the others.
#[expect(clippy::cast_precision_loss, reason = "corrected where it happens")]
fn reals<T: ArrowPrimitiveType>(
    array: &dyn Array,
    comparison: Comparison,
    literal: &Literal,
    widen: impl Fn(T::Native) -> f64,
) -> Option<Answer> {
    let values = array.as_primitive::<T>().values();
    let (bound, comparison) = match literal {
        Literal::Real(real) => (*real, comparison),
        Literal::Whole(whole) => {
            let near = *whole as f64;
            // A whole number of more than 53 bits may lie between two floats.
            #[expect(clippy::cast_possible_truncation, reason = "whole, and below 2^65")]
            match (near as i128).cmp(whole) {
                Ordering::Equal => (near, comparison),
                order => match (comparison, order) {
                    (Comparison::Equal, _) => {
                        return Some(Answer::of(constant(values.len(), false), array));
                    }
                    (Comparison::NotEqual, _) => {
                        return Some(Answer::of(constant(values.len(), true), array));
                    }
                    (Comparison::Less | Comparison::LessOrEqual, Ordering::Less) => {
                        (near, Comparison::LessOrEqual)
                    }
                    (Comparison::Less | Comparison::LessOrEqual, _) => (near, Comparison::Less),
                    (_, Ordering::Less) => (near, Comparison::Greater),
                    (_, _) => (near, Comparison::GreaterOrEqual),
                },
            }
        }
        Literal::Text(_) | Literal::Truth(_) => return None,
    };
    let of = |holds: fn(f64, f64) -> bool| {
        BooleanBuffer::collect_bool(values.len(), |row| {
            values.get(row).is_some_and(|value| holds(widen(*value), bound))
        })
    };
    #[expect(clippy::float_cmp, reason = "what is asked for")]
    let yes = match comparison {
        Comparison::Equal => of(|a, b| a == b),
        Comparison::NotEqual => of(|a, b| a != b),
        Comparison::Less => of(|a, b| a < b),
        Comparison::LessOrEqual => of(|a, b| a <= b),
        Comparison::Greater => of(|a, b| a > b),
        Comparison::GreaterOrEqual => of(|a, b| a >= b),
    };
    Some(Answer::of(yes, array))
}
