//! Where an object keeps its attributes. Source: specification §IV.A.2.v, "The Attribute Info Message".

use crate::{Cursor, Result, Sizes};

/// Where an object keeps its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeInfo {
    /// Whether the order of creation is tracked.
    pub order_tracked: bool,
    /// The fractal heap with the attributes; `None` if they are in the header.
    pub heap: Option<u64>,
    /// The B-tree by name.
    pub by_name: Option<u64>,
    /// The B-tree by order of creation.
    pub by_order: Option<u64>,
}

/// An attribute info message.
///
/// # Errors
/// Corrupt or Unsupported if it is damaged.
pub fn parse(cursor: &mut Cursor<'_>, sizes: Sizes) -> Result<AttributeInfo> {
    cursor.version(0..=0)?;
    let flags = super::index_flags(cursor)?;
    if flags.tracked {
        cursor.skip(2)?;
    }
    Ok(AttributeInfo {
        order_tracked: flags.tracked,
        heap: cursor.address(sizes)?,
        by_name: cursor.address(sizes)?,
        by_order: if flags.indexed { cursor.address(sizes)? } else { None },
    })
}
