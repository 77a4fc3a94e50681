//! Files in object stores and on web servers.
//!
//! The crate `object_store` signs requests and knows the stores' protocols. This module decides which ranges
//! to request and when to retry, and checks that the response matches the request.

mod buffers;
mod cost;
mod direct;
mod failure;
mod fetch;
mod head;
mod hosts;
mod location;
mod objects;
mod process;
mod profile;
mod proxies;
mod redirects;
mod request;
mod settings;
mod store;
#[cfg(test)]
mod tests;
mod upload;
mod web;
mod wire;

use super::{Counters, Land, Remote, RemoteOptions, RequestCost, Source, ends_before};
use crate::{Error, ErrorKind, Result};
use buffers::Buffers;
use bytes::Bytes;
use fetch::ObjectRange;
use head::Head;
use hosts::FileHost;
use location::{Kind, Location};
pub(super) use objects::{abort_upload, delete, list, put, put_new};
use process::Process;
pub(crate) use redirects::NAMED_BY;
use request::{Target, Version};
use settings::Settings;
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::Connection;
pub(super) use upload::start_upload;
use wire::Tally;

/// One version of an object in a store.
struct ObjectSource {
    location: Location,
    shown: String,
    identity: String,
    connection: Arc<Connection>,
    options: Arc<RemoteOptions>,
    tally: Arc<Tally>,
    version: Arc<Version>,
    /// The web server's host name, whose addresses stay cached while this lives.
    host: Option<FileHost>,
    head: Head,
    /// True if the version comes from an index.
    known: bool,
}

/// Opens an object by its URL, with a request for its first bytes.
///
/// # Errors
/// Invalid for an invalid URL or settings; NotFound; Io from the network or the store.
pub(super) fn open(url: &str, options: &RemoteOptions) -> Result<Arc<dyn Source>> {
    let location = Location::parse(url)?;
    open_location(location, Arc::new(options.clone()))
}

/// Opens an object of known size and ETag by its URL, without a request.
///
/// # Errors
/// Invalid for an invalid URL or settings.
#[expect(clippy::unnecessary_wraps, reason = "without object stores there is none")]
pub(super) fn open_known(
    url: &str,
    options: &RemoteOptions,
    size: u64,
    etag: &str,
) -> Option<Result<Arc<dyn Source>>> {
    let open = || {
        let location = Location::parse(url)?;
        let settings = Settings::new(&location, &options.store, std::env::vars())?;
        let connection = Arc::new(connection(&location, options, settings));
        let version = Version { size, etag: Some(etag.to_owned()), modified: None };
        let source = ObjectSource {
            shown: location.shown(),
            identity: identity(&location, &connection, &version),
            host: host(&location),
            location,
            connection,
            options: Arc::new(options.clone()),
            tally: Arc::default(),
            version: Arc::new(version),
            head: Head::none(),
            known: true,
        };
        Ok(Arc::new(source) as Arc<dyn Source>)
    };
    Some(open())
}

/// Returns the connection to an object's store.
fn connection(location: &Location, options: &RemoteOptions, settings: Settings) -> Connection {
    let container = match location.kind {
        Kind::Http => location.http_url(),
        _ => location.container.clone(),
    };
    Connection {
        kind: location.kind,
        container,
        user: location.user.clone(),
        settings,
        timeout: options.timeout,
        connect_timeout: options.connect_timeout,
    }
}

fn open_location(location: Location, options: Arc<RemoteOptions>) -> Result<Arc<dyn Source>> {
    let shown = location.shown();
    ObjectSource::open(location, options)
        .map(|source| Arc::new(source) as Arc<dyn Source>)
        .map_err(|error| error.file(shown))
}

impl ObjectSource {
    fn open(location: Location, options: Arc<RemoteOptions>) -> Result<Self> {
        let settings = Settings::new(&location, &options.store, std::env::vars())?;
        let connection = Arc::new(connection(&location, &options, settings));
        let (process, tally) = (Process::get()?, Arc::<Tally>::default());
        let host = host(&location);
        host.iter().for_each(|host| host.keep(process.hosts()));
        let (head, version) = with_region(process, &connection, &tally, || {
            tally.counters.rounds.fetch_add(1, Ordering::Relaxed);
            let target = Target {
                store: process.store(&connection)?,
                path: Connection::path(&location)?,
                options: Arc::clone(&options),
                tally: Arc::clone(&tally),
                version: None,
                buffers: Arc::default(),
                arriving: None,
            };
            Head::open(process, &target)
        })?;
        let encoding = tally.encoding.get();
        if let Some(error) = encoding.and_then(|encoding| failure::encoded(encoding, &head.first)) {
            return Err(error);
        }
        let shown = location.shown();
        let identity = identity(&location, &connection, &version);
        let version = Arc::new(version);
        Ok(Self { location, shown, identity, connection, options, tally, version, host, head, known: false })
    }

    fn target(&self, process: &Process, buffers: &Arc<Buffers>) -> Result<Target> {
        self.host.iter().for_each(|host| host.keep(process.hosts()));
        Ok(Target {
            store: process.store(&self.connection)?,
            path: Connection::path(&self.location)?,
            options: Arc::clone(&self.options),
            tally: Arc::clone(&self.tally),
            version: Some(Arc::clone(&self.version)),
            buffers: Arc::clone(buffers),
            arriving: None,
        })
    }

    /// Adds the file's name to the error of a request.
    fn named(&self, error: Error) -> Error {
        let error = match error.kind() {
            ErrorKind::Changed if self.known => {
                let message = "the object is not the version that the index describes: make the index again";
                Error::new(ErrorKind::Changed, message)
            }
            _ => error,
        };
        error.file(&self.shown)
    }

    /// Sorts ranges into those that need a request, and those in the object's head: the bytes that are
    /// fetched by the request that opens it, some of which may still be arriving.
    fn sort(&self, object: usize, ranges: &[Range<u64>], sorted: &mut SortedRanges) -> Result<()> {
        let (size, length) = (self.version.size, self.head.length());
        let mut is_used = ranges.is_empty();
        for (place, range) in ranges.iter().enumerate() {
            if range.start > range.end || range.end > size {
                let length = range.end.saturating_sub(range.start);
                return Err(ends_before(size, range.start, usize::try_from(length).unwrap_or(usize::MAX)));
            }
            let near = range.start..range.end.min(length);
            let far = range.start.max(near.end)..range.end;
            is_used |= near.start < near.end || range.is_empty();
            let piece = |range| ObjectRange { object, place, range };
            if far.is_empty() {
                sorted.near.push(piece(range.clone()));
            } else {
                if near.start < near.end {
                    sorted.fronts.insert((object, place), near);
                }
                sorted.far.push(piece(far));
            }
        }
        if !is_used {
            self.head.stop();
        }
        Ok(())
    }

    /// Returns a range of the head once it has arrived; `None` if it will not arrive.
    fn in_head(&self, range: &Range<u64>) -> Result<Option<Bytes>> {
        if range.is_empty() {
            return Ok(Some(Bytes::new()));
        }
        self.head.get(range).map_err(|error| self.named(error))
    }
}

/// Ranges of objects, by the request that fetches them.
#[derive(Default)]
struct SortedRanges {
    /// Ranges in the objects' heads.
    near: Vec<ObjectRange>,
    /// Ranges that need a request, without their parts in the heads.
    far: Vec<ObjectRange>,
    /// The parts in the heads of such ranges, by object and index.
    fronts: HashMap<(usize, usize), Range<u64>>,
}

/// Fetches ranges of many objects under one budget of requests and bytes, which is the first object's. `land` gets the
/// number of the object, the range's index in its list, and the bytes.
///
/// # Errors
/// As [`Remote::fetch`], with the name of the object.
pub(super) fn fetch_many(
    wanted: &[(&dyn Remote, &[Range<u64>])],
    land: &mut dyn FnMut(usize, usize, Bytes) -> Result<()>,
) -> Result<()> {
    let objects: Option<Vec<&ObjectSource>> =
        wanted.iter().map(|(remote, _)| remote.as_any()?.downcast_ref::<ObjectSource>()).collect();
    let objects = objects.ok_or_else(|| Error::invalid("a source is not an object of a store"))?;
    let mut sorted = SortedRanges::default();
    for (number, (object, (_, ranges))) in objects.iter().zip(wanted).enumerate() {
        object.sort(number, ranges, &mut sorted).map_err(|error| object.named(error))?;
    }
    // Ranges that will not arrive, because the opening request failed after the object was opened.
    let mut missing = Vec::new();
    request(&objects, sorted.far, &mut |object, place, far| {
        let front = sorted.fronts.get(&(object, place)).zip(objects.get(object));
        let Some((front, source)) = front else { return land(object, place, far) };
        match source.in_head(front)? {
            Some(near) => land(object, place, [near, far].concat().into()),
            None => {
                let range = front.start..front.end.saturating_add(far.len() as u64);
                missing.push(ObjectRange { object, place, range });
                Ok(())
            }
        }
    })?;
    for piece in sorted.near {
        let Some(object) = objects.get(piece.object) else { continue };
        match object.in_head(&piece.range)? {
            Some(bytes) => land(piece.object, piece.place, bytes)?,
            None => missing.push(piece),
        }
    }
    request(&objects, missing, land)
}

/// Fetches pieces of objects by requests.
fn request(
    objects: &[&ObjectSource],
    mut left: Vec<ObjectRange>,
    land: &mut dyn FnMut(usize, usize, Bytes) -> Result<()>,
) -> Result<()> {
    let longest = left.iter().map(|piece| piece.range.end - piece.range.start).max().unwrap_or(0);
    let mut counted = HashSet::new();
    for piece in &left {
        if counted.insert(piece.object)
            && let Some(object) = objects.get(piece.object)
        {
            object.tally.counters.rounds.fetch_add(1, Ordering::Relaxed);
        }
    }
    // A region that was already known is not the cause of an error.
    let mut known: Vec<bool> = objects.iter().map(|object| object.tally.region.get().is_some()).collect();
    while !left.is_empty() {
        let process = Process::get()?;
        let buffers = Arc::new(Buffers::new(longest));
        let targets: Vec<Target> = objects
            .iter()
            .map(|object| object.target(process, &buffers).map_err(|error| object.named(error)))
            .collect::<Result<_>>()?;
        let mut landed = HashSet::new();
        let fetched = fetch::many(process, &targets, &left, &mut |piece, bytes| {
            landed.insert((piece.object, piece.place));
            land(piece.object, piece.place, bytes)
        });
        let Err(fetch::FetchError { object: number, error }) = fetched else { return Ok(()) };
        let failed = number.and_then(|number| Some((objects.get(number)?, known.get_mut(number)?)));
        let Some((object, was_known)) = failed else { return Err(error) };
        match object.tally.region.get() {
            Some(region) if !*was_known && process.moved(&object.connection, region) => *was_known = true,
            _ => return Err(object.named(error)),
        }
        left.retain(|piece| !landed.contains(&(piece.object, piece.place)));
    }
    Ok(())
}

/// Returns the host of an object on a web server.
fn host(location: &Location) -> Option<FileHost> {
    if location.kind == Kind::Http { FileHost::of(&location.container) } else { None }
}

/// Runs `run`, and once more if the store reports for the first time that the bucket is in another region.
fn with_region<T>(
    process: &Process,
    connection: &Arc<Connection>,
    tally: &Tally,
    mut run: impl FnMut() -> Result<T>,
) -> Result<T> {
    let known = tally.region.get().is_some();
    let result = run();
    match (&result, tally.region.get()) {
        (Err(_), Some(region)) if !known && process.moved(connection, region) => run(),
        _ => result,
    }
}

/// Returns the identity of a version: the object's location, and its ETag or else its modification time.
fn identity(location: &Location, connection: &Connection, version: &Version) -> String {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let endpoint = ["aws_endpoint_url_s3", "aws_endpoint", "azure_storage_endpoint", "google_base_url"]
        .iter()
        .find_map(|name| connection.settings.get(name))
        .unwrap_or("");
    let mark = match (&version.etag, &version.modified) {
        (Some(etag), _) => format!("etag {etag}"),
        (None, Some(modified)) => format!("of {modified}"),
        // Versions cannot be distinguished, so each opening gets its own identity.
        (None, None) => format!("opened {} {}", std::process::id(), OPENED.fetch_add(1, Ordering::Relaxed)),
    };
    format!("{} {endpoint} {mark} size {}", location.shown(), version.size)
}

impl Source for ObjectSource {
    fn size(&self) -> u64 {
        self.version.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.size());
        let end = end.ok_or_else(|| ends_before(self.size(), offset, buffer.len()))?;
        let piece = self.options.largest_request.max(1);
        let starts = (offset..end).step_by(usize::try_from(piece).unwrap_or(usize::MAX));
        let ranges: Vec<_> = starts.map(|start| start..start.saturating_add(piece).min(end)).collect();
        self.fetch(&ranges, &mut |place, bytes| {
            let start = place.saturating_mul(usize::try_from(piece).unwrap_or(usize::MAX));
            if let Some(place) = buffer.get_mut(start..start.saturating_add(bytes.len())) {
                place.copy_from_slice(&bytes);
            }
            Ok(())
        })
    }

    fn version(&self) -> Option<String> {
        match (&self.version.etag, &self.version.modified) {
            (Some(etag), _) => Some(format!("etag:{etag}")),
            (None, Some(modified)) => Some(format!("modified:{modified}")),
            (None, None) => None,
        }
    }

    fn remote(&self) -> Option<&dyn Remote> {
        Some(self)
    }
}

impl Remote for ObjectSource {
    fn fetch(&self, ranges: &[Range<u64>], land: &mut Land<'_>) -> Result<()> {
        fetch_many(&[(self, ranges)], &mut |_, place, bytes| land(place, bytes))
            .map_err(|error| error.file(&self.shown))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn counters(&self) -> &Counters {
        &self.tally.counters
    }

    fn options(&self) -> &RemoteOptions {
        &self.options
    }

    fn cost(&self) -> RequestCost {
        self.tally.meter.cost()
    }

    fn head(&self) -> Bytes {
        self.head.first.clone()
    }

    fn sibling(&self, name: &str) -> Option<Result<Arc<dyn Source>>> {
        let sibling = self.location.sibling(name);
        Some(sibling.and_then(|location| open_location(location, Arc::clone(&self.options))))
    }
}

impl std::fmt::Debug for ObjectSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectSource")
            .field("url", &self.shown)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
