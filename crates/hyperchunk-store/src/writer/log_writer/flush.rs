//! Flushing and closing a log: writes an index of the records since the last one, and a trailer.

use super::{LogWriter, State, Target, WriteTarget, refused};
use crate::Ticket;
use crate::format::commit_report::Report;
use crate::format::header::Trailer;
use crate::format::id::hash;
use crate::format::index::DatasetWrites;
use crate::format::record;
use crate::format::record::{Body, Record};
use crate::location::lock::is_linked;
use crate::statistics::checksum;
use hyperchunk::internal::positioned::write_all_at;
use hyperchunk::write::Sync;
use hyperchunk::{Error, ErrorKind, Result};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Required durability of a flush.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    Disk,
    /// Visible to other processes only.
    Others,
}

impl LogWriter {
    /// Writes everything that is gathered to the log, without an index: other processes can find it
    /// there by reading each record.
    ///
    /// # Errors
    /// Io.
    pub fn write_out(&self) -> Result<()> {
        let mut state = self.state()?;
        self.settle(&mut state)?;
        self.spill()
    }

    /// As [`LogWriter::flush`], for other readers: without syncing to disk.
    ///
    /// # Errors
    /// Io.
    pub fn flush_visible(&self) -> Result<()> {
        self.settle_observer(false)?;
        let mut state = self.state()?;
        let ended = self.write_index(&mut state, false, Durability::Others);
        self.check_result(ended).map(drop)
    }

    pub(super) fn write_index(&self, state: &mut State, closing: bool, reach: Durability) -> Result<Ticket> {
        self.settle(state)?;
        if let Some(ticket) = state.ticket.filter(|_| !state.changed && !closing) {
            return Ok(ticket);
        }
        for dataset in 0..state.datasets.len() {
            self.put_zones(state, u32::try_from(dataset).unwrap_or(u32::MAX))?;
        }
        self.write_waiting(state)?;
        self.spill()?;
        let syncs = reach == Durability::Disk && self.0.options.sync != Sync::Never;
        for table in &mut state.tables {
            table.finish()?;
            if syncs {
                table.sync()?;
            }
        }
        let index = state.index().encode();
        let record = Record {
            dataset: 0,
            length: index.len() as u64,
            checksum: checksum(&index),
            statistics: None,
            body: Body::Index,
        };
        let mut bytes = record::encode(state.next, &[record]);
        let place = state.end + bytes.len() as u64;
        bytes.extend_from_slice(&index);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let at = state.end + bytes.len() as u64;
        let trailer = Trailer {
            index: place,
            length: index.len() as u64,
            previous: state.trailer,
            hash: hash(&index),
            next: state.next + 1,
            closed: closing,
        };
        let ending = trailer.encode();
        bytes.extend_from_slice(&ending);
        match &self.0.target {
            Target::File(file) => write_all_at(file, state.end, &bytes)
                .map_err(|error| refused("write to", &self.0.log, &error).at(state.end))?,
            Target::Object(sent) => {
                sent.write(state.end, &bytes)?;
                sent.finish(state.end + bytes.len() as u64)?;
            }
        }
        if syncs {
            self.sync()?;
        }
        self.check_linked(state)?;
        state.end += bytes.len() as u64;
        self.0.whole.store(state.end, Ordering::Relaxed);
        state.next += 1;
        state.trailer = at;
        state.indexed = state.datasets.len();
        state.changed = false;
        for dataset in &mut state.datasets {
            let written = std::mem::replace(&mut dataset.written, DatasetWrites::nothing(dataset.dims.len()));
            dataset.before.append(&written);
        }
        let ticket = Ticket { writer: self.id(), trailer: at, hash: hash(&ending) };
        let only = trailer.previous == 0;
        state.report = only.then(|| Report { ticket, header: self.0.header.clone(), trailer, index });
        state.ticket = Some(ticket);
        state.now = None;
        Ok(ticket)
    }

    /// Returns an error if a file of the writer was deleted, since its data are lost then. Examines the open
    /// files, not their names: on a shared file system, each use of a name is a request to the server, and
    /// the folder may have moved.
    pub(super) fn check_linked(&self, state: &State) -> Result<()> {
        let segments = state.tables.iter().filter_map(|table| table.segment());
        let segments = segments.map(|segment| (&*segment.file, &*segment.path));
        let log = match &self.0.target {
            Target::File(file) => Some((&**file, &*self.0.log)),
            Target::Object(_) => None,
        };
        let Some((_, path)) = log.into_iter().chain(segments).find(|(file, _)| !is_linked(file)) else {
            return Ok(());
        };
        let message = format!(
            "cannot finish the log: expected the file that this writer made at {}, got none: another program deleted or \
             replaced it, and its data are lost; write the data again with a new writer",
            path.display()
        );
        Err(Error::new(ErrorKind::Io, message))
    }

    /// Makes the finished files read-only, since plain libhdf5 could write to them through the
    /// links of a file opened for writing. If the file system has no permissions, checksums detect
    /// that. Not on Windows, where read-only files cannot be deleted or replaced.
    pub(super) fn protect(&self, state: &State) {
        if cfg!(not(unix)) {
            return;
        }
        let segments = state.tables.iter().filter_map(|table| table.segment());
        let log = match &self.0.target {
            Target::File(file) => Some(file),
            Target::Object(_) => None,
        };
        for file in segments.map(|segment| &segment.file).chain(log) {
            if let Ok(metadata) = file.metadata() {
                let mut permissions = metadata.permissions();
                permissions.set_readonly(true);
                drop(file.set_permissions(permissions));
            }
        }
    }

    /// Writes to a file, or to the buffer in memory.
    pub(super) fn write_to(&self, to: WriteTarget<'_>, offset: u64, bytes: &[u8]) -> Result<()> {
        let (file, path) = match (to, &self.0.target) {
            (WriteTarget::Segment(file, path), _) => (file, path),
            (WriteTarget::Log, Target::File(file)) => (file, &*self.0.log),
            (WriteTarget::Log, Target::Object(sent)) => return self.check_result(sent.write(offset, bytes)),
        };
        let written = match &self.0.buffer {
            Some(buffer) => {
                buffer.lock().unwrap_or_else(PoisonError::into_inner).write(file, path, offset, bytes)
            }
            None => write_all_at(file, offset, bytes)
                .map_err(|error| refused("write to", path, &error).at(offset)),
        };
        self.check_result(written)
    }

    /// Writes the buffer in memory to its files.
    pub(super) fn spill(&self) -> Result<()> {
        match &self.0.buffer {
            Some(buffer) => self.check_result(buffer.lock().unwrap_or_else(PoisonError::into_inner).spill()),
            None => Ok(()),
        }
    }

    pub(super) fn sync(&self) -> Result<()> {
        match &self.0.target {
            Target::File(file) => {
                self.check_result(file.sync_data().map_err(|error| refused("write out", &self.0.log, &error)))
            }
            // Completed objects in a bucket are durable.
            Target::Object(_) => Ok(()),
        }
    }
}
