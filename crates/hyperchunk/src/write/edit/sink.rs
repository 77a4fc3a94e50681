//! Sink of an edit. Bytes that the last commit uses are replaced through the redo journal at the next commit.
//! Others are written directly, unless they are few: then they are in the journal, too, so that the commit need
//! not wait for the disk once more.

use super::super::sink::Sink;
use super::super::space::Ranges;
use super::OnlyEdit;
use super::redo::Redo;
use crate::Result;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockWriteGuard};

/// Maximum number of new bytes in the journal of a commit.
const MAX_COLLECTED_BYTES: usize = 32 << 10;

/// Sink of a file that is edited.
#[derive(Debug)]
pub(super) struct EditSink {
    file: Arc<dyn Sink>,
    redo: RwLock<Redo>,
    /// End of the bytes that the last commit uses.
    committed_end: AtomicU64,
    /// True if bytes have been written without the journal since the last commit.
    is_fresh: AtomicBool,
    /// Number of new bytes that the journal may still get for the next commit.
    collectable: AtomicUsize,
    /// True if a commit waits for the disk.
    is_synced: bool,
    /// Freed space that was reused since the last commit, by HDF5 address; and the file offset of address 0.
    reused: OnceLock<(Arc<Ranges>, u64)>,
    /// Registration that excludes other edits of the file by this process, until it is released.
    only: Mutex<Option<OnlyEdit>>,
}

impl EditSink {
    /// Starts an edit of a file whose last commit ends at `end`. With `is_synced`, commits wait for the disk.
    pub(super) fn new(
        file: Arc<dyn Sink>,
        redo: Redo,
        end: u64,
        (is_synced, only): (bool, OnlyEdit),
    ) -> Self {
        let collectable = AtomicUsize::new(MAX_COLLECTED_BYTES);
        let (redo, only) = (RwLock::new(redo), Mutex::new(Some(only)));
        let (committed_end, is_fresh) = (AtomicU64::new(end), AtomicBool::new(false));
        Self { file, redo, committed_end, is_fresh, collectable, is_synced, reused: OnceLock::new(), only }
    }

    /// Sets the ranges that may be written directly, by HDF5 address, and the file offset of address 0.
    pub(super) fn set_reused(&self, ranges: Arc<Ranges>, base: u64) {
        drop(self.reused.set((ranges, base)));
    }

    /// Returns whether the last commit does not use a range.
    fn is_free(&self, offset: u64, length: usize) -> bool {
        let inside = |(ranges, base): &(Arc<Ranges>, u64)| {
            offset.checked_sub(*base).is_some_and(|address| ranges.contain(address, length as u64))
        };
        offset >= self.committed_end.load(Ordering::Acquire) || self.reused.get().is_some_and(inside)
    }

    /// Returns whether the journal gets new bytes: if it has bytes for the same range, or if they are few, and
    /// the next commit need not sync others.
    fn collects(&self, redo: &Redo, offset: u64, length: usize) -> bool {
        let few = length <= self.collectable.load(Ordering::Acquire);
        (few && self.is_synced && !self.is_fresh.load(Ordering::Acquire))
            || redo.overlaps(offset, length as u64)
    }

    fn may_collect(&self, offset: u64, length: usize) -> bool {
        self.collects(&self.redo.read().unwrap_or_else(PoisonError::into_inner), offset, length)
    }

    /// Writes bytes that the last commit does not use, to the file or to the journal.
    fn write_new(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.may_collect(offset, bytes.len()) {
            let mut redo = self.redo_mut();
            // Another thread may have committed in the meantime; no bytes can be added to a complete journal.
            redo.apply(&*self.file)?;
            if self.collects(&redo, offset, bytes.len()) {
                redo.write_free(offset, bytes)?;
                let rest = self.collectable.load(Ordering::Acquire).saturating_sub(bytes.len());
                self.collectable.store(rest, Ordering::Release);
                return Ok(());
            }
        }
        self.write_free(|file| file.write_at(offset, bytes))
    }

    /// Writes bytes that the last commit does not use to the file.
    fn write_free(&self, write: impl FnOnce(&dyn Sink) -> Result<()>) -> Result<()> {
        let written = write(&*self.file);
        // Set after the write: if set before, a commit in between would reset it, and the bytes would not be
        // synced by the next one. That commit itself does not refer to these bytes.
        self.is_fresh.store(true, Ordering::Release);
        written
    }

    /// Writes a complete commit to the file, if that failed before, for instance because the disk was full.
    fn finish(&self) -> Result<()> {
        let is_complete = self.redo.read().unwrap_or_else(PoisonError::into_inner).is_complete();
        if is_complete { self.redo_mut().apply(&*self.file) } else { Ok(()) }
    }

    fn redo_mut(&self) -> RwLockWriteGuard<'_, Redo> {
        self.redo.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for EditSink {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.finish()?;
        if bytes.is_empty() {
            return Ok(());
        }
        if self.is_free(offset, bytes.len()) {
            return self.write_new(offset, bytes);
        }
        let mut redo = self.redo_mut();
        // Another thread may have committed in the meantime; no bytes can be added to a complete journal.
        redo.apply(&*self.file)?;
        let end = self.committed_end.load(Ordering::Acquire);
        let covered = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
        let (committed, free) = bytes.split_at(covered);
        redo.write(offset, committed)?;
        drop(redo);
        let after = offset + committed.len() as u64;
        if free.is_empty() { Ok(()) } else { self.write_new(after, free) }
    }

    fn write_parts_at(&self, mut offset: u64, parts: &mut [IoSlice<'_>]) -> Result<()> {
        self.finish()?;
        let length = parts.iter().map(|part| part.len()).sum();
        if self.is_free(offset, length) {
            if self.may_collect(offset, length) {
                let parts: Vec<&[u8]> = parts.iter().map(|part| &**part).collect();
                return self.write_at(offset, &parts.concat());
            }
            return self.write_free(|file| file.write_parts_at(offset, parts));
        }
        for part in parts.iter() {
            self.write_at(offset, part)?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let redo = self.redo.read().unwrap_or_else(PoisonError::into_inner);
        self.file.read_at(offset, buffer)?;
        redo.overlay(offset, buffer)
    }

    fn sync(&self) -> Result<()> {
        // `publish` syncs; before that, no commit refers to the bytes.
        Ok(())
    }

    fn publish(&self, size: u64) -> Result<()> {
        let mut redo = self.redo_mut();
        // A commit that is only in the journal must keep all of its bytes.
        redo.apply(&*self.file)?;
        let mut length = self.committed_end.load(Ordering::Acquire);
        // New bytes must be on disk, or in the journal, before the commit that refers to them.
        if self.is_fresh.load(Ordering::Acquire) || redo.needs_free_bytes(size, length) {
            // Until it is synced, also after a failure.
            self.is_fresh.store(true, Ordering::Release);
            redo.write_free_bytes(&*self.file)?;
            self.is_fresh.store(false, Ordering::Release);
            self.file.publish(size).inspect_err(|_| self.is_fresh.store(true, Ordering::Release))?;
            length = length.max(size);
        } else {
            self.file.check_place()?;
        }
        let completed = redo.complete(&*self.file, size, length);
        completed.inspect_err(|_| self.is_fresh.store(true, Ordering::Release))?;
        self.collectable.store(MAX_COLLECTED_BYTES, Ordering::Release);
        // From here on the commit is valid; `settle` writes it to the file.
        self.committed_end.fetch_max(size, Ordering::AcqRel);
        if let Some((reused, _)) = self.reused.get() {
            reused.clear();
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.finish()
    }

    fn cut(&self, _: u64) -> Result<()> {
        Ok(())
    }

    fn discard(&self) -> Result<()> {
        let mut redo = self.redo_mut();
        redo.remove()?;
        // Removes uncommitted bytes after the end of the last commit.
        if redo.is_complete() { Ok(()) } else { self.file.cut(self.committed_end.load(Ordering::Acquire)) }
    }

    fn release(&self) {
        // The journal of a commit that is not in the file is kept: the next program that opens the file
        // completes it.
        drop(self.redo_mut().remove());
        self.file.release();
        drop(self.only.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
