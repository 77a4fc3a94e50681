//! Where an old-style group keeps its links. Source: specification §IV.A.2.r, "The Symbol Table Message".

use crate::{Cursor, Result, Sizes};

/// The root of the B-tree and the local heap.
///
/// # Errors
/// Corrupt if it is damaged.
pub fn parse(cursor: &mut Cursor<'_>, sizes: Sizes) -> Result<(u64, u64)> {
    let (btree, heap) = (cursor.address(sizes)?, cursor.address(sizes)?);
    btree.zip(heap).ok_or_else(|| cursor.error("the address of the B-tree or the heap is undefined".into()))
}
