//! Division of a dataset into slabs that follow each other in row-major order.

use crate::Dataset;
pub use crate::read::Stretch;
use hyperchunk_format::model::Dataspace;
use hyperchunk_format::select::{Axis, Selection};

/// Returns selections that together are the whole dataset, in row-major order, each of at most about
/// `bytes` bytes (but at least one element). They are cut between chunks if possible.
pub fn slabs(dataset: &Dataset, bytes: u64) -> impl Iterator<Item = Selection> + use<> {
    let dims = match dataset.dataspace() {
        Dataspace::Null => vec![0],
        _ => dataset.dims().to_vec(),
    };
    let axes = dims.iter().map(|extent| Steps { start: 0, step: 1, count: *extent }).collect();
    split_into_slabs(dataset, axes, bytes)
}

/// Every `step`th index from `start` on, `count` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// The first index.
    pub start: u64,
    /// The distance between indices; not 0.
    pub step: u64,
    /// The number of indices.
    pub count: u64,
}

/// Divides a part of the dataset, given by the indices on each axis, as [`slabs`] does.
pub fn split_into_slabs(
    dataset: &Dataset,
    axes: Vec<Steps>,
    bytes: u64,
) -> impl Iterator<Item = Selection> + use<> {
    let chunk = dataset.chunked().map_or_else(|| vec![1; axes.len()], |chunked| chunked.dims.clone());
    cut(axes, &chunk, (bytes / dataset.datatype().size.max(1)).max(1))
}

/// Divides as [`split_into_slabs`] does, into slabs of at most `budget` elements.
fn cut(axes: Vec<Steps>, chunk: &[u64], budget: u64) -> impl Iterator<Item = Selection> + use<> {
    let empty = axes.iter().any(|axis| axis.count == 0);
    // The axis along which the part is cut: slabs have one index of each axis before it, and all indices of
    // each axis after it.
    let mut inner = 1_u64;
    let mut axis = 0;
    let mut step = 1;
    for (at, steps) in axes.iter().enumerate().rev().filter(|_| !empty) {
        axis = at;
        step = budget / inner;
        match inner.checked_mul(steps.count) {
            Some(all) if all <= budget => inner = all,
            _ => break,
        }
        step = steps.count;
    }
    let whole = step.max(1);
    let at_once = axes.get(axis).is_none_or(|steps| whole >= steps.count);
    // Number of indices of the axis in one chunk, and in the first, which may be cut.
    let (along, first) = match axes.get(axis).zip(chunk.get(axis)) {
        Some((steps, chunk)) => {
            let (chunk, step) = ((*chunk).max(1), steps.step.max(1));
            (chunk / step, (chunk - steps.start % chunk).div_ceil(step))
        }
        None => (1, 1),
    };
    let along = along.max(1);
    let step = if whole >= along && !at_once { whole / along * along } else { whole };
    // The first slab ends at the end of a chunk, if slabs have whole chunks.
    let head = if whole >= along && !at_once && first < along {
        first.max(1).saturating_add(step - along)
    } else {
        step
    };
    let mut at = if empty { None } else { Some(vec![0_u64; axes.len().min(axis + 1)]) };
    std::iter::from_fn(move || {
        let start = at.take()?;
        if axes.is_empty() {
            return Some(Selection::All);
        }
        let taken = match start.get(axis) {
            Some(0) => head,
            _ => step,
        };
        let parts = axes.iter().enumerate().map(|(number, steps)| {
            let (from, count) = match start.get(number) {
                Some(from) if number < axis => (*from, 1),
                Some(from) => (*from, taken.min(steps.count - from)),
                None => (0, steps.count),
            };
            Axis::steps(steps.start + from * steps.step, steps.step, count)
        });
        let selection = Selection::Axes(parts.collect());
        let mut next = start;
        for number in (0..=axis).rev() {
            next[number] = next[number].saturating_add(if number == axis { taken } else { 1 });
            if next[number] < axes[number].count {
                at = Some(next);
                break;
            }
            next[number] = 0;
        }
        Some(selection)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(dims: &[u64], chunk: &[u64], budget: u64, expected: usize) {
        let total: u64 = dims.iter().product();
        let mut sum = 0;
        let mut slabs = 0;
        let axes = dims.iter().map(|count| Steps { start: 0, step: 1, count: *count }).collect();
        for selection in cut(axes, chunk, budget) {
            let count = selection.count(dims).unwrap();
            assert!(count <= budget, "{selection:?}");
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

    #[test]
    fn parts_of_a_dataset() {
        let check = |axes: &[(u64, u64, u64)], chunk: &[u64], budget, expected: &[&[u64]]| {
            let axes =
                axes.iter().map(|(start, step, count)| Steps { start: *start, step: *step, count: *count });
            let axes: Vec<Steps> = axes.collect();
            let mut found = Vec::new();
            for selection in cut(axes.clone(), chunk, budget) {
                let Selection::Axes(parts) = selection else { panic!("{selection:?}") };
                let lists = parts.iter().map(|axis| match *axis {
                    Axis::Range { start, stride, count, block: 1 } => {
                        (0..count).map(|n| start + n * stride).collect()
                    }
                    ref other => panic!("{other:?}"),
                });
                let lists: Vec<Vec<u64>> = lists.collect();
                assert!(lists.iter().map(Vec::len).product::<usize>() as u64 <= budget);
                found.push(lists[0].clone());
            }
            assert_eq!(found, expected, "{axes:?}");
        };
        check(&[(3, 1, 7)], &[5], 5, &[&[3, 4], &[5, 6, 7, 8, 9]]);
        check(&[(3, 1, 7)], &[5], 7, &[&[3, 4, 5, 6, 7, 8, 9]]);
        check(&[(3, 2, 6)], &[5], 2, &[&[3], &[5, 7], &[9, 11], &[13]]);
        check(&[(1, 4, 3)], &[2], 2, &[&[1, 5], &[9]]);
        check(&[(1, 1, 2), (0, 1, 3)], &[1, 1], 3, &[&[1], &[2]]);
        check(&[(1, 1, 0)], &[2], 2, &[]);
    }
}
