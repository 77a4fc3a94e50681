//! Read-ahead for structure: related structures are mostly stored together, so nearby bytes are fetched in
//! the same request.

use hyperchunk_format::parse::message::file_space::FileSpace;
use std::ops::Range;

/// Size in bytes from which a read is assumed to come from a caller that knows the structure's length, so
/// that nothing more is fetched with it.
const KNOWN_LENGTH_BYTES: u64 = 1 << 10;
/// Alignment in bytes of the start of fetched ranges: related structures may also be just before the
/// requested bytes.
const ALIGNMENT_BYTES: u64 = 4 << 10;
/// Maximum page size in bytes; files with larger pages are treated as files without pages.
const MAX_PAGE_BYTES: u64 = 8 << 20;
/// Maximum size in bytes of one request for structure. Consecutive ranges are fetched in parallel, which is
/// faster than one large request.
pub(super) const MAX_REQUEST_BYTES: u64 = 512 << 10;

/// The pages of a file that stores metadata in separate pages (file space strategy
/// `H5F_FSPACE_STRATEGY_PAGE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilePages {
    /// The offset of the first page.
    pub(crate) base: u64,
    /// The size of a page in bytes.
    pub(crate) size: u64,
}

impl FilePages {
    /// Returns a file's pages, if it has pages of a suitable size.
    pub(crate) fn new(base: u64, space: Option<FileSpace>) -> Option<Self> {
        let space = space.filter(|space| {
            space.paged && (KNOWN_LENGTH_BYTES..=MAX_PAGE_BYTES).contains(&space.page_size)
        })?;
        Some(Self { base, size: space.page_size })
    }
}

/// Amount of structure that a caller is going to need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Reach {
    /// The structures along one path.
    #[default]
    Path,
    /// The structures along this number of paths, followed by all of their data. Fetching the data costs much
    /// more than the bytes around the structures.
    Paths(u64),
    /// All structure of a file. The neighbouring bytes are probably needed, too, and cost less than another
    /// round trip.
    All,
}

/// Read-ahead factor when all structure is needed.
const ALL_FACTOR: u64 = 8;
/// Maximum read-ahead factor when many paths are read.
const MAX_FACTOR: u64 = 16;

impl Reach {
    /// Returns the read-ahead as a multiple of the one for a single path.
    fn ahead(self) -> u64 {
        match self {
            Self::Path => 1,
            // The indexes of a group's datasets mostly follow each other, with the datasets' first chunks
            // in between.
            Self::Paths(count) => (count / 2).clamp(1, MAX_FACTOR),
            Self::All => ALL_FACTOR,
        }
    }
}

/// Returns the range to fetch for a piece of structure.
pub(crate) fn around(asked: &Range<u64>, ahead: u64, reach: Reach, pages: Option<FilePages>) -> Range<u64> {
    // Only in the first page, which contains most of the structure, are large parts fetched. Other pages may
    // contain no more than a heap for a few strings.
    if let Some(FilePages { base, size }) = pages
        && (base..base.saturating_add(size)).contains(&asked.start)
    {
        let end = base.saturating_add(size);
        // The structures of a path may also be before this offset, where groups were created first. The whole
        // page is not fetched, since it is seldom full of structure.
        let start = asked.start - (asked.start - base) % MAX_REQUEST_BYTES;
        return start..asked.start.saturating_add(MAX_REQUEST_BYTES).min(end).max(asked.end);
    }
    let known = asked.end - asked.start >= KNOWN_LENGTH_BYTES;
    if known && reach != Reach::All {
        return asked.clone();
    }
    let start = match reach {
        Reach::Path => asked.start,
        // The strings of an object's attributes, and the group that contains it, are often just before it.
        Reach::Paths(_) | Reach::All => asked.start.saturating_sub(ALIGNMENT_BYTES),
    };
    start - start % ALIGNMENT_BYTES
        ..asked.start.saturating_add(ahead.saturating_mul(reach.ahead())).max(asked.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(asked: Range<u64>, reach: Reach, pages: Option<FilePages>, expected: Range<u64>) {
        assert_eq!(around(&asked, 16 << 10, reach, pages), expected, "{asked:?} {reach:?}");
    }

    #[test]
    fn what_comes_with_structure() {
        let known = 100_000..102_000;
        check(100_000..100_100, Reach::Path, None, 98_304..116_384);
        check(known.clone(), Reach::Path, None, known.clone());
        check(known.clone(), Reach::All, None, 94_208..231_072);
        check(100_000..100_100, Reach::Paths(2), None, 94_208..116_384);
        check(100_000..100_100, Reach::Paths(30), None, 94_208..345_760);
        check(100_000..100_100, Reach::Paths(u64::MAX), None, 94_208..362_144);
        check(known.clone(), Reach::Paths(30), None, known);
        check(100_000..300_000, Reach::All, None, 94_208..300_000);
        check(10..20, Reach::All, None, 0..131_082);
    }

    #[test]
    fn the_first_page_comes_in_parts() {
        let pages = Some(FilePages { base: 1000, size: 4 << 20 });
        for reach in [Reach::Path, Reach::Paths(30), Reach::All] {
            check(1000..1010, reach, pages, 1000..1000 + MAX_REQUEST_BYTES);
            check(
                1000 + MAX_REQUEST_BYTES..1001 + MAX_REQUEST_BYTES,
                reach,
                pages,
                1000 + MAX_REQUEST_BYTES..1000 + 2 * MAX_REQUEST_BYTES,
            );
            check(
                999 + MAX_REQUEST_BYTES..1001 + MAX_REQUEST_BYTES,
                reach,
                pages,
                1000..999 + 2 * MAX_REQUEST_BYTES,
            );
            let end = 1000 + (4 << 20);
            check(end - 10..end, reach, pages, end - MAX_REQUEST_BYTES..end);
            check(end - 10..end + 5, reach, pages, end - MAX_REQUEST_BYTES..end + 5);
        }
        check(500..510, Reach::Path, pages, 0..16_884);
        let small = Some(FilePages { base: 0, size: 4096 });
        check(100..110, Reach::Path, small, 0..4096);
    }
}
