//! Structures of an object outside of its header, such as heaps and indexes.

use crate::Result;
use hyperchunk_format::encode::blocks::{Allocate, Blocks, one_after_another};

/// Structures of an object outside of its header.
pub(super) enum Auxiliary<'p> {
    /// Stored contiguously from the address `base` on.
    Joined { base: u64, bytes: Vec<u8> },
    /// Each stored at the address that the function `allocate` returns for its size.
    Placed { allocate: &'p mut Allocate<'p>, parts: Vec<Part> },
}

/// Address and bytes of a structure.
pub(super) type Part = (u64, Vec<u8>);

impl Auxiliary<'_> {
    /// Returns the contiguous bytes, padded to a multiple of eight.
    pub(super) fn into_joined(self) -> Vec<u8> {
        match self {
            Self::Joined { mut bytes, .. } => {
                bytes.resize(bytes.len().next_multiple_of(8), 0);
                bytes
            }
            Self::Placed { .. } => Vec::new(),
        }
    }

    /// Adds the blocks that `encode` returns; it gets a function that allocates their addresses.
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

    /// Adds one block. `encode` encodes it for its address, on which its size must not depend.
    pub(super) fn add<T>(&mut self, encode: impl Fn(u64) -> Result<(T, Vec<u8>)>) -> Result<T> {
        self.add_blocks(|allocate| {
            let size = encode(0)?.1.len() as u64;
            let address = if size > 0 { allocate(size)? } else { 0 };
            let (value, bytes) = encode(address)?;
            Ok((value, Blocks { bytes, extents: vec![(address, size)] }))
        })
    }
}
