//! Limits of object header messages, checked at the call: at a commit, one object would make the whole file fail.

use super::oldest_able;
use super::tree::{NewLink, Node};
use crate::{Error, Result};
use hyperchunk_format::encode::{LibVersion, message};
use hyperchunk_format::model::{Attribute, FillWhen, Name, Pipeline};

/// Maximum size of an object header message, in bytes: its size has 16 bits and is padded to eight bytes.
const MAX_MESSAGE_BYTES: usize = 65_528;
/// Size in bytes of a fill value's or a link's message without the value and the names.
const MESSAGE_OVERHEAD_BYTES: usize = 32;
/// First class of user-defined links.
const FIRST_USER_CLASS: u8 = 65;
/// Size in bytes of one file in the message that lists external files.
const EXTERNAL_FILE_BYTES: usize = 24;

fn check(what: &str, bytes: usize) -> Result<()> {
    if bytes <= MAX_MESSAGE_BYTES {
        return Ok(());
    }
    Err(Error::limit(format!(
        "cannot store {what} of {bytes} bytes: an object header message of HDF5 has at most {MAX_MESSAGE_BYTES}"
    )))
}

/// Checks an encoded datatype.
///
/// # Errors
/// Limit if it is too large for a message.
pub(super) fn datatype(encoded: &[u8]) -> Result<()> {
    check("a datatype", encoded.len())
}

/// Checks the filters of a dataset.
///
/// # Errors
/// As [`datatype`]; Invalid or Limit if they cannot be encoded.
pub(super) fn pipeline(pipeline: &Pipeline) -> Result<()> {
    if pipeline.is_empty() {
        return Ok(());
    }
    check("a list of filters", message::pipeline::encode(pipeline)?.len())
}

/// Checks the datatype and the extent of an attribute. Returns the oldest release, of a range, that knows its datatype.
///
/// # Errors
/// As [`datatype`]; errors of the encoding.
pub(super) fn attribute(attribute: &Attribute, oldest: LibVersion, newest: LibVersion) -> Result<LibVersion> {
    let encode = |age| message::datatype::encode(&attribute.datatype, age);
    let (age, encoded) = oldest_able(oldest, newest, encode)?;
    datatype(&encoded)?;
    message::dataspace::encode(&attribute.dataspace)?;
    Ok(age)
}

/// Checks a fill value.
///
/// # Errors
/// As [`datatype`].
pub(super) fn fill(fill: &FillWhen) -> Result<()> {
    match fill {
        FillWhen::User(value) => check("a fill value", value.len().saturating_add(MESSAGE_OVERHEAD_BYTES)),
        _ => Ok(()),
    }
}

/// Checks a list of external files.
///
/// # Errors
/// As [`datatype`].
pub(super) fn external_files(count: usize) -> Result<()> {
    let bytes = count.saturating_mul(EXTERNAL_FILE_BYTES).saturating_add(MESSAGE_OVERHEAD_BYTES);
    check("a list of external files", bytes)
}

/// Checks a comment.
///
/// # Errors
/// As [`datatype`]; Invalid for an empty one, or one with a NUL.
pub(super) fn comment(comment: Option<&Name>) -> Result<()> {
    let Some(comment) = comment else { return Ok(()) };
    text("set the comment", "a text", comment)?;
    check("a comment", comment.as_bytes().len().saturating_add(1))
}

/// Refuses a text that HDF5 would read as another one.
fn text(verb: &str, expected: &str, text: &Name) -> Result<()> {
    let got = match text.as_bytes() {
        [] => "an empty one".to_owned(),
        bytes if bytes.contains(&0) => format!("{:?}, which has a NUL in it", text.to_string()),
        _ => return Ok(()),
    };
    Err(Error::invalid(format!("cannot {verb}: expected {expected}, got {got}")))
}

/// Checks whether an object can have another attribute, or one of a name that it has. If creation order is
/// tracked, it is counted in 16 bits.
///
/// # Errors
/// Limit if it cannot.
pub(super) fn attribute_order(node: &Node, is_known: bool) -> Result<()> {
    if is_known || !node.track_order || node.next_attribute < u32::from(u16::MAX) {
        return Ok(());
    }
    Err(Error::limit(
        "cannot make another attribute: an object whose attributes are tracked in their order has had at most 65,535 of them",
    ))
}

/// Checks a link's name and value.
///
/// # Errors
/// As [`datatype`]; Invalid for an empty path or name of a file, or one with a NUL, and for classes of HDF5's own links.
pub(super) fn link(name: &[u8], target: &NewLink) -> Result<()> {
    match target {
        NewLink::Hard(_) => {}
        NewLink::Soft(path) => text("make a soft link", "a path", path)?,
        NewLink::External { file, path } => {
            text("make an external link", "the name of a file", file)?;
            text("make an external link", "a path", path)?;
        }
        NewLink::User { class, .. } if *class >= FIRST_USER_CLASS => {}
        NewLink::User { class, .. } => {
            return Err(Error::invalid(format!(
                "cannot make a user-defined link: expected a class from {FIRST_USER_CLASS} on, got {class}"
            )));
        }
    }
    let value = match target {
        NewLink::Hard(_) => 8,
        NewLink::Soft(path) => path.as_bytes().len(),
        NewLink::External { file, path } => file.as_bytes().len().saturating_add(path.as_bytes().len()),
        NewLink::User { data, .. } => data.len(),
    };
    check("a link", name.len().saturating_add(value).saturating_add(MESSAGE_OVERHEAD_BYTES))
}

/// Checks an extent and its bounds, if they are new. Along an axis, libhdf5 counts in powers of two, and opens no dataset that has none
/// to count with.
///
/// # Errors
/// Invalid; Limit.
pub(super) fn extent(dims: &[u64], max: &[Option<u64>]) -> Result<()> {
    if dims.iter().zip(max).any(|(dim, max)| max.is_some_and(|max| max < *dim)) {
        return Err(Error::invalid("an extent larger than its bound"));
    }
    match dims.iter().find(|dim| **dim >= 1 << 63) {
        Some(dim) => Err(Error::limit(format!(
            "cannot make an extent of {dim}: expected fewer than 2^63 elements along an axis, as HDF5 counts them"
        ))),
        None => Ok(()),
    }
}
