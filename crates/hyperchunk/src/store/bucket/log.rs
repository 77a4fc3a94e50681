//! A log that is sent to an object store while it is written.

use super::late::Late;
use super::{Bucket, parts};
use crate::Result;
use crate::store::WriterId;
use crate::store::site::Folder as _;
use crate::write::{Sink as _, StreamSink};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a writer writes since it flushed last is an object, which is there when it flushes again.
#[derive(Debug)]
pub(in crate::store) struct Sent {
    bucket: Bucket,
    writer: WriterId,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Where in the log the object begins.
    from: u64,
    object: Option<StreamSink>,
}

impl Sent {
    pub(in crate::store) fn new(bucket: &Bucket, writer: WriterId) -> Self {
        Self { bucket: bucket.clone(), writer, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the object, and says where in it something of the log is.
    fn with(&self, offset: u64, run: impl FnOnce(&StreamSink, u64) -> Result<()>) -> Result<()> {
        let mut state = self.state();
        let from = state.from;
        let object = state.object.get_or_insert_with(|| {
            let upload = Arc::new(Late::new(&self.bucket, self.writer, from));
            let name = self.bucket.place(&parts::name_of(self.writer, from)).display().to_string();
            let options = self.bucket.options();
            StreamSink::new(upload, &name, options.part, options.parts_at_once, 0)
        });
        run(object, offset.saturating_sub(from))
    }

    /// Writes bytes at a place in the log.
    pub(in crate::store) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.with(offset, |object, offset| object.write_at(offset, bytes))
    }

    /// Says that nothing is written to a place.
    pub(in crate::store) fn skip(&self, offset: u64, length: u64) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        self.with(offset, |object, offset| object.skip(offset, length))
    }

    /// Reads back what was written and not sent yet.
    pub(in crate::store) fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.with(offset, |object, offset| object.read_at(offset, out))
    }

    /// Everything up to here is in the bucket for good, or this is an error and none of it is.
    pub(in crate::store) fn finish(&self, end: u64) -> Result<()> {
        self.with(end, |object, size| object.publish(size))?;
        *self.state() = State { from: end, object: None };
        Ok(())
    }
}
