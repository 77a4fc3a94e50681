//! Search for undamaged elements in a dataset whose elements refer to heaps or objects.

use super::check::ObjectCheck;
use super::report::{Condition, Evidence, MissingPart};
use crate::digest::check_elements;
use crate::io::interrupt;
use crate::{Dataset, Error, Result};
use hyperchunk_format::select::{Axis, Selection};
use std::ops::Range;

/// A box of elements or of chunk coordinates: its range along each axis.
pub(super) type Region = Vec<Range<u64>>;

/// Number of bytes of elements read at a time.
const SLAB_BYTES: u64 = 4 << 20;
/// Maximum number of failed reads of one dataset. After that, a box that cannot be read is not divided
/// further.
const MAX_FAILURES: u32 = 4096;
/// Maximum number of missing parts in a report. If there are more, their bounding box is reported.
const MAX_PARTS: usize = 2000;

/// Search by bisection. Variable-length strings and sequences, and region references, are stored in heaps,
/// parts of which may be lost.
pub(super) struct Division<'d> {
    dataset: &'d Dataset,
    progress: &'d (dyn Fn(u64) + Sync),
    whole: Vec<Region>,
    missing: Vec<Region>,
    reason: Option<String>,
    failures_left: u32,
    buffer: Vec<u8>,
}

impl<'d> Division<'d> {
    pub(super) fn new(dataset: &'d Dataset, progress: &'d (dyn Fn(u64) + Sync)) -> Self {
        Self {
            dataset,
            progress,
            whole: Vec::new(),
            missing: Vec::new(),
            reason: None,
            failures_left: MAX_FAILURES,
            buffer: Vec::new(),
        }
    }

    /// Divides the whole dataset.
    pub(super) fn all(mut self, extents: Vec<Range<u64>>) -> Result<ObjectCheck> {
        self.divide(self.dataset.dims().iter().map(|dim| 0..*dim).collect())?;
        Ok(self.finish(extents))
    }

    /// Adds a box that is missing.
    pub(super) fn lose(&mut self, region: Region, reason: String) {
        self.reason.get_or_insert(reason);
        self.missing.push(region);
    }

    /// Divides a box into boxes of undamaged and of missing elements.
    ///
    /// # Errors
    /// Errors of reading the file.
    pub(super) fn divide(&mut self, region: Region) -> Result<()> {
        let mut open = vec![region];
        while let Some(region) = open.pop() {
            if region.iter().any(Range::is_empty) {
                continue;
            }
            let count =
                region.iter().fold(1_u64, |count, range| count.saturating_mul(range.end - range.start));
            let bytes = count.saturating_mul(self.dataset.datatype().size);
            if bytes > SLAB_BYTES
                && let Some((low, high)) = outer_halves(&region)
            {
                open.extend([high, low]);
                continue;
            }
            interrupt::check(interrupt::current_interrupt().as_ref())?;
            match self.read(&region, bytes) {
                Ok(()) => {
                    (self.progress)(bytes);
                    self.whole.push(region);
                }
                Err(error) if error.is_of_reading() => return Err(error),
                Err(error) => {
                    self.reason.get_or_insert_with(|| error.to_string());
                    self.failures_left = self.failures_left.saturating_sub(1);
                    match outer_halves(&region).filter(|_| self.failures_left > 0) {
                        Some((low, high)) => open.extend([high, low]),
                        None => self.missing.push(region),
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads a box of elements, and checks the heap objects and objects that they refer to.
    fn read(&mut self, region: &Region, bytes: u64) -> Result<()> {
        let bytes =
            usize::try_from(bytes).map_err(|_| Error::limit("an element exceeds the address space"))?;
        crate::room::resize(&mut self.buffer, bytes)?;
        self.dataset.read(&selection(region), &mut self.buffer)?;
        check_elements(self.dataset.object().file(), self.dataset.datatype(), &self.buffer)
    }

    /// Returns the result. The evidence is [`Evidence::Unchecked`], as global heaps have no checksums.
    pub(super) fn finish(self, extents: Vec<Range<u64>>) -> ObjectCheck {
        let evidence = (!self.whole.is_empty()).then_some(Evidence::Unchecked);
        match self.reason {
            None => ObjectCheck::whole(evidence, extents),
            Some(reason) if self.whole.is_empty() => ObjectCheck { extents, ..ObjectCheck::lost(reason) },
            reason => ObjectCheck {
                condition: Condition::Incomplete,
                reason,
                missing: merged(self.missing),
                boxes: self.whole,
                ..ObjectCheck::whole(evidence, extents)
            },
        }
    }
}

/// Returns the selection of a box.
pub(super) fn selection(region: &[Range<u64>]) -> Selection {
    match region {
        [] => Selection::All,
        region => Selection::Axes(region.iter().cloned().map(Axis::range).collect()),
    }
}

fn split(region: &[Range<u64>], axis: usize) -> Option<(Region, Region)> {
    let range = region.get(axis)?;
    let middle = range.start + (range.end - range.start) / 2;
    let (mut low, mut high) = (region.to_vec(), region.to_vec());
    low.get_mut(axis)?.end = middle;
    high.get_mut(axis)?.start = middle;
    Some((low, high))
}

/// Halves a box along its longest axis; `None` if its length is 1 along all axes.
pub(super) fn halves(region: &[Range<u64>]) -> Option<(Region, Region)> {
    let (axis, range) = region.iter().enumerate().max_by_key(|(_, range)| range.end - range.start)?;
    if range.end - range.start > 1 { split(region, axis) } else { None }
}

/// Halves a box along the slowest axis whose length is more than 1; `None` for a single element. In a
/// contiguous dataset, the halves are adjacent in the file.
fn outer_halves(region: &[Range<u64>]) -> Option<(Region, Region)> {
    split(region, region.iter().position(|range| range.end - range.start > 1)?)
}

/// Joins boxes that are adjacent along the last axis, for a report.
pub(super) fn merged(mut boxes: Vec<Region>) -> Vec<MissingPart> {
    boxes.sort_by(|a, b| {
        let starts = |one: &[Range<u64>]| one.iter().map(|range| range.start).collect::<Vec<_>>();
        starts(a).cmp(&starts(b))
    });
    let mut joined: Vec<Region> = Vec::new();
    for one in boxes {
        if let Some(last) = joined.last_mut()
            && let (Some((end, before)), Some((next, rest))) = (last.split_last_mut(), one.split_last())
            && *before == *rest
            && end.end == next.start
        {
            end.end = next.end;
            continue;
        }
        joined.push(one);
    }
    if joined.len() > MAX_PARTS {
        let around = joined
            .into_iter()
            .reduce(|a, b| a.iter().zip(&b).map(|(a, b)| a.start.min(b.start)..a.end.max(b.end)).collect());
        joined = around.into_iter().collect();
    }
    let part = |one: Region| {
        let (start, count) = one.iter().map(|range| (range.start, range.end - range.start)).unzip();
        MissingPart { start, count }
    };
    joined.into_iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_halved_down_to_single_places() {
        assert_eq!(halves(&[0..1, 4..7]), Some((vec![0..1, 4..5], vec![0..1, 5..7])));
        assert_eq!(outer_halves(&[0..2, 4..7]), Some((vec![0..1, 4..7], vec![1..2, 4..7])));
        assert_eq!(halves(&[0..1, 4..5]), None);
        assert_eq!(outer_halves(&[]), None);
    }

    #[test]
    fn neighbours_are_joined() {
        let found = merged(vec![vec![2..3, 0..5], vec![0..1, 5..9], vec![0..1, 0..5]]);
        let expected = [(vec![0, 0], vec![1, 9]), (vec![2, 0], vec![1, 5])];
        assert_eq!(found, expected.map(|(start, count)| MissingPart { start, count }));
    }
}
