//! Fractal heaps, built in bulk from all their objects: links and attributes in dense storage. Source:
//! specification §III.G, "Disk Format: Level 1G - Fractal Heap"; HDF5 2.x `H5HF*.c` for the assumptions of
//! writers that add objects later.

use super::blocks::{Allocate, Blocks, Extent};
use super::{Bytes, btree_v2, fit};
use crate::{Error, Result, checksum};
use std::iter::Peekable;
use std::vec::IntoIter;

const NAME: &str = "fractal heap";

/// Number of blocks in a row.
const ROW_BLOCKS: u64 = 4;
/// Base-2 logarithm of the size of the largest direct blocks.
const MAX_DIRECT_BITS: u32 = 16;
/// Largest managed object in bytes; larger ones are stored as huge objects.
const MAX_MANAGED_BYTES: usize = 4096;
/// Width of an object's length in its id, sufficient for the limit above.
const LENGTH_BYTES: usize = 2;
/// Size of the heap's header.
const HEADER_BYTES: u64 = 146;
/// Node size of the B-tree of huge objects, and type and size of its records.
const HUGE_TREE: (u32, u8, u16) = (512, 1, 24);

/// Parameters of a heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Base-2 logarithm of the size of the smallest blocks.
    first: u32,
    /// Number of bits of an offset.
    bits: u32,
    /// Size of a heap id.
    pub id_length: u16,
}

/// Parameters that libraries use for links.
pub const LINKS: Kind = Kind { first: 9, bits: 32, id_length: 7 };
/// Parameters that libraries use for attributes.
pub const ATTRIBUTES: Kind = Kind { first: 10, bits: 40, id_length: 8 };

/// Encoded heap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heap {
    /// Blocks of the heap, header first.
    pub blocks: Blocks,
    /// Heap ids of the objects in their order, concatenated.
    pub ids: Vec<u8>,
}

/// Encodes a heap with these objects.
///
/// # Errors
/// Limit if the objects exceed the range of offsets; the allocator's errors.
pub fn encode<O: AsRef<[u8]>>(kind: Kind, objects: &[O], allocate: &mut Allocate<'_>) -> Result<Heap> {
    let base = allocate(HEADER_BYTES)?;
    let mut builder = Builder { kind, base, blocks: Vec::new(), next: 0, objects: 0, used: 0 };
    let mut ids = Bytes::with_capacity(objects.len().saturating_mul(kind.id_length.into()));
    let mut huge = Vec::new();
    for object in objects.iter().map(AsRef::as_ref) {
        let start = ids.len();
        // The first byte of an id is its type: 0x10 for huge objects, 0 for managed ones.
        if object.len() > MAX_MANAGED_BYTES {
            huge.push(object);
            ids.u8(0x10).uint(huge.len() as u64, usize::from(kind.id_length).saturating_sub(1).min(8))?;
        } else {
            let offset = builder.store(object).map_err(|error| error.within(NAME))?;
            ids.u8(0).uint(offset, kind.offset_width())?.uint(object.len() as u64, LENGTH_BYTES)?;
        }
        ids.pad_to(start.saturating_add(kind.id_length.into()));
    }
    let blocks = builder.encode(&huge, allocate).map_err(|error| error.within(NAME))?;
    Ok(Heap { blocks, ids: ids.into_vec() })
}

impl Kind {
    fn offset_width(self) -> usize {
        self.bits.div_ceil(8) as usize
    }

    /// Returns the size of a direct block's prefix: signature, version, address of the heap, offset of the
    /// block, checksum.
    fn direct_prefix(self) -> u64 {
        17_u64.saturating_add(self.offset_width() as u64)
    }

    /// Returns the size of the blocks of a row, including their subtrees.
    fn block_size(self, row: u32) -> u64 {
        1_u64.unbounded_shl(self.first.saturating_add(row.saturating_sub(1)))
    }

    /// Returns the start of a row in its block, which is also the size of the preceding rows.
    fn row_start(self, row: u32) -> u64 {
        if row == 0 { 0 } else { self.block_size(row).saturating_mul(ROW_BLOCKS) }
    }

    /// Returns the number of rows of an indirect block that have direct blocks.
    fn direct_rows(self) -> u32 {
        MAX_DIRECT_BITS.saturating_sub(self.first).saturating_add(2)
    }

    /// Returns the number of rows of an indirect block that spans `size` bytes.
    fn count_rows(self, size: u64) -> u32 {
        let row_bits = self.first.saturating_add(ROW_BLOCKS.ilog2());
        size.checked_ilog2()
            .and_then(|bits| bits.checked_sub(row_bits))
            .map_or(0, |rows| rows.saturating_add(1))
    }

    /// Returns the row of the block that contains an offset.
    fn find_row(self, offset: u64) -> u32 {
        self.count_rows(offset)
    }

    /// Returns the size of the direct block that starts at an offset.
    fn direct_size(self, offset: u64) -> u64 {
        let mut inside = offset;
        loop {
            let row = self.find_row(inside);
            let size = self.block_size(row);
            if row < self.direct_rows() {
                return size;
            }
            // Sizes are powers of 2, so the mask gives the offset in the block of the row.
            inside = inside.saturating_sub(self.row_start(row)) & size.wrapping_sub(1);
        }
    }

    /// Returns the capacity of the first `rows` rows, in bytes of objects.
    fn room(self, rows: u32) -> u64 {
        let block = |row| match row < self.direct_rows() {
            true => self.block_size(row).saturating_sub(self.direct_prefix()),
            false => self.room(self.count_rows(self.block_size(row))),
        };
        (0..rows).fold(0_u64, |room, row| room.saturating_add(ROW_BLOCKS.saturating_mul(block(row))))
    }
}

/// Direct block in use.
struct Block {
    /// Offset of its start in the heap.
    start: u64,
    size: u64,
    bytes: Bytes,
}

struct Builder {
    kind: Kind,
    base: u64,
    blocks: Vec<Block>,
    /// Heap offset of the next block.
    next: u64,
    /// Number of objects in blocks, and their total size in bytes.
    objects: u64,
    used: u64,
}

impl Builder {
    /// Stores an object in the last block or in the next one large enough, and returns its heap offset.
    fn store(&mut self, object: &[u8]) -> Result<u64> {
        let length = object.len() as u64;
        let fits = |block: &Block| (block.bytes.len() as u64).saturating_add(length) <= block.size;
        if !self.blocks.last().is_some_and(fits) {
            self.add_block(length)?;
        }
        let block = self.blocks.last_mut().ok_or_else(|| Error::limit("no block"))?;
        let offset = block.start.saturating_add(block.bytes.len() as u64);
        block.bytes.raw(object);
        self.objects = self.objects.saturating_add(1);
        self.used = self.used.saturating_add(length);
        Ok(offset)
    }

    /// Adds the next block with space for `length` bytes. Skipped blocks take no space in the file.
    fn add_block(&mut self, length: u64) -> Result<()> {
        let needed = length.saturating_add(self.kind.direct_prefix());
        let mut start = self.next;
        let mut size = self.kind.direct_size(start);
        while size < needed {
            start = start.saturating_add(size);
            size = self.kind.direct_size(start);
        }
        self.next = start.saturating_add(size);
        if self.next >= 1_u64.unbounded_shl(self.kind.bits) {
            return Err(Error::limit(format!(
                "objects that need more than the 2^{} bytes of a heap",
                self.kind.bits
            )));
        }
        let mut bytes = Bytes::new();
        bytes.raw(b"FHDB").u8(0).u64(self.base).uint(start, self.kind.offset_width())?.u32(0);
        self.blocks.push(Block { start, size, bytes });
        Ok(())
    }

    /// Encodes the heap: header, blocks, huge objects and their B-tree.
    fn encode(self, huge: &[&[u8]], allocate: &mut Allocate<'_>) -> Result<Blocks> {
        let Self { kind, base, blocks, next, objects, used } = self;
        let allocated = blocks.iter().fold(0_u64, |sum, block| sum.saturating_add(block.size));
        let single = blocks.len() == 1 && next == kind.block_size(0);
        let rows = if blocks.is_empty() || single { 0 } else { kind.root_rows(next) };
        let managed = if single { next } else { kind.row_start(rows) };
        let room = match single {
            true => kind.block_size(0).saturating_sub(kind.direct_prefix()),
            false => kind.room(rows),
        };
        let extents = vec![(base, HEADER_BYTES)];
        let mut body = Body {
            kind,
            base,
            bytes: Bytes::new(),
            extents,
            allocate,
            blocks: blocks.into_iter().peekable(),
        };
        let root = match rows {
            0 => body.direct()?,
            rows => Some(body.indirect(0, rows)?),
        };
        let (huge_tree, huge_size) = body.huge(huge)?;
        let mut header = Bytes::with_capacity(body.bytes.len().saturating_add(200));
        header.raw(b"FRHP").u8(0).u16(kind.id_length).u16(0);
        // Direct blocks have checksums.
        header.u8(0x02).u32(fit(MAX_MANAGED_BYTES, "bytes of an object")?);
        header.u64(huge.len() as u64).address(huge_tree);
        // Free space in all blocks of its rows, without a free list. Writers that add objects create one.
        header.u64(room.saturating_sub(used)).address(None);
        // Managed space, allocated space, offset of the next block (0 while the root is a direct block), and
        // the number of managed objects.
        header.u64(managed).u64(allocated).u64(if single { 0 } else { next }).u64(objects);
        header.u64(huge_size).u64(huge.len() as u64).u64(0).u64(0);
        header.u16(fit(ROW_BLOCKS, "blocks in a row")?).u64(kind.block_size(0)).u64(1 << MAX_DIRECT_BITS);
        header.u16(fit(kind.bits, "bits of an offset")?).u16(1);
        header.address(root).u16(fit(rows, "rows of blocks")?).checksum();
        header.raw(body.bytes.as_slice());
        Ok(Blocks { bytes: header.into_vec(), extents: body.extents })
    }
}

impl Kind {
    /// Returns the number of rows of the root block if the blocks up to `end` are in use: doubled from 1 on,
    /// as libraries do.
    fn root_rows(self, end: u64) -> u32 {
        let row_bits = self.first.saturating_add(ROW_BLOCKS.ilog2());
        let most = self.bits.saturating_sub(row_bits).saturating_add(1);
        let mut rows = 1_u32;
        while self.row_start(rows) < end && rows < most {
            rows = rows.saturating_mul(2).min(most);
        }
        rows
    }
}

/// Blocks of the heap after its header, being encoded.
struct Body<'a, 'f> {
    kind: Kind,
    base: u64,
    bytes: Bytes,
    extents: Vec<Extent>,
    allocate: &'a mut Allocate<'f>,
    /// Direct blocks not written yet.
    blocks: Peekable<IntoIter<Block>>,
}

impl Body<'_, '_> {
    /// Adds a block; returns its address.
    fn add(&mut self, bytes: &[u8]) -> Result<u64> {
        let size = bytes.len() as u64;
        let address = (self.allocate)(size)?;
        self.extents.push((address, size));
        self.bytes.raw(bytes);
        Ok(address)
    }

    /// Writes the next direct block and returns its address.
    fn direct(&mut self) -> Result<Option<u64>> {
        let Some(block) = self.blocks.next() else { return Ok(None) };
        let mut bytes = block.bytes;
        bytes.pad_to(usize::try_from(block.size).unwrap_or(0));
        let mut bytes = bytes.into_vec();
        let sum = checksum::lookup3(&bytes);
        let at = usize::try_from(self.kind.direct_prefix()).unwrap_or(0).saturating_sub(4);
        if let Some(field) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            *field = sum.to_le_bytes();
        }
        self.add(&bytes).map(Some)
    }

    /// Writes an indirect block that covers heap offsets from `start` on, after its children. Returns its
    /// address.
    fn indirect(&mut self, start: u64, rows: u32) -> Result<u64> {
        let mut block = Bytes::new();
        block.raw(b"FHIB").u8(0).u64(self.base).uint(start, self.kind.offset_width())?;
        for row in 0..rows {
            let size = self.kind.block_size(row);
            for column in 0..ROW_BLOCKS {
                let at = self.kind.row_start(row).saturating_add(column.saturating_mul(size));
                let at = start.saturating_add(at);
                let used = self.blocks.peek().is_some_and(|block| block.start < at.saturating_add(size));
                let address = match (used, row < self.kind.direct_rows()) {
                    (false, _) => None,
                    (true, true) => self.direct()?,
                    (true, false) => Some(self.indirect(at, self.kind.count_rows(size))?),
                };
                block.address(address);
            }
        }
        block.checksum();
        self.add(block.as_slice())
    }

    /// Writes the huge objects and the B-tree with their locations. Returns its address and their total size
    /// in bytes.
    fn huge(&mut self, objects: &[&[u8]]) -> Result<(Option<u64>, u64)> {
        if objects.is_empty() {
            return Ok((None, 0));
        }
        let mut records = Bytes::new();
        let mut total = 0_u64;
        for (number, object) in (1..).zip(objects) {
            let length = object.len() as u64;
            records.u64(self.add(object)?).u64(length).u64(number);
            total = total.saturating_add(length);
        }
        let (node_size, kind, record_size) = HUGE_TREE;
        let tree = btree_v2::encode(kind, node_size, record_size, records.as_slice(), self.allocate)?;
        let address = tree.first();
        self.bytes.raw(&tree.bytes);
        self.extents.extend(tree.extents);
        Ok((address, total))
    }
}

#[cfg(test)]
mod tests;
