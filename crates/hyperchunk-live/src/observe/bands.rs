//! Division of a large write into boxes that a function sees at once.

use hyperchunk::store::Slab;

/// Maximum number of bytes that a function sees at once.
pub(super) const AT_ONCE: u64 = 64 << 20;

/// Splits a box along its slowest dimensions into boxes of at most [`AT_ONCE`] bytes, in the order of the
/// elements.
pub(super) fn of(slab: &Slab, size: u64) -> Vec<Slab> {
    let bytes = slab.count.iter().fold(size, |bytes, count| bytes.saturating_mul(*count));
    if bytes <= AT_ONCE {
        return vec![slab.clone()];
    }
    let Some(axis) = slab.count.iter().position(|count| *count > 1) else { return vec![slab.clone()] };
    let row = slab.count.iter().skip(axis + 1).fold(size, |bytes, count| bytes.saturating_mul(*count));
    let rows = (AT_ONCE / row.max(1)).max(1);
    let (start, count) = (slab.start[axis], slab.count[axis]);
    let mut bands = Vec::new();
    let mut done = 0;
    while done < count {
        let step = rows.min(count - done);
        let mut band = slab.clone();
        (band.start[axis], band.count[axis]) = (start + done, step);
        if row > AT_ONCE {
            bands.extend(of(&band, size))
        } else {
            bands.push(band)
        }
        done += step;
    }
    bands
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the bands of a box are small, consecutive and complete.
    #[track_caller]
    fn check(start: &[u64], count: &[u64], size: u64, many: usize) {
        let slab = Slab::new(start, count);
        let bands = of(&slab, size);
        assert_eq!(bands.len(), many);
        let elements = |slab: &Slab| slab.count.iter().product::<u64>();
        assert_eq!(bands.iter().map(elements).sum::<u64>(), elements(&slab));
        // Start of each band in the row-major order of the box's elements.
        let mut expected = 0;
        for band in &bands {
            let place = band.start.iter().zip(start).zip(count);
            assert_eq!(place.fold(0, |at, ((start, first), count)| at * count + start - first), expected);
            expected += elements(band);
            assert!(elements(band) * size <= AT_ONCE || elements(band) == 1);
        }
    }

    #[test]
    fn large_boxes_are_cut() {
        check(&[3, 4], &[10, 10], 8, 1);
        check(&[0], &[AT_ONCE / 8], 8, 1);
        check(&[5], &[AT_ONCE / 8 + 1], 8, 2);
        check(&[7, 1], &[32, 1 << 20], 4, 2);
        check(&[0, 2, 1], &[3, 40, 1 << 20], 4, 9);
        check(&[0, 0], &[1, 1 << 26], 1, 1);
        check(&[0, 0], &[2, 1 << 26], 1, 2);
    }
}
