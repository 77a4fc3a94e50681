//! Space of an object's structures, which a commit reuses in place.

use hyperchunk_format::parse::extents::Extent;
use std::collections::BTreeMap;

/// Size in bytes up to which a free range is always allocated as a whole.
const MAX_PADDED_BYTES: u64 = 64 << 10;

/// Space of an object's old structures that a commit has not reused yet.
#[derive(Debug, Default)]
pub(super) struct OwnSpace {
    free: BTreeMap<u64, u64>,
    /// Page size of a paged file. An allocation smaller than a page is within one page, and larger ones begin
    /// at a page.
    page: Option<u64>,
}

impl OwnSpace {
    /// Creates the space from extents in any order. Adjacent extents are merged.
    pub(super) fn new(extents: impl Iterator<Item = Extent>, page: Option<u64>) -> Self {
        let mut all: Vec<Extent> = extents.filter(|(_, length)| *length > 0).collect();
        all.sort_unstable();
        let mut merged: Vec<Extent> = Vec::with_capacity(all.len());
        for (start, length) in all {
            match merged.last_mut() {
                Some((first, size)) if start <= *first + *size => {
                    *size = (*size).max(start + length - *first);
                }
                _ => merged.push((start, length)),
            }
        }
        Self { free: merged.into_iter().collect(), page }
    }

    /// Allocates `length` bytes of the smallest range that fits.
    pub(super) fn take(&mut self, length: u64) -> Option<u64> {
        self.take_if(|size| (size >= length).then_some(length)).map(|(start, _)| start)
    }

    /// Allocates the smallest range for `length` bytes and padding, which is 0 or at least `least` bytes.
    /// Returns the address, and the size with the padding: the whole range, unless that is much too large.
    /// Later sessions cannot use the rest of a range.
    pub(super) fn take_padded(&mut self, length: u64, least: u64) -> Option<Extent> {
        let most = length.saturating_mul(2).max(MAX_PADDED_BYTES);
        self.take_if(|size| {
            (size == length || size >= length + least)
                .then_some(size)
                .map(|size| if size <= most { size } else { length + length / 4 + least })
        })
    }

    /// Allocates bytes of the smallest range for whose size `count` returns a number of bytes.
    fn take_if(&mut self, count: impl Fn(u64) -> Option<u64>) -> Option<Extent> {
        let page = self.page;
        let is_placed = |start: u64, taken: u64| match page {
            Some(page) if taken < page => start % page + taken <= page,
            Some(page) => start.is_multiple_of(page),
            None => true,
        };
        let fitting = self.free.iter().filter_map(|(start, size)| {
            let taken = count(*size)?;
            is_placed(*start, taken).then_some((*size, *start, taken))
        });
        let (size, start, taken) = fitting.min()?;
        self.free.remove(&start);
        if size > taken {
            self.free.insert(start + taken, size - taken);
        }
        Some((start, taken))
    }

    /// Returns the ranges that were not allocated.
    pub(super) fn into_unused(self) -> impl Iterator<Item = Extent> {
        self.free.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_places_are_used_in_order_and_merged() {
        let mut own = OwnSpace::new([(200, 50), (100, 60), (160, 40), (300, 10), (0, 0)].into_iter(), None);
        assert_eq!(own.take(150), Some(100));
        assert_eq!(own.take(11), None);
        assert_eq!(own.take(10), Some(300));
        assert_eq!(own.into_unused().count(), 0);
        // The smallest that fits.
        let mut own = OwnSpace::new([(0, 1000), (2000, 100), (3000, 100)].into_iter(), None);
        assert_eq!((own.take(100), own.take(100), own.take(100)), (Some(2000), Some(3000), Some(0)));
        // The same sizes get the same places.
        let blocks = [(40, 72), (112, 216), (1000, 512), (2000, 512)];
        let mut own = OwnSpace::new(blocks.into_iter(), None);
        for (start, length) in blocks {
            assert_eq!(own.take(length), Some(start));
        }
    }

    #[test]
    fn test_padding_has_room_for_a_message() {
        let own = || OwnSpace::new([(0, 100)].into_iter(), None);
        assert_eq!(own().take_padded(100, 4), Some((0, 100)));
        assert_eq!(own().take_padded(98, 4), None);
        assert_eq!(own().take_padded(96, 4), Some((0, 100)));
        let mut large = OwnSpace::new([(0, 100_000)].into_iter(), None);
        assert_eq!(large.take_padded(100, 4), Some((0, 129)));
        assert_eq!(large.into_unused().collect::<Vec<_>>(), [(129, 99_871)]);
    }
}
