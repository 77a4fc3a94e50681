//! Results of analysis functions that run while data are written: keys with values.
//!
//! **Invariant:** the bytes come from a worker or from a file, and neither is trusted.

use crate::format::varint::Out;
use hyperchunk::{Error, ErrorKind, Result};
use hyperchunk_format::Cursor;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Maximum number of keys in the results of one call.
const MAX_KEYS: usize = 1024;
/// Maximum length of a key in bytes.
const MAX_KEY_BYTES: usize = 256;
/// Maximum size of the results of one call in bytes.
pub const MAX_RESULT_BYTES: usize = 64 << 10;

/// A number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer too large for a signed one.
    Unsigned(u64),
    /// A floating-point number.
    Double(f64),
}

/// Value of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number.
    Number(Number),
    /// A text.
    Text(String),
    /// A list of numbers.
    List(Vec<Number>),
}

/// Keys with values.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pairs(pub BTreeMap<String, Value>);

/// Rule by which two values of a key are merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// The maximum; of lists, element by element.
    Max,
    /// The minimum; of lists, element by element.
    Min,
    /// The sum; of lists, element by element.
    Sum,
    /// The first value.
    First,
    /// The last value.
    Last,
    /// The value that accompanies the one chosen for another key.
    With(String),
}

impl Number {
    fn integer(self) -> Option<i128> {
        match self {
            Self::Signed(value) => Some(value.into()),
            Self::Unsigned(value) => Some(value.into()),
            Self::Double(_) => None,
        }
    }

    /// Returns the nearest floating-point number.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "the nearest is what is asked for")]
        match self {
            Self::Signed(value) => value as f64,
            Self::Unsigned(value) => value as f64,
            Self::Double(value) => value,
        }
    }

    /// Returns an integer in its canonical encoded kind.
    fn from_integer(value: i128) -> Self {
        match (i64::try_from(value), u64::try_from(value)) {
            (Ok(value), _) => Self::Signed(value),
            (_, Ok(value)) => Self::Unsigned(value),
            #[expect(clippy::cast_precision_loss, reason = "no integer of 64 bits has room for it")]
            _ => Self::Double(value as f64),
        }
    }

    fn add(self, other: Self) -> Self {
        match (self.integer(), other.integer()) {
            (Some(one), Some(other)) => Self::from_integer(one + other),
            _ => Self::Double(self.as_f64() + other.as_f64()),
        }
    }

    /// Compares two numbers exactly; `None` for NaN.
    fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Double(one), Self::Double(other)) => one.partial_cmp(&other),
            (Self::Double(one), other) => compare_mixed(other.integer()?, one).map(Ordering::reverse),
            (one, Self::Double(other)) => compare_mixed(one.integer()?, other),
            (one, other) => Some(one.integer()?.cmp(&other.integer()?)),
        }
    }

    fn encode(self, out: &mut Out) {
        match self {
            Self::Signed(value) => {
                out.u8(0);
                out.u64(value.cast_unsigned());
            }
            Self::Unsigned(value) => {
                out.u8(1);
                out.u64(value);
            }
            Self::Double(value) => {
                out.u8(2);
                out.u64(value.to_bits());
            }
        }
    }

    fn decode(kind: u8, cursor: &mut Cursor<'_>) -> Result<Self> {
        let value = cursor.u64()?;
        Ok(match kind {
            0 => Self::Signed(value.cast_signed()),
            // Each integer has exactly one encoding.
            1 => Self::from_integer(value.into()),
            2 => Self::Double(f64::from_bits(value)),
            other => return Err(cursor.error(format!("a result of unknown kind {other}"))),
        })
    }
}

/// Compares an integer with a floating-point number.
fn compare_mixed(integer: i128, double: f64) -> Option<Ordering> {
    /// 2^64, larger than every representable integer.
    const TWO_POW_64: f64 = 18_446_744_073_709_551_616.0;
    if double.is_nan() {
        return None;
    }
    if double >= TWO_POW_64 {
        return Some(Ordering::Less);
    }
    if double <= -TWO_POW_64 {
        return Some(Ordering::Greater);
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is less than 2^64")]
    let whole = double.trunc() as i128;
    let fraction = double.fract();
    let beside = if fraction > 0.0 {
        Ordering::Less
    } else if fraction < 0.0 {
        Ordering::Greater
    } else {
        Ordering::Equal
    };
    Some(integer.cmp(&whole).then(beside))
}

impl Pairs {
    /// Returns whether there are no pairs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Encodes the pairs: 4 bytes, the number of keys; then for each 4 bytes, the length of the
    /// key; the key; and the value: a byte, its kind, and 8 bytes (a number), or a length of 4
    /// bytes and a text or a list of numbers.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        let length = |out: &mut Out, length: usize| out.u32(u32::try_from(length).unwrap_or(u32::MAX));
        length(&mut out, self.0.len());
        for (key, value) in &self.0 {
            length(&mut out, key.len());
            out.bytes(key.as_bytes());
            match value {
                Value::Number(number) => number.encode(&mut out),
                Value::Text(text) => {
                    out.u8(3);
                    length(&mut out, text.len());
                    out.bytes(text.as_bytes());
                }
                Value::List(list) => {
                    out.u8(4);
                    length(&mut out, list.len());
                    list.iter().for_each(|number| number.encode(&mut out));
                }
            }
        }
        out.0
    }

    /// Decodes pairs that fill `bytes` exactly.
    ///
    /// # Errors
    /// Corrupt; Limit for more than [`MAX_RESULT_BYTES`] or 1024 keys.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > MAX_RESULT_BYTES {
            return Err(Error::limit(format!(
                "results of {} bytes, more than {MAX_RESULT_BYTES}",
                bytes.len()
            )));
        }
        let mut cursor = Cursor::new(bytes, "results", 0);
        let many = cursor.u32()? as usize;
        if many > MAX_KEYS {
            return Err(Error::limit(format!("results with {many} keys, more than {MAX_KEYS}")));
        }
        let mut pairs = BTreeMap::new();
        for _ in 0..many {
            let key = text(&mut cursor)?;
            if key.is_empty() || key.len() > MAX_KEY_BYTES {
                return Err(
                    cursor.error(format!("a key of {} bytes, expected 1 to {MAX_KEY_BYTES}", key.len()))
                );
            }
            let value = match cursor.u8()? {
                3 => Value::Text(text(&mut cursor)?),
                4 => {
                    let many = cursor.u32()? as usize;
                    if many > cursor.left() / 9 {
                        return Err(cursor.error(format!("a list of {many} numbers")));
                    }
                    let number = |_| {
                        let kind = cursor.u8()?;
                        Number::decode(kind, &mut cursor)
                    };
                    Value::List((0..many).map(number).collect::<Result<_>>()?)
                }
                kind => Value::Number(Number::decode(kind, &mut cursor)?),
            };
            if let Some(twice) = pairs.insert(key, value) {
                return Err(cursor.error(format!("a key with two values, one of them {twice:.40?}")));
            }
        }
        if cursor.left() > 0 {
            return Err(cursor.error(format!("{} bytes after the last value", cursor.left())));
        }
        Ok(Self(pairs))
    }

    /// Merges two results by rules; `self` is the earlier one. Keys without a rule are left out.
    ///
    /// # Errors
    /// Invalid if a rule cannot be applied.
    pub fn merge(&self, later: &Self, rules: &BTreeMap<String, Rule>) -> Result<Self> {
        let mut pairs = BTreeMap::new();
        for (key, rule) in rules {
            let value = match (self.0.get(key), later.0.get(key)) {
                (None, None) => continue,
                // A value that accompanies another one is chosen together with it, even if it is
                // missing.
                (one, other) if matches!(rule, Rule::With(_)) => {
                    let Rule::With(of) = rule else { continue };
                    match if self.keeps(later, of, rules)? { one } else { other } {
                        Some(value) => value.clone(),
                        None => continue,
                    }
                }
                (Some(one), None) | (None, Some(one)) => one.clone(),
                (Some(one), Some(other)) => merge_values(key, rule, one, other)?,
            };
            pairs.insert(key.clone(), value);
        }
        Ok(Self(pairs))
    }

    /// Returns whether the merge chooses the value of a key from `self`, and not the later one.
    fn keeps(&self, later: &Self, key: &str, rules: &BTreeMap<String, Rule>) -> Result<bool> {
        let (one, other) = match (self.0.get(key), later.0.get(key)) {
            (_, None) => return Ok(true),
            (None, Some(_)) => return Ok(false),
            (Some(one), Some(other)) => (one, other),
        };
        let wanted = match rules.get(key) {
            Some(Rule::Max) => Ordering::Less,
            Some(Rule::Min) => Ordering::Greater,
            _ => return Err(mismatch(key, "the rule `with` needs a key with the rule max or min")),
        };
        match (one, other) {
            (Value::Number(one), Value::Number(other)) => {
                let is_nan = |number: Number| number.as_f64().is_nan();
                let of_nan = is_nan(*one) && !is_nan(*other);
                Ok(!of_nan && one.compare(*other) != Some(wanted))
            }
            (Value::Text(one), Value::Text(other)) => Ok(one.cmp(other) != wanted),
            _ => Err(mismatch(key, "the rule `with` needs two numbers or two texts")),
        }
    }
}

impl Rule {
    /// Parses the name of a rule.
    ///
    /// # Errors
    /// Invalid.
    pub fn from_name(name: &str) -> Result<Self> {
        Ok(match name {
            "max" => Self::Max,
            "min" => Self::Min,
            "sum" => Self::Sum,
            "first" => Self::First,
            "last" => Self::Last,
            other => match other.strip_prefix("with ") {
                Some(key) => Self::With(key.to_owned()),
                None => {
                    return Err(Error::invalid(format!(
                        "unknown rule {other:?}: expected max, min, sum, first, last or with KEY"
                    )));
                }
            },
        })
    }
}

fn merge_values(key: &str, rule: &Rule, one: &Value, other: &Value) -> Result<Value> {
    let number = |one: Number, other: Number| match rule {
        Rule::Sum => one.add(other),
        Rule::Max | Rule::Min => {
            let wanted = if *rule == Rule::Max { Ordering::Less } else { Ordering::Greater };
            let takes = one.as_f64().is_nan() || one.compare(other) == Some(wanted);
            if takes { other } else { one }
        }
        _ => one,
    };
    Ok(match (rule, one, other) {
        (Rule::First, one, _) => one.clone(),
        (Rule::Last, _, other) => other.clone(),
        (_, Value::Number(one), Value::Number(other)) => Value::Number(number(*one, *other)),
        (_, Value::List(one), Value::List(other)) if one.len() == other.len() => {
            Value::List(one.iter().zip(other).map(|(one, other)| number(*one, *other)).collect())
        }
        (Rule::Max, Value::Text(one), Value::Text(other)) => Value::Text(one.max(other).clone()),
        (Rule::Min, Value::Text(one), Value::Text(other)) => Value::Text(one.min(other).clone()),
        _ => return Err(mismatch(key, "two of its values are of different kinds or lengths")),
    })
}

fn mismatch(key: &str, why: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("results of the key {key:?} cannot be merged: {why}"))
}

fn text(cursor: &mut Cursor<'_>) -> Result<String> {
    let length = cursor.u32()? as usize;
    if length > cursor.left() {
        return Err(cursor.error(format!("a text of {length} bytes")));
    }
    let bytes = cursor.take(length)?;
    let text = std::str::from_utf8(bytes).map_err(|_| cursor.error("a text that is not UTF-8".to_owned()))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, Value)]) -> Pairs {
        Pairs(list.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
    }

    fn double(value: f64) -> Value {
        Value::Number(Number::Double(value))
    }

    fn integer(value: i128) -> Value {
        Value::Number(Number::from_integer(value))
    }

    #[test]
    fn pairs_come_back_and_damage_is_seen() {
        let all = pairs(&[
            ("a", integer(-5)),
            ("b", integer(i128::from(u64::MAX))),
            ("c", double(f64::INFINITY)),
            ("ü", Value::Text("hé".into())),
            ("e", Value::List(vec![Number::Signed(1), Number::Double(0.5)])),
            ("f", Value::List(vec![])),
        ]);
        let bytes = all.encode();
        assert_eq!(Pairs::decode(&bytes).unwrap(), all);
        for at in 0..bytes.len() {
            assert!(Pairs::decode(&bytes[..at]).is_err(), "{at}");
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x80;
            // Damage may result in other pairs, but never in more bytes than were given.
            if let Ok(other) = Pairs::decode(&damaged) {
                assert!(other.encode().len() <= bytes.len());
            }
        }
        assert!(Pairs::decode(&[bytes.as_slice(), &[0]].concat()).is_err());
        assert_eq!(Pairs::decode(&[0; 4]).unwrap(), Pairs::default());
    }

    #[test]
    fn hostile_bytes_are_refused() {
        let word = |word: u32| word.to_le_bytes();
        let key = [&word(1)[..], b"k"].concat();
        for (bytes, expected) in [
            (word(u32::MAX).to_vec(), "keys"),
            ([&word(1)[..], &word(u32::MAX)].concat(), "a text of"),
            ([&word(1)[..], &word(0), &[0; 9]].concat(), "a key of 0"),
            ([&word(1)[..], &key, &[9], &[0; 8]].concat(), "unknown kind 9"),
            ([&word(1)[..], &key, &[4], &word(u32::MAX)].concat(), "a list of"),
            ([&word(1)[..], &key, &[4], &word(1), &[3], &[0; 8]].concat(), "unknown kind 3"),
            ([&word(1)[..], &key, &[3], &word(1), &[0xff]].concat(), "UTF-8"),
            ([&word(2)[..], &key, &[0; 9], &key, &[0; 9]].concat(), "two values"),
            (vec![0; MAX_RESULT_BYTES + 1], "results of"),
        ] {
            let error = Pairs::decode(&bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }

    #[track_caller]
    fn check(rule: &str, one: Value, other: Value, expected: Option<Value>) {
        let rules = BTreeMap::from([("k".to_owned(), Rule::from_name(rule).unwrap())]);
        let merged = pairs(&[("k", one)]).merge(&pairs(&[("k", other)]), &rules);
        assert_eq!(merged.ok().and_then(|merged| merged.0.get("k").cloned()), expected);
    }

    #[test]
    fn rules_are_followed_exactly() {
        let list = |values: &[i64]| Value::List(values.iter().map(|value| Number::Signed(*value)).collect());
        let text = |text: &str| Value::Text(text.into());
        let large = (1_i128 << 53) + 1;
        check("max", integer(large), double(9_007_199_254_740_992.0), Some(integer(large)));
        check("min", integer(large), double(9_007_199_254_740_992.0), Some(double(9_007_199_254_740_992.0)));
        check("max", integer(2), double(2.5), Some(double(2.5)));
        check("max", integer(-2), double(-2.5), Some(integer(-2)));
        check("min", integer(i128::from(u64::MAX)), double(1e300), Some(integer(i128::from(u64::MAX))));
        check("max", double(f64::NAN), integer(1), Some(integer(1)));
        check("max", integer(1), double(f64::NAN), Some(integer(1)));
        check("sum", integer(1), integer(2), Some(integer(3)));
        check("sum", integer(i64::MAX.into()), integer(1), Some(integer(1 << 63)));
        check("sum", integer(u64::MAX.into()), integer(1), Some(double(18_446_744_073_709_551_616.0)));
        check("sum", integer(1), double(0.5), Some(double(1.5)));
        check("sum", list(&[1, 2]), list(&[3, 4]), Some(list(&[4, 6])));
        check("sum", list(&[1, 2]), list(&[3]), None);
        check("sum", text("a"), text("b"), None);
        check("max", text("a"), text("b"), Some(text("b")));
        check("max", text("a"), integer(1), None);
        check("first", text("a"), integer(1), Some(text("a")));
        check("last", text("a"), integer(1), Some(integer(1)));
        assert!(Rule::from_name("mean").is_err());
    }

    #[test]
    fn a_value_goes_with_another() {
        let rules = [("max", "max"), ("at", "with max")];
        let rules = rules.map(|(key, rule)| (key.to_owned(), Rule::from_name(rule).unwrap())).into();
        let at = |max: f64, at: i128| pairs(&[("max", double(max)), ("at", integer(at))]);
        let merged = |one: &Pairs, other: &Pairs| one.merge(other, &rules).unwrap();
        assert_eq!(merged(&at(1.0, 5), &at(2.0, 6)), at(2.0, 6));
        assert_eq!(merged(&at(2.0, 5), &at(1.0, 6)), at(2.0, 5));
        assert_eq!(merged(&at(2.0, 5), &at(2.0, 6)), at(2.0, 5));
        assert_eq!(merged(&at(2.0, 5), &pairs(&[("other", integer(1))])), at(2.0, 5));
        assert_eq!(merged(&at(f64::NAN, 5), &at(1.0, 6)), at(1.0, 6));
        let without = pairs(&[("max", double(3.0))]);
        assert_eq!(merged(&at(2.0, 5), &without), without);
    }
}
