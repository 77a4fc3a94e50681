//! Data layouts of versions 1 to 5. Source: specification §IV.A.2.i, "The Data Layout Message"; HDF5 2.x for
//! version 5.

use super::dataspace::MAX_RANK;
use crate::model::{ChunkIndex, Chunked, Layout};
use crate::{Cursor, Result, Sizes};

/// Reads a layout.
///
/// # Errors
/// Corrupt or Unsupported if it is damaged.
pub fn parse(cursor: &mut Cursor<'_>, sizes: Sizes) -> Result<Layout> {
    match cursor.version(1..=5)? {
        version @ 1..=2 => version_1(cursor, sizes, version),
        version => version_3(cursor, sizes, version),
    }
}

const COMPACT: u8 = 0;
const CONTIGUOUS: u8 = 1;
const CHUNKED: u8 = 2;
const VIRTUAL: u8 = 3;

/// Reads versions 1 and 2, which start with the dimensions for every class. The dimensions of contiguous data
/// may be cut to 32 bits, so only the dataspace's are used.
fn version_1(cursor: &mut Cursor<'_>, sizes: Sizes, version: u8) -> Result<Layout> {
    let rank = cursor.u8()?;
    let class = cursor.u8()?;
    cursor.skip(5)?;
    if rank == 0 {
        return Err(cursor.error("a layout without dimensions".into()));
    }
    check_rank(cursor, rank)?;
    match class {
        COMPACT => {
            cursor.skip(usize::from(rank).saturating_mul(4))?;
            let size = cursor.u32()?;
            Ok(Layout::Compact { data: cursor.take(size as usize)?.to_vec() })
        }
        CONTIGUOUS => {
            let address = cursor.address(sizes)?;
            cursor.skip(usize::from(rank).saturating_mul(4))?;
            Ok(Layout::Contiguous { address, size: None })
        }
        CHUNKED => {
            let address = cursor.address(sizes)?;
            let index = ChunkIndex::BTreeV1 { address };
            chunked(cursor, rank, 4, version, |_| Ok((index, false)))
        }
        class => Err(cursor.error(format!("class {class} in version {version}"))),
    }
}

fn version_3(cursor: &mut Cursor<'_>, sizes: Sizes, version: u8) -> Result<Layout> {
    match cursor.u8()? {
        COMPACT => {
            let size = cursor.u16()?;
            Ok(Layout::Compact { data: cursor.take(size.into())?.to_vec() })
        }
        CONTIGUOUS => {
            Ok(Layout::Contiguous { address: cursor.address(sizes)?, size: Some(cursor.length(sizes)?) })
        }
        CHUNKED if version == 3 => {
            let rank = cursor.u8()?;
            let index = ChunkIndex::BTreeV1 { address: cursor.address(sizes)? };
            chunked(cursor, rank, 4, version, |_| Ok((index, false)))
        }
        CHUNKED => {
            const KNOWN_FLAGS: u8 = 0x03;
            let flags = cursor.u8()?;
            if flags & !KNOWN_FLAGS != 0 {
                return Err(cursor.error(format!("unknown flags {flags:#04x} of chunks")));
            }
            let rank = cursor.u8()?;
            let width = cursor.u8()?;
            if !(1..=8).contains(&width) {
                return Err(
                    cursor.error(format!("chunk dimensions stored in {width} bytes, expected 1 to 8"))
                );
            }
            chunked(cursor, rank, width.into(), version, |cursor| {
                Ok((index(cursor, sizes, flags & 0x02 != 0)?, flags & 0x01 != 0))
            })
        }
        VIRTUAL if version > 3 => {
            let address = cursor.address(sizes)?;
            let index = cursor.u32()?;
            Ok(Layout::Virtual { heap: address.map(|address| (address, index)) })
        }
        class => Err(cursor.error(format!("class {class} in version {version}"))),
    }
}

/// Reads the dimensions of a chunk, the last of which is the size of an element, and the fields after them.
fn chunked(
    cursor: &mut Cursor<'_>,
    rank: u8,
    width: usize,
    version: u8,
    rest: impl FnOnce(&mut Cursor<'_>) -> Result<(ChunkIndex, bool)>,
) -> Result<Layout> {
    check_rank(cursor, rank)?;
    let mut dims: Vec<u64> = (0..rank).map(|_| cursor.uint(width)).collect::<Result<_>>()?;
    let element_size = dims.pop().filter(|_| !dims.is_empty());
    let Some(element_size) = element_size.filter(|size| *size > 0 && !dims.contains(&0)) else {
        return Err(cursor.error(format!("invalid chunks of {dims:?} elements of {element_size:?} bytes")));
    };
    let (index, edge_chunks_unfiltered) = rest(cursor)?;
    Ok(Layout::Chunked(Chunked { dims, element_size, edge_chunks_unfiltered, version, index }))
}

fn check_rank(cursor: &Cursor<'_>, rank: u8) -> Result<()> {
    if rank <= MAX_RANK.saturating_add(1) { Ok(()) } else { Err(cursor.error(format!("{rank} dimensions"))) }
}

/// Reads the chunk index of versions 4 and 5. Its parameters are repeated in the index's own header.
fn index(cursor: &mut Cursor<'_>, sizes: Sizes, single_filtered: bool) -> Result<ChunkIndex> {
    let class = cursor.u8()?;
    let mut filtered = None;
    match class {
        1 if single_filtered => filtered = Some((cursor.length(sizes)?, cursor.u32()?)),
        1 | 2 => {}
        3 => positive(cursor, 1)?,
        4 => positive(cursor, 5)?,
        5 => {
            cursor.skip(4)?;
            positive(cursor, 2)?;
        }
        _ => return Err(cursor.error(format!("unknown chunk index of type {class}"))),
    }
    let address = cursor.address(sizes)?;
    Ok(match class {
        1 => ChunkIndex::Single { address, filtered },
        2 => ChunkIndex::Implicit { address },
        3 => ChunkIndex::FixedArray { address },
        4 => ChunkIndex::ExtensibleArray { address },
        _ => ChunkIndex::BTreeV2 { address },
    })
}

/// Reads one-byte parameters, none of which may be 0.
fn positive(cursor: &mut Cursor<'_>, count: usize) -> Result<()> {
    if cursor.take(count)?.contains(&0) {
        return Err(cursor.error("a parameter of the chunk index is 0".into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
