//! Reading of a file that is being written. Its structure is in memory, its data are in the sink.

use super::commit::freeze;
use super::sink::Sink;
use super::writer::Writer;
use crate::io::{Source, ends_before};
use crate::{File, OpenOptions, Result};
use std::fmt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Source that reads a snapshot of a file.
pub(super) struct SnapshotSource {
    pub(super) sink: Arc<dyn Sink>,
    /// Ranges of the file that are missing or different in the sink, as offset and bytes, in order of offset.
    pub(super) pieces: Vec<(u64, Vec<u8>)>,
    /// Size in bytes.
    pub(super) size: u64,
}

impl fmt::Debug for SnapshotSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotSource").field("size", &self.size).finish_non_exhaustive()
    }
}

/// Converts a length; `usize::MAX` if it is too large.
pub(super) fn narrow(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

impl Source for SnapshotSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.size);
        let end = end.ok_or_else(|| ends_before(self.size, offset, buffer.len()))?;
        let mut at = offset;
        while at < end {
            let place = self.pieces.partition_point(|(start, _)| *start <= at);
            let before = place.checked_sub(1).and_then(|place| self.pieces.get(place));
            let next = self.pieces.get(place).map_or(end, |(start, _)| (*start).min(end));
            let from = narrow(at - offset);
            match before.filter(|(start, bytes)| at - start < bytes.len() as u64) {
                Some((start, bytes)) => {
                    let skip = narrow(at - start);
                    let count = (bytes.len() - skip).min(narrow(next - at));
                    buffer[from..from + count].copy_from_slice(&bytes[skip..skip + count]);
                    at += count as u64;
                }
                None => {
                    let count = narrow(next - at);
                    self.sink.read_at(at, &mut buffer[from..from + count])?;
                    at = next;
                }
            }
        }
        Ok(())
    }
}

/// A snapshot: the counts of changes and of fixed addresses at which it was taken, the file, and the address of
/// each object.
pub(super) type Snapshot = ((u64, u64), File, Arc<[u64]>);

/// Guard of a read of the current state. While it exists, freed space is not reused, so that other threads may write
/// and commit.
#[derive(Debug)]
pub struct ReadGuard(Writer, u64);

impl Drop for ReadGuard {
    fn drop(&mut self) {
        self.0.0.space.read_ends(self.1);
    }
}

impl Writer {
    /// Begins a read of the current state. Call this before [`Writer::snapshot`], and keep the result until
    /// the read has ended.
    #[must_use]
    pub fn reading(&self) -> ReadGuard {
        ReadGuard(self.clone(), self.0.space.read_begins())
    }

    /// Returns the current state of the file for reading. It is valid until the next write, or, if a
    /// [`ReadGuard`] began before, until that is dropped.
    ///
    /// # Errors
    /// As [`Writer::flush`]; Unsupported if the sink cannot be read.
    pub fn snapshot(&self) -> Result<File> {
        self.picture().map(|(file, _)| file)
    }

    /// Returns the current state of the file, and the address of each object in it.
    pub(super) fn picture(&self) -> Result<(File, Arc<[u64]>)> {
        let _in_use = self.0.open()?;
        let mut last = self.0.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = (self.changes(), self.0.pins.load(Ordering::Acquire));
        if let Some((_, file, addresses)) = last.as_ref().filter(|(at, ..)| *at == counts) {
            return Ok((file.clone(), Arc::clone(addresses)));
        }
        let _one = self.0.commits();
        let (file, addresses) = self.take_snapshot().map_err(|error| self.0.named(error))?;
        *last = Some((counts, file.clone(), Arc::clone(&addresses)));
        Ok((file, addresses))
    }

    fn take_snapshot(&self) -> Result<(File, Arc<[u64]>)> {
        self.0.flush_waiting()?;
        let structure = {
            let tree = self.0.tree();
            let frozen = freeze(&tree, false);
            self.0.heap.flush(&self.0.space, &*self.0.sink, self.0.edit.is_some())?;
            self.0.front_heap.flush(&self.0.space, &*self.0.sink, self.0.edit.is_some())?;
            // The structure is located after all allocated space, where it cannot overlap other data.
            let likely = self.0.space.end().next_multiple_of(8);
            let order = if self.0.edit.is_some() { tree.changed() } else { tree.all() };
            self.0.structure(&tree, &order, &frozen, likely, None, |_| {
                Ok(self.0.space.end().next_multiple_of(8))
            })?
        };
        let superblock = self.0.superblock(&structure, 0)?;
        let mut pieces = structure.pinned;
        pieces.push((0, superblock));
        pieces.push((structure.start, structure.region));
        pieces.sort_by_key(|(start, _)| *start);
        let source = SnapshotSource { sink: Arc::clone(&self.0.sink), pieces, size: structure.end };
        let mut options = OpenOptions::default();
        let (mut path, mut located) = (None, None);
        if let Some(edit) = &self.0.edit {
            // Names of other files are relative to the folder of the edited file.
            path = edit.base.path().map(Path::to_owned);
            located = edit.base.located().map(Path::to_owned);
            options.index = crate::index::IndexOption::Never;
            options.ignore_layouts = true;
        }
        let file = File::from_source_at(Arc::new(source), path, located, &options)?;
        Ok((file, structure.addresses.into()))
    }
}
