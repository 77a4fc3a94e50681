//! Boxes of the grid of chunks, with their traversal in row-major order.

use std::ops::Range;

/// Non-empty box of the grid of chunks: a range of coordinates on each axis.
#[derive(Debug, Clone)]
pub(super) struct Region(Vec<Range<u64>>);

impl Region {
    /// Creates a box; `None` if it is empty.
    pub(super) fn new(ranges: impl Iterator<Item = Range<u64>>) -> Option<Self> {
        let ranges: Vec<Range<u64>> = ranges.collect();
        if ranges.iter().any(Range::is_empty) { None } else { Some(Self(ranges)) }
    }

    pub(super) fn ranges(&self) -> &[Range<u64>] {
        &self.0
    }

    pub(super) fn rank(&self) -> usize {
        self.0.len()
    }

    pub(super) fn contains(&self, point: &[u64]) -> bool {
        self.0.iter().zip(point).all(|(range, coordinate)| range.contains(coordinate))
    }

    /// Moves `point` to the first point of the box at or after it in row-major order. Returns false past
    /// the end of the box; `point` is then unspecified.
    pub(super) fn advance(&self, point: &mut [u64]) -> bool {
        // First axis on which the point is outside the box.
        let outside = self.0.iter().zip(&*point).position(|(range, coordinate)| !range.contains(coordinate));
        let Some(outside) = outside else { return true };
        let below = self.0.get(outside).zip(point.get(outside)).is_some_and(|(range, at)| *at < range.start);
        let mut reset = outside;
        if !below {
            // Past the box: increment the last preceding axis that has a next index.
            let axes = self.0.iter().zip(&mut *point).enumerate().take(outside);
            let next = axes.rev().find(|(_, (range, at))| at.saturating_add(1) < range.end);
            let Some((axis, (_, at))) = next else { return false };
            *at = at.saturating_add(1);
            reset = axis.saturating_add(1);
        }
        for (range, at) in self.0.iter().zip(point).skip(reset) {
            *at = range.start;
        }
        true
    }

    /// Moves `point` to the first point of the box after it, as [`Region::advance`].
    pub(super) fn advance_beyond(&self, point: &mut [u64]) -> bool {
        for at in point.iter_mut().rev() {
            let (next, carry) = at.overflowing_add(1);
            *at = next;
            if !carry {
                return self.advance(point);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_point_of_a_box() {
        let region = Region::new([1..3, 2..4, 0..2].into_iter()).unwrap();
        let all: Vec<[u64; 3]> =
            (0..64).map(|n| [n / 16, n / 4 % 4, n % 4]).filter(|point| region.contains(point)).collect();
        assert_eq!(all.len(), 8);
        for point in (0..64).map(|n| [n / 16, n / 4 % 4, n % 4]) {
            let mut next = point;
            let found = region.advance(&mut next).then_some(next);
            assert_eq!(found, all.iter().copied().find(|other| *other >= point), "{point:?}");
            let mut next = point;
            let found = region.advance_beyond(&mut next).then_some(next);
            assert_eq!(found, all.iter().copied().find(|other| *other > point), "beyond {point:?}");
        }
        assert!(!region.advance_beyond(&mut [u64::MAX; 3]));
        assert!(Region::new([1..3, 2..2].into_iter()).is_none());
    }
}
