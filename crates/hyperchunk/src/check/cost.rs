//! Estimated cost of reading over a network: round trips, requests, bytes, seconds.

use super::Assumptions;
use crate::io::{FilePages, MAX_GAP_BYTES, Reach, around, ranges, structure_requests};
use crate::survey::{joined, merge_ranges};
use std::ops::Range;

/// Cost of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Minimum number of round trips in sequence that the file's structure forces on a reader which knows
    /// nothing about the file and requests exactly the bytes that it needs.
    pub forced: u64,
    /// Round trips in sequence of a reader that starts with the first bytes of the file and fetches structure
    /// in blocks.
    pub rounds: u64,
    /// Number of requests of that reader.
    pub requests: u64,
    /// Number of bytes that it fetches.
    pub bytes: u64,
    /// Number of bytes that are needed.
    pub needed: u64,
    /// The duration in seconds.
    pub seconds: f64,
}

impl Cost {
    /// Estimates the cost of rounds of structure, each with its ranges, and of raw data. The data come with
    /// the given round of structure, or after the last one.
    pub(super) fn new(
        structure: &[Vec<Range<u64>>],
        (data, with): (&[Range<u64>], usize),
        size: u64,
        pages: Option<FilePages>,
        assumed: &Assumptions,
    ) -> Self {
        let bytes_of =
            |ranges: &[Range<u64>]| ranges.iter().map(|range| range.end - range.start).sum::<u64>();
        let mut cost = Self {
            forced: structure.len() as u64 + u64::from(!data.is_empty()),
            needed: structure.iter().map(|ranges| bytes_of(ranges)).sum::<u64>() + bytes_of(data),
            ..Self::default()
        };
        let first = assumed.options.first_read.min(size);
        let head = 0..first.saturating_add(assumed.options.read_ahead).min(size);
        // Without data, this is the cost of a listing.
        let reach = if data.is_empty() { Reach::All } else { Reach::Path };
        let mut have = vec![head.clone()];
        cost.round(std::slice::from_ref(&(0..first)), assumed);
        // The read-ahead arrives while the reader continues, so it takes no time.
        cost.bytes += head.end - first;
        let blocks = |have: &[Range<u64>]| {
            let absent: Vec<_> = data.iter().filter(|range| !covered(have, range)).cloned().collect();
            let blocks = ranges::blocks(&absent, &assumed.options, assumed.cost).into_iter();
            blocks.flat_map(|block| block.requests).collect::<Vec<_>>()
        };
        for (index, ranges) in structure.iter().enumerate() {
            let absent: Vec<Range<u64>> =
                ranges.iter().filter(|range| !covered(&have, range)).cloned().collect();
            let pieces = absent.iter().map(|range| {
                let around = around(range, assumed.options.block, reach, pages);
                around.start..around.end.min(size)
            });
            let joined =
                joined(&merge_ranges(pieces.collect()), MAX_GAP_BYTES, assumed.options.largest_request);
            let requests = joined.iter().flat_map(|(piece, _)| structure_requests(piece, &assumed.options));
            let mut requests: Vec<Range<u64>> = requests.collect();
            if index == with {
                requests.extend(blocks(&have));
            }
            cost.round(&requests, assumed);
            have = merge_ranges(have.into_iter().chain(joined.into_iter().map(|(piece, _)| piece)).collect());
        }
        if with >= structure.len() {
            cost.round(&blocks(&have), assumed);
        }
        cost
    }

    /// Adds a round.
    fn round(&mut self, requests: &[Range<u64>], assumed: &Assumptions) {
        if requests.is_empty() {
            return;
        }
        let count = requests.len() as u64;
        let bytes: u64 = requests.iter().map(|request| request.end - request.start).sum();
        let largest = requests.iter().map(|request| request.end - request.start).max().unwrap_or(0);
        let at_once = (assumed.options.concurrency as u64).clamp(1, count);
        // As many requests as allowed run concurrently: the largest one determines the time, or an equal share of
        // all bytes if this is more.
        let longest = largest.max(bytes / at_once);
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let seconds = count.div_ceil(at_once) as f64 * assumed.cost.latency.as_secs_f64()
            + longest as f64 / assumed.cost.bandwidth.max(1.0);
        self.rounds += 1;
        self.requests += count;
        self.bytes += bytes;
        self.seconds += seconds;
    }
}

/// Returns whether one of some ranges, sorted and disjoint, contains another.
fn covered(have: &[Range<u64>], range: &Range<u64>) -> bool {
    let after = have.partition_point(|held| held.start <= range.start);
    after.checked_sub(1).and_then(|at| have.get(at)).is_some_and(|held| held.end >= range.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{RemoteOptions, RequestCost};
    use std::time::Duration;

    #[test]
    fn rounds_and_requests() {
        let mut options = RemoteOptions::default();
        (options.concurrency, options.block) = (2, 10);
        (options.first_read, options.read_ahead) = (100, 0);
        let cost = RequestCost { latency: Duration::from_secs(1), bandwidth: 100.0 };
        let assumed = Assumptions { options, cost };
        type Pairs<'p> = &'p [(u64, u64)];
        let ranges = |pairs: Pairs<'_>| pairs.iter().map(|(start, end)| *start..*end).collect::<Vec<_>>();
        let check_with =
            |with: usize, structure: &[Pairs<'_>], data: Pairs<'_>, expected: (u64, u64, u64, u64, f64)| {
                let rounds: Vec<_> = structure.iter().map(|pairs| ranges(pairs)).collect();
                let cost = Cost::new(&rounds, (&ranges(data), with), 100_000_000, None, &assumed);
                let found = (cost.forced, cost.rounds, cost.requests, cost.bytes, cost.seconds);
                assert_eq!(found, expected, "{structure:?} {data:?} {with}");
            };
        let check = |structure: &[Pairs<'_>], data: Pairs<'_>, expected: (u64, u64, u64, u64, f64)| {
            check_with(structure.len(), structure, data, expected);
        };
        // All in the head.
        check(&[&[(0, 8)], &[(50, 60), (90, 100)]], &[], (2, 1, 1, 100, 2.0));
        // Neighbouring bytes are fetched along: more for a listing.
        check(&[&[(0, 8)], &[(100_095, 100_105)]], &[(5, 9)], (3, 2, 2, 100 + 1801, 21.01));
        check(&[&[(0, 8)], &[(100_095, 100_105)]], &[], (2, 2, 2, 100 + 5967, 62.67));
        // They are then cached.
        check(&[&[(100_095, 100_105)], &[(100_090, 100_105)]], &[], (2, 2, 2, 100 + 5967, 62.67));
        // With the structure that locates the data, or after it.
        let (structure, data): (&[Pairs<'_>], Pairs<'_>) =
            (&[&[(0, 8)], &[(50_000, 50_010)]], &[(70_000, 70_100)]);
        check_with(1, structure, data, (3, 2, 3, 100 + 858 + 100, 11.58));
        check_with(2, structure, data, (3, 3, 3, 100 + 858 + 100, 13.58));
        // Neighbouring data come together.
        check(&[], &[(1000, 1100), (1101, 1200), (1_000_000, 1_002_000)], (1, 2, 3, 2300, 23.0));
    }
}
