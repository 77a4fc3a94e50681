//! Attributes written to a live dataset when it is attached.

use super::fail;
use crate::to_udf_error;
use hyperchunk::model::{Attribute, ByteOrder, CharacterSet, Class, Dataspace, Datatype, StringPadding};
use hyperchunk::write::{NodeId, Writer};
use hyperchunk_udf::error::{Error, Result};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::record::ATTRIBUTE;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer, stored with 64 bits.
    Integer(i64),
    /// A number, stored as `double`.
    Number(f64),
    /// A string: ASCII if possible, else UTF-8.
    Text(String),
}

/// Names that cannot be set: the attributes of dimension scales, which are copied from inputs, and the
/// record.
const RESERVED: [&str; 6] =
    [ATTRIBUTE, "DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME", "_Netcdf4Coordinates"];

/// Splits `NAME=VALUE`. A value that parses as a number becomes one, unless it is in double quotes.
///
/// # Errors
/// `Syntax`.
pub fn parse(text: &str) -> Result<(String, Value)> {
    let Some((name, value)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) else {
        fail!(Syntax, "write an attribute as NAME=VALUE, for example units=K, got {:?}", escape(text, 80))
    };
    let quoted = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    let number =
        value.parse::<f64>().ok().filter(|_| value.starts_with(|c: char| "+-.0123456789".contains(c)));
    let value = match (quoted, value.parse::<i64>(), number) {
        (Some(text), ..) => Value::Text(text.to_owned()),
        (None, Ok(integer), _) => Value::Integer(integer),
        (None, Err(_), Some(number)) => Value::Number(number),
        (None, Err(_), None) => Value::Text(value.to_owned()),
    };
    Ok((name.to_owned(), value))
}

/// Checks the names of attributes.
///
/// # Errors
/// `Syntax` for a name that is given twice or is reserved.
pub(super) fn check(attributes: &[(String, Value)]) -> Result<()> {
    for (number, (name, value)) in attributes.iter().enumerate() {
        let shown = escape(name, 80);
        if name.is_empty() || name.contains('\0') || RESERVED.contains(&name.as_str()) {
            fail!(Syntax, "{shown:?} is reserved, or not a valid name of an attribute")
        }
        if attributes.iter().take(number).any(|(other, _)| other == name) {
            fail!(Syntax, "attribute {shown:?} is given twice")
        }
        if matches!(value, Value::Text(text) if text.contains('\0') || text.len() > 60_000) {
            fail!(Syntax, "attribute {shown:?} contains a NUL, or more than 60,000 bytes")
        }
    }
    Ok(())
}

/// Writes attributes to a new dataset.
pub(super) fn write(file: &Writer, dataset: NodeId, attributes: &[(String, Value)]) -> Result<()> {
    for (name, value) in attributes {
        let order = ByteOrder::Little;
        let (datatype, data) = match value {
            Value::Integer(value) => (Datatype::integer(8, true, order), value.to_le_bytes().to_vec()),
            Value::Number(value) => (Datatype::ieee(8, order), value.to_le_bytes().to_vec()),
            Value::Text(text) => {
                let charset = if text.is_ascii() { CharacterSet::Ascii } else { CharacterSet::Utf8 };
                let class = Class::String { padding: StringPadding::NullTerminated, charset };
                let size = text.len().max(1);
                let mut data = text.as_bytes().to_vec();
                data.resize(size, 0);
                (Datatype { size: size as u64, class }, data)
            }
        };
        let set = file.set_attribute(dataset, new(name, datatype, Dataspace::Scalar, data));
        set.map_err(|e| {
            Error::new(to_udf_error(&e).kind(), format!("attribute {:?}: {e}", escape(name, 80)))
        })?;
    }
    Ok(())
}

/// Returns a new attribute.
pub(super) fn new(name: &str, datatype: Datatype, dataspace: Dataspace, data: Vec<u8>) -> Attribute {
    let charset = if name.is_ascii() { CharacterSet::Ascii } else { CharacterSet::Utf8 };
    Attribute { name: name.into(), charset, datatype, committed: None, dataspace, data, creation_order: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        for (text, value) in [
            ("units=m s-1", Value::Text("m s-1".into())),
            ("n=5", Value::Integer(5)),
            ("n=-5e-1", Value::Number(-0.5)),
            ("n=\"5\"", Value::Text("5".into())),
            ("n=nan", Value::Text("nan".into())),
            ("n=", Value::Text(String::new())),
        ] {
            assert_eq!(parse(text).unwrap().1, value, "{text}");
        }
        assert!(parse("units").is_err());
        let one = |name: &str| (name.to_owned(), Value::Integer(1));
        assert!(check(&[one("a"), one("b")]).is_ok());
        assert!(check(&[one("a"), one("a")]).is_err());
        assert!(check(&[one("DIMENSION_LIST")]).is_err());
    }
}
