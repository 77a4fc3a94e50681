//! Size limits of object header messages, checked at the call: at a commit, one object would make the whole
//! file fail.

use super::tree::{NewLink, Node};
use crate::{Error, Result};
use hyperchunk_format::model::{FillWhen, Name};

/// Maximum size of an object header message, in bytes: its size has 16 bits and is padded to eight bytes.
const MAX_MESSAGE_BYTES: usize = 65_528;
/// Size in bytes of a fill value's or a link's message without the value and the names.
const MESSAGE_OVERHEAD_BYTES: usize = 32;
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
/// As [`datatype`].
pub(super) fn comment(comment: Option<&Name>) -> Result<()> {
    comment.map_or(Ok(()), |comment| check("a comment", comment.as_bytes().len().saturating_add(1)))
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
/// As [`datatype`].
pub(super) fn link(name: &[u8], target: &NewLink) -> Result<()> {
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
