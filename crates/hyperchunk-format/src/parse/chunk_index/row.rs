//! Chunks that were written one after the other: the leaves of their B-tree lie among them, each where the one before was full.

use std::ops::Range;

/// A leaf of an index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaf {
    /// The number of its first chunk, in the order of the grid.
    pub(super) first: u64,
    /// How many bytes that chunk has as it is stored.
    pub(super) size: u64,
    pub(super) address: u64,
}

/// What lies between two leaves may differ by this part from what the first chunk of one says.
const TOLERANCE: u64 = 8;
/// So many chunks more are taken at either end.
const MARGIN: u64 = 3;

/// Where so many chunks lie, the first one first, if each leaf lies as far behind the one before as the chunks between them are
/// large. The first two are made at one time: at least three must be there.
pub(super) fn stretch(leaves: &[Leaf], places: u64) -> Option<Range<u64>> {
    let [zeroth, first, .., last] = leaves else { return None };
    if zeroth.first != 0 {
        return None;
    }
    for pair in leaves.get(1..)?.windows(2) {
        let [leaf, next] = pair else { return None };
        let expected = next.first.checked_sub(leaf.first)?.checked_mul(leaf.size)?;
        let found = next.address.checked_sub(leaf.address)?;
        if found == 0 || found.abs_diff(expected) > expected / TOLERANCE {
            return None;
        }
    }
    // A leaf that is full keeps seven eighths, or nine tenths, of its chunks; the new one has the others already.
    let kept = first.first;
    let more = kept / 8;
    let before = kept.saturating_add(more).saturating_add(MARGIN).checked_mul(zeroth.size.max(first.size))?;
    let left = places.saturating_sub(last.first).saturating_sub(more).saturating_add(MARGIN);
    let after = left.checked_mul(last.size)?;
    Some(first.address.saturating_sub(before)..last.address.checked_add(after)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaves as libhdf5 makes them: full at 64 chunks, of which 57 stay. `gap` lies between two chunks.
    fn written(places: u64, size: u64, gap: u64) -> (Vec<Leaf>, Range<u64>) {
        let (mut leaves, mut at): (Vec<Leaf>, u64) = (Vec::new(), 1_000_000);
        let mut first = 0;
        for number in 0..places {
            if number == first + 64 {
                if leaves.is_empty() {
                    leaves.push(Leaf { first, size, address: at });
                    at += 2096;
                }
                first += 57;
                leaves.push(Leaf { first, size, address: at });
                at += 2096;
            }
            at += size + gap;
        }
        (leaves, 1_000_000..at)
    }

    #[track_caller]
    fn check(places: u64, size: u64, gap: u64, expected: bool) {
        let (leaves, there) = written(places, size, gap);
        let found = stretch(&leaves, places);
        assert_eq!(found.is_some(), expected, "{places} {size} {gap}");
        if let Some(found) = found {
            assert!(found.start <= there.start && there.end - gap <= found.end, "{found:?} {there:?}");
            let more = (found.end - found.start).saturating_sub(there.end - there.start);
            assert!(more <= 16 * size + 8192, "{more} bytes more: {found:?} {there:?}");
        }
    }

    #[test]
    fn chunks_behind_each_other() {
        for places in [122, 123, 128, 150, 180, 185, 1000, 2000] {
            for size in [5000, 26_870, 1 << 20] {
                check(places, size, 0, true);
                check(places, size, size / 32, true);
            }
        }
    }

    #[test]
    fn others() {
        // Too few to tell.
        check(60, 10_000, 0, false);
        check(121, 10_000, 0, false);
        // Others lie in between.
        check(500, 10_000, 10_000, false);
        check(500, 10_000, 90_000, false);
        let leaf = |first, address| Leaf { first, size: 1000, address };
        let row = [leaf(0, 64_000), leaf(57, 66_096), leaf(114, 123_096)];
        assert!(stretch(&row, 130).is_some());
        for damaged in [
            [leaf(1, 64_000), leaf(57, 66_096), leaf(114, 123_096)],
            [leaf(0, 64_000), leaf(114, 66_096), leaf(57, 123_096)],
            [leaf(0, 64_000), leaf(57, 123_096), leaf(114, 66_096)],
            [leaf(0, 64_000), leaf(57, 66_096), leaf(57, 66_096)],
            [leaf(0, u64::MAX), leaf(57, u64::MAX - 57_000), leaf(114, u64::MAX)],
        ] {
            assert_eq!(stretch(&damaged, 130), None, "{damaged:?}");
        }
        assert_eq!(stretch(&[], 130), None);
    }
}
