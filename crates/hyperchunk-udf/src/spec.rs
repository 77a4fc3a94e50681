//! Descriptions of the datasets that a function computes, and the resolution of its names to inputs and
//! outputs.
//!
//! The grammar is HDF5-UDF's: `NAME`, `NAME:RESOLUTION:TYPE` and `NAME:{MEMBER:TYPE,…}:RESOLUTION`.

mod resolve;
mod similar;
#[cfg(test)]
mod tests;

pub use resolve::{ExpressionInput, FunctionDatasets, InputInfo, OutputInfo, resolve, resolve_expression};
pub use similar::{check_undescribed, similar_name};

pub use crate::shape::{MAX_RANK, is_single, normal_name, resolution};

use crate::datatype::Datatype;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::escape::escape;
use crate::shape::dimensions;

/// Maximum size of all elements of a dataset in bytes.
pub const MAX_BYTES: u64 = 1 << 62;

/// Description, by the user, of a dataset to compute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputSpec {
    /// Name.
    pub name: String,
    /// Dimensions, or `None` to copy the inputs'.
    pub dims: Option<Vec<u64>>,
    /// Element type, or `None` to copy the inputs'.
    pub datatype: Option<Datatype>,
}

impl OutputSpec {
    /// Parses a description: `NAME`, `NAME:RESOLUTION:TYPE` or `NAME:{MEMBER:TYPE,…}:RESOLUTION`.
    ///
    /// A name may contain colons as long as the text after them could not be a resolution or a type.
    ///
    /// # Errors
    /// - `Syntax`: the text is none of these, or a dimension or type in it is not valid
    /// - `Unsupported`: an element that is too large
    pub fn parse(text: &str) -> Result<OutputSpec> {
        parse(text).map_err(|e| match e.kind() {
            ErrorKind::Syntax => {
                let what = escape(text, 200);
                Error::new(
                    ErrorKind::Syntax,
                    format!("dataset description {what:?}: {}; {GRAMMAR}", e.message()),
                )
            }
            _ => e,
        })
    }
}

pub(crate) const GRAMMAR: &str = "write NAME, or NAME:RESOLUTION:TYPE as in NDVI:1000x1000:float, or NAME:{MEMBER:TYPE,…}:RESOLUTION, with up to 32 dimensions";

fn parse(text: &str) -> Result<OutputSpec> {
    if let Some((name, members, resolution)) = split_compound(text) {
        check_name(name)?;
        let dims = dimensions(resolution)?;
        return parse_description(name, dims, &format!("{{{members}}}"));
    }
    let mut parts = text.rsplitn(3, ':');
    let (last, middle, name) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    match (name, middle) {
        (Some(name), Some(resolution)) if looks_like_resolution(resolution) => {
            check_name(name)?;
            parse_description(name, dimensions(resolution)?, last)
        }
        (Some(_), Some(datatype)) if is_type(datatype) && looks_like_resolution(last) => {
            fail!(Syntax, "the resolution {last:?} comes before the type {datatype:?}")
        }
        (Some(_), Some(resolution)) if is_type(last) => {
            fail!(Syntax, "{resolution:?} is not a resolution")
        }
        (_, Some(_)) if is_type(last) => fail!(Syntax, "the resolution is missing"),
        (_, Some(_)) if looks_like_resolution(last) => fail!(Syntax, "the type is missing"),
        (_, Some(_)) if last.is_empty() => fail!(Syntax, "it ends with a colon"),
        _ => {
            check_name(text)?;
            Ok(OutputSpec { name: text.to_owned(), dims: None, datatype: None })
        }
    }
}

/// Splits a compound's description into its three parts.
fn split_compound(text: &str) -> Option<(&str, &str, &str)> {
    let (head, resolution) = text.rsplit_once("}:")?;
    let (name, members) = head.split_once(":{")?;
    Some((name, members, resolution))
}

fn parse_description(name: &str, dims: Vec<u64>, datatype: &str) -> Result<OutputSpec> {
    let datatype = Datatype::parse(datatype)?;
    if dims.contains(&0) {
        fail!(Syntax, "a dimension is 0; the smallest is 1")
    }
    check_extent(&dims, &datatype)?;
    check_output(&datatype).map_err(|e| e.about(name))?;
    Ok(OutputSpec { name: name.to_owned(), dims: Some(dims), datatype: Some(datatype) })
}

fn is_type(text: &str) -> bool {
    Datatype::parse(text).is_ok()
}

/// Returns whether `text` is meant as a resolution, valid or not.
fn looks_like_resolution(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || c == '-')
        && text.bytes().all(|b| b.is_ascii_digit() || b"xX*,- ".contains(&b))
}

fn check_name(name: &str) -> Result<()> {
    let tail = name.rsplit_once(':').map(|(_, tail)| tail);
    if normal_name(name).is_empty() || name.contains('\0') {
        fail!(Syntax, "it has no name")
    }
    if tail.is_some_and(|t| t.is_empty() || is_type(t) || looks_like_resolution(t) || t.ends_with('}')) {
        fail!(Syntax, "the end of its name is ambiguous")
    }
    Ok(())
}

/// Returns the number of elements of a dataset with these dimensions.
///
/// # Errors
/// `Syntax`: not 1 to 32 dimensions, or more than 2^62 bytes together.
pub fn check_extent(dims: &[u64], datatype: &Datatype) -> Result<u64> {
    if dims.is_empty() || dims.len() > MAX_RANK {
        fail!(Syntax, "it has {} dimensions: expected 1 to {MAX_RANK}", dims.len())
    }
    let size = u64::try_from(datatype.size()).unwrap_or(u64::MAX);
    let count = dims.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim));
    match count.filter(|n| n.checked_mul(size).is_some_and(|bytes| bytes <= MAX_BYTES)) {
        Some(count) => Ok(count),
        None => fail!(Syntax, "{} elements of {size} bytes are too many", resolution(dims)),
    }
}

/// Rejects variable-length strings, which a function cannot compute.
///
/// # Errors
/// `Unsupported`.
pub(crate) fn check_output(datatype: &Datatype) -> Result<()> {
    if datatype.has_pointers() {
        fail!(
            Unsupported,
            "strings of variable length cannot be computed; give them a size, such as string(40)"
        )
    }
    Ok(())
}
