//! The messages of object headers, one file each. Source: specification §IV.A.2.

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
pub mod shared;
pub mod symbol_table;

use crate::model::RawMessage;
use crate::{Cursor, Result};

pub(crate) const NULL: u16 = 0x00;
pub(crate) const DATASPACE: u16 = 0x01;
pub(crate) const LINK_INFO: u16 = 0x02;
pub(crate) const DATATYPE: u16 = 0x03;
pub(crate) const FILL_VALUE_OLD: u16 = 0x04;
pub(crate) const FILL_VALUE: u16 = 0x05;
pub(crate) const LINK: u16 = 0x06;
pub(crate) const EXTERNAL_FILES: u16 = 0x07;
pub(crate) const LAYOUT: u16 = 0x08;
/// Never written; readers treat it as unknown.
const BOGUS: u16 = 0x09;
pub(crate) const PIPELINE: u16 = 0x0b;
pub(crate) const ATTRIBUTE: u16 = 0x0c;
pub(crate) const COMMENT: u16 = 0x0d;
pub(crate) const MODIFICATION_TIME_OLD: u16 = 0x0e;
pub(crate) const SHARED_MESSAGE_TABLE: u16 = 0x0f;
pub(crate) const CONTINUATION: u16 = 0x10;
pub(crate) const SYMBOL_TABLE: u16 = 0x11;
pub(crate) const MODIFICATION_TIME: u16 = 0x12;
pub(crate) const BTREE_K: u16 = 0x13;
pub(crate) const DRIVER_INFORMATION: u16 = 0x14;
pub(crate) const ATTRIBUTE_INFO: u16 = 0x15;
pub(crate) const REFERENCE_COUNT: u16 = 0x16;
pub(crate) const FILE_SPACE: u16 = 0x17;
pub(crate) const CACHE_IMAGE: u16 = 0x18;

/// The flag of a message whose data lie elsewhere.
pub(crate) const SHARED: u8 = 0x02;

/// Whether the specification defines a type of messages.
pub(crate) fn known(kind: u16) -> bool {
    kind <= CACHE_IMAGE && kind != BOGUS
}

/// Whether messages of a type may be shared.
pub(crate) fn shareable(kind: u16) -> bool {
    matches!(kind, DATASPACE | DATATYPE | FILL_VALUE_OLD | FILL_VALUE | PIPELINE | ATTRIBUTE)
}

/// A cursor at the start of a message that is not shared.
pub(crate) fn cursor<'m>(raw: &'m RawMessage, structure: &'static str) -> Cursor<'m> {
    Cursor::new(&raw.data, structure, raw.offset)
}

/// The flags of link info and attribute info messages.
struct IndexFlags {
    /// The order of creation is tracked.
    tracked: bool,
    /// There is a B-tree by order of creation.
    indexed: bool,
}

fn index_flags(cursor: &mut Cursor<'_>) -> Result<IndexFlags> {
    let flags = cursor.u8()?;
    if flags & !0x03 != 0 {
        return Err(cursor.error(format!("unknown flags {flags:#04x}")));
    }
    Ok(IndexFlags { tracked: flags & 0x01 != 0, indexed: flags & 0x02 != 0 })
}
