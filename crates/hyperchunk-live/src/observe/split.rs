//! Division of a large write into boxes that a function sees at once.

use hyperchunk_store::Hyperslab;

/// Maximum number of bytes that a function sees at once.
pub(super) const MAX_CALL_BYTES: u64 = 64 << 20;

/// Splits a box along its slowest dimensions into boxes of at most [`MAX_CALL_BYTES`] bytes, in the order of the
/// elements.
pub(super) fn split(slab: &Hyperslab, size: u64) -> Vec<Hyperslab> {
    let bytes = slab.count.iter().fold(size, |bytes, count| bytes.saturating_mul(*count));
    if bytes <= MAX_CALL_BYTES {
        return vec![slab.clone()];
    }
    let Some(axis) = slab.count.iter().position(|count| *count > 1) else { return vec![slab.clone()] };
    let row = slab.count.iter().skip(axis + 1).fold(size, |bytes, count| bytes.saturating_mul(*count));
    let rows = (MAX_CALL_BYTES / row.max(1)).max(1);
    let (start, count) = (slab.start[axis], slab.count[axis]);
    let mut parts = Vec::new();
    let mut done = 0;
    while done < count {
        let step = rows.min(count - done);
        let mut part = slab.clone();
        (part.start[axis], part.count[axis]) = (start + done, step);
        if row > MAX_CALL_BYTES {
            parts.extend(split(&part, size))
        } else {
            parts.push(part)
        }
        done += step;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the parts of a box are small, consecutive and complete.
    #[track_caller]
    fn check(start: &[u64], count: &[u64], size: u64, many: usize) {
        let slab = Hyperslab::new(start, count);
        let parts = split(&slab, size);
        assert_eq!(parts.len(), many);
        let elements = |slab: &Hyperslab| slab.count.iter().product::<u64>();
        assert_eq!(parts.iter().map(elements).sum::<u64>(), elements(&slab));
        // Start of each part in the row-major order of the box's elements.
        let mut expected = 0;
        for part in &parts {
            let place = part.start.iter().zip(start).zip(count);
            assert_eq!(place.fold(0, |at, ((start, first), count)| at * count + start - first), expected);
            expected += elements(part);
            assert!(elements(part) * size <= MAX_CALL_BYTES || elements(part) == 1);
        }
    }

    #[test]
    fn large_boxes_are_cut() {
        check(&[3, 4], &[10, 10], 8, 1);
        check(&[0], &[MAX_CALL_BYTES / 8], 8, 1);
        check(&[5], &[MAX_CALL_BYTES / 8 + 1], 8, 2);
        check(&[7, 1], &[32, 1 << 20], 4, 2);
        check(&[0, 2, 1], &[3, 40, 1 << 20], 4, 9);
        check(&[0, 0], &[1, 1 << 26], 1, 1);
        check(&[0, 0], &[2, 1 << 26], 1, 2);
    }
}
