//! First bytes of an object, fetched by the request that opens it. The opener continues when it has enough of
//! them (`first_read`); the others (`read_ahead`) arrive in the background.

use super::fetch::POLL_INTERVAL;
use super::process::Process;
use super::request::{Target, Version};
use crate::io::{RemoteOptions, interrupt};
use crate::{Error, ErrorKind, Result};
use bytes::Bytes;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;

/// Maximum number of read-ahead bytes that all open objects together reserve.
const MAX_KEPT_BYTES: u64 = 64 << 20;
static KEPT_BYTES: AtomicU64 = AtomicU64::new(0);

/// Body of an opening request while it arrives.
pub(super) struct ArrivingBody {
    state: Mutex<State>,
    changed: Condvar,
    /// Number of bytes that the opener waits for.
    first: usize,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// Length of the whole body.
    expected: usize,
    /// Version of the object, once the response's head has arrived.
    version: Option<Version>,
    /// True when no more bytes come.
    ended: bool,
    error: Option<Error>,
}

impl ArrivingBody {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a body of `expected` bytes. Discards the bytes of an earlier attempt, which has failed.
    ///
    /// # Errors
    /// Limit if there is no memory.
    pub(super) fn begin(&self, expected: usize, version: Version) -> Result<()> {
        let mut state = self.state();
        state.bytes = Vec::new();
        let reserved = state.bytes.try_reserve_exact(expected);
        reserved.map_err(|_| Error::limit(format!("not enough memory for a request of {expected} bytes")))?;
        (state.expected, state.version) = (expected, Some(version));
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Adds bytes of the body.
    pub(super) fn push(&self, bytes: &[u8]) {
        self.state().bytes.extend_from_slice(bytes);
        self.changed.notify_all();
    }

    /// Returns whether the opener may continue. A later failure is then not an error, and is not retried.
    pub(super) fn is_answered(&self) -> bool {
        self.answered(&self.state()).is_some()
    }

    fn answered(&self, state: &State) -> Option<Version> {
        let enough = state.bytes.len() >= self.first.min(state.expected);
        state.version.clone().filter(|_| enough && state.error.is_none())
    }

    fn end(&self, error: Option<Error>) {
        let mut state = self.state();
        if state.ended {
            return;
        }
        if self.answered(&state).is_none() {
            let torn = || Error::new(ErrorKind::Io, "the request was cancelled");
            state.error = Some(error.unwrap_or_else(torn));
        }
        state.ended = true;
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until `done` returns a result, or the caller interrupts.
    fn wait<T>(&self, mut done: impl FnMut(&mut State) -> Option<Result<T>>) -> Result<T> {
        let mut state = self.state();
        loop {
            if let Some(result) = done(&mut state) {
                return result;
            }
            let waited =
                self.changed.wait_timeout(state, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if waited.1.timed_out() && interrupt::is_wanted() {
                return Err(Error::new(ErrorKind::Io, "interrupted"));
            }
        }
    }
}

/// Guard that ends the body when it is dropped, even if its task is aborted.
struct End(Arc<ArrivingBody>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end(None);
    }
}

/// The first bytes of an object.
pub(super) struct Head {
    /// The bytes that the opener waited for.
    pub(super) first: Bytes,
    rest: Option<Rest>,
}

/// The read-ahead: the bytes that arrive after the ones that the opener waited for.
struct Rest {
    arriving: Arc<ArrivingBody>,
    task: AbortHandle,
    /// Share of [`KEPT_BYTES`].
    kept: u64,
    /// The process that receives the bytes. A forked child has no threads and receives none.
    process: u32,
}

impl Head {
    /// Returns the head of an object that was opened without a request.
    pub(super) fn none() -> Self {
        Self { first: Bytes::new(), rest: None }
    }

    /// Opens an object by a request for its first bytes. `target` must not have a version.
    pub(super) fn open(process: &'static Process, target: &Target) -> Result<(Self, Version)> {
        let options: &RemoteOptions = &target.options;
        let first = options.first_read.max(1);
        let kept = keep(options.read_ahead);
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let arriving =
            Arc::new(ArrivingBody { state: Mutex::default(), changed: Condvar::new(), first: size(first) });
        let end = End(Arc::clone(&arriving));
        let target = Target { arriving: Some(Arc::clone(&arriving)), ..target.clone() };
        let range = 0..first.saturating_add(kept);
        let task = process.runtime.spawn(async move {
            let result = target.get(process, range).await;
            end.0.end(result.err());
        });
        let rest = Rest { arriving, task: task.abort_handle(), kept, process: std::process::id() };
        let arriving = &rest.arriving;
        let (version, first) = arriving.wait(|state| {
            if let Some(error) = state.error.take() {
                return Some(Err(error));
            }
            let version = arriving.answered(state)?;
            let first = state.bytes.len().min(arriving.first);
            Some(Ok((version, Bytes::copy_from_slice(state.bytes.get(..first)?))))
        })?;
        let is_all = first.len() as u64 == version.size;
        Ok((Self { first, rest: Some(rest).filter(|_| !is_all) }, version))
    }

    /// Returns the read-ahead, if this is the process that receives it.
    fn rest(&self) -> Option<&Rest> {
        self.rest.as_ref().filter(|rest| rest.process == std::process::id())
    }

    /// Returns the number of bytes that have arrived or are still expected.
    pub(super) fn length(&self) -> u64 {
        let Some(rest) = self.rest() else { return self.first.len() as u64 };
        let state = rest.arriving.state();
        if state.ended { state.bytes.len() as u64 } else { state.expected as u64 }
    }

    /// Returns a range once it has arrived; `None` if it will not arrive.
    ///
    /// # Errors
    /// Io if the caller interrupts.
    pub(super) fn get(&self, range: &Range<u64>) -> Result<Option<Bytes>> {
        let (Ok(start), Ok(end)) = (usize::try_from(range.start), usize::try_from(range.end)) else {
            return Ok(None);
        };
        if start <= end && end <= self.first.len() {
            return Ok(Some(self.first.slice(start..end)));
        }
        let Some(rest) = self.rest() else { return Ok(None) };
        rest.arriving.wait(|state| match state.bytes.get(start..end) {
            Some(bytes) => Some(Ok(Some(Bytes::copy_from_slice(bytes)))),
            None if state.ended || end > state.expected => Some(Ok(None)),
            None => None,
        })
    }

    /// Cancels the read-ahead, because the caller needs the connection's bandwidth for other bytes.
    pub(super) fn stop(&self) {
        if let Some(rest) = self.rest() {
            rest.task.abort();
        }
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        KEPT_BYTES.fetch_sub(self.kept, Ordering::AcqRel);
        if self.process == std::process::id() {
            self.task.abort();
        }
    }
}

/// Reserves memory for `bytes` bytes of read-ahead. Returns their number, or 0 if too little memory is left.
fn keep(bytes: u64) -> u64 {
    let room = |kept: u64| kept.checked_add(bytes).filter(|sum| *sum <= MAX_KEPT_BYTES);
    let reserved = KEPT_BYTES.fetch_update(Ordering::AcqRel, Ordering::Acquire, room);
    if reserved.is_ok() { bytes } else { 0 }
}
