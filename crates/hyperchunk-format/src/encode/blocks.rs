//! Blocks: parts of a structure that may be anywhere in a file, such as the nodes of a tree.

use crate::{Error, Result};

/// Address and size of a block, in bytes.
pub type Extent = (u64, u64);

/// Allocator of blocks: returns the address of the next one, given its size in bytes.
pub type Allocate<'a> = dyn FnMut(u64) -> Result<u64> + 'a;

/// Encoded blocks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Blocks {
    /// Bytes of all blocks, in order.
    pub bytes: Vec<u8>,
    /// Address and size of each block.
    pub extents: Vec<Extent>,
}

impl Blocks {
    /// Returns the address of the first block.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.extents.first().map(|(address, _)| *address)
    }

    /// Adds the blocks of another structure.
    pub fn append(&mut self, mut other: Self) {
        self.bytes.append(&mut other.bytes);
        self.extents.append(&mut other.extents);
    }

    /// Returns the address and the bytes of each block.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut rest = self.bytes.as_slice();
        self.extents.iter().map(move |(address, size)| {
            let size = usize::try_from(*size).unwrap_or(usize::MAX).min(rest.len());
            let (block, after) = rest.split_at_checked(size).unwrap_or((rest, &[]));
            rest = after;
            (*address, block)
        })
    }
}

/// Returns an allocator that puts blocks one after another, from `base` on. Its errors are of kind Limit.
pub fn one_after_another(base: u64) -> impl FnMut(u64) -> Result<u64> {
    let mut next = base;
    move |size| {
        let address = next;
        next = next.checked_add(size).ok_or_else(|| Error::limit("structures beyond 2⁶⁴ bytes"))?;
        Ok(address)
    }
}
