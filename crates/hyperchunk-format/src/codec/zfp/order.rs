//! Order of a block's coefficients: from low to high frequencies.

use std::sync::LazyLock;

/// Orders for blocks of one to four dimensions.
static ORDERS: LazyLock<[Vec<u8>; 4]> = LazyLock::new(|| [1, 2, 3, 4].map(sorted));

/// Returns the position of each coefficient in a block with this number of dimensions, the first dimension
/// being the fastest.
pub(super) fn order(dimensions: usize) -> &'static [u8] {
    ORDERS.get(dimensions.wrapping_sub(1)).map(Vec::as_slice).unwrap_or_default()
}

fn sorted(dimensions: usize) -> Vec<u8> {
    let size = (0..dimensions).fold(1_usize, |size, _| size.saturating_mul(4));
    let mut order: Vec<u8> = (0..=u8::MAX).take(size).collect();
    order.sort_by_cached_key(|place| key(&coordinates(*place, dimensions)));
    order
}

/// Returns the base-4 digits of a position, fastest dimension first.
fn coordinates(place: u8, dimensions: usize) -> Vec<u8> {
    [place & 3, place >> 2 & 3, place >> 4 & 3, place >> 6].into_iter().take(dimensions).collect()
}

/// Returns the sort key: the sum of the frequencies, the sum of their squares, and the largest. Permutations
/// are ordered by the cyclic distances of the frequencies that occur once, larger ones first; if two occur
/// twice, pairs of positions have a fixed order.
fn key(frequencies: &[u8]) -> (u32, u32, u8, Vec<usize>) {
    let sum = frequencies.iter().map(|frequency| u32::from(*frequency)).sum();
    let squares = frequencies.iter().map(|frequency| u32::from(*frequency).pow(2)).sum();
    let largest = frequencies.iter().copied().max().unwrap_or(0);
    let places = |wanted: u8| {
        frequencies.iter().enumerate().filter(move |(_, found)| **found == wanted).map(|at| at.0)
    };
    let mut singles = (0..=3).rev().filter(|frequency| places(*frequency).count() == 1).peekable();
    let rest = if singles.peek().is_some() {
        let mut before = 0;
        let around = |place: usize| {
            let around = place.saturating_add(frequencies.len()).saturating_sub(before);
            before = place;
            around.checked_rem(frequencies.len()).unwrap_or(0)
        };
        singles.flat_map(places).map(around).collect()
    } else {
        match places(largest).collect::<Vec<_>>()[..] {
            [0, 1] => vec![0],
            [2, 3] => vec![1],
            [0, 2] => vec![2],
            [1, 3] => vec![3],
            [0, 3] => vec![4],
            _ => vec![5],
        }
    };
    (sum, squares, largest, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_once_and_known_ones() {
        for dimensions in 1..=4 {
            let mut order = order(dimensions).to_vec();
            order.sort_unstable();
            assert!(order.iter().map(|place| usize::from(*place)).eq(0..1 << (2 * dimensions)));
        }
        assert_eq!(order(1), [0, 1, 2, 3]);
        assert_eq!(order(2), [0, 1, 4, 5, 2, 8, 6, 9, 3, 12, 10, 7, 13, 11, 14, 15]);
        assert_eq!(order(3)[..10], [0, 1, 4, 16, 20, 17, 5, 2, 8, 32]);
        assert_eq!(order(4)[..11], [0, 1, 4, 16, 64, 5, 80, 17, 68, 65, 20]);
    }
}
