//! Chunks in a version 1 B-tree. Source: specification §III.A.1, "Disk Format: Level 1A1 - Version 1
//! B-trees".

use super::EncodedIndex;
use crate::encode::UNDEFINED;
use crate::encode::blocks::{Allocate, Blocks};
use crate::model::{Chunk, ChunkIndex, Chunked};
use crate::parse::chunk_index::ChunkMap;
use crate::{Error, Result};

/// Size of the fields before the first key of a node.
const HEADER_BYTES: usize = 24;

/// Encodes the tree over sorted chunks: the root, then level by level down to the leaves. A node has at most
/// `2 * k` children.
pub(super) fn encode(
    map: &ChunkMap<'_>,
    chunks: &[&Chunk],
    k: u16,
    allocate: &mut Allocate<'_>,
) -> Result<EncodedIndex> {
    let most = usize::from(k.max(1)).saturating_mul(2);
    // For each level, leaves first, the number of the first chunk of each child.
    let mut levels: Vec<Vec<usize>> = vec![(0..chunks.len()).collect()];
    let mut nodes = 0_usize;
    while let Some(below) = levels.last().filter(|level| levels.len() == 1 || level.len() > 1) {
        let level: Vec<usize> = pieces(below, most).filter_map(|piece| piece.first().copied()).collect();
        nodes = nodes.saturating_add(level.len());
        levels.push(level);
    }
    let key_size = map.dims.len().saturating_add(2).saturating_mul(8);
    let size = most.saturating_mul(key_size.saturating_add(8)).saturating_add(key_size);
    let size = size.saturating_add(HEADER_BYTES);
    let too_large = || Error::limit("an index larger than memory");
    let mut bytes = Vec::with_capacity(nodes.checked_mul(size).ok_or_else(too_large)?);
    let mut extents = Vec::with_capacity(nodes);
    for _ in 0..nodes {
        extents.push((allocate(size as u64)?, size as u64));
    }
    let address = |node: usize| extents.get(node).map_or(UNDEFINED, |(address, _)| *address);
    let mut first = 0_usize;
    for (level, children) in levels.iter().enumerate().rev().skip(1) {
        let level = u8::try_from(level).unwrap_or(u8::MAX);
        let count = pieces(children, most).count();
        let below = first.saturating_add(count);
        let mut child = 0_usize;
        for (number, piece) in pieces(children, most).enumerate() {
            let node = first.saturating_add(number);
            bytes.extend_from_slice(b"TREE");
            bytes.extend_from_slice(&[1, level]);
            bytes.extend_from_slice(&u16::try_from(piece.len()).unwrap_or(u16::MAX).to_le_bytes());
            let left = if number == 0 { UNDEFINED } else { address(node.saturating_sub(1)) };
            let right =
                if number.saturating_add(1) == count { UNDEFINED } else { address(node.saturating_add(1)) };
            bytes.extend_from_slice(&left.to_le_bytes());
            bytes.extend_from_slice(&right.to_le_bytes());
            for start in piece {
                let Some(chunk) = chunks.get(*start) else { continue };
                push_key(&mut bytes, chunk, map.chunked)?;
                let child_address = match level {
                    0 => chunk.address,
                    _ => address(below.saturating_add(child)),
                };
                bytes.extend_from_slice(&child_address.to_le_bytes());
                child = child.saturating_add(1);
            }
            match children.get(child).and_then(|start| chunks.get(*start)) {
                Some(chunk) => push_key(&mut bytes, chunk, map.chunked)?,
                None => push_end(&mut bytes, chunks, map.chunked),
            }
            bytes.resize(node.saturating_add(1).saturating_mul(size), 0);
        }
        first = below;
    }
    let index = ChunkIndex::BTreeV1 { address: Some(address(0)) };
    Ok(EncodedIndex { blocks: Blocks { bytes, extents }, index })
}

/// Distributes the children among nodes. All but the last node are full, so that appending a chunk changes
/// few nodes.
fn pieces(children: &[usize], most: usize) -> impl Iterator<Item = &[usize]> {
    children.chunks(most)
}

/// Appends the key of a chunk: size, filter mask, and offset of its first element followed by a 0.
fn push_key(bytes: &mut Vec<u8>, chunk: &Chunk, chunked: &Chunked) -> Result<()> {
    let size = u32::try_from(chunk.size).map_err(|_| Error::limit("a chunk of more than 4 GiB"))?;
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.extend_from_slice(&chunk.filter_mask.to_le_bytes());
    for (at, dim) in chunk.scaled.iter().zip(&chunked.dims) {
        // Does not overflow: the element is inside the extent, which fits 64 bits.
        bytes.extend_from_slice(&at.saturating_mul(*dim).to_le_bytes());
    }
    bytes.extend_from_slice(&[0; 8]);
    Ok(())
}

/// Appends the key after the last chunk: its far corner, as libhdf5 writes it.
fn push_end(bytes: &mut Vec<u8>, chunks: &[&Chunk], chunked: &Chunked) {
    bytes.extend_from_slice(&[0; 8]);
    let last = chunks.last().map(|chunk| chunk.scaled.as_slice()).unwrap_or_default();
    for (at, dim) in last.iter().zip(&chunked.dims) {
        // If the corner exceeds 64 bits, use the chunk's own offset: the last coordinate still makes the key
        // greater.
        let corner = at.checked_add(1).and_then(|at| at.checked_mul(*dim));
        bytes.extend_from_slice(&corner.unwrap_or(at.saturating_mul(*dim)).to_le_bytes());
    }
    bytes.extend_from_slice(&chunked.element_size.to_le_bytes());
}
