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

/// Nothing: room for a message.
pub const NULL: u16 = 0x00;
/// The extent of a dataset.
pub const DATASPACE: u16 = 0x01;
/// Where a group keeps its links.
pub const LINK_INFO: u16 = 0x02;
/// The type of elements.
pub const DATATYPE: u16 = 0x03;
/// What never-written elements are, in old files.
pub const FILL_VALUE_OLD: u16 = 0x04;
/// What never-written elements are.
pub const FILL_VALUE: u16 = 0x05;
/// A link.
pub const LINK: u16 = 0x06;
/// The files that hold the data of a dataset.
pub const EXTERNAL_FILES: u16 = 0x07;
/// Where the data of a dataset lie.
pub const LAYOUT: u16 = 0x08;
/// Never written; readers treat it as unknown.
const BOGUS: u16 = 0x09;
/// How a group keeps its links.
pub const GROUP_INFO: u16 = 0x0a;
/// The filters of chunks.
pub const PIPELINE: u16 = 0x0b;
/// An attribute.
pub const ATTRIBUTE: u16 = 0x0c;
/// The comment of an object.
pub const COMMENT: u16 = 0x0d;
/// When an object was last modified, in old files.
pub const MODIFICATION_TIME_OLD: u16 = 0x0e;
/// Where the table of shared messages lies.
pub const SHARED_MESSAGE_TABLE: u16 = 0x0f;
/// A further block of messages.
pub const CONTINUATION: u16 = 0x10;
/// Where an old-style group keeps its links.
pub const SYMBOL_TABLE: u16 = 0x11;
/// When an object was last modified.
pub const MODIFICATION_TIME: u16 = 0x12;
/// The sizes of nodes of B-trees.
pub const BTREE_K: u16 = 0x13;
/// How the file was split.
pub const DRIVER_INFORMATION: u16 = 0x14;
/// Where an object keeps its attributes.
pub const ATTRIBUTE_INFO: u16 = 0x15;
/// How many hard links lead to an object.
pub const REFERENCE_COUNT: u16 = 0x16;
/// How the space of the file is managed.
pub const FILE_SPACE: u16 = 0x17;
/// Where metadata lie that were in the writer's cache.
pub const CACHE_IMAGE: u16 = 0x18;

/// The flag of a message whose data lie elsewhere.
pub const SHARED: u8 = 0x02;

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
