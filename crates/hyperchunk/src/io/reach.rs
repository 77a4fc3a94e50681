//! What is fetched with structure that is asked for: what belongs together was mostly written together.

use hyperchunk_format::parse::message::file_space::FileSpace;
use std::ops::Range;

/// Who asks for so much knows how long it is: nothing more is fetched with it.
const KNOWN: u64 = 1 << 10;
/// What belongs together may lie just before, too: pieces start at a multiple of so many bytes.
const BEFORE: u64 = 4 << 10;
/// Files with larger pages are taken for files without, in bytes.
const LARGEST_PAGE: u64 = 8 << 20;
/// No request for structure is for more bytes: pieces that lie behind each other come at the same time, each as fast as the whole
/// would.
pub(super) const PIECE: u64 = 512 << 10;

/// The pages of a file that keeps metadata in pages of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paged {
    /// Where the first page starts.
    pub(crate) base: u64,
    /// How long a page is.
    pub(crate) size: u64,
}

impl Paged {
    /// The pages of a file, if its structure is worth fetching by the page.
    pub(crate) fn new(base: u64, space: Option<FileSpace>) -> Option<Self> {
        let space = space.filter(|space| space.paged && (KNOWN..=LARGEST_PAGE).contains(&space.page_size))?;
        Some(Self { base, size: space.page_size })
    }
}

/// How far who asks for structure wants to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Reach {
    /// What a path leads to.
    #[default]
    Path,
    /// What so many paths lead to, of which all data will be read: that moves much more than what lies around their structure.
    Paths(u64),
    /// All of a file's structure: what lies beside it is wanted, too, and a round trip costs more than the bytes.
    All,
}

/// So many times as far is looked ahead where all is wanted.
const ALL_AHEAD: u64 = 8;
/// So many times as far is looked ahead at most where much is read.
const MOST_AHEAD: u64 = 16;

impl Reach {
    /// How many times as far is looked ahead as for one path.
    fn ahead(self) -> u64 {
        match self {
            Self::Path => 1,
            // The indexes of a group's datasets mostly lie behind each other, in between their first chunks.
            Self::Paths(count) => (count / 2).clamp(1, MOST_AHEAD),
            Self::All => ALL_AHEAD,
        }
    }
}

/// What is fetched for structure that is asked for in one piece.
pub(crate) fn around(asked: &Range<u64>, ahead: u64, reach: Reach, paged: Option<Paged>) -> Range<u64> {
    // Other pages may have a heap for a few strings, no more: it is the first that most structure lies in.
    if let Some(Paged { base, size }) = paged
        && (base..base.saturating_add(size)).contains(&asked.start)
    {
        let end = base.saturating_add(size);
        // What a path leads to lies before it, too, where groups were made first; a page is seldom full of structure.
        let start = asked.start - (asked.start - base) % PIECE;
        return start..asked.start.saturating_add(PIECE).min(end).max(asked.end);
    }
    let known = asked.end - asked.start >= KNOWN;
    if known && reach != Reach::All {
        return asked.clone();
    }
    let start = match reach {
        Reach::Path => asked.start,
        // The strings of an object's attributes often lie just before it, and so does the group that it is in.
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
