//! Object headers. Source: specification §IV.A.1.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Object header: the messages of all its blocks, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectHeader {
    /// Address.
    pub address: u64,
    /// Version, 1 or 2.
    pub version: u8,
    /// Number of hard links to the object, where the header stores it.
    pub reference_count: u32,
    /// Access, modification, change and birth time (version 2).
    pub times: Option<Times>,
    /// True if the creation order of attributes is tracked.
    pub attribute_order_tracked: bool,
    /// True if the creation order of attributes is indexed.
    pub attribute_order_indexed: bool,
    /// Size of its first block in bytes, prefix and checksum included.
    pub first_block_bytes: u64,
    /// Address and size in bytes of each continuation block.
    pub continuations: Vec<(u64, u64)>,
    /// Messages, except null, continuation and reference count messages.
    pub messages: Vec<RawMessage>,
}

/// Byte range of a reference-counted block.
#[derive(Clone)]
pub struct Part {
    block: Arc<[u8]>,
    range: Range<usize>,
}

impl Part {
    /// Creates a part of a block; it is empty if the block is shorter than the range.
    #[must_use]
    pub fn new(block: &Arc<[u8]>, range: Range<usize>) -> Self {
        Self { block: Arc::clone(block), range }
    }
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.block.get(self.range.clone()).unwrap_or_default()
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Part {}

/// Message as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawMessage {
    /// Message type number.
    pub kind: u16,
    /// Message flags.
    pub flags: u8,
    /// Creation order.
    pub creation_order: Option<u16>,
    /// Offset of the data in the file.
    pub offset: u64,
    /// Message data. For a shared message, parsing looks up the shared data.
    pub data: Part,
}

/// Times of an object, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Last access.
    pub access: u32,
    /// Last modification.
    pub modification: u32,
    /// Last change of the header.
    pub change: u32,
    /// Birth.
    pub birth: u32,
}

/// Kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A group.
    Group,
    /// A dataset.
    Dataset,
    /// A committed datatype.
    Datatype,
}

/// Storage of a group's links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkStorage {
    /// Version 1 B-tree and local heap.
    SymbolTable {
        /// Address of the B-tree's root.
        btree: u64,
        /// Address of the local heap.
        heap: u64,
    },
    /// Link messages in the object header.
    Compact,
    /// Fractal heap.
    Dense {
        /// Address of the fractal heap's header.
        heap: u64,
        /// Address of the B-tree by name.
        by_name: u64,
        /// Address of the B-tree by creation order.
        by_order: Option<u64>,
    },
}
