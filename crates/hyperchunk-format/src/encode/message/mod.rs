//! Messages of object headers, one file each. Source: specification §IV.A.2.

pub mod attribute;
pub mod attribute_info;
pub mod comment;
pub mod dataspace;
pub mod datatype;
pub mod external_files;
pub mod file_space;
pub mod fill_value;
pub mod group_info;
pub mod layout;
pub mod link;
pub mod link_info;
pub mod modification_time;
pub mod pipeline;
pub mod reference_count;
pub mod shared;

pub use crate::parse::message::{
    ATTRIBUTE, ATTRIBUTE_INFO, COMMENT, DATASPACE, DATATYPE, EXTERNAL_FILES, FILE_SPACE, FILL_VALUE,
    GROUP_INFO, LAYOUT, LINK, LINK_INFO, MODIFICATION_TIME, NULL, PIPELINE, REFERENCE_COUNT, SHARED,
};

use crate::model::{CharacterSet, Name};
use crate::{Error, Result};

/// Flag of a constant message. Libraries set it for datatypes, fill values and group info.
pub const CONSTANT: u8 = 0x01;

/// Returns the bytes of a name.
///
/// # Errors
/// Invalid if it is empty or has a NUL, which readers would misinterpret.
pub(crate) fn name_bytes<'n>(name: &'n Name, what: &'static str) -> Result<&'n [u8]> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.contains(&0) {
        return Err(Error::invalid(format!("the name {name:?} is empty or contains a NUL")).within(what));
    }
    Ok(bytes)
}

/// Returns the number of a character set.
pub(crate) fn charset_number(charset: CharacterSet) -> u8 {
    match charset {
        CharacterSet::Ascii => 0,
        CharacterSet::Utf8 => 1,
    }
}

/// Returns the flags of link info and attribute info messages.
pub(crate) fn index_flags(tracked: bool, indexed: bool) -> Result<u8> {
    match (tracked, indexed) {
        (false, true) => Err(Error::invalid("the creation order is indexed but not tracked")),
        _ => Ok(u8::from(tracked) | u8::from(indexed) << 1),
    }
}

/// Checks that a link info or attribute info message has its heap and indexes together.
pub(crate) fn check_index(structure: &'static str, indexed: bool, addresses: [Option<u64>; 3]) -> Result<()> {
    let [heap, by_name, by_order] = addresses;
    let dense = heap.is_some();
    if by_name.is_some() == dense && by_order.is_some() == (dense && indexed) {
        return Ok(());
    }
    Err(Error::invalid("the heap and its indexes must be present together").within(structure))
}
