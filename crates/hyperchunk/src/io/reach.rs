//! Read-ahead for structure: related structures are mostly written together, so nearby bytes are fetched
//! along.

use hyperchunk_format::parse::message::file_space::FileSpace;
use std::ops::Range;

/// A request of at least this many bytes comes from a caller that knows the length; nothing more is fetched
/// with it.
const KNOWN: u64 = 1 << 10;
/// Related structures may also be just before the requested bytes: pieces start at a multiple of this many
/// bytes.
const BEFORE: u64 = 4 << 10;
/// Maximum page size in bytes; files with larger pages are treated as files without pages.
const LARGEST_PAGE: u64 = 8 << 20;
/// Maximum size in bytes of one request for structure. Consecutive pieces are fetched in parallel, each as
/// fast as the whole would be.
pub(super) const PIECE: u64 = 512 << 10;

/// The pages of a file that keeps metadata in pages of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paged {
    /// The offset of the first page.
    pub(crate) base: u64,
    /// The size of a page in bytes.
    pub(crate) size: u64,
}

impl Paged {
    /// Returns a file's pages if its structure is worth fetching by the page.
    pub(crate) fn new(base: u64, space: Option<FileSpace>) -> Option<Self> {
        let space = space.filter(|space| space.paged && (KNOWN..=LARGEST_PAGE).contains(&space.page_size))?;
        Some(Self { base, size: space.page_size })
    }
}

/// Amount of structure that a caller is going to need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Reach {
    /// The structures along one path.
    #[default]
    Path,
    /// The structures along this number of paths, followed by all of their data: moving the data costs much
    /// more than the bytes around the structures.
    Paths(u64),
    /// All structure of a file: the neighbouring bytes are needed, too, and a round trip costs more than
    /// they do.
    All,
}

/// Read-ahead factor when all structure is needed.
const ALL_AHEAD: u64 = 8;
/// Maximum read-ahead factor when many paths are read.
const MOST_AHEAD: u64 = 16;

impl Reach {
    /// Returns the read-ahead as a multiple of the one for a single path.
    fn ahead(self) -> u64 {
        match self {
            Self::Path => 1,
            // The indexes of a group's datasets mostly follow each other, with the datasets' first chunks
            // in between.
            Self::Paths(count) => (count / 2).clamp(1, MOST_AHEAD),
            Self::All => ALL_AHEAD,
        }
    }
}

/// Returns the range to fetch for a piece of structure.
pub(crate) fn around(asked: &Range<u64>, ahead: u64, reach: Reach, paged: Option<Paged>) -> Range<u64> {
    // Only the first page is fetched by the page: it holds most structure. Others may have no more than a
    // heap for a few strings.
    if let Some(Paged { base, size }) = paged
        && (base..base.saturating_add(size)).contains(&asked.start)
    {
        let end = base.saturating_add(size);
        // The structures of a path also come before this offset, where groups were made first; a page is
        // seldom full of structure.
        let start = asked.start - (asked.start - base) % PIECE;
        return start..asked.start.saturating_add(PIECE).min(end).max(asked.end);
    }
    let known = asked.end - asked.start >= KNOWN;
    if known && reach != Reach::All {
        return asked.clone();
    }
    let start = match reach {
        Reach::Path => asked.start,
        // The strings of an object's attributes, and the group that contains it, are often just before it.
        Reach::Paths(_) | Reach::All => asked.start.saturating_sub(BEFORE),
    };
    start - start % BEFORE..asked.start.saturating_add(ahead.saturating_mul(reach.ahead())).max(asked.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(asked: Range<u64>, reach: Reach, paged: Option<Paged>, expected: Range<u64>) {
        assert_eq!(around(&asked, 16 << 10, reach, paged), expected, "{asked:?} {reach:?}");
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
        let paged = Some(Paged { base: 1000, size: 4 << 20 });
        for reach in [Reach::Path, Reach::Paths(30), Reach::All] {
            check(1000..1010, reach, paged, 1000..1000 + PIECE);
            check(1000 + PIECE..1001 + PIECE, reach, paged, 1000 + PIECE..1000 + 2 * PIECE);
            check(999 + PIECE..1001 + PIECE, reach, paged, 1000..999 + 2 * PIECE);
            let end = 1000 + (4 << 20);
            check(end - 10..end, reach, paged, end - PIECE..end);
            check(end - 10..end + 5, reach, paged, end - PIECE..end + 5);
        }
        check(500..510, Reach::Path, paged, 0..16_884);
        let small = Some(Paged { base: 0, size: 4096 });
        check(100..110, Reach::Path, small, 0..4096);
    }
}
