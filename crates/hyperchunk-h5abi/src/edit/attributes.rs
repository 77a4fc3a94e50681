//! Attributes written to a live dataset when it is attached.

use crate::errors::failure;
use crate::handles::c_name;
use crate::library::Library;
use crate::symbols::{Hid, NULL_TERMINATED, UTF8};
use crate::{Error, ErrorKind, Result, fail};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::record::ATTRIBUTE;
use std::ffi::c_void;

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
        fail!(Syntax, "write an attribute as NAME=VALUE, for example units=K, and not {:?}", escape(text, 80))
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
            fail!(Syntax, "{shown:?} cannot be the name of an attribute that is given")
        }
        if attributes.iter().take(number).any(|(other, _)| other == name) {
            fail!(Syntax, "attribute {shown:?} is given twice")
        }
        if matches!(value, Value::Text(text) if text.contains('\0') || text.len() > 60_000) {
            fail!(Syntax, "attribute {shown:?} has a zero in it, or more than 60,000 bytes")
        }
    }
    Ok(())
}

/// Writes attributes to a new dataset.
pub(super) fn write(library: &'static Library, dataset: Hid, attributes: &[(String, Value)]) -> Result<()> {
    for (name, value) in attributes {
        let done = match value {
            Value::Integer(value) => one(
                library,
                dataset,
                name,
                c"H5T_STD_I64LE_g",
                c"H5T_NATIVE_INT64_g",
                (&raw const *value).cast(),
            ),
            Value::Number(value) => one(
                library,
                dataset,
                name,
                c"H5T_IEEE_F64LE_g",
                c"H5T_NATIVE_DOUBLE_g",
                (&raw const *value).cast(),
            ),
            Value::Text(text) => string(library, dataset, name, text),
        };
        done.map_err(|e| Error::new(e.kind(), format!("attribute {:?}: {e}", escape(name, 80))))?;
    }
    Ok(())
}

fn one(
    library: &'static Library,
    dataset: Hid,
    name: &str,
    stored: &std::ffi::CStr,
    memory: &std::ffi::CStr,
    value: *const c_void,
) -> Result<()> {
    create(library, dataset, name, library.global(stored)?, library.global(memory)?, value)
}

fn string(library: &'static Library, dataset: Hid, name: &str, text: &str) -> Result<()> {
    // SAFETY: a copy of a constant type, then closed by its handle.
    let datatype = library
        .wrap_type(unsafe { (library.f.type_copy)(library.global(c"H5T_C_S1_g")?) }, "a string type")?;
    // SAFETY: an open type of ours.
    let set = unsafe {
        (library.f.type_set_size)(datatype.id, text.len().max(1)) >= 0
            && (library.f.type_set_strpad)(datatype.id, NULL_TERMINATED) >= 0
            && (text.is_ascii() || (library.f.type_set_cset)(datatype.id, UTF8) >= 0)
    };
    if !set {
        return Err(failure(library, "a string type"));
    }
    let text = c_name(text).map_err(|e| Error::new(ErrorKind::Syntax, e.message().to_owned()))?;
    create(library, dataset, name, datatype.id, datatype.id, text.as_ptr().cast())
}

fn create(
    library: &'static Library,
    dataset: Hid,
    name: &str,
    stored: Hid,
    memory: Hid,
    value: *const c_void,
) -> Result<()> {
    let (space, name) = (library.scalar_space()?, c_name(name)?);
    // SAFETY: open identifiers and a NUL-terminated name; 0 are default lists.
    let id = unsafe { (library.f.attr_create)(dataset, name.as_ptr(), stored, space.id, 0, 0) };
    let attribute = library.wrap_attribute(id, "cannot make it")?;
    // SAFETY: one element of the type in memory, or a string with its terminating zero.
    if unsafe { (library.f.attr_write)(attribute.id, memory, value) } < 0 {
        return Err(failure(library, "cannot write it"));
    }
    Ok(())
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
