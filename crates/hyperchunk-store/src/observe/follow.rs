//! Standing queries: matches in newly flushed data, before any commit.
//!
//! Logs are read batch by batch, without locks. Only data before a trailer count, since the trailer
//! marks them as flushed. Records whose statistics exclude a match are not read.

use crate::Session;
use crate::commit::overlap::fetch;
use crate::commit::writers;
use crate::format::header::{HEADER_BYTES, TRAILER_BYTES};
use crate::format::record;
use crate::format::record::{Body, FIXED_HEADER_BYTES, Record};
use crate::location::process;
use crate::location::site::Site;
use crate::query::{Elements, Predicate};
use crate::{
    DatasetWrites, Definition, Extreme, Hyperslab, Log, Manifest, Piece, PieceForm, WriterId, log_path,
};
use hyperchunk::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

/// Number of bytes of a record tested at a time.
const READ_BYTES: u64 = 8 << 20;
/// Number of bytes that end one poll; the next one continues there.
const MAX_POLL_BYTES: u64 = 64 << 20;
/// Maximum length of a definition in bytes.
const MAX_DEFINITION_BYTES: u64 = 64 << 20;

/// A standing query. Data committed before it began are not searched.
#[derive(Debug)]
pub struct Follow {
    path: PathBuf,
    dataset: Vec<u8>,
    predicate: Predicate,
    tails: BTreeMap<WriterId, Tail>,
    /// True if data were committed when it began.
    has_data: bool,
}

/// Matching values that a writer flushed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlushedMatches {
    /// Writer of the values.
    pub writer: WriterId,
    /// True for appended rows: their indices count from the writer's first appended row.
    pub appended: bool,
    /// Indices of the values, concatenated.
    pub indices: Vec<u64>,
    /// The values, in the dataset's datatype.
    pub values: Vec<u8>,
    elements: Elements,
}

impl FlushedMatches {
    /// Returns the values as numbers.
    #[must_use]
    pub fn numbers(&self) -> Vec<Extreme> {
        self.elements.values(&self.values).numbers()
    }
}

/// Result of a poll.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PollReport {
    /// The matches.
    pub seen: Vec<FlushedMatches>,
    /// Number of bytes of elements read.
    pub bytes_scanned: u64,
    /// Number of writers that were not committed when the query began.
    pub writers: usize,
    /// True if all writers that have begun are finished or stopped. Before any write or commit it is
    /// false, since no writer has begun.
    pub done: bool,
    /// Writers whose processes ended on this machine without closing their logs, with data that were not committed
    /// when the query began.
    pub stopped: Vec<WriterId>,
}

/// Read position in a log.
#[derive(Debug)]
struct Tail {
    at: u64,
    /// Number of the next record.
    next: u64,
    /// Length that was committed when the query began.
    committed: u64,
    /// Datasets of the log; `Some` for the followed ones.
    known: Vec<Option<FollowedDataset>>,
    /// Records that are not flushed yet.
    waiting: Vec<FlushedRecord>,
    /// Flushed records that are still to be tested.
    flushed: VecDeque<FlushedRecord>,
    done: bool,
}

/// A record, tested after its writer flushed it.
#[derive(Debug)]
struct FlushedRecord {
    order: u64,
    /// Offset of its batch, and of its payload.
    head: u64,
    place: u64,
    record: Record,
    /// Parts still to be read, and whether they are appended rows; `None` before it was begun.
    parts: Option<VecDeque<(Piece, bool, Hyperslab)>>,
}

#[derive(Debug)]
struct FollowedDataset {
    definition: Definition,
    elements: Elements,
    dims: Vec<u64>,
}

impl Follow {
    /// Starts to follow the writes to the dataset at this path of a store.
    ///
    /// # Errors
    /// Io; Corrupt if the newest epoch is damaged.
    pub fn new(path: &Path, dataset: &[u8], predicate: Predicate) -> Result<Self> {
        let path = crate::real_file(path);
        let newest = Manifest::newest(&path)?;
        let mut tails = BTreeMap::new();
        for log in newest.iter().flat_map(|newest| &newest.logs) {
            let tail = Tail { committed: log.length, done: log.finished, ..Tail::new() };
            tails.insert(log.writer, tail);
        }
        for writer in newest.iter().flat_map(|newest| &newest.hidden) {
            tails.insert(*writer, Tail { done: true, ..Tail::new() });
        }
        let has_data =
            newest.iter().flat_map(|newest| &newest.datasets).any(|dataset| !dataset.parts.is_empty());
        Ok(Self { path, dataset: dataset.to_vec(), predicate, tails, has_data })
    }

    /// Returns matches in the data flushed since the last poll. A large amount is spread over
    /// several polls.
    ///
    /// # Errors
    /// Io; Corrupt if flushed data do not match their checksum; Unsupported for elements that are
    /// not plain numbers.
    pub fn poll(&mut self) -> Result<PollReport> {
        let mut polled = PollReport { done: true, ..PollReport::default() };
        for writer in writers(Site::from(&self.path))? {
            let tail = self.tails.entry(writer).or_insert_with(Tail::new);
            let is_new = tail.committed == 0;
            if !tail.done || !tail.flushed.is_empty() {
                let name = log_path(&self.path, writer);
                let (mut is_stopped, mut is_committed) = (false, false);
                let walked = Log::open_for_reads(&name).and_then(|log| {
                    is_stopped = process::is_stopped(&log.header);
                    // A compacted log repeats other writers' data.
                    if log.header.session == Session::compaction() {
                        tail.done = true;
                        return Ok(());
                    }
                    // The length may be from before the process ended.
                    let log = if is_stopped { Log::open_for_reads(&name)? } else { log };
                    is_committed = log.file_size() <= tail.committed;
                    tail.scan_records(&log, &self.dataset, &self.predicate, &mut polled)
                });
                match walked {
                    Ok(()) => {}
                    // The log has just been created, or was deleted after a compaction.
                    Err(error) if tail.is_gone(&error) => {}
                    Err(error) => return Err(error.file(name.display())),
                }
                if is_stopped && !tail.done && !is_committed {
                    polled.stopped.push(writer);
                }
                polled.done &= (tail.done || is_stopped) && tail.flushed.is_empty();
            }
            polled.writers += usize::from(is_new && tail.at > HEADER_BYTES as u64);
        }
        polled.done &= polled.writers > 0 || self.has_data;
        Ok(polled)
    }
}

impl Tail {
    fn new() -> Self {
        let (waiting, flushed) = (Vec::new(), VecDeque::new());
        let (at, known) = (HEADER_BYTES as u64, Vec::new());
        Self { at, next: 0, committed: 0, known, waiting, flushed, done: false }
    }

    /// Returns whether an error means that there is no log: not yet, or no longer.
    fn is_gone(&self, error: &Error) -> bool {
        let begins = self.at == HEADER_BYTES as u64 && error.kind() == ErrorKind::Truncated;
        begins || (self.flushed.is_empty() && error.kind() == ErrorKind::NotFound)
    }

    fn scan_records(
        &mut self,
        log: &Log,
        path: &[u8],
        predicate: &Predicate,
        polled: &mut PollReport,
    ) -> Result<()> {
        self.test_records(log, predicate, polled)?;
        let size = log.file_size();
        while !self.done && self.flushed.is_empty() {
            if let Some(trailer) = log.trailer_at(self.at)? {
                self.flushed.extend(std::mem::take(&mut self.waiting));
                self.at += TRAILER_BYTES as u64;
                self.done = trailer.closed;
                self.test_records(log, predicate, polled)?;
                continue;
            }
            let mut fixed = [0; FIXED_HEADER_BYTES];
            if self.at.saturating_add(FIXED_HEADER_BYTES as u64) > size {
                break;
            }
            log.read_at(self.at, &mut fixed)?;
            let Some((header, payload)) = record::lengths(&fixed) else { break };
            let end = self.at.checked_add(header).and_then(|end| end.checked_add(payload));
            if end.is_none_or(|end| end > size) {
                break;
            }
            let mut bytes = hyperchunk::room::zeros(usize::try_from(header).unwrap_or(usize::MAX))?;
            log.read_at(self.at, &mut bytes)?;
            // The batch may be incomplete because it is being written.
            let Ok(batch) = record::decode(&bytes, self.at) else { break };
            if batch.first != self.next {
                return Err(Error::corrupt(
                    "the record numbers of a batch do not continue those of the previous one",
                )
                .at(self.at));
            }
            let mut place = self.at + header;
            let mut places = Vec::with_capacity(batch.records.len());
            for record in &batch.records {
                places.push(place);
                place = place.saturating_add(record.length);
            }
            let mut defined =
                places.iter().zip(&batch.records).filter(|(_, record)| record.body == Body::Define);
            // Definitions are needed before they are flushed.
            if !defined.try_fold(true, |whole, (place, record)| {
                Ok::<_, Error>(whole && log.is_whole(record, *place, &|_| Err(Error::corrupt("no rows")))?)
            })? {
                break;
            }
            self.next = batch.first.saturating_add(batch.records.len() as u64);
            for ((order, record), place) in (batch.first..).zip(batch.records).zip(places) {
                self.note(log, (order, place), record, path, predicate)?;
            }
            self.at = place.next_multiple_of(8);
        }
        Ok(())
    }

    /// Adds a definition to the known datasets, or queues a record that may match until it is flushed.
    fn note(
        &mut self,
        log: &Log,
        (order, place): (u64, u64),
        record: Record,
        path: &[u8],
        predicate: &Predicate,
    ) -> Result<()> {
        if record.body == Body::Define {
            if record.length > MAX_DEFINITION_BYTES {
                return Err(Error::corrupt(format!("a definition of {} bytes", record.length)).at(place));
            }
            let length = usize::try_from(record.length).map_err(|_| Error::limit("larger than memory"))?;
            let mut bytes = hyperchunk::room::zeros(length)?;
            log.read_at(place, &mut bytes)?;
            let definition = Definition::decode(&bytes)?;
            let known = if definition.path == path {
                let elements = Elements::from_datatype(&definition.datatype)?;
                Some(FollowedDataset { dims: definition.dims.clone(), definition, elements })
            } else {
                None
            };
            self.known.push(known);
            return Ok(());
        }
        let Some(Some(known)) = self.known.get(record.dataset as usize) else { return Ok(()) };
        let wanted = match &record.body {
            Body::Extent(_) => true,
            Body::Boxes(_) | Body::Append(_) | Body::Rows { .. } | Body::Chunk { .. } => {
                let may = |statistics| predicate.judge(statistics, known.elements.size()).yes;
                self.at >= self.committed && record.statistics.as_ref().is_none_or(may)
            }
            // Single fields of compound elements are not numbers and never match.
            Body::Fields { .. } => false,
            _ => false,
        };
        if wanted {
            self.waiting.push(FlushedRecord { order, head: self.at, place, record, parts: None });
        }
        Ok(())
    }

    /// Reads flushed records and tests them, until the limit of one poll is reached.
    fn test_records(&mut self, log: &Log, predicate: &Predicate, polled: &mut PollReport) -> Result<()> {
        while let Some(flushed) = self.flushed.front_mut() {
            let Some(Some(known)) = self.known.get_mut(flushed.record.dataset as usize) else {
                self.flushed.pop_front();
                continue;
            };
            if let Body::Extent(dims) = &flushed.record.body {
                known.dims.clone_from(dims);
                self.flushed.pop_front();
                continue;
            }
            if polled.bytes_scanned >= MAX_POLL_BYTES {
                return Ok(());
            }
            let parts = match &mut flushed.parts {
                Some(parts) => parts,
                none => none.insert(known.parts(
                    log,
                    flushed.order,
                    flushed.head,
                    flushed.place,
                    &flushed.record,
                )?),
            };
            let Some((piece, appended, slab)) = parts.pop_front() else {
                self.flushed.pop_front();
                continue;
            };
            let bytes = fetch(log, &known.definition, &piece, &slab)?;
            polled.bytes_scanned = polled.bytes_scanned.saturating_add(bytes.len() as u64);
            let (indices, values) = (Vec::new(), Vec::new());
            let mut seen =
                FlushedMatches { writer: log.writer(), appended, indices, values, elements: known.elements };
            predicate.find(known.elements, &slab, &bytes, &mut seen.indices, &mut seen.values);
            if !seen.values.is_empty() {
                polled.seen.push(seen);
            }
        }
        Ok(())
    }
}

impl FollowedDataset {
    /// Checks a record against its checksum and returns the parts of it to be read.
    fn parts(
        &self,
        log: &Log,
        order: u64,
        head: u64,
        place: u64,
        record: &Record,
    ) -> Result<VecDeque<(Piece, bool, Hyperslab)>> {
        if !log.is_whole(record, place, &|_| Ok(self.definition.clone()))? {
            return Err(Error::corrupt("flushed data do not match their checksum").at(place));
        }
        let mut written = DatasetWrites::nothing(self.dims.len());
        let chunk = self.definition.chunk.as_deref().unwrap_or_default();
        written.add(record, order, head, place, self.definition.element_size(), chunk);
        let pieces = written.pieces.iter().map(|piece| (piece, false));
        let mut all = VecDeque::new();
        for (piece, appended) in pieces.chain(written.appended.iter().map(|piece| (piece, true))) {
            piece.slab.check(self.dims.len())?;
            let size = piece.form.size(self.definition.element_size());
            let bytes = piece.slab.elements()?.checked_mul(size);
            if !piece.form.is_chunk() && bytes != Some(piece.length) {
                return Err(Error::corrupt(format!(
                    "a box whose size is not the {} bytes of its piece",
                    piece.length
                ))
                .at(place));
            }
            for slab in parts(&piece, &self.dims, self.elements.size() as u64)? {
                all.push_back((piece.clone(), appended, slab));
            }
        }
        Ok(all)
    }
}

/// Splits a piece into parts that are each read at once.
fn parts(piece: &Piece, dims: &[u64], size: u64) -> Result<Vec<Hyperslab>> {
    let whole = match piece.form {
        // Elements of a chunk past the extent are not visible.
        PieceForm::Chunk { .. } => match piece.slab.clipped(dims) {
            Some(slab) => return Ok(vec![slab]),
            None => return Ok(Vec::new()),
        },
        PieceForm::Raw | PieceForm::Fields { .. } => piece.slab.clone(),
    };
    let Some(rows) = whole.count.first().copied() else { return Ok(vec![whole]) };
    let row = (whole.elements()? / rows.max(1)).saturating_mul(size).max(1);
    let step = (READ_BYTES / row).max(1);
    let mut parts = Vec::new();
    let mut at = 0;
    while at < rows {
        let mut part = whole.clone();
        part.start[0] += at;
        part.count[0] = step.min(rows - at);
        parts.push(part);
        at += step;
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::compact;
    use crate::commit::{CommitOptions, commit};
    use crate::tests::{Folder, options};
    use crate::{LogWriter, WriterOptions};
    use hyperchunk::model::{ByteOrder, Datatype};
    use hyperchunk::write::Sync;

    fn found(polled: &PollReport) -> Vec<(u64, u8)> {
        let all = polled.seen.iter().flat_map(|seen| seen.indices.iter().zip(&seen.values));
        all.map(|(index, value)| (*index, *value)).collect()
    }

    #[test]
    fn what_is_flushed_is_found_once() {
        let folder = Folder::new();
        let path = folder.0.join("a.h5");
        let definition = Definition::new("/a", Datatype::integer(1, false, ByteOrder::Little), vec![1 << 20]);
        let begin = |statistics| {
            let writer = LogWriter::create(&path, &WriterOptions { statistics, ..options() }).unwrap();
            let number = writer.define(&definition).unwrap();
            (writer, number)
        };
        let (old, number) = begin(true);
        old.write_box(number, &[3], &[1], &[200]).unwrap();
        old.close().unwrap();
        let never = CommitOptions { sync: Sync::Never, ..CommitOptions::default() };
        commit(&path, &never).unwrap().unwrap();
        let mut follow = Follow::new(&path, b"/a", "value > 100".parse().unwrap()).unwrap();
        assert_eq!(found(&follow.poll().unwrap()), []);
        let (writer, number) = begin(true);
        writer.write_box(number, &[10], &[2], &[101, 5]).unwrap();
        let polled = follow.poll().unwrap();
        assert!(found(&polled).is_empty() && !polled.done, "it was not flushed");
        writer.flush().unwrap();
        assert_eq!(found(&follow.poll().unwrap()), [(10, 101)]);
        assert_eq!(found(&follow.poll().unwrap()), []);
        let (other, of_other) = begin(false);
        other.write_box(of_other, &[0], &[200_000], &vec![50; 200_000]).unwrap();
        other.write_box(of_other, &[500_000], &[200_000], &vec![101; 200_000]).unwrap();
        other.close().unwrap();
        writer.write_box(number, &[20], &[1], &[3]).unwrap();
        writer.flush().unwrap();
        let polled = follow.poll().unwrap();
        assert_eq!((polled.seen.len(), polled.seen[0].values.len(), polled.writers), (1, 200_000, 2));
        assert_eq!(polled.bytes_scanned, 400_000, "statistics rule out what has any");
        assert!(!polled.done);
        writer.close().unwrap();
        let polled = follow.poll().unwrap();
        assert!(polled.done && polled.seen.is_empty());
    }

    #[test]
    fn what_is_compacted_is_not_found_again() {
        let folder = Folder::new();
        let path = folder.0.join("a.h5");
        let definition = Definition::new("/a", Datatype::integer(1, false, ByteOrder::Little), vec![1000]);
        let never = CommitOptions { sync: Sync::Never, ..CommitOptions::default() };
        let mut follow = Follow::new(&path, b"/a", "value > 100".parse().unwrap()).unwrap();
        for at in 0..3 {
            let writer = LogWriter::create(&path, &options()).unwrap();
            let number = writer.define(&definition).unwrap();
            writer.write_box(number, &[at * 10], &[1], &[200]).unwrap();
            writer.close().unwrap();
            commit(&path, &never).unwrap().unwrap();
        }
        let mut all = found(&follow.poll().unwrap());
        all.sort_unstable();
        assert_eq!(all, [(0, 200), (10, 200), (20, 200)]);
        let compacting = compact::CompactOptions { sync: Sync::Never, ..Default::default() };
        compact::compact(&path, &compacting).unwrap().unwrap();
        let polled = follow.poll().unwrap();
        assert!(polled.seen.is_empty() && polled.done, "{polled:?}");
    }

    #[test]
    fn much_is_looked_at_in_parts() {
        let folder = Folder::new();
        let path = folder.0.join("a.h5");
        let (rows, row) = (72, 1_u64 << 20);
        let definition =
            Definition::new("/a", Datatype::integer(1, false, ByteOrder::Little), vec![rows, row]);
        let writer = LogWriter::create(&path, &options()).unwrap();
        let number = writer.define(&definition).unwrap();
        let mut bytes = vec![0; usize::try_from(36 * row).unwrap()];
        bytes.iter_mut().step_by(usize::try_from(row).unwrap()).for_each(|byte| *byte = 7);
        for half in [0, 36] {
            writer.write_box(number, &[half, 0], &[36, row], &bytes).unwrap();
        }
        writer.close().unwrap();
        let mut follow = Follow::new(&path, b"/a", "value == 7".parse().unwrap()).unwrap();
        let (mut all, mut looks) = (Vec::new(), 0);
        loop {
            let polled = follow.poll().unwrap();
            assert!(polled.bytes_scanned <= MAX_POLL_BYTES + READ_BYTES);
            all.extend(
                polled.seen.iter().flat_map(|seen| seen.indices.chunks_exact(2).map(|index| index[0])),
            );
            looks += 1;
            if polled.done {
                break;
            }
        }
        assert!(all.iter().copied().eq(0..rows) && looks > 1, "{looks}");
    }
}
