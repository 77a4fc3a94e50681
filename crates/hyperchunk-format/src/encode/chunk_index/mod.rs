//! Chunk indexes: one interface to all kinds. Source: specification §III.A.1 (B-trees), §VII, "Appendix C:
//! Types of Indexes for Dataset Chunks".

mod btree_v1;
mod btree_v2;
mod extensible_array;
mod fixed_array;
mod implicit;
mod linear;
mod record;

use super::blocks::{Allocate, Blocks};
use super::{LibVersion, SIZES};
use crate::image::DEFAULT_CHUNK_K;
use crate::model::{Chunk, ChunkIndex};
use crate::parse::chunk_index::{ChunkMap, Format};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Kind of chunk index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Version 1 B-tree; layout version 3.
    BTreeV1,
    /// Single chunk for the whole dataset, without an index.
    Single,
    /// All chunks contiguous, in order and unfiltered, without an index.
    Implicit,
    /// Fixed array: a table of all chunks of the maximum extent.
    FixedArray,
    /// Extensible array: a table that grows along one unlimited dimension.
    ExtensibleArray,
    /// Version 2 B-tree.
    BTreeV2,
}

/// Encoded index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedIndex {
    /// Blocks of the index. Empty if no chunk is stored, or if the kind needs no structure.
    pub blocks: Blocks,
    /// Index for the layout message.
    pub index: ChunkIndex,
}

/// Addresses of the blocks of an array that is rewritten in place, so that concurrent readers still find it.
#[derive(Debug, Default)]
pub struct ArrayPlaces {
    /// Address of the header and the block after it.
    base: Option<u64>,
    /// Address of each super block, and of each data block in it, by their numbers.
    blocks: BTreeMap<(u32, Option<u64>), u64>,
}

impl ArrayPlaces {
    /// Returns the address of a block, which `take` allocates if the block is new.
    fn address_of(
        &mut self,
        block: (u32, Option<u64>),
        size: u64,
        take: &mut dyn FnMut(u64) -> Result<u64>,
    ) -> Result<u64> {
        Ok(match self.blocks.entry(block) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(take(size)?),
        })
    }
}

/// Index whose parts are written one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexParts {
    /// Address and bytes of each part, in the order in which they may be written while others read: a part
    /// refers only to earlier ones.
    pub parts: Vec<(u64, Vec<u8>)>,
    /// Index for the layout message.
    pub index: ChunkIndex,
}

/// Maximum number of chunks in a fixed array, which reserves space for every chunk, stored or not.
const MAX_FIXED_CHUNKS: u64 = 1 << 24;

/// Chooses the kind of index for a dataset of this extent as libhdf5 does, except that a version 2 B-tree
/// replaces an array that would have far too many unused entries, or too few entries.
///
/// With `early`, all chunks are allocated at creation, contiguous and in order.
#[must_use]
pub fn choose(
    dims: &[u64],
    max: &[Option<u64>],
    chunk_dims: &[u64],
    filtered: bool,
    early: bool,
    oldest: LibVersion,
) -> Kind {
    if oldest == LibVersion::V18 {
        return Kind::BTreeV1;
    }
    let is_largest = max.iter().zip(dims).all(|(max, dim)| *max == Some(*dim));
    if is_largest && dims == chunk_dims {
        return Kind::Single;
    }
    // Space for the maximum extent must be allocated, so only if that is the current extent.
    if is_largest && early && !filtered {
        return Kind::Implicit;
    }
    // Number of entries of an array; along the unlimited dimension, only the used ones.
    let mut extents = max.iter().zip(dims).zip(chunk_dims);
    let places = extents.try_fold(1_u64, |places, ((max, dim), chunk)| {
        places.checked_mul(max.unwrap_or(*dim).div_ceil((*chunk).max(1)))
    });
    match (max.iter().filter(|max| max.is_none()).count(), places) {
        (0, Some(..=MAX_FIXED_CHUNKS)) => Kind::FixedArray,
        (1, Some(..=extensible_array::MAX_CHUNKS)) => Kind::ExtensibleArray,
        _ => Kind::BTreeV2,
    }
}

/// True if `chunks`, given once each in any order, are all chunks that the dataset can have, unfiltered,
/// contiguous and in order. They then need no index; see `early` of [`choose`].
#[must_use]
pub fn side_by_side(map: &ChunkMap<'_>, chunks: &[Chunk]) -> bool {
    let is_largest = map.max.iter().zip(map.dims).all(|(max, dim)| *max == Some(*dim));
    is_largest && !map.filtered && implicit::side_by_side(map, chunks)
}

/// Encodes the index of `chunks`, given in any order. Chunks outside the dataset's extent are omitted. The
/// index in the layout of `map` is ignored.
///
/// # Errors
/// Invalid if a chunk does not fit this dataset, or the kind does not; Limit if a chunk or the index is too
/// large for the kind; the allocator's errors.
pub fn encode(
    kind: Kind,
    map: &ChunkMap<'_>,
    chunks: &[Chunk],
    allocate: &mut Allocate<'_>,
) -> Result<EncodedIndex> {
    encode_for(kind, map, chunks, DEFAULT_CHUNK_K, allocate)
}

/// Encodes the index of `chunks` as [`encode`], for a file whose superblock has another
/// [`chunk_k`](crate::model::Superblock::chunk_k).
///
/// # Errors
/// As [`encode`].
pub fn encode_for(
    kind: Kind,
    map: &ChunkMap<'_>,
    chunks: &[Chunk],
    chunk_k: u16,
    allocate: &mut Allocate<'_>,
) -> Result<EncodedIndex> {
    let format = check_map(kind, map)?;
    let chunks = in_order(map, &format, chunks)?;
    match kind {
        _ if chunks.is_empty() => Ok(empty(kind, map.filtered)),
        Kind::BTreeV1 => btree_v1::encode(map, &chunks, chunk_k, allocate),
        Kind::Single => implicit::single(map, &chunks),
        Kind::Implicit => implicit::chunks(map, &format, &chunks),
        Kind::FixedArray => fixed_array::encode(map, &format, &chunks, allocate),
        Kind::ExtensibleArray => extensible_array::encode(map, &format, &chunks, allocate),
        Kind::BTreeV2 => btree_v2::encode(&format, &chunks, allocate),
    }
    .map_err(|error| error.within("chunk index"))
}

/// Encodes the index of `chunks` as [`encode`], for a writer with concurrent readers: existing blocks keep
/// their addresses, and `take` allocates space for new ones. Kinds that are stored in the layout message
/// alone have no parts.
///
/// # Errors
/// As [`encode`]; Unsupported for B-trees; the errors of `take`.
pub fn encode_in_place(
    kind: Kind,
    map: &ChunkMap<'_>,
    chunks: &[Chunk],
    places: &mut ArrayPlaces,
    take: &mut dyn FnMut(u64) -> Result<u64>,
) -> Result<IndexParts> {
    let format = check_map(kind, map)?;
    let sorted = in_order(map, &format, chunks)?;
    let encoded = match kind {
        _ if sorted.is_empty() && places.base.is_none() => {
            return Ok(IndexParts { parts: Vec::new(), index: empty(kind, map.filtered).index });
        }
        Kind::ExtensibleArray => {
            let parts = extensible_array::encode_in_place(map, &format, &sorted, places, take);
            parts.map(|parts| IndexParts {
                parts,
                index: ChunkIndex::ExtensibleArray { address: places.base },
            })
        }
        Kind::FixedArray => fixed_array::encode_in_place(map, &format, &sorted, places, take),
        Kind::Single | Kind::Implicit => encode(kind, map, chunks, &mut |_| Ok(0))
            .map(|encoded| IndexParts { parts: Vec::new(), index: encoded.index }),
        Kind::BTreeV1 | Kind::BTreeV2 => {
            Err(Error::unsupported("cannot rewrite a B-tree of chunks in place"))
        }
    };
    encoded.map_err(|error| error.within("chunk index"))
}

/// Returns the index of a dataset without chunks, which has no bytes.
fn empty(kind: Kind, filtered: bool) -> EncodedIndex {
    let address = None;
    let index = match kind {
        Kind::BTreeV1 => ChunkIndex::BTreeV1 { address },
        Kind::Single => ChunkIndex::Single { address, filtered: filtered.then_some((0, 0)) },
        Kind::Implicit => ChunkIndex::Implicit { address },
        Kind::FixedArray => ChunkIndex::FixedArray { address },
        Kind::ExtensibleArray => ChunkIndex::ExtensibleArray { address },
        Kind::BTreeV2 => ChunkIndex::BTreeV2 { address },
    };
    index.into()
}

/// An index without blocks.
impl From<ChunkIndex> for EncodedIndex {
    fn from(index: ChunkIndex) -> Self {
        Self { blocks: Blocks::default(), index }
    }
}

/// Checks that the layout fits the kind and the dataspace.
fn check_map(kind: Kind, map: &ChunkMap<'_>) -> Result<Format> {
    let rank = map.dims.len();
    let chunk = &map.chunked.dims;
    if rank == 0 || map.max.len() != rank || chunk.len() != rank || chunk.contains(&0) {
        return Err(Error::invalid(format!("chunks of {chunk:?} elements in a dataset of rank {rank}")));
    }
    if map.dims.iter().zip(map.max).any(|(dim, max)| max.is_some_and(|max| *dim > max)) {
        return Err(Error::invalid("the dataset is larger than its maximum extent"));
    }
    let version = map.chunked.version;
    if (kind == Kind::BTreeV1) != (version < 4) {
        return Err(Error::invalid(format!("an index of kind {kind:?} in a layout of version {version}")));
    }
    Format::new(SIZES, map).map_err(|error| Error::limit(error.message()))
}

/// Returns the chunks inside the extent, sorted by coordinates.
fn in_order<'c>(map: &ChunkMap<'_>, format: &Format, chunks: &'c [Chunk]) -> Result<Vec<&'c Chunk>> {
    let counts: Vec<u64> =
        map.dims.iter().zip(&map.chunked.dims).map(|(dim, chunk)| dim.div_ceil((*chunk).max(1))).collect();
    // Sorts by the number in the extent, which is far faster to compare than coordinates. Chunks whose
    // numbers exceed 64 bits are sorted by coordinates.
    let mut inside = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        if chunk.scaled.len() != counts.len() {
            let message = format!("chunk {:?} in a dataset of rank {}", chunk.scaled, counts.len());
            return Err(Error::invalid(message));
        }
        if chunk.scaled.iter().zip(&counts).all(|(at, count)| at < count) {
            check(chunk, map, format)?;
            let axes = chunk.scaled.iter().zip(&counts);
            let number = axes.fold(0_u64, |key, (at, count)| key.saturating_mul(*count).saturating_add(*at));
            inside.push((number, chunk));
        }
    }
    let compare = |one: &(u64, &Chunk), other: &(u64, &Chunk)| {
        one.0.cmp(&other.0).then_with(|| one.1.scaled.cmp(&other.1.scaled))
    };
    inside.sort_unstable_by(compare);
    let mut pairs = inside.iter().zip(inside.iter().skip(1));
    if let Some(((_, chunk), _)) = pairs.find(|(one, other)| compare(one, other).is_eq()) {
        return Err(Error::invalid(format!("duplicate chunk {:?}", chunk.scaled)));
    }
    Ok(inside.into_iter().map(|(_, chunk)| chunk).collect())
}

/// Checks that an index can represent the chunk.
fn check(chunk: &Chunk, map: &ChunkMap<'_>, format: &Format) -> Result<()> {
    let Chunk { scaled, address, size, filter_mask } = chunk;
    if *address == super::UNDEFINED || *size == 0 {
        return Err(Error::invalid(format!("invalid chunk {scaled:?} of {size} bytes at {address:#x}")));
    }
    if !map.filtered && (*size != format.chunk_bytes || *filter_mask != 0) {
        let message = format!(
            "chunk {scaled:?} of {size} bytes with filter mask {filter_mask:#x}: without filters, all are of {} bytes",
            format.chunk_bytes
        );
        return Err(Error::invalid(message));
    }
    // Version 4 could hold larger sizes, but the libraries that know no later version cannot.
    if map.chunked.version < 5 && *size > u32::MAX.into() {
        return Err(Error::limit(format!(
            "chunk {scaled:?} of {size} bytes: more than 4 GiB need HDF5 2.0 and layouts of version 5"
        )));
    }
    // Version 1 B-trees always use four bytes for the size.
    if map.filtered
        && map.chunked.version >= 4
        && *size >= 256_u64.checked_pow(format.size_width.try_into().unwrap_or(8)).unwrap_or(u64::MAX)
    {
        let message = format!("chunk {scaled:?} of {size} bytes: filters made it too large for the index");
        return Err(Error::limit(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
