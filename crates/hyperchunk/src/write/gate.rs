//! Gate of a writer: counts the operations in progress, so that closing waits for them.

use crate::{Error, Result, os};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Time between two looks at whether operations have ended.
const RETRY_INTERVAL: Duration = Duration::from_micros(100);

/// Gate of a writer.
#[derive(Debug)]
pub(super) struct Gate {
    in_use: AtomicUsize,
    closed: AtomicBool,
    /// The process that made the writer; a forked child is another.
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

    /// Begins an operation, which ends with the returned value.
    ///
    /// # Errors
    /// Invalid if the writer is closed, or is another process's.
    pub(super) fn enter(&self) -> Result<InUse<'_>> {
        self.check_process()?;
        self.in_use.fetch_add(1, Ordering::SeqCst);
        let entered = InUse(self);
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::invalid("the file is closed"));
        }
        Ok(entered)
    }

    /// Refuses a process that was forked from the writer's.
    pub(super) fn check_process(&self) -> Result<()> {
        if self.process == os::process_id() {
            return Ok(());
        }
        Err(Error::invalid(
            "cannot use the file: the process that this one was forked from is writing it; open it again after that one \
             has closed it",
        ))
    }

    /// Refuses further operations, and waits for those in progress.
    pub(super) fn close(&self) {
        self.refuse();
        while self.in_use.load(Ordering::SeqCst) != 0 {
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    /// Refuses further operations.
    pub(super) fn refuse(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Admits operations again: closing failed.
    pub(super) fn reopen(&self) {
        self.closed.store(false, Ordering::SeqCst);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}
