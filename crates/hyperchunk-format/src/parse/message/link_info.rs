//! Link info: storage of a new-style group's links. Source: specification §IV.A.2.c, "The Link Info Message".

use crate::{Cursor, Result, Sizes};

/// Storage of a new-style group's links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkInfo {
    /// True if the creation order is tracked.
    pub order_tracked: bool,
    /// Fractal heap with the links; `None` if they are in the header.
    pub heap: Option<u64>,
    /// B-tree by name.
    pub by_name: Option<u64>,
    /// B-tree by creation order.
    pub by_order: Option<u64>,
}

/// Reads a link info message.
///
/// # Errors
/// Corrupt or Unsupported if it is damaged.
pub fn parse(cursor: &mut Cursor<'_>, sizes: Sizes) -> Result<LinkInfo> {
    cursor.version(0..=0)?;
    let flags = super::index_flags(cursor)?;
    if flags.tracked && i64::from_le_bytes(cursor.array()?) < 0 {
        return Err(cursor.error("a negative number of created links".into()));
    }
    Ok(LinkInfo {
        order_tracked: flags.tracked,
        heap: cursor.address(sizes)?,
        by_name: cursor.address(sizes)?,
        by_order: if flags.indexed { cursor.address(sizes)? } else { None },
    })
}
