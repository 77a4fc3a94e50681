//! Storage layouts of datasets. Source: specification §IV.A.2.i, "Data Layout"; §III, chunk indexes.

use super::{Name, StoredSelection};

/// Storage layout of a dataset.
#[derive(Debug, Clone, PartialEq)]
pub enum Layout {
    /// In the object header.
    Compact {
        /// All elements.
        data: Vec<u8>,
    },
    /// One contiguous block of the file, or external files.
    Contiguous {
        /// Address; `None` before allocation.
        address: Option<u64>,
        /// Size in bytes, where the message has it. Versions 1 and 2 do not.
        size: Option<u64>,
    },
    /// Chunks of equal extent.
    Chunked(Chunked),
    /// Elements of other datasets.
    Virtual {
        /// Global heap object with the mappings: address of the collection and index; `None` if there are no
        /// mappings.
        heap: Option<(u64, u32)>,
    },
}

/// Chunking of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunked {
    /// Extent of a chunk in elements, slowest dimension first; never 0.
    pub dims: Vec<u64>,
    /// Size of an element in bytes, as the layout states it.
    pub element_size: u64,
    /// True if chunks that extend past the dataset's extent are stored without filters.
    pub edge_chunks_unfiltered: bool,
    /// Version of the layout message. In version 5, a chunk index stores the sizes of filtered chunks with
    /// the file's size of lengths.
    pub version: u8,
    /// Chunk index.
    pub index: ChunkIndex,
}

impl Chunked {
    /// Returns the number of elements of the chunk at `scaled`, in storage order, up to and including the
    /// last one inside the dataset's extent. Some writers store no more.
    #[must_use]
    pub fn elements_inside(&self, scaled: &[u64], extent: &[u64]) -> u64 {
        let mut last = 0_u64;
        for ((dim, index), extent) in self.dims.iter().zip(scaled).zip(extent) {
            let inside = extent.saturating_sub(index.saturating_mul(*dim)).min(*dim);
            let Some(at) = inside.checked_sub(1) else { return 0 };
            last = last.saturating_mul(*dim).saturating_add(at);
        }
        last.saturating_add(1)
    }
}

/// Chunk index. An address of `None` means that no chunk is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkIndex {
    /// Version 1 B-tree, node type 1.
    BTreeV1 {
        /// Address of the root node.
        address: Option<u64>,
    },
    /// Single chunk for the whole dataset.
    Single {
        /// Address of the chunk.
        address: Option<u64>,
        /// Stored size and filter mask, if the chunk is filtered.
        filtered: Option<(u64, u32)>,
    },
    /// All chunks in order, contiguous and unfiltered.
    Implicit {
        /// Address of the first chunk.
        address: Option<u64>,
    },
    /// Fixed array.
    FixedArray {
        /// Address of the header.
        address: Option<u64>,
    },
    /// Extensible array.
    ExtensibleArray {
        /// Address of the header.
        address: Option<u64>,
    },
    /// Version 2 B-tree, record type 10 or 11.
    BTreeV2 {
        /// Address of the header.
        address: Option<u64>,
    },
}

/// Stored chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Coordinates of its first element divided by the chunk's extent: its position in the grid of chunks.
    pub scaled: Vec<u64>,
    /// Address.
    pub address: u64,
    /// Stored size in bytes.
    pub size: u64,
    /// Filter mask. Bit i set: filter i of the pipeline was skipped.
    pub filter_mask: u32,
}

/// Part of a dataset's raw data in another file. Source: §IV.A.2.h, "External Data Files".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalFile {
    /// Name of the file, as the writer gave it.
    pub name: Name,
    /// Offset of the part in that file.
    pub offset: u64,
    /// Size in bytes; `None` if unlimited.
    pub size: Option<u64>,
}

/// Mapping of a virtual dataset to a source dataset. Source: §III.H, "Disk Format: Global Heap Block for
/// Virtual Datasets".
#[derive(Debug, Clone, PartialEq)]
pub struct VirtualMapping {
    /// Source file; `.` is the virtual dataset's own file.
    pub file: SourceName,
    /// Source dataset.
    pub dataset: SourceName,
    /// Selected elements of the source.
    pub source: StoredSelection,
    /// Corresponding elements of the virtual dataset.
    pub target: StoredSelection,
}

/// Printf-style name of a source, in which `%b` stands for the number of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceName {
    /// Literal parts, between which the block's number is inserted. A single part is a plain name.
    pub parts: Vec<Name>,
}
