//! Files whose bytes JavaScript fetches: a read of bytes that were not fetched yet records their ranges, and
//! fails.

use bytes::{Bytes, BytesMut};
use hyperchunk::io::{Counters, Land, Remote, RemoteOptions, RequestCost, Source};
use hyperchunk::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of requests in flight: as many as browsers make to one server over HTTP/1.1.
const MAX_CONNECTIONS: usize = 6;

/// A file whose bytes JavaScript, the host, provides.
#[derive(Debug)]
pub(crate) struct HostSource {
    pub(crate) id: u32,
    size: u64,
    identity: String,
    options: RemoteOptions,
    counters: Counters,
    /// Number of the operation that runs.
    operation: AtomicU32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Fetched ranges of each operation that is not done, by their start.
    pieces: HashMap<u32, BTreeMap<u64, Bytes>>,
    /// Ranges that the running operation lacks.
    missing: Vec<Range<u64>>,
    /// Files to which this one refers; `None` for files that the host does not find.
    siblings: HashMap<String, Option<Arc<HostSource>>>,
    /// Names of files that the running operation lacks.
    unknown: Vec<String>,
}

impl HostSource {
    /// Creates a file of which no bytes are known.
    pub(crate) fn new(id: u32, size: u64, identity: String) -> Arc<Self> {
        let mut options = RemoteOptions::default();
        options.concurrency = MAX_CONNECTIONS;
        let (counters, operation) = (Counters::default(), AtomicU32::new(0));
        Arc::new(Self { id, size, identity, options, counters, operation, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores fetched bytes for an operation.
    pub(crate) fn provide(&self, operation: u32, offset: u64, bytes: Vec<u8>) {
        self.lock().pieces.entry(operation).or_default().insert(offset, bytes.into());
    }

    /// Begins an operation, or runs it again.
    pub(crate) fn begin(&self, operation: u32) {
        self.operation.store(operation, Ordering::Relaxed);
        let mut state = self.lock();
        state.missing.clear();
        state.unknown.clear();
        drop(state);
        self.siblings().iter().for_each(|sibling| sibling.begin(operation));
    }

    /// Frees the bytes of an operation.
    pub(crate) fn end(&self, operation: u32) {
        let mut state = self.lock();
        state.pieces.remove(&operation);
        drop(state);
        self.siblings().iter().for_each(|sibling| sibling.end(operation));
    }

    /// Adds the ranges and files that the running operation lacked, of this file and of the files to which it
    /// refers.
    pub(crate) fn lacks(&self, ranges: &mut Vec<(u32, Range<u64>)>, files: &mut Vec<(u32, String)>) {
        let state = self.lock();
        ranges.extend(state.missing.iter().map(|range| (self.id, range.clone())));
        files.extend(state.unknown.iter().map(|name| (self.id, name.clone())));
        drop(state);
        self.siblings().iter().for_each(|sibling| sibling.lacks(ranges, files));
    }

    /// Adds the numbers of this file and of the files to which it refers.
    pub(crate) fn all(&self, numbers: &mut HashSet<u32>) {
        if numbers.insert(self.id) {
            self.siblings().iter().for_each(|sibling| sibling.all(numbers));
        }
    }

    fn siblings(&self) -> Vec<Arc<Self>> {
        self.lock().siblings.values().flatten().map(Arc::clone).collect()
    }

    /// Stores the answer of the host about a file to which this one refers; returns the file. The first
    /// answer stays: the reader may have opened that file.
    pub(crate) fn set_sibling(&self, name: &str, file: Option<Arc<Self>>) -> Option<Arc<Self>> {
        self.lock().siblings.entry(name.to_owned()).or_insert(file).clone()
    }

    /// Returns a range, if all of it was fetched.
    fn find(&self, state: &State, range: &Range<u64>) -> Option<Bytes> {
        let pieces = state.pieces.get(&self.operation.load(Ordering::Relaxed))?;
        let length = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
        let mut whole = BytesMut::new();
        let mut at = range.start;
        while at < range.end {
            let (start, piece) = pieces.range(..=at).next_back()?;
            let from = usize::try_from(at - start).ok()?;
            let end = piece.len().min(from.checked_add(length - whole.len())?);
            let part = piece.slice(from.min(end)..end);
            if part.is_empty() {
                return None;
            }
            if part.len() == length {
                return Some(part);
            }
            whole.extend_from_slice(&part);
            at += part.len() as u64;
        }
        Some(whole.freeze())
    }

    /// Returns ranges, or records the ones that were not fetched.
    fn take(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let mut state = self.lock();
        let mut found = Vec::with_capacity(ranges.len());
        let mut lacking = Vec::new();
        for range in ranges {
            if range.end > self.size {
                let message = format!("the file ends at byte {}, before byte {}", self.size, range.end);
                return Err(Error::new(ErrorKind::Truncated, message).at(range.start));
            }
            match self.find(&state, range) {
                Some(bytes) => found.push(bytes),
                None => lacking.push(range.clone()),
            }
        }
        if lacking.is_empty() {
            return Ok(found);
        }
        state.missing.extend(lacking.iter().cloned());
        Err(Error::need(lacking))
    }
}

impl Source for HostSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(buffer.len() as u64);
        for bytes in self.take(std::slice::from_ref(&range))? {
            buffer.copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn remote(&self) -> Option<&dyn Remote> {
        Some(self)
    }
}

impl Remote for HostSource {
    fn fetch(&self, ranges: &[Range<u64>], land: &mut Land<'_>) -> Result<()> {
        let found = self.take(ranges)?;
        found.into_iter().enumerate().try_for_each(|(place, bytes)| land(place, bytes))
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn options(&self) -> &RemoteOptions {
        &self.options
    }

    fn cost(&self) -> RequestCost {
        RequestCost::default()
    }

    fn head(&self) -> Bytes {
        let state = self.lock();
        let pieces = state.pieces.get(&self.operation.load(Ordering::Relaxed));
        pieces.and_then(|pieces| pieces.get(&0)).cloned().unwrap_or_default()
    }

    fn sibling(&self, name: &str) -> Option<Result<Arc<dyn Source>>> {
        let mut state = self.lock();
        Some(match state.siblings.get(name) {
            Some(Some(file)) => Ok(Arc::clone(file) as Arc<dyn Source>),
            Some(None) => {
                let message =
                    format!("it refers to the file `{name}`, which does not exist or may not be opened");
                Err(Error::new(ErrorKind::NotFound, message))
            }
            None => {
                state.unknown.push(name.to_owned());
                Err(Error::need(Vec::new()))
            }
        })
    }
}
