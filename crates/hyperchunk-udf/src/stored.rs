//! Inputs in stored form: the layout of chunks in shared memory, for a worker that decodes them.
//!
//! A table (common properties of the chunks, then each chunk) is followed by the chunks' stored bytes. The
//! host writes it and its worker, a locked-down process, reads it. The sizes and offsets in it come from a
//! file, and the worker checks each against the memory and the block.

use crate::error::{Result, fail};
use crate::protocol::Cursor;
pub use crate::protocol::DecodeSupport;
use crate::stub::MAX_RANK;
use std::ops::Range;

/// Maximum number of filters of a pipeline, as in HDF5.
const MAX_FILTERS: usize = 32;
/// Maximum number of client data values of a filter; filters that GPUs decode have few.
const MAX_PARAMETERS: usize = 256;

/// Filter with its client data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Registered number.
    pub id: u16,
    /// Client data.
    pub parameters: Vec<u32>,
}

/// Part of a chunk, and its location in the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredChunk {
    /// Byte range in the memory; `None` for an unwritten chunk, whose elements are the fill value.
    pub bytes: Option<Range<u64>>,
    /// Bit mask of skipped filters.
    pub mask: u32,
    /// Offset of the first wanted element in the chunk.
    pub from: Vec<u64>,
    /// Offset of that element in the block.
    pub to: Vec<u64>,
    /// Number of wanted elements along each axis.
    pub count: Vec<u64>,
}

/// Block of an input in stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlock {
    /// Extent of the chunks.
    pub chunk: Vec<u64>,
    /// Filters, in the order in which a writer applies them.
    pub filters: Vec<Filter>,
    /// Size in bytes of the units whose bytes have to be swapped; 1 for none.
    pub swap: u32,
    /// Fill value.
    pub fill: Vec<u8>,
    /// Parts of chunks, which together cover the block.
    pub chunks: Vec<StoredChunk>,
}

impl StoredBlock {
    /// Returns the additional bytes needed for a block of `bytes` bytes, so that incompressible chunks fit
    /// together with their table.
    pub(crate) fn room(bytes: u64) -> u64 {
        (bytes / 64).saturating_add(1 << 14)
    }

    /// Assigns each chunk with bytes its location after the table; `sizes` are the sizes of all chunks, in
    /// their order. Returns the size of table and chunks together.
    pub fn place(&mut self, sizes: &[u64]) -> Option<u64> {
        let mut end = self.table_bytes();
        if sizes.len() != self.chunks.len() {
            return None;
        }
        for (stored_chunk, size) in self.chunks.iter_mut().zip(sizes) {
            if let Some(bytes) = &mut stored_chunk.bytes {
                let start = end;
                end = start.checked_add(*size)?;
                *bytes = start..end;
            }
        }
        Some(end)
    }

    fn table_bytes(&self) -> u64 {
        let filters: usize = self.filters.iter().map(|filter| 2 + filter.parameters.len()).sum();
        let words = 4 + filters + self.fill.len().div_ceil(4);
        let rank = self.chunk.len() as u64;
        let chunk_bytes = 20 + 24 * rank;
        words as u64 * 4 + 8 + rank * 8 + (self.chunks.len() as u64).saturating_mul(chunk_bytes)
    }

    /// Writes the table to the start of the memory. `None` if that is too small.
    pub fn write(&self, to: &mut [u8]) -> Option<()> {
        let table = self.encoded();
        to.get_mut(..table.len())?.copy_from_slice(&table);
        Some(())
    }

    /// Returns the memory for the chunks' bytes, in their order, each with the chunk's index. `None` if the
    /// memory is too small.
    pub fn places<'a>(&self, to: &'a mut [u8]) -> Option<Vec<(usize, &'a mut [u8])>> {
        let mut at = self.table_bytes();
        let (_, mut rest) = to.split_at_mut_checked(usize::try_from(at).ok()?)?;
        let mut places = Vec::with_capacity(self.chunks.len());
        for (number, stored_chunk) in self.chunks.iter().enumerate() {
            let Some(range) = &stored_chunk.bytes else { continue };
            let length = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
            if range.start != at {
                return None;
            }
            let (place, after) = std::mem::take(&mut rest).split_at_mut_checked(length)?;
            places.push((number, place));
            (rest, at) = (after, range.end);
        }
        Some(places)
    }

    fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        word(&mut out, count(self.chunk.len()));
        word(&mut out, self.swap);
        word(&mut out, count(self.fill.len()));
        word(&mut out, count(self.filters.len()));
        long(&mut out, self.chunks.len() as u64);
        self.chunk.iter().for_each(|extent| long(&mut out, *extent));
        for filter in &self.filters {
            word(&mut out, u32::from(filter.id));
            word(&mut out, count(filter.parameters.len()));
            filter.parameters.iter().for_each(|parameter| word(&mut out, *parameter));
        }
        out.extend_from_slice(&self.fill);
        out.resize(out.len() + self.fill.len().div_ceil(4) * 4 - self.fill.len(), 0);
        for stored_chunk in &self.chunks {
            let bytes = stored_chunk.bytes.clone().unwrap_or(0..0);
            long(&mut out, bytes.start);
            long(&mut out, bytes.end);
            word(&mut out, stored_chunk.mask);
            for place in stored_chunk.from.iter().chain(&stored_chunk.to).chain(&stored_chunk.count) {
                long(&mut out, *place);
            }
        }
        out
    }

    /// Parses the table of a block of this shape, whose elements have `size` bytes.
    ///
    /// # Errors
    /// `Worker` if it is invalid, or exceeds the memory or the block.
    pub fn parse(memory: &[u8], dims: &[u64], size: usize) -> Result<Self> {
        match parsed(memory, dims, size) {
            Some(stored) => Ok(stored),
            None => fail!(Worker, "invalid table of stored chunks"),
        }
    }
}

fn word(out: &mut Vec<u8>, n: u32) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn long(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(&n.to_le_bytes());
}

impl<'a> Cursor<'a> {
    fn longs(&mut self, count: usize) -> Option<Vec<u64>> {
        (0..count).map(|_| self.long()).collect()
    }

    /// Reads a count of at most `most`.
    fn count(&mut self, most: usize) -> Option<usize> {
        self.word().and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= most)
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }
}

fn parsed(memory: &[u8], dims: &[u64], size: usize) -> Option<StoredBlock> {
    let mut c = Cursor(memory);
    let rank = c.count(MAX_RANK).filter(|rank| *rank == dims.len())?;
    let swap = c.word().filter(|swap| matches!(swap, 1 | 2 | 4 | 8))?;
    let fill_bytes = c.count(memory.len()).filter(|bytes| *bytes == size)?;
    let filters = c.count(MAX_FILTERS)?;
    let chunks = usize::try_from(c.long()?).ok().filter(|count| *count <= memory.len() / 20)?;
    let chunk = c.longs(rank)?;
    let filters = (0..filters).map(|_| {
        let id = u16::try_from(c.word()?).ok()?;
        let count = c.count(MAX_PARAMETERS)?;
        let parameters = (0..count).map(|_| c.word()).collect::<Option<_>>()?;
        Some(Filter { id, parameters })
    });
    let filters = filters.collect::<Option<Vec<_>>>()?;
    let fill = c.bytes(fill_bytes)?.to_vec();
    c.bytes(fill_bytes.div_ceil(4) * 4 - fill_bytes)?;
    let mut elements = 0_u64;
    let chunks = (0..chunks).map(|_| {
        let (start, end) = (c.long()?, c.long()?);
        let bytes = match (start, end) {
            (0, 0) => None,
            _ if start <= end && end <= memory.len() as u64 => Some(start..end),
            _ => return None,
        };
        let mask = c.word()?;
        let (from, to, count) = (c.longs(rank)?, c.longs(rank)?, c.longs(rank)?);
        let inside = |start: &[u64], whole: &[u64]| {
            let mut axes = start.iter().zip(&count).zip(whole);
            axes.all(|((start, count), whole)| start.checked_add(*count).is_some_and(|end| end <= *whole))
        };
        if !inside(&from, &chunk) || !inside(&to, dims) {
            return None;
        }
        let product = count.iter().try_fold(1_u64, |all, count| all.checked_mul(*count))?;
        elements = elements.checked_add(product)?;
        Some(StoredChunk { bytes, mask, from, to, count })
    });
    let chunks = chunks.collect::<Option<Vec<_>>>()?;
    // The host's parts do not overlap, so if they have as many elements as the block, they cover it.
    let whole = dims.iter().try_fold(1_u64, |all, extent| all.checked_mul(*extent))?;
    (elements == whole).then_some(StoredBlock { chunk, filters, swap, fill, chunks })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> (StoredBlock, Vec<u8>) {
        let stored_chunk = |bytes: Option<Range<u64>>, from: [u64; 2], to: [u64; 2], count: [u64; 2]| {
            StoredChunk { bytes, mask: 2, from: from.to_vec(), to: to.to_vec(), count: count.to_vec() }
        };
        let mut stored = StoredBlock {
            chunk: vec![4, 8],
            filters: vec![
                Filter { id: 2, parameters: vec![6] },
                Filter { id: 32003, parameters: Vec::new() },
            ],
            swap: 2,
            fill: b"abcdef".to_vec(),
            chunks: vec![
                stored_chunk(Some(0..0), [1, 0], [0, 0], [3, 5]),
                stored_chunk(None, [0, 0], [3, 0], [1, 5]),
                stored_chunk(Some(0..0), [0, 3], [0, 5], [4, 2]),
            ],
        };
        let total = stored.place(&[10, 99, 20]).unwrap();
        let mut memory = vec![0xee; usize::try_from(total).unwrap()];
        stored.write(&mut memory).unwrap();
        let places = stored.places(&mut memory).unwrap();
        let found: Vec<_> = places.iter().map(|(number, place)| (*number, place.len())).collect();
        assert_eq!(found, [(0, 10), (2, 20)]);
        for (number, place) in places {
            place.fill(u8::try_from(number).unwrap());
        }
        (stored, memory)
    }

    #[test]
    fn tables_round_trip_and_damage_is_seen() {
        let (stored, memory) = example();
        let read = |memory: &[u8], dims: &[u64], size| StoredBlock::parse(memory, dims, size);
        assert_eq!(read(&memory, &[4, 7], 6).unwrap(), stored);
        let bytes = |number: usize| {
            let range = stored.chunks[number].bytes.clone().unwrap();
            &memory[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()]
        };
        assert_eq!((bytes(0), bytes(2)), (&[0; 10][..], &[2; 20][..]));
        for (dims, size) in [(&[4, 8][..], 6), (&[4, 7], 5), (&[28], 6), (&[3, 7], 6)] {
            assert!(read(&memory, dims, size).is_err(), "{dims:?} {size}");
        }
        for length in 0..memory.len() {
            assert!(read(&memory[..length], &[4, 7], 6).is_err(), "{length}");
        }
    }

    #[test]
    fn changed_tables_never_lead_out_of_the_memory() {
        let (_, memory) = example();
        for at in 0..memory.len() - 30 {
            for flip in [1_u8, 0x80, 0xff] {
                let mut changed = memory.clone();
                changed[at] ^= flip;
                let Ok(found) = StoredBlock::parse(&changed, &[4, 7], 6) else { continue };
                for stored_chunk in &found.chunks {
                    assert!(stored_chunk.bytes.as_ref().is_none_or(|bytes| bytes.end <= memory.len() as u64));
                    for axis in 0..2 {
                        assert!(stored_chunk.to[axis] + stored_chunk.count[axis] <= [4, 7][axis]);
                        assert!(stored_chunk.from[axis] + stored_chunk.count[axis] <= found.chunk[axis]);
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_not_written() {
        let (stored, memory) = example();
        for length in 0..memory.len() {
            assert!(stored.places(&mut vec![0; length]).is_none(), "{length}");
        }
        assert_eq!(stored.table_bytes(), stored.encoded().len() as u64);
        assert!(stored.write(&mut vec![0; stored.encoded().len() - 1]).is_none());
        let mut other = stored.clone();
        assert!(other.place(&[1, 2]).is_none());
        assert!(other.place(&[u64::MAX, 0, 1]).is_none());
    }

    #[test]
    fn which_filters_a_gpu_undoes() {
        for (filters, expected) in [
            (&[][..], Some(DecodeSupport::Plain)),
            (&[2], Some(DecodeSupport::Plain)),
            (&[2, 3], Some(DecodeSupport::Plain)),
            (&[1], Some(DecodeSupport::Compressed)),
            (&[2, 1, 3], Some(DecodeSupport::Compressed)),
            (&[32003], Some(DecodeSupport::Compressed)),
            (&[2, 32015], Some(DecodeSupport::Compressed)),
            (&[1, 2], None),
            (&[1, 1], None),
            (&[3, 1], None),
            (&[32000], None),
            (&[31300], None),
        ] {
            assert_eq!(DecodeSupport::needed(filters.iter().copied()), expected, "{filters:?}");
        }
        for decodes in [DecodeSupport::Nothing, DecodeSupport::Plain, DecodeSupport::Compressed] {
            assert_eq!(DecodeSupport::from_number(decodes.number()), Some(decodes));
        }
        assert_eq!(DecodeSupport::from_number(3), None);
    }
}
