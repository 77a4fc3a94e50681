//! Order of a layout's chunks in their file.

use super::boxes::Grid;
use hyperchunk::{Error, Result};

/// Maximum number of chunks that are sorted along a curve.
const MAX_SORTED_CHUNKS: u64 = 1 << 27;

/// Order of the chunks in the file. If no chunk shape is requested, chunks are longest along the
/// dimensions that change fastest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// The last dimension changes fastest.
    Row,
    /// The first dimension changes fastest.
    Column,
    /// Dimensions, the slowest first.
    Axes(Vec<usize>),
    /// Along Hilbert's curve: neighbours in all dimensions are close in the file.
    Hilbert,
}

impl Order {
    /// Returns the order of `rank` dimensions, the slowest first; `None` for a curve.
    ///
    /// # Errors
    /// Invalid if the axes are not all of the dataset's, each once.
    pub(super) fn axes(&self, rank: usize) -> Result<Option<Vec<usize>>> {
        Ok(match self {
            Self::Row => Some((0..rank).collect()),
            Self::Column => Some((0..rank).rev().collect()),
            Self::Hilbert => None,
            Self::Axes(axes) => {
                let mut sorted = axes.clone();
                sorted.sort_unstable();
                if sorted.iter().copied().ne(0..rank) {
                    let message = format!("the order {axes:?} must name each of {rank} dimensions once");
                    return Err(Error::invalid(message));
                }
                Some(axes.clone())
            }
        })
    }
}

/// Position of each chunk in the file.
#[derive(Debug, Clone)]
pub(super) enum Slots {
    /// Dimensions, the slowest first.
    Axes(Vec<usize>),
    /// Positions by the chunk's number in row-major order.
    Sorted(Vec<u64>),
}

impl Slots {
    pub(super) fn new(order: &Order, grid: &Grid) -> Result<Self> {
        if let Some(axes) = order.axes(grid.counts().len())? {
            return Ok(Self::Axes(axes));
        }
        let wide: Vec<usize> =
            grid.counts().iter().enumerate().filter(|(_, count)| **count > 1).map(|(axis, _)| axis).collect();
        let bits = grid.counts().iter().map(|count| u64::BITS - (count.max(&1) - 1).leading_zeros()).max();
        let bits = bits.unwrap_or(0).max(1);
        if wide.len() * bits as usize > 128 || grid.len() > MAX_SORTED_CHUNKS {
            let message = format!(
                "cannot sort {} chunks in {} dimensions along a Hilbert curve: too many",
                grid.len(),
                wide.len()
            );
            return Err(Error::unsupported(message));
        }
        let mut keys: Vec<(u128, u64)> = (0..grid.len())
            .map(|number| {
                let place = grid.place(number);
                let place: Vec<u64> = wide.iter().map(|axis| place[*axis]).collect();
                (hilbert(place, bits), number)
            })
            .collect();
        keys.sort_unstable();
        let mut slots = vec![0; keys.len()];
        for (slot, (_, number)) in (0..).zip(keys) {
            slots[usize::try_from(number).unwrap_or(0)] = slot;
        }
        Ok(Self::Sorted(slots))
    }

    /// Returns the position of a chunk.
    pub(super) fn slot(&self, grid: &Grid, place: &[u64]) -> u64 {
        match self {
            Self::Axes(axes) => axes.iter().fold(0, |slot, axis| slot * grid.counts()[*axis] + place[*axis]),
            Self::Sorted(slots) => usize::try_from(grid.number(place))
                .ok()
                .and_then(|number| slots.get(number))
                .copied()
                .unwrap_or(0),
        }
    }

    /// Returns the memory in bytes that computing positions takes.
    pub(super) fn bytes(order: &Order, chunks: u64) -> u64 {
        // A key and a number while they are sorted; then a position.
        if *order == Order::Hilbert { chunks.saturating_mul(40) } else { 0 }
    }
}

/// Returns the distance of a point along Hilbert's curve, in a cube of side 2^bits.
///
/// Source: J. Skilling, *Programming the Hilbert curve*, AIP Conference Proceedings 707 (2004).
fn hilbert(mut place: Vec<u64>, bits: u32) -> u128 {
    let count = place.len();
    if count == 0 {
        return 0;
    }
    for bit in (1..bits).rev() {
        let (high, low) = (1_u64 << bit, (1_u64 << bit) - 1);
        for at in 0..count {
            if place[at] & high != 0 {
                place[0] ^= low;
            } else {
                let swapped = (place[0] ^ place[at]) & low;
                place[0] ^= swapped;
                place[at] ^= swapped;
            }
        }
    }
    for at in 1..count {
        place[at] ^= place[at - 1];
    }
    let last = place[count - 1];
    let flips =
        (1..bits).rev().filter(|bit| last >> bit & 1 == 1).fold(0, |flips, bit| flips ^ ((1_u64 << bit) - 1));
    place.iter_mut().for_each(|index| *index ^= flips);
    (0..bits)
        .rev()
        .fold(0, |key, bit| place.iter().fold(key, |key, index| key << 1 | u128::from(index >> bit & 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(order: &Order, counts: &[u64]) -> Vec<Vec<u64>> {
        let grid = Grid::new(counts, &vec![1; counts.len()]).unwrap();
        let slots = Slots::new(order, &grid).unwrap();
        let mut places = vec![None; usize::try_from(grid.len()).unwrap()];
        for number in 0..grid.len() {
            let place = grid.place(number);
            let slot = usize::try_from(slots.slot(&grid, &place)).unwrap();
            assert!(places[slot].replace(place).is_none(), "{order:?} {counts:?}");
        }
        places.into_iter().flatten().collect()
    }

    #[test]
    fn each_chunk_has_its_place() {
        assert_eq!(check(&Order::Row, &[2, 2]), [[0, 0], [0, 1], [1, 0], [1, 1]]);
        assert_eq!(check(&Order::Column, &[2, 2]), [[0, 0], [1, 0], [0, 1], [1, 1]]);
        let two: Vec<Vec<u64>> = check(&Order::Axes(vec![1, 2, 0]), &[2, 1, 3]);
        assert_eq!(two[..3], [[0, 0, 0], [1, 0, 0], [0, 0, 1]]);
        for counts in [&[5][..], &[3, 7], &[1, 9, 2], &[4, 3, 2, 5], &[1, 1]] {
            check(&Order::Hilbert, counts);
        }
        assert!(Order::Axes(vec![0, 0]).axes(2).is_err() && Order::Axes(vec![0]).axes(2).is_err());
    }

    #[test]
    fn the_curve_goes_from_neighbour_to_neighbour() {
        for (counts, bits) in [(&[8, 8][..], 3), (&[4, 4, 4], 2), (&[2, 2, 2, 2], 1)] {
            let places = check(&Order::Hilbert, counts);
            assert_eq!(hilbert(places[1].clone(), bits), 1);
            for pair in places.windows(2) {
                let distance: u64 =
                    pair[0].iter().zip(&pair[1]).map(|(one, other)| one.abs_diff(*other)).sum();
                assert_eq!(distance, 1, "{counts:?} {pair:?}");
            }
        }
    }
}
