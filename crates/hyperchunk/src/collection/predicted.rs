//! Predicted reads. Files of one product have nearly the same layout, so the ranges that were read of one
//! file are requested with the first read of the next. A wrong prediction costs transferred bytes, never
//! correctness.

use crate::Result;
use crate::io::ranges::joined_within;
use crate::io::{Counters, Land, Remote, RemoteOptions, RequestCost, Source, ends_before, forget};
use crate::survey::merge_ranges;
use bytes::Bytes;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Maximum number of predicted bytes beyond the number of bytes that were read of the previous file.
const MAX_UNNEEDED_BYTES: u64 = 1 << 20;
/// Number of bytes by which predicted ranges begin earlier and end later, as compressed chunks vary in size.
const SLACK_BYTES: u64 = 4 << 10;
/// Maximum gap in bytes between predicted ranges that are joined to one. It is halved, down to
/// [`SLACK_BYTES`], until the joined ranges meet [`MAX_UNNEEDED_BYTES`].
const MAX_GAP_BYTES: u64 = 64 << 10;
/// Number of files after which predictions stop if fewer than half of the files needed predicted bytes.
const TRIED_FILES: u32 = 8;

/// Ranges that are likely to be needed of the next files.
#[derive(Debug, Default)]
pub(super) struct Prediction {
    ranges: Vec<Range<u64>>,
    tried: AtomicU32,
    useful: AtomicU32,
}

impl Prediction {
    /// Creates a prediction from the ranges that were read of one file.
    fn new(read: Vec<Range<u64>>) -> Self {
        let bytes = |ranges: &[Range<u64>]| ranges.iter().map(|range| range.end - range.start).sum::<u64>();
        let read = merge_ranges(read);
        let most = bytes(&read).saturating_add(MAX_UNNEEDED_BYTES);
        let with_slack = read
            .into_iter()
            .map(|range| range.start.saturating_sub(SLACK_BYTES)..range.end.saturating_add(SLACK_BYTES));
        let with_slack = merge_ranges(with_slack.collect());
        let gaps = std::iter::successors(Some(MAX_GAP_BYTES), |gap| Some(gap / 2));
        let joined = gaps
            .take_while(|gap| *gap >= SLACK_BYTES)
            .map(|gap| joined_within(with_slack.iter().cloned(), gap, u64::MAX))
            .find(|ranges| bytes(ranges) <= most);
        let mut ranges = joined.unwrap_or(with_slack);
        let mut left = most;
        ranges.retain(|range| {
            let length = range.end - range.start;
            let fits = length <= left;
            left -= if fits { length } else { 0 };
            fits
        });
        Self { ranges, ..Self::default() }
    }

    fn is_useful(&self) -> bool {
        let tried = self.tried.load(Ordering::Relaxed);
        tried < TRIED_FILES || self.useful.load(Ordering::Relaxed) >= tried / 2
    }

    /// Returns the predicted ranges in a file of `size` bytes, without the first `head` bytes, which are
    /// known.
    fn ranges(&self, head: u64, size: u64) -> Vec<Range<u64>> {
        if !self.is_useful() {
            return Vec::new();
        }
        let clipped = self.ranges.iter().map(|range| range.start.max(head)..range.end.min(size));
        clipped.filter(|range| range.start < range.end).collect()
    }
}

/// A remote source that fetches predicted ranges before they are requested.
#[derive(Debug)]
pub(super) struct PredictedSource {
    inner: Arc<dyn Source>,
    prediction: Arc<Prediction>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Ranges to fetch with the first read.
    predicted: Vec<Range<u64>>,
    /// Fetched ranges: offset and bytes, sorted and without overlap.
    kept: Vec<(u64, Bytes)>,
    /// Ranges that were read.
    read: Vec<Range<u64>>,
    /// Whether predicted ranges were fetched, and whether a later read needed one.
    was_predicted: bool,
    was_useful: bool,
}

impl State {
    fn find(&self, range: &Range<u64>) -> Option<Bytes> {
        let after = self.kept.partition_point(|(start, _)| *start <= range.start);
        let parts = self.kept.get(after.checked_sub(1)?..)?;
        let (start, bytes) = parts.first()?;
        let first = usize::try_from(range.start - start).ok()?;
        let end = usize::try_from(range.end.checked_sub(*start)?).ok()?;
        if first <= end && end <= bytes.len() {
            return Some(bytes.slice(first..end));
        }
        // The range may continue in the next parts, if they are adjacent.
        let mut found = bytes.get(first..)?.to_vec();
        for (start, bytes) in parts.iter().skip(1) {
            let next = range.start + found.len() as u64;
            if *start != next || next >= range.end {
                break;
            }
            let left = usize::try_from(range.end - next).unwrap_or(usize::MAX).min(bytes.len());
            found.extend_from_slice(bytes.get(..left)?);
        }
        (found.len() as u64 == range.end - range.start).then(|| found.into())
    }
}

/// Sorts parts of a file and removes overlaps: bytes in several parts stay in the first. Nothing is copied.
fn without_overlap(mut parts: Vec<(u64, Bytes)>) -> Vec<(u64, Bytes)> {
    parts.sort_by_key(|(start, bytes)| (*start, bytes.len()));
    let mut all: Vec<(u64, Bytes)> = Vec::with_capacity(parts.len());
    let mut end = 0;
    for (start, bytes) in parts {
        let known = usize::try_from(u64::saturating_sub(end, start)).unwrap_or(usize::MAX);
        if known < bytes.len() {
            end = start + bytes.len() as u64;
            all.push((start + known as u64, bytes.slice(known..)));
        }
    }
    all
}

impl PredictedSource {
    pub(super) fn new(inner: Arc<dyn Source>, prediction: &Arc<Prediction>) -> Self {
        let head = inner.remote().map(Remote::head).unwrap_or_default();
        let predicted = prediction.ranges(head.len() as u64, inner.size());
        let state = State { predicted, kept: vec![(0, head)], ..State::default() };
        Self { inner, prediction: Arc::clone(prediction), state: Mutex::new(state) }
    }

    /// Records whether the prediction was useful for this file, evicts the file from the cache, and returns a
    /// prediction for the next one.
    pub(super) fn finish(&self) -> Prediction {
        let state = self.state();
        if state.was_predicted {
            self.prediction.tried.fetch_add(1, Ordering::Relaxed);
            self.prediction.useful.fetch_add(u32::from(state.was_useful), Ordering::Relaxed);
        }
        if let Some(remote) = self.inner.remote() {
            let head = 0..remote.head().len() as u64;
            forget(remote, &state.read);
            forget(remote, &[head]);
        }
        Prediction::new(state.read.clone())
    }

    fn land_kept(&self, number: usize, range: &Range<u64>, land: &mut Land<'_>) -> Result<()> {
        let found = self.state().find(range);
        match found {
            Some(bytes) => land(number, bytes),
            None => Err(ends_before(self.size(), range.start, 0)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for PredictedSource {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(buffer.len() as u64);
        if let Some(bytes) = self.state().find(&(offset..end)) {
            buffer.copy_from_slice(&bytes);
            return Ok(());
        }
        self.inner.read_at(offset, buffer)
    }

    fn version(&self) -> Option<String> {
        self.inner.version()
    }

    fn check_unchanged(&self) -> Result<()> {
        self.inner.check_unchanged()
    }

    fn remote(&self) -> Option<&dyn Remote> {
        self.inner.remote().map(|_| self as &dyn Remote)
    }
}

impl Remote for PredictedSource {
    fn fetch(&self, ranges: &[Range<u64>], land: &mut Land<'_>) -> Result<()> {
        let Some(remote) = self.inner.remote() else { return Ok(()) };
        let all = || ranges.iter().enumerate();
        let (missing, predicted) = {
            let mut state = self.state();
            state.read.extend_from_slice(ranges);
            let missing: Vec<(usize, Range<u64>)> = all()
                .filter(|(_, range)| state.find(range).is_none())
                .map(|(number, range)| (number, range.clone()))
                .collect();
            let predicted =
                if missing.is_empty() { Vec::new() } else { std::mem::take(&mut state.predicted) };
            (missing, predicted)
        };
        let asked = missing.iter().map(|(_, range)| range.clone()).collect::<Vec<_>>();
        if predicted.is_empty() {
            remote.fetch(&asked, &mut |number, bytes| match missing.get(number) {
                Some((number, _)) => land(*number, bytes),
                None => Ok(()),
            })?;
            let missing: Vec<usize> = missing.into_iter().map(|(number, _)| number).collect();
            return all().filter(|(number, _)| !missing.contains(number)).try_for_each(|(number, range)| {
                self.state().was_useful |= range.end > remote.head().len() as u64;
                self.land_kept(number, range, land)
            });
        }
        self.state().was_predicted = true;
        let wanted = merge_ranges(predicted.into_iter().chain(asked).collect());
        let mut fetched: Vec<(u64, Bytes)> = Vec::new();
        remote.fetch(&wanted, &mut |number, bytes| {
            fetched.extend(wanted.get(number).map(|range| (range.start, bytes)));
            Ok(())
        })?;
        {
            let mut state = self.state();
            fetched.append(&mut state.kept);
            state.kept = without_overlap(fetched);
        }
        all().try_for_each(|(number, range)| self.land_kept(number, range, land))
    }

    fn identity(&self) -> &str {
        self.inner.remote().map(Remote::identity).unwrap_or_default()
    }

    fn counters(&self) -> &Counters {
        static NONE: OnceLock<Counters> = OnceLock::new();
        self.inner.remote().map_or_else(|| NONE.get_or_init(Counters::default), Remote::counters)
    }

    fn options(&self) -> &RemoteOptions {
        static DEFAULT: OnceLock<RemoteOptions> = OnceLock::new();
        self.inner.remote().map_or_else(|| DEFAULT.get_or_init(RemoteOptions::default), Remote::options)
    }

    fn cost(&self) -> RequestCost {
        self.inner.remote().map(Remote::cost).unwrap_or_default()
    }

    fn head(&self) -> Bytes {
        self.inner.remote().map(Remote::head).unwrap_or_default()
    }

    fn sibling(&self, name: &str) -> Option<Result<Arc<dyn Source>>> {
        self.inner.remote().and_then(|remote| remote.sibling(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_across_parts_are_found() {
        let whole = b"abcdefghij";
        let check = |parts: &[Range<usize>], lacking: &[usize]| {
            let parts =
                parts.iter().map(|part| (part.start as u64, Bytes::from_static(&whole[part.clone()])));
            let state = State { kept: without_overlap(parts.collect()), ..State::default() };
            assert!(state.kept.is_sorted_by(|a, b| a.0 + a.1.len() as u64 <= b.0), "{:?}", state.kept);
            for start in 0..10_usize {
                for end in start..12 {
                    let lacks = (start..end.max(start + 1)).any(|at| lacking.contains(&at) || at >= 10);
                    let expected = (!lacks).then(|| Bytes::copy_from_slice(&whole[start..end]));
                    let found = state.find(&(start as u64..end as u64));
                    assert!(found == expected || start == end, "{start}..{end}: {found:?}");
                }
            }
        };
        check(&[4..10, 0..4], &[]);
        check(&[1..5, 0..3, 2..3, 6..10, 9..10], &[5]);
        check(&[0..3, 0..3, 3..6, 7..8], &[6, 8, 9]);
        check(&[0..10, 2..4], &[]);
    }

    #[test]
    fn predictions_are_bounded() {
        let check = |read: &[Range<u64>], expected: &[(u64, u64)]| {
            let predicted = Prediction::new(read.to_vec()).ranges(16 << 10, 1 << 40);
            let found: Vec<(u64, u64)> = predicted.iter().map(|range| (range.start, range.end)).collect();
            assert_eq!(found, expected);
        };
        check(&[0..100, 20_000..21_000], &[(16 << 10, 25_096)]);
        // 2 MiB were needed, so that many may be predicted, and 1 MiB more.
        check(
            &[1 << 20..3 << 20, (3 << 20) + 50_000..(3 << 20) + 50_010],
            &[((1 << 20) - 4096, (3 << 20) + 54_106)],
        );
        // Gaps of 40,000 bytes are too much for a hundred small ranges.
        let small: Vec<Range<u64>> =
            (1..100_u64).map(|number| number * 40_000..number * 40_000 + 100).collect();
        assert_eq!(Prediction::new(small).ranges.len(), 99);
        check(&[], &[]);
    }
}
