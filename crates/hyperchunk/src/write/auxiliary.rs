//! Structures of an object beside its header, in one region or each where an allocator puts it.

use crate::Result;
use hyperchunk_format::encode::blocks::{Allocate, Blocks, one_after_another};

/// Structures of an object beside its header, such as heaps and indexes.
pub(super) enum Auxiliary<'p> {
    /// One after another, from an address on.
    Joined { base: u64, bytes: Vec<u8> },
    /// Each at the address that a function returns, given its size.
    Placed { allocate: &'p mut Allocate<'p>, parts: Vec<Part> },
}

/// Address and bytes of a structure.
pub(super) type Part = (u64, Vec<u8>);

impl Auxiliary<'_> {
    /// Returns the bytes that are joined, with padding for what follows them.
    pub(super) fn into_joined(self) -> Vec<u8> {
        match self {
            Self::Joined { mut bytes, .. } => {
                bytes.resize(bytes.len().next_multiple_of(8), 0);
                bytes
            }
            Self::Placed { .. } => Vec::new(),
        }
    }

    /// Adds the blocks that a function encodes, given where they go.
    pub(super) fn add_blocks<T>(
        &mut self,
        encode: impl FnOnce(&mut Allocate<'_>) -> Result<(T, Blocks)>,
    ) -> Result<T> {
        match self {
            Self::Joined { base, bytes } => {
                bytes.resize(bytes.len().next_multiple_of(8), 0);
                let (value, blocks) = encode(&mut one_after_another(*base + bytes.len() as u64))?;
                bytes.extend(blocks.bytes);
                Ok(value)
            }
            Self::Placed { allocate, parts } => {
                let (value, blocks) = encode(*allocate)?;
                parts.extend(blocks.iter().map(|(address, block)| (address, block.to_vec())));
                Ok(value)
            }
        }
    }

    /// Adds one block, which a function encodes for its address; its size does not depend on that.
    pub(super) fn add<T>(&mut self, encode: impl Fn(u64) -> Result<(T, Vec<u8>)>) -> Result<T> {
        self.add_blocks(|allocate| {
            let size = encode(0)?.1.len() as u64;
            let address = if size > 0 { allocate(size)? } else { 0 };
            let (value, bytes) = encode(address)?;
            Ok((value, Blocks { bytes, extents: vec![(address, size)] }))
        })
    }
}
