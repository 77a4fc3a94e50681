//! Operations on boxes: subtraction and merging.

use crate::Hyperslab;

/// Subtracts `cut` from a box; appends the remaining parts, which do not overlap.
pub(crate) fn without(slab: &Hyperslab, cut: &Hyperslab, out: &mut Vec<Hyperslab>) {
    let Some(common) = slab.intersection(cut) else {
        out.push(slab.clone());
        return;
    };
    let mut rest = slab.clone();
    for axis in 0..rest.start.len() {
        let end = rest.start[axis] + rest.count[axis];
        let common_end = common.start[axis] + common.count[axis];
        for (from, to) in [(rest.start[axis], common.start[axis]), (common_end, end)] {
            if from < to {
                let mut part = rest.clone();
                (part.start[axis], part.count[axis]) = (from, to - from);
                out.push(part);
            }
        }
        (rest.start[axis], rest.count[axis]) = (common.start[axis], common.count[axis]);
    }
}

/// Merges adjacent boxes and sorts them. The boxes must not overlap.
pub(crate) fn merged(mut boxes: Vec<Hyperslab>) -> Vec<Hyperslab> {
    boxes.retain(|slab| !slab.count.contains(&0));
    let rank = boxes.first().map_or(0, |slab| slab.start.len());
    for axis in (0..rank).rev() {
        // Makes boxes that can be merged along the axis consecutive.
        boxes.sort_by_cached_key(|slab| {
            let mut key: Vec<u64> = Vec::with_capacity(2 * rank);
            for other in (0..rank).filter(|other| *other != axis) {
                key.extend([slab.start[other], slab.count[other]]);
            }
            key.push(slab.start[axis]);
            key
        });
        let mut kept: Vec<Hyperslab> = Vec::with_capacity(boxes.len());
        for slab in boxes {
            if let Some(last) = kept.last_mut()
                && last.start[axis] + last.count[axis] == slab.start[axis]
                && (0..rank).all(|other| {
                    other == axis
                        || (last.start[other], last.count[other]) == (slab.start[other], slab.count[other])
                })
            {
                last.count[axis] += slab.count[axis];
            } else {
                kept.push(slab);
            }
        }
        boxes = kept;
    }
    boxes.sort_by(|one, other| one.start.cmp(&other.start));
    boxes
}

/// Returns the total number of elements of boxes.
pub(crate) fn elements(boxes: &[Hyperslab]) -> u64 {
    boxes.iter().fold(0, |sum: u64, slab| sum.saturating_add(slab.elements().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn places(boxes: &[Hyperslab]) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        for slab in boxes {
            for row in 0..slab.count[0] {
                all.extend((0..slab.count[1]).map(|at| (slab.start[0] + row, slab.start[1] + at)));
            }
        }
        all
    }

    #[test]
    fn what_is_left_is_all_but_the_other_box() {
        let slab = Hyperslab::new([2, 3], [5, 4]);
        for (start, count) in
            [([0, 0], [3, 4]), ([3, 4], [1, 1]), ([2, 3], [5, 4]), ([9, 9], [1, 1]), ([0, 4], [20, 1])]
        {
            let cut = Hyperslab::new(start, count);
            let mut left = Vec::new();
            without(&slab, &cut, &mut left);
            let found = places(&left);
            let gone: BTreeSet<_> = places(&[cut]).into_iter().collect();
            let expected: BTreeSet<_> = places(std::slice::from_ref(&slab))
                .into_iter()
                .filter(|place| !gone.contains(place))
                .collect();
            assert_eq!(found.len(), expected.len());
            assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
        }
        let mut left = Vec::new();
        without(&Hyperslab::default(), &Hyperslab::default(), &mut left);
        assert!(left.is_empty());
    }

    #[test]
    fn boxes_that_are_a_box_are_merged() {
        let tiles = |rows: u64, columns: u64| {
            (0..rows).flat_map(move |row| {
                (0..columns).map(move |column| Hyperslab::new([row * 3, column * 2], [3, 2]))
            })
        };
        assert_eq!(merged(tiles(4, 5).collect()), [Hyperslab::new([0, 0], [12, 10])]);
        let mut some: Vec<Hyperslab> = tiles(4, 5).collect();
        let hole = some.remove(7);
        let found = merged(some.clone());
        assert!(found.len() <= 5, "{found:?}");
        let mut all = places(&found);
        all.extend(places(&[hole]));
        all.sort_unstable();
        assert_eq!(all, places(&[Hyperslab::new([0, 0], [12, 10])]));
    }
}
