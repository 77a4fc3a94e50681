//! Sources whose reads are requests over a network: the trait, its options, and counters of the requests.

use crate::Result;
use bytes::Bytes;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Callback for a range that has arrived: its index in the list of ranges, and exactly the requested bytes.
/// An error ends the fetch.
pub type Land<'a> = dyn FnMut(usize, Bytes) -> Result<()> + 'a;

/// A source whose reads are requests: each has high latency, and many may be in flight.
pub trait Remote: Send + Sync {
    /// Fetches ranges of the file and calls `land` with each when it has arrived, on this thread. Requests
    /// are started in the order of the list, as many at once as the options allow. While `land` runs, no
    /// further requests are started.
    ///
    /// # Errors
    /// The first error of a request whose retries failed (Io; Changed if the file is not the version that was
    /// opened), or of `land`.
    fn fetch(&self, ranges: &[Range<u64>], land: &mut Land<'_>) -> Result<()>;

    /// Returns the source's name and the version that was opened (an ETag, or time and size): two sources
    /// with equal identities have equal bytes.
    fn identity(&self) -> &str;

    /// Returns the counters of the requests.
    fn counters(&self) -> &Counters;

    /// Returns the options by which the source was opened.
    fn options(&self) -> &RemoteOptions;

    /// Returns the cost of a request: measured, or an assumption before the first measurement.
    fn cost(&self) -> RequestCost;

    /// Returns bytes from the start of the file that were fetched when it was opened.
    fn head(&self) -> Bytes {
        Bytes::new()
    }

    /// Returns the source itself if it is an object of a store. Requests to several objects share one budget.
    #[doc(hidden)]
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// Opens another file by its name relative to this one; `None` if the source has no other files.
    ///
    /// # Errors
    /// The errors of opening it.
    fn sibling(&self, _name: &str) -> Option<Result<Arc<dyn super::Source>>> {
        None
    }
}

/// The cost of one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestCost {
    /// The time to the first byte.
    pub latency: Duration,
    /// Bytes per second after that, of one request.
    pub bandwidth: f64,
}

impl Default for RequestCost {
    fn default() -> Self {
        Self { latency: Duration::from_millis(30), bandwidth: 80e6 }
    }
}

/// Counters of the requests to a source.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests, repeated ones included.
    pub requests: AtomicU64,
    /// Bytes of bodies.
    pub bytes: AtomicU64,
    /// Requests that were repeated.
    pub retries: AtomicU64,
    /// Round trips in sequence: how often a caller waited for one or more concurrent requests.
    pub rounds: AtomicU64,
}

impl Counters {
    /// Returns requests, bytes, retries and rounds.
    #[must_use]
    pub fn now(&self) -> [u64; 4] {
        [&self.requests, &self.bytes, &self.retries, &self.rounds].map(|count| count.load(Ordering::Relaxed))
    }
}

/// Options for opening and reading sources over a network.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RemoteOptions {
    /// Settings of the store, by `object_store`'s names: `region`, `endpoint`, `access_key_id`,
    /// `secret_access_key`, `session_token`, `anonymous` …. Missing settings are taken from the environment
    /// and the store's own configuration.
    pub store: Vec<(String, String)>,
    /// Maximum time that an attempt of a request waits for the head of the response, and for further bytes of
    /// its body.
    pub timeout: Duration,
    /// Time limit for making a connection.
    pub connect_timeout: Duration,
    /// Maximum number of retries of a request after temporary errors.
    pub retries: u32,
    /// Time after which a request is not retried any more.
    pub retry_timeout: Duration,
    /// Maximum number of requests in flight for one file. All files of a process together have at most 256,
    /// or this number if it is larger.
    pub concurrency: usize,
    /// Number of bytes from the start of a file that opening waits for.
    pub first_read: u64,
    /// Number of bytes after `first_read` that the same request fetches while the reader continues. All open
    /// files of a process together reserve at most 64 MiB for this; further files get none.
    pub read_ahead: u64,
    /// Minimum number of bytes of metadata that are fetched at a time.
    pub block: u64,
    /// Maximum gap in bytes between two ranges that are still fetched in one request.
    pub gap: u64,
    /// Maximum size of a request, in bytes.
    pub largest_request: u64,
    /// Maximum number of unneeded bytes that a read may transfer, as a fraction of the needed ones.
    pub over_read: f64,
    /// Size in bytes of the first thousand parts of a written object; later ones are larger, so that 10,000
    /// are enough. From 5 MiB to 1 GiB; most stores refuse other sizes.
    pub part: u64,
    /// Maximum number of parts of a written object in memory or in flight, not counting the first part.
    pub parts_at_once: usize,
}

impl RemoteOptions {
    /// Minimum size in bytes of the first request for a reader of all structure. If
    /// `hyperchunk pack --layout cloud` put the structure at the start, this one request usually fetches it.
    pub const MIN_LISTING_BYTES: u64 = 1 << 20;

    /// Returns the options for reading all structure of a file.
    #[must_use]
    pub fn for_listing(self) -> Self {
        let rest = Self::MIN_LISTING_BYTES.saturating_sub(self.first_read);
        Self { read_ahead: self.read_ahead.max(rest), ..self }
    }
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            store: Vec::new(),
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            retries: 8,
            retry_timeout: Duration::from_secs(120),
            concurrency: 160,
            first_read: 16 << 10,
            read_ahead: 1008 << 10,
            block: 16 << 10,
            gap: 1 << 20,
            largest_request: 8 << 20,
            over_read: 0.9,
            part: 8 << 20,
            parts_at_once: 8,
        }
    }
}
