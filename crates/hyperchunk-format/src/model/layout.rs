//! Where the data of a dataset lie. Source: specification §IV.A.2.i, "Data Layout"; §III, chunk indexes.

use super::{Name, Selection};

/// Where the data of a dataset lie.
#[derive(Debug, Clone, PartialEq)]
pub enum Layout {
    /// In the object header.
    Compact {
        /// All of them.
        data: Vec<u8>,
    },
    /// In one piece of the file, or in external files.
    Contiguous {
        /// Where; `None` while nothing is allocated.
        address: Option<u64>,
        /// How many bytes, where the message says so. Layouts of version 1 and 2 do not.
        size: Option<u64>,
    },
    /// In chunks of equal extent.
    Chunked(Chunked),
    /// In other datasets.
    Virtual {
        /// The global heap object with the mappings: collection's address and index; `None` while there are none.
        heap: Option<(u64, u32)>,
    },
}

/// The chunks of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunked {
    /// The extent of a chunk in elements, slowest dimension first; no 0 among them.
    pub dims: Vec<u64>,
    /// The size of an element in bytes, as the layout states it.
    pub element_size: u64,
    /// Chunks that reach beyond the dataset's extent are stored without filters.
    pub edge_chunks_unfiltered: bool,
    /// The version of the layout message: decides how wide the sizes of filtered chunks are (5: as lengths).
    pub version: u8,
    /// Where to look up a chunk.
    pub index: ChunkIndex,
}

impl Chunked {
    /// The elements of a chunk, in its order, up to the last one inside the extent of the dataset: some writers store no more.
    #[must_use]
    pub fn elements_inside(&self, place: &[u64], extent: &[u64]) -> u64 {
        let mut last = 0_u64;
        for ((dim, scaled), extent) in self.dims.iter().zip(place).zip(extent) {
            let inside = extent.saturating_sub(scaled.saturating_mul(*dim)).min(*dim);
            let Some(at) = inside.checked_sub(1) else { return 0 };
            last = last.saturating_mul(*dim).saturating_add(at);
        }
        last.saturating_add(1)
    }
}

/// Where to look up a chunk. An address of `None`: no chunk is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkIndex {
    /// A version 1 B-tree, node type 1.
    BTreeV1 {
        /// The root node.
        address: Option<u64>,
    },
    /// One chunk for the whole dataset.
    Single {
        /// The chunk.
        address: Option<u64>,
        /// Its stored size and filter mask, where it is filtered.
        filtered: Option<(u64, u32)>,
    },
    /// All chunks one after another, in order, unfiltered.
    Implicit {
        /// The first chunk.
        address: Option<u64>,
    },
    /// A fixed array.
    FixedArray {
        /// Its header.
        address: Option<u64>,
    },
    /// An extensible array.
    ExtensibleArray {
        /// Its header.
        address: Option<u64>,
    },
    /// A version 2 B-tree, record type 10 or 11.
    BTreeV2 {
        /// Its header.
        address: Option<u64>,
    },
}

/// A stored chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its first element's coordinates divided by the chunk's extent: the chunk's place in the grid of chunks.
    pub scaled: Vec<u64>,
    /// Where it lies.
    pub address: u64,
    /// How many bytes are stored.
    pub size: u64,
    /// Bit i set: filter i of the pipeline was left out.
    pub filter_mask: u32,
}

/// A part of a dataset's raw data in another file. Source: §IV.A.2.h, "External Data Files".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalFile {
    /// The file, as the writer named it.
    pub name: Name,
    /// Where in that file the part starts.
    pub offset: u64,
    /// How many bytes; `None` for no bound.
    pub size: Option<u64>,
}

/// A source of a virtual dataset. Source: §III.H, "Disk Format: Global Heap Block for Virtual Datasets".
#[derive(Debug, Clone, PartialEq)]
pub struct VirtualMapping {
    /// The file; `.` is the virtual dataset's own.
    pub file: SourceName,
    /// The dataset in it.
    pub dataset: SourceName,
    /// Which of its elements.
    pub source: Selection,
    /// Which elements of the virtual dataset they are.
    pub target: Selection,
}

/// A source's name, with `%b` where the number of a block goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceName {
    /// The literal parts; a block's number goes between each two. One part: a plain name.
    pub parts: Vec<Name>,
}
