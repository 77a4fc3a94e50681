//! Chunks in a fixed array. Source: specification §VII.C, "The Fixed Array Index".

use super::ChunkMap;
use super::linear::Linear;
use super::record::{self, Format};
use super::region::Region;
use crate::model::Chunk;
use crate::{Cursor, Error, Image, Result};
use std::ops::Range;

const NAME: &str = "fixed array";
const PAGE: &str = "page of an array";

/// Size of a checksum.
const CHECKSUM_BYTES: u64 = 4;

pub(super) fn chunks(
    image: Image<'_>,
    header: u64,
    map: &ChunkMap<'_>,
    format: Format,
    region: &Region,
) -> Result<Vec<Chunk>> {
    let sizes = image.sizes;
    let length = 12_u64.saturating_add(sizes.address.into()).saturating_add(sizes.length.into());
    let bytes = image.read(NAME, header, length)?;
    let mut cursor = image.cursor(image.checked(&bytes, NAME, header)?, NAME, header);
    cursor.signature(b"FAHD")?;
    cursor.version(0..=0)?;
    check_class(&mut cursor, format)?;
    check_size(&mut cursor, format)?;
    let page_bits = cursor.u8()?;
    let elements = cursor.length(sizes)?;
    let Some(address) = cursor.address(sizes)? else { return Ok(Vec::new()) };
    image.belongs(header, length);
    let page = 1_u64.checked_shl(page_bits.into()).unwrap_or(u64::MAX);
    let size = format.size() as u64;
    let mut linear = Linear::new(map, region, 0)?;

    // Data block: signature, version, class and address of the header; a bitmap of initialized pages if it is
    // paged; a checksum.
    let pages = if elements > page { elements.div_ceil(page) } else { 0 };
    let prefix = 6_u64.saturating_add(sizes.address.into()).saturating_add(pages.div_ceil(8));
    let whole = if pages == 0 { elements.saturating_mul(size) } else { 0 };
    let length = prefix.saturating_add(whole).saturating_add(CHECKSUM_BYTES);
    let block = image.read(NAME, address, length)?;
    let mut cursor = image.cursor(image.checked(&block, NAME, address)?, NAME, address);
    cursor.signature(b"FADB")?;
    cursor.version(0..=0)?;
    check_class(&mut cursor, format)?;
    check_owner(&mut cursor, image, header)?;
    let page_bytes = if pages == 0 { 0 } else { elements.saturating_mul(size) };
    let pages_end = page_bytes.saturating_add(pages.saturating_mul(CHECKSUM_BYTES));
    image.belongs(address, length.saturating_add(pages_end));
    let mut chunks = Vec::new();
    if pages == 0 {
        record::append(&mut linear, format, cursor, 0..elements, &mut chunks)?;
    } else {
        let bits = cursor.rest();
        let stored = page.saturating_mul(size).saturating_add(CHECKSUM_BYTES);
        let mut wanted: Vec<(u64, Range<u64>)> = Vec::new();
        let mut from = 0;
        while let Some(run) = linear.next(from).filter(|run| run.start < elements) {
            let number = run.start.checked_div(page).unwrap_or(0);
            // Uninitialized pages are not read.
            let Some(number) = next_bit(bits, number).filter(|number| *number < pages) else { break };
            let start = number.saturating_mul(page);
            let end = start.saturating_add(page).min(elements);
            if start <= run.start || linear.next(start).is_some_and(|run| run.start < end) {
                let offset = length.saturating_add(number.saturating_mul(stored));
                wanted.push((address.saturating_add(offset), start..end));
            }
            from = end;
        }
        read_pages(image, &wanted, elements, format, &mut linear, &mut chunks)?;
    }
    if linear.next(elements).is_some() {
        let message = format!("an array of {elements} chunks, and the dataset has more");
        return Err(Error::corrupt(message).within(NAME).at(image.offset(header)?));
    }
    Ok(chunks)
}

/// Reads pages of an array, each with the numbers of its chunks. Appends the chunks of the region with
/// numbers below `end`.
pub(super) fn read_pages(
    image: Image<'_>,
    pages: &[(u64, Range<u64>)],
    end: u64,
    format: Format,
    linear: &mut Linear,
    chunks: &mut Vec<Chunk>,
) -> Result<()> {
    let length = |numbers: &Range<u64>| {
        let count = numbers.end.saturating_sub(numbers.start);
        count.saturating_mul(format.size() as u64).saturating_add(CHECKSUM_BYTES)
    };
    if pages.len() > 1 {
        let parts: Vec<(u64, u64)> =
            pages.iter().map(|(address, numbers)| (*address, length(numbers))).collect();
        image.will_need(&parts);
    }
    image.all(pages, |(address, numbers)| {
        let bytes = image.read(PAGE, *address, length(numbers))?;
        let cursor = image.cursor(image.checked(&bytes, PAGE, *address)?, PAGE, *address);
        record::append(linear, format, cursor, numbers.start..numbers.end.min(end), chunks)
    })?;
    Ok(())
}

/// Returns the first set bit from `from` on. Bits count from the most significant one of each byte.
pub(super) fn next_bit(bits: &[u8], from: u64) -> Option<u64> {
    let start = usize::try_from(from / 8).ok()?;
    let mut ignored = from % 8;
    for (number, byte) in bits.iter().enumerate().skip(start) {
        let left = u64::from(byte & 0xff_u8.unbounded_shr(u32::try_from(ignored).unwrap_or(8)));
        if left != 0 {
            let bit = left.leading_zeros().saturating_sub(56);
            return (number as u64).checked_mul(8)?.checked_add(bit.into());
        }
        ignored = 0;
    }
    None
}

/// Checks the class of an array's elements: 0 for chunks, 1 for filtered chunks.
pub(super) fn check_class(cursor: &mut Cursor<'_>, format: Format) -> Result<()> {
    let class = cursor.u8()?;
    if class == u8::from(format.filtered) {
        return Ok(());
    }
    Err(cursor.error(format!("elements of class {class} instead of {}", u8::from(format.filtered))))
}

/// Checks the size of an array's elements.
pub(super) fn check_size(cursor: &mut Cursor<'_>, format: Format) -> Result<()> {
    let size = cursor.u8()?;
    if usize::from(size) == format.size() {
        return Ok(());
    }
    Err(cursor.error(format!("elements of {size} bytes instead of {}", format.size())))
}

/// Checks the address of the header, which every block of an array repeats.
pub(super) fn check_owner(cursor: &mut Cursor<'_>, image: Image<'_>, header: u64) -> Result<()> {
    let owner = cursor.address(image.sizes)?;
    if owner == Some(header) {
        return Ok(());
    }
    Err(cursor.error(format!("a block of another array, whose header is at {owner:x?}")))
}
