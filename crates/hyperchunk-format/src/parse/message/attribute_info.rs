//! Attribute info: storage of an object's attributes. Source: specification §IV.A.2.v, "The Attribute Info
//! Message".

use crate::{Cursor, Result, Sizes};

/// Storage of an object's attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeInfo {
    /// True if the creation order is tracked.
    pub order_tracked: bool,
    /// Fractal heap with the attributes; `None` if they are in the header.
    pub heap: Option<u64>,
    /// B-tree by name.
    pub by_name: Option<u64>,
    /// B-tree by creation order.
    pub by_order: Option<u64>,
}

/// Reads an attribute info message.
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
