//! Chunks in an extensible array. Source: specification §VII.D, "The Extensible Array Index".

use super::linear::{Linear, NumberedChunk, split_before};
use super::record::{CHECKSUM_BYTES, fitting, push_all, push_checksum, push_pages, set_bits};
use super::{ArrayPlaces, EncodedIndex};
use crate::encode::UNDEFINED;
use crate::encode::blocks::{Allocate, Blocks, Extent};
use crate::encode::message::layout::EXTENSIBLE_ARRAY;
use crate::model::{Chunk, ChunkIndex};
use crate::parse::chunk_index::{ChunkMap, Format};
use crate::{Error, Result};

/// Base-2 logarithm of the maximum number of chunks.
const MAX_CHUNKS_BITS: u8 = EXTENSIBLE_ARRAY[0];
/// Maximum number of chunks.
pub(super) const MAX_CHUNKS: u64 = 1 << MAX_CHUNKS_BITS;
/// Number of chunks with records in the index block itself.
const INDEX_CHUNKS: u8 = EXTENSIBLE_ARRAY[1];
/// Minimum number of data block addresses in a super block.
const MIN_POINTERS: u8 = EXTENSIBLE_ARRAY[2];
/// Number of chunks in the smallest data block.
const MIN_BLOCK_CHUNKS: u8 = EXTENSIBLE_ARRAY[3];
/// Base-2 logarithm of the number of chunks in a page.
const PAGE_BITS: u8 = EXTENSIBLE_ARRAY[4];

/// Number of chunks in a page.
const PAGE_CHUNKS: u64 = 1 << PAGE_BITS;
/// Maximum number of super blocks.
const MAX_SUPER_BLOCKS: u32 = 1 + MAX_CHUNKS_BITS as u32 - MIN_BLOCK_CHUNKS.ilog2();
/// Number of super blocks that are not stored: the index block has the addresses of their data blocks.
const UNSTORED_SUPER_BLOCKS: u32 = 2 * MIN_POINTERS.ilog2();
/// Size of the header.
const HEADER_BYTES: u64 = 72;
/// Size of a block's prefix: signature, version, class, address of the header.
const PREFIX_BYTES: u64 = 14;
/// Width of a block's offset in the array.
const OFFSET_BYTES: u64 = MAX_CHUNKS_BITS as u64 / 8;

/// Super block, stored or represented by the index block, with its data blocks.
struct SuperBlock<'n, 'c> {
    number: u32,
    /// Number of the first chunk, not counting the ones in the index block.
    first: u64,
    /// Number of chunks in a data block.
    chunks: u64,
    /// Address, if it is stored.
    address: u64,
    /// Address and chunks of each data block; empty if no chunk is stored.
    blocks: Vec<(u64, &'n [NumberedChunk<'c>])>,
}

impl<'n, 'c> SuperBlock<'n, 'c> {
    /// Creates the super block with a number; also returns the chunks past its end.
    fn new(number: u32, chunks: &'n [NumberedChunk<'c>]) -> (Self, &'n [NumberedChunk<'c>]) {
        let first = u64::from(MIN_BLOCK_CHUNKS).saturating_mul((1_u64 << number).saturating_sub(1));
        let length = u64::from(MIN_BLOCK_CHUNKS) << number.div_ceil(2);
        let mut block = Self { number, first, chunks: length, address: UNDEFINED, blocks: Vec::new() };
        let (inside, beyond) = split_before(chunks, block.start(block.count()));
        let mut rest = inside;
        if !inside.is_empty() {
            for data_block in 0..block.count() {
                let (inside, after) = split_before(rest, block.start(data_block.saturating_add(1)));
                block.blocks.push((UNDEFINED, inside));
                rest = after;
            }
        }
        (block, beyond)
    }

    /// Returns the number of data blocks.
    fn count(&self) -> u64 {
        1 << (self.number / 2)
    }

    /// Returns the number of the first chunk of a data block.
    fn start(&self, block: u64) -> u64 {
        u64::from(INDEX_CHUNKS).saturating_add(self.first).saturating_add(self.chunks.saturating_mul(block))
    }

    /// Returns the number of pages in a data block; 0 if it is not paged.
    fn pages(&self) -> u64 {
        if self.chunks > PAGE_CHUNKS { self.chunks / PAGE_CHUNKS } else { 0 }
    }

    /// True if the super block itself is stored, not only its data blocks.
    fn is_stored(&self) -> bool {
        self.number >= UNSTORED_SUPER_BLOCKS && !self.blocks.is_empty()
    }

    fn size(&self) -> u64 {
        let block = self.pages().div_ceil(8).saturating_add(8);
        self.count()
            .saturating_mul(block)
            .saturating_add(PREFIX_BYTES)
            .saturating_add(OFFSET_BYTES)
            .saturating_add(CHECKSUM_BYTES)
    }

    fn block_size(&self, format: &Format) -> u64 {
        let elements = self.chunks.saturating_mul(format.size() as u64);
        let pages = self.pages().saturating_mul(CHECKSUM_BYTES);
        elements
            .saturating_add(pages)
            .saturating_add(PREFIX_BYTES)
            .saturating_add(OFFSET_BYTES)
            .saturating_add(CHECKSUM_BYTES)
    }

    /// Encodes the super block itself.
    fn encode(&self, format: &Format, base: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_prefix(&mut bytes, b"EASB", format, base);
        push_offset(&mut bytes, self.first);
        let mut bits =
            vec![0; usize::try_from(self.count().saturating_mul(self.pages().div_ceil(8))).unwrap_or(0)];
        if self.pages() > 0 {
            for (number, (_, chunks)) in (0..).zip(&self.blocks) {
                let first = self.pages().saturating_mul(number);
                set_bits(&mut bits, first, self.start(number), PAGE_CHUNKS, chunks);
            }
        }
        bytes.extend_from_slice(&bits);
        self.push_addresses(&mut bytes);
        push_checksum(&mut bytes, 0);
        bytes
    }

    /// Encodes a data block.
    fn encode_block(&self, number: u64, chunks: &[NumberedChunk<'_>], format: &Format, base: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_prefix(&mut bytes, b"EADB", format, base);
        let numbers = self.start(number)..self.start(number).saturating_add(self.chunks);
        push_offset(&mut bytes, numbers.start.saturating_sub(INDEX_CHUNKS.into()));
        if self.pages() == 0 {
            push_all(&mut bytes, format, numbers, chunks);
            push_checksum(&mut bytes, 0);
        } else {
            push_checksum(&mut bytes, 0);
            push_pages(&mut bytes, format, numbers, PAGE_CHUNKS, chunks);
        }
        bytes
    }

    /// Appends the addresses of the data blocks.
    fn push_addresses(&self, bytes: &mut Vec<u8>) {
        match self.blocks.is_empty() {
            true => (0..self.count()).for_each(|_| bytes.extend_from_slice(&UNDEFINED.to_le_bytes())),
            false => {
                self.blocks.iter().for_each(|(address, _)| bytes.extend_from_slice(&address.to_le_bytes()))
            }
        }
    }
}

/// Encodes the header, the index block, the super blocks and the data blocks.
pub(super) fn encode(
    map: &ChunkMap<'_>,
    format: &Format,
    chunks: &[&Chunk],
    allocate: &mut Allocate<'_>,
) -> Result<EncodedIndex> {
    let numbered = number(map, chunks)?;
    let mut supers = super_blocks(&numbered);
    let size = fitting(total_size(&supers, format))?;
    let (base, index_at) = (allocate(HEADER_BYTES)?, allocate(index_block_size(format))?);
    let mut extents = vec![(base, HEADER_BYTES), (index_at, index_block_size(format))];
    assign_addresses(&mut supers, format, allocate, &mut extents)?;
    let mut bytes = Vec::with_capacity(size);
    bytes.extend(header(&supers, format, &numbered, index_at));
    bytes.extend(index_block(&supers, format, &numbered, base));
    for block in supers.iter().filter(|block| block.is_stored()) {
        bytes.extend(block.encode(format, base));
    }
    for block in &supers {
        for (number, (_, chunks)) in (0..).zip(&block.blocks).filter(|(_, (_, chunks))| !chunks.is_empty()) {
            bytes.extend(block.encode_block(number, chunks, format, base));
        }
    }
    let index = ChunkIndex::ExtensibleArray { address: Some(base) };
    Ok(EncodedIndex { blocks: Blocks { bytes, extents }, index })
}

/// Encodes an array whose blocks keep their addresses; `take` allocates new blocks. The parts are in the
/// order in which they may be written while others read: children first.
pub(super) fn encode_in_place(
    map: &ChunkMap<'_>,
    format: &Format,
    chunks: &[&Chunk],
    places: &mut ArrayPlaces,
    take: &mut dyn FnMut(u64) -> Result<u64>,
) -> Result<Vec<(u64, Vec<u8>)>> {
    let numbered = number(map, chunks)?;
    let mut supers = super_blocks(&numbered);
    let base = match places.base {
        Some(base) => base,
        None => *places.base.insert(take(HEADER_BYTES.saturating_add(index_block_size(format)))?),
    };
    let mut parts = Vec::new();
    for block in &mut supers {
        let length = block.block_size(format);
        for (at, (address, _)) in (0..).zip(&mut block.blocks).filter(|(_, (_, chunks))| !chunks.is_empty()) {
            *address = places.address_of((block.number, Some(at)), length, take)?;
        }
        if block.is_stored() {
            block.address = places.address_of((block.number, None), block.size(), take)?;
        }
    }
    for block in &supers {
        for (at, (address, chunks)) in (0..).zip(&block.blocks).filter(|(_, (_, chunks))| !chunks.is_empty())
        {
            parts.push((*address, block.encode_block(at, chunks, format, base)));
        }
    }
    for block in supers.iter().filter(|block| block.is_stored()) {
        parts.push((block.address, block.encode(format, base)));
    }
    let index_at = base.saturating_add(HEADER_BYTES);
    parts.push((index_at, index_block(&supers, format, &numbered, base)));
    parts.push((base, header(&supers, format, &numbered, index_at)));
    Ok(parts)
}

/// Numbers the chunks along the unlimited dimension.
fn number<'c>(map: &ChunkMap<'_>, chunks: &[&'c Chunk]) -> Result<Vec<NumberedChunk<'c>>> {
    let mut unlimited = (0..map.max.len()).zip(map.max).filter(|(_, max)| max.is_none());
    let (Some((slowest, _)), None) = (unlimited.next(), unlimited.next()) else {
        return Err(Error::invalid("an extensible array needs exactly one unlimited dimension"));
    };
    Linear::new(map, slowest).number(chunks, MAX_CHUNKS)
}

/// Distributes the chunks among the super blocks.
fn super_blocks<'n, 'c>(numbered: &'n [NumberedChunk<'c>]) -> Vec<SuperBlock<'n, 'c>> {
    let (_, mut rest) = split_before(numbered, INDEX_CHUNKS.into());
    let mut supers = Vec::new();
    for number in 0..MAX_SUPER_BLOCKS {
        let (block, beyond) = SuperBlock::new(number, rest);
        supers.push(block);
        rest = beyond;
    }
    supers
}

fn header(
    supers: &[SuperBlock<'_, '_>],
    format: &Format,
    numbered: &[NumberedChunk<'_>],
    index_block: u64,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let end = numbered.last().map_or(0, |(number, _)| number.saturating_add(1));
    push_header(&mut bytes, supers, format, end, index_block);
    bytes
}

fn index_block(
    supers: &[SuperBlock<'_, '_>],
    format: &Format,
    numbered: &[NumberedChunk<'_>],
    base: u64,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_prefix(&mut bytes, b"EAIB", format, base);
    let (in_index, _) = split_before(numbered, INDEX_CHUNKS.into());
    push_all(&mut bytes, format, 0..INDEX_CHUNKS.into(), in_index);
    let (direct, others): (Vec<_>, Vec<_>) =
        supers.iter().partition(|block| block.number < UNSTORED_SUPER_BLOCKS);
    direct.iter().for_each(|block| block.push_addresses(&mut bytes));
    others.iter().for_each(|block| bytes.extend_from_slice(&block.address.to_le_bytes()));
    push_checksum(&mut bytes, 0);
    bytes
}

/// Returns the size of all blocks in bytes.
fn total_size(supers: &[SuperBlock<'_, '_>], format: &Format) -> Option<u64> {
    let mut size = HEADER_BYTES.checked_add(index_block_size(format))?;
    for block in supers {
        let stored = block.blocks.iter().filter(|(_, chunks)| !chunks.is_empty()).count() as u64;
        size = size.checked_add(block.block_size(format).checked_mul(stored)?)?;
        if block.is_stored() {
            size = size.checked_add(block.size())?;
        }
    }
    Some(size)
}

/// Assigns an address to each super block and data block.
fn assign_addresses(
    supers: &mut [SuperBlock<'_, '_>],
    format: &Format,
    allocate: &mut Allocate<'_>,
    extents: &mut Vec<Extent>,
) -> Result<()> {
    let mut take = |length: u64| {
        let address = allocate(length)?;
        extents.push((address, length));
        Ok::<u64, Error>(address)
    };
    for block in supers.iter_mut().filter(|block| block.is_stored()) {
        block.address = take(block.size())?;
    }
    for block in supers {
        let length = block.block_size(format);
        for (address, _) in block.blocks.iter_mut().filter(|(_, chunks)| !chunks.is_empty()) {
            *address = take(length)?;
        }
    }
    Ok(())
}

fn index_block_size(format: &Format) -> u64 {
    let elements = u64::from(INDEX_CHUNKS).saturating_mul(format.size() as u64);
    let direct = 2_u64.saturating_mul(u64::from(MIN_POINTERS).saturating_sub(1));
    let addresses = u64::from(MAX_SUPER_BLOCKS.saturating_sub(UNSTORED_SUPER_BLOCKS))
        .saturating_add(direct)
        .saturating_mul(8);
    elements.saturating_add(addresses).saturating_add(PREFIX_BYTES).saturating_add(CHECKSUM_BYTES)
}

fn push_header(
    bytes: &mut Vec<u8>,
    supers: &[SuperBlock<'_, '_>],
    format: &Format,
    end: u64,
    index_block: u64,
) {
    let size = u8::try_from(format.size()).unwrap_or(u8::MAX);
    bytes.extend_from_slice(b"EAHD");
    bytes.extend_from_slice(&[
        0,
        u8::from(format.filtered),
        size,
        MAX_CHUNKS_BITS,
        INDEX_CHUNKS,
        MIN_BLOCK_CHUNKS,
        MIN_POINTERS,
        PAGE_BITS,
    ]);
    // Statistics of super blocks and data blocks: their numbers, their sizes, and their capacity in chunks.
    let (mut super_blocks, mut super_size, mut blocks, mut block_size) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut room = u64::from(INDEX_CHUNKS);
    for block in supers {
        if block.is_stored() {
            super_blocks = super_blocks.saturating_add(1);
            super_size = super_size.saturating_add(block.size());
        }
        let there = block.blocks.iter().filter(|(_, chunks)| !chunks.is_empty()).count() as u64;
        blocks = blocks.saturating_add(there);
        block_size = block_size.saturating_add(block.block_size(format).saturating_mul(there));
        room = room.saturating_add(block.chunks.saturating_mul(there));
    }
    for number in [super_blocks, super_size, blocks, block_size, end, room, index_block] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    push_checksum(bytes, 0);
}

/// Appends the prefix of a block.
fn push_prefix(bytes: &mut Vec<u8>, signature: &[u8; 4], format: &Format, header: u64) {
    bytes.extend_from_slice(signature);
    bytes.extend_from_slice(&[0, u8::from(format.filtered)]);
    bytes.extend_from_slice(&header.to_le_bytes());
}

/// Appends a block's offset in the array.
fn push_offset(bytes: &mut Vec<u8>, first: u64) {
    // There are at most 2³² chunks.
    bytes.extend_from_slice(&u32::try_from(first).unwrap_or(u32::MAX).to_le_bytes());
}
