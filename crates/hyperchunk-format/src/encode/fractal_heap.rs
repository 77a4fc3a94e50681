//! Fractal heaps, made at once of all their objects: links and attributes in dense storage. Source: specification §III.G,
//! "Disk Format: Level 1G - Fractal Heap"; HDF5 2.x `H5HF*.c` for what writers that add objects later rely on.

use super::{Bytes, btree_v2, fit};
use crate::{Error, Result, checksum};
use std::iter::Peekable;
use std::vec::IntoIter;

const NAME: &str = "fractal heap";

/// How many blocks a row has.
const COLUMNS: u64 = 4;
/// The size of the largest direct blocks, as a power of 2.
const LARGEST: u32 = 16;
/// Objects beyond this size do not lie in blocks.
const MOST_MANAGED: usize = 4096;
/// The width of an object's length in its id, of which the limit above is one.
const LENGTH_WIDTH: usize = 2;
/// The size of the heap's header.
const HEADER: u64 = 146;
/// The size of a node of the B-tree of huge objects, and the type and size of its records.
const HUGE_TREE: (u32, u8, u16) = (512, 1, 24);

/// What a heap is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The size of the smallest blocks, as a power of 2.
    first: u32,
    /// How many bits an offset has.
    bits: u32,
    /// The size of an object's id.
    pub id_length: u16,
}

/// What libraries use for links.
pub const LINKS: Kind = Kind { first: 9, bits: 32, id_length: 7 };
/// What libraries use for attributes.
pub const ATTRIBUTES: Kind = Kind { first: 10, bits: 40, id_length: 8 };

/// A heap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heap {
    /// Its bytes, header first.
    pub bytes: Vec<u8>,
    /// The ids of its objects, in their order, one after another.
    pub ids: Vec<u8>,
}

/// A heap with these objects, whose header is to lie at `base`.
///
/// # Errors
/// Limit, if they have more bytes than offsets can tell apart.
pub fn encode<O: AsRef<[u8]>>(kind: Kind, objects: &[O], base: u64) -> Result<Heap> {
    let mut builder = Builder { kind, base, blocks: Vec::new(), next: 0, objects: 0, used: 0 };
    let mut ids = Bytes::with_capacity(objects.len().saturating_mul(kind.id_length.into()));
    let mut huge = Vec::new();
    for object in objects.iter().map(AsRef::as_ref) {
        let start = ids.len();
        if object.len() > MOST_MANAGED {
            huge.push(object);
            ids.u8(0x10).uint(huge.len() as u64, usize::from(kind.id_length).saturating_sub(1).min(8))?;
        } else {
            let offset = builder.place(object).map_err(|error| error.within(NAME))?;
            ids.u8(0).uint(offset, kind.offset_width())?.uint(object.len() as u64, LENGTH_WIDTH)?;
        }
        ids.pad_to(start.saturating_add(kind.id_length.into()));
    }
    let bytes = builder.encode(&huge).map_err(|error| error.within(NAME))?;
    Ok(Heap { bytes, ids: ids.into_vec() })
}

impl Kind {
    fn offset_width(self) -> usize {
        self.bits.div_ceil(8) as usize
    }

    /// The size of what a direct block starts with: signature, version, the heap's address, the block's offset, checksum.
    fn direct_prefix(self) -> u64 {
        17_u64.saturating_add(self.offset_width() as u64)
    }

    /// The size of the blocks of a row, or of all below one of them.
    fn block_size(self, row: u32) -> u64 {
        1_u64.unbounded_shl(self.first.saturating_add(row.saturating_sub(1)))
    }

    /// Where a row starts in its block; equally, how many bytes so many rows stand for.
    fn row_start(self, row: u32) -> u64 {
        if row == 0 { 0 } else { self.block_size(row).saturating_mul(COLUMNS) }
    }

    /// How many rows of an indirect block have direct blocks.
    fn direct_rows(self) -> u32 {
        LARGEST.saturating_sub(self.first).saturating_add(2)
    }

    /// How many rows an indirect block has that stands for so many bytes.
    fn rows_of(self, size: u64) -> u32 {
        let row_bits = self.first.saturating_add(COLUMNS.ilog2());
        size.checked_ilog2()
            .and_then(|bits| bits.checked_sub(row_bits))
            .map_or(0, |rows| rows.saturating_add(1))
    }

    /// The row of the block that has an offset.
    fn row_of(self, offset: u64) -> u32 {
        self.rows_of(offset)
    }

    /// The size of the direct block that starts at an offset.
    fn direct_size(self, offset: u64) -> u64 {
        let mut inside = offset;
        loop {
            let row = self.row_of(inside);
            let size = self.block_size(row);
            if row < self.direct_rows() {
                return size;
            }
            // Sizes are powers of 2: the offset in the block of the row.
            inside = inside.saturating_sub(self.row_start(row)) & size.wrapping_sub(1);
        }
    }

    /// How many bytes of objects so many rows have room for.
    fn room(self, rows: u32) -> u64 {
        let block = |row| match row < self.direct_rows() {
            true => self.block_size(row).saturating_sub(self.direct_prefix()),
            false => self.room(self.rows_of(self.block_size(row))),
        };
        (0..rows).fold(0_u64, |room, row| room.saturating_add(COLUMNS.saturating_mul(block(row))))
    }
}

/// A direct block in use.
struct Block {
    /// Where it starts in the heap.
    start: u64,
    size: u64,
    bytes: Bytes,
}

struct Builder {
    kind: Kind,
    base: u64,
    blocks: Vec<Block>,
    /// Where the next block starts in the heap.
    next: u64,
    /// How many objects lie in blocks, and how many bytes they have.
    objects: u64,
    used: u64,
}

impl Builder {
    /// Puts an object into the last block, or the next that is large enough: its offset in the heap.
    fn place(&mut self, object: &[u8]) -> Result<u64> {
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

    /// The next block that has room for so many bytes. Those that are left out take no space in the file.
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
            return Err(Error::limit(format!("objects of more than {start} bytes")));
        }
        let mut bytes = Bytes::new();
        bytes.raw(b"FHDB").u8(0).u64(self.base).uint(start, self.kind.offset_width())?.u32(0);
        self.blocks.push(Block { start, size, bytes });
        Ok(())
    }

    /// The heap: header, blocks, huge objects, their B-tree.
    fn encode(self, huge: &[&[u8]]) -> Result<Vec<u8>> {
        let Self { kind, base, blocks, next, objects, used } = self;
        let allocated = blocks.iter().fold(0_u64, |sum, block| sum.saturating_add(block.size));
        let single = blocks.len() == 1 && next == kind.block_size(0);
        let rows = if blocks.is_empty() || single { 0 } else { kind.root_rows(next) };
        let managed = if single { next } else { kind.row_start(rows) };
        let room = match single {
            true => kind.block_size(0).saturating_sub(kind.direct_prefix()),
            false => kind.room(rows),
        };
        let mut body = Body { kind, base, bytes: Bytes::new(), blocks: blocks.into_iter().peekable() };
        let root = match rows {
            0 => body.direct(),
            rows => Some(body.indirect(0, rows)?),
        };
        let (huge_tree, huge_size) = body.huge(huge)?;
        let mut header = Bytes::with_capacity(body.bytes.len().saturating_add(200));
        header.raw(b"FRHP").u8(0).u16(kind.id_length).u16(0);
        // Direct blocks have checksums.
        header.u8(0x02).u32(fit(MOST_MANAGED, "bytes of an object")?);
        header.u64(huge.len() as u64).address(huge_tree);
        // What is free in all blocks that its rows could have, and no list of it. Writers that add objects start one.
        header.u64(room.saturating_sub(used)).address(None);
        // Where writers put the next block. While the root is a direct block, they put it behind that.
        header.u64(managed).u64(allocated).u64(if single { 0 } else { next }).u64(objects);
        header.u64(huge_size).u64(huge.len() as u64).u64(0).u64(0);
        header.u16(fit(COLUMNS, "blocks in a row")?).u64(kind.block_size(0)).u64(1 << LARGEST);
        header.u16(fit(kind.bits, "bits of an offset")?).u16(1);
        header.address(root).u16(fit(rows, "rows of blocks")?).checksum();
        header.raw(body.bytes.as_slice());
        Ok(header.into_vec())
    }
}

impl Kind {
    /// How many rows the root block has where blocks up to an offset are in use: libraries double them.
    fn root_rows(self, end: u64) -> u32 {
        let row_bits = self.first.saturating_add(COLUMNS.ilog2());
        let most = self.bits.saturating_sub(row_bits).saturating_add(1);
        let mut rows = 1_u32;
        while self.row_start(rows) < end && rows < most {
            rows = rows.saturating_mul(2).min(most);
        }
        rows
    }
}

/// What lies behind the header.
struct Body {
    kind: Kind,
    base: u64,
    bytes: Bytes,
    /// The direct blocks that are still to be written.
    blocks: Peekable<IntoIter<Block>>,
}

impl Body {
    /// Where the next byte will lie in the file.
    fn address(&self) -> u64 {
        self.base.saturating_add(HEADER).saturating_add(self.bytes.len() as u64)
    }

    /// The next direct block: its address.
    fn direct(&mut self) -> Option<u64> {
        let block = self.blocks.next()?;
        let address = self.address();
        let mut bytes = block.bytes;
        bytes.pad_to(usize::try_from(block.size).unwrap_or(0));
        let mut bytes = bytes.into_vec();
        let sum = checksum::lookup3(&bytes);
        let at = usize::try_from(self.kind.direct_prefix()).unwrap_or(0).saturating_sub(4);
        if let Some(field) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            *field = sum.to_le_bytes();
        }
        self.bytes.raw(&bytes);
        Some(address)
    }

    /// An indirect block that starts at an offset in the heap, behind the blocks below it: its address.
    fn indirect(&mut self, start: u64, rows: u32) -> Result<u64> {
        let mut block = Bytes::new();
        block.raw(b"FHIB").u8(0).u64(self.base).uint(start, self.kind.offset_width())?;
        for row in 0..rows {
            let size = self.kind.block_size(row);
            for column in 0..COLUMNS {
                let at = self.kind.row_start(row).saturating_add(column.saturating_mul(size));
                let at = start.saturating_add(at);
                let used = self.blocks.peek().is_some_and(|block| block.start < at.saturating_add(size));
                let address = match (used, row < self.kind.direct_rows()) {
                    (false, _) => None,
                    (true, true) => self.direct(),
                    (true, false) => Some(self.indirect(at, self.kind.rows_of(size))?),
                };
                block.address(address);
            }
        }
        block.checksum();
        let address = self.address();
        self.bytes.raw(block.as_slice());
        Ok(address)
    }

    /// The huge objects and the B-tree that says where they are: its address, and how many bytes they have.
    fn huge(&mut self, objects: &[&[u8]]) -> Result<(Option<u64>, u64)> {
        if objects.is_empty() {
            return Ok((None, 0));
        }
        let mut records = Bytes::new();
        let mut total = 0_u64;
        for (number, object) in (1..).zip(objects) {
            let length = object.len() as u64;
            records.u64(self.address()).u64(length).u64(number);
            self.bytes.raw(object);
            total = total.saturating_add(length);
        }
        let address = self.address();
        let (node_size, kind, record_size) = HUGE_TREE;
        let tree = btree_v2::encode(kind, node_size, record_size, records.as_slice(), address)?;
        self.bytes.raw(&tree);
        Ok((Some(address), total))
    }
}

#[cfg(test)]
mod tests;
