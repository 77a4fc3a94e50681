//! Fractal heaps: links and attributes in dense storage, shared messages. Source: specification §III.G, "Disk
//! Format: Level 1G - Fractal Heap".

mod doubling_table;
mod extents;
mod huge;

use super::btree_v2::BTree;
use super::budget::Budget;
use super::message::pipeline;
use crate::codec::Decoder;
use crate::model::Pipeline;
use crate::{Cursor, Error, Image, Result, checksum};
use doubling_table::DoublingTable;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

const NAME: &str = "fractal heap";

/// Bytes of a block.
type Block<'a> = Rc<Cow<'a, [u8]>>;

/// Size of a checksum.
const CHECKSUM_BYTES: u64 = 4;
/// Bytes that filters may always produce, in addition to a multiple of the file's size.
const SLACK_BYTES: u64 = 4 << 20;

/// Fractal heap, for one operation: it caches the blocks read, and bounds the total size of the returned
/// objects.
#[derive(Debug)]
pub struct FractalHeap<'a> {
    address: u64,
    header_size: u64,
    id_length: u64,
    /// True if direct blocks and huge objects are filtered, by `pipeline`.
    filtered: bool,
    pipeline: Pipeline,
    /// True if direct blocks have checksums.
    checksums: bool,
    largest_managed: u64,
    /// B-tree of huge objects.
    huge: Option<u64>,
    /// Size of the managed objects' address space.
    managed: u64,
    table: DoublingTable,
    root: Option<BlockLocation>,
    /// Number of rows of the root block if it is indirect; 0 if it is direct.
    root_rows: u32,
    /// Widths of an offset and of a length in the heap.
    offset_width: usize,
    length_width: usize,
    cache: RefCell<Cache<'a>>,
}

/// Location of a block or a huge object.
#[derive(Debug, Clone, Copy)]
struct BlockLocation {
    address: u64,
    /// Stored size and filter mask, if it is filtered.
    filtered: Option<(u64, u32)>,
}

#[derive(Debug)]
struct Cache<'a> {
    /// Indirect blocks by address and heap offset; decoded huge objects by address and `u64::MAX`.
    blocks: HashMap<(u64, u64), Block<'a>>,
    /// Direct blocks by heap offset, with their sizes in the heap.
    direct: BTreeMap<u64, (u64, Block<'a>)>,
    budget: Budget,
    /// Number of bytes produced by filters.
    decoded: u64,
    /// Number of bytes of objects that may still be returned. Many ids may name one object.
    left: u64,
    decoder: Decoder,
    huge: Option<Rc<BTree>>,
}

impl<'a> FractalHeap<'a> {
    /// Opens the heap whose header is at `address`.
    ///
    /// # Errors
    /// Corrupt, Truncated, Unsupported; Need.
    pub fn open(image: Image<'a>, address: u64) -> Result<Self> {
        let sizes = image.sizes;
        let (lengths, addresses) = (u64::from(sizes.length), u64::from(sizes.address));
        let plain =
            26_u64.saturating_add(lengths.saturating_mul(12)).saturating_add(addresses.saturating_mul(3));
        let mut bytes = image.read(NAME, address, plain)?;
        let mut cursor = image.cursor(&bytes, NAME, address);
        cursor.signature(b"FRHP")?;
        cursor.version(0..=0)?;
        let id_length = cursor.u16()?;
        let filter_length = u64::from(cursor.u16()?);
        if filter_length > 0 {
            let more = lengths.saturating_add(4).saturating_add(filter_length);
            bytes = image.read(NAME, address, plain.saturating_add(more))?;
        }
        let mut cursor = image.cursor(image.checked(&bytes, NAME, address)?, NAME, address);
        cursor.skip(9)?;
        let flags = cursor.u8()?;
        let largest_managed = u64::from(cursor.u32()?);
        cursor.skip(sizes.length.into())?;
        let huge = cursor.address(sizes)?;
        // Free space, which only writers need.
        cursor.skip(usize::from(sizes.length).saturating_add(sizes.address.into()))?;
        let managed = cursor.length(sizes)?;
        // Statistics.
        cursor.skip(usize::from(sizes.length).saturating_mul(7))?;
        let (table, root_address, root_rows) = DoublingTable::parse(&mut cursor, sizes)?;
        let mut root_filtered = None;
        let mut pipeline = Pipeline::new();
        if filter_length > 0 {
            root_filtered = Some((cursor.length(sizes)?, cursor.u32()?));
            pipeline = pipeline::parse(&mut cursor)?;
        }
        let cache = Cache {
            blocks: HashMap::new(),
            direct: BTreeMap::new(),
            budget: Budget::new(&image, NAME),
            decoded: 0,
            left: image.left(0).saturating_mul(16).saturating_add(image.limits.metadata_bytes),
            decoder: Decoder::default(),
            huge: None,
        };
        Ok(Self {
            address,
            header_size: bytes.len() as u64,
            id_length: id_length.into(),
            filtered: filter_length > 0,
            pipeline,
            checksums: flags & 2 != 0,
            largest_managed,
            huge,
            managed,
            table,
            root: root_address.map(|address| BlockLocation { address, filtered: root_filtered }),
            root_rows: root_rows.into(),
            offset_width: table.offset_width(),
            length_width: table.length_width().min(width(largest_managed)),
            cache: RefCell::new(cache),
        })
    }

    /// Returns the size of a heap id in bytes.
    #[must_use]
    pub fn id_length(&self) -> u64 {
        self.id_length
    }

    /// True if direct blocks and huge objects are filtered.
    #[must_use]
    pub fn filtered(&self) -> bool {
        self.filtered
    }

    /// Reads the object with an id.
    ///
    /// # Errors
    /// Corrupt, Truncated, Unsupported; errors of filters; Need.
    pub fn object(&self, image: Image<'a>, id: &[u8]) -> Result<Vec<u8>> {
        let offset = image.offset(self.address)?;
        let mut cursor = Cursor::new(id, "fractal heap id", offset);
        let flags = cursor.u8()?;
        let object = match flags & 0xf0 {
            0x00 => self.managed(image, &mut cursor),
            0x10 => self.huge(image, &mut cursor),
            0x20 => self.tiny(flags, &mut cursor),
            _ => Err(Error::unsupported(format!("an object id that starts with {flags:#04x}"))),
        };
        object.and_then(|object| self.count(object)).map_err(|error| match error.is_need() {
            true => error,
            false => error.within(NAME).at(offset),
        })
    }

    /// Charges a returned object to the budget.
    fn count(&self, object: Vec<u8>) -> Result<Vec<u8>> {
        let mut cache = self.cache.borrow_mut();
        let left = cache.left.checked_sub(object.len() as u64);
        cache.left = left.ok_or_else(|| {
            Error::limit("the heap's objects overlap and are together far larger than the file")
        })?;
        Ok(object)
    }

    /// Reads a tiny object, which is stored in its id.
    fn tiny(&self, flags: u8, cursor: &mut Cursor<'_>) -> Result<Vec<u8>> {
        let mut length = usize::from(flags & 0x0f);
        // Ids of more than 18 bytes have a two-byte length.
        if self.id_length > 18 {
            length = (length << 8) | usize::from(cursor.u8()?);
        }
        cursor.take(length.saturating_add(1)).map(<[u8]>::to_vec)
    }

    /// Reads a managed object, which is stored in a direct block.
    fn managed(&self, image: Image<'a>, cursor: &mut Cursor<'_>) -> Result<Vec<u8>> {
        let offset = cursor.uint(self.offset_width)?;
        let length = cursor.uint(self.length_width)?;
        let outside = || {
            let message = format!(
                "an object of {length} bytes at {offset} does not fit the {} bytes in the heap",
                self.managed
            );
            Error::corrupt(message)
        };
        if offset == 0 || offset > self.managed || length == 0 || length > self.largest_managed {
            return Err(outside());
        }
        let (start, block) = self.find_block(image, offset)?;
        let range = || {
            let from = usize::try_from(offset.checked_sub(start)?).ok()?;
            Some(from..from.checked_add(usize::try_from(length).ok()?)?)
        };
        let range = range().filter(|range| range.start as u64 >= self.prefix_size());
        range.and_then(|range| block.get(range)).map(<[u8]>::to_vec).ok_or_else(outside)
    }

    /// Returns the direct block that contains a heap offset, and the heap offset of its start.
    fn find_block(&self, image: Image<'a>, offset: u64) -> Result<(u64, Block<'a>)> {
        if let Some((start, (size, block))) = self.cache.borrow().direct.range(..=offset).next_back()
            && offset.saturating_sub(*start) < *size
        {
            return Ok((*start, Rc::clone(block)));
        }
        let (stored, start, size) = self.locate(image, offset)?;
        let block = self.direct(image, stored, start, size)?;
        self.cache.borrow_mut().direct.insert(start, (size, Rc::clone(&block)));
        Ok((start, block))
    }

    /// Returns the location of the direct block that contains a heap offset, the heap offset of its start,
    /// and its size.
    fn locate(&self, image: Image<'a>, offset: u64) -> Result<(BlockLocation, u64, u64)> {
        let root = self.root.ok_or_else(|| Error::corrupt("an object in a heap without blocks"))?;
        if self.root_rows == 0 {
            return Ok((root, 0, self.table.first_size()));
        }
        let outside = || Error::corrupt(format!("offset {offset} lies in no block"));
        let mut address = root.address;
        let mut rows = self.root_rows;
        let mut start = 0;
        loop {
            let block = self.indirect(image, address, start, rows)?;
            let inside = offset.checked_sub(start).ok_or_else(outside)?;
            let entry = self.table.locate(inside).filter(|entry| entry.row < rows).ok_or_else(outside)?;
            let direct = entry.row < self.table.direct_rows();
            let stored = self.entry(image, &block, address, &entry, direct)?.ok_or_else(outside)?;
            start = start.checked_add(entry.start).ok_or_else(outside)?;
            if direct {
                return Ok((stored, start, entry.size));
            }
            let below = self.table.count_rows(entry.size).filter(|below| *below < rows);
            rows = below.ok_or_else(|| Error::corrupt("a block as large as the block that contains it"))?;
            address = stored.address;
        }
    }

    /// Reads the entry of a block in an indirect block; `None` if that block does not exist.
    fn entry(
        &self,
        image: Image<'a>,
        block: &[u8],
        address: u64,
        entry: &doubling_table::Entry,
        direct: bool,
    ) -> Result<Option<BlockLocation>> {
        let sizes = image.sizes;
        let directs = entry.number.min(self.table.direct_entries());
        let position = directs
            .saturating_mul(self.direct_entry_size(image))
            .saturating_add(entry.number.saturating_sub(directs).saturating_mul(sizes.address.into()))
            .saturating_add(self.table.prefix_size());
        let mut cursor = image.cursor(block, NAME, address);
        cursor.skip(usize::try_from(position).unwrap_or(usize::MAX))?;
        let Some(address) = cursor.address(sizes)? else { return Ok(None) };
        let filtered = match direct && self.filtered {
            true => Some((cursor.length(sizes)?, cursor.u32()?)),
            false => None,
        };
        Ok(Some(BlockLocation { address, filtered }))
    }

    /// Reads an indirect block and verifies it.
    fn indirect(&self, image: Image<'a>, address: u64, start: u64, rows: u32) -> Result<Block<'a>> {
        let mut cache = self.cache.borrow_mut();
        if let Some(block) = cache.blocks.get(&(address, start)) {
            return Ok(Rc::clone(block));
        }
        let entries = self.table.entries(rows);
        let directs = entries.min(self.table.direct_entries());
        let size = directs
            .saturating_mul(self.direct_entry_size(image))
            .saturating_add(entries.saturating_sub(directs).saturating_mul(image.sizes.address.into()))
            .saturating_add(self.table.prefix_size())
            .saturating_add(CHECKSUM_BYTES);
        let bytes = image.read(NAME, address, size)?;
        cache.budget.take(size)?;
        image.checked(&bytes, NAME, address)?;
        self.check_prefix(image, image.cursor(&bytes, NAME, address), b"FHIB", start)?;
        let block = Rc::new(bytes);
        cache.blocks.insert((address, start), Rc::clone(&block));
        Ok(block)
    }

    /// Reads a direct block, decodes its filters and verifies it.
    fn direct(&self, image: Image<'a>, stored: BlockLocation, start: u64, size: u64) -> Result<Block<'a>> {
        let mut cache = self.cache.borrow_mut();
        let block = match stored.filtered {
            Some(_) => self.unfilter(image, stored, size, &mut cache)?,
            None => {
                let bytes = image.read(NAME, stored.address, size)?;
                cache.budget.take(size)?;
                bytes
            }
        };
        self.check_prefix(image, image.cursor(&block, NAME, stored.address), b"FHDB", start)?;
        if self.checksums {
            self.check_sum(&block)?;
        }
        Ok(Rc::new(block))
    }

    /// Reads a filtered block and decodes it to `expected` bytes.
    fn unfilter(
        &self,
        image: Image<'a>,
        stored: BlockLocation,
        expected: u64,
        cache: &mut Cache<'a>,
    ) -> Result<Cow<'a, [u8]>> {
        let (size, mask) = stored.filtered.unwrap_or((expected, 0));
        // Decoded blocks are cached, so their total size is limited. Real files do not filter heaps of many
        // megabytes.
        let decoded = cache.decoded.saturating_add(expected);
        let most =
            image.left(0).saturating_mul(64).saturating_add(SLACK_BYTES).min(image.limits.metadata_bytes);
        if decoded > most {
            return Err(Error::limit(format!("the filtered blocks of one heap decode to {decoded} bytes")));
        }
        let bytes = image.read(NAME, stored.address, size)?;
        cache.budget.take(size)?;
        cache.decoded = decoded;
        let expected = usize::try_from(expected).unwrap_or(usize::MAX);
        let offset = image.offset(stored.address)?;
        let decoded = cache.decoder.decode(&self.pipeline, mask, &bytes, expected);
        decoded.map(|bytes| Cow::Owned(bytes.to_vec())).map_err(|error| error.within(NAME).at(offset))
    }

    /// Checks the prefix of a direct or indirect block.
    fn check_prefix(
        &self,
        image: Image<'a>,
        mut cursor: Cursor<'_>,
        signature: &[u8; 4],
        start: u64,
    ) -> Result<()> {
        cursor.signature(signature)?;
        cursor.version(0..=0)?;
        let heap = cursor.address(image.sizes)?;
        let offset = cursor.uint(self.offset_width)?;
        if heap != Some(self.address) || offset != start {
            let message =
                format!("a block at {offset} of the heap at {heap:x?}, expected one at {start} of this heap");
            return Err(cursor.error(message));
        }
        Ok(())
    }

    /// Verifies the checksum of a direct block, which is computed with its own field as 0.
    fn check_sum(&self, block: &[u8]) -> Result<()> {
        let at = usize::try_from(self.prefix_size().saturating_sub(CHECKSUM_BYTES)).unwrap_or(usize::MAX);
        let mut cleared = block.to_vec();
        let field = cleared.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<4>);
        let field = field.ok_or_else(|| Error::corrupt("a block too short for its checksum"))?;
        let found = u32::from_le_bytes(std::mem::take(field));
        checksum::check(checksum::lookup3(&cleared), found)
    }

    /// Returns the size of a direct block's prefix.
    fn prefix_size(&self) -> u64 {
        let checksum = if self.checksums { CHECKSUM_BYTES } else { 0 };
        self.table.prefix_size().saturating_add(checksum)
    }

    /// Returns the size of a direct block's entry in an indirect block.
    fn direct_entry_size(&self, image: Image<'a>) -> u64 {
        let filtered = match self.filtered {
            true => u64::from(image.sizes.length).saturating_add(4),
            false => 0,
        };
        u64::from(image.sizes.address).saturating_add(filtered)
    }
}

/// Returns the number of bytes needed for numbers up to `limit`.
fn width(limit: u64) -> usize {
    usize::try_from(limit.checked_ilog2().unwrap_or(0) / 8).unwrap_or(7).saturating_add(1)
}

#[cfg(test)]
mod tests;
