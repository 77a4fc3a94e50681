//! Multipart upload that is started when a part other than the first is sent. An object of one part is
//! written by a single request instead, so that a writer that is stopped leaves no unfinished upload.

use super::{Bucket, note_name, parts};
use crate::WriterId;
use hyperchunk::internal::upload::{PartCallback, StoredObject, Upload};
use hyperchunk::io;
use hyperchunk::{Error, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// A deferred upload.
#[derive(Debug)]
pub(super) struct DeferredUpload {
    bucket: Bucket,
    writer: WriterId,
    from: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Nothing,
    /// The first part, not sent yet.
    Held(Vec<u8>),
    Begun(Arc<dyn Upload>),
}

impl DeferredUpload {
    /// Creates the upload of one object of a writer's log: the bytes from offset `from` of the log on.
    pub(super) fn new(bucket: &Bucket, writer: WriterId, from: u64) -> Self {
        Self { bucket: bucket.clone(), writer, from, state: Mutex::default() }
    }

    fn url(&self) -> String {
        self.bucket.object_url(&parts::part_name(self.writer, self.from))
    }

    fn note(&self) -> String {
        note_name(self.writer, self.from)
    }

    /// Starts the upload, and stores its id in a note, by which `vacuum` finds unfinished uploads.
    fn begin(&self) -> Result<Arc<dyn Upload>> {
        let upload = io::start_upload(&self.url(), self.bucket.options(), true)?;
        let note = io::put(
            &self.bucket.object_url(&self.note()),
            self.bucket.options(),
            upload.id().as_bytes().to_vec(),
        );
        note.inspect_err(|_| upload.abort())?;
        Ok(upload)
    }
}

impl Upload for DeferredUpload {
    fn send(&self, number: usize, bytes: Vec<u8>, done: PartCallback) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let upload = match &*state {
            State::Begun(upload) => Arc::clone(upload),
            // If it stays the only part, `complete` sends it.
            State::Nothing if number == 0 => {
                *state = State::Held(bytes);
                drop(state);
                return done(Ok(()));
            }
            _ => match self.begin() {
                Ok(upload) => {
                    *state = State::Begun(Arc::clone(&upload));
                    upload
                }
                Err(error) => {
                    drop(state);
                    return done(Err(error));
                }
            },
        };
        drop(state);
        upload.send(number, bytes, done);
    }

    fn complete(&self, parts: usize, size: u64) -> Result<StoredObject> {
        let state = std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner));
        match state {
            State::Held(bytes) if parts == 1 => {
                io::put(&self.url(), self.bucket.options(), bytes)?;
                Ok(StoredObject { size, etag: None })
            }
            State::Begun(upload) => {
                let stored = match upload.complete(parts, size) {
                    Ok(stored) => stored,
                    Err(error) => {
                        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::Begun(upload);
                        return Err(error);
                    }
                };
                // If this fails, `vacuum` finds the note.
                drop(self.bucket.delete(&self.note()));
                Ok(stored)
            }
            _ => Err(Error::invalid("the first part of an object was not sent")),
        }
    }

    fn abort(&self) {
        let state = std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner));
        if let State::Begun(upload) = state {
            upload.abort();
            drop(self.bucket.delete(&self.note()));
        }
    }
}
