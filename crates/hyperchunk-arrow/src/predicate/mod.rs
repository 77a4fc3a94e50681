//! Row filters: comparisons of columns with values, evaluated exactly.
//!
//! Numbers are compared by value, without casts: `id < 0.5` of integers is `id < 1`, and `x == 0.1` is false
//! for every 32-bit float. [`Nan`] selects how NaN compares. As in SQL, no comparison with null is true.
//!
//! [`bound`] converts a comparison to the column's own type, and [`kernel`] evaluates it. [`plan`] evaluates
//! predicates over columns without nulls, block by block, and [`evaluate`] all others. Some filters of
//! pyarrow are converted to predicates: [`expression`].

mod bound;
mod evaluate;
mod expression;
mod kernel;
mod plan;

pub(crate) use bound::compare_real_to_integer;
pub(crate) use plan::{BLOCK_ROWS, BoundPlan, Plan};

use hyperchunk::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Maximum number of comparisons and values in a predicate.
const MAX_NODES: usize = 1 << 16;
/// Maximum nesting depth of a predicate.
const MAX_DEPTH: usize = 64;

/// A row filter.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Predicate {
    /// All parts are true.
    And(Vec<Predicate>),
    /// Any part is true.
    Or(Vec<Predicate>),
    /// The part is false.
    Not(Box<Predicate>),
    /// A comparison of a column's value with a literal.
    Compare(String, Comparison, Literal),
    /// A column's value is equal to one of the literals.
    In(String, Vec<Literal>),
    /// A column's value is null.
    IsNull(String),
}

/// The rule for comparing floating-point numbers with NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nan {
    /// NaN differs from every number, and all other comparisons are false, as in pyarrow and NumPy.
    #[default]
    Unordered,
    /// NaN is larger than every number, as in DuckDB and polars.
    Largest,
}

/// A comparison operator.
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

/// A value to compare with.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Literal {
    /// An integer.
    Whole(i128),
    /// Any other number; never NaN.
    Real(f64),
    /// A string.
    Text(String),
    /// True or false.
    Truth(bool),
}

const COMPARISON_NAMES: [(Comparison, &str); 6] = [
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
        COMPARISON_NAMES.iter().find(|(_, name)| *name == text).map(|(comparison, _)| *comparison)
    }

    fn name(self) -> &'static str {
        COMPARISON_NAMES.iter().find(|(comparison, _)| *comparison == self).map_or("==", |(_, name)| name)
    }

    /// Returns whether it holds for values in this order; `None` for values without an order (NaN).
    pub(crate) fn holds(self, order: Option<Ordering>) -> bool {
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
    Error::invalid(format!("invalid `where`: {what}"))
}

impl Predicate {
    /// Parses a predicate in JSON.
    ///
    /// # Errors
    /// Invalid if it is not a predicate, Limit if it is too large.
    pub fn parse(value: &Value) -> Result<Self> {
        parse(value, &mut MAX_NODES.clone(), MAX_DEPTH)
    }

    /// Parses a predicate in a JSON text.
    ///
    /// # Errors
    /// As [`Predicate::parse`].
    pub fn parse_text(text: &str) -> Result<Self> {
        Self::parse(&serde_json::from_str(text).map_err(bad)?)
    }

    /// Returns it as JSON.
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

    /// Returns the columns that it uses.
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
            // JSON cannot represent infinity, and some parsers round numbers inexactly.
            Value::Object(object) if object.len() == 1 => match object.get("float")?.as_str()? {
                "inf" => Some(Self::Real(f64::INFINITY)),
                "-inf" => Some(Self::Real(f64::NEG_INFINITY)),
                digits => digits.parse().ok().filter(|real: &f64| real.is_finite()).map(Self::Real),
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
            Self::Real(real) if real.is_infinite() => {
                json!({ "float": if *real > 0.0 { "inf" } else { "-inf" } })
            }
            Self::Real(real) if is_read_back(*real) => json!(real),
            Self::Real(real) => json!({ "float": format!("{real:?}") }),
            Self::Text(text) => json!(text),
            Self::Truth(truth) => json!(truth),
        }
    }
}

/// Returns whether a number written as JSON is read back exactly.
fn is_read_back(real: f64) -> bool {
    let read = serde_json::from_str::<f64>(&json!(real).to_string());
    read.is_ok_and(|read| read.to_bits() == real.to_bits())
}

/// Returns the start of a name, for messages.
fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
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
        return Err(Error::new(
            ErrorKind::Limit,
            format!("`where` is nested deeper than {MAX_DEPTH} levels"),
        ));
    };
    let mut all =
        |parts: &[Value]| parts.iter().map(|part| parse(part, left, depth)).collect::<Result<Vec<_>>>();
    match value {
        Value::Array(parts) => {
            let Some(Value::String(name)) = parts.first() else { return Ok(Predicate::And(all(parts)?)) };
            let operator = parts.get(1).and_then(Value::as_str);
            let wrong = || bad(format_args!("expected [column, operator, value] for {:?}", shortened(name)));
            match (operator.ok_or_else(wrong)?, parts.get(2..).unwrap_or_default()) {
                ("is null", []) => Ok(Predicate::IsNull(name.clone())),
                ("is not null", []) => Ok(Predicate::Not(Box::new(Predicate::IsNull(name.clone())))),
                ("in", [Value::Array(values)]) => {
                    let values = values.iter().map(|value| {
                        spent(left)?;
                        Literal::parse(value).ok_or_else(|| bad("a value is a number, string, true or false"))
                    });
                    Ok(Predicate::In(name.clone(), values.collect::<Result<_>>()?))
                }
                (operator, [value]) => {
                    let comparison = Comparison::parse(operator)
                        .ok_or_else(|| {
                            bad(format_args!(
                                "unknown operator {:?}; expected ==, !=, <, <=, >, >=, in, is null or is not null",
                                shortened(operator)
                            ))
                        })?;
                    let literal = Literal::parse(value)
                        .ok_or_else(|| bad("a value is a number, string, true or false"))?;
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
                _ => Err(bad("an object must be {\"and\": […]}, {\"or\": […]} or {\"not\": …}")),
            }
        }
        _ => Err(bad("expected a list or an object")),
    }
}
