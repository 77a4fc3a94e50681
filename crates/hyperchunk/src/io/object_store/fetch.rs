//! Concurrent requests for ranges of objects.

use super::process::Process;
use super::request::Target;
use crate::io::interrupt;
use crate::{Error, ErrorKind, Result};
use bytes::Bytes;
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Bound on the bytes in flight or waiting for the caller, in units of the largest request: for each
/// processor, and in total. Bytes that arrive faster than they are decoded would only fill memory.
const MAX_REQUESTS_AT_ONCE: (u64, u64) = (3, 16);

/// Number of requests started before the task yields to others.
const STARTED_AT_ONCE: usize = 8;

/// Interval at which the caller's interrupt is polled.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Reports the result of a request to the caller, even if its task was aborted.
struct Report {
    place: usize,
    to: Sender<(usize, Result<Bytes>)>,
    sent: bool,
}

impl Report {
    fn send(mut self, result: Result<Bytes>) {
        self.sent = true;
        // The caller may have stopped waiting.
        drop(self.to.send((self.place, result)));
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if !self.sent {
            let error = Error::new(ErrorKind::Io, "the request was cancelled");
            drop(self.to.send((self.place, Err(error))));
        }
    }
}

/// Waits until a request ends or the caller interrupts.
fn receive(from: &Receiver<(usize, Result<Bytes>)>, asked: &mut Instant) -> Result<(usize, Result<Bytes>)> {
    loop {
        let received = from.recv_timeout(POLL_INTERVAL);
        if asked.elapsed() >= POLL_INTERVAL {
            if interrupt::is_wanted() {
                return Err(Error::new(ErrorKind::Io, "interrupted"));
            }
            *asked = Instant::now();
        }
        match received {
            Ok(report) => return Ok(report),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new(ErrorKind::Io, "the requests were cancelled"));
            }
        }
    }
}

/// Runs a future on the process's runtime and waits for it.
pub(super) fn wait<T: Send + 'static>(
    process: &'static Process,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let (to, from) = channel();
    // Dropping the set at the end aborts the task if it still runs.
    let mut tasks = JoinSet::new();
    tasks.spawn_on(async move { drop(to.send(work.await)) }, process.runtime.handle());
    loop {
        match from.recv_timeout(POLL_INTERVAL) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) if interrupt::is_wanted() => {
                return Err(Error::new(ErrorKind::Io, "interrupted"));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new(ErrorKind::Io, "the request was cancelled"));
            }
        }
    }
}

/// A range to fetch, of one of several objects.
pub(super) struct ObjectRange {
    /// The number of the object.
    pub(super) object: usize,
    /// The range's index in the list of that object.
    pub(super) place: usize,
    pub(super) range: Range<u64>,
}

/// The error of a fetch from several objects.
pub(super) struct FetchError {
    /// The number of the object whose request failed; `None` for an error of the caller.
    pub(super) object: Option<usize>,
    pub(super) error: Error,
}

impl From<Error> for FetchError {
    fn from(error: Error) -> Self {
        Self { object: None, error }
    }
}

/// Fetches ranges of objects, as many at once as the first object's options allow, and calls `land` with
/// each. After an error, the requests in flight are cancelled.
pub(super) fn many(
    process: &'static Process,
    targets: &[Target],
    pieces: &[ObjectRange],
    land: &mut dyn FnMut(&ObjectRange, Bytes) -> Result<()>,
) -> Result<(), FetchError> {
    let Some(options) = targets.first().map(|target| &target.options) else { return Ok(()) };
    let at_once = options.concurrency.max(1);
    let (each, most) = MAX_REQUESTS_AT_ONCE;
    let largest_at_once = (crate::os::processors() as u64).saturating_mul(each).min(most);
    let most_bytes = options.largest_request.max(1).saturating_mul(largest_at_once);
    let (to, from) = channel();
    // Dropping the set at the end aborts all its tasks.
    let mut tasks = JoinSet::new();
    let (mut next, mut under_way, mut bytes) = (0, 0, 0u64);
    let mut asked = Instant::now();
    let length = |range: &Range<u64>| range.end.saturating_sub(range.start);
    loop {
        let mut requests = Vec::new();
        while let Some(piece) = pieces.get(next) {
            let more = length(&piece.range);
            if under_way > 0 && (under_way >= at_once || bytes.saturating_add(more) > most_bytes) {
                break;
            }
            let target =
                targets.get(piece.object).ok_or_else(|| Error::invalid("a range of an unknown object"))?;
            let report = Report { place: next, to: to.clone(), sent: false };
            requests.push((target.clone(), piece.range.clone(), report));
            (next, under_way, bytes) = (next + 1, under_way + 1, bytes + more);
        }
        if under_way == 0 {
            return Ok(());
        }
        start(process, &mut tasks, requests);
        let (place, result) = receive(&from, &mut asked)?;
        while tasks.try_join_next().is_some() {}
        let Some(piece) = pieces.get(place) else { continue };
        let body = result.map_err(|error| FetchError { object: Some(piece.object), error })?;
        (under_way, bytes) = (under_way - 1, bytes - length(&piece.range));
        land(piece, body)?;
    }
}

/// Starts requests, a few at a time, so that the first are sent while the last still connect.
fn start(process: &'static Process, tasks: &mut JoinSet<()>, requests: Vec<(Target, Range<u64>, Report)>) {
    let all = async move {
        let mut under_way = JoinSet::new();
        for (number, (target, range, report)) in requests.into_iter().enumerate() {
            if number % STARTED_AT_ONCE == STARTED_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
            under_way.spawn(async move { report.send(target.get(process, range).await) });
        }
        while under_way.join_next().await.is_some() {}
    };
    tasks.spawn_on(all, process.runtime.handle());
}
