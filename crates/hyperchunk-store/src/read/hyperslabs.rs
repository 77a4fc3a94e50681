//! Selections converted to boxes, the form that a log stores.

use crate::format::piece::Hyperslab;
use hyperchunk::{Error, Result};
use hyperchunk_format::select::{Axis, Selection, runs};

/// Maximum number of boxes of one write.
const MAX_BOXES: usize = 1 << 26;

/// Converts a selection to boxes. Their elements, box after box and each in C order, are the
/// selection's elements in its order.
///
/// # Errors
/// Invalid if the selection does not suit the extent; Limit for more than 2²⁶ boxes.
pub fn boxes(selection: &Selection, dims: &[u64]) -> Result<Vec<Hyperslab>> {
    selection.check(dims)?;
    if let Some(only) = only_box(selection, dims) {
        return Ok(vec![only]);
    }
    let mut found: Vec<Hyperslab> = Vec::new();
    let rank = dims.len();
    for (mut at, mut length) in runs(selection, dims)? {
        while length > 0 {
            // Take as many whole planes of the slowest dimension that begins here as possible, else
            // a part of a row.
            let mut place = vec![0; rank];
            let mut left = at;
            for (place, dim) in place.iter_mut().zip(dims).rev() {
                *place = left % dim;
                left /= dim;
            }
            let mut count = vec![1; rank];
            let mut plane = 1;
            let mut taken = 0;
            for axis in (0..rank).rev() {
                let room = dims[axis] - place[axis];
                let fits = (length / plane).min(room);
                count[axis] = fits;
                taken = plane * fits;
                if axis == 0 || fits < dims[axis] || length / (plane * dims[axis]) == 0 {
                    break;
                }
                plane *= dims[axis];
            }
            if found.len() >= MAX_BOXES {
                return Err(Error::limit("a selection of more than 2^26 boxes: write it in parts"));
            }
            found.push(Hyperslab { start: place, count });
            at += taken;
            length -= taken;
        }
    }
    Ok(found)
}

fn only_box(selection: &Selection, dims: &[u64]) -> Option<Hyperslab> {
    match selection {
        Selection::All => Some(Hyperslab::new(vec![0; dims.len()], dims)),
        Selection::Axes(axes) => {
            let mut slab = Hyperslab::default();
            for axis in axes {
                let Axis::Range { start, stride, count, block } = axis else { return None };
                if *count > 1 && stride != block {
                    return None;
                }
                slab.start.push(*start);
                slab.count.push(count.checked_mul(*block)?);
            }
            Some(slab)
        }
        _ => None,
    }
}

/// Appends the boxes that together are `length` consecutive elements of a box, from `first` on in
/// row-major order.
pub(crate) fn split_range(slab: &Hyperslab, mut first: u64, mut length: u64, boxes: &mut Vec<Hyperslab>) {
    let rank = slab.count.len();
    // Number of elements in one index of each axis.
    let mut below = vec![1_u64; rank];
    for axis in (1..rank).rev() {
        below[axis - 1] = below[axis].saturating_mul(slab.count[axis]);
    }
    while length > 0 {
        // The outermost axis along which the run holds whole indices.
        let axis = (0..rank).find(|axis| first.is_multiple_of(below[*axis]) && length >= below[*axis]);
        let Some(axis) = axis else {
            boxes.push(slab.clone());
            return;
        };
        let place = |axis: usize| first / below[axis] % slab.count[axis].max(1);
        let many = (length / below[axis]).min(slab.count[axis] - place(axis));
        let start = (0..rank).map(|axis| slab.start[axis] + place(axis)).collect::<Vec<_>>();
        let count = (0..rank).map(|other| match other.cmp(&axis) {
            std::cmp::Ordering::Less => 1,
            std::cmp::Ordering::Equal => many,
            std::cmp::Ordering::Greater => slab.count[other],
        });
        boxes.push(Hyperslab::new(start, count.collect::<Vec<_>>()));
        first += many * below[axis];
        length -= many * below[axis];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperchunk_format::select::Blocks;

    fn check(selection: &Selection, dims: &[u64], most: usize) {
        let found = boxes(selection, dims).unwrap();
        let mut numbers = Vec::new();
        for slab in &found {
            let mut at = vec![0; dims.len()];
            for _ in 0..slab.elements().unwrap() {
                let place = slab.start.iter().zip(&at).zip(dims);
                numbers.push(place.fold(0, |number, ((start, at), dim)| number * dim + start + at));
                for axis in (0..dims.len()).rev() {
                    at[axis] += 1;
                    if at[axis] < slab.count[axis] {
                        break;
                    }
                    at[axis] = 0;
                }
            }
        }
        let expected: Vec<u64> =
            runs(selection, dims).unwrap().flat_map(|(start, length)| start..start + length).collect();
        assert_eq!(numbers, expected, "{selection:?}");
        assert!(found.len() <= most, "{} boxes for {selection:?}", found.len());
    }

    #[test]
    fn boxes_have_the_elements_of_a_selection_in_its_order() {
        let dims = [6, 5, 4];
        check(&Selection::All, &dims, 1);
        check(&Selection::None, &dims, 0);
        let axes = |axes: [Axis; 3]| Selection::Axes(axes.into());
        check(&axes([Axis::range(1..4), Axis::range(2..5), Axis::range(0..2)]), &dims, 1);
        check(&axes([Axis::steps(1, 2, 3), Axis::range(0..5), Axis::range(0..4)]), &dims, 3);
        check(&axes([Axis::range(0..6), Axis::steps(0, 2, 2), Axis::steps(1, 2, 2)]), &dims, 24);
        check(&axes([Axis::List(vec![0, 3, 4]), Axis::range(1..3), Axis::range(0..4)]), &dims, 6);
        check(&Selection::Points { rank: 3, coordinates: vec![5, 4, 3, 0, 0, 0, 5, 4, 3] }, &dims, 3);
        let blocks = Blocks::new(3, &[0, 0, 0, 3, 4, 3, 5, 1, 1, 5, 2, 2]).unwrap();
        check(&Selection::Blocks(blocks), &dims, 3);
        check(&Selection::Axes(vec![]), &[], 1);
    }

    #[test]
    fn elements_in_order_are_few_boxes() {
        let slab = Hyperslab::new([10, 20, 30], [3, 4, 5]);
        for first in 0..60 {
            for length in 1..=60 - first {
                let mut boxes = Vec::new();
                split_range(&slab, first, length, &mut boxes);
                assert!(boxes.len() <= 5, "{boxes:?}");
                let found = boxes.iter().flat_map(|part| {
                    crate::commit::overlap::rows(part, &slab, part)
                        .flat_map(|(start, _, length)| start..start + length)
                });
                assert!(found.eq(first..first + length), "{first} {length}: {boxes:?}");
            }
        }
        let mut boxes = Vec::new();
        split_range(&Hyperslab::default(), 0, 1, &mut boxes);
        assert_eq!(boxes, [Hyperslab::default()]);
    }
}
