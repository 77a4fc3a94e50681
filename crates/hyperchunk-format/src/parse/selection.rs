//! Dataspace selections of all versions. Source: specification §VIII.A, "Dataspace Selections"; HDF5 2.x
//! `H5S*_deserialize` for the checks.

use super::message::dataspace::MAX_RANK;
use crate::model::{Hyperslab, StoredSelection};
use crate::{Cursor, Error, Result};

/// Reads a selection; the cursor stays at the bytes after it.
///
/// # Errors
/// Corrupt or Unsupported if it is damaged.
pub fn parse(cursor: &mut Cursor<'_>) -> Result<StoredSelection> {
    match cursor.u32()? {
        0 => whole(cursor).map(|()| StoredSelection::None),
        1 => points(cursor),
        2 => hyperslab(cursor),
        3 => whole(cursor).map(|()| StoredSelection::All),
        class => Err(cursor.error(format!("a selection of unknown type {class}"))),
    }
}

fn version(cursor: &mut Cursor<'_>, latest: u32) -> Result<u32> {
    let version = cursor.u32()?;
    if (1..=latest).contains(&version) {
        return Ok(version);
    }
    let message = format!("a selection of version {version} is not supported: expected 1 to {latest}");
    Err(Error::unsupported(message).at(cursor.offset()))
}

/// Reads the body of "none" or "all": 8 reserved bytes.
fn whole(cursor: &mut Cursor<'_>) -> Result<()> {
    version(cursor, 1)?;
    cursor.skip(8)
}

fn rank(cursor: &mut Cursor<'_>) -> Result<usize> {
    let rank = cursor.u32()?;
    if (1..=u32::from(MAX_RANK)).contains(&rank) {
        return Ok(rank as usize);
    }
    Err(cursor.error(format!("a selection of {rank} dimensions")))
}

/// Reads the width of the numbers.
fn width(cursor: &mut Cursor<'_>) -> Result<usize> {
    match cursor.u8()? {
        width @ (2 | 4 | 8) => Ok(width.into()),
        width => Err(cursor.error(format!("a selection in numbers of {width} bytes, expected 2, 4 or 8"))),
    }
}

/// Reads `count × each` numbers of `width` bytes; `None` if there are 0.
fn numbers(cursor: &mut Cursor<'_>, count: u64, each: usize, width: usize) -> Result<Option<Vec<u64>>> {
    let total = usize::try_from(count).ok().and_then(|count| count.checked_mul(each));
    let total = total.filter(|total| total.checked_mul(width).is_some_and(|bytes| bytes <= cursor.left()));
    let total = total
        .ok_or_else(|| cursor.error(format!("{count} points or blocks do not fit the remaining bytes")))?;
    let numbers: Vec<u64> = (0..total).map(|_| cursor.uint(width)).collect::<Result<_>>()?;
    Ok(Some(numbers).filter(|numbers| !numbers.is_empty()))
}

fn points(cursor: &mut Cursor<'_>) -> Result<StoredSelection> {
    let width = match version(cursor, 2)? {
        1 => cursor.skip(8).map(|()| 4)?,
        _ => width(cursor)?,
    };
    let rank = rank(cursor)?;
    let count = cursor.uint(width)?;
    let coordinates = numbers(cursor, count, rank, width)?;
    Ok(coordinates.map_or(StoredSelection::None, |coordinates| StoredSelection::Points { rank, coordinates }))
}

fn hyperslab(cursor: &mut Cursor<'_>) -> Result<StoredSelection> {
    const REGULAR: u8 = 0x01;
    let mut flags = 0;
    let width = match version(cursor, 3)? {
        1 => cursor.skip(8).map(|()| 4)?,
        2 => {
            flags = cursor.u8()?;
            cursor.skip(4).map(|()| 8)?
        }
        _ => {
            flags = cursor.u8()?;
            width(cursor)?
        }
    };
    if flags & !REGULAR != 0 {
        return Err(cursor.error(format!("unknown flags {flags:#04x} of a selection")));
    }
    let rank = rank(cursor)?;
    if flags & REGULAR != 0 { regular(cursor, rank, width) } else { blocks(cursor, rank, width) }
}

fn regular(cursor: &mut Cursor<'_>, rank: usize, width: usize) -> Result<StoredSelection> {
    let unlimited = u64::MAX >> 64_u32.saturating_sub(u32::try_from(width).unwrap_or(8).saturating_mul(8));
    let slabs: Vec<Hyperslab> = (0..rank)
        .map(|_| {
            let (start, stride) = (cursor.uint(width)?, cursor.uint(width)?);
            let (count, block) = (cursor.uint(width)?, cursor.uint(width)?);
            // The stride of a single block has no meaning.
            let stride = if count == 1 { stride.max(1) } else { stride };
            let limited = |number| Some(number).filter(|number| *number != unlimited);
            Ok(Hyperslab { start, stride, count: limited(count), block: limited(block) })
        })
        .collect::<Result<_>>()?;
    if slabs.iter().any(|slab| slab.count == Some(0) || slab.block == Some(0)) {
        return Ok(StoredSelection::None);
    }
    let unlimited = slabs.iter().filter(|slab| slab.count.is_none() || slab.block.is_none()).count();
    if unlimited > 1 || !slabs.iter().all(valid) {
        return Err(cursor.error(format!(
            "blocks that overlap, exceed 2⁶⁴ or are unlimited in two dimensions: {slabs:?}"
        )));
    }
    Ok(StoredSelection::Regular(slabs))
}

/// True if the blocks do not overlap and the last one ends within 64 bits.
fn valid(slab: &Hyperslab) -> bool {
    let last = |count: u64, block: u64| {
        let first = count.checked_sub(1)?.checked_mul(slab.stride)?.checked_add(slab.start)?;
        first.checked_add(block)
    };
    match (slab.count, slab.block) {
        (Some(1), None) => true,
        (_, None) => false,
        (None, Some(block)) => slab.stride >= block,
        (Some(count), Some(block)) => (count == 1 || slab.stride >= block) && last(count, block).is_some(),
    }
}

fn blocks(cursor: &mut Cursor<'_>, rank: usize, width: usize) -> Result<StoredSelection> {
    let count = cursor.uint(width)?;
    let Some(corners) = numbers(cursor, count, rank.saturating_mul(2), width)? else {
        return Ok(StoredSelection::None);
    };
    let blocks: Vec<Block<'_>> = corners
        .chunks_exact(rank.saturating_mul(2))
        .filter_map(|block| block.split_at_checked(rank))
        .collect();
    let reversed =
        blocks.iter().any(|(first, last)| first.iter().zip(*last).any(|(first, last)| first > last));
    if reversed || !apart(blocks) {
        return Err(cursor.error("blocks that overlap or whose corners are in the wrong order".into()));
    }
    Ok(StoredSelection::Blocks { rank, corners })
}

/// First and last corner of a block.
type Block<'b> = (&'b [u64], &'b [u64]);

/// Maximum number of pairs of blocks to compare.
const MAX_COMPARISONS: usize = 10_000_000;

/// True if no two blocks overlap. False also if the bound on comparisons is reached.
fn apart(mut blocks: Vec<Block<'_>>) -> bool {
    if blocks.iter().zip(blocks.iter().skip(1)).all(|(block, next)| follows(*block, *next)) {
        return true;
    }
    blocks.sort_unstable();
    let mut near: Vec<Block<'_>> = Vec::new();
    let mut left = MAX_COMPARISONS;
    blocks.into_iter().all(|block| {
        near.retain(|other| other.1.first() >= block.0.first());
        let enough = left.checked_sub(near.len());
        left = enough.unwrap_or(0);
        let free = near.iter().all(|other| disjoint(*other, block));
        near.push(block);
        enough.is_some() && free
    })
}

/// True if `next` is after `block` in the first dimension in which they differ: the library's order. Blocks
/// in this order are disjoint.
fn follows((first, last): Block<'_>, (next_first, next_last): Block<'_>) -> bool {
    let here = first.iter().zip(last);
    let there = next_first.iter().zip(next_last);
    here.zip(there).find(|(here, there)| here != there).is_some_and(|(here, there)| here.1 < there.0)
}

fn disjoint((first, last): Block<'_>, (other_first, other_last): Block<'_>) -> bool {
    let here = first.iter().zip(last);
    here.zip(other_first.iter().zip(other_last)).any(|(here, there)| here.1 < there.0 || there.1 < here.0)
}

#[cfg(test)]
mod tests;
