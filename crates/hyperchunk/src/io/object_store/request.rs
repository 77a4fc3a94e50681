//! A single request, retried until it succeeds or fails permanently.

use super::buffers::Buffers;
use super::failure::{self, Failure};
use super::head::ArrivingBody;
use super::process::Process;
use super::store::Store;
use super::wire::{Exchange, ResponseHead, Tally};
use crate::io::RemoteOptions;
use crate::{Error, ErrorKind, Result};
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{Extensions, GetOptions, GetRange};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Pause before the first retry; it doubles with each one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Maximum pause, unless the server requests a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Minimum speed of a body in bytes per second. A body that is slower, apart from the time-out of an attempt,
/// counts as stalled.
const MIN_BYTES_PER_SECOND: f64 = 32e3;

/// Context that all requests for one object share. Cheap to clone.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) store: Arc<Store>,
    pub(super) path: Path,
    pub(super) options: Arc<RemoteOptions>,
    pub(super) tally: Arc<Tally>,
    /// The version that was opened; `None` for the opening request.
    pub(super) version: Option<Arc<Version>>,
    /// Buffers for the bodies.
    pub(super) buffers: Arc<Buffers>,
    /// Receiver of the body of an opening request while it arrives.
    pub(super) arriving: Option<Arc<ArrivingBody>>,
}

/// Version of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) size: u64,
    pub(super) etag: Option<String>,
    pub(super) modified: Option<String>,
}

impl Target {
    /// Fetches a range. The response to an opening request may be shorter, if the object is smaller than the
    /// range, and may be the whole object.
    pub(super) async fn get(&self, process: &Process, range: Range<u64>) -> Result<Bytes> {
        let started = Instant::now();
        let mut repeated = 0;
        loop {
            let failure = match self.attempt(process, range.clone()).await {
                Ok(bytes) => return Ok(bytes),
                Err(failure) => failure,
            };
            let (reason, wait, at_most) = match failure {
                Failure::Final(error) => return Err(error),
                Failure::Passing { reason, .. } if self.is_answered() => {
                    return Err(Error::new(ErrorKind::Io, reason));
                }
                Failure::Passing { reason, wait, at_most } => (reason, wait, at_most),
            };
            let left = self.options.retry_timeout.saturating_sub(started.elapsed());
            let pause = wait.unwrap_or_else(|| pause(repeated));
            if repeated >= self.options.retries.min(at_most) || pause >= left {
                return Err(gave_up(&reason, repeated, started.elapsed(), wait.filter(|wait| *wait >= left)));
            }
            tokio::time::sleep(pause).await;
            repeated += 1;
            self.tally.counters.retries.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns whether this is an opening request whose opener has continued.
    fn is_answered(&self) -> bool {
        self.arriving.as_ref().is_some_and(|arriving| arriving.is_answered())
    }

    async fn attempt(&self, process: &Process, range: Range<u64>) -> Result<Bytes, Failure> {
        let _held = process.enter(self.options.concurrency).await;
        let exchange = Exchange::new(&range, self.version.is_none(), Arc::clone(&self.tally));
        let result = self.exchange(&exchange, range).await;
        result.map_err(|failure| failure.unwrap_or_else(|| failure::stalled(self.options.timeout)))
    }

    /// Makes one attempt. The error is `None` if it stalls.
    async fn exchange(&self, exchange: &Exchange, range: Range<u64>) -> Result<Bytes, Option<Failure>> {
        let under_way = self.store.enter();
        let got = self.store.objects.get_opts(&self.path, self.get_options(exchange, &range));
        let got = self.answer(exchange, got).await?;
        let seen = exchange.seen();
        let got = match got {
            Ok(got) => got,
            Err(error) => {
                // For an empty object, servers answer that the range cannot be satisfied.
                if self.version.is_none() && range.start == 0 && is_empty(&seen) {
                    if let Some(arriving) = &self.arriving {
                        let begun = arriving.begin(0, version(&seen, 0));
                        begun.map_err(|error| Some(Failure::Final(error)))?;
                    }
                    return Ok(Bytes::new());
                }
                if let Some(region) = &seen.region {
                    // Only the first region that the store reports is used, when the object is opened.
                    drop(self.tally.region.set(region.clone()));
                }
                if seen.status == Some(206) {
                    self.check(&seen, &range)?;
                }
                return Err(Some(failure::request_failure(&error, &seen, self.version.is_some())));
            }
        };
        let (expected, size) = self.check(&seen, &range)?;
        let new = under_way.connected();
        let opened = Instant::now();
        if let Some(arriving) = &self.arriving {
            let begun = arriving.begin(usize::try_from(expected).unwrap_or(usize::MAX), version(&seen, size));
            begun.map_err(|error| Some(Failure::Final(error)))?;
        }
        let bytes = self.body(got.into_stream(), expected).await?;
        let length = usize::try_from(expected).unwrap_or(usize::MAX);
        self.tally.meter.add(new, seen.latency, opened.elapsed(), length);
        Ok(bytes)
    }

    /// Waits for the head of a response; the error is `None` if nothing arrives for the time-out.
    async fn answer<T>(
        &self,
        exchange: &Exchange,
        got: impl Future<Output = T>,
    ) -> Result<T, Option<Failure>> {
        let mut got = pin!(got);
        let (started, mut received) = (Instant::now(), 0);
        loop {
            if let Ok(got) = timeout(self.options.timeout, &mut got).await {
                return Ok(got);
            }
            // A whole object of unknown size is received before its head is passed on.
            let now = exchange.seen().received;
            if now <= received || started.elapsed() > self.longest(now) {
                return Err(None);
            }
            received = now;
        }
    }

    fn get_options(&self, exchange: &Exchange, range: &Range<u64>) -> GetOptions {
        let mut extensions = Extensions::new();
        extensions.insert(exchange.clone());
        let version = self.version.as_deref();
        // A weak ETag never matches, and some servers compare times to the nanosecond although they send
        // seconds: both are compared with the response instead.
        let strong = version.and_then(|version| version.etag.clone()).filter(|etag| !etag.starts_with("W/"));
        GetOptions::new()
            .with_range(Some(GetRange::Bounded(range.clone())))
            .with_if_match(strong)
            .with_extensions(extensions)
    }

    /// Checks the response's head; returns the expected size of the body and the size of the object.
    fn check(&self, seen: &ResponseHead, range: &Range<u64>) -> Result<(u64, u64), Option<Failure>> {
        if let Some(size) = seen.whole.filter(|_| self.version.is_none()) {
            return Ok((size, size));
        }
        let (start, end, size) =
            seen.range.ok_or_else(|| Some(failure::no_range(seen, self.version.is_some())))?;
        let wrong = |of: String| {
            let what =
                format!("the server answered with bytes {start} to {end}{of} instead of the requested ones");
            Err(Some(Failure::passing(what)))
        };
        let Some(version) = &self.version else {
            return match (start, end) == (range.start, range.end.min(size)) {
                true => Ok((end - start, size)),
                false => wrong(format!(" of {size}")),
            };
        };
        let differs =
            |now: &Option<String>, then: &Option<String>| then.is_some() && now.is_some() && now != then;
        if size != version.size
            || differs(&seen.etag, &version.etag)
            || (version.etag.is_none() && differs(&seen.modified, &version.modified))
        {
            return Err(Some(Failure::Final(failure::changed())));
        }
        if (start, end) != (range.start, range.end) {
            return wrong(String::new());
        }
        Ok((end - start, size))
    }

    /// Returns the time that `bytes` bytes of a body may take. A body that takes longer counts as stalled.
    fn longest(&self, bytes: u64) -> Duration {
        let patience = self.options.timeout;
        let longest = patience + Duration::from_secs_f64(bytes as f64 / MIN_BYTES_PER_SECOND);
        longest.min(self.options.retry_timeout.max(patience))
    }

    async fn body(
        &self,
        mut stream: futures_util::stream::BoxStream<'static, object_store::Result<Bytes>>,
        expected: u64,
    ) -> Result<Bytes, Option<Failure>> {
        let expected = usize::try_from(expected).unwrap_or(usize::MAX);
        let mut buffer = self.buffers.take(expected).map_err(|error| Some(Failure::Final(error)))?;
        let bytes = &mut buffer.bytes;
        let mut length = 0;
        let started = Instant::now();
        // While the opener waits for the first bytes, the limit is the one for these.
        let first = self.longest(self.options.first_read.min(expected as u64));
        let all = self.longest(expected as u64);
        loop {
            let waits = self.arriving.as_ref().is_some_and(|arriving| !arriving.is_answered());
            let left = if waits { first } else { all }.saturating_sub(started.elapsed());
            let piece = timeout(self.options.timeout.min(left), stream.next()).await.map_err(|_| None)?;
            let Some(piece) = piece else { break };
            let piece = piece.map_err(|error| Some(failure::body_failure(&error)))?;
            self.tally.counters.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
            if length + piece.len() > expected {
                return Err(Some(Failure::passing(format!("the server sent more than {expected} bytes"))));
            }
            match &self.arriving {
                Some(arriving) => arriving.push(&piece),
                None => bytes.extend_from_slice(&piece),
            }
            length += piece.len();
        }
        if length != expected {
            return Err(Some(Failure::passing(format!("the server sent {length} bytes of {expected}"))));
        }
        Ok(buffer.freeze())
    }
}

/// Returns whether the object is empty.
fn is_empty(seen: &ResponseHead) -> bool {
    seen.status == Some(416) || (seen.status == Some(200) && seen.length == Some(0))
}

fn version(seen: &ResponseHead, size: u64) -> Version {
    Version { size, etag: seen.etag.clone(), modified: seen.modified.clone() }
}

/// Returns the pause before a retry: exponential back-off with jitter, between half and all of the maximum,
/// so that requests that failed together are not retried together.
pub(super) fn pause(repeated: u32) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(1 << repeated.min(16)).min(LONGEST_PAUSE);
    let chance = RandomState::new().hash_one(repeated) >> 32;
    longest.mul_f64(0.5 + chance as f64 / (1u64 << 33) as f64)
}

pub(super) fn gave_up(reason: &str, repeated: u32, after: Duration, asked: Option<Duration>) -> Error {
    let mut message = match repeated {
        0 => reason.to_owned(),
        1 => format!("{reason}; repeated once, for {:.1} s", after.as_secs_f64()),
        many => format!("{reason}; repeated {many} times, for {:.1} s", after.as_secs_f64()),
    };
    if let Some(asked) = asked {
        message.push_str(&format!("; the server asks to wait {} s", asked.as_secs()));
    }
    Error::new(ErrorKind::Io, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow() {
        for repeated in 0..40 {
            let pause = pause(repeated);
            let longest = Duration::from_millis(100 << repeated.min(10)).min(LONGEST_PAUSE);
            assert!(pause <= longest && pause >= longest / 2, "{repeated}: {pause:?}");
        }
    }
}
