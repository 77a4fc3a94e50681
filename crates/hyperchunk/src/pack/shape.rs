//! Choice of chunk shapes, and division of the chunk grid into boxes that are copied at a time.

use hyperchunk_format::select::{Axis, Selection};
use std::collections::BTreeSet;

/// Maximum size in bytes of a chosen chunk. It fits into the default chunk cache of all releases of libhdf5.
const TARGET_CHUNK_BYTES: u64 = 1 << 20;

/// Returns a chunk shape for a dataset of extent `dims` with elements of `size` bytes: halves the longest
/// axis until the chunk has at most [`TARGET_CHUNK_BYTES`].
pub fn good_chunk(dims: &[u64], size: u64) -> Vec<u64> {
    // An axis of length 0 is expected to grow.
    let mut chunk: Vec<u64> = dims.iter().map(|dim| if *dim == 0 { 1024 } else { *dim }).collect();
    let most = (TARGET_CHUNK_BYTES / size.max(1)).max(1);
    while chunk.iter().fold(1, |product: u64, dim| product.saturating_mul(*dim)) > most {
        // The longest axis; of several, the slowest varying.
        let longest = chunk.iter_mut().rev().max_by_key(|dim| **dim);
        match longest {
            Some(dim) if *dim > 1 => *dim = dim.div_ceil(2),
            _ => break,
        }
    }
    chunk
}

/// A grid of chunks, divided into boxes of whole chunks. The chunks of a box are consecutive in row-major
/// order.
#[derive(Debug)]
pub(super) struct ChunkGroups {
    dims: Vec<u64>,
    chunk: Vec<u64>,
    grid: Vec<u64>,
    /// Axis along which boxes are divided: along the axes before it they have one chunk, along those after it
    /// all.
    axis: usize,
    /// Number of chunks of a box along `axis`.
    step: u64,
}

impl ChunkGroups {
    /// Divides the grid into boxes of at most `budget` chunks, and at least one.
    pub(super) fn new(dims: &[u64], chunk: &[u64], budget: u64) -> Self {
        let grid: Vec<u64> =
            dims.iter().zip(chunk).map(|(dim, chunk)| dim.div_ceil((*chunk).max(1))).collect();
        let (mut axis, mut step, mut inner) = (0, 1, 1_u64);
        for (at, count) in grid.iter().enumerate().rev() {
            axis = at;
            step = (budget / inner).max(1).min((*count).max(1));
            match inner.checked_mul(*count) {
                Some(all) if all <= budget => inner = all.max(1),
                _ => break,
            }
        }
        Self { dims: dims.to_vec(), chunk: chunk.to_vec(), grid, axis, step }
    }

    /// Returns the number of boxes along each axis up to `axis`.
    fn counts(&self) -> Vec<u64> {
        let walked = self.grid.iter().take(self.axis).copied();
        walked.chain(self.grid.get(self.axis).map(|count| count.div_ceil(self.step))).collect()
    }

    /// Iterates over the keys of all boxes.
    pub(super) fn all(&self) -> impl Iterator<Item = Vec<u64>> + use<> {
        let counts = self.counts();
        let mut next = (!self.grid.contains(&0)).then(|| vec![0; counts.len()]);
        std::iter::from_fn(move || {
            let key = next.take()?;
            let mut after = key.clone();
            for (axis, count) in counts.iter().enumerate().rev() {
                after[axis] += 1;
                if after[axis] < *count {
                    next = Some(after);
                    break;
                }
                after[axis] = 0;
            }
            Some(key)
        })
    }

    /// Returns the keys of the boxes that overlap the chunks `scaled` of another grid, whose chunks have
    /// extent `other`.
    pub(super) fn touched<'s>(
        &self,
        other: &[u64],
        scaled: impl Iterator<Item = &'s [u64]>,
    ) -> BTreeSet<Vec<u64>> {
        let mut touched = BTreeSet::new();
        for chunk in scaled {
            // The first and last key along each axis up to `axis`.
            let mut ranges = Vec::with_capacity(self.axis + 1);
            for at in 0..=self.axis.min(self.grid.len().saturating_sub(1)) {
                let part = |values: &[u64]| values.get(at).copied().unwrap_or(1).max(1);
                let first = chunk.get(at).copied().unwrap_or(0).saturating_mul(part(other));
                let end = first.saturating_add(part(other)).min(part(&self.dims));
                if first >= end {
                    ranges.clear();
                    break;
                }
                let step = if at == self.axis { self.step } else { 1 };
                let one = part(&self.chunk).saturating_mul(step);
                ranges.push((first / one, (end - 1) / one));
            }
            if ranges.is_empty() {
                continue;
            }
            let mut key: Vec<u64> = ranges.iter().map(|(first, _)| *first).collect();
            'keys: loop {
                touched.insert(key.clone());
                for (number, (first, last)) in key.iter_mut().zip(&ranges).rev() {
                    if *number < *last {
                        *number += 1;
                        continue 'keys;
                    }
                    *number = *first;
                }
                break;
            }
        }
        touched
    }

    /// Returns the selection of a box's elements.
    pub(super) fn selection(&self, key: &[u64]) -> Selection {
        let axes = self.dims.iter().zip(&self.chunk).enumerate().map(|(at, (dim, chunk))| {
            let step = if at == self.axis { self.step } else { 1 };
            match key.get(at) {
                Some(number) => {
                    let one = chunk.saturating_mul(step);
                    let start = number.saturating_mul(one).min(*dim);
                    Axis::range(start..start.saturating_add(one).min(*dim))
                }
                None => Axis::range(0..*dim),
            }
        });
        Selection::Axes(axes.collect())
    }

    /// Returns the scaled coordinates of a box's chunks.
    pub(super) fn places(&self, key: &[u64]) -> Vec<Vec<u64>> {
        let ranges: Vec<_> = self
            .grid
            .iter()
            .enumerate()
            .map(|(at, count)| {
                let step = if at == self.axis { self.step } else { 1 };
                match key.get(at) {
                    Some(number) => number * step..((number + 1) * step).min(*count),
                    None => 0..*count,
                }
            })
            .collect();
        let mut chunks = vec![Vec::new()];
        for range in ranges {
            chunks = chunks
                .into_iter()
                .flat_map(|start| range.clone().map(move |number| [&start[..], &[number]].concat()))
                .collect();
        }
        chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_chunks() {
        let check = |dims: &[u64], size, expected: &[u64]| assert_eq!(good_chunk(dims, size), expected);
        check(&[100, 100], 4, &[100, 100]);
        check(&[1 << 20], 4, &[1 << 18]);
        check(&[1000, 1000, 1000], 4, &[63, 63, 63]);
        check(&[0, 100], 8, &[1024, 100]);
        check(&[5], 10 << 20, &[1]);
        check(&[u64::MAX, 2], 1, &[1 << 19, 2]);
    }

    fn check(dims: &[u64], chunk: &[u64], budget: u64, boxes: usize) {
        let grid = ChunkGroups::new(dims, chunk, budget);
        let keys: Vec<_> = grid.all().collect();
        assert_eq!(keys.len(), boxes, "{grid:?}");
        let elements: u64 = keys.iter().map(|key| grid.selection(key).count(dims).unwrap()).sum();
        assert_eq!(elements, dims.iter().product::<u64>());
        let mut places: Vec<_> = keys.iter().flat_map(|key| grid.places(key)).collect();
        assert!(keys.iter().all(|key| grid.places(key).len() as u64 <= budget.max(1)));
        let count = places.len();
        places.sort();
        places.dedup();
        let all: u64 = dims.iter().zip(chunk).map(|(dim, chunk)| dim.div_ceil(*chunk)).product();
        assert_eq!((places.len(), count as u64), (count, all));
        // All chunks of the same grid touch all boxes.
        let same = grid.touched(chunk, places.iter().map(Vec::as_slice));
        assert!(same.into_iter().eq(keys.iter().cloned()));
    }

    #[test]
    fn boxes_are_all() {
        check(&[10, 10], &[3, 3], 1, 16);
        check(&[10, 10], &[3, 3], 4, 4);
        check(&[10, 10], &[3, 3], 7, 4);
        check(&[10, 10], &[3, 3], 8, 2);
        check(&[10, 10], &[3, 3], 100, 1);
        check(&[7], &[2], 3, 2);
        check(&[0, 4], &[2, 2], 3, 0);
        check(&[4, 5, 6], &[1, 5, 2], 3, 4);
        check(&[4, 5, 6], &[1, 2, 2], 4, 12);
    }

    #[test]
    fn boxes_that_are_touched() {
        let grid = ChunkGroups::new(&[100, 100], &[10, 10], 10);
        let touched = |other: &[u64], place: &[u64]| {
            grid.touched(other, [place].into_iter()).into_iter().map(|key| key[0]).collect::<Vec<_>>()
        };
        assert_eq!(touched(&[25, 25], &[1, 0]), [2, 3, 4]);
        assert_eq!(touched(&[1, 100], &[55, 0]), [5]);
        assert_eq!(touched(&[100, 100], &[1, 0]), [0; 0]);
    }
}
