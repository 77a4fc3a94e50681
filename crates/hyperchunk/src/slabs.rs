//! Cutting a dataset into slabs that follow each other in row-major order.

use crate::Dataset;
use hyperchunk_format::model::Dataspace;
use hyperchunk_format::select::{Axis, Choice};

/// Selections that together are the whole dataset, in row-major order, each of about `bytes` bytes at most (but of one
/// element at least). They are cut between chunks where that is possible.
pub fn slabs(dataset: &Dataset, bytes: u64) -> impl Iterator<Item = Choice> + use<> {
    let dims = match dataset.dataspace() {
        Dataspace::Null => vec![0],
        _ => dataset.dims().to_vec(),
    };
    let chunk = dataset.chunked().map_or_else(|| vec![1; dims.len()], |chunked| chunked.dims.clone());
    cut(dims, &chunk, (bytes / dataset.datatype().size.max(1)).max(1))
}

/// As [`slabs`], of at most `budget` elements.
fn cut(dims: Vec<u64>, chunk: &[u64], budget: u64) -> impl Iterator<Item = Choice> + use<> {
    // The first axis of which a whole step fits: those before it are walked one by one, those after it are whole.
    let mut inner = 1_u64;
    let mut axis = 0;
    let mut step = 1;
    for (at, extent) in dims.iter().enumerate().rev().filter(|_| !dims.contains(&0)) {
        axis = at;
        step = budget / inner;
        match inner.checked_mul(*extent) {
            Some(all) if all <= budget => inner = all,
            _ => break,
        }
        step = *extent;
    }
    let whole = step.max(1);
    let along = chunk.get(axis).copied().unwrap_or(1).max(1);
    let step = if whole > along { whole / along * along } else { whole };
    let mut at = if dims.contains(&0) { None } else { Some(vec![0_u64; dims.len().min(axis + 1)]) };
    std::iter::from_fn(move || {
        let start = at.take()?;
        if dims.is_empty() {
            return Some(Choice::All);
        }
        let axes = dims.iter().enumerate().map(|(number, extent)| match start.get(number) {
            Some(first) if number < axis => Axis::Range { start: *first, stride: 1, count: 1, block: 1 },
            Some(first) => {
                Axis::Range { start: *first, stride: 1, count: step.min(extent - first), block: 1 }
            }
            None => Axis::Range { start: 0, stride: 1, count: *extent, block: 1 },
        });
        let choice = Choice::Axes(axes.collect());
        let mut next = start;
        for number in (0..=axis).rev() {
            next[number] = next[number].saturating_add(if number == axis { step } else { 1 });
            if next[number] < dims[number] {
                at = Some(next);
                break;
            }
            next[number] = 0;
        }
        Some(choice)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(dims: &[u64], chunk: &[u64], budget: u64, expected: usize) {
        let total: u64 = dims.iter().product();
        let mut sum = 0;
        let mut slabs = 0;
        for choice in cut(dims.to_vec(), chunk, budget) {
            let count = choice.count(dims).unwrap();
            assert!(count <= budget, "{choice:?}");
            sum += count;
            slabs += 1;
        }
        assert_eq!((sum, slabs), (total, expected), "{dims:?} {chunk:?} {budget}");
    }

    #[test]
    fn all_elements_once() {
        check(&[], &[], 10, 1);
        check(&[0, 5], &[1, 1], 10, 0);
        check(&[100], &[7], 30, 4);
        check(&[10, 10], &[1, 1], 30, 4);
        check(&[10, 10], &[2, 5], 40, 3);
        check(&[3, 4, 1000], &[1, 1, 100], 450, 36);
        check(&[3, 4, 5], &[1, 1, 1], 1000, 1);
    }
}
