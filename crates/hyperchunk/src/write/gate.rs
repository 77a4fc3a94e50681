//! Gate of a writer: counts the operations in progress, so that closing waits for them.

use crate::{Error, Result, os};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Polling interval while waiting for operations to end.
const RETRY_INTERVAL: Duration = Duration::from_micros(100);

/// Gate of a writer.
#[derive(Debug)]
pub(super) struct Gate {
    in_use: AtomicUsize,
    closed: AtomicBool,
    /// Process that created the writer; a forked child must not use it.
    process: u32,
}

/// An operation in progress.
#[derive(Debug)]
#[must_use]
pub(super) struct InUse<'a>(&'a Gate);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.in_use.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Gate {
    pub(super) fn new() -> Self {
        Self { in_use: AtomicUsize::new(0), closed: AtomicBool::new(false), process: os::process_id() }
    }

    /// Begins an operation; it ends when the returned guard is dropped.
    ///
    /// # Errors
    /// Invalid if the writer is closed, or was created by another process.
    pub(super) fn enter(&self) -> Result<InUse<'_>> {
        self.check_process()?;
        self.in_use.fetch_add(1, Ordering::SeqCst);
        let entered = InUse(self);
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::invalid("the file is closed"));
        }
        Ok(entered)
    }

    /// Checks that this process is the one that created the writer, and not a forked child.
    pub(super) fn check_process(&self) -> Result<()> {
        if self.process == os::process_id() {
            return Ok(());
        }
        Err(Error::invalid(
            "cannot use the file: the parent process, from which this one was forked, is writing it; open it again after \
             the parent has closed it",
        ))
    }

    /// Refuses new operations, and waits until those in progress have ended.
    pub(super) fn close(&self) {
        self.refuse();
        while self.in_use.load(Ordering::SeqCst) != 0 {
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    /// Refuses new operations.
    pub(super) fn refuse(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Admits operations again after closing has failed.
    pub(super) fn reopen(&self) {
        self.closed.store(false, Ordering::SeqCst);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}
