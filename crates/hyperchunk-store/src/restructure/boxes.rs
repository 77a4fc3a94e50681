//! Arithmetic of grids, boxes and element offsets.

use crate::Hyperslab;
use hyperchunk::{Error, Result};

/// A regular grid over an extent. The cells at the edges may reach past it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    extent: Vec<u64>,
    cell: Vec<u64>,
    counts: Vec<u64>,
    len: u64,
}

impl Grid {
    /// Makes a grid.
    ///
    /// # Errors
    /// Invalid if extent and cell differ in rank, or a cell has no elements; Limit for more than
    /// 2⁶⁴ - 1 cells.
    pub fn new(extent: &[u64], cell: &[u64]) -> Result<Self> {
        if extent.len() != cell.len() || cell.contains(&0) {
            let message = format!("cells of {cell:?} elements for an extent of {extent:?}");
            return Err(Error::invalid(message));
        }
        let counts: Vec<u64> = extent.iter().zip(cell).map(|(extent, cell)| extent.div_ceil(*cell)).collect();
        let len = counts.iter().try_fold(1_u64, |product, count| product.checked_mul(*count));
        let len = len.ok_or_else(|| Error::limit("more than 2^64 cells"))?;
        Ok(Self { extent: extent.to_vec(), cell: cell.to_vec(), counts, len })
    }

    /// Returns the shape of a cell.
    #[must_use]
    pub fn cell(&self) -> &[u64] {
        &self.cell
    }

    /// Returns the number of cells along each dimension.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Returns the number of cells.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether there are no cells.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the grid coordinates of a cell, by its number in row-major order.
    #[must_use]
    pub fn place(&self, mut number: u64) -> Vec<u64> {
        let mut place = vec![0; self.counts.len()];
        for (index, count) in place.iter_mut().zip(&self.counts).rev() {
            *index = number % (*count).max(1);
            number /= (*count).max(1);
        }
        place
    }

    /// Returns the number of a cell in row-major order.
    #[must_use]
    pub fn number(&self, place: &[u64]) -> u64 {
        place.iter().zip(&self.counts).fold(0, |number, (index, count)| number * count + index)
    }

    /// Returns the elements of a cell inside the extent.
    #[must_use]
    pub fn slab(&self, place: &[u64]) -> Hyperslab {
        let mut slab = Hyperslab::default();
        for ((index, cell), extent) in place.iter().zip(&self.cell).zip(&self.extent) {
            let start = index * cell;
            slab.start.push(start);
            slab.count.push((*cell).min(extent - start));
        }
        slab
    }

    /// Iterates over the cells that intersect a box, in row-major order.
    pub fn touched(&self, slab: &Hyperslab) -> impl Iterator<Item = Vec<u64>> + use<> {
        let ranges: Vec<(u64, u64)> = slab
            .start
            .iter()
            .zip(&slab.count)
            .zip(&self.cell)
            .map(|((start, count), cell)| (start / cell, (start + count).div_ceil(*cell)))
            .collect();
        let mut next = (!slab.count.contains(&0)).then(|| {
            let first: Vec<u64> = ranges.iter().map(|(first, _)| *first).collect();
            first
        });
        std::iter::from_fn(move || {
            let here = next.take()?;
            let mut after = here.clone();
            for (index, (first, end)) in after.iter_mut().zip(&ranges).rev() {
                *index += 1;
                if *index < *end {
                    next = Some(after);
                    break;
                }
                *index = *first;
            }
            Some(here)
        })
    }
}

/// Splits a box into parts that are contiguous in an array of extent `dims`, each of at most about `most`
/// elements.
pub(super) fn spans(dims: &[u64], slab: &Hyperslab, most: u64) -> impl Iterator<Item = Hyperslab> + use<> {
    // Dimensions after this one are complete; the ones before it are iterated.
    let mut axis = dims.len().saturating_sub(1);
    let mut inner = 1_u64;
    while axis > 0 && slab.count[axis] == dims[axis] {
        inner = inner.saturating_mul(dims[axis]);
        axis -= 1;
    }
    let mut cell = slab.count.clone();
    cell[..axis].fill(1);
    if let Some(step) = cell.get_mut(axis) {
        *step = (most / inner.max(1)).clamp(1, (*step).max(1));
    }
    let start = slab.start.clone();
    // The cells are not empty, and there are at most as many as the box has elements.
    let grid = Grid::new(&slab.count, &cell).ok();
    (0..grid.as_ref().map_or(0, Grid::len)).filter_map(move |number| {
        let grid = grid.as_ref()?;
        let mut part = grid.slab(&grid.place(number));
        part.start.iter_mut().zip(&start).for_each(|(at, start)| *at += start);
        Some(part)
    })
}

/// Returns the offset of an element in an array.
pub(super) fn offset(dims: &[u64], place: &[u64]) -> u64 {
    place.iter().zip(dims).fold(0, |offset, (index, dim)| offset * dim + index)
}

/// Copies lines of `N` bytes at constant strides.
fn short<const N: usize>(from: &[u8], to: &mut [u8], lines: usize, steps: (usize, usize)) -> Option<()> {
    for line in 0..lines {
        let read: &[u8; N] = from.get(line * steps.0..)?.first_chunk()?;
        *to.get_mut(line * steps.1..)?.first_chunk_mut()? = *read;
    }
    Some(())
}

/// Copies lines of any length at constant strides.
fn long(from: &[u8], to: &mut [u8], row: usize, lines: usize, steps: (usize, usize)) -> Option<()> {
    for line in 0..lines {
        let read = from.get(line * steps.0..)?.get(..row)?;
        to.get_mut(line * steps.1..)?.get_mut(..row)?.copy_from_slice(read);
    }
    Some(())
}

/// An array in memory, and the start of a box in it.
#[derive(Debug)]
pub(super) struct ArrayWindow<'a, B> {
    pub(super) bytes: B,
    pub(super) dims: &'a [u64],
    pub(super) start: &'a [u64],
}

/// Copies a box of elements of `size` bytes from one array to another.
pub(super) fn copy(
    size: usize,
    count: &[u64],
    from: &ArrayWindow<'_, &[u8]>,
    to: ArrayWindow<'_, &mut [u8]>,
) -> Result<()> {
    let outside = || Error::invalid("a box outside its array");
    let narrow = |value: u64| usize::try_from(value).map_err(|_| outside());
    let bytes = |value: u64| narrow(value).and_then(|value| value.checked_mul(size).ok_or_else(outside));
    if count.contains(&0) {
        return Ok(());
    }
    // A dimension that is complete in both arrays forms one row with the dimension before it.
    let mut axis = count.len();
    let mut row = 1_u64;
    let mut whole = true;
    while whole && axis > 0 {
        axis -= 1;
        row *= count[axis];
        whole = count[axis] == from.dims[axis] && count[axis] == to.dims[axis];
    }
    let row = bytes(row)?;
    let step = |dims: &[u64], at: usize| bytes(dims[at + 1..].iter().product());
    let (mut source, mut target) = (bytes(offset(from.dims, from.start))?, bytes(offset(to.dims, to.start))?);
    let mut index = vec![0; axis];
    let steps = (0..axis)
        .map(|at| Ok((narrow(count[at])?, step(from.dims, at)?, step(to.dims, at)?)))
        .collect::<Result<Vec<_>>>()?;
    let (lines, source_step, target_step) = steps.last().copied().unwrap_or((1, 0, 0));
    loop {
        let steps_of_lines = (source_step, target_step);
        let (read, write) = (from.bytes.get(source..), to.bytes.get_mut(target..));
        let (read, write) = (read.ok_or_else(outside)?, write.ok_or_else(outside)?);
        let copied = match row {
            4 => short::<4>(read, write, lines, steps_of_lines),
            8 => short::<8>(read, write, lines, steps_of_lines),
            16 => short::<16>(read, write, lines, steps_of_lines),
            32 => short::<32>(read, write, lines, steps_of_lines),
            64 => short::<64>(read, write, lines, steps_of_lines),
            128 => short::<128>(read, write, lines, steps_of_lines),
            row => long(read, write, row, lines, steps_of_lines),
        };
        copied.ok_or_else(outside)?;
        // Advance to the next group of lines.
        let mut at = axis.saturating_sub(1);
        loop {
            if at == 0 {
                return Ok(());
            }
            at -= 1;
            let (count, source_step, target_step) = steps[at];
            index[at] += 1;
            (source, target) = (source + source_step, target + target_step);
            if index[at] < count {
                break;
            }
            index[at] = 0;
            (source, target) = (source - count * source_step, target - count * target_step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn grids() {
        let grid = Grid::new(&[10, 7], &[4, 3]).unwrap();
        assert_eq!((grid.counts(), grid.len()), (&[3, 3][..], 9));
        let mut seen = HashSet::new();
        for number in 0..grid.len() {
            let place = grid.place(number);
            assert_eq!(grid.number(&place), number);
            let slab = grid.slab(&place);
            for row in slab.start[0]..slab.start[0] + slab.count[0] {
                for column in slab.start[1]..slab.start[1] + slab.count[1] {
                    assert!(seen.insert((row, column)));
                }
            }
        }
        assert_eq!(seen.len(), 70);
        assert!(Grid::new(&[3], &[0]).is_err() && Grid::new(&[3], &[1, 1]).is_err());
        assert!(Grid::new(&[u64::MAX, u64::MAX], &[1, 1]).is_err());
        let touched: Vec<_> = grid.touched(&Hyperslab::new([3, 5], [2, 2])).collect();
        assert_eq!(touched, [vec![0, 1], vec![0, 2], vec![1, 1], vec![1, 2]]);
        assert_eq!(grid.touched(&Hyperslab::new([3, 5], [0, 2])).count(), 0);
    }

    /// Compares the parts of a box with an enumeration of its elements.
    fn check(dims: &[u64], slab: &Hyperslab, most: u64) {
        let elements: u64 = dims.iter().product();
        let mut seen = vec![false; usize::try_from(elements).unwrap()];
        for part in spans(dims, slab, most) {
            let first = offset(dims, &part.start);
            let count = part.elements().unwrap();
            let last: Vec<u64> =
                part.start.iter().zip(&part.count).map(|(at, count)| at + count - 1).collect();
            assert_eq!(offset(dims, &last), first + count - 1, "{dims:?} {part:?}: in one piece");
            for at in first..first + count {
                let at = usize::try_from(at).unwrap();
                assert!(!std::mem::replace(&mut seen[at], true));
            }
        }
        assert_eq!(seen.iter().filter(|seen| **seen).count() as u64, slab.elements().unwrap());
    }

    #[test]
    fn spans_are_in_one_piece_and_make_the_box() {
        for most in [1, 2, 5, 1000] {
            check(&[7], &Hyperslab::new([2], [4]), most);
            check(&[5, 4], &Hyperslab::new([1, 0], [3, 4]), most);
            check(&[5, 4], &Hyperslab::new([1, 1], [3, 2]), most);
            check(&[5, 4, 3], &Hyperslab::new([1, 0, 0], [3, 4, 3]), most);
            check(&[5, 4, 3], &Hyperslab::new([1, 2, 0], [3, 2, 3]), most);
            check(&[5, 4, 3], &Hyperslab::new([0, 0, 1], [5, 4, 1]), most);
        }
    }

    #[test]
    fn boxes_are_copied() {
        let dims = [4, 5, 3];
        let all: Vec<u8> = (0..60_u8).flat_map(|value| [value, value ^ 255]).collect();
        for (start, count) in
            [([0, 0, 0], [4, 5, 3]), ([1, 2, 0], [2, 3, 3]), ([3, 4, 2], [1, 1, 1]), ([0, 1, 1], [4, 2, 2])]
        {
            let target_dims = [count[0] + 1, count[1], count[2] + 2];
            let mut target = vec![7; usize::try_from(2 * target_dims.iter().product::<u64>()).unwrap()];
            let from = ArrayWindow { bytes: &all[..], dims: &dims, start: &start };
            let to = ArrayWindow { bytes: &mut target[..], dims: &target_dims, start: &[1, 0, 1] };
            copy(2, &count, &from, to).unwrap();
            let mut copied = 0;
            for a in 0..target_dims[0] {
                for b in 0..target_dims[1] {
                    for c in 0..target_dims[2] {
                        let at = usize::try_from(2 * offset(&target_dims, &[a, b, c])).unwrap();
                        let inside = a >= 1 && c >= 1 && c <= count[2];
                        let expected = if inside {
                            let source = [start[0] + a - 1, start[1] + b, start[2] + c - 1];
                            let source = usize::try_from(2 * offset(&dims, &source)).unwrap();
                            copied += 1;
                            [all[source], all[source + 1]]
                        } else {
                            [7, 7]
                        };
                        assert_eq!(target[at..at + 2], expected);
                    }
                }
            }
            assert_eq!(copied, count.iter().product::<u64>());
        }
        let from = ArrayWindow { bytes: &all[..10], dims: &dims, start: &[0, 0, 0] };
        assert!(
            copy(2, &[4, 5, 3], &from, ArrayWindow { bytes: &mut [0; 120], dims: &dims, start: &[0, 0, 0] })
                .is_err()
        );
    }
}
