//! Sources of a survey's bytes.

use crate::Result;
use crate::io::Source;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Maximum gap in bytes between ranges that are fetched together.
const MAX_GAP_BYTES: u64 = 64 << 10;
/// Maximum size of a request, in bytes.
const MAX_REQUEST_BYTES: u64 = 8 << 20;

/// Source of ranges of a file.
pub(crate) trait Fetch {
    /// Returns the size of the file in bytes.
    fn size(&self) -> u64;

    /// Fetches ranges, which are sorted and disjoint, and calls `land` with the offset and the bytes of each.
    ///
    /// # Errors
    /// The errors of the source.
    fn fetch(&mut self, ranges: &[Range<u64>], land: &mut dyn FnMut(u64, &[u8])) -> Result<()>;
}

/// Fetches from a source.
pub(crate) struct SourceFetch<'s>(pub(crate) &'s dyn Source);

impl Fetch for SourceFetch<'_> {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn fetch(&mut self, ranges: &[Range<u64>], land: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let Some(remote) = self.0.remote() else {
            for range in ranges {
                let mut bytes = crate::room::zeros(length(range)?)?;
                self.0.read_at(range.start, &mut bytes)?;
                land(range.start, &bytes);
            }
            return Ok(());
        };
        let requests = joined(ranges, MAX_GAP_BYTES, MAX_REQUEST_BYTES);
        let asked: Vec<Range<u64>> = requests.iter().map(|(request, _)| request.clone()).collect();
        remote.fetch(&asked, &mut |number, bytes| {
            let Some((request, wanted)) = requests.get(number) else { return Ok(()) };
            for range in ranges.get(wanted.clone()).unwrap_or_default() {
                let place = length(&(request.start..range.start))?..length(&(request.start..range.end))?;
                land(range.start, bytes.get(place).unwrap_or_default());
            }
            Ok(())
        })
    }
}

/// Size in bytes of a block of [`BlockCache`], and maximum number of blocks.
const BLOCK_BYTES: u64 = 64 << 10;
const MAX_BLOCKS: usize = 4096;

/// Cache of fetched blocks, so that several surveys of one file fetch them once.
pub(crate) struct BlockCache<'s> {
    source: SourceFetch<'s>,
    blocks: HashMap<u64, Arc<[u8]>>,
}

impl<'s> BlockCache<'s> {
    pub(crate) fn new(source: &'s dyn Source) -> Self {
        Self { source: SourceFetch(source), blocks: HashMap::new() }
    }
}

impl Fetch for BlockCache<'_> {
    fn size(&self) -> u64 {
        self.source.size()
    }

    fn fetch(&mut self, ranges: &[Range<u64>], land: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let size = self.size();
        let numbers = |range: &Range<u64>| range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
        let mut missing: Vec<u64> =
            ranges.iter().flat_map(numbers).filter(|number| !self.blocks.contains_key(number)).collect();
        missing.sort_unstable();
        missing.dedup();
        if self.blocks.len() + missing.len() > MAX_BLOCKS {
            // The cache is full. Rounds are small, so all blocks of this one are fetched again.
            self.blocks.clear();
            missing = ranges.iter().flat_map(numbers).collect();
            missing.sort_unstable();
            missing.dedup();
        }
        let wanted: Vec<Range<u64>> = missing
            .chunk_by(|a, b| a + 1 == *b)
            .filter_map(|run| Some(run.first()? * BLOCK_BYTES..((run.last()? + 1) * BLOCK_BYTES).min(size)))
            .collect();
        let blocks = &mut self.blocks;
        self.source.fetch(&wanted, &mut |offset, bytes| {
            for (number, block) in
                (offset / BLOCK_BYTES..).zip(bytes.chunks(usize::try_from(BLOCK_BYTES).unwrap_or(1)))
            {
                blocks.insert(number, block.into());
            }
        })?;
        for range in ranges {
            let mut bytes = Vec::with_capacity(length(range)?);
            for number in numbers(range) {
                let start = number * BLOCK_BYTES;
                let place = length(&(start..range.start.max(start)))?
                    ..length(&(start..range.end.min(start + BLOCK_BYTES)))?;
                bytes.extend_from_slice(
                    self.blocks.get(&number).and_then(|block| block.get(place)).unwrap_or_default(),
                );
            }
            land(range.start, &bytes);
        }
        Ok(())
    }
}

fn length(range: &Range<u64>) -> Result<usize> {
    usize::try_from(range.end.saturating_sub(range.start))
        .map_err(|_| crate::Error::limit("a range larger than the address space"))
}

/// Joins ranges, which are sorted and disjoint, into requests, each with the numbers of its ranges. Ranges
/// closer than `gap` are joined, unless the request would exceed `largest` bytes.
pub(crate) fn joined(ranges: &[Range<u64>], gap: u64, largest: u64) -> Vec<(Range<u64>, Range<usize>)> {
    let mut requests: Vec<(Range<u64>, Range<usize>)> = Vec::new();
    for (number, range) in ranges.iter().enumerate() {
        match requests.last_mut() {
            Some((request, numbers))
                if range.start.saturating_sub(request.end) <= gap
                    && range.end.saturating_sub(request.start) <= largest =>
            {
                request.end = request.end.max(range.end);
                numbers.end = number + 1;
            }
            _ => requests.push((range.clone(), number..number + 1)),
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_come_together() {
        let check = |gap, largest, expected: &[Range<u64>]| {
            let requests = joined(&[0..10, 15..20, 40..50, 60..90], gap, largest);
            assert_eq!(requests.iter().map(|(request, _)| request.clone()).collect::<Vec<_>>(), expected);
            assert_eq!(requests.last().unwrap().1.end, 4);
        };
        check(4, 100, &[0..10, 15..20, 40..50, 60..90]);
        check(5, 100, &[0..20, 40..50, 60..90]);
        check(10, 100, &[0..20, 40..90]);
        check(10, 40, &[0..20, 40..50, 60..90]);
        check(20, 89, &[0..50, 60..90]);
    }
}
