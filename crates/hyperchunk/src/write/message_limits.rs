//! Limits of object header messages. They are checked when an object is changed: at a commit, one object that
//! exceeds a limit would make the commit of the whole file fail.

use super::oldest_able;
use super::tree::{NewLink, Node};
use crate::{Error, Result};
use hyperchunk_format::encode::{LibVersion, message};
use hyperchunk_format::model::{Attribute, FillWhen, Name, Pipeline};

/// Maximum size of an object header message in bytes: the size field has 16 bits, and sizes are multiples of
/// eight.
const MAX_MESSAGE_BYTES: usize = 65_528;
/// Maximum size in bytes of a fill value's or a link's message without the value and the names.
const MESSAGE_OVERHEAD_BYTES: usize = 32;
/// First class of user-defined links.
const FIRST_USER_CLASS: u8 = 65;
/// Size in bytes of one entry in the message that lists external files.
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
/// Limit if the datatype is too large for a message.
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

/// Checks the datatype and the extent of an attribute. Returns the oldest release from `oldest` to `newest`
/// that supports the datatype.
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
/// As [`datatype`]; Invalid for an empty comment, or one with a NUL.
pub(super) fn comment(comment: Option<&Name>) -> Result<()> {
    let Some(comment) = comment else { return Ok(()) };
    text("set the comment", "a text", comment)?;
    check("a comment", comment.as_bytes().len().saturating_add(1))
}

/// Checks a text that HDF5 stores with a NUL at its end. HDF5 would read a text with a NUL truncated, and an
/// empty one as missing.
fn text(verb: &str, expected: &str, text: &Name) -> Result<()> {
    let got = match text.as_bytes() {
        [] => "an empty one".to_owned(),
        bytes if bytes.contains(&0) => format!("{:?}, which has a NUL in it", text.to_string()),
        _ => return Ok(()),
    };
    Err(Error::invalid(format!("cannot {verb}: expected {expected}, got {got}")))
}

/// Checks whether an attribute can be added to an object, or replaced if `is_known`. Tracked creation order
/// is a 16-bit number, which is not reused.
///
/// # Errors
/// Limit if the attribute cannot be added.
pub(super) fn attribute_order(node: &Node, is_known: bool) -> Result<()> {
    if is_known || !node.track_order || node.next_attribute < u32::from(u16::MAX) {
        return Ok(());
    }
    Err(Error::limit(
        "cannot create another attribute: an object with tracked creation order can have at most 65,535, deleted ones included",
    ))
}

/// Checks a link's name and value.
///
/// # Errors
/// As [`datatype`]; Invalid for an empty path or file name, or one with a NUL, and for the classes of HDF5's
/// own links.
pub(super) fn link(name: &[u8], target: &NewLink) -> Result<()> {
    match target {
        NewLink::Hard(_) => {}
        NewLink::Soft(path) => text("create a soft link", "a path", path)?,
        NewLink::External { file, path } => {
            text("create an external link", "the name of a file", file)?;
            text("create an external link", "a path", path)?;
        }
        NewLink::User { class, .. } if *class >= FIRST_USER_CLASS => {}
        NewLink::User { class, .. } => {
            return Err(Error::invalid(format!(
                "cannot create a user-defined link: expected a class of at least {FIRST_USER_CLASS}, got {class}"
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

/// Checks an extent and, unless `max` is empty, the maximum extents. libhdf5 rounds extents up to powers of
/// two, and cannot open a dataset for which these exceed 64 bits.
///
/// # Errors
/// Invalid for an extent that exceeds its maximum; Limit for an extent of 2^63 or more.
pub(super) fn extent(dims: &[u64], max: &[Option<u64>]) -> Result<()> {
    if dims.iter().zip(max).any(|(dim, max)| max.is_some_and(|max| max < *dim)) {
        return Err(Error::invalid("the extent exceeds the maximum extent"));
    }
    match dims.iter().find(|dim| **dim >= 1 << 63) {
        Some(dim) => Err(Error::limit(format!(
            "cannot set an extent of {dim}: HDF5 supports fewer than 2^63 elements along an axis"
        ))),
        None => Ok(()),
    }
}
