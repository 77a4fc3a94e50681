//! Data layouts of versions 3 to 5. Source: specification §IV.A.2.i, "The Data Layout Message"; HDF5 2.x for
//! version 5.

use crate::encode::{Bytes, LibVersion, fit};
use crate::model::{ChunkIndex, Chunked, Layout};
use crate::parse::message::dataspace::MAX_RANK;
use crate::{Error, Result};

const STRUCTURE: &str = "data layout message";

/// Base-2 logarithm of the number of elements in a page of a fixed array. Like the parameters below, the
/// index's own header repeats it.
pub(crate) const FIXED_ARRAY_PAGE_BITS: u8 = 10;
/// Parameters of extensible arrays: bits of the maximum number of elements, elements in the index block,
/// minimum number of data block addresses in a super block, minimum number of elements in a data block, bits
/// of the number of elements in a page.
pub(crate) const EXTENSIBLE_ARRAY: [u8; 5] = [32, 4, 4, 16, 10];
/// Node size of a version 2 B-tree in bytes, and its split and merge percentages.
pub(crate) const BTREE_V2: (u32, u8, u8) = (2048, 100, 40);

/// Encodes a layout: a compact or contiguous one in version 3, a virtual one in version 4, a chunked one in
/// its own version.
///
/// # Errors
/// Unsupported if the release `oldest` has no such layout; Limit if a size is too large; Invalid if readers
/// would refuse it.
pub fn encode(layout: &Layout, oldest: LibVersion) -> Result<Vec<u8>> {
    encoded(layout, oldest).map_err(|error| error.within(STRUCTURE))
}

fn encoded(layout: &Layout, oldest: LibVersion) -> Result<Vec<u8>> {
    let mut bytes = Bytes::new();
    match layout {
        Layout::Compact { data } => {
            let size = fit::<u16, _>(data.len(), "bytes of compact data")?;
            bytes.u8(3).u8(0).u16(size).raw(data);
        }
        Layout::Contiguous { address, size } => {
            let size = size.ok_or_else(|| Error::invalid("contiguous data of unknown size"))?;
            bytes.u8(3).u8(1).address(*address).u64(size);
        }
        Layout::Chunked(chunked) => self::chunked(chunked, oldest, &mut bytes)?,
        Layout::Virtual { heap } => {
            needs("virtual datasets", oldest, LibVersion::V110)?;
            let index = heap.map_or(0, |(_, index)| index);
            bytes.u8(4).u8(3).address(heap.map(|(address, _)| address)).u32(index);
        }
    }
    Ok(bytes.into_vec())
}

fn needs(what: &str, oldest: LibVersion, needed: LibVersion) -> Result<()> {
    if oldest >= needed {
        return Ok(());
    }
    Err(Error::unsupported(format!("{what} need `LibVersion::{needed:?}`, got {oldest:?}")))
}

fn chunked(chunked: &Chunked, oldest: LibVersion, bytes: &mut Bytes) -> Result<()> {
    let Chunked { dims, element_size, edge_chunks_unfiltered, version, index } = chunked;
    let rank = fit::<u8, _>(dims.len(), "dimensions")?;
    if rank == 0 || rank > MAX_RANK || dims.contains(&0) || *element_size == 0 {
        return Err(Error::invalid(format!("invalid chunks of {dims:?} elements of {element_size} bytes")));
    }
    let sizes: Vec<u64> = dims.iter().copied().chain([*element_size]).collect();
    if *version < 5 {
        let size = sizes.iter().try_fold(1_u64, |size, dim| size.checked_mul(*dim));
        if size.is_none_or(|size| size > u32::MAX.into()) {
            return Err(Error::limit(format!(
                "chunks of {dims:?} elements: 4 GiB or more need a layout of version 5"
            )));
        }
    }
    match (version, index) {
        (3, ChunkIndex::BTreeV1 { address }) if !edge_chunks_unfiltered => {
            bytes.u8(3).u8(2).u8(rank.saturating_add(1)).address(*address);
            for size in sizes {
                bytes.u32(fit(size, "elements of a chunk")?);
            }
            Ok(())
        }
        (4, _) | (5, _) if !matches!(index, ChunkIndex::BTreeV1 { .. }) => {
            match version {
                4 => needs("chunk indexes other than B-trees", oldest, LibVersion::V110)?,
                _ => needs("layouts of version 5", oldest, LibVersion::V200)?,
            }
            version_4(chunked, &sizes, rank.saturating_add(1), bytes)
        }
        _ => Err(Error::invalid(format!("{index:?} in a layout of version {version}"))),
    }
}

/// Encodes versions 4 and 5.
fn version_4(chunked: &Chunked, sizes: &[u64], rank: u8, bytes: &mut Bytes) -> Result<()> {
    const EDGES_UNFILTERED: u8 = 0x01;
    const SINGLE_FILTERED: u8 = 0x02;
    let width = |size: &u64| size.checked_ilog2().map_or(1, |power| power / 8).saturating_add(1);
    let width = sizes.iter().map(width).max().map_or(1, |width| width.min(8));
    let mut flags = if chunked.edge_chunks_unfiltered { EDGES_UNFILTERED } else { 0 };
    let mut parameters = Bytes::new();
    let (class, address) = match &chunked.index {
        ChunkIndex::BTreeV1 { address } => (0, address),
        ChunkIndex::Single { address, filtered } => {
            if let Some((size, mask)) = filtered {
                flags |= SINGLE_FILTERED;
                parameters.u64(*size).u32(*mask);
            }
            (1, address)
        }
        ChunkIndex::Implicit { address } => (2, address),
        ChunkIndex::FixedArray { address } => {
            parameters.u8(FIXED_ARRAY_PAGE_BITS);
            (3, address)
        }
        ChunkIndex::ExtensibleArray { address } => {
            parameters.raw(&EXTENSIBLE_ARRAY);
            (4, address)
        }
        ChunkIndex::BTreeV2 { address } => {
            let (node_size, split, merge) = BTREE_V2;
            parameters.u32(node_size).u8(split).u8(merge);
            (5, address)
        }
    };
    bytes.u8(chunked.version).u8(2).u8(flags).u8(rank).u8(fit(width, "bytes of a dimension")?);
    for size in sizes {
        bytes.uint(*size, width as usize)?;
    }
    bytes.u8(class).raw(parameters.as_slice()).address(*address);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::SIZES;
    use crate::{Cursor, ErrorKind, parse};

    fn check(layout: &Layout, oldest: LibVersion) {
        let bytes = encode(layout, oldest).unwrap();
        let mut cursor = Cursor::new(&bytes, "", 0);
        assert_eq!(parse::message::layout::parse(&mut cursor, SIZES).unwrap(), *layout);
        assert_eq!(cursor.left(), 0);
    }

    fn refused(layout: &Layout, oldest: LibVersion, kind: ErrorKind) {
        assert_eq!(encode(layout, oldest).unwrap_err().kind(), kind, "{layout:?}");
    }

    fn chunked(version: u8, dims: &[u64], index: ChunkIndex) -> Layout {
        let dims = dims.to_vec();
        Layout::Chunked(Chunked { dims, element_size: 8, edge_chunks_unfiltered: false, version, index })
    }

    fn indexes(address: Option<u64>) -> [ChunkIndex; 6] {
        [
            ChunkIndex::Single { address, filtered: None },
            ChunkIndex::Single { address, filtered: Some((100, 3)) },
            ChunkIndex::Implicit { address },
            ChunkIndex::FixedArray { address },
            ChunkIndex::ExtensibleArray { address },
            ChunkIndex::BTreeV2 { address },
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        for data in [vec![], vec![1; 100], vec![1; 65_535]] {
            check(&Layout::Compact { data }, LibVersion::V18);
        }
        for address in [None, Some(0), Some(u64::MAX - 1)] {
            check(&Layout::Contiguous { address, size: Some(u64::MAX) }, LibVersion::V18);
            check(&Layout::Virtual { heap: address.map(|address| (address, 7)) }, LibVersion::V110);
            let index = ChunkIndex::BTreeV1 { address };
            for dims in [&[1][..], &[300; 3], &[1; 32], &[(1 << 29) - 1]] {
                check(&chunked(3, dims, index.clone()), LibVersion::V18);
            }
            for index in indexes(address) {
                for dims in [&[1][..], &[255], &[256, 1], &[65_536, 2], &[1; 32]] {
                    check(&chunked(4, dims, index.clone()), LibVersion::V110);
                    check(&chunked(5, dims, index.clone()), LibVersion::V200);
                }
                check(&chunked(5, &[1 << 40], index), LibVersion::V200);
            }
        }
        let index = ChunkIndex::FixedArray { address: Some(1) };
        let Layout::Chunked(plain) = chunked(4, &[10], index) else { panic!() };
        check(&Layout::Chunked(Chunked { edge_chunks_unfiltered: true, ..plain }), LibVersion::V110);
    }

    #[test]
    fn what_cannot_be_stored_is_not_written() {
        refused(&Layout::Compact { data: vec![0; 65_536] }, LibVersion::V18, ErrorKind::Limit);
        refused(&Layout::Contiguous { address: None, size: None }, LibVersion::V18, ErrorKind::Invalid);
        refused(&Layout::Virtual { heap: None }, LibVersion::V18, ErrorKind::Unsupported);
        let btree = ChunkIndex::BTreeV1 { address: Some(1) };
        for index in indexes(Some(1)) {
            refused(&chunked(3, &[1], index.clone()), LibVersion::V200, ErrorKind::Invalid);
            refused(&chunked(4, &[1], index.clone()), LibVersion::V18, ErrorKind::Unsupported);
            refused(&chunked(5, &[1], index.clone()), LibVersion::V110, ErrorKind::Unsupported);
            refused(&chunked(4, &[1 << 29], index), LibVersion::V110, ErrorKind::Limit);
        }
        refused(&chunked(3, &[1 << 29], btree.clone()), LibVersion::V18, ErrorKind::Limit);
        refused(&chunked(4, &[1], btree.clone()), LibVersion::V200, ErrorKind::Invalid);
        refused(&chunked(3, &[], btree.clone()), LibVersion::V18, ErrorKind::Invalid);
        refused(&chunked(3, &[0], btree.clone()), LibVersion::V18, ErrorKind::Invalid);
        refused(&chunked(3, &[1; 33], btree), LibVersion::V18, ErrorKind::Invalid);
    }
}
