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
pub mod shared;
pub mod symbol_table;

use crate::model::RawMessage;
use crate::{Cursor, Result};

/// NIL message: unused space.
pub const NULL: u16 = 0x00;
/// Extent of a dataset or attribute.
pub const DATASPACE: u16 = 0x01;
/// Storage of a new-style group's links.
pub const LINK_INFO: u16 = 0x02;
/// Datatype of the elements.
pub const DATATYPE: u16 = 0x03;
/// Fill value, in old files.
pub const FILL_VALUE_OLD: u16 = 0x04;
/// Fill value.
pub const FILL_VALUE: u16 = 0x05;
/// Link.
pub const LINK: u16 = 0x06;
/// External data files of a dataset.
pub const EXTERNAL_FILES: u16 = 0x07;
/// Storage layout of a dataset.
pub const LAYOUT: u16 = 0x08;
/// Bogus message: never written; readers treat it as unknown.
const BOGUS: u16 = 0x09;
/// Hints for the link storage of a group.
pub const GROUP_INFO: u16 = 0x0a;
/// Filter pipeline.
pub const PIPELINE: u16 = 0x0b;
/// Attribute.
pub const ATTRIBUTE: u16 = 0x0c;
/// Comment of an object.
pub const COMMENT: u16 = 0x0d;
/// Modification time, in old files.
pub const MODIFICATION_TIME_OLD: u16 = 0x0e;
/// Location of the table of shared messages.
pub const SHARED_MESSAGE_TABLE: u16 = 0x0f;
/// Continuation block of an object header.
pub const CONTINUATION: u16 = 0x10;
/// Storage of an old-style group's links.
pub const SYMBOL_TABLE: u16 = 0x11;
/// Modification time.
pub const MODIFICATION_TIME: u16 = 0x12;
/// Node sizes (K values) of B-trees.
pub const BTREE_K: u16 = 0x13;
/// File driver information.
pub const DRIVER_INFORMATION: u16 = 0x14;
/// Storage of an object's attributes.
pub const ATTRIBUTE_INFO: u16 = 0x15;
/// Number of hard links to an object.
pub const REFERENCE_COUNT: u16 = 0x16;
/// File space management.
pub const FILE_SPACE: u16 = 0x17;
/// Location of the metadata cache image.
pub const CACHE_IMAGE: u16 = 0x18;

/// Flag of a shared message, whose data are stored elsewhere.
pub const SHARED: u8 = 0x02;

/// True if the specification defines this message type.
pub(crate) fn known(kind: u16) -> bool {
    kind <= CACHE_IMAGE && kind != BOGUS
}

/// True if messages of this type may be shared.
pub(crate) fn shareable(kind: u16) -> bool {
    matches!(kind, DATASPACE | DATATYPE | FILL_VALUE_OLD | FILL_VALUE | PIPELINE | ATTRIBUTE)
}

/// Creates a cursor at the start of an unshared message.
pub(crate) fn cursor<'m>(raw: &'m RawMessage, structure: &'static str) -> Cursor<'m> {
    Cursor::new(&raw.data, structure, raw.offset)
}

/// Flags of link info and attribute info messages.
struct IndexFlags {
    /// True if the creation order is tracked.
    tracked: bool,
    /// True if there is a B-tree by creation order.
    indexed: bool,
}

fn index_flags(cursor: &mut Cursor<'_>) -> Result<IndexFlags> {
    let flags = cursor.u8()?;
    if flags & !0x03 != 0 {
        return Err(cursor.error(format!("unknown flags {flags:#04x}")));
    }
    Ok(IndexFlags { tracked: flags & 0x01 != 0, indexed: flags & 0x02 != 0 })
}
