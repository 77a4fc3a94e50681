//! Runs of consecutive chunk numbers in a region, for the indexes that number all chunks of the maximum
//! extent: implicit, fixed array, extensible array.

use super::ChunkMap;
use super::region::Region;
use crate::{Error, Result};
use std::ops::Range;

/// Iteration over the numbers of the chunks in a region.
#[derive(Debug)]
pub(super) struct Linear {
    /// Axes of the dataset, the slowest of the numbering first, each with its stride in the numbering.
    axes: Vec<(usize, u64)>,
    /// Region in which the axes that it spans entirely are merged, and the strides of the merged axes.
    region: Region,
    strides: Vec<u64>,
    /// Scratch buffer.
    point: Vec<u64>,
}

impl Linear {
    /// Numbers the chunks in row-major order, with the axis `slowest` moved to the front.
    ///
    /// # Errors
    /// Corrupt if there are more than 2⁶⁴ chunks, or if the region exceeds the maximum extent.
    pub(super) fn new(map: &ChunkMap<'_>, region: &Region, slowest: usize) -> Result<Self> {
        let counts: Vec<u64> = map
            .max
            .iter()
            .zip(&map.chunked.dims)
            .map(|(max, chunk)| max.map_or(u64::MAX, |max| max.div_ceil((*chunk).max(1))))
            .collect();
        let order = (0..counts.len()).filter(|axis| *axis != slowest).rev().chain([slowest]);
        let mut axes = Vec::new();
        let mut joined: Vec<(Range<u64>, u64, u64)> = Vec::new();
        let mut stride = Some(1_u64);
        for axis in order {
            let found = region.ranges().get(axis).zip(counts.get(axis)).zip(stride);
            let ((range, count), step) = found.ok_or_else(|| Error::corrupt("more than 2⁶⁴ chunks"))?;
            if range.end > *count {
                return Err(Error::corrupt("the dataset is larger than its maximum extent"));
            }
            axes.push((axis, step));
            stride = step.checked_mul(*count);
            match joined.last_mut() {
                Some((faster, all, _)) if *faster == (0..*all) => {
                    *faster = range.start.saturating_mul(*all)..range.end.saturating_mul(*all);
                    *all = all.saturating_mul(*count);
                }
                _ => joined.push((range.clone(), *count, step)),
            }
        }
        axes.reverse();
        joined.reverse();
        let strides = joined.iter().map(|(_, _, stride)| *stride).collect();
        let region = Region::new(joined.into_iter().map(|(range, _, _)| range));
        let region = region.ok_or_else(|| Error::corrupt("more than 2⁶⁴ chunks"))?;
        Ok(Self { axes, point: vec![0; region.rank()], region, strides })
    }

    /// Returns the next run of consecutive numbers in the region, at or after `from`.
    pub(super) fn next(&mut self, from: u64) -> Option<Range<u64>> {
        let mut rest = from;
        for (at, stride) in self.point.iter_mut().zip(&self.strides) {
            *at = rest.checked_div(*stride)?;
            rest = rest.checked_rem(*stride)?;
        }
        if !self.region.advance(&mut self.point) {
            return None;
        }
        let start = self
            .point
            .iter()
            .zip(&self.strides)
            .try_fold(0_u64, |start, (at, stride)| start.checked_add(at.checked_mul(*stride)?))?;
        let left = self.region.ranges().last()?.end.checked_sub(*self.point.last()?)?;
        Some(start..start.saturating_add(left))
    }

    /// Returns the coordinates of a chunk in the dataset's grid of chunks.
    pub(super) fn scaled(&self, number: u64) -> Vec<u64> {
        let mut scaled = vec![0; self.axes.len()];
        let mut rest = number;
        for (axis, stride) in &self.axes {
            if let Some(at) = scaled.get_mut(*axis) {
                *at = rest.checked_div(*stride).unwrap_or(0);
            }
            rest = rest.checked_rem(*stride).unwrap_or(0);
        }
        scaled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ChunkIndex, Chunked};

    fn numbers(max: &[u64; 3], region: &Region, slowest: usize) -> Vec<(u64, Vec<u64>)> {
        let index = ChunkIndex::Implicit { address: None };
        let dims = vec![2; 3];
        let chunked = Chunked { dims, element_size: 1, edge_chunks_unfiltered: false, version: 4, index };
        let max = max.map(|count| Some(count * 2 - 1));
        let map = ChunkMap { chunked: &chunked, dims: &[8; 3], max: &max, filtered: false };
        let mut linear = Linear::new(&map, region, slowest).unwrap();
        let mut all = Vec::new();
        let mut from = 0;
        while let Some(run) = linear.next(from) {
            assert!(run.start >= from && !run.is_empty());
            from = run.end;
            all.extend(run.map(|number| (number, linear.scaled(number))));
        }
        all
    }

    #[test]
    fn numbers_are_those_of_the_region() {
        let max = [4, 3, 5];
        for slowest in 0..3 {
            for region in [
                [0..4, 0..3, 0..5],
                [0..2, 0..3, 0..5],
                [1..3, 1..2, 0..5],
                [1..2, 0..3, 2..4],
                [3..4, 2..3, 4..5],
            ] {
                let region = Region::new(region.into_iter()).unwrap();
                let mut expected = Vec::new();
                for [a, b, c] in (0..60_u64).map(|n| [n / 15, n / 5 % 3, n % 5]) {
                    let number = match slowest {
                        0 => (a * 3 + b) * 5 + c,
                        1 => (b * 4 + a) * 5 + c,
                        _ => (c * 4 + a) * 3 + b,
                    };
                    if region.contains(&[a, b, c]) {
                        expected.push((number, vec![a, b, c]));
                    }
                }
                expected.sort();
                assert_eq!(numbers(&max, &region, slowest), expected, "{slowest} {region:?}");
            }
        }
    }
}
