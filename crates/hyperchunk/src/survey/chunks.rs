//! Properties of a dataset that locate its chunks.

use hyperchunk_format::model::{ChunkIndex, Chunked, Dataspace, Layout};
use hyperchunk_format::parse::chunk_index::ChunkMap;
use hyperchunk_format::parse::object::DatasetHeader;

/// A chunked dataset, its extent, and the number of chunks along each axis.
pub(crate) struct ChunkedDataset<'d> {
    pub(crate) chunked: &'d Chunked,
    pub(crate) map: ChunkMap<'d>,
    pub(crate) grid: Vec<u64>,
}

impl<'d> ChunkedDataset<'d> {
    /// Returns `None` if the dataset is not chunked.
    pub(crate) fn new(header: &'d DatasetHeader) -> Option<Self> {
        let (Layout::Chunked(chunked), Dataspace::Simple { dims, max }) = (&header.layout, &header.dataspace)
        else {
            return None;
        };
        if chunked.dims.len() != dims.len() || chunked.dims.contains(&0) {
            return None;
        }
        let map = ChunkMap { chunked, dims, max, filtered: !header.pipeline.is_empty() };
        Some(Self { chunked, map, grid: grid(dims, &chunked.dims) })
    }

    /// Returns the number of stored chunks if no index has to be read: 1 for a single chunk, all for an
    /// implicit index. 0 for other indexes.
    pub(crate) fn unindexed(&self) -> u64 {
        match self.chunked.index {
            ChunkIndex::Single { address: Some(_), .. } => 1,
            ChunkIndex::Implicit { address: Some(_) } => {
                self.grid.iter().fold(1, |all, count| all.saturating_mul(*count))
            }
            _ => 0,
        }
    }

    /// Returns whether finding a chunk takes an index besides the dataset's header.
    pub(crate) fn is_indexed(&self) -> bool {
        match self.chunked.index {
            ChunkIndex::Single { .. } | ChunkIndex::Implicit { .. } => false,
            ChunkIndex::BTreeV1 { address }
            | ChunkIndex::FixedArray { address }
            | ChunkIndex::ExtensibleArray { address }
            | ChunkIndex::BTreeV2 { address } => address.is_some(),
        }
    }
}

/// Returns the number of chunks along each axis.
pub(crate) fn grid(dims: &[u64], chunk: &[u64]) -> Vec<u64> {
    dims.iter().zip(chunk).map(|(extent, chunk)| extent.div_ceil((*chunk).max(1))).collect()
}
