//! Compact encoding of chunk tables: chunks in row-major order, with regular positions, sizes and addresses
//! implicit.

use crate::{Error, Result};
use hyperchunk_format::Cursor;
use hyperchunk_format::model::Chunk;

pub(super) const NAME: &str = "chunk table of an index";

/// Flag: some positions of the grid have no chunk; runs of chunks are listed.
const SPARSE_FLAG: u8 = 1;
/// Flag: chunks have different sizes.
const SIZES_FLAG: u8 = 2;
/// Flag: some chunks have a filter mask.
const MASKS_FLAG: u8 = 4;

/// Appends a number as a varint: seven bits a byte, the lowest first.
pub fn put(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    to.push(number.to_le_bytes()[0]);
}

/// Reads a number that [`put`] wrote.
pub fn take(cursor: &mut Cursor<'_>) -> Result<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = cursor.u8()?;
        let bits = u64::from(byte & 0x7f);
        number |= bits << shift;
        if byte < 0x80 {
            if number >> shift != bits {
                break;
            }
            return Ok(number);
        }
    }
    Err(cursor.error("a number of more than 64 bits".into()))
}

/// Zigzag-encodes a difference: small differences of either sign become small numbers.
fn zigzag(from: u64, to: u64) -> u64 {
    let difference = to.wrapping_sub(from).cast_signed();
    ((difference << 1) ^ (difference >> 63)).cast_unsigned()
}

/// The inverse of [`zigzag`].
fn unzigzag(from: u64, number: u64) -> u64 {
    from.wrapping_add((number >> 1) ^ (number & 1).wrapping_neg())
}

/// Returns the row-major index of a position in a grid; `None` outside of the grid or past 2⁶⁴ - 1.
fn row_major_index(position: &[u64], grid: &[u64]) -> Option<u64> {
    position.iter().zip(grid).try_fold(0_u64, |number, (at, count)| {
        number.checked_mul(*count)?.checked_add(*at).filter(|_| at < count)
    })
}

/// Returns the number of positions in a grid; `None` past 2⁶⁴ - 1.
pub(super) fn places(grid: &[u64]) -> Option<u64> {
    grid.iter().try_fold(1_u64, |places, count| places.checked_mul(*count))
}

/// Encodes a table of `chunks`, which must be in row-major order. `None` if they are not, or are outside of
/// the grid, or if the grid is too large.
pub(super) fn pack(grid: &[u64], chunks: &[Chunk]) -> Option<Vec<u8>> {
    let places = places(grid)?;
    let numbers = chunks.iter().map(|chunk| row_major_index(&chunk.scaled, grid));
    let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
    if !numbers.is_sorted_by(|a, b| a < b) {
        return None;
    }
    let first = chunks.first();
    let mut flags = 0;
    if places != chunks.len() as u64 {
        flags |= SPARSE_FLAG;
    }
    if chunks.iter().any(|chunk| Some(chunk.size) != first.map(|first| first.size)) {
        flags |= SIZES_FLAG;
    }
    if chunks.iter().any(|chunk| chunk.filter_mask != 0) {
        flags |= MASKS_FLAG;
    }
    let mut bytes = Vec::new();
    put(&mut bytes, grid.len() as u64);
    grid.iter().for_each(|count| put(&mut bytes, *count));
    bytes.push(flags);
    if flags & SPARSE_FLAG != 0 {
        let mut next = 0;
        for run in numbers.chunk_by(|a, b| a + 1 == *b) {
            let (start, count) = (run.first().copied().unwrap_or(0), run.len() as u64);
            put(&mut bytes, start - next);
            put(&mut bytes, count);
            next = start + count;
        }
    }
    if flags & SIZES_FLAG == 0 {
        put(&mut bytes, first.map_or(0, |first| first.size));
    } else {
        let before = std::iter::once(0).chain(chunks.iter().map(|chunk| chunk.size));
        before.zip(chunks).for_each(|(before, chunk)| put(&mut bytes, zigzag(before, chunk.size)));
    }
    if flags & MASKS_FLAG != 0 {
        chunks.iter().for_each(|chunk| put(&mut bytes, chunk.filter_mask.into()));
    }
    let ends = chunks.iter().map(|chunk| chunk.address.wrapping_add(chunk.size));
    let expected = std::iter::once(0).chain(ends);
    expected.zip(chunks).for_each(|(expected, chunk)| put(&mut bytes, zigzag(expected, chunk.address)));
    Some(bytes)
}

/// Decodes a table of `count` chunks in this grid. `end` is the end of the file, which no chunk may exceed.
pub(super) fn unpack(bytes: &[u8], grid: &[u64], count: u64, end: u64) -> Result<Vec<Chunk>> {
    let mut cursor = Cursor::new(bytes, NAME, 0);
    let rank = take(&mut cursor)?;
    if rank != grid.len() as u64 {
        return Err(cursor.error(format!("the grid has rank {rank}, the dataset {}", grid.len())));
    }
    for expected in grid {
        let found = take(&mut cursor)?;
        if found != *expected {
            return Err(cursor.error(format!("expected {expected} chunks along an axis, got {found}")));
        }
    }
    let places = places(grid).ok_or_else(|| cursor.error("a grid of more than 2^64 chunks".into()))?;
    // Each chunk has at least one byte of address, so the size of the table bounds the memory.
    let total = usize::try_from(count).ok().filter(|total| *total <= cursor.left());
    let total = total.ok_or_else(|| cursor.error(format!("{count} chunks in {} bytes", cursor.left())))?;
    let flags = cursor.u8()?;
    if flags > SPARSE_FLAG | SIZES_FLAG | MASKS_FLAG {
        return Err(Error::unsupported(format!("unknown flags {flags:#04x}")).within(NAME));
    }
    let mut chunks = Vec::with_capacity(total);
    let mut add = |from: u64, count: u64| {
        let mut scaled = place(from, grid);
        for _ in 0..count {
            chunks.push(Chunk { scaled: scaled.clone(), address: 0, size: 0, filter_mask: 0 });
            advance(&mut scaled, grid);
        }
    };
    if flags & SPARSE_FLAG == 0 {
        if count != places {
            return Err(cursor.error(format!("{count} chunks for {places} positions of the grid")));
        }
        add(0, count);
    } else {
        let (mut next, mut left) = (0_u64, count);
        while left > 0 {
            let start = next.checked_add(take(&mut cursor)?);
            let run = take(&mut cursor)?;
            let stop = start.and_then(|start| start.checked_add(run)).filter(|stop| *stop <= places);
            let (Some(start), Some(stop), Some(rest)) = (start, stop, left.checked_sub(run)) else {
                return Err(cursor.error("a run of chunks extends past the grid".into()));
            };
            if run == 0 {
                return Err(cursor.error("a run of no chunks".into()));
            }
            add(start, run);
            (next, left) = (stop, rest);
        }
    }
    if flags & SIZES_FLAG == 0 {
        let size = take(&mut cursor)?;
        chunks.iter_mut().for_each(|chunk| chunk.size = size);
    } else {
        let mut size = 0;
        for chunk in &mut chunks {
            size = unzigzag(size, take(&mut cursor)?);
            chunk.size = size;
        }
    }
    if flags & MASKS_FLAG != 0 {
        for chunk in &mut chunks {
            chunk.filter_mask = u32::try_from(take(&mut cursor)?)
                .map_err(|_| cursor.error("a filter mask of more than 32 bits".into()))?;
        }
    }
    let mut expected = 0;
    for chunk in &mut chunks {
        chunk.address = unzigzag(expected, take(&mut cursor)?);
        let stop = chunk.address.checked_add(chunk.size).filter(|stop| *stop <= end);
        expected = stop.ok_or_else(|| cursor.error("a chunk extends beyond the end of the file".into()))?;
    }
    if cursor.left() > 0 {
        return Err(cursor.error(format!("{} bytes too many", cursor.left())));
    }
    Ok(chunks)
}

/// Returns the position in a grid with this row-major index.
fn place(mut number: u64, grid: &[u64]) -> Vec<u64> {
    let mut place = vec![0; grid.len()];
    for (at, count) in place.iter_mut().zip(grid).rev() {
        *at = number.checked_rem(*count).unwrap_or(0);
        number = number.checked_div(*count).unwrap_or(0);
    }
    place
}

/// Moves on to the next position in row-major order.
fn advance(place: &mut [u64], grid: &[u64]) {
    for (at, count) in place.iter_mut().zip(grid).rev() {
        *at += 1;
        if *at < *count {
            return;
        }
        *at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(scaled: &[u64], address: u64, size: u64, filter_mask: u32) -> Chunk {
        Chunk { scaled: scaled.to_vec(), address, size, filter_mask }
    }

    fn check(grid: &[u64], chunks: &[Chunk], most: usize) -> Vec<u8> {
        let bytes = pack(grid, chunks).unwrap();
        assert_eq!(unpack(&bytes, grid, chunks.len() as u64, 1 << 40).unwrap(), chunks);
        assert!(bytes.len() <= most, "{} bytes", bytes.len());
        bytes
    }

    #[test]
    fn numbers() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            let mut cursor = Cursor::new(&bytes, NAME, 0);
            assert_eq!((take(&mut cursor).unwrap(), cursor.left()), (number, 0));
            for from in [0, 5, u64::MAX] {
                assert_eq!(unzigzag(from, zigzag(from, number)), number);
            }
        }
        for bytes in [&[0x80_u8][..], &[0xff; 10], &[0x80; 11], b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02"] {
            assert!(take(&mut Cursor::new(bytes, NAME, 0)).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn tables() {
        check(&[3], &[], 8);
        check(&[0, 2], &[], 8);
        let regular: Vec<Chunk> = (0..12).map(|n| chunk(&[n / 4, n % 4], 4096 + n * 100, 100, 0)).collect();
        check(&[3, 4], &regular, 20);
        let odd = [
            chunk(&[0, 1, 1], 9000, 17, 0),
            chunk(&[0, 1, 2], 5, 1 << 30, 3),
            chunk(&[1, 0, 0], 1 << 39, 0, u32::MAX),
        ];
        check(&[2, 2, 3], &odd, 60);
        assert!(pack(&[u64::MAX, 2], &[]).is_none());
        assert!(pack(&[2], &[chunk(&[2], 0, 0, 0)]).is_none());
        assert!(pack(&[2], &[chunk(&[1], 0, 0, 0), chunk(&[0], 0, 0, 0)]).is_none());
    }

    #[test]
    fn damage() {
        let chunks: Vec<Chunk> =
            (0..40).map(|n| chunk(&[n], 1000 + n * 1000, 100 + n % 7, u32::from(n == 3))).collect();
        let bytes = check(&[64], &chunks, 170);
        assert!(unpack(&bytes, &[64], 40, 2000).unwrap_err().to_string().contains("beyond the end"));
        assert!(unpack(&bytes, &[63], 40, 1 << 40).is_err());
        assert!(unpack(&bytes, &[64, 1], 40, 1 << 40).is_err());
        assert!(unpack(&bytes, &[64], 1 << 60, 1 << 40).is_err());
        for at in 0..bytes.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = byte;
                if let Ok(chunks) = unpack(&bytes, &[64], 40, 1 << 40) {
                    assert!(chunks.iter().all(|chunk| chunk.address + chunk.size <= 1 << 40));
                    assert!(chunks.is_sorted_by(|a, b| a.scaled < b.scaled));
                }
            }
            assert!(unpack(&bytes[..at], &[64], 40, 1 << 40).is_err());
        }
    }
}
