//! Free list of a file's space, with or without pages.

use std::collections::{BTreeMap, BTreeSet};

/// Use of a page: HDF5's paged aggregation stores data and structure in separate pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Elements, chunks, and heap objects of variable length.
    Data,
    /// Headers, indexes and other structure.
    Structure,
}

/// Free ranges, of which no two are adjacent.
#[derive(Debug, Clone, Default)]
pub(super) struct FreeRanges {
    /// Length of each range by its start.
    now: BTreeMap<u64, u64>,
    /// Length and start of each range, to find the smallest that fits.
    by_length: BTreeSet<(u64, u64)>,
}

/// Free space.
#[derive(Debug, Clone, Default)]
pub(super) struct FreeList {
    /// Free ranges; in a paged file, whole pages.
    pieces: FreeRanges,
    pages: Option<Pages>,
    /// Space that the last commit still uses; free after the next commit.
    pub(super) later: Vec<(u64, u64)>,
    /// Space that reads in progress may use; free once all reads that began before a commit have ended.
    pub(super) read: Vec<(u64, (u64, u64))>,
}

/// Partially used pages.
#[derive(Debug, Clone)]
struct Pages {
    size: u64,
    /// Use of pages by their start, for the pages that were allocated since the file was opened.
    uses: BTreeMap<u64, Use>,
    /// Starts of the last pages of allocations of several pages.
    tails: BTreeSet<u64>,
    /// Free parts of pages, for each use.
    parts: [FreeRanges; 2],
}

impl FreeList {
    /// Divides space into pages from now on.
    pub(super) fn use_pages(&mut self, size: u64) {
        let (uses, tails, parts) = (BTreeMap::new(), BTreeSet::new(), Default::default());
        self.pages = Some(Pages { size, uses, tails, parts });
    }

    /// Frees a range. A page whose use is unknown is reused only as a whole.
    pub(super) fn free(&mut self, start: u64, length: u64) {
        let Some(pages) = &mut self.pages else { return self.pieces.add(start, length) };
        let (mut at, end) = (start, start + length);
        while at < end {
            let page = at - at % pages.size;
            let next = (page + pages.size).min(end);
            let is_whole = at == page && (next - at == pages.size || pages.tails.remove(&page));
            if is_whole {
                pages.uses.remove(&page);
                self.pieces.add(page, pages.size);
            } else if let Some(kind) = pages.uses.get(&page) {
                pages.parts[*kind as usize].add(at, next - at);
            }
            at = next;
        }
    }

    /// Allocates bytes from the smallest range that fits (best fit); the rest of it stays free.
    pub(super) fn take(&mut self, length: u64, aligned: impl Fn(u64) -> u64) -> Option<u64> {
        self.pieces.take(length, aligned)
    }

    /// Allocates aligned bytes for a use, in a paged file that ends at `end`. Returns their start and the new
    /// end of the file.
    pub(super) fn take_in_pages(
        &mut self,
        (kind, length, alignment): (Use, u64, u64),
        end: u64,
        aligned: impl Fn(u64, u64) -> u64,
    ) -> (u64, u64) {
        let Some(pages) = &mut self.pages else { return (end, end + length) };
        let size = pages.size;
        let is_part = length < size && alignment <= size;
        if is_part {
            let within = |start: u64| {
                let start = aligned(start, alignment);
                if start % size + length > size { start.next_multiple_of(size) } else { start }
            };
            if let Some(start) = pages.parts[kind as usize].take(length, within) {
                return (start, end);
            }
        }
        let whole = length.next_multiple_of(size).max(size);
        let place = |start: u64| aligned(start.next_multiple_of(size), alignment).next_multiple_of(size);
        let (start, end) = match self.pieces.take(whole, place) {
            Some(start) => (start, end),
            None => (place(end), place(end) + whole),
        };
        if is_part {
            pages.uses.insert(start, kind);
            if whole > length {
                pages.parts[kind as usize].add(start + length, whole - length);
            }
        } else if length < whole {
            pages.tails.insert(start + whole - size);
        }
        (start, end)
    }

    /// Returns whether there may be free space.
    pub(super) fn has_any(&self) -> bool {
        self.pages.is_some() || !self.pieces.now.is_empty()
    }

    /// Returns the last free range.
    pub(super) fn last(&self) -> Option<(u64, u64)> {
        self.pieces.now.last_key_value().map(|(start, length)| (*start, *length))
    }

    /// Removes a free range.
    pub(super) fn remove(&mut self, start: u64, length: u64) {
        self.pieces.remove(start, length);
    }
}

impl FreeRanges {
    /// Returns whether all bytes of a range are free.
    pub(super) fn contain(&self, start: u64, length: u64) -> bool {
        let before = self.now.range(..=start).next_back();
        before.is_some_and(|(first, size)| start.saturating_add(length) <= first.saturating_add(*size))
    }

    /// Adds a range and merges it with adjacent ones.
    pub(super) fn add(&mut self, mut start: u64, mut length: u64) {
        let before = self.now.range(..start).next_back().map(|(start, length)| (*start, *length));
        if let Some((before, size)) = before.filter(|(before, size)| before + size == start) {
            self.remove(before, size);
            (start, length) = (before, length + size);
        }
        if let Some(size) = self.now.get(&(start + length)).copied() {
            self.remove(start + length, size);
            length += size;
        }
        self.now.insert(start, length);
        self.by_length.insert((length, start));
    }

    fn remove(&mut self, start: u64, length: u64) {
        self.now.remove(&start);
        self.by_length.remove(&(length, start));
    }

    /// Allocates bytes from the smallest range that fits (best fit); the rest of it stays free.
    fn take(&mut self, length: u64, aligned: impl Fn(u64) -> u64) -> Option<u64> {
        let mut fitting = self.by_length.range((length, 0)..);
        let (size, start) = fitting.find_map(|(size, start)| {
            let skipped = aligned(*start) - start;
            (skipped + length <= *size).then_some((*size, *start))
        })?;
        self.remove(start, size);
        let first = aligned(start);
        if first > start {
            self.add(start, first - start);
        }
        let left = start + size - (first + length);
        if left > 0 {
            self.add(first + length, left);
        }
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes bytes aligned to 8.
    fn take(list: &mut FreeList, kind: Use, length: u64, end: &mut u64) -> u64 {
        let (start, new_end) =
            list.take_in_pages((kind, length, 8), *end, |start, alignment| start.next_multiple_of(alignment));
        *end = new_end;
        assert_eq!(*end % 512, 0);
        let is_within = start % 512 + length <= 512;
        assert!(if length < 512 { is_within } else { start % 512 == 0 }, "{length} at {start}");
        start
    }

    #[test]
    fn test_pages_have_one_use_and_nothing_crosses_them() {
        let (mut list, mut end) = (FreeList::default(), 1024);
        list.use_pages(512);
        assert_eq!(take(&mut list, Use::Structure, 100, &mut end), 1024);
        assert_eq!(take(&mut list, Use::Data, 100, &mut end), 1536);
        assert_eq!(take(&mut list, Use::Structure, 100, &mut end), 1128);
        assert_eq!(take(&mut list, Use::Structure, 400, &mut end), 2048, "it would cross");
        assert_eq!(take(&mut list, Use::Data, 512, &mut end), 2560);
        assert_eq!(take(&mut list, Use::Data, 700, &mut end), 3072);
        assert_eq!(end, 4096);
        // Whole pages serve any use, parts theirs, and parts of unknown pages none.
        list.free(3072, 700);
        list.free(0, 100);
        list.free(1024, 100);
        assert_eq!(take(&mut list, Use::Data, 80, &mut end), 1640);
        assert_eq!(take(&mut list, Use::Structure, 90, &mut end), 1024);
        assert_eq!(take(&mut list, Use::Structure, 1024, &mut end), 3072);
        assert_eq!(end, 4096);
        list.free(512, 512);
        assert_eq!(take(&mut list, Use::Structure, 500, &mut end), 512);
    }
}
