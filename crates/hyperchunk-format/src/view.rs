//! Access of parsers to the bytes of a file, and their requests for more.

use crate::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Bytes of a file, by absolute offset.
pub trait View: Sync {
    /// Returns the size of the file in bytes.
    fn size(&self) -> u64;

    /// Returns `length` bytes from `offset` on.
    ///
    /// # Errors
    /// Truncated if they extend past the end of the file, Need if they are not available yet, Io if they
    /// cannot be read.
    fn bytes(&self, offset: u64, length: usize) -> Result<Cow<'_, [u8]>>;

    /// Hints that these bytes will be needed soon, so that one fetch may bring them together.
    fn will_need(&self, _ranges: &[Range<u64>]) {}

    /// Hints that the bytes at an offset, and probably the ones after it, will be needed soon.
    fn will_look_at(&self, _offset: u64) {}
}

/// Returns `offset + length`, checked against a file of `size` bytes.
///
/// # Errors
/// Truncated if it is past the end of the file.
pub(crate) fn end_within(size: u64, offset: u64, length: usize) -> Result<u64> {
    let end = u64::try_from(length).ok().and_then(|length| offset.checked_add(length));
    end.filter(|end| *end <= size).ok_or_else(|| {
        let message = format!("cannot read {length} bytes: the file ends at byte {size}");
        Error::new(ErrorKind::Truncated, message).at(offset)
    })
}

/// View through a reference, so that a borrowed slice can be a view.
impl<V: View + ?Sized> View for &V {
    fn size(&self) -> u64 {
        (**self).size()
    }

    fn bytes(&self, offset: u64, length: usize) -> Result<Cow<'_, [u8]>> {
        (**self).bytes(offset, length)
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        (**self).will_need(ranges);
    }

    fn will_look_at(&self, offset: u64) {
        (**self).will_look_at(offset);
    }
}

/// Whole file in memory.
impl View for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn bytes(&self, offset: u64, length: usize) -> Result<Cow<'_, [u8]>> {
        let end = end_within(self.size(), offset, length)?;
        let range = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
        let bytes = range.and_then(|(start, end)| self.get(start..end));
        bytes
            .map(Cow::Borrowed)
            .ok_or_else(|| Error::new(ErrorKind::Truncated, "cannot read bytes outside the file").at(offset))
    }
}

/// Parts of a file that have been fetched.
#[derive(Debug, Default)]
pub struct Blocks {
    size: u64,
    /// Blocks by start; no two overlap or touch.
    blocks: BTreeMap<u64, Vec<u8>>,
    missing: Mutex<Vec<Range<u64>>>,
}

impl Blocks {
    /// Creates an empty set of blocks of a file of `size` bytes.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self { size, ..Self::default() }
    }

    /// Adds the bytes at `offset` and merges them with the blocks they touch. Bytes mostly arrive in order,
    /// so the preceding block is extended in place instead of being copied for each new piece.
    pub fn insert(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset.saturating_add(bytes.len() as u64);
        let narrow = |length: u64| usize::try_from(length).unwrap_or(usize::MAX);
        let before = self.blocks.range(..=offset).next_back();
        let before = before.filter(|(start, block)| start.saturating_add(block.len() as u64) >= offset);
        let start = before.map_or(offset, |(start, _)| *start);
        // Blocks that begin within the new bytes, or directly after them, are merged with them.
        let covered: Vec<u64> = self.blocks.range(offset..=end).map(|(start, _)| *start).collect();
        let rest = covered.iter().rfind(|other| **other != start).and_then(|other| {
            let block = self.blocks.get(other)?;
            block.get(narrow(end.saturating_sub(*other)).min(block.len())..).map(<[u8]>::to_vec)
        });
        for other in covered.into_iter().filter(|other| *other != start) {
            self.blocks.remove(&other);
        }
        // New bytes replace old ones where they overlap; both are equal unless the file changed.
        let block = self.blocks.entry(start).or_default();
        let from = narrow(offset.saturating_sub(start)).min(block.len());
        let shared = bytes.len().min(block.len().saturating_sub(from));
        let (over, beyond) = bytes.split_at_checked(shared).unwrap_or((bytes, &[]));
        if let Some(place) = block.get_mut(from..from.saturating_add(shared)) {
            place.copy_from_slice(over);
        }
        if !beyond.is_empty() || start.saturating_add(block.len() as u64) <= end {
            block.extend_from_slice(beyond);
            block.extend(rest.into_iter().flatten());
        }
    }

    /// Iterates over the fetched parts in order; no two touch.
    pub fn parts(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.blocks.iter().map(|(start, block)| (*start, block.as_slice()))
    }

    fn find(&self, offset: u64, end: u64) -> Option<&[u8]> {
        let (start, block) = self.blocks.range(..=offset).next_back()?;
        let from = usize::try_from(offset.checked_sub(*start)?).ok()?;
        let to = usize::try_from(end.checked_sub(*start)?).ok()?;
        block.get(from..to)
    }
}

impl View for Blocks {
    fn size(&self) -> u64 {
        self.size
    }

    fn bytes(&self, offset: u64, length: usize) -> Result<Cow<'_, [u8]>> {
        let end = end_within(self.size, offset, length)?;
        if let Some(bytes) = self.find(offset, end) {
            return Ok(Cow::Borrowed(bytes));
        }
        self.will_need(&[offset..end]);
        Err(Error::need(vec![offset..end]))
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        let absent = ranges
            .iter()
            .filter(|range| range.end <= self.size && self.find(range.start, range.end).is_none());
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).extend(absent.cloned());
    }
}

/// Result of running a parser over the available blocks.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// Ranges of the file that the parser lacks, in order and disjoint. Insert their bytes and call [`step`]
    /// again.
    Need(Vec<Range<u64>>),
    /// The parsed value.
    Done(T),
}

/// Runs a parser over the available blocks.
///
/// # Errors
/// The errors of the parser, except kind Need.
pub fn step<T>(blocks: &Blocks, parse: impl FnOnce(&dyn View) -> Result<T>) -> Result<Step<T>> {
    blocks.missing.lock().unwrap_or_else(PoisonError::into_inner).clear();
    match parse(blocks) {
        Ok(value) => Ok(Step::Done(value)),
        Err(error) if error.is_need() => {
            let mut ranges =
                std::mem::take(&mut *blocks.missing.lock().unwrap_or_else(PoisonError::into_inner));
            ranges.extend_from_slice(error.needs());
            Ok(Step::Need(joined(ranges)))
        }
        Err(error) => Err(error),
    }
}

/// Sorts ranges and merges touching ones.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut apart: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_join() {
        let file: Vec<u8> = (0..100).collect();
        for order in
            [[(10, 20), (30, 40), (20, 30)], [(10, 30), (20, 40), (35, 36)], [(15, 20), (10, 40), (12, 13)]]
        {
            let mut blocks = Blocks::new(100);
            for (start, end) in order {
                blocks.insert(start as u64, &file[start..end]);
            }
            assert_eq!(*blocks.bytes(10, 30).unwrap(), file[10..40], "{order:?}");
            assert!(blocks.bytes(9, 2).unwrap_err().is_need());
            assert_eq!(blocks.bytes(90, 11).unwrap_err().kind(), ErrorKind::Truncated);
        }
    }

    #[test]
    fn a_step_asks_for_what_is_missing() {
        let mut blocks = Blocks::new(100);
        let parse = |view: &dyn View| {
            view.will_need(&[40..50, 45..60]);
            view.bytes(0, 8).map(|bytes| bytes.len())
        };
        assert_eq!(step(&blocks, parse).unwrap(), Step::Need(vec![0..8, 40..60]));
        blocks.insert(0, &[0; 8]);
        assert_eq!(step(&blocks, parse).unwrap(), Step::Done(8));
    }
}
