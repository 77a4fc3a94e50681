//! Standing queries: what writers flush is looked at as it comes, before anybody commits it.
//!
//! Logs are walked from batch to batch, without locks: only what lies before a trailer counts, which is what its writer flushed. Records
//! whose statistics rule out what is asked for are not read.

use super::commit::writers;
use super::header::{HEADER, TRAILER_SIZE};
use super::overlap::fetch;
use super::record::{self, Body, FIXED, Record};
use super::{Definition, Log, Manifest, Piece, Place, Slab, WriterId, Written, log_of};
use crate::query::{Elements, Predicate};
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// So many bytes of a record are tested at a time.
const AT_ONCE: u64 = 8 << 20;

/// A standing query. What was committed when it began is not looked at.
#[derive(Debug)]
pub struct Follow {
    path: PathBuf,
    dataset: Vec<u8>,
    predicate: Predicate,
    tails: BTreeMap<WriterId, Tail>,
}

/// Values that a writer flushed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// Who wrote them.
    pub writer: WriterId,
    /// Whether they are rows that go behind what is there: their indices count from the writer's first one.
    pub appended: bool,
    /// The index of each, one behind the other.
    pub indices: Vec<u64>,
    /// The values, as the dataset has them.
    pub values: Vec<u8>,
}

/// What is new.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Polled {
    /// What was found.
    pub seen: Vec<Seen>,
    /// How many bytes of elements were read.
    pub looked_at: u64,
    /// How many writers there are that are not committed.
    pub writers: usize,
    /// Whether they are all done.
    pub done: bool,
}

/// How far a log was walked.
#[derive(Debug)]
struct Tail {
    at: u64,
    /// The number of the next record.
    next: u64,
    /// Up to here it was committed when the query began.
    committed: u64,
    /// Its datasets: those that are asked for.
    known: Vec<Option<Known>>,
    /// Records that were not flushed yet: their number, where their batch begins, and where they lie.
    waiting: Vec<(u64, u64, u64, Record)>,
    done: bool,
}

#[derive(Debug)]
struct Known {
    definition: Definition,
    elements: Elements,
    dims: Vec<u64>,
}

impl Follow {
    /// Begins to follow what is written to the dataset at this path of a store.
    ///
    /// # Errors
    /// Io; Corrupt if the newest epoch is damaged.
    pub fn new(path: &Path, dataset: &[u8], predicate: Predicate) -> Result<Self> {
        let newest = Manifest::newest(path)?;
        let mut tails = BTreeMap::new();
        for log in newest.iter().flat_map(|newest| &newest.logs) {
            let tail = Tail { committed: log.length, done: log.finished, ..Tail::new() };
            tails.insert(log.writer, tail);
        }
        for writer in newest.iter().flat_map(|newest| &newest.hidden) {
            tails.insert(*writer, Tail { done: true, ..Tail::new() });
        }
        Ok(Self { path: path.to_owned(), dataset: dataset.to_vec(), predicate, tails })
    }

    /// What was flushed since the last time.
    ///
    /// # Errors
    /// Io; Corrupt if what was flushed is not as it was written; Unsupported for elements that are no plain numbers.
    pub fn poll(&mut self) -> Result<Polled> {
        let mut polled = Polled { done: true, ..Polled::default() };
        for writer in writers(&self.path)? {
            let tail = self.tails.entry(writer).or_insert_with(Tail::new);
            let is_new = tail.committed == 0;
            if !tail.done {
                let name = log_of(&self.path, writer);
                match Log::bytes_of(&name) {
                    Ok(log) => {
                        let walk = tail.walk(&log, &self.dataset, &self.predicate, &mut polled);
                        walk.map_err(|error| error.file(name.display()))?;
                    }
                    // It has just begun, or was compacted away.
                    Err(error) if matches!(error.kind(), ErrorKind::Truncated | ErrorKind::NotFound) => {}
                    Err(error) => return Err(error),
                }
                polled.done &= tail.done;
            }
            polled.writers += usize::from(is_new && tail.at > HEADER as u64);
        }
        polled.done &= polled.writers > 0;
        Ok(polled)
    }
}

impl Tail {
    fn new() -> Self {
        Self { at: HEADER as u64, next: 0, committed: 0, known: Vec::new(), waiting: Vec::new(), done: false }
    }

    fn walk(&mut self, log: &Log, path: &[u8], predicate: &Predicate, polled: &mut Polled) -> Result<()> {
        let size = log.file_size();
        while !self.done {
            if let Some(trailer) = log.trailer_at(self.at)? {
                for (order, head, place, record) in std::mem::take(&mut self.waiting) {
                    self.look(log, (order, head, place), &record, predicate, polled)?;
                }
                self.at += TRAILER_SIZE as u64;
                self.done = trailer.closed;
                continue;
            }
            let mut fixed = [0; FIXED];
            if self.at.saturating_add(FIXED as u64) > size {
                break;
            }
            log.read_at(self.at, &mut fixed)?;
            let Some((header, payload)) = record::lengths(&fixed) else { break };
            let end = self.at.checked_add(header).and_then(|end| end.checked_add(payload));
            if end.is_none_or(|end| end > size) {
                break;
            }
            let mut bytes = vec![0; usize::try_from(header).unwrap_or(usize::MAX)];
            log.read_at(self.at, &mut bytes)?;
            // It may be being written right now.
            let Ok(batch) = record::decode(&bytes, self.at) else { break };
            if batch.first != self.next {
                return Err(Error::corrupt("a batch does not go on where the one before ended").at(self.at));
            }
            let mut place = self.at + header;
            for (order, record) in (batch.first..).zip(batch.records.iter()) {
                self.note(log, (order, place), record, path, predicate)?;
                place += record.length;
            }
            self.next += batch.records.len() as u64;
            self.at = place.next_multiple_of(8);
        }
        Ok(())
    }

    fn note(
        &mut self,
        log: &Log,
        (order, place): (u64, u64),
        record: &Record,
        path: &[u8],
        predicate: &Predicate,
    ) -> Result<()> {
        if record.body == Body::Define {
            let length = usize::try_from(record.length).map_err(|_| Error::limit("larger than memory"))?;
            let mut bytes = vec![0; length];
            log.read_at(place, &mut bytes)?;
            let definition = Definition::decode(&bytes)?;
            let known = if definition.path == path {
                let elements = Elements::of(&definition.datatype)?;
                Some(Known { dims: definition.dims.clone(), definition, elements })
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
            _ => false,
        };
        if wanted {
            self.waiting.push((order, self.at, place, record.clone()));
        }
        Ok(())
    }

    /// Reads a record, and finds what is asked for.
    fn look(
        &mut self,
        log: &Log,
        (order, head, place): (u64, u64, u64),
        record: &Record,
        predicate: &Predicate,
        polled: &mut Polled,
    ) -> Result<()> {
        let Some(Some(known)) = self.known.get_mut(record.dataset as usize) else { return Ok(()) };
        if let Body::Extent(dims) = &record.body {
            known.dims.clone_from(dims);
            return Ok(());
        }
        let definition = &known.definition;
        if !log.is_whole(record, place, &|_| Ok(definition.clone()))? {
            return Err(Error::corrupt("what was flushed is not as it was written").at(place));
        }
        let mut written = Written::nothing(known.dims.len());
        let chunk = definition.chunk.as_deref().unwrap_or_default();
        written.add(record, order, head, place, definition.element_size(), chunk);
        let size = known.elements.size() as u64;
        let pieces = written.pieces.iter().map(|piece| (piece, false));
        for (piece, appended) in pieces.chain(written.appended.iter().map(|piece| (piece, true))) {
            let mut seen = Seen { writer: log.writer(), appended, indices: Vec::new(), values: Vec::new() };
            for slab in parts(&piece, &known.dims, size)? {
                let bytes = fetch(log, definition, &piece, &slab)?;
                polled.looked_at = polled.looked_at.saturating_add(bytes.len() as u64);
                predicate.find(known.elements, &slab, &bytes, &mut seen.indices, &mut seen.values);
            }
            if !seen.values.is_empty() {
                polled.seen.push(seen);
            }
        }
        Ok(())
    }
}

/// A piece in parts that are read at once.
fn parts(piece: &Piece, dims: &[u64], size: u64) -> Result<Vec<Slab>> {
    let whole = match piece.place {
        // What a chunk has beyond the extent is not seen.
        Place::Chunk { .. } => match piece.slab.clipped(dims) {
            Some(slab) => return Ok(vec![slab]),
            None => return Ok(Vec::new()),
        },
        Place::Raw => piece.slab.clone(),
    };
    let Some(rows) = whole.count.first().copied() else { return Ok(vec![whole]) };
    let row = (whole.elements()? / rows.max(1)).saturating_mul(size).max(1);
    let step = (AT_ONCE / row).max(1);
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
    use crate::model::{ByteOrder, Datatype};
    use crate::store::commit::{CommitOptions, commit};
    use crate::store::tests::{Folder, options};
    use crate::store::{LogWriter, WriterOptions};
    use crate::write::Sync;

    fn found(polled: &Polled) -> Vec<(u64, u8)> {
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
        assert_eq!(polled.looked_at, 400_000, "statistics rule out what has any");
        assert!(!polled.done);
        writer.close().unwrap();
        let polled = follow.poll().unwrap();
        assert!(polled.done && polled.seen.is_empty());
    }
}
