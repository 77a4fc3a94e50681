//! Sink of an edit: bytes of the last commit are replaced through the redo journal, at the next commit; others are
//! written at once.

use super::super::sink::Sink;
use super::OnlyEdit;
use super::redo::Redo;
use crate::Result;
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard};

/// Sink of a file that is edited.
#[derive(Debug)]
pub(super) struct EditSink {
    file: Arc<dyn Sink>,
    redo: RwLock<Redo>,
    /// End of the bytes that the last commit uses.
    committed_end: AtomicU64,
    /// Keeps other edits of the file by this program out, until it is released.
    only: Mutex<Option<OnlyEdit>>,
}

impl EditSink {
    /// Starts an edit of a file whose last commit ends at `end`.
    pub(super) fn new(file: Arc<dyn Sink>, redo: Redo, end: u64, only: OnlyEdit) -> Self {
        let (redo, only) = (RwLock::new(redo), Mutex::new(Some(only)));
        Self { file, redo, committed_end: AtomicU64::new(end), only }
    }

    fn redo_mut(&self) -> RwLockWriteGuard<'_, Redo> {
        self.redo.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for EditSink {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if offset >= self.committed_end.load(Ordering::Acquire) {
            return self.file.write_at(offset, bytes);
        }
        let mut redo = self.redo_mut();
        if redo.is_complete() {
            // A commit that was interrupted, by a full disk for example.
            redo.apply(&*self.file)?;
        }
        let end = self.committed_end.load(Ordering::Acquire);
        let covered = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
        let (committed, free) = bytes.split_at(covered);
        redo.write(offset, committed)?;
        drop(redo);
        if free.is_empty() { Ok(()) } else { self.file.write_at(offset + committed.len() as u64, free) }
    }

    fn write_parts_at(&self, mut offset: u64, parts: &mut [IoSlice<'_>]) -> Result<()> {
        if offset >= self.committed_end.load(Ordering::Acquire) {
            return self.file.write_parts_at(offset, parts);
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
        // Publishing syncs: before it, nothing refers to the bytes.
        Ok(())
    }

    fn publish(&self, size: u64) -> Result<()> {
        let mut redo = self.redo_mut();
        // New bytes are on disk before the commit that refers to them.
        self.file.publish(size)?;
        redo.complete(&*self.file, size)?;
        // Committed from here on, even if the bytes cannot be put into the file yet.
        self.committed_end.fetch_max(size, Ordering::AcqRel);
        redo.apply(&*self.file)
    }

    fn cut(&self, _: u64) -> Result<()> {
        Ok(())
    }

    fn discard(&self) -> Result<()> {
        self.redo_mut().remove()
    }

    fn release(&self) {
        // An unfinished commit stays: whoever opens the file next completes it.
        drop(self.redo_mut().remove());
        self.file.release();
        drop(self.only.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
