//! Division of an object of an object store into parts of a multipart upload, and tracking of the written
//! bytes.

use crate::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum number of parts that object stores accept.
const MAX_PARTS: usize = 10_000;
/// Number of parts of the requested size. After them, the part size grows with each group of
/// [`PARTS_PER_GROUP`] parts.
const EQUAL_PARTS: usize = 1000;
const PARTS_PER_GROUP: usize = 100;
/// Growth of the part size for each group, in eighths of the first size. If the first parts have 8 MiB, 10,000 parts
/// hold 5 TiB, the maximum size of an object.
const GROWTH_EIGHTHS: u64 = 13;
/// Minimum and maximum size in bytes of a part that object stores accept.
const MIN_PART_BYTES: u64 = 5 << 20;
const MAX_PART_BYTES: u64 = 5 << 30;
/// Maximum size in bytes of the first parts, which are held in memory.
const MAX_FIRST_PART_BYTES: u64 = 1 << 30;

/// Division of an object into parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartLayout {
    size: u64,
}

/// A range of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartRange {
    pub(super) number: usize,
    /// Size of the part.
    pub(super) size: usize,
    /// Range of bytes in the part.
    pub(super) range: Range<usize>,
}

impl PartLayout {
    pub(super) fn new(size: u64) -> Self {
        Self { size: size.clamp(MIN_PART_BYTES, MAX_FIRST_PART_BYTES) }
    }

    /// Returns the size of the first parts.
    pub(super) fn first_size(self) -> u64 {
        self.size
    }

    fn size(self, group: u64) -> u64 {
        (self.size + group * (self.size / 8 * GROWTH_EIGHTHS)).min(MAX_PART_BYTES)
    }

    /// Returns the ranges of parts that a range of the object covers.
    pub(super) fn pieces(self, offset: u64, length: u64) -> Result<Vec<PartRange>> {
        let too_large = || {
            Error::limit(format!(
                "cannot upload the object: expected at most {MAX_PARTS} parts; choose a larger part size"
            ))
        };
        let end = offset.checked_add(length).ok_or_else(too_large)?;
        let mut pieces = Vec::new();
        let (mut at, mut first, mut start, mut group) = (offset, 0, 0, 0);
        while at < end {
            let count = if group == 0 { EQUAL_PARTS } else { PARTS_PER_GROUP };
            if first >= MAX_PARTS {
                return Err(too_large());
            }
            let size = self.size(group);
            let group_end = start + size * count as u64;
            while at < end.min(group_end) {
                let number = (at - start) / size;
                let part = start + number * size;
                let until = end.min(part + size);
                let place = |at: u64| usize::try_from(at - part).map_err(|_| too_large());
                pieces.push(PartRange {
                    number: first + usize::try_from(number).map_err(|_| too_large())?,
                    size: usize::try_from(size).map_err(|_| too_large())?,
                    range: place(at)?..place(until)?,
                });
                at = until;
            }
            (first, start, group) = (first + count, group_end, group + 1);
        }
        Ok(pieces)
    }
}

/// Written ranges of a part.
#[derive(Debug, Default)]
pub(super) struct WrittenRanges(BTreeMap<usize, usize>);

impl WrittenRanges {
    pub(super) fn add(&mut self, range: Range<usize>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        while let Some((first, last)) = self.0.range(..=end).next_back().map(|(first, last)| (*first, *last))
        {
            if last < start {
                break;
            }
            (start, end) = (start.min(first), end.max(last));
            self.0.remove(&first);
        }
        self.0.insert(start, end);
    }

    /// Returns whether all of the first `size` bytes were written.
    pub(super) fn all(&self, size: usize) -> bool {
        self.0.first_key_value() == Some((&0, &size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_grow_up_to_the_largest_object() {
        let cut = PartLayout::new(8 << 20);
        let one = |offset| cut.pieces(offset, 1).map(|pieces| (pieces[0].number, pieces[0].size >> 20));
        assert_eq!(one(0).unwrap(), (0, 8));
        assert_eq!(one((8 << 20) - 1).unwrap(), (0, 8));
        assert_eq!(one(8000 << 20).unwrap(), (1000, 21));
        assert_eq!(one((8000 << 20) + (2100 << 20)).unwrap(), (1100, 34));
        assert_eq!(one((5 << 40) - 1).unwrap().0 / 10, 986);
        assert!(one(6 << 40).is_err());
        assert!(cut.pieces(u64::MAX, 2).is_err());
        assert_eq!(cut.pieces(5, 0).unwrap(), []);
        let pieces = cut.pieces((8000 << 20) - 2, (21 << 20) + 5).unwrap();
        let found: Vec<_> = pieces.iter().map(|piece| (piece.number, piece.range.clone())).collect();
        assert_eq!(found, [(999, (8 << 20) - 2..8 << 20), (1000, 0..21 << 20), (1001, 0..3)]);
        assert_eq!(
            (PartLayout::new(1).first_size(), PartLayout::new(u64::MAX).first_size()),
            (5 << 20, 1 << 30)
        );
    }

    #[test]
    fn parts_fit_object_stores_whatever_the_first_size() {
        for first in [0, 5 << 20, 8 << 20, 100 << 20, 1 << 30, u64::MAX] {
            let layout = PartLayout::new(first);
            for offset in (0..2000).map(|step| step * (5 << 30)) {
                let Ok(pieces) = layout.pieces(offset, 1) else { break };
                let size = pieces[0].size as u64;
                assert!((MIN_PART_BYTES..=MAX_PART_BYTES).contains(&size), "{first} {offset} {size}");
                assert!(pieces[0].number < MAX_PARTS);
            }
            // 5 TiB, the maximum size of an object, if the first parts have 8 MiB or more.
            assert!(first < 8 << 20 || layout.pieces((5 << 40) - 1, 1).is_ok(), "{first}");
        }
    }

    #[test]
    fn ranges_grow_together() {
        let mut written = WrittenRanges::default();
        for range in [5..10, 20..30, 0..0, 10..12, 0..3, 3..5] {
            assert!(!written.all(30));
            written.add(range);
        }
        assert_eq!(written.0, BTreeMap::from([(0, 12), (20, 30)]));
        written.add(2..25);
        assert!(written.all(30) && !written.all(31));
    }
}
