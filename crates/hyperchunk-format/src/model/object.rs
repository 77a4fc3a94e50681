//! Object headers. Source: specification §IV.A.1.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// An object header: its messages, of all its blocks, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectHeader {
    /// Where it lies.
    pub address: u64,
    /// 1 or 2.
    pub version: u8,
    /// How many hard links lead to it, where it says so.
    pub reference_count: u32,
    /// Version 2: access, modification, change and birth time.
    pub times: Option<Times>,
    /// Whether attributes' order of creation is tracked.
    pub attribute_order_tracked: bool,
    /// Whether attributes can be listed in it.
    pub attribute_order_indexed: bool,
    /// The messages, without null, continuation and reference count messages.
    pub messages: Vec<RawMessage>,
}

/// Bytes that share their memory with others of the same block.
#[derive(Clone)]
pub struct Part {
    block: Arc<[u8]>,
    range: Range<usize>,
}

impl Part {
    /// Part of a block; none of it if it has not all of the range.
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

/// A message as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawMessage {
    /// Its type number.
    pub kind: u16,
    /// Its flags.
    pub flags: u8,
    /// Its number in the order of creation.
    pub creation_order: Option<u16>,
    /// Where its data lie in the file.
    pub offset: u64,
    /// Its data; where it is shared, the shared message's own are looked up when it is parsed.
    pub data: Part,
}

/// Times in seconds since 1970.
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

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A group.
    Group,
    /// A dataset.
    Dataset,
    /// A committed datatype.
    Datatype,
}

/// Where a group keeps its links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkStorage {
    /// In a version 1 B-tree and a local heap.
    SymbolTable {
        /// The B-tree's root.
        btree: u64,
        /// The local heap.
        heap: u64,
    },
    /// In the header's link messages.
    Compact,
    /// In a fractal heap.
    Dense {
        /// The fractal heap's header.
        heap: u64,
        /// The B-tree by name.
        by_name: u64,
        /// The B-tree by order of creation.
        by_order: Option<u64>,
    },
}
