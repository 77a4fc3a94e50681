//! Values of attributes, given as text.

use super::Outcome;
use hyperchunk::model::{ByteOrder, CharacterSet, Class, Dataspace, Datatype, EnumMember, StringPadding};
use hyperchunk::write::Writer;
use hyperchunk_udf::escape::escape;
use serde_json::Value;

/// Maximum number of dimensions.
const MAX_RANK: usize = 32;

/// Type of an attribute's elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ElementType {
    /// Bytes, and whether it has a sign.
    Integer(u16, bool),
    /// Bytes.
    Float(u16),
    Bool,
    /// A string of variable length, or of a fixed number of bytes.
    Text(Option<u64>),
}

/// Names of types; `string(N)` has N bytes.
pub(super) const TYPES: &str = "int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float (32 bits), \
     double, bool, string, string(N)";

/// Parses the name of a type.
pub(super) fn parse_type(text: &str) -> Result<ElementType, String> {
    use ElementType::{Bool, Float, Integer, Text};
    Ok(match text {
        "int8" => Integer(1, true),
        "int16" => Integer(2, true),
        "int32" | "int" => Integer(4, true),
        "int64" => Integer(8, true),
        "uint8" => Integer(1, false),
        "uint16" => Integer(2, false),
        "uint32" => Integer(4, false),
        "uint64" => Integer(8, false),
        "float16" => Float(2),
        "float" | "float32" => Float(4),
        "double" | "float64" => Float(8),
        "bool" => Bool,
        "string" => Text(None),
        other => {
            let size = other.strip_prefix("string(").and_then(|rest| rest.strip_suffix(')'));
            let size = size.and_then(|size| size.parse().ok()).filter(|size| (1..=60_000).contains(size));
            Text(Some(size.ok_or_else(|| format!("expected one of {TYPES}"))?))
        }
    })
}

/// An attribute's value before it is stored.
#[derive(Debug, PartialEq)]
pub(super) struct ParsedValue {
    dims: Option<Vec<u64>>,
    elements: Vec<Value>,
    pub(super) element: ElementType,
}

/// Parses a value. With a string type, a text that is not a JSON array or string is the value itself.
/// Otherwise it is a number, `true` or `false`, text, or a JSON array of these.
pub(super) fn parse(text: &str, element: Option<ElementType>) -> Result<ParsedValue, String> {
    let trimmed = text.trim();
    let is_json = trimmed.starts_with(['[', '"']);
    let wants_text = matches!(element, Some(ElementType::Text(_)));
    let parsed = match is_json || !wants_text {
        true => serde_json::from_str::<Value>(trimmed).ok(),
        false => None,
    };
    let is_of_numbers = !trimmed.contains('"') && parsed.as_ref().is_some_and(|value| !value.is_string());
    if let Some(number) = too_long_integer(trimmed).filter(|_| element.is_none() && is_of_numbers) {
        return Err(format!(
            "{} is too large for an integer, and would lose digits as a double; `--type double` rounds it, `--type \
             string` stores it as text",
            escape(number, 200)
        ));
    }
    let value = match parsed {
        Some(Value::Null | Value::Object(_)) => return Err("expected a number, text or an array".into()),
        Some(value) => value,
        None if trimmed.starts_with('[') => return Err(format!("{} is not a JSON array", escape(text, 200))),
        // Python's spellings, and those that JSON lacks.
        None if !wants_text && matches!(trimmed, "True" | "False") => Value::Bool(trimmed == "True"),
        None if element.is_none() && is_too_large_a_number(trimmed) => {
            return Err(format!(
                "{} is too large for a number; `--type string` stores it as text",
                escape(text, 200)
            ));
        }
        None => Value::String(text.to_owned()),
    };
    let mut dims = Vec::new();
    let mut elements = Vec::new();
    let is_array = value.is_array();
    flatten(value, 0, &mut dims, &mut elements)?;
    let element = match element {
        Some(element) => element,
        None => common_type(&elements)?,
    };
    Ok(ParsedValue { dims: is_array.then_some(dims), elements, element })
}

fn is_too_large_a_number(text: &str) -> bool {
    has_digits(text) && text.parse().is_ok_and(f64::is_infinite)
}

/// Returns whether a number is written with digits, rather than as `inf` or `nan`.
fn has_digits(text: &str) -> bool {
    text.contains(|letter: char| letter.is_ascii_digit())
}

fn flatten(value: Value, depth: usize, dims: &mut Vec<u64>, elements: &mut Vec<Value>) -> Result<(), String> {
    match value {
        Value::Array(_) if depth >= MAX_RANK => Err(format!("more than {MAX_RANK} dimensions")),
        Value::Array(rows) => {
            let count = rows.len() as u64;
            // The first array of each depth gives the extent.
            match dims.get(depth) {
                None if elements.is_empty() => dims.push(count),
                Some(dim) if *dim == count => {}
                _ => return Err("the rows of an array must have the same number of elements".into()),
            }
            rows.into_iter().try_for_each(|row| flatten(row, depth + 1, dims, elements))
        }
        _ if depth != dims.len() => Err("the rows of an array must have the same number of elements".into()),
        Value::Null | Value::Object(_) => Err("elements must be numbers, texts, true or false".into()),
        one => {
            elements.push(one);
            Ok(())
        }
    }
}

fn common_type(elements: &[Value]) -> Result<ElementType, String> {
    let all = |is: fn(&Value) -> bool| elements.iter().all(is);
    if elements.is_empty() {
        Ok(ElementType::Float(8))
    } else if all(Value::is_string) {
        Ok(ElementType::Text(None))
    } else if all(Value::is_boolean) {
        Ok(ElementType::Bool)
    } else if all(Value::is_i64) {
        Ok(ElementType::Integer(8, true))
    } else if all(Value::is_u64) {
        Ok(ElementType::Integer(8, false))
    } else if all(Value::is_number) {
        match elements.iter().find(|element| !is_exact_double(element)) {
            None => Ok(ElementType::Float(8)),
            Some(element) => Err(format!(
                "no type holds all elements: {} would lose digits as a double; `--type double` rounds it, `--type string` \
                 stores text",
                shown(element)
            )),
        }
    } else {
        Err("elements must have one type: numbers, texts, or true and false".into())
    }
}

/// Returns whether a double holds a number, if that is an integer.
fn is_exact_double(number: &Value) -> bool {
    let magnitude = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs)).unwrap_or(0);
    let zeros = magnitude.leading_zeros() + magnitude.trailing_zeros();
    magnitude == 0 || u64::BITS - zeros <= f64::MANTISSA_DIGITS
}

/// Returns an integer of the text that no integer type holds, so that it would become a double.
fn too_long_integer(text: &str) -> Option<&str> {
    let is_of_number = |letter: char| letter.is_ascii_digit() || "+-.eE".contains(letter);
    let mut numbers = text.split(|letter: char| !is_of_number(letter));
    numbers.find(|number| {
        let digits = number.trim_start_matches(['+', '-']);
        !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && number.parse::<i64>().is_err()
            && number.parse::<u64>().is_err()
    })
}

impl ElementType {
    /// Returns the type in the file.
    fn stored(self) -> Datatype {
        match self {
            Self::Integer(size, signed) => Datatype::integer(size, signed, ByteOrder::Little),
            Self::Float(size) => Datatype::ieee(size, ByteOrder::Little),
            // As h5py stores them.
            Self::Bool => {
                let member = |name: &str, value| EnumMember { name: name.into(), value: vec![value] };
                let base = Box::new(Datatype::integer(1, true, ByteOrder::Little));
                let members = vec![member("FALSE", 0), member("TRUE", 1)];
                Datatype { size: 1, class: Class::Enum { base, members } }
            }
            Self::Text(None) => {
                let class =
                    Class::VlenString { padding: StringPadding::NullTerminated, charset: CharacterSet::Utf8 };
                Datatype { size: 16, class }
            }
            Self::Text(Some(size)) => {
                let class = Class::String { padding: StringPadding::NullPadded, charset: CharacterSet::Utf8 };
                Datatype { size, class }
            }
        }
    }
}

impl ParsedValue {
    /// Returns type, extent and stored elements; strings of any length go into the file.
    pub(super) fn store(&self, file: &Writer) -> Outcome<(Datatype, Dataspace, Vec<u8>)> {
        let datatype = self.element.stored();
        let mut data = Vec::new();
        for element in &self.elements {
            match self.element {
                ElementType::Integer(size, signed) => data.extend(integer(element, size, signed)?),
                ElementType::Float(size) => data.extend(float(element, size)?),
                ElementType::Bool => data.push(boolean(element)?),
                ElementType::Text(None) => {
                    let text = text(element)?;
                    data.extend(file.store_attribute_sequence(text.len(), text.as_bytes())?);
                }
                ElementType::Text(Some(size)) => {
                    let text = text(element)?;
                    let size = usize::try_from(size)?;
                    if text.len() > size {
                        let message =
                            format!("{} has {} bytes, more than {size}", escape(text, 80), text.len());
                        return Err(message.into());
                    }
                    data.extend_from_slice(text.as_bytes());
                    data.resize(data.len() + size - text.len(), 0);
                }
            }
        }
        let dataspace = match &self.dims {
            None => Dataspace::Scalar,
            Some(dims) => {
                Dataspace::Simple { dims: dims.clone(), max: dims.iter().copied().map(Some).collect() }
            }
        };
        Ok((datatype, dataspace, data))
    }
}

fn shown(value: &Value) -> String {
    escape(&value.to_string(), 80)
}

fn integer(value: &Value, size: u16, signed: bool) -> Result<Vec<u8>, String> {
    let number = match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9e15);
            number
                .as_i64()
                .map(i128::from)
                .or_else(|| number.as_u64().map(i128::from))
                .or_else(|| whole.and_then(|number| format!("{number:.0}").parse().ok()))
        }
        Value::Bool(value) => Some(i128::from(*value)),
        _ => None,
    };
    let bits = u32::from(size) * 8;
    let (least, most) = if signed {
        (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
    } else {
        (0, (1_i128 << bits) - 1)
    };
    let name = format!("{}int{bits}", if signed { "" } else { "u" });
    let number = number.ok_or_else(|| format!("expected {name}, got {}", shown(value)))?;
    if !(least..=most).contains(&number) {
        return Err(format!("expected {name}, {least} to {most}, got {number}"));
    }
    Ok(number.to_le_bytes().get(..usize::from(size)).unwrap_or_default().to_vec())
}

fn float(value: &Value, size: u16) -> Result<Vec<u8>, String> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        // JSON has no such numbers.
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let number = number.ok_or_else(|| format!("expected a number, got {}", shown(value)))?;
    let double = Datatype::ieee(8, ByteOrder::Little);
    let mut stored = vec![0; size.into()];
    hyperchunk::convert::Conversion::new(&double, &Datatype::ieee(size, ByteOrder::Little))
        .and_then(|conversion| conversion.run(&number.to_le_bytes(), &mut stored, 1))
        .map_err(|error| error.to_string())?;
    let is_too_large = match size {
        2 => stored[..] == [0, 0x7c] || stored[..] == [0, 0xfc],
        4 => stored[..] == f32::INFINITY.to_le_bytes() || stored[..] == f32::NEG_INFINITY.to_le_bytes(),
        _ => number.is_infinite(),
    };
    if is_too_large && value.as_str().is_none_or(has_digits) {
        return Err(format!(
            "expected a float of {} bits, got {}, which is too large",
            size * 8,
            shown(value)
        ));
    }
    Ok(stored)
}

fn boolean(value: &Value) -> Result<u8, String> {
    match value {
        Value::Bool(value) => Ok(u8::from(*value)),
        Value::Number(number) if number.as_u64().is_some_and(|number| number < 2) => {
            Ok(u8::from(number.as_u64() == Some(1)))
        }
        other => Err(format!("expected true or false, got {}", shown(other))),
    }
}

fn text(value: &Value) -> Result<&str, String> {
    match value {
        Value::String(text) if text.contains('\0') => Err("text cannot contain a zero byte".into()),
        Value::String(text) => Ok(text),
        other => Err(format!("expected text, got {}; put it into double quotes", shown(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let kind = |text: &str| parse(text, None).map(|value| (value.element, value.dims));
        assert_eq!(kind("5"), Ok((ElementType::Integer(8, true), None)));
        assert_eq!(kind("18446744073709551615"), Ok((ElementType::Integer(8, false), None)));
        assert_eq!(kind("5e-1"), Ok((ElementType::Float(8), None)));
        assert_eq!(kind("m s-1"), Ok((ElementType::Text(None), None)));
        assert_eq!(kind("\"5\""), Ok((ElementType::Text(None), None)));
        assert_eq!(kind("true"), Ok((ElementType::Bool, None)));
        assert_eq!(kind("[[1, 2.5], [3, 4]]"), Ok((ElementType::Float(8), Some(vec![2, 2]))));
        assert_eq!(kind("[]"), Ok((ElementType::Float(8), Some(vec![0]))));
        for wrong in ["[1, \"a\"]", "[[1], [2, 3]]", "[1, [2]]", "[[1], 2]", "{\"a\": 1}", "null", "[1"] {
            assert!(kind(wrong).is_err(), "{wrong}");
        }
        let text = parse("5", Some(ElementType::Text(None))).unwrap();
        assert_eq!(text.elements, [Value::String("5".into())]);
    }

    #[test]
    fn types() {
        assert_eq!(parse_type("string(20)"), Ok(ElementType::Text(Some(20))));
        assert!(parse_type("string(0)").is_err() && parse_type("int7").is_err());
        assert_eq!(integer(&serde_json::json!(-1), 2, true), Ok(vec![255, 255]));
        assert!(integer(&serde_json::json!(300), 1, false).is_err());
        assert!(integer(&serde_json::json!(1.5), 8, true).is_err());
        assert_eq!(float(&serde_json::json!("inf"), 4), Ok(f32::INFINITY.to_le_bytes().to_vec()));
        for (number, size) in [(70_000.0, 2), (-70_000.0, 2), (1e39, 4), (-1e39, 4)] {
            assert!(float(&serde_json::json!(number), size).unwrap_err().contains("too large"), "{number}");
        }
        assert_eq!(float(&serde_json::json!(65_504.0), 2), Ok(vec![0xff, 0x7b]));
        assert!(float(&serde_json::json!("1e400"), 8).is_err());
        for lossy in [
            "[1, 18446744073709551615, -1]",
            "[9007199254740993, 0.5]",
            "36893488147419103233",
            "[-9223372036854775809]",
        ] {
            assert!(parse(lossy, None).unwrap_err().contains("lose digits"), "{lossy}");
            assert!(parse(lossy, Some(ElementType::Float(8))).is_ok(), "{lossy}");
        }
        assert!(parse("[9007199254740992, 0.5]", None).is_ok() && parse("[1e300, 1]", None).is_ok());
        assert!(parse("1e400", None).is_err() && parse("-1e400", None).is_err());
        assert!(parse("1e400", Some(ElementType::Text(None))).is_ok() && parse("inf", None).is_ok());
    }
}
