//! Sources whose reads are requests: what every one of them does, how they are tuned, and what they cost so far.

use crate::Result;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Takes a range of a fetch as it lands: its place in the list of ranges, and its bytes, exactly as many as asked for. An
/// error ends the fetch.
pub type Land<'a> = dyn FnMut(usize, Bytes) -> Result<()> + 'a;

/// A source whose reads are requests: each takes long, and many may be under way at once.
pub trait Remote: Send + Sync {
    /// Fetches ranges of the file, as many at once as the options allow, started in the order of the list; hands each to
    /// `land`, on this thread, as it comes. While `land` waits, no more requests are started than are under way.
    ///
    /// # Errors
    /// The first of a request that failed for good (Io; Changed if the file is not the one that was opened), or of `land`.
    fn fetch(&self, ranges: &[Range<u64>], land: &mut Land<'_>) -> Result<()>;

    /// What the source is called and which version of it was opened (an ETag, or time and size): two sources with equal
    /// identities have equal bytes.
    fn identity(&self) -> &str;

    /// What was asked of the source so far.
    fn counters(&self) -> &Counters;

    /// How it was opened.
    fn options(&self) -> &RemoteOptions;

    /// What a request costs: as measured so far, or an assumption before that.
    fn cost(&self) -> RequestCost;

    /// Bytes from the start of the file that came with its opening.
    fn head(&self) -> Bytes {
        Bytes::new()
    }

    /// The file that a name in this file stands for, relative to it; `None` if names mean nothing here.
    ///
    /// # Errors
    /// As opening it.
    fn sibling(&self, _name: &str) -> Option<Result<Arc<dyn super::Source>>> {
        None
    }
}

/// What one request costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestCost {
    /// The time to its first byte.
    pub latency: Duration,
    /// Bytes per second after that, of one request.
    pub bandwidth: f64,
}

impl Default for RequestCost {
    fn default() -> Self {
        Self { latency: Duration::from_millis(30), bandwidth: 80e6 }
    }
}

/// What was asked of a source.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests, repeated ones included.
    pub requests: AtomicU64,
    /// Bytes of bodies.
    pub bytes: AtomicU64,
    /// Requests that were repeated.
    pub retries: AtomicU64,
    /// Times that something waited for requests, each after the one before: round trips in sequence.
    pub rounds: AtomicU64,
}

impl Counters {
    /// Requests, bytes, retries and rounds so far.
    #[must_use]
    pub fn now(&self) -> [u64; 4] {
        [&self.requests, &self.bytes, &self.retries, &self.rounds].map(|count| count.load(Ordering::Relaxed))
    }
}

/// How sources over a network are reached and read.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RemoteOptions {
    /// Settings of the store, by `object_store`'s names: `region`, `endpoint`, `access_key_id`, `secret_access_key`,
    /// `session_token`, `anonymous` …. What is not set comes from the environment and the store's own chain.
    pub store: Vec<(String, String)>,
    /// How long one attempt of a request may take.
    pub timeout: Duration,
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// How often a request is repeated that failed in a way that may pass.
    pub retries: u32,
    /// How long a request may take with all its repetitions.
    pub retry_timeout: Duration,
    /// How many requests may be under way for one file. All files of a process together have at most 256, or as many as one may have.
    pub concurrency: usize,
    /// How many bytes are asked for when a file is opened.
    pub first_read: u64,
    /// Metadata are fetched in pieces of at least this many bytes.
    pub block: u64,
    /// Gaps of up to this many bytes between two ranges are read rather than making two requests.
    pub gap: u64,
    /// The largest request, in bytes.
    pub largest_request: u64,
    /// How many bytes more than needed a read may move, as a part of those needed.
    pub over_read: f64,
    /// How many bytes the first thousand parts of an object have that is written; later ones are larger, so that 10,000 are
    /// enough. From 5 MiB to 1 GiB; most stores take no other.
    pub part: u64,
    /// How many parts of an object that is written may be in memory or under way, the first aside.
    pub parts_at_once: usize,
}

impl RemoteOptions {
    /// What is asked for first by who wants all structure of a file: where it lies in front, as `hyperchunk pack --layout cloud`
    /// puts it, one request brings it. Half a megabyte more costs a quarter of a round trip (25 ms, 80 MB/s).
    pub const LISTING: u64 = 512 << 10;

    /// The same, to look at all structure of a file.
    #[must_use]
    pub fn for_listing(self) -> Self {
        Self { first_read: self.first_read.max(Self::LISTING), ..self }
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
            block: 16 << 10,
            gap: 1 << 20,
            largest_request: 8 << 20,
            over_read: 0.9,
            part: 8 << 20,
            parts_at_once: 8,
        }
    }
}
