//! Chunks in a fixed array. Source: specification §VII.C, "The Fixed Array Index".

use super::linear::Linear;
use super::record::{CHECKSUM_BYTES, fitting, push_all, push_checksum, push_pages, set_bits};
use super::{ArrayPlaces, EncodedIndex, IndexParts};
use crate::encode::blocks::{Allocate, Blocks, one_after_another};
use crate::encode::message::layout::FIXED_ARRAY_PAGE_BITS;
use crate::model::{Chunk, ChunkIndex};
use crate::parse::chunk_index::{ChunkMap, Format};
use crate::{Error, Result};

/// Number of chunks in a page.
const PAGE_CHUNKS: u64 = 1 << FIXED_ARRAY_PAGE_BITS;

/// Size of the header.
const HEADER_BYTES: u64 = 28;

/// Encodes the header and the data block.
pub(super) fn encode(
    map: &ChunkMap<'_>,
    format: &Format,
    chunks: &[&Chunk],
    allocate: &mut Allocate<'_>,
) -> Result<EncodedIndex> {
    if map.max.contains(&None) {
        return Err(Error::invalid("a fixed array with an unlimited dimension"));
    }
    let linear = Linear::new(map, 0);
    let count = linear.count.unwrap_or(u64::MAX);
    let pages = if count > PAGE_CHUNKS { count.div_ceil(PAGE_CHUNKS) } else { 0 };
    // Data block: signature, version, class, address of the header, bitmap of pages, checksum.
    let prefix = 14_u64.saturating_add(pages.div_ceil(8)).saturating_add(CHECKSUM_BYTES);
    let size = count.checked_mul(format.size() as u64).and_then(|size| {
        size.checked_add(pages.saturating_mul(CHECKSUM_BYTES))?.checked_add(prefix)?.checked_add(HEADER_BYTES)
    });
    let size = fitting(size)?;
    let chunks = linear.number(chunks, count)?;
    let block_bytes = (size as u64).saturating_sub(HEADER_BYTES);
    let (header, block) = (allocate(HEADER_BYTES)?, allocate(block_bytes)?);

    let class = u8::from(format.filtered);
    let mut bytes = Vec::with_capacity(size);
    bytes.extend_from_slice(b"FAHD");
    bytes.extend_from_slice(&[
        0,
        class,
        u8::try_from(format.size()).unwrap_or(u8::MAX),
        FIXED_ARRAY_PAGE_BITS,
    ]);
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&block.to_le_bytes());
    push_checksum(&mut bytes, 0);
    let start = bytes.len();
    bytes.extend_from_slice(b"FADB");
    bytes.extend_from_slice(&[0, class]);
    bytes.extend_from_slice(&header.to_le_bytes());
    if pages == 0 {
        push_all(&mut bytes, format, 0..count, &chunks);
        push_checksum(&mut bytes, start);
    } else {
        let mut bits = vec![0; usize::try_from(pages.div_ceil(8)).unwrap_or(0)];
        set_bits(&mut bits, 0, 0, PAGE_CHUNKS, &chunks);
        bytes.extend_from_slice(&bits);
        push_checksum(&mut bytes, start);
        push_pages(&mut bytes, format, 0..count, PAGE_CHUNKS, &chunks);
    }
    let extents = vec![(header, HEADER_BYTES), (block, block_bytes)];
    Ok(EncodedIndex {
        blocks: Blocks { bytes, extents },
        index: ChunkIndex::FixedArray { address: Some(header) },
    })
}

/// Encodes an array that keeps its address. The parts are the pages of the data block, the data block without
/// them, and the header.
pub(super) fn encode_in_place(
    map: &ChunkMap<'_>,
    format: &Format,
    chunks: &[&Chunk],
    places: &mut ArrayPlaces,
    take: &mut dyn FnMut(u64) -> Result<u64>,
) -> Result<IndexParts> {
    let base = match places.base {
        Some(base) => base,
        // The size does not depend on the stored chunks.
        None => *places
            .base
            .insert(take(encode(map, format, chunks, &mut one_after_another(0))?.blocks.bytes.len() as u64)?),
    };
    let encoded = encode(map, format, chunks, &mut one_after_another(base))?;
    let count = Linear::new(map, 0).count.unwrap_or(u64::MAX);
    let pages = if count > PAGE_CHUNKS { count.div_ceil(PAGE_CHUNKS) } else { 0 };
    // Pages have their own checksums; without pages, the block is one part.
    let prefix = if pages == 0 {
        u64::MAX
    } else {
        14_u64.saturating_add(pages.div_ceil(8)).saturating_add(CHECKSUM_BYTES)
    };
    let page = PAGE_CHUNKS.saturating_mul(format.size() as u64).saturating_add(CHECKSUM_BYTES);
    let length = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let split = |bytes: &[u8], at: u64| {
        let (before, after) = bytes.split_at_checked(length(at)).unwrap_or((bytes, &[]));
        (before.to_vec(), after.to_vec())
    };
    let (header, block) = split(&encoded.blocks.bytes, HEADER_BYTES);
    let (prefix, elements) = split(&block, prefix);
    let block_address = base.saturating_add(HEADER_BYTES);
    let mut address = block_address.saturating_add(prefix.len() as u64);
    let mut parts = Vec::new();
    for part in elements.chunks(length(page)) {
        parts.push((address, part.to_vec()));
        address = address.saturating_add(part.len() as u64);
    }
    parts.push((block_address, prefix));
    parts.push((base, header));
    Ok(IndexParts { parts, index: encoded.index })
}
