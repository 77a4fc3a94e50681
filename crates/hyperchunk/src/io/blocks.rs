//! Process-wide cache of the metadata of files over a network. Each block is fetched once for all threads
//! that need it.

use super::ranges::joined_within;
use super::reach::{FilePages, MAX_REQUEST_BYTES, Reach, around};
use super::{Remote, RemoteOptions, Source, beside, ends_before, rounds};
use crate::recent::Recent;
use crate::{Error, Result};
use hyperchunk_format::View;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

/// Default capacity of the cache, in bytes.
const DEFAULT_CAPACITY_BYTES: usize = 128 << 20;
/// Maximum size of a block, in bytes.
const MAX_BLOCK_BYTES: u64 = 1 << 10;
/// Missing blocks that are at most this many blocks apart are fetched in one request, with the gap between
/// them.
const MAX_GAP_BLOCKS: u64 = 16;

/// [`MAX_GAP_BLOCKS`] in bytes.
pub(crate) const MAX_GAP_BYTES: u64 = MAX_GAP_BLOCKS * MAX_BLOCK_BYTES;

/// A file, by a digest of its identity, and the number of a block in it.
type Key = ([u8; 16], u64);
type Bytes = Arc<[u8]>;

/// The cached blocks of all files of the process.
#[derive(Default)]
struct CachedBlocks {
    blocks: Recent<Key>,
    /// Blocks that a thread is fetching now.
    pending: HashSet<Key>,
    /// The process that filled this. In a forked child, no thread is fetching the blocks of `pending`.
    process: u32,
}

#[derive(Default)]
struct Cache {
    kept: Mutex<CachedBlocks>,
    landed: Condvar,
}

static CACHE: LazyLock<Cache> = LazyLock::new(Cache::default);
static CAPACITY_BYTES: AtomicUsize = AtomicUsize::new(DEFAULT_CAPACITY_BYTES);

/// Sets the capacity in bytes of this process's cache for metadata of files over a network, all files
/// together (default: 128 MiB). The least recently used blocks are evicted first.
pub fn set_metadata_cache_bytes(bytes: usize) {
    if CAPACITY_BYTES.swap(bytes, Ordering::Relaxed) > bytes {
        CACHE.lock().blocks.clear();
    }
}

/// Returns the capacity of the metadata cache, in bytes.
pub(crate) fn metadata_cache_bytes() -> usize {
    CAPACITY_BYTES.load(Ordering::Relaxed)
}

impl CachedBlocks {
    fn get(&mut self, key: &Key) -> Option<Bytes> {
        self.blocks.get(key, CAPACITY_BYTES.load(Ordering::Relaxed))
    }

    fn insert(&mut self, key: Key, bytes: Bytes) {
        self.blocks.insert(key, bytes, CAPACITY_BYTES.load(Ordering::Relaxed));
    }
}

impl Cache {
    fn lock(&self) -> MutexGuard<'_, CachedBlocks> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let process = crate::os::process_id();
        if kept.process != process {
            kept.process = process;
            kept.pending.clear();
        }
        kept
    }
}

/// Returns the digest of a file's identity, for blocks of `block` bytes.
fn digest(identity: &[u8], block: u64) -> [u8; 16] {
    let mut file = [0; 16];
    let digest = Sha256::new().chain_update(identity).chain_update(block.to_le_bytes()).finalize();
    file.copy_from_slice(&digest[..16]);
    file
}

/// Evicts the blocks of ranges of a file that will not be read again soon.
pub(crate) fn forget(remote: &dyn Remote, ranges: &[Range<u64>]) {
    let block = remote.options().block.clamp(1, MAX_BLOCK_BYTES);
    let file = digest(remote.identity().as_bytes(), block);
    let mut kept = CACHE.lock();
    for number in ranges.iter().flat_map(|range| range.start / block..range.end.div_ceil(block)) {
        kept.blocks.remove(&(file, number));
    }
}

/// The metadata of one file over a network.
pub(crate) struct RemoteBlocks {
    source: Arc<dyn Source>,
    file: [u8; 16],
    /// The size of a block in bytes.
    block: u64,
    /// Minimum number of bytes fetched from the start of a missing range, since related structures are mostly
    /// stored together.
    ahead: u64,
    /// The file's pages, if it stores structure in pages.
    pages: OnceLock<FilePages>,
}

impl RemoteBlocks {
    /// Creates the view of a source, which must be remote. Adds the bytes that were fetched when it was
    /// opened to the cache.
    pub(crate) fn new(source: Arc<dyn Source>) -> Self {
        let (identity, ahead, head) = source.remote().map_or_else(
            || (Vec::new(), 1, bytes::Bytes::new()),
            |remote| (remote.identity().as_bytes().to_vec(), remote.options().block.max(1), remote.head()),
        );
        let block = ahead.min(MAX_BLOCK_BYTES);
        let file = digest(&identity, block);
        let blocks = Self { source, file, block, ahead, pages: OnceLock::new() };
        let mut kept = CACHE.lock();
        for (number, bytes) in blocks.cut(0, &head) {
            kept.insert((file, number), bytes);
        }
        drop(kept);
        blocks
    }

    /// Returns the digest of the file's identity.
    pub(super) fn file(&self) -> [u8; 16] {
        self.file
    }

    /// Cuts bytes that start at a block boundary into whole blocks; only the last block of the file may be
    /// short.
    fn cut<'a>(&self, offset: u64, bytes: &'a [u8]) -> impl Iterator<Item = (u64, Bytes)> + use<'a> {
        let (block, size) = (self.block, self.source.size());
        let length = usize::try_from(block).unwrap_or(usize::MAX);
        let pieces = bytes.chunks(length).zip(offset / block..);
        pieces
            .filter(move |(piece, number)| {
                piece.len() == length || number * block + piece.len() as u64 == size
            })
            .map(|(piece, number)| (number, Arc::from(piece)))
    }

    /// Returns the numbers of the blocks that cover a range of the file.
    fn numbers(&self, range: &Range<u64>) -> Range<u64> {
        range.start / self.block..range.end.min(self.source.size()).div_ceil(self.block)
    }

    /// Declares that the file stores structure in pages.
    pub(crate) fn set_pages(&self, pages: FilePages) {
        self.pages.get_or_init(|| pages);
    }

    /// Returns a block if it is in the current round or in the cache.
    fn at_hand(&self, number: u64) -> Option<Bytes> {
        rounds::held((self.file, number), || CACHE.lock().get(&(self.file, number)))
    }

    /// Fetches blocks together, and waits for blocks that other threads are fetching.
    pub(crate) fn fetch(&self, wanted: &BTreeSet<u64>) -> Result<BTreeMap<u64, Bytes>> {
        let mut found = BTreeMap::new();
        loop {
            let mut mine = PendingBlocks { file: self.file, numbers: BTreeSet::new() };
            let mut kept = CACHE.lock();
            let mut others = Vec::new();
            for number in
                wanted.iter().filter(|number| !found.contains_key(*number)).copied().collect::<Vec<_>>()
            {
                let key = (self.file, number);
                if let Some(bytes) = kept.get(&key) {
                    found.insert(number, bytes);
                } else if kept.pending.insert(key) {
                    mine.numbers.insert(number);
                } else {
                    others.push(key);
                }
            }
            drop(kept);
            if !mine.numbers.is_empty() {
                self.fetch_now(&mine.numbers, &mut found)?;
            }
            drop(mine);
            if others.is_empty() {
                return Ok(found);
            }
            let mut kept = CACHE.lock();
            while others.iter().any(|key| kept.pending.contains(key)) {
                kept = CACHE.landed.wait(kept).unwrap_or_else(PoisonError::into_inner);
            }
            // The next pass fetches the blocks that another thread failed to fetch.
        }
    }

    fn fetch_now(&self, numbers: &BTreeSet<u64>, found: &mut BTreeMap<u64, Bytes>) -> Result<()> {
        let Some(remote) = self.source.remote() else { return Err(Error::invalid("not a remote source")) };
        let size = self.source.size();
        let ranges = numbers.iter().map(|number| number * self.block..((number + 1) * self.block).min(size));
        let largest = largest_piece(remote.options()).max(self.block);
        let mut requests = joined_within(ranges, MAX_GAP_BLOCKS * self.block, largest);
        let structure = requests.len();
        requests.extend(beside::requests(&self.file, remote.options()));
        remote.fetch(&requests, &mut |place, bytes| {
            let start = requests.get(place).map_or(0, |range| range.start);
            if place >= structure {
                beside::land(start, &bytes);
                return Ok(());
            }
            let mut kept = CACHE.lock();
            for (number, bytes) in self.cut(start, &bytes) {
                kept.insert((self.file, number), Arc::clone(&bytes));
                if numbers.contains(&number) {
                    found.insert(number, bytes);
                }
            }
            Ok(())
        })
    }
}

/// Returns the maximum size in bytes of one request for structure.
fn largest_piece(options: &RemoteOptions) -> u64 {
    options.largest_request.clamp(1, MAX_REQUEST_BYTES)
}

/// Splits a range of structure into requests.
pub(crate) fn structure_requests(
    range: &Range<u64>,
    options: &RemoteOptions,
) -> impl Iterator<Item = Range<u64>> {
    let (end, largest) = (range.end, largest_piece(options));
    let mut start = range.start;
    std::iter::from_fn(move || {
        let piece = start..end.min(start.saturating_add(largest));
        start = piece.end;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The blocks that this thread is fetching. When it is dropped, on success or failure, other threads stop
/// waiting for them.
struct PendingBlocks {
    file: [u8; 16],
    numbers: BTreeSet<u64>,
}

impl Drop for PendingBlocks {
    fn drop(&mut self) {
        if self.numbers.is_empty() {
            return;
        }
        let mut kept = CACHE.lock();
        for number in &self.numbers {
            kept.pending.remove(&(self.file, *number));
        }
        drop(kept);
        CACHE.landed.notify_all();
    }
}

impl RemoteBlocks {
    /// Fetches the blocks that a round of jobs lacked, and holds them for that round.
    pub(crate) fn fetch_held(&self, wanted: &BTreeSet<u64>) -> Result<()> {
        for (number, bytes) in self.fetch(wanted)? {
            rounds::hold((self.file, number), bytes);
        }
        Ok(())
    }

    fn missing(&self, range: &Range<u64>) -> BTreeSet<u64> {
        self.numbers(range).filter(|number| self.at_hand(*number).is_none()).collect()
    }
}

/// [`RemoteBlocks`] as a [`View`]. Shared, so that a thread that needs more of its bytes later can refer to
/// it.
#[derive(Clone)]
pub(crate) struct RemoteView(pub(crate) Arc<RemoteBlocks>);

impl View for RemoteView {
    fn size(&self) -> u64 {
        self.0.source.size()
    }

    fn bytes(&self, offset: u64, length: usize) -> Result<Cow<'_, [u8]>> {
        let end = offset.checked_add(length as u64).filter(|end| *end <= self.size());
        let end = end.ok_or_else(|| ends_before(self.size(), offset, length))?;
        let mut pieces: Vec<Option<Bytes>> =
            self.0.numbers(&(offset..end)).map(|number| self.0.at_hand(number)).collect();
        if length > 0 && pieces.iter().any(Option::is_none) {
            let numbers = self.0.numbers(&(offset..end));
            let pages = self.0.pages.get().copied();
            let mut missing = self.0.missing(&around(&(offset..end), self.0.ahead, rounds::reach(), pages));
            // Another thread may have fetched one of these meanwhile; it is then taken from the cache.
            missing.extend(
                numbers.clone().zip(&pieces).filter(|(_, piece)| piece.is_none()).map(|(number, _)| number),
            );
            if rounds::is_active() {
                missing.extend(rounds::looked(&self.0));
                rounds::ask(&self.0, &missing);
                return Err(Error::need(std::iter::once(offset..end).collect()));
            }
            let mut wanted = rounds::hinted(&self.0);
            wanted.extend(&missing);
            let found = self.0.fetch(&wanted)?;
            for (number, piece) in numbers.zip(&mut pieces) {
                if piece.is_none() {
                    *piece = found.get(&number).map(Arc::clone);
                }
            }
        }
        let start = usize::try_from(offset % self.0.block).unwrap_or(0);
        let mut bytes = Vec::with_capacity(length);
        for piece in pieces {
            let piece = piece.ok_or_else(|| Error::invalid("a block is missing").at(offset))?;
            let from = if bytes.is_empty() { start.min(piece.len()) } else { 0 };
            let to = piece.len().min(from + (length - bytes.len()));
            bytes.extend_from_slice(&piece[from..to]);
        }
        Ok(Cow::Owned(bytes))
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        let size = self.size();
        let missing: BTreeSet<u64> = ranges
            .iter()
            .filter(|range| range.start < range.end && range.end <= size)
            .flat_map(|range| self.0.missing(range))
            .collect();
        if !missing.is_empty() && !rounds::ask(&self.0, &missing) {
            rounds::hint(&self.0, missing);
        }
    }

    fn will_look_at(&self, offset: u64) {
        let reach = rounds::reach();
        // With [`Reach::All`], no job waits for bytes that may not be needed.
        if offset >= self.size() || reach == Reach::All {
            return;
        }
        let range = around(&(offset..offset + 1), self.0.ahead, reach, self.0.pages.get().copied());
        let missing = self.0.missing(&range);
        if !missing.is_empty() {
            rounds::look(&self.0, missing);
        }
    }
}
