//! Chunks in an extensible array. Source: specification §VII.D, "The Extensible Array Index".

use super::ChunkMap;
use super::fixed_array::{check_class, check_owner, check_size, next_bit, read_pages};
use super::linear::Linear;
use super::record::{self, Format};
use super::region::Region;
use crate::model::Chunk;
use crate::parse::budget::Budget;
use crate::{Cursor, Error, Image, Result};
use std::ops::Range;

const NAME: &str = "extensible array";

/// Size of a checksum.
const CHECKSUM_BYTES: u64 = 4;

/// Fields of the header, and values derived from them.
#[derive(Debug)]
struct Array {
    header: u64,
    format: Format,
    /// Number of chunks with entries in the index block itself.
    in_index: u64,
    /// Number of chunks in the smallest data block.
    smallest: u64,
    /// Number of chunks in a page.
    page: u64,
    /// First chunk number that was never written.
    end: u64,
    index_block: Option<u64>,
    /// Number of super blocks whose data blocks are addressed directly by the index block.
    direct_super_blocks: u32,
    /// Maximum number of super blocks.
    super_blocks: u32,
    /// Width of a block's offset in the array.
    offset_width: u64,
}

/// Dimensions of the data blocks of one super block.
#[derive(Debug, Clone, Copy)]
struct SuperBlock {
    /// Number of the first chunk.
    first: u64,
    /// Number of data blocks.
    blocks: u64,
    /// Number of chunks in a data block.
    chunks: u64,
    /// Number of pages in a data block; 0 if it is not paged.
    pages: u64,
}

impl SuperBlock {
    fn end(&self) -> u64 {
        self.first.saturating_add(self.blocks.saturating_mul(self.chunks))
    }
}

pub(super) fn chunks(
    image: Image<'_>,
    header: u64,
    map: &ChunkMap<'_>,
    format: Format,
    region: &Region,
) -> Result<Vec<Chunk>> {
    let Some(slowest) = map.max.iter().position(Option::is_none) else {
        return Err(Error::corrupt("an extensible array in a dataset without an unlimited dimension"));
    };
    let array = Array::open(image, header, format)?;
    let Some(address) = array.index_block else { return Ok(Vec::new()) };
    let mut linear = Linear::new(map, region, slowest)?;
    let mut budget = Budget::new(&image, NAME);
    let mut chunks = Vec::new();

    let direct = array.blocks_in_index();
    let supers = array.super_blocks.saturating_sub(array.direct_super_blocks);
    let addresses = direct.saturating_add(supers.into());
    let length = array
        .in_index
        .saturating_mul(format.size() as u64)
        .saturating_add(addresses.saturating_mul(image.sizes.address.into()))
        .saturating_add(6)
        .saturating_add(image.sizes.address.into())
        .saturating_add(CHECKSUM_BYTES);
    let bytes = image.read(NAME, address, length)?;
    budget.take(length)?;
    image.belongs(address, length);
    let mut cursor = array.block(image, &bytes, address, b"EAIB")?;
    let elements = array.in_index.min(array.end);
    record::append(&mut linear, format, cursor.clone(), 0..elements, &mut chunks)?;
    cursor.skip(format.size().saturating_mul(usize::try_from(array.in_index).unwrap_or(usize::MAX)))?;

    // The index block continues with the addresses of data blocks, then of super blocks. First the super
    // blocks with chunks of the region are read, then all data blocks and pages.
    let mut plan = Plan::default();
    for number in 0..array.direct_super_blocks {
        plan.data_blocks(&mut linear, &array, array.super_block(number)?, &[], image, &mut cursor)?;
    }
    let mut needed = Vec::new();
    for number in array.direct_super_blocks..array.super_blocks {
        let address = cursor.address(image.sizes)?;
        let block = array.super_block(number)?;
        if block.first >= array.end {
            break;
        }
        let used = linear.next(block.first).is_some_and(|run| run.start < block.end().min(array.end));
        if let (Some(address), true) = (address, used) {
            needed.push((address, block));
        }
    }
    let parts: Vec<(u64, u64)> =
        needed.iter().map(|(address, block)| (*address, array.super_block_size(image, block))).collect();
    image.will_need(&parts);
    image.all(needed, |(address, block)| {
        let length = array.super_block_size(image, &block);
        let bytes = image.read(NAME, address, length)?;
        budget.take(length)?;
        let mut cursor = array.block(image, &bytes, address, b"EASB")?;
        image.belongs(address, length);
        cursor.skip(usize::try_from(array.offset_width).unwrap_or(8))?;
        let bits = block.blocks.saturating_mul(block.pages.div_ceil(8));
        let bits = cursor.take(usize::try_from(bits).unwrap_or(usize::MAX))?;
        plan.data_blocks(&mut linear, &array, block, bits, image, &mut cursor)
    })?;

    let parts: Vec<(u64, u64)> = plan
        .blocks
        .iter()
        .map(|(address, numbers)| (*address, array.data_block_size(image, numbers)))
        .collect();
    for (_, length) in &parts {
        budget.take(*length)?;
    }
    for (_, numbers) in &plan.pages {
        let count = numbers.end.saturating_sub(numbers.start);
        budget.take(count.saturating_mul(format.size() as u64).saturating_add(CHECKSUM_BYTES))?;
    }
    image.will_need(&parts);
    image.all(&plan.blocks, |(address, numbers)| {
        let bytes = image.read(NAME, *address, array.data_block_size(image, numbers))?;
        let mut cursor = array.block(image, &bytes, *address, b"EADB")?;
        image.belongs(*address, array.data_block_size(image, numbers));
        cursor.skip(usize::try_from(array.offset_width).unwrap_or(8))?;
        record::append(&mut linear, format, cursor, numbers.start..numbers.end.min(array.end), &mut chunks)
    })?;
    read_pages(image, &plan.pages, array.end, format, &mut linear, &mut chunks)?;
    if slowest != 0 {
        // Sort by row-major number: one integer key is far faster to compare than coordinates. It fits 128
        // bits: the other axes have fewer than 2⁶⁴ chunks together, and so has the slowest.
        chunks.sort_by_cached_key(|chunk| {
            let axes = chunk.scaled.iter().zip(region.ranges());
            axes.fold(0_u128, |key, (at, range)| {
                key.wrapping_mul(range.end.into()).wrapping_add(u128::from(*at))
            })
        });
    }
    Ok(chunks)
}

/// Data blocks and pages to read, each with the numbers of its chunks.
#[derive(Debug, Default)]
struct Plan {
    blocks: Vec<(u64, Range<u64>)>,
    pages: Vec<(u64, Range<u64>)>,
}

impl Plan {
    /// Plans the reads for the data blocks of a super block, whose addresses are next in the cursor. `bits`
    /// marks the initialized pages.
    fn data_blocks(
        &mut self,
        linear: &mut Linear,
        array: &Array,
        block: SuperBlock,
        bits: &[u8],
        image: Image<'_>,
        addresses: &mut Cursor<'_>,
    ) -> Result<()> {
        let width = usize::from(image.sizes.address);
        let start = addresses.clone();
        addresses.skip(width.saturating_mul(usize::try_from(block.blocks).unwrap_or(usize::MAX)))?;
        let end = block.end().min(array.end);
        let mut from = block.first;
        while let Some(run) = linear.next(from).filter(|run| run.start < end) {
            let number = run.start.saturating_sub(block.first).checked_div(block.chunks).unwrap_or(0);
            let first = block.first.saturating_add(number.saturating_mul(block.chunks));
            let mut cursor = start.clone();
            cursor.skip(width.saturating_mul(usize::try_from(number).unwrap_or(usize::MAX)))?;
            let address = cursor.address(image.sizes)?;
            from = first.saturating_add(block.chunks);
            let Some(address) = address else { continue };
            if block.pages == 0 {
                self.blocks.push((address, first..from));
                continue;
            }
            // Pages follow the prefix of the data block, which is not read.
            let prefix = array.data_block_size(image, &(0..0));
            let stored = array.page.saturating_mul(array.format.size() as u64).saturating_add(CHECKSUM_BYTES);
            image.belongs(address, prefix.saturating_add(stored.saturating_mul(block.pages)));
            let bit = |page: u64| number.saturating_mul(block.pages).saturating_add(page);
            let mut at = run.start;
            while let Some(run) = linear.next(at).filter(|run| run.start < from.min(end)) {
                let page = run.start.saturating_sub(first).checked_div(array.page).unwrap_or(0);
                let Some(next) = next_bit(bits, bit(page)).filter(|next| *next < bit(block.pages)) else {
                    break;
                };
                let page = next.saturating_sub(bit(0));
                let start = first.saturating_add(page.saturating_mul(array.page));
                at = start.saturating_add(array.page);
                if start <= run.start || linear.next(start).is_some_and(|run| run.start < at) {
                    let offset = prefix.saturating_add(page.saturating_mul(stored));
                    self.pages.push((address.saturating_add(offset), start..at));
                }
            }
        }
        Ok(())
    }
}

impl Array {
    fn open(image: Image<'_>, header: u64, format: Format) -> Result<Self> {
        let sizes = image.sizes;
        let lengths = u64::from(sizes.length).saturating_mul(6);
        let length = 16_u64.saturating_add(lengths).saturating_add(sizes.address.into());
        let bytes = image.read(NAME, header, length)?;
        let mut cursor = image.cursor(image.checked(&bytes, NAME, header)?, NAME, header);
        cursor.signature(b"EAHD")?;
        cursor.version(0..=0)?;
        check_class(&mut cursor, format)?;
        check_size(&mut cursor, format)?;
        let bits = cursor.u8()?;
        let in_index = u64::from(cursor.u8()?);
        let smallest = u64::from(cursor.u8()?);
        let pointers = cursor.u8()?;
        let page_bits = cursor.u8()?;
        // Numbers and sizes of the blocks, which only writers need.
        cursor.skip(usize::from(sizes.length).saturating_mul(4))?;
        let end = cursor.length(sizes)?;
        cursor.skip(sizes.length.into())?;
        let index_block = cursor.address(sizes)?;
        let super_blocks = u32::from(bits).checked_sub(smallest.checked_ilog2().unwrap_or(0));
        let direct_super_blocks = pointers.checked_ilog2().unwrap_or(0).saturating_mul(2);
        let array = Self {
            header,
            format,
            in_index,
            smallest,
            page: 1_u64.checked_shl(page_bits.into()).unwrap_or(u64::MAX),
            end,
            index_block,
            direct_super_blocks,
            super_blocks: super_blocks.map_or(0, |blocks| blocks.saturating_add(1)),
            offset_width: u64::from(bits).div_ceil(8),
        };
        if bits > 64
            || !smallest.is_power_of_two()
            || !pointers.is_power_of_two()
            || array.super_blocks < array.direct_super_blocks
        {
            let message = format!("parameters {bits}, {in_index}, {smallest}, {pointers}, {page_bits}");
            return Err(cursor.error(message));
        }
        image.belongs(header, length);
        Ok(array)
    }

    /// Returns the number of data blocks addressed directly by the index block.
    fn blocks_in_index(&self) -> u64 {
        (0..self.direct_super_blocks).map(blocks_in).fold(0, u64::saturating_add)
    }

    fn super_block(&self, number: u32) -> Result<SuperBlock> {
        // Super block n holds 2^n times the chunks of the smallest data block, so the ones before it hold 2^n
        // - 1 times as many.
        let scale = 1_u64.checked_shl(number);
        let first = scale.and_then(|scale| {
            self.smallest
                .checked_mul(scale.saturating_sub(1))
                .and_then(|first| first.checked_add(self.in_index))
        });
        let chunks = 1_u64.checked_shl(number.div_ceil(2)).and_then(|scale| self.smallest.checked_mul(scale));
        // A number of 2⁶⁴ or more is also past the last chunk.
        let block = SuperBlock {
            first: first.unwrap_or(u64::MAX),
            blocks: blocks_in(number),
            chunks: chunks.unwrap_or(u64::MAX),
            pages: 0,
        };
        if block.chunks <= self.page {
            return Ok(block);
        }
        if number < self.direct_super_blocks {
            let message = "paged data blocks that the index block addresses directly";
            return Err(Error::unsupported(message).within(NAME));
        }
        Ok(SuperBlock { pages: block.chunks.checked_div(self.page).unwrap_or(0), ..block })
    }

    fn super_block_size(&self, image: Image<'_>, block: &SuperBlock) -> u64 {
        let address = u64::from(image.sizes.address);
        block
            .blocks
            .saturating_mul(block.pages.div_ceil(8).saturating_add(address))
            .saturating_add(self.data_block_size(image, &(0..0)))
    }

    /// Returns the size of a data block with the chunks `numbers`; for an empty range, the size of the prefix
    /// and checksum of a paged data block.
    fn data_block_size(&self, image: Image<'_>, numbers: &Range<u64>) -> u64 {
        let count = numbers.end.saturating_sub(numbers.start);
        count
            .saturating_mul(self.format.size() as u64)
            .saturating_add(6)
            .saturating_add(image.sizes.address.into())
            .saturating_add(self.offset_width)
            .saturating_add(CHECKSUM_BYTES)
    }

    /// Checks the prefix common to all blocks, and returns a cursor after it.
    fn block<'b>(
        &self,
        image: Image<'_>,
        bytes: &'b [u8],
        address: u64,
        signature: &[u8; 4],
    ) -> Result<Cursor<'b>> {
        let mut cursor = image.cursor(image.checked(bytes, NAME, address)?, NAME, address);
        cursor.signature(signature)?;
        cursor.version(0..=0)?;
        check_class(&mut cursor, self.format)?;
        check_owner(&mut cursor, image, self.header)?;
        Ok(cursor)
    }
}

/// Returns the number of data blocks in a super block.
fn blocks_in(super_block: u32) -> u64 {
    1_u64.checked_shl(super_block / 2).unwrap_or(u64::MAX)
}
