//! Sources whose reads are requests: the trait, its options, and counters of the requests made.

use crate::Result;
use bytes::Bytes;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Callback that takes a range as it lands: its place in the list of ranges, and exactly the requested
/// bytes. An error ends the fetch.
pub type Land<'a> = dyn FnMut(usize, Bytes) -> Result<()> + 'a;

/// A source whose reads are requests: each has high latency, and many may be in flight.
pub trait Remote: Send + Sync {
    /// Fetches ranges of the file and hands each to `land`, on this thread, as it arrives. Requests start
    /// in the order of the list, as many at once as the options allow. While `land` blocks, no more
    /// requests start than are in flight.
    ///
    /// # Errors
    /// The first error of a request that failed for good (Io; Changed if the file is not the one that was
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

    /// Returns bytes from the start of the file that came with its opening.
    fn head(&self) -> Bytes {
        Bytes::new()
    }

    /// Returns the source itself if it is an object of a store: requests to many of them share one budget.
    #[doc(hidden)]
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// Opens the file that a relative name in this file stands for; `None` if names mean nothing here.
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
    /// Round trips in sequence: times that a caller waited for requests, each after the one before.
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
    /// `secret_access_key`, `session_token`, `anonymous` …. Settings that are missing come from the
    /// environment and the store's own chain.
    pub store: Vec<(String, String)>,
    /// Time limit of one attempt of a request.
    pub timeout: Duration,
    /// Time limit for making a connection.
    pub connect_timeout: Duration,
    /// Maximum number of retries of a request after errors that may pass.
    pub retries: u32,
    /// Time limit of a request with all its retries.
    pub retry_timeout: Duration,
    /// Maximum number of requests in flight for one file. All files of a process together have at most 256,
    /// or this number if it is larger.
    pub concurrency: usize,
    /// Number of bytes that must have arrived when a file is opened.
    pub first_read: u64,
    /// Number of bytes after them that the same request brings, while the reader continues. All open files of a
    /// process together keep at most 64 MiB of them; others do without.
    pub read_ahead: u64,
    /// Minimum size in bytes of the pieces in which metadata are fetched.
    pub block: u64,
    /// Maximum gap in bytes between two ranges that are still fetched in one request.
    pub gap: u64,
    /// Maximum size of a request, in bytes.
    pub largest_request: u64,
    /// Maximum number of unneeded bytes that a read may transfer, as a fraction of the needed ones.
    pub over_read: f64,
    /// Size in bytes of the first thousand parts of a written object; later ones are larger, so that 10,000
    /// are enough. From 5 MiB to 1 GiB; most stores take no other.
    pub part: u64,
    /// Maximum number of parts of a written object in memory or in flight, without the first part.
    pub parts_at_once: usize,
}

impl RemoteOptions {
    /// Minimum size in bytes of the first request for a reader of all structure: where
    /// `hyperchunk pack --layout cloud` puts structure at the start, this one request brings it.
    pub const LISTING: u64 = 1 << 20;

    /// Returns the options for reading all structure of a file.
    #[must_use]
    pub fn for_listing(self) -> Self {
        let rest = Self::LISTING.saturating_sub(self.first_read);
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
