//! Sets of integers that SPECK splits (runs, rectangles and boxes), and the initial division of an array.

use super::Dims;
use super::speck::Ring;
use super::wavelet::{dyadic_levels, levels, low_length};

/// Set of integers.
pub(super) trait Set: Copy {
    /// Data needed to number the integers.
    type Frame;
    /// Empty set.
    const EMPTY: Self;

    fn is_empty(&self) -> bool;

    /// Returns the number of the integer, if the set has only one.
    fn single(&self, frame: &Self::Frame) -> Option<usize>;

    /// Splits the set into its non-empty parts, in coding order. Also returns their level.
    fn split(&self, level: usize) -> (usize, Subsets<Self>);
}

/// Parts of a set.
#[derive(Clone, Copy)]
pub(super) struct Subsets<S> {
    all: [S; 8],
    count: usize,
}

impl<S: Set> Subsets<S> {
    /// Collects the non-empty parts.
    fn new(parts: impl IntoIterator<Item = S>) -> Self {
        let mut all = [S::EMPTY; 8];
        let mut count: usize = 0;
        for (to, part) in all.iter_mut().zip(parts.into_iter().filter(|part| !part.is_empty())) {
            *to = part;
            count = count.saturating_add(1);
        }
        Self { all, count }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &S> {
        self.all.iter().take(self.count)
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }
}

/// Narrows a side; the sides of chunks have 32 bits.
fn narrow(side: usize) -> u32 {
    u32::try_from(side).unwrap_or(u32::MAX)
}

/// Returns the number of halvings that reduce a side to one element.
fn depth(length: usize) -> usize {
    length.checked_next_power_of_two().map_or(usize::BITS, usize::trailing_zeros) as usize
}

/// Box of up to `N` axes, fastest first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<const N: usize> {
    start: [u32; N],
    length: [u32; N],
}

impl<const N: usize> Block<N> {
    /// Returns one part after halving `axes` (bits): the upper half along the axes in `which`.
    fn part(&self, axes: u8, which: u8) -> Self {
        let mut part = *self;
        let sides = part.start.iter_mut().zip(part.length.iter_mut());
        for ((start, length), axis) in sides.zip([1, 2, 4]) {
            let low = length.div_ceil(2);
            if axes & which & axis != 0 {
                *start = start.wrapping_add(low);
                *length /= 2;
            } else if axes & axis != 0 {
                *length = low;
            }
        }
        part
    }

    /// Returns the number of `axes` that a split halves.
    fn halved(&self, axes: u8) -> usize {
        self.length.iter().zip([1, 2, 4]).filter(|(length, axis)| **length > 1 && axes & axis != 0).count()
    }
}

impl<const N: usize> Set for Block<N> {
    /// Stride of each axis.
    type Frame = [usize; N];
    const EMPTY: Self = Self { start: [0; N], length: [0; N] };

    fn is_empty(&self) -> bool {
        self.length.contains(&0)
    }

    fn single(&self, steps: &[usize; N]) -> Option<usize> {
        let place = self.start.iter().zip(steps);
        (self.length == [1; N]).then(|| {
            place.fold(0, |sum: usize, (at, step)| sum.saturating_add(step.saturating_mul(*at as usize)))
        })
    }

    fn split(&self, level: usize) -> (usize, Subsets<Self>) {
        match N {
            1 => (level.saturating_add(1), Subsets::new([0, 1].map(|which| self.part(1, which)))),
            // Planes start at the far corner and descend one level, regardless of the number of halved axes.
            2 => (level.saturating_add(1), Subsets::new([3, 2, 1, 0].map(|which| self.part(3, which)))),
            _ => {
                (level.saturating_add(self.halved(7)), Subsets::new((0..8).map(|which| self.part(7, which))))
            }
        }
    }
}

/// Returns the two halves of a run of `count` integers, by level.
pub(super) fn run_sets(count: u32) -> Vec<Vec<Block<1>>> {
    let mut sets = vec![Vec::new(); depth(count as usize).saturating_add(2)];
    let whole = Block { start: [0], length: [count] };
    if let Some(first) = sets.get_mut(1) {
        first.extend([whole.part(1, 0), whole.part(1, 1)]);
    }
    sets
}

/// Returns a plane's coarsest part, and the rings around it.
pub(super) fn plane_sets(dims: [usize; 2]) -> (Vec<Vec<Block<2>>>, Vec<Ring<Block<2>>>) {
    let low = |level| dims.map(|side| narrow(low_length(side, level)));
    let [x, y] = dims;
    let deepest = levels(x.min(y));
    let mut sets = vec![Vec::new(); depth(x.max(y)).saturating_add(2)];
    if let Some(root) = sets.get_mut(deepest as usize) {
        root.push(Block { start: [0, 0], length: low(deepest) });
    }
    let ring = |level: u32| {
        let outer = Block { start: [0, 0], length: low(level.wrapping_sub(1)) };
        (level as usize, Subsets::new([3, 1, 2].map(|which| outer.part(3, which))))
    };
    (sets, (1..=deepest).map(ring).collect())
}

/// Returns the boxes left by the wavelet transform of a volume, by level.
pub(super) fn volume_sets(dims: Dims) -> Vec<Vec<Block<3>>> {
    let depths = dims.iter().fold(4_usize, |sum, side| sum.saturating_add(depth(*side)));
    let mut sets = vec![Vec::new(); depths];
    // SPERR counts in 16 bits.
    let mut rest = Block { start: [0; 3], length: dims.map(|side| narrow(side) & 0xffff) };
    let mut level: usize = 0;
    let [x, y, z] = dims;
    let [plane, depth] = match dyadic_levels(dims) {
        Some(both) => [both, both],
        None => [levels(x.min(y)), levels(z)],
    };
    for number in 0..plane.max(depth) {
        let (axes, parts): (u8, &[u8]) = match (number < plane, number < depth) {
            (true, true) => (7, &[1, 2, 3, 4, 5, 6, 7]),
            (true, false) => (3, &[1, 2, 3]),
            _ => (4, &[4]),
        };
        level = level.saturating_add(rest.halved(axes));
        if let Some(sets) = sets.get_mut(level) {
            sets.extend(parts.iter().map(|which| rest.part(axes, *which)));
        }
        rest = rest.part(axes, 0);
    }
    if let Some(sets) = sets.get_mut(level) {
        sets.insert(0, rest);
    }
    sets
}
