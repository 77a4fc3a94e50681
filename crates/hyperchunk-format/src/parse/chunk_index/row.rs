//! Detection of chunks that were written one after another. libhdf5 then allocates the leaves of their B-tree
//! among the chunks, each when the preceding leaf has become full.

use std::ops::Range;

/// Leaf of an index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaf {
    /// Number of its first chunk in row-major order.
    pub(super) first: u64,
    /// Stored size of that chunk in bytes.
    pub(super) size: u64,
    pub(super) address: u64,
}

/// Allowed deviation of the distance between two leaves from the expected one: one part in this number.
const TOLERANCE_DIVISOR: u64 = 8;
/// Number of chunks by which the range is extended at both ends.
const MARGIN_CHUNKS: u64 = 3;

/// Returns the file range of `total` chunks, if the distance of each leaf to the next matches the size of the
/// chunks between them. The first two leaves are created at the same time, so at least three are needed.
pub(super) fn contiguous_range(leaves: &[Leaf], total: u64) -> Option<Range<u64>> {
    let [zeroth, first, .., last] = leaves else { return None };
    if zeroth.first != 0 {
        return None;
    }
    for pair in leaves.get(1..)?.windows(2) {
        let [leaf, next] = pair else { return None };
        let expected = next.first.checked_sub(leaf.first)?.checked_mul(leaf.size)?;
        let found = next.address.checked_sub(leaf.address)?;
        if found == 0 || found.abs_diff(expected) > expected / TOLERANCE_DIVISOR {
            return None;
        }
    }
    // A full leaf keeps seven eighths or nine tenths of its chunks when it is split; the new one gets the
    // rest.
    let kept = first.first;
    let more = kept / 8;
    let before =
        kept.saturating_add(more).saturating_add(MARGIN_CHUNKS).checked_mul(zeroth.size.max(first.size))?;
    let left = total.saturating_sub(last.first).saturating_sub(more).saturating_add(MARGIN_CHUNKS);
    let after = left.checked_mul(last.size)?;
    Some(first.address.saturating_sub(before)..last.address.checked_add(after)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates leaves as libhdf5 does: full at 64 chunks, of which 57 stay. `gap` is the distance between two
    /// chunks.
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
        let found = contiguous_range(&leaves, places);
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
        // Too few leaves to decide.
        check(60, 10_000, 0, false);
        check(121, 10_000, 0, false);
        // Other data between the chunks.
        check(500, 10_000, 10_000, false);
        check(500, 10_000, 90_000, false);
        let leaf = |first, address| Leaf { first, size: 1000, address };
        let row = [leaf(0, 64_000), leaf(57, 66_096), leaf(114, 123_096)];
        assert!(contiguous_range(&row, 130).is_some());
        for damaged in [
            [leaf(1, 64_000), leaf(57, 66_096), leaf(114, 123_096)],
            [leaf(0, 64_000), leaf(114, 66_096), leaf(57, 123_096)],
            [leaf(0, 64_000), leaf(57, 123_096), leaf(114, 66_096)],
            [leaf(0, 64_000), leaf(57, 66_096), leaf(57, 66_096)],
            [leaf(0, u64::MAX), leaf(57, u64::MAX - 57_000), leaf(114, u64::MAX)],
        ] {
            assert_eq!(contiguous_range(&damaged, 130), None, "{damaged:?}");
        }
        assert_eq!(contiguous_range(&[], 130), None);
    }
}
