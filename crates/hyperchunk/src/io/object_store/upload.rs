//! Multipart uploads. Source: Amazon S3's documentation, "Multipart upload overview".

use super::failure::{self, Failure};
use super::fetch;
use super::location::Location;
use super::process::Process;
use super::request::{gave_up, pause};
use super::settings::Settings;
use super::store::{Connection, Store};
use super::wire::{OBJECT_REQUESTS, ObjectRequests, ResponseHead, Tally};
use super::{connection, with_region};
use crate::io::RemoteOptions;
use crate::io::local::EXISTS;
use crate::io::upload::{PartCallback, StoredObject, Upload};
use crate::{Error, ErrorKind, Result};
use bytes::Bytes;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{MultipartId, ObjectStoreExt, PutPayload};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Bytes per second below which a part counts as stalled, until the network's speed is known.
const MIN_BYTES_PER_SECOND: f64 = 256e3;
/// A part that takes this many times as long as the previous one counts as stalled.
const STALL_FACTOR: f64 = 16.0;
/// Time limit for aborting an upload.
const ABORT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that parts in flight get to end before their upload is aborted.
const GRACE_TIME: Duration = Duration::from_secs(1);
/// Pause before a second abort, which removes parts whose requests were cancelled but stored afterwards.
const SECOND_ABORT_PAUSE: Duration = Duration::from_millis(100);

/// An object that is being written.
pub(super) struct ObjectUpload {
    to: To,
    id: MultipartId,
    replace: bool,
    parts: Arc<Mutex<BTreeMap<usize, PartId>>>,
    /// Tasks of the parts in flight. Dropping the handles does not stop them.
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// Context that all requests writing an object share. Cheap to clone.
#[derive(Clone)]
pub(super) struct To {
    shown: Arc<str>,
    key: Arc<str>,
    pub(super) store: Arc<Store>,
    pub(super) multipart: Arc<dyn MultipartStore>,
    pub(super) path: Path,
    options: Arc<RemoteOptions>,
    tally: Arc<Tally>,
    /// The bytes per second of the last part; 0 before there was one.
    speed: Arc<AtomicU64>,
    /// True if the requests list the objects below the name.
    lists: bool,
}

/// Starts an upload.
///
/// # Errors
/// Invalid for an invalid URL or settings; Unsupported for web servers; NotFound if there is no such bucket;
/// Io.
pub(in crate::io) fn start_upload(
    url: &str,
    options: &RemoteOptions,
    replace: bool,
) -> Result<Arc<dyn Upload>> {
    let location = Location::parse(url)?;
    let upload = start(&location, options, replace);
    upload.map(|upload| Arc::new(upload) as Arc<dyn Upload>).map_err(|error| error.file(location.shown()))
}

fn start(location: &Location, options: &RemoteOptions, replace: bool) -> Result<ObjectUpload> {
    let settings = Settings::new(location, &options.store, std::env::vars())?;
    let connection = Arc::new(connection(location, options, settings));
    let (process, tally) = (Process::get()?, Arc::<Tally>::default());
    let options = Arc::new(options.clone());
    with_region(process, &connection, &tally, || {
        let to = To::new(process.store(&connection)?, location, &options, &tally)?;
        let (id, to) = fetch::wait(process, async move {
            if !replace && to.head().await.is_some() {
                return Err(exists());
            }
            let id = to.repeat(0, || to.multipart.create_multipart(&to.path)).await?;
            Ok((id, to))
        })?;
        Ok(ObjectUpload { to, id, replace, parts: Arc::default(), tasks: Mutex::default() })
    })
}

fn exists() -> Error {
    Error::new(ErrorKind::Exists, "cannot create the object: it exists").with_os_code(EXISTS)
}

impl To {
    pub(super) fn new(
        store: Arc<Store>,
        location: &Location,
        options: &Arc<RemoteOptions>,
        tally: &Arc<Tally>,
    ) -> Result<Self> {
        let Some(multipart) = store.parts.clone() else {
            return Err(Error::unsupported("cannot write to a web server"));
        };
        Ok(Self {
            shown: location.shown().into(),
            key: location.key.as_str().into(),
            store,
            multipart,
            path: Connection::path(location)?,
            options: Arc::clone(options),
            tally: Arc::clone(tally),
            speed: Arc::default(),
            lists: false,
        })
    }

    /// Returns the context for listing the objects below the name.
    pub(super) fn listing(self) -> Self {
        Self { lists: true, ..self }
    }

    /// Sends a request and retries it until it succeeds or fails permanently. `bytes` is the size of its
    /// body.
    pub(super) async fn repeat<T, F>(&self, bytes: usize, request: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let (started, mut repeated) = (Instant::now(), 0);
        let slowest = Duration::from_secs_f64(bytes as f64 / MIN_BYTES_PER_SECOND);
        loop {
            let failure = match self.attempt(bytes, repeated, &request).await {
                Ok(made) => return Ok(made),
                Err((failure, _)) => failure,
            };
            self.next_attempt(failure, started, slowest, &mut repeated).await?;
        }
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// The failure, if it is permanent or was retried often enough.
    pub(super) async fn next_attempt(
        &self,
        failure: Failure,
        started: Instant,
        slowest: Duration,
        repeated: &mut u32,
    ) -> Result<()> {
        let (reason, wait, at_most) = match failure {
            Failure::Final(error) => return Err(error),
            Failure::Passing { reason, wait, at_most } => (reason, wait, at_most),
        };
        let left = (self.options.retry_timeout + slowest).saturating_sub(started.elapsed());
        let rest = wait.unwrap_or_else(|| pause(*repeated));
        if *repeated >= self.options.retries.min(at_most) || rest >= left {
            let asked = wait.filter(|wait| *wait >= left);
            return Err(gave_up(&reason, *repeated, started.elapsed(), asked));
        }
        tokio::time::sleep(rest).await;
        *repeated += 1;
        self.tally.counters.retries.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub(super) async fn attempt<T, F>(
        &self,
        bytes: usize,
        repeated: u32,
        request: &impl Fn() -> F,
    ) -> Result<T, (Failure, ResponseHead)>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let requests = ObjectRequests {
            key: Arc::clone(&self.key),
            lists: self.lists,
            tally: Arc::clone(&self.tally),
            seen: Arc::default(),
        };
        let _under_way = self.store.enter();
        let (started, patience) = (Instant::now(), self.patience(bytes, repeated));
        let made = timeout(patience, OBJECT_REQUESTS.scope(requests.clone(), request())).await;
        let seen = requests.seen();
        match made {
            Ok(Ok(made)) => {
                if bytes > 0 {
                    let speed = bytes as u128 * 1_000_000 / started.elapsed().as_micros().max(1);
                    self.speed.store(u64::try_from(speed).unwrap_or(u64::MAX), Ordering::Relaxed);
                }
                Ok(made)
            }
            Ok(Err(error)) => {
                if let Some(region) = &seen.region {
                    // Only the first region that the store reports is used, when the upload starts.
                    drop(self.tally.region.set(region.clone()));
                }
                Err((failure::write_failure(&error, &seen), seen))
            }
            Err(_) => Err((failure::stalled(patience), seen)),
        }
    }

    /// Returns the time limit of an attempt. It grows with each retry, in case the network has become slow.
    fn patience(&self, bytes: usize, repeated: u32) -> Duration {
        let speed = match self.speed.load(Ordering::Relaxed) {
            0 => MIN_BYTES_PER_SECOND,
            speed => (speed as f64 / STALL_FACTOR).max(MIN_BYTES_PER_SECOND / 16.0),
        };
        let body = Duration::from_secs_f64(bytes as f64 / speed);
        self.options.timeout + body.saturating_mul(1 << repeated.min(6))
    }

    /// Returns the size and ETag of the current object; `None` if it does not exist or may not be examined.
    async fn head(&self) -> Option<(u64, Option<String>)> {
        let found = self.repeat(0, || self.store.objects.head(&self.path)).await.ok()?;
        Some((found.size, found.e_tag))
    }

    async fn complete(
        &self,
        id: &MultipartId,
        parts: Vec<PartId>,
        size: u64,
        replace: bool,
    ) -> Result<StoredObject> {
        let before = self.head().await;
        if !replace && before.is_some() {
            return Err(exists());
        }
        let (started, mut repeated) = (Instant::now(), 0);
        let etag = loop {
            let request = || self.multipart.complete_multipart(&self.path, id, parts.clone());
            let (failure, seen) = match self.attempt(0, repeated, &request).await {
                Ok(result) => break result.e_tag,
                Err(failed) => failed,
            };
            // An earlier attempt may have succeeded, with a response that was lost.
            if repeated > 0
                && matches!(seen.status, Some(404 | 400))
                && let Some((now, etag)) = self.head().await
                && now == size
                && etag.is_some()
                && before.as_ref().map(|(_, etag)| etag) != Some(&etag)
            {
                break etag;
            }
            self.next_attempt(failure, started, Duration::ZERO, &mut repeated).await?;
        };
        match self.head().await {
            Some((found, _)) if found != size => {
                let message = format!("the object has {found} bytes after {size} were written");
                Err(Error::new(ErrorKind::Io, message))
            }
            _ => Ok(StoredObject { size, etag }),
        }
    }
}

/// Reports the result of sending a part, even if the task that sends it is aborted.
struct Tell(Option<PartCallback>);

impl Tell {
    fn tell(&mut self, result: Result<()>) {
        if let Some(done) = self.0.take() {
            done(result);
        }
    }
}

impl Drop for Tell {
    fn drop(&mut self) {
        self.tell(Err(Error::new(ErrorKind::Io, "the upload was cancelled")));
    }
}

impl Upload for ObjectUpload {
    fn send(&self, number: usize, bytes: Vec<u8>, done: PartCallback) {
        let mut tell = Tell(Some(done));
        let process = match Process::get() {
            Ok(process) => process,
            Err(error) => return tell.tell(Err(error)),
        };
        let (to, id, parts) = (self.to.clone(), self.id.clone(), Arc::clone(&self.parts));
        let task = process.runtime.spawn(async move {
            let _held = process.enter(to.options.concurrency).await;
            let (length, payload) = (bytes.len(), PutPayload::from(Bytes::from(bytes)));
            let request = || to.multipart.put_part(&to.path, &id, number, payload.clone());
            let sent = to.repeat(length, request).await.map(|part| {
                to.tally.counters.bytes.fetch_add(length as u64, Ordering::Relaxed);
                parts.lock().unwrap_or_else(PoisonError::into_inner).insert(number, part);
            });
            // Frees the part's memory before the next part allocates some.
            drop(payload);
            tell.tell(sent.map_err(|error| error.file(&to.shown)));
        });
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    fn complete(&self, parts: usize, size: u64) -> Result<StoredObject> {
        let sent = std::mem::take(&mut *self.parts.lock().unwrap_or_else(PoisonError::into_inner));
        if !sent.keys().copied().eq(0..parts) {
            return Err(Error::invalid(format!("only {} of {parts} parts were sent", sent.len())));
        }
        let (to, id, replace) = (self.to.clone(), self.id.clone(), self.replace);
        let sent = sent.into_values().collect();
        let done = fetch::wait(Process::get()?, async move { to.complete(&id, sent, size, replace).await });
        done.map_err(|error| error.file(&self.to.shown))
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn abort(&self) {
        let Ok(process) = Process::get() else { return };
        let (to, id) = (self.to.clone(), self.id.clone());
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let (done, wait) = std::sync::mpsc::channel();
        process.runtime.spawn(async move {
            // A part that has ended is deleted with its upload; one whose request is cancelled may still
            // be stored afterwards.
            let end = tokio::time::Instant::now() + GRACE_TIME;
            let mut any = false;
            for mut task in tasks {
                if tokio::time::timeout_at(end, &mut task).await.is_err() {
                    task.abort();
                    any |= task.await.is_err();
                }
            }
            let given_up = || to.repeat(0, || to.multipart.abort_multipart(&to.path, &id));
            // Uploads that cannot be aborted are removed by the bucket's lifecycle rules.
            drop(timeout(ABORT_TIMEOUT, given_up()).await);
            if any {
                tokio::time::sleep(SECOND_ABORT_PAUSE).await;
                drop(timeout(ABORT_TIMEOUT, given_up()).await);
            }
            let _ = done.send(());
        });
        let _ = wait.recv_timeout(ABORT_TIMEOUT);
    }
}

impl std::fmt::Debug for ObjectUpload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectUpload").field("url", &self.to.shown).finish_non_exhaustive()
    }
}
