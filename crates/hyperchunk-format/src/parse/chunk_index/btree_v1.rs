//! Chunks in a version 1 B-tree.

use super::region::Region;
use super::row::Leaf;
use crate::model::{Chunk, Chunked};
use crate::parse::btree_v1::{chunk_leaves, walk_chunks};
use crate::{Error, Image, Result};

pub(super) fn chunks(image: Image<'_>, root: u64, chunked: &Chunked, region: &Region) -> Result<Vec<Chunk>> {
    let rank = region.rank();
    let mut chunks = Vec::new();
    let (mut left, mut right) = (Vec::new(), Vec::new());
    let wanted = |from: &[u8], to: &[u8]| {
        scale(from, chunked, &mut left)?;
        scale(to, chunked, &mut right)?;
        // Keys have one coordinate more than the dataset. It is 0 for every chunk, but not in a tree's last
        // key.
        left.truncate(rank);
        let found = region.advance(&mut left);
        left.push(0);
        Ok(found && left < right)
    };
    let (mut scaled, mut last) = (Vec::new(), Vec::new());
    walk_chunks(image, root, rank, wanted, |key, address| {
        scale(key.offset, chunked, &mut scaled)?;
        if scaled <= last {
            return Err(Error::corrupt("chunks that are not in order"));
        }
        let own = scaled.get(..rank).unwrap_or_default();
        if region.contains(own) {
            chunks.push(Chunk {
                scaled: own.to_vec(),
                address,
                size: key.size.into(),
                filter_mask: key.filter_mask,
            });
        }
        std::mem::swap(&mut scaled, &mut last);
        Ok(())
    })?;
    Ok(chunks)
}

/// Returns the leaves if the root is their parent, otherwise none. `counts` is the extent of the grid of
/// chunks.
pub(super) fn leaves(image: Image<'_>, root: u64, chunked: &Chunked, counts: &[u64]) -> Result<Vec<Leaf>> {
    let (mut leaves, mut scaled) = (Vec::new(), Vec::new());
    let listed = chunk_leaves(image, root, counts.len(), |key, address| {
        scale(key.offset, chunked, &mut scaled)?;
        let axes = scaled.iter().zip(counts);
        let first = axes.fold(0_u64, |at, (index, count)| at.saturating_mul(*count).saturating_add(*index));
        leaves.push(Leaf { first, size: key.size.into(), address });
        Ok(())
    })?;
    Ok(if listed { leaves } else { Vec::new() })
}

/// Converts an offset in elements to coordinates in the grid of chunks.
fn scale(offset: &[u8], chunked: &Chunked, scaled: &mut Vec<u64>) -> Result<()> {
    scaled.clear();
    let (offsets, _) = offset.as_chunks::<8>();
    for (offset, dim) in offsets.iter().zip(chunked.dims.iter().chain([&chunked.element_size])) {
        let offset = u64::from_le_bytes(*offset);
        if offset.checked_rem(*dim).is_none_or(|rest| rest != 0) {
            return Err(Error::corrupt(format!("a chunk at element {offset}, expected a multiple of {dim}")));
        }
        scaled.push(offset.checked_div(*dim).unwrap_or(0));
    }
    Ok(())
}
