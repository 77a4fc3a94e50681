//! Symbol tables: storage of an old-style group's links. Source: specification §IV.A.2.r, "The Symbol Table
//! Message".

use crate::{Cursor, Result, Sizes};

/// Reads the addresses of the B-tree's root and of the local heap.
///
/// # Errors
/// Corrupt if it is damaged.
pub fn parse(cursor: &mut Cursor<'_>, sizes: Sizes) -> Result<(u64, u64)> {
    let (btree, heap) = (cursor.address(sizes)?, cursor.address(sizes)?);
    btree.zip(heap).ok_or_else(|| cursor.error("the address of the B-tree or the heap is undefined".into()))
}
