//! Cache of decoded chunks, so that small slices of one chunk decode it once.

use crate::recent::Recent;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Capacity of the process's cache, all files together, in bytes.
const CAPACITY_BYTES: usize = 8 << 20;
/// Maximum size of a cached chunk, in bytes.
const MAX_CHUNK_BYTES: usize = 4 << 20;

/// Numbers of the file, the dataset and the chunk.
type Key = (u64, u64, u64);

static CHUNKS: LazyLock<Mutex<Recent<Key>>> = LazyLock::new(Mutex::default);
static FILES: AtomicU64 = AtomicU64::new(0);

/// The cached chunks of a file.
#[derive(Debug)]
pub struct ChunkCache {
    file: u64,
}

impl Default for ChunkCache {
    fn default() -> Self {
        Self { file: FILES.fetch_add(1, Ordering::Relaxed) }
    }
}

impl ChunkCache {
    /// Returns whether chunks of this size are cached.
    pub fn takes(bytes: usize) -> bool {
        bytes <= MAX_CHUNK_BYTES
    }

    /// Returns the file's number.
    pub(crate) fn file(&self) -> u64 {
        self.file
    }

    /// Returns a chunk, by the addresses of dataset and chunk.
    pub fn get(&self, (dataset, chunk): (u64, u64)) -> Option<Arc<[u8]>> {
        let mut chunks = CHUNKS.lock().unwrap_or_else(PoisonError::into_inner);
        chunks.get(&(self.file, dataset, chunk), CAPACITY_BYTES)
    }

    /// Adds a chunk, by the addresses of dataset and chunk.
    pub fn insert(&self, (dataset, chunk): (u64, u64), bytes: &[u8]) {
        let bytes = Arc::from(bytes);
        let mut chunks = CHUNKS.lock().unwrap_or_else(PoisonError::into_inner);
        chunks.insert((self.file, dataset, chunk), bytes, CAPACITY_BYTES);
    }
}
