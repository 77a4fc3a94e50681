//! Dataspace selections. Source: specification §VIII.A, "Dataspace Selections"; HDF5 2.x `H5S*.c` for the
//! version that each release can read.

use super::{Bytes, LibVersion, fit};
use crate::model::{Hyperslab, StoredSelection};
use crate::parse::selection as parse;
use crate::{Cursor, Error, Result};

const STRUCTURE: &str = "selection";

const NONE: u32 = 0;
const POINTS: u32 = 1;
const HYPERSLAB: u32 = 2;
const ALL: u32 = 3;
/// Value of an unlimited count or block.
const UNLIMITED: u64 = u64::MAX;
/// Maximum number of coordinates in the corners of a regular pattern, for releases of HDF5 that only support
/// lists of blocks.
const MAX_CORNERS: u64 = 1_000_000;

/// Encodes a selection in the lowest version that can hold it. HDF5 1.8 has no patterns of blocks, so they
/// become lists of blocks.
///
/// # Errors
/// Unsupported if the release `oldest` has no such selection; Invalid if readers would refuse it; Limit if it
/// is too large.
pub fn encode(selection: &StoredSelection, oldest: LibVersion) -> Result<Vec<u8>> {
    encoded(selection, oldest).map_err(|error| error.within(STRUCTURE))
}

fn encoded(selection: &StoredSelection, oldest: LibVersion) -> Result<Vec<u8>> {
    let bytes = match selection {
        StoredSelection::None => whole(NONE),
        StoredSelection::All => whole(ALL),
        StoredSelection::Points { rank, coordinates } => list(POINTS, *rank, *rank, coordinates, oldest)?,
        StoredSelection::Blocks { rank, corners } => {
            list(HYPERSLAB, *rank, rank.saturating_mul(2), corners, oldest)?
        }
        StoredSelection::Regular(slabs) => regular(slabs, oldest)?,
    };
    // Checks that it can be read.
    let mut cursor = Cursor::new(&bytes, STRUCTURE, 0);
    parse::parse(&mut cursor).map_err(|error| Error::invalid(error.message()))?;
    Ok(bytes)
}

/// Encodes "none" or "all".
fn whole(class: u32) -> Vec<u8> {
    let mut bytes = Bytes::with_capacity(16);
    bytes.u32(class).u32(1).u32(0).u32(0);
    bytes.into_vec()
}

/// Encodes points or blocks, with `each` numbers for one of them.
fn list(class: u32, rank: usize, each: usize, numbers: &[u64], oldest: LibVersion) -> Result<Vec<u8>> {
    if numbers.is_empty() {
        return Ok(whole(NONE));
    }
    let count = numbers.len().checked_div(each).unwrap_or(0);
    if count.checked_mul(each) != Some(numbers.len()) {
        return Err(Error::invalid(format!("{} coordinates of {rank} dimensions", numbers.len())));
    }
    let dims: u32 = fit(rank, "dimensions")?;
    let largest = numbers.iter().copied().max().unwrap_or(0).max(count as u64);
    let mut bytes = Bytes::new();
    bytes.u32(class);
    let width = if largest <= u32::MAX.into() { 4 } else { 8 };
    if width == 4 {
        // Size of the following fields: rank, count, numbers.
        let length = numbers.len().saturating_mul(width).saturating_add(8);
        bytes.u32(1).u32(0).u32(fit(length, "bytes of a selection")?);
    } else {
        if oldest < LibVersion::V200 {
            let message = format!("a coordinate or count of {largest} needs HDF5 1.12 or later");
            return Err(Error::unsupported(message));
        }
        // Points: version 2; blocks: version 3, with flags for an irregular selection.
        if class == POINTS {
            bytes.u32(2).u8(8);
        } else {
            bytes.u32(3).u8(0).u8(8);
        }
    }
    bytes.u32(dims).uint(count as u64, width)?;
    for number in numbers {
        bytes.uint(*number, width)?;
    }
    Ok(bytes.into_vec())
}

fn regular(slabs: &[Hyperslab], oldest: LibVersion) -> Result<Vec<u8>> {
    const REGULAR: u8 = 0x01;
    if slabs.iter().any(|slab| slab.count == Some(0) || slab.block == Some(0)) {
        return Ok(whole(NONE));
    }
    if slabs.iter().any(|slab| slab.count == Some(UNLIMITED) || slab.block == Some(UNLIMITED)) {
        return Err(Error::limit("2^64 - 1 blocks"));
    }
    if oldest == LibVersion::V18 {
        return list(HYPERSLAB, slabs.len(), slabs.len().saturating_mul(2), &corners(slabs)?, oldest);
    }
    let dims: u32 = fit(slabs.len(), "dimensions")?;
    let mut bytes = Bytes::new();
    bytes.u32(HYPERSLAB).u32(2).u8(REGULAR);
    // Size of the following fields: rank, and four numbers for each dimension.
    bytes.u32(dims.saturating_mul(32).saturating_add(4)).u32(dims);
    for Hyperslab { start, stride, count, block } in slabs {
        bytes.u64(*start).u64(*stride).u64(count.unwrap_or(UNLIMITED)).u64(block.unwrap_or(UNLIMITED));
    }
    Ok(bytes.into_vec())
}

/// Returns the corners of all blocks of a pattern, in order.
fn corners(slabs: &[Hyperslab]) -> Result<Vec<u64>> {
    let unlimited = || Error::unsupported("an unlimited selection needs HDF5 1.10 or later");
    let too_far = || Error::invalid("a selection that ends beyond 2^64 - 1");
    let mut axes = Vec::with_capacity(slabs.len());
    let mut total = slabs.len() as u64;
    for Hyperslab { start, stride, count, block } in slabs {
        let (count, block) = count.zip(*block).ok_or_else(unlimited)?;
        total = total.saturating_mul(count);
        if total > MAX_CORNERS {
            return Err(Error::limit("a pattern of this number of blocks needs HDF5 1.10 or later"));
        }
        let bounds = |number: u64| {
            let first = number.checked_mul(*stride)?.checked_add(*start)?;
            Some((first, first.checked_add(block)?.checked_sub(1)?))
        };
        axes.push((0..count).map(bounds).collect::<Option<Vec<_>>>().ok_or_else(too_far)?);
    }
    // Combines each block of the preceding axes with each range of the next axis.
    let mut blocks: Vec<Vec<(u64, u64)>> = vec![Vec::new()];
    for axis in axes {
        blocks = blocks
            .iter()
            .flat_map(|block| axis.iter().map(|place| [&block[..], &[*place]].concat()))
            .collect();
    }
    let corner = |block: &[(u64, u64)]| {
        let first = block.iter().map(|(first, _)| *first);
        first.chain(block.iter().map(|(_, last)| *last)).collect::<Vec<_>>()
    };
    Ok(blocks.iter().flat_map(|block| corner(block)).collect())
}

#[cfg(test)]
mod tests;
