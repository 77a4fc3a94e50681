//! Planning of requests for the parts of a file that a read needs: few and large requests, with few unneeded
//! bytes.

use super::{RemoteOptions, RequestCost};
use std::ops::Range;

/// Gaps that take at most this fraction (1/64) of a request's time are closed even if there are connections
/// for all requests.
const TINY_GAP_DIVISOR: u64 = 64;
/// Minimum size in bytes of requests that are made by cutting.
const MIN_CUT_BYTES: u64 = 1 << 20;
/// Number of requests per connection above which time matters more than the number of transferred bytes.
const MANY_REQUESTS_PER_CONNECTION: usize = 8;

/// Joins ranges, given in order, if the gap between them is at most `gap` bytes and the joined range at most
/// `largest`.
pub(crate) fn joined_within(
    ranges: impl IntoIterator<Item = Range<u64>>,
    gap: u64,
    largest: u64,
) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last)
                if range.start <= last.end.saturating_add(gap)
                    && (range.end <= last.end || range.end - last.start <= largest) =>
            {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// A contiguous part of the file to fetch, and the needed ranges in it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Its range.
    pub(crate) range: Range<u64>,
    /// The needed ranges in it, by their index in the list.
    pub(crate) parts: Range<usize>,
    /// The requests for it: more than one where a single needed range is large.
    pub(crate) requests: Vec<Range<u64>>,
}

/// Computes the blocks that cover the needed ranges, which must be in order of their start. Every range is
/// inside one block.
///
/// Gaps of up to the option `gap` are closed, the smallest first. A gap is closed if it is tiny or there are
/// more requests than connections, and if the unneeded bytes stay within `over_read`, or there are more than
/// eight requests per connection and reading the gap takes less time than a request. Blocks are cut so that
/// there is work for all connections, into requests of between 1 MiB and `largest_request`.
pub(crate) fn blocks(needed: &[Range<u64>], options: &RemoteOptions, cost: RequestCost) -> Vec<Block> {
    let touching = touching(needed);
    let bytes: u64 = touching.iter().map(|segment| segment.range.end - segment.range.start).sum();
    let closed = closed(&touching, bytes, options, cost);
    let gaps = touching.windows(2).zip(&closed).filter(|(_, closed)| **closed);
    let gaps: u64 = gaps.map(|(pair, _)| gap(pair)).sum();
    let largest = largest(bytes + gaps, options);
    let mut blocks: Vec<Block> = Vec::new();
    for (number, segment) in touching.iter().enumerate() {
        let close = number > 0 && closed.get(number - 1).copied().unwrap_or(false);
        for (range, parts) in cut(needed, segment, largest) {
            let first = range.start == segment.range.start;
            match blocks.last_mut() {
                Some(last) if first && close && range.end - last.range.start <= largest => {
                    last.range.end = range.end;
                    last.parts.end = parts.end;
                }
                _ => blocks.push(Block { range, parts, requests: Vec::new() }),
            }
        }
    }
    for block in &mut blocks {
        block.requests = split(&block.range, largest);
    }
    blocks
}

/// Returns the maximum size of a request, given the number of bytes to transfer.
fn largest(bytes: u64, options: &RemoteOptions) -> u64 {
    // One request for every two connections: fewer requests cost less, and none has to wait for a connection.
    let requests = (options.concurrency as u64 / 2).max(1);
    (bytes / requests).clamp(MIN_CUT_BYTES.min(options.largest_request), options.largest_request).max(1)
}

/// Splits a range of a file into requests.
pub(crate) fn requests(range: &Range<u64>, options: &RemoteOptions) -> Vec<Range<u64>> {
    split(range, largest(range.end.saturating_sub(range.start), options))
}

/// Needed ranges that overlap or touch.
struct Segment {
    range: Range<u64>,
    parts: Range<usize>,
}

fn touching(needed: &[Range<u64>]) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for (place, range) in needed.iter().enumerate() {
        match segments.last_mut() {
            Some(last) if range.start <= last.range.end => {
                last.range.end = last.range.end.max(range.end);
                last.parts.end = place + 1;
            }
            _ => segments.push(Segment { range: range.clone(), parts: place..place + 1 }),
        }
    }
    segments
}

/// Returns the number of bytes between two segments.
fn gap(pair: &[Segment]) -> u64 {
    match pair {
        [a, b] => b.range.start.saturating_sub(a.range.end),
        _ => u64::MAX,
    }
}

/// Decides for each gap between two segments whether it is closed, so that one request reads both.
fn closed(segments: &[Segment], bytes: u64, options: &RemoteOptions, cost: RequestCost) -> Vec<bool> {
    let gap_after = |place: usize| segments.get(place..place + 2).map_or(u64::MAX, gap);
    let mut order: Vec<usize> = (0..segments.len().saturating_sub(1)).collect();
    order.sort_by_key(|place| gap_after(*place));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes; saturating is right")]
    let (mut budget, request) = (
        (bytes as f64 * options.over_read.max(0.0)) as u64,
        (cost.latency.as_secs_f64() * cost.bandwidth) as u64,
    );
    let many = options.concurrency.saturating_mul(MANY_REQUESTS_PER_CONNECTION);
    let mut requests = segments.len();
    let mut closed = vec![false; order.len()];
    for place in order {
        let gap = gap_after(place);
        let affordable = gap <= budget || (gap <= request && requests > many);
        if gap > options.gap
            || !affordable
            || (gap > request / TINY_GAP_DIVISOR && requests <= options.concurrency)
        {
            break;
        }
        budget = budget.saturating_sub(gap);
        requests -= 1;
        if let Some(closed) = closed.get_mut(place) {
            *closed = true;
        }
    }
    closed
}

/// Cuts a segment into pieces of up to `largest` bytes, but never inside a needed range.
fn cut(needed: &[Range<u64>], segment: &Segment, largest: u64) -> Vec<(Range<u64>, Range<usize>)> {
    let mut pieces: Vec<(Range<u64>, Range<usize>)> = Vec::new();
    for place in segment.parts.clone() {
        let Some(range) = needed.get(place) else { break };
        match pieces.last_mut() {
            Some((piece, parts))
                if range.end <= piece.end
                    || range.start < piece.end
                    || range.end - piece.start <= largest =>
            {
                piece.end = piece.end.max(range.end);
                parts.end = place + 1;
            }
            _ => pieces.push((range.clone(), place..place + 1)),
        }
    }
    pieces
}

/// Splits a block into requests: one, or several of about the same size.
fn split(range: &Range<u64>, largest: u64) -> Vec<Range<u64>> {
    let length = range.end - range.start;
    let count = length.div_ceil(largest).max(1);
    if length <= largest.saturating_add(largest / 2) {
        return vec![range.clone()];
    }
    let each = length.div_ceil(count);
    (0..count)
        .map(|number| {
            range.start + (number * each).min(length)..range.start + ((number + 1) * each).min(length)
        })
        .filter(|part| !part.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(change: impl FnOnce(&mut RemoteOptions)) -> RemoteOptions {
        let mut options = RemoteOptions::default();
        change(&mut options);
        options
    }

    /// Checks that every range is inside the block that lists it, and that blocks overlap no more than the
    /// ranges do; returns the numbers of requests and of transferred bytes.
    fn check(needed: &[Range<u64>], options: &RemoteOptions) -> (usize, u64) {
        let blocks = blocks(needed, options, RequestCost::default());
        let mut place = 0;
        for block in &blocks {
            assert_eq!(block.parts.start, place, "in order, none left out");
            place = block.parts.end;
            for range in &needed[block.parts.clone()] {
                assert!(block.range.start <= range.start && range.end <= block.range.end);
            }
            assert_eq!(block.requests.first().unwrap().start, block.range.start);
            assert_eq!(block.requests.last().unwrap().end, block.range.end);
            assert!(block.requests.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
        assert_eq!(place, needed.len());
        let moved = blocks.iter().map(|block| block.range.end - block.range.start).sum();
        (blocks.iter().map(|block| block.requests.len()).sum(), moved)
    }

    #[test]
    fn neighbours_are_one_request() {
        let needed: Vec<_> = (0..10).map(|n| n * 1000..n * 1000 + 1000).collect();
        assert_eq!(check(&needed, &RemoteOptions::default()), (1, 10_000));
        assert_eq!(check(&[], &RemoteOptions::default()), (0, 0));
    }

    #[test]
    fn gaps_are_closed_while_they_are_cheap() {
        // 180 chunks of 26 KB, 150 KB apart: exact where there are enough connections …
        let needed: Vec<_> = (0..180_u64).map(|n| n * 150_000..n * 150_000 + 26_000).collect();
        let (requests, moved) = check(&needed, &options(|options| options.concurrency = 180));
        assert_eq!((requests, moved), (180, 180 * 26_000));
        // … and else within the limit on unneeded bytes.
        let (requests, moved) = check(&needed, &options(|options| options.concurrency = 64));
        assert!(requests < 180 && moved <= 180 * 26_000 * 19 / 10, "{requests} requests, {moved} bytes");
        let (requests, _) =
            check(&needed, &options(|options| (options.concurrency, options.over_read) = (64, 10.0)));
        assert!(requests <= 80, "{requests}");
    }

    #[test]
    fn time_counts_where_requests_are_many() {
        // A column of a large array: 8 bytes of each 8 KB.
        let needed: Vec<_> = (0..100_000_u64).map(|n| n * 8192..n * 8192 + 8).collect();
        let (requests, _) = check(&needed, &options(|options| options.concurrency = 64));
        assert!(requests < 1000, "{requests}");
    }

    #[test]
    fn large_parts_are_split() {
        let (requests, moved) = check(&[0..100 << 20, 200 << 20..201 << 20], &RemoteOptions::default());
        assert!(requests > 10, "{requests}");
        assert_eq!(moved, 101 << 20);
    }

    #[test]
    fn ranges_that_overlap() {
        check(&[0..10, 0..5, 3..20, 20..21, 500..501], &RemoteOptions::default());
        check(&[0..20 << 20, 5..6, 1 << 20..30 << 20], &RemoteOptions::default());
    }

    #[test]
    fn blocks_of_metadata() {
        assert_eq!(joined_within([0..10, 10..20, 25..30, 100..110], 5, 1000), [0..30, 100..110]);
        assert_eq!(joined_within([0..10, 10..20, 20..30], 5, 20), [0..20, 20..30]);
    }
}
