//! Single elements, sorted by chunk.

use super::program::Run;
use std::ops::Range;

/// Points sorted by chunk.
#[derive(Debug)]
pub(super) struct Points {
    rank: usize,
    /// Element in the chunk and position in the result, sorted by chunk, then by position.
    entries: Vec<(u64, u64)>,
    /// End of the entries of each chunk.
    ends: Vec<usize>,
    /// Coordinates of each chunk in the grid of chunks.
    chunks: Vec<u64>,
}

impl Points {
    /// Sorts points by chunk. Requires `coordinates` within `dims`, and chunks with elements.
    pub(super) fn new(coordinates: &[u64], dims: &[u64], chunk: &[u64]) -> Self {
        let rank = dims.len();
        let strides = super::strides(chunk);
        let grid: Vec<u64> =
            dims.iter().zip(chunk).map(|(dim, chunk)| dim.div_ceil((*chunk).max(1))).collect();
        let mut points = Self { rank, entries: Vec::new(), ends: Vec::new(), chunks: Vec::new() };
        let split = |index: u64, chunk: u64| {
            let number = index.checked_div(chunk).unwrap_or(0);
            (number, index.wrapping_sub(number.wrapping_mul(chunk)))
        };
        let all = || (0_u64..).zip(coordinates.chunks_exact(rank.max(1)));
        if super::selection::product(&grid).is_some() {
            // Key of chunk, position and element: the common case, in which the number of a chunk fits 64
            // bits.
            let number = |(place, point): (u64, &[u64])| {
                let mut key = (0_u64, place, 0_u64);
                for (((index, chunk), grid), stride) in point.iter().zip(chunk).zip(&grid).zip(&strides) {
                    let (number, rest) = split(*index, *chunk);
                    key.0 = key.0.wrapping_mul(*grid).wrapping_add(number);
                    key.2 = key.2.wrapping_add(rest.wrapping_mul(*stride));
                }
                key
            };
            let mut keys: Vec<(u64, u64, u64)> = all().map(number).collect();
            if !keys.is_sorted_by_key(|(chunk, _, _)| *chunk) {
                keys.sort_unstable_by_key(|(chunk, place, _)| (*chunk, *place));
            }
            for group in keys.chunk_by(|(a, _, _), (b, _, _)| a == b) {
                points.entries.extend(group.iter().map(|(_, place, element)| (*element, *place)));
                points.ends.push(points.entries.len());
                let mut number = group.first().map_or(0, |(chunk, _, _)| *chunk);
                let start = points.chunks.len();
                points.chunks.resize(start.saturating_add(rank), 0);
                let scaled = points.chunks.get_mut(start..).unwrap_or_default();
                for (scaled, grid) in scaled.iter_mut().zip(&grid).rev() {
                    *scaled = number.checked_rem(*grid).unwrap_or(0);
                    number = number.checked_div(*grid).unwrap_or(0);
                }
            }
        } else {
            let scaled = |point: &[u64]| -> Vec<u64> {
                point.iter().zip(chunk).map(|(index, chunk)| split(*index, *chunk).0).collect()
            };
            let mut keys: Vec<(Vec<u64>, u64, &[u64])> =
                all().map(|(place, point)| (scaled(point), place, point)).collect();
            keys.sort();
            for group in keys.chunk_by(|(a, _, _), (b, _, _)| a == b) {
                points.entries.extend(group.iter().map(|(_, place, point)| {
                    let parts = point.iter().zip(chunk).zip(&strides);
                    let element = parts.fold(0_u64, |sum, ((index, chunk), stride)| {
                        sum.wrapping_add(split(*index, *chunk).1.wrapping_mul(*stride))
                    });
                    (element, *place)
                }));
                points.ends.push(points.entries.len());
                points.chunks.extend(group.iter().take(1).flat_map(|(scaled, _, _)| scaled.iter().copied()));
            }
        }
        points
    }

    /// Returns the coordinates and the entries of the `at`th chunk.
    pub(super) fn group(&self, at: usize) -> Option<(&[u64], Range<usize>)> {
        let end = *self.ends.get(at)?;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let first = at.checked_mul(self.rank)?;
        let scaled = self.chunks.get(first..first.checked_add(self.rank)?)?;
        Some((scaled, start..end))
    }

    /// Calls `each` for every run in a range of entries.
    pub(super) fn for_each<E>(
        &self,
        entries: Range<usize>,
        mut each: impl FnMut(Run) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut entries = self.entries.get(entries).unwrap_or_default().iter().copied();
        let Some((mut source, mut target)) = entries.next() else { return Ok(()) };
        let mut count = 1_u64;
        for (element, place) in entries {
            if source.wrapping_add(count) == element && target.wrapping_add(count) == place {
                count = count.wrapping_add(1);
            } else {
                each(Run::single(source, target, count))?;
                (source, target, count) = (element, place, 1);
            }
        }
        each(Run::single(source, target, count))
    }
}
