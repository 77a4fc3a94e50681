//! Request planning of a relay: ranges in parallel requests, structure in blocks that are large enough to be
//! worth a request, and readahead for sequential reads.

use bytes::Bytes;
use hyperchunk::Result;
use hyperchunk::io::Source;
use std::ops::Range;
use std::sync::Arc;

/// Maximum size of one request, in bytes.
const MAX_REQUEST_BYTES: u64 = 1 << 20;
/// Ranges of this size or more are passed on without being cached.
const MIN_UNCACHED_BYTES: u64 = 2 << 20;
/// Maximum size of a file's cache, in bytes.
const MAX_CACHED_BYTES: u64 = 32 << 20;
/// Maximum readahead for data, in bytes. Data usually follow structure, so readahead for structure is limited
/// to [`MAX_REQUEST_BYTES`].
const MAX_READAHEAD_BYTES: u64 = 8 << 20;
/// Minimum size of a block of structure, in bytes; the maximum is [`MAX_REQUEST_BYTES`].
const MIN_BLOCK_BYTES: u64 = 64 << 10;
/// A range that begins within this distance of the end of the last one counts as sequential.
const SEQUENTIAL_GAP_BYTES: u64 = 256 << 10;
/// Number of sequential reads from which a read also fetches what follows; after one more, idle time is used,
/// too.
const MIN_SEQUENTIAL_READS: u32 = 2;

/// Callback that takes bytes of the file and their offset.
pub(super) type SendBytes<'a> = dyn FnMut(u64, &[u8]) -> Result<()> + 'a;

/// Cached bytes of the file.
struct CachedRange {
    start: u64,
    bytes: Bytes,
    used: u64,
}

impl CachedRange {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }
}

/// The access pattern so far of a file's structure or data.
#[derive(Clone, Copy, Default)]
struct AccessPattern {
    /// End of the last range that was read.
    end: u64,
    /// Number of bytes to read ahead.
    ahead: u64,
    /// Number of sequential reads.
    steps: u32,
}

/// A file and its cache.
pub(super) struct CachedReader {
    source: Arc<dyn Source>,
    kept: Vec<CachedRange>,
    total: u64,
    clock: u64,
    /// The access patterns of structure and of data.
    patterns: [AccessPattern; 2],
}

impl CachedReader {
    pub(super) fn new(source: Arc<dyn Source>) -> Self {
        let head = source.remote().map(hyperchunk::io::Remote::head).unwrap_or_default();
        let mut reader =
            Self { source, kept: Vec::new(), total: 0, clock: 0, patterns: [AccessPattern::default(); 2] };
        if !head.is_empty() {
            reader.keep(0, head);
        }
        reader
    }

    pub(super) fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// Returns the number of cached bytes.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Clears the cache.
    pub(super) fn forget(&mut self) {
        self.kept.clear();
        self.total = 0;
    }

    /// Sends a range, in pieces, and fetches the bytes to read ahead with it.
    pub(super) fn read(&mut self, range: &Range<u64>, data: bool, send: &mut SendBytes<'_>) -> Result<()> {
        let ahead = self.plan_readahead(range, data);
        let large = range.end - range.start >= MIN_UNCACHED_BYTES;
        let wanted = match large {
            true => range.end,
            false => range.end.max(range.start.saturating_add(ahead)).min(self.source.size()),
        };
        let mut at = range.start;
        while at < range.end {
            self.clock += 1;
            let clock = self.clock;
            if let Some(kept) = self.kept.iter_mut().find(|kept| kept.start <= at && at < kept.end()) {
                kept.used = clock;
                let from = usize::try_from(at - kept.start).unwrap_or(usize::MAX);
                let to = usize::try_from(range.end.min(kept.end()) - kept.start).unwrap_or(usize::MAX);
                send(at, kept.bytes.get(from..to).unwrap_or_default())?;
                at = range.end.min(kept.end());
                continue;
            }
            let missing = at..self.kept_from(at).min(wanted);
            if large {
                self.fetch(&missing, &mut |start, bytes| send(start, &bytes))?;
                at = missing.end;
            } else {
                self.fetch_and_keep(&missing)?;
            }
        }
        Ok(())
    }

    /// Prefetches data that will probably be requested next; returns whether it fetched any.
    pub(super) fn look_ahead(&mut self) -> bool {
        let [_, pattern] = self.patterns;
        let end = pattern.end.saturating_add(pattern.ahead).min(self.source.size());
        let mut at = pattern.end;
        while let Some(kept) = self.kept.iter().find(|kept| kept.start <= at && at < kept.end()) {
            at = kept.end();
        }
        // An error is reported later, to the read that needs the data.
        pattern.steps > MIN_SEQUENTIAL_READS
            && at < end
            && at - pattern.end <= pattern.ahead / 2
            && self.fetch_and_keep(&(at..self.kept_from(at).min(end))).is_ok()
    }

    /// Adds a read to the access pattern, and returns the number of bytes from its start that are worth a
    /// request.
    fn plan_readahead(&mut self, range: &Range<u64>, data: bool) -> u64 {
        let (least, most) = if data { (0, MAX_READAHEAD_BYTES) } else { (self.block(), MAX_REQUEST_BYTES) };
        let [of_structure, of_data] = &mut self.patterns;
        let pattern = if data { of_data } else { of_structure };
        let near = pattern.end.saturating_sub(SEQUENTIAL_GAP_BYTES)
            ..=pattern.end.saturating_add(SEQUENTIAL_GAP_BYTES);
        let length = range.end - range.start;
        if pattern.end > 0 && near.contains(&range.start) {
            pattern.steps = pattern.steps.saturating_add(1);
            pattern.ahead = pattern.ahead.saturating_mul(2).max(length.saturating_mul(2)).clamp(least, most);
        } else {
            *pattern = AccessPattern { end: 0, ahead: least, steps: 0 };
        }
        pattern.end = range.end;
        if pattern.steps >= MIN_SEQUENTIAL_READS { pattern.ahead } else { least }
    }

    /// Returns the number of bytes that take as long to transfer as the latency of a request.
    fn block(&self) -> u64 {
        let Some(remote) = self.source.remote() else { return MIN_BLOCK_BYTES };
        let cost = remote.cost();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
        let bytes = (cost.latency.as_secs_f64() * cost.bandwidth).clamp(0.0, MAX_REQUEST_BYTES as f64) as u64;
        bytes.next_power_of_two().clamp(MIN_BLOCK_BYTES, MAX_REQUEST_BYTES)
    }

    /// Returns the start of the next cached range after `at`.
    fn kept_from(&self, at: u64) -> u64 {
        self.kept.iter().map(|kept| kept.start).filter(|start| *start > at).min().unwrap_or(u64::MAX)
    }

    fn fetch_and_keep(&mut self, range: &Range<u64>) -> Result<()> {
        let mut came = Vec::new();
        self.fetch(range, &mut |start, bytes| {
            came.push((start, bytes));
            Ok(())
        })?;
        came.into_iter().for_each(|(start, bytes)| self.keep(start, bytes));
        Ok(())
    }

    /// Fetches a range in pieces, several at once; `take` gets them as they arrive.
    fn fetch(&self, range: &Range<u64>, take: &mut dyn FnMut(u64, Bytes) -> Result<()>) -> Result<()> {
        let piece = usize::try_from(MAX_REQUEST_BYTES).unwrap_or(usize::MAX);
        let starts = (range.start..range.end).step_by(piece);
        let pieces: Vec<_> =
            starts.map(|start| start..start.saturating_add(MAX_REQUEST_BYTES).min(range.end)).collect();
        if let Some(remote) = self.source.remote() {
            return remote.fetch(&pieces, &mut |place, bytes| match pieces.get(place) {
                Some(piece) => take(piece.start, bytes),
                None => Ok(()),
            });
        }
        for piece in pieces {
            let mut bytes = vec![0; usize::try_from(piece.end - piece.start).unwrap_or(0)];
            self.source.read_at(piece.start, &mut bytes)?;
            take(piece.start, bytes.into())?;
        }
        Ok(())
    }

    fn keep(&mut self, start: u64, bytes: Bytes) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        self.clock += 1;
        self.kept.push(CachedRange { start, bytes, used: self.clock });
        while self.total > MAX_CACHED_BYTES
            && let Some((oldest, _)) = self.kept.iter().enumerate().min_by_key(|(_, kept)| kept.used)
        {
            let gone = self.kept.swap_remove(oldest);
            self.total = self.total.saturating_sub(gone.bytes.len() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A source that records its requests.
    #[derive(Debug)]
    struct RecordingSource {
        size: u64,
        asked: Mutex<Vec<(u64, u64)>>,
    }

    fn byte_at(at: u64) -> u8 {
        u8::try_from((at >> 9).wrapping_mul(31) & 0xff).unwrap()
    }

    impl Source for RecordingSource {
        fn size(&self) -> u64 {
            self.size
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
            self.asked.lock().unwrap().push((offset, buffer.len() as u64));
            assert!(offset + buffer.len() as u64 <= self.size);
            let mut at = offset;
            let mut left = buffer;
            while !left.is_empty() {
                let length = usize::try_from(512 - at % 512).unwrap().min(left.len());
                let (part, rest) = left.split_at_mut(length);
                part.fill(byte_at(at));
                (at, left) = (at + part.len() as u64, rest);
            }
            Ok(())
        }
    }

    fn start(size: u64) -> (Arc<RecordingSource>, CachedReader) {
        let source = Arc::new(RecordingSource { size, asked: Mutex::default() });
        (Arc::clone(&source), CachedReader::new(source))
    }

    /// Reads a range, checks it, and returns the number of requests.
    fn check(source: &RecordingSource, reader: &mut CachedReader, range: Range<u64>, data: bool) -> usize {
        let before = source.asked.lock().unwrap().len();
        let mut got = vec![0; usize::try_from(range.end - range.start).unwrap()];
        let mut came = 0;
        let mut take = |at: u64, bytes: &[u8]| {
            let from = usize::try_from(at - range.start).unwrap();
            got[from..from + bytes.len()].copy_from_slice(bytes);
            came += bytes.len();
            Ok(())
        };
        reader.read(&range, data, &mut take).unwrap();
        assert_eq!(came, got.len());
        assert!((range.start..).zip(&got).step_by(251).all(|(at, got)| *got == byte_at(at)), "{range:?}");
        source.asked.lock().unwrap().len() - before
    }

    #[test]
    fn structure_comes_in_blocks() {
        let (source, mut reader) = start(1 << 20);
        assert_eq!(check(&source, &mut reader, 0..512, false), 1);
        assert_eq!(check(&source, &mut reader, 600..40_000, false), 0);
        assert_eq!(check(&source, &mut reader, 900_000..900_100, false), 1);
        assert_eq!(check(&source, &mut reader, (1 << 20) - 10..1 << 20, false), 1);
        assert_eq!(check(&source, &mut reader, 1 << 20..1 << 20, false), 0);
    }

    #[test]
    fn data_are_asked_for_as_they_are_until_somebody_goes_on() {
        let (source, mut reader) = start(64 << 20);
        let step = 200_000;
        assert_eq!(check(&source, &mut reader, 30_000_000..30_200_000, true), 1);
        assert_eq!(*source.asked.lock().unwrap(), [(30_000_000, step)]);
        let asked: usize =
            (0..100).map(|n| check(&source, &mut reader, n * step..(n + 1) * step, true)).sum();
        assert!(asked < 40, "{asked} requests");
        // With idle time between reads, it stays ahead.
        let mut late = 0;
        for n in 100..200 {
            while reader.look_ahead() {}
            late += check(&source, &mut reader, n * step..(n + 1) * step, true);
        }
        assert_eq!(late, 0);
    }

    #[test]
    fn large_ranges_are_not_kept() {
        let (source, mut reader) = start(200 << 20);
        assert_eq!(check(&source, &mut reader, 5..(10 << 20) + 5, true), 10);
        assert_eq!(reader.total, 0);
        check(&source, &mut reader, 1 << 20..(1 << 20) + 10, false);
        // Cached bytes in the middle are not requested again.
        check(&source, &mut reader, 0..4 << 20, true);
        let asked = source.asked.lock().unwrap();
        assert!(asked.iter().rev().take(4).all(|(start, length)| *start != 1 << 20 || *length != 1 << 20));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (source, mut reader) = start(1 << 30);
        for n in 0..80 {
            check(&source, &mut reader, n * (5 << 20)..n * (5 << 20) + (1 << 20), true);
            assert!(reader.total <= MAX_CACHED_BYTES);
        }
        assert_eq!(reader.total, reader.kept.iter().map(|kept| kept.bytes.len() as u64).sum::<u64>());
    }
}
