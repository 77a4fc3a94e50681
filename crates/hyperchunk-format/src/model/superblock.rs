//! The superblock. Source: specification §II.A.

use crate::Sizes;

/// What a file says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// 0 to 3.
    pub version: u8,
    /// Where the signature was found: all addresses count from here. Bytes before it are the user block.
    pub base: u64,
    /// The widths of addresses and lengths.
    pub sizes: Sizes,
    /// Where the file ends, relative to the base (already lowered if the stored base differs from the found one).
    pub end: u64,
    /// The root group's object header.
    pub root: u64,
    /// Group B-trees' and chunk B-trees' rank (K), and the number of symbols a leaf holds (K): version 0 and 1, or the extension.
    pub group_leaf_k: u16,
    /// "Group internal node K".
    pub group_internal_k: u16,
    /// "Indexed storage internal node K".
    pub chunk_k: u16,
    /// The superblock extension's object header.
    pub extension: Option<u64>,
    /// The driver information block.
    pub driver: Option<u64>,
    /// File consistency flags: 1 open for writing, 4 open for single-writer/multiple-reader.
    pub flags: u32,
    /// The table of shared object header messages (address), from the extension.
    pub shared_messages: Option<u64>,
}
