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
    /// "Group leaf node K": half of how many symbols a symbol table node holds. This and the next two are of version 0 and
    /// 1 or the extension, else the library's defaults.
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
    /// The table of shared object header messages, from the extension.
    pub shared_messages: Option<SharedMessageTable>,
    /// The metadata cache image, from the extension.
    pub cache_image: Option<CacheImage>,
}

/// Where the table of shared object header messages lies. Source: §IV.A.2.p, "Shared Message Table".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedMessageTable {
    /// The table.
    pub address: u64,
    /// How many indexes it has.
    pub indexes: u8,
}

/// Where metadata lie that were in the writer's cache when it closed the file. Source: HDF5 1.10 and later, message 0x18.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheImage {
    /// The block.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
}
