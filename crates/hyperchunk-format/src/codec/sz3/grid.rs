//! A grid of up to four axes with zeros before its start along each, and Lorenzo's prediction on it.

use super::value::Value;

/// The most axes; fewer stand at the end.
pub(super) const AXES: usize = 4;

/// The elements, row by row.
#[derive(Debug)]
pub(super) struct Grid<T> {
    dims: [usize; AXES],
    /// How many zeros stand before the start of each axis.
    margin: [usize; AXES],
    steps: [usize; AXES],
    data: Vec<T>,
}

/// A part of the grid: where it starts, and its sides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) start: [usize; AXES],
    pub(super) sides: [usize; AXES],
}

impl<T: Value> Grid<T> {
    /// A grid with `margin` zeros along each of its axes.
    pub(super) fn new(dims: &[usize], margin: usize) -> Self {
        let (mut padded, mut margins, mut steps) = ([1; AXES], [0; AXES], [1; AXES]);
        for ((to, zeros), side) in padded.iter_mut().zip(margins.iter_mut()).rev().zip(dims.iter().rev()) {
            *to = *side;
            *zeros = margin;
        }
        let mut step: usize = 1;
        for ((to, side), zeros) in steps.iter_mut().zip(padded).zip(margins).rev() {
            *to = step;
            step = step.saturating_mul(side.saturating_add(zeros));
        }
        Self { dims: padded, margin: margins, steps, data: vec![T::default(); step] }
    }

    /// The blocks of `size` elements along each axis, the last axis first.
    pub(super) fn blocks(&self, size: usize) -> impl Iterator<Item = Block> + use<T> {
        let dims = self.dims;
        let mut next = Some([0; AXES]);
        std::iter::from_fn(move || {
            let start: [usize; AXES] = next?;
            let mut sides = [0; AXES];
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

    /// How far back the element lies that is `back` elements before another along each of the last axes.
    pub(super) fn distance(&self, back: &[usize]) -> usize {
        let pairs = back.iter().rev().zip(self.steps.iter().rev());
        pairs.fold(0, |sum, (back, step)| sum.saturating_add(back.saturating_mul(*step)))
    }

    /// Calls `element` for each element of a block, row by row, with the grid, its index and its place in the block.
    pub(super) fn each(&mut self, block: Block, mut element: impl FnMut(&mut [T], usize, [usize; AXES])) {
        let [a, b, c, d] = block.sides;
        let mut start: usize = 0;
        for ((at, zeros), step) in block.start.iter().zip(self.margin).zip(self.steps) {
            start = start.saturating_add(at.saturating_add(zeros).saturating_mul(step));
        }
        for i in 0..a {
            for j in 0..b {
                for k in 0..c {
                    let row = start.saturating_add(self.distance(&[i, j, k, 0]));
                    for l in 0..d {
                        element(&mut self.data, row.saturating_add(l), [i, j, k, l]);
                    }
                }
            }
        }
    }

    /// Appends the elements without the zeros.
    pub(super) fn write(mut self, output: &mut Vec<u8>) {
        let whole = Block { start: [0; AXES], sides: self.dims };
        self.each(whole, |data, index, _| {
            if let Some(value) = data.get(index) {
                value.write(output);
            }
        });
    }
}

/// Lorenzo's prediction: a sum of elements before this one, each so far back, times a factor.
#[derive(Debug)]
pub(super) struct Lorenzo(Vec<(usize, i8)>);

impl Lorenzo {
    /// With `layers` 1 or 2, along axes whose elements are `steps` apart, in the order in which SZ3 adds up.
    pub(super) fn new(steps: &[usize], layers: usize) -> Self {
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

    /// The prediction for the element at `index`.
    #[inline]
    pub(super) fn predict<T: Value>(&self, data: &[T], index: usize) -> T {
        let value = |back: usize| data.get(index.wrapping_sub(back)).copied().unwrap_or_default();
        let mut terms = self.0.iter();
        let first = terms.next().map_or(T::default(), |(back, factor)| value(*back).times(*factor));
        terms.fold(first, |sum, (back, factor)| sum.plus(value(*back), *factor))
    }
}
