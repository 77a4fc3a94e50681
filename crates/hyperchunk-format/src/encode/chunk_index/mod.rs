//! Where the chunks of a dataset lie: one interface over all kinds of index. Source: specification §III.A.1 (B-trees), §VII,
//! "Appendix C: Types of Indexes for Dataset Chunks".

mod btree_v1;
mod btree_v2;
mod extensible_array;
mod fixed_array;
mod implicit;
mod linear;
mod record;

use super::{Oldest, SIZES};
use crate::model::{Chunk, ChunkIndex};
use crate::parse::chunk_index::{ChunkMap, Format};
use crate::{Error, Result};

/// A kind of index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A version 1 B-tree; layout version 3.
    BTreeV1,
    /// None: one chunk for the whole dataset.
    Single,
    /// None: all chunks one after another, in order, unfiltered.
    Implicit,
    /// A fixed array: a table of all chunks of the largest extent.
    FixedArray,
    /// An extensible array: a table that grows along one unlimited dimension.
    ExtensibleArray,
    /// A version 2 B-tree.
    BTreeV2,
}

/// An index, ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// What lies at the base. Empty if nothing is stored, or the kind needs no structure.
    pub bytes: Vec<u8>,
    /// What the layout message says of it.
    pub index: ChunkIndex,
}

/// More chunks than a fixed array shall have: all have a place in it, whether they are stored or not.
const MOST_FIXED: u64 = 1 << 24;

/// The kind that libhdf5 chooses, too, for a dataset of this extent; but a version 2 B-tree where an array would have far
/// more places than anybody fills, or too few.
///
/// `early`: all chunks are allocated when the dataset is made, side by side and in order.
#[must_use]
pub fn choose(
    dims: &[u64],
    max: &[Option<u64>],
    chunk_dims: &[u64],
    filtered: bool,
    early: bool,
    oldest: Oldest,
) -> Kind {
    if oldest == Oldest::V18 {
        return Kind::BTreeV1;
    }
    let is_largest = max.iter().zip(dims).all(|(max, dim)| *max == Some(*dim));
    if is_largest && dims == chunk_dims {
        return Kind::Single;
    }
    // Room for the largest extent would have to be kept: only where that is the extent.
    if is_largest && early && !filtered {
        return Kind::Implicit;
    }
    // How many places an array has; of the unlimited dimension, those in use.
    let mut extents = max.iter().zip(dims).zip(chunk_dims);
    let places = extents.try_fold(1_u64, |places, ((max, dim), chunk)| {
        places.checked_mul(max.unwrap_or(*dim).div_ceil((*chunk).max(1)))
    });
    match (max.iter().filter(|max| max.is_none()).count(), places) {
        (0, Some(..=MOST_FIXED)) => Kind::FixedArray,
        (1, Some(..=extensible_array::MOST)) => Kind::ExtensibleArray,
        _ => Kind::BTreeV2,
    }
}

/// Whether `chunks`, in any order and each there once, are all that the dataset may have, unfiltered, side by side and in
/// order: then they need no index, see `early` of [`choose`].
#[must_use]
pub fn side_by_side(map: &ChunkMap<'_>, chunks: &[Chunk]) -> bool {
    let is_largest = map.max.iter().zip(map.dims).all(|(max, dim)| *max == Some(*dim));
    is_largest && !map.filtered && implicit::side_by_side(map, chunks)
}

/// The index of `chunks`, which may come in any order, to lie at `base`. Chunks beyond the dataset's extent are left out.
/// Of `map`, the index in its layout does not matter.
///
/// # Errors
/// Invalid, if a chunk cannot be of this dataset, or the kind does not suit it; Limit, if a chunk or the index is too large
/// for the kind.
pub fn encode(kind: Kind, map: &ChunkMap<'_>, chunks: &[Chunk], base: u64) -> Result<Encoded> {
    let format = check_map(kind, map)?;
    let chunks = in_order(map, &format, chunks)?;
    match kind {
        _ if chunks.is_empty() => Ok(empty(kind, map.filtered)),
        Kind::BTreeV1 => btree_v1::encode(map, &chunks, base),
        Kind::Single => implicit::single(map, &chunks),
        Kind::Implicit => implicit::chunks(map, &format, &chunks),
        Kind::FixedArray => fixed_array::encode(map, &format, &chunks, base),
        Kind::ExtensibleArray => extensible_array::encode(map, &format, &chunks, base),
        Kind::BTreeV2 => btree_v2::encode(&format, &chunks, base),
    }
    .map_err(|error| error.within("chunk index"))
}

/// The index of a dataset without chunks: nothing at all.
fn empty(kind: Kind, filtered: bool) -> Encoded {
    let address = None;
    let index = match kind {
        Kind::BTreeV1 => ChunkIndex::BTreeV1 { address },
        Kind::Single => ChunkIndex::Single { address, filtered: filtered.then_some((0, 0)) },
        Kind::Implicit => ChunkIndex::Implicit { address },
        Kind::FixedArray => ChunkIndex::FixedArray { address },
        Kind::ExtensibleArray => ChunkIndex::ExtensibleArray { address },
        Kind::BTreeV2 => ChunkIndex::BTreeV2 { address },
    };
    Encoded { bytes: Vec::new(), index }
}

/// Checks that the layout suits the kind and the dataspace.
fn check_map(kind: Kind, map: &ChunkMap<'_>) -> Result<Format> {
    let rank = map.dims.len();
    let chunk = &map.chunked.dims;
    if rank == 0 || map.max.len() != rank || chunk.len() != rank || chunk.contains(&0) {
        return Err(Error::invalid(format!("chunks of {chunk:?} elements in a dataset of rank {rank}")));
    }
    if map.dims.iter().zip(map.max).any(|(dim, max)| max.is_some_and(|max| *dim > max)) {
        return Err(Error::invalid("the dataset is larger than the largest extent it may get"));
    }
    let version = map.chunked.version;
    if (kind == Kind::BTreeV1) != (version < 4) {
        return Err(Error::invalid(format!("an index of kind {kind:?} in a layout of version {version}")));
    }
    Format::new(SIZES, map).map_err(|error| Error::limit(error.message()))
}

/// The chunks inside the extent, in order of their places.
fn in_order<'c>(map: &ChunkMap<'_>, format: &Format, chunks: &'c [Chunk]) -> Result<Vec<&'c Chunk>> {
    let counts: Vec<u64> =
        map.dims.iter().zip(&map.chunked.dims).map(|(dim, chunk)| dim.div_ceil((*chunk).max(1))).collect();
    // By number in the extent, which is far faster to compare than places are; those from 2⁶⁴ on by place.
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
        return Err(Error::invalid(format!("chunk {:?} is there twice", chunk.scaled)));
    }
    Ok(inside.into_iter().map(|(_, chunk)| chunk).collect())
}

/// Checks that an index can describe the chunk.
fn check(chunk: &Chunk, map: &ChunkMap<'_>, format: &Format) -> Result<()> {
    let Chunk { scaled, address, size, filter_mask } = chunk;
    if *address == super::UNDEFINED || *size == 0 {
        return Err(Error::invalid(format!("chunk {scaled:?} of {size} bytes at {address:#x}")));
    }
    if !map.filtered && (*size != format.chunk_bytes || *filter_mask != 0) {
        let message = format!(
            "chunk {scaled:?} of {size} bytes with filter mask {filter_mask:#x}: without filters, all are of {} bytes",
            format.chunk_bytes
        );
        return Err(Error::invalid(message));
    }
    // The form of version 4 has room for more, but the libraries that know no later one have none.
    if map.chunked.version < 5 && *size > u32::MAX.into() {
        return Err(Error::limit(format!(
            "chunk {scaled:?} of {size} bytes: more than 4 GiB need HDF5 2.0 and layouts of version 5"
        )));
    }
    // Version 1 B-trees always have four bytes for it.
    if map.filtered
        && map.chunked.version >= 4
        && *size >= 256_u64.checked_pow(format.size_width.try_into().unwrap_or(8)).unwrap_or(u64::MAX)
    {
        let message = format!("chunk {scaled:?} of {size} bytes: filters made it too large for the index");
        return Err(Error::limit(message));
    }
    Ok(())
}

/// Where the pieces of an index lie that are all of one size, one after the other.
#[derive(Debug, Clone, Copy)]
struct Place {
    base: u64,
    size: u64,
    bytes: usize,
}

impl Place {
    fn new(base: u64, count: usize, size: usize) -> Result<Self> {
        let bytes = count.checked_mul(size).filter(|bytes| base.checked_add(*bytes as u64).is_some());
        let bytes = bytes.ok_or_else(|| Error::limit("an index beyond 2⁶⁴ bytes"))?;
        Ok(Self { base, size: size as u64, bytes })
    }

    /// How many bytes they have together.
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn address(&self, number: usize) -> u64 {
        self.base.saturating_add(self.size.saturating_mul(number as u64))
    }
}

#[cfg(test)]
mod tests;
