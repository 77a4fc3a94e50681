//! I/O plan of a wave of pieces ([`waves`](super::overlay_order::waves)): the byte ranges of logs to
//! read, and the processing of the bytes.

use super::pieces::FoundPiece;
use crate::format::checksums::{LastBatch, Record};
use crate::format::fragment_offset::{inside, is_in};
use crate::format::piece::PieceForm;
use crate::read::plan::{PartRead, ReadResources};
use crate::statistics::{Pass, checksum};
use hyperchunk::internal::{ChunkCache, Part, Parts, Scratch, spread};
use hyperchunk::io::Source;
use hyperchunk::{Error, Result};
use hyperchunk_format::select::Run;
use std::ops::Range;
use std::sync::Arc;

/// Maximum size in bytes of a piece that is read together with its neighbours.
const MAX_COALESCED_PIECE_BYTES: u64 = 256 << 10;
/// Maximum number of bytes that are read together.
const MAX_READ_BYTES: u64 = 1 << 20;
/// Maximum gap in bytes that is read over.
const MAX_GAP_BYTES: u64 = 4 << 10;
/// Maximum number of bytes per job, of a piece that is not read whole.
const MAX_JOB_BYTES: u64 = 8 << 20;
/// Minimum density of a range that is read at once: one wanted byte in this number of bytes.
const MAX_READ_AMPLIFICATION: u64 = 8;
/// Number of bytes that are read and verified while they are in the processor's cache.
const BLOCK_BYTES: usize = 256 << 10;
/// Maximum number of logs opened concurrently.
const MAX_CONCURRENT_OPENS: usize = 16;
/// Size in bytes above which remote records are not verified, since they would have to be in memory
/// as a whole.
const MAX_REMOTE_VERIFIED_BYTES: u64 = 64 << 20;

/// The jobs of a wave.
pub(crate) struct IoPlan {
    /// The pieces, in order of their location in the logs.
    order: Vec<u32>,
    pub(crate) jobs: Vec<Job>,
}

/// A unit of work.
pub(crate) enum Job {
    /// Pieces whose bytes are read together.
    Together(Range<usize>, Range<u64>),
    /// All boxes of one large record, read whole.
    Whole(Range<usize>, Range<u64>),
    /// A part of a large piece.
    Part(usize, Vec<Range<u64>>),
    /// A chunk in the cache of decoded chunks.
    Decoded(usize, Arc<[u8]>),
}

/// The needed bytes of a piece.
struct NeededBytes {
    range: Range<u64>,
    /// True if all of it is wanted, so that it is verified.
    whole: bool,
    bounds: Vec<Range<u64>>,
}

impl IoPlan {
    /// Plans the jobs for these pieces.
    pub(crate) fn new(
        part_read: &PartRead<'_>,
        mut order: Vec<u32>,
        means: ReadResources<'_>,
    ) -> Result<Self> {
        let has_chunks = order.iter().any(|place| part_read.piece(*place).form.is_chunk());
        if has_chunks && part_read.chunk_bytes as u64 > means.limits.chunk_bytes {
            let message =
                format!("chunks of more than {} bytes (limit `chunk_bytes`)", means.limits.chunk_bytes);
            return Err(Error::limit(message));
        }
        order.iter().try_for_each(|place| part_read.check(*place))?;
        let key = |place: &u32| {
            let found = part_read.piece(*place);
            (part_read.logs.extent(found.layer).0, found.offset)
        };
        order.sort_unstable_by_key(key);
        let mut spans = Self { order, jobs: Vec::new() };
        let mut at = 0;
        while at < spans.order.len() {
            at = spans.add(part_read, at)?;
        }
        Ok(spans)
    }

    /// Returns the approximate number of bytes to read.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = self.jobs.iter().map(|job| match job {
            Job::Together(_, range) | Job::Whole(_, range) => range.end - range.start,
            Job::Part(..) => MAX_JOB_BYTES,
            Job::Decoded(..) => 0,
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// Adds a job for the piece at a position in the order, and possibly for pieces after it.
    /// Returns the next position.
    fn add(&mut self, part_read: &PartRead<'_>, at: usize) -> Result<usize> {
        let place = self.order[at];
        let found = *part_read.piece(place);
        let needed = part_read.needed(place);
        if let PieceForm::Chunk { .. } = found.form
            && !needed.whole
            && ChunkCache::takes(part_read.chunk_bytes)
            && let Some(bytes) =
                part_read.logs.chunks().get((part_read.logs.extent(found.layer).0, found.offset))
        {
            self.jobs.push(Job::Decoded(at, bytes));
            return Ok(at + 1);
        }
        if !found.form.is_chunk() && needed.range.end - needed.range.start > MAX_COALESCED_PIECE_BYTES {
            if !needed.whole {
                part_read.split_piece((at, place), &needed.bounds, &mut self.jobs);
                return Ok(at + 1);
            }
            // The boxes of one record are consecutive, and in one layer.
            let mut end = at + 1;
            let mut range = needed.range;
            while let Some(next) = self.order.get(end) {
                let after = part_read.piece(*next);
                let same =
                    after.layer == found.layer && after.order == found.order && after.offset == range.end;
                if !same || !part_read.needed(*next).whole {
                    break;
                }
                range.end += after.length;
                end += 1;
            }
            self.jobs.push(Job::Whole(at..end, range));
            return Ok(end);
        }
        let log = |at: usize| part_read.logs.extent(part_read.piece(self.order[at]).layer).0;
        match self.jobs.last_mut() {
            Some(Job::Together(places, range))
                if places.end == at
                    && log(places.start) == log(at)
                    && needed.range.start <= range.end.saturating_add(MAX_GAP_BYTES)
                    && needed.range.end.max(range.end) - range.start.min(needed.range.start)
                        <= MAX_READ_BYTES =>
            {
                places.end = at + 1;
                *range = range.start.min(needed.range.start)..range.end.max(needed.range.end);
            }
            _ => self.jobs.push(Job::Together(at..at + 1, needed.range)),
        }
        Ok(at + 1)
    }
}

impl<'a> PartRead<'a> {
    /// Returns the needed bytes of a piece.
    fn needed(&self, place: u32) -> NeededBytes {
        let found = self.piece(place);
        let bounds = self.bounds(place);
        let whole = self.is_whole(place, &bounds);
        let range = match found.form {
            _ if whole => 0..found.length,
            PieceForm::Chunk { .. } => 0..found.length,
            PieceForm::Raw | PieceForm::Fields { .. } => self.wanted_range(place, &bounds),
        };
        NeededBytes { range: found.offset + range.start..found.offset + range.end, whole, bounds }
    }

    /// Returns the range from the first to the last wanted byte of a part of a raw piece, relative
    /// to the piece.
    fn wanted_range(&self, place: u32, bounds: &[Range<u64>]) -> Range<u64> {
        let size = self.size(place);
        if self.grid.is_none() {
            let moves = &self.moves[place as usize];
            let first = moves.first().map_or(0, |run| run.source as u64);
            let end = moves.iter().map(|run| (run.source + run.block) as u64).max().unwrap_or(first);
            return first * size..end * size;
        }
        let (start, count) = self.slab(place);
        let (mut first, mut last) = (0_u64, 0_u64);
        for ((range, start), count) in bounds.iter().zip(start).zip(count) {
            first = first * count + (range.start - start);
            last = last * count + (range.end - 1 - start);
        }
        first * size..(last + 1) * size
    }

    /// Splits a partly wanted large piece into jobs.
    fn split_piece(&self, (at, place): (usize, u32), bounds: &[Range<u64>], jobs: &mut Vec<Job>) {
        let elements = |bounds: &[Range<u64>]| {
            bounds.iter().fold(1_u64, |count, range| count.saturating_mul(range.end - range.start))
        };
        let axis = bounds.iter().position(|range| range.end - range.start > 1);
        let Some(axis) = axis.filter(|_| self.grid.is_some()) else {
            jobs.push(Job::Part(at, bounds.to_vec()));
            return;
        };
        let size = self.size(place);
        let inner = elements(&bounds[axis + 1..]).saturating_mul(size).max(1);
        let step = (MAX_JOB_BYTES / inner).max(1);
        let mut start = bounds[axis].start;
        while start < bounds[axis].end {
            let end = start.saturating_add(step).min(bounds[axis].end);
            let mut part = bounds.to_vec();
            part[axis] = start..end;
            jobs.push(Job::Part(at, part));
            start = end;
        }
    }

    /// Splits a part of a raw piece into byte ranges that are dense enough; calls `each` in order
    /// with the part and its bytes relative to the piece.
    fn spans(&self, place: u32, bounds: &[Range<u64>], each: &mut Each<'_, Range<u64>>) -> Result<()> {
        let Some(grid) = &self.grid else { return Err(Error::invalid("no selection along each axis")) };
        let Some(bounds) = grid.within(bounds) else { return Ok(()) };
        let span = self.wanted_range(place, &bounds);
        let length = span.end - span.start;
        let wanted = grid.count(&bounds).saturating_mul(self.size(place));
        let dense = length <= MAX_GAP_BYTES || wanted.saturating_mul(MAX_READ_AMPLIFICATION) >= length;
        let axis = bounds.iter().position(|range| range.end - range.start > 1);
        match axis {
            Some(axis) if length > MAX_READ_BYTES || !dense => {
                let middle = bounds[axis].start + (bounds[axis].end - bounds[axis].start) / 2;
                let mut half = bounds.clone();
                half[axis].end = middle;
                self.spans(place, &half, each)?;
                half[axis] = middle..bounds[axis].end;
                self.spans(place, &half, each)
            }
            _ => each(&bounds, span),
        }
    }

    /// Groups the copies of a piece by ranges that are read together.
    fn groups(&self, place: u32, each: &mut Each<'_, Run>) -> Result<()> {
        let size = self.size(place);
        let bytes = |run: &Run| run.source as u64 * size..(run.source + run.block) as u64 * size;
        let mut rest = self.moves[place as usize].as_slice();
        while let Some(first) = rest.first() {
            let mut span = bytes(first);
            let mut count = 1;
            for run in &rest[1..] {
                let next = bytes(run);
                if next.start > span.end + MAX_GAP_BYTES
                    || next.end.max(span.end) - span.start > MAX_READ_BYTES
                {
                    break;
                }
                span.end = span.end.max(next.end);
                count += 1;
            }
            let (group, after) = rest.split_at(count);
            each(group, span)?;
            rest = after;
        }
        Ok(())
    }

    /// Executes a job on local logs.
    pub(crate) fn execute(&self, spans: &IoPlan, job: &Job, scratch: &mut Scratch) -> Result<()> {
        let at = match job {
            Job::Together(places, _) | Job::Whole(places, _) => places.start,
            Job::Part(at, _) | Job::Decoded(at, _) => *at,
        };
        let found = *self.piece(spans.order[at]);
        let result = self.logs.log(found.layer).and_then(|log| match job {
            Job::Together(places, range) => {
                let mut stored = std::mem::take(&mut scratch.stored);
                resize(&mut stored, range.end - range.start)?;
                let done = log.read_at(range.start, &mut stored).and_then(|()| {
                    self.process_coalesced(
                        &spans.order[places.clone()],
                        range.start,
                        &stored,
                        scratch,
                        Some(&*log),
                    )
                });
                scratch.stored = stored;
                done
            }
            Job::Whole(places, range) => {
                self.read_record(&spans.order[places.clone()], range, scratch, &*log)
            }
            Job::Part(at, bounds) => self.read_part(spans.order[*at], bounds, scratch, &*log),
            Job::Decoded(at, bytes) => self.scatter(spans.order[*at], None, 0, bytes, scratch),
        });
        result.map_err(|error| self.with_location(error, found.layer, found.offset))
    }

    /// Adds the ranges of remote logs that a wave needs to `parts`.
    pub(crate) fn plan(self: &Arc<Self>, spans: &Arc<IoPlan>, parts: &mut Parts<'a>) -> Result<()> {
        // Opening a log takes a request, so several are opened concurrently.
        let mut layers: Vec<u32> = spans.order.iter().map(|place| self.piece(*place).layer).collect();
        layers.sort_unstable_by_key(|layer| self.logs.extent(*layer).0);
        layers.dedup_by_key(|layer| self.logs.extent(*layer).0);
        spread(
            layers.len().min(MAX_CONCURRENT_OPENS),
            layers.into_iter(),
            || (),
            |(), layer| self.logs.log(layer).map(drop),
        )?;
        for (number, job) in spans.jobs.iter().enumerate() {
            let at = match job {
                Job::Together(places, _) | Job::Whole(places, _) => places.start,
                Job::Part(at, _) | Job::Decoded(at, _) => *at,
            };
            let place = spans.order[at];
            let found = *self.piece(place);
            let source = match self.logs.fragment(found.layer)?.filter(|_| is_in(found.offset)) {
                Some(fragment) => fragment,
                None => self.logs.log(found.layer)?,
            };
            let mut add = |range: Range<u64>, work: ProcessBytes<'a>| {
                let range = if is_in(range.start) {
                    inside(range.start)..inside(range.start) + (range.end - range.start)
                } else {
                    range
                };
                let part_read = Arc::clone(self);
                let work = move |bytes: &[u8], scratch: &mut Scratch| {
                    work(&part_read, bytes, scratch)
                        .map_err(|error| part_read.with_location(error, found.layer, found.offset))
                };
                parts.add(&source, Part { range, work: Box::new(work) });
            };
            match job {
                Job::Together(places, range) | Job::Whole(places, range)
                    if matches!(job, Job::Together(..))
                        || range.end - range.start <= MAX_REMOTE_VERIFIED_BYTES =>
                {
                    self.plan_headers(&spans.order[places.clone()], &mut add);
                    let (spans, start) = (Arc::clone(spans), range.start);
                    let work: ProcessBytes<'a> =
                        Box::new(move |part_read, bytes, scratch| match &spans.jobs[number] {
                            Job::Together(places, _) | Job::Whole(places, _) => part_read.process_coalesced(
                                &spans.order[places.clone()],
                                start,
                                bytes,
                                scratch,
                                None,
                            ),
                            _ => Ok(()),
                        });
                    add(range.clone(), work);
                }
                Job::Together(places, _) | Job::Whole(places, _) => {
                    for place in &spans.order[places.clone()] {
                        let offset = self.piece(*place).offset;
                        self.plan_part(*place, &self.bounds(*place), offset, &mut add)?;
                    }
                }
                Job::Part(_, bounds) => self.plan_part(place, bounds, found.offset, &mut add)?,
                Job::Decoded(_, bytes) => {
                    self.scatter(place, None, 0, bytes, &mut Scratch::default())?;
                }
            }
        }
        Ok(())
    }

    fn plan_part(
        &self,
        place: u32,
        bounds: &[Range<u64>],
        offset: u64,
        add: &mut impl FnMut(Range<u64>, ProcessBytes<'a>),
    ) -> Result<()> {
        let size = self.size(place);
        if self.grid.is_none() {
            return self.groups(place, &mut |group, span| {
                let group = group.to_vec();
                let first = span.start / size;
                let work: ProcessBytes<'a> = Box::new(move |part_read, bytes, scratch| {
                    group.iter().try_for_each(|run| part_read.copy_run((place, run), first, bytes, scratch))
                });
                add(offset + span.start..offset + span.end, work);
                Ok(())
            });
        }
        self.spans(place, bounds, &mut |bounds, span| {
            let bounds = bounds.to_vec();
            let first = span.start / size;
            let work: ProcessBytes<'a> = Box::new(move |part_read, bytes, scratch| {
                part_read.scatter(place, Some(&bounds), first, bytes, scratch)
            });
            add(offset + span.start..offset + span.end, work);
            Ok(())
        })
    }

    /// Requests the headers of the batches whose records are read whole.
    fn plan_headers(&self, places: &[u32], add: &mut impl FnMut(Range<u64>, ProcessBytes<'a>)) {
        for place in places {
            let found = *self.piece(*place);
            let Some(headers) = self.logs.headers(found.layer) else { continue };
            let key = (self.logs.extent(found.layer).0, found.head);
            let verified = found.form.is_chunk() || self.is_whole(*place, &self.bounds(*place));
            // For rows in a fragment, the header is in another file.
            let elsewhere = is_in(found.offset);
            if !verified || elsewhere || found.head >= found.offset || !self.checks.is_missing(headers, key) {
                continue;
            }
            let work: ProcessBytes<'a> =
                Box::new(move |part_read, bytes, _| match part_read.logs.headers(found.layer) {
                    Some(headers) => part_read.checks.header(headers, key, bytes),
                    None => Ok(()),
                });
            add(found.head..found.offset, work);
        }
    }

    /// Processes pieces whose bytes were read together; `bytes` begin at `start` of the log.
    fn process_coalesced(
        &self,
        places: &[u32],
        start: u64,
        bytes: &[u8],
        scratch: &mut Scratch,
        log: Option<&dyn Source>,
    ) -> Result<()> {
        let part = |from: u64, to: u64| {
            let from = from.checked_sub(start).and_then(|from| usize::try_from(from).ok());
            let to = to.checked_sub(start).and_then(|to| usize::try_from(to).ok());
            let part = from.zip(to).and_then(|(from, to)| bytes.get(from..to));
            part.ok_or_else(|| Error::invalid("a piece outside of the bytes that were read"))
        };
        let mut batch = LastBatch::default();
        let same = |a: &u32, b: &u32| {
            let (a, b) = (self.piece(*a), self.piece(*b));
            a.layer == b.layer && a.order == b.order && a.offset + a.length == b.offset
        };
        for record in places.chunk_by(same) {
            let (first, last) = (self.piece(record[0]), self.piece(record[record.len() - 1]));
            let mut whole = true;
            for place in record {
                let found = self.piece(*place);
                let named = |error: Error| self.with_location(error, found.layer, found.offset);
                let needed = self.needed(*place);
                whole &= needed.whole || found.form.is_chunk();
                match found.form {
                    PieceForm::Raw | PieceForm::Fields { .. } => {
                        let first = (needed.range.start - found.offset) / self.size(*place);
                        let stored = part(needed.range.start, needed.range.end)?;
                        self.scatter(*place, None, first, stored, scratch).map_err(named)?;
                    }
                    PieceForm::Chunk { mask } => {
                        let stored = part(found.offset, found.offset + found.length)?;
                        let mut decoder = std::mem::take(&mut scratch.decoder);
                        let decoded = decoder.decode(&self.about.pipeline, mask, stored, self.chunk_bytes);
                        let done = decoded.and_then(|decoded| {
                            if !needed.whole && ChunkCache::takes(self.chunk_bytes) {
                                let key = (self.logs.extent(found.layer).0, found.offset);
                                self.logs.chunks().insert(key, decoded);
                            }
                            self.scatter(*place, None, 0, decoded, scratch)
                        });
                        scratch.decoder = decoder;
                        // Report a checksum error in preference to the filter error that it causes.
                        if let Err(error) = done {
                            self.verify(first, stored, log, &mut batch).map_err(named)?;
                            return Err(named(error.within("chunk")));
                        }
                    }
                }
            }
            if whole {
                let stored = part(first.offset, last.offset + last.length)?;
                self.verify(first, stored, log, &mut batch)
                    .map_err(|error| self.with_location(error, first.layer, first.offset))?;
            }
        }
        Ok(())
    }

    /// Verifies a record that was read whole; without the log, as soon as its header arrives.
    fn verify(
        &self,
        found: &FoundPiece,
        stored: &[u8],
        log: Option<&dyn Source>,
        batch: &mut LastBatch,
    ) -> Result<()> {
        let Some(headers) = self.logs.headers(found.layer) else { return Ok(()) };
        let key = (self.logs.extent(found.layer).0, found.head);
        let (place, length) = (found.offset, stored.len() as u64);
        let record = || Record { place, length, checksum: checksum(stored) };
        match log {
            Some(log) => match headers.expected(key, log, (place, length), batch)? {
                Some(expected) => record().check(expected),
                None => Ok(()),
            },
            None => self.checks.check_record(key, record()),
        }
    }

    /// Reads and verifies a whole record of raw boxes.
    fn read_record(
        &self,
        places: &[u32],
        range: &Range<u64>,
        scratch: &mut Scratch,
        log: &dyn Source,
    ) -> Result<()> {
        let found = *self.piece(places[0]);
        let (start, length) = (range.start, range.end - range.start);
        let expected = match self.logs.headers(found.layer) {
            Some(headers) => {
                let key = (self.logs.extent(found.layer).0, found.head);
                headers.expected(key, log, (start, length), &mut LastBatch::default())?
            }
            None => None,
        };
        let mut pass = Pass::new(expected.is_some(), None);
        let mut next = start;
        let mut in_order = true;
        for place in places {
            let offset = self.piece(*place).offset;
            self.read_blocks(*place, &self.bounds(*place), scratch, log, &mut |span, bytes| {
                in_order &= offset + span == next;
                next = offset + span + bytes.len() as u64;
                pass.update_checksum(bytes);
            })?;
        }
        if !in_order || next != range.end {
            return Err(Error::invalid("a piece that is not read in order"));
        }
        let (checksum, _) = pass.finish();
        let record = Record { place: start, length, checksum };
        expected.map_or(Ok(()), |expected| record.check(expected))
    }

    /// Reads a part of a large piece.
    fn read_part(
        &self,
        place: u32,
        bounds: &[Range<u64>],
        scratch: &mut Scratch,
        log: &dyn Source,
    ) -> Result<()> {
        let offset = self.piece(place).offset;
        let size = self.size(place);
        if self.grid.is_some() {
            return self.read_blocks(place, bounds, scratch, log, &mut |_, _| ());
        }
        let mut stored = std::mem::take(&mut scratch.stored);
        let done = self.groups(place, &mut |group, span| {
            resize(&mut stored, span.end - span.start)?;
            log.read_at(offset + span.start, &mut stored)?;
            let first = span.start / size;
            group.iter().try_for_each(|run| self.copy_run((place, run), first, &stored, scratch))
        });
        scratch.stored = stored;
        done
    }

    /// As `read_part`; `look` is called with each block of bytes and its offset in the piece.
    fn read_blocks(
        &self,
        place: u32,
        bounds: &[Range<u64>],
        scratch: &mut Scratch,
        log: &dyn Source,
        look: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<()> {
        let offset = self.piece(place).offset;
        let size = self.size(place);
        let is_direct = self.output.is_copy() && self.piece(place).form == PieceForm::Raw;
        let only = self.grid.as_ref().and_then(|grid| grid.only_run(self.slab(place), bounds));
        if let Some(run) = only.filter(|run| run.count == 1 && is_direct) {
            // SAFETY: pieces of a wave, and parts of one piece, have disjoint targets, and each is
            // of one thread.
            let part = unsafe { self.output.direct(run.target, run.block) }?;
            let mut at = run.source as u64 * size;
            for block in part.chunks_mut(BLOCK_BYTES) {
                log.read_at(offset + at, block)?;
                look(at, block);
                at += block.len() as u64;
            }
            return Ok(());
        }
        let mut stored = std::mem::take(&mut scratch.stored);
        let done = self.spans(place, bounds, &mut |bounds, span| {
            resize(&mut stored, span.end - span.start)?;
            log.read_at(offset + span.start, &mut stored)?;
            look(span.start, &stored);
            self.scatter(place, Some(bounds), span.start / size, &stored, scratch)
        });
        scratch.stored = stored;
        done
    }

    /// Copies elements of a piece, or of a part of it, to their destination; `bytes` begin with
    /// element `first` of the piece.
    fn scatter(
        &self,
        place: u32,
        bounds: Option<&[Range<u64>]>,
        first: u64,
        bytes: &[u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let all;
        let bounds = match bounds {
            Some(bounds) => bounds,
            None => {
                all = self.bounds(place);
                &all
            }
        };
        self.runs(place, bounds, |run| self.copy_run((place, &run), first, bytes, scratch))
    }

    /// Returns the number of bytes that a piece has of each element.
    fn size(&self, place: u32) -> u64 {
        self.piece(place).form.size(self.about.element as u64)
    }

    fn copy_run(
        &self,
        (place, run): (u32, &Run),
        first: u64,
        bytes: &[u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let source = usize::try_from(first).ok().and_then(|first| run.source.checked_sub(first));
        let source = source.ok_or_else(|| Error::invalid("a run outside of the bytes that were read"))?;
        // SAFETY: pieces of a wave, and parts of one piece, have disjoint targets, and each is of
        // one thread.
        unsafe {
            let run = Run { source, ..*run };
            match self.piece(place).form {
                PieceForm::Raw | PieceForm::Chunk { .. } => {
                    self.output.put_run(&run, bytes, &mut scratch.gathered)
                }
                fields @ PieceForm::Fields { .. } => {
                    let put = |stored: &[u8], part: &mut [u8]| fields.put(self.about.element, stored, part);
                    let size = usize::try_from(self.size(place)).unwrap_or(usize::MAX);
                    self.output.put_parts(&run, (size, bytes), &mut scratch.gathered, put)
                }
            }
        }
    }
}

/// Callback for some items of a piece and their byte range, relative to the piece.
type Each<'e, T> = dyn FnMut(&[T], Range<u64>) -> Result<()> + 'e;

/// Processing of bytes that were fetched.
type ProcessBytes<'a> = Box<dyn Fn(&PartRead<'a>, &[u8], &mut Scratch) -> Result<()> + Send + Sync + 'a>;

/// Resizes a buffer to `length` bytes.
fn resize(buffer: &mut Vec<u8>, length: u64) -> Result<()> {
    let length = usize::try_from(length).map_err(|_| Error::limit("larger than the address space"))?;
    hyperchunk::room::resize(buffer, length)
}
