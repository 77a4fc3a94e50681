//! The superblock. Source: specification §II.A.

/// Widths of addresses and lengths in a file, in bytes (2, 4, 8, 16 or 32).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// "Size of offsets".
    pub address: u8,
    /// "Size of lengths".
    pub length: u8,
}

impl Sizes {
    /// Widths in written files.
    pub(crate) const WRITTEN: Self = Self { address: 8, length: 8 };
}

/// Superblock: version, sizes and addresses of the file's top-level structures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Version, 0 to 3.
    pub version: u8,
    /// Base address: the offset of the signature, from which all addresses count. Bytes before it are the
    /// user block.
    pub base: u64,
    /// Widths of addresses and lengths.
    pub sizes: Sizes,
    /// End of the file, relative to the base (already corrected if the stored base differs from the actual
    /// one).
    pub end: u64,
    /// Address of the root group's object header.
    pub root: u64,
    /// "Group leaf node K": half the number of symbols in a symbol table node. This and the next two fields
    /// come from versions 0 and 1 or from the extension; otherwise they are the library's defaults.
    pub group_leaf_k: u16,
    /// "Group internal node K".
    pub group_internal_k: u16,
    /// "Indexed storage internal node K".
    pub chunk_k: u16,
    /// Address of the superblock extension's object header.
    pub extension: Option<u64>,
    /// Address of the driver information block.
    pub driver: Option<u64>,
    /// File consistency flags: 1 open for writing, 4 open for single-writer/multiple-reader.
    pub flags: u32,
    /// Table of shared object header messages, from the extension.
    pub shared_messages: Option<SharedMessageTable>,
    /// Metadata cache image, from the extension.
    pub cache_image: Option<CacheImage>,
}

/// Location of the table of shared object header messages. Source: §IV.A.2.p, "Shared Message Table".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedMessageTable {
    /// Address.
    pub address: u64,
    /// Number of indexes.
    pub indexes: u8,
}

/// Location of the metadata cache image that the writer stored when it closed the file. Source: HDF5 1.10 and
/// later, message 0x18.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheImage {
    /// Address of the block.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
}
