//! Grid of up to four axes with a margin of zeros before each, and the Lorenzo prediction on it.

use super::value::Value;
use crate::Result;
use crate::codec::{filled, with_room};
use std::ops::Range;

/// Maximum number of axes; with fewer, the last ones are used.
pub(crate) const MAX_AXES: usize = 4;

/// Elements in row-major order, with margins.
#[derive(Debug)]
pub(crate) struct Grid<T> {
    dims: [usize; MAX_AXES],
    /// Number of zeros before the start of each axis.
    margin: [usize; MAX_AXES],
    steps: [usize; MAX_AXES],
    data: Vec<T>,
}

/// Part of the grid: its start and its sides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub(crate) start: [usize; MAX_AXES],
    pub(crate) sides: [usize; MAX_AXES],
}

impl<T: Value> Grid<T> {
    /// Creates a grid with `margin` zeros before each axis.
    pub(crate) fn new(dims: &[usize], margin: usize) -> Result<Self> {
        let (mut padded, mut margins, mut steps) = ([1; MAX_AXES], [0; MAX_AXES], [1; MAX_AXES]);
        for ((to, zeros), side) in padded.iter_mut().zip(margins.iter_mut()).rev().zip(dims.iter().rev()) {
            *to = *side;
            *zeros = margin;
        }
        let mut step: usize = 1;
        for ((to, side), zeros) in steps.iter_mut().zip(padded).zip(margins).rev() {
            *to = step;
            step = step.saturating_mul(side.saturating_add(zeros));
        }
        Ok(Self { dims: padded, margin: margins, steps, data: filled(T::default(), step)? })
    }

    /// Iterates over the blocks of `size` elements along each axis, last axis fastest.
    pub(crate) fn blocks(&self, size: usize) -> impl Iterator<Item = Block> + use<T> {
        let dims = self.dims;
        let mut next = Some([0; MAX_AXES]);
        std::iter::from_fn(move || {
            let start: [usize; MAX_AXES] = next?;
            let mut sides = [0; MAX_AXES];
            for ((to, side), start) in sides.iter_mut().zip(dims).zip(start) {
                *to = side.saturating_sub(start).min(size);
            }
            let mut following = start;
            next = None;
            for (at, side) in following.iter_mut().zip(dims).rev() {
                *at = at.saturating_add(size);
                if *at < side {
                    next = Some(following);
                    break;
                }
                *at = 0;
            }
            Some(Block { start, sides })
        })
    }

    /// Returns the distance in memory of `back` elements along each of the last axes.
    pub(crate) fn distance(&self, back: &[usize]) -> usize {
        let pairs = back.iter().rev().zip(self.steps.iter().rev());
        pairs.fold(0, |sum, (back, step)| sum.saturating_add(back.saturating_mul(*step)))
    }

    /// Calls `row` for each row of a block with the grid, the row's index range and its position in the
    /// block.
    pub(crate) fn rows(&mut self, block: Block, mut row: impl FnMut(&mut [T], Range<usize>, [usize; 3])) {
        let [a, b, c, d] = block.sides;
        let mut start: usize = 0;
        for ((at, zeros), step) in block.start.iter().zip(self.margin).zip(self.steps) {
            start = start.saturating_add(at.saturating_add(zeros).saturating_mul(step));
        }
        for i in 0..a {
            for j in 0..b {
                for k in 0..c {
                    let start = start.saturating_add(self.distance(&[i, j, k, 0]));
                    row(&mut self.data, start..start.saturating_add(d), [i, j, k]);
                }
            }
        }
    }

    /// Sets each element of a block, row by row, to the result of `element` for the grid, its index and its
    /// position in the block.
    pub(crate) fn each(
        &mut self,
        block: Block,
        mut element: impl FnMut(&[T], usize, [usize; MAX_AXES]) -> T,
    ) {
        self.rows(block, |data, row, [i, j, k]| {
            for (index, l) in row.zip(0..) {
                let value = element(data, index, [i, j, k, l]);
                if let Some(to) = data.get_mut(index) {
                    *to = value;
                }
            }
        });
    }

    /// Returns the whole grid as a block.
    pub(crate) fn whole(&self) -> Block {
        Block { start: [0; MAX_AXES], sides: self.dims }
    }

    /// Returns the elements without the margins.
    pub(crate) fn values(mut self) -> Result<Vec<T>> {
        let mut values = with_room(self.dims.iter().product())?;
        self.rows(self.whole(), |data, row, _| values.extend_from_slice(data.get(row).unwrap_or_default()));
        Ok(values)
    }
}

/// Lorenzo prediction: a sum of preceding elements, each given by its distance and a factor.
#[derive(Debug)]
pub(crate) struct Lorenzo(Vec<(usize, i8)>);

impl Lorenzo {
    /// Creates the prediction with 1 or 2 `layers`, along axes with these strides, in SZ3's order of
    /// summation.
    pub(crate) fn new(steps: &[usize], layers: usize) -> Self {
        let weights: &[i8] = if layers == 1 { &[1, -1] } else { &[1, -2, 1] };
        let mut terms = vec![(0_usize, -1_i8, 0_u8)];
        for step in steps {
            let old = std::mem::take(&mut terms);
            for (back, factor, axes) in old {
                for (number, weight) in weights.iter().enumerate() {
                    let back = back.saturating_add(step.saturating_mul(number));
                    let axes = axes.saturating_add(u8::from(number != 0));
                    terms.push((back, factor.saturating_mul(*weight), axes));
                }
            }
        }
        if layers == 1 && steps.len() == 3 {
            terms.sort_by_key(|(_, _, axes)| *axes);
        }
        Self(terms.into_iter().skip(1).map(|(back, factor, _)| (back, factor)).collect())
    }

    /// Creates a one-layer prediction with each term given by the strides to its element.
    pub(crate) fn of<const N: usize>(terms: [&[usize]; N]) -> Self {
        let factor = |steps: &[usize]| if steps.len() % 2 == 1 { 1 } else { -1 };
        Self(terms.map(|steps| (steps.iter().sum(), factor(steps))).to_vec())
    }

    /// Returns the prediction for the element at `index`.
    #[inline]
    pub(crate) fn predict<T: Value>(&self, data: &[T], index: usize) -> T {
        // Common numbers of terms get unrolled loops.
        match self.0.as_slice() {
            [only] => term(data, index, *only),
            [a, b, c] => sum(&[*a, *b, *c], data, index),
            [a, b, c, d, e, f, g] => sum(&[*a, *b, *c, *d, *e, *f, *g], data, index),
            terms => sum(terms, data, index),
        }
    }
}

#[inline]
fn sum<T: Value>(terms: &[(usize, i8)], data: &[T], index: usize) -> T {
    let Some((first, others)) = terms.split_first() else { return T::default() };
    let first = term(data, index, *first);
    others.iter().fold(first, |sum, (back, factor)| sum.plus(before(data, index, *back), *factor))
}

#[inline]
fn term<T: Value>(data: &[T], index: usize, (back, factor): (usize, i8)) -> T {
    before(data, index, back).times(factor)
}

#[inline]
fn before<T: Value>(data: &[T], index: usize, back: usize) -> T {
    data.get(index.wrapping_sub(back)).copied().unwrap_or_default()
}
