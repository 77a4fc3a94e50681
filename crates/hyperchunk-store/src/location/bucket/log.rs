//! A log that is sent to an object store while it is written.

use super::deferred_upload::DeferredUpload;
use super::{Bucket, parts};
use crate::WriterId;
use crate::location::site::Folder as _;
use hyperchunk::Result;
use hyperchunk::write::{Sink as _, StreamSink};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Log writer for an object store. All data between two flushes form an object, which becomes
/// visible with the second flush.
#[derive(Debug)]
pub(crate) struct BucketLogWriter {
    bucket: Bucket,
    writer: WriterId,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Offset of the object in the log.
    from: u64,
    object: Option<StreamSink>,
}

impl BucketLogWriter {
    pub(crate) fn new(bucket: &Bucket, writer: WriterId) -> Self {
        Self { bucket: bucket.clone(), writer, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `run` with the current object, which is created if there is none, and the offset within it.
    fn with(&self, offset: u64, run: impl FnOnce(&StreamSink, u64) -> Result<()>) -> Result<()> {
        let mut state = self.state();
        let from = state.from;
        let object = state.object.get_or_insert_with(|| {
            let upload = Arc::new(DeferredUpload::new(&self.bucket, self.writer, from));
            let name = self.bucket.place(&parts::part_name(self.writer, from)).display().to_string();
            let options = self.bucket.options();
            StreamSink::new(upload, &name, options.part, options.parts_at_once, 0)
        });
        run(object, offset.saturating_sub(from))
    }

    /// Writes bytes at an offset in the log.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.with(offset, |object, offset| object.write_at(offset, bytes))
    }

    /// Skips bytes that are never written.
    pub(crate) fn skip(&self, offset: u64, length: u64) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        self.with(offset, |object, offset| object.skip(offset, length))
    }

    /// Reads written data that were not sent yet.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.with(offset, |object, offset| object.read_at(offset, out))
    }

    /// Completes the object up to `end`: it is durable in the bucket, or this returns an error and
    /// the object does not exist.
    pub(crate) fn finish(&self, end: u64) -> Result<()> {
        self.with(end, |object, size| object.publish(size))?;
        *self.state() = State { from: end, object: None };
        Ok(())
    }
}
