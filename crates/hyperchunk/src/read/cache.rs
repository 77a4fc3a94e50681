//! Chunks that were decoded last: small slices of one chunk decode it once.

use crate::recent::Recent;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// How many bytes of decoded chunks the process keeps, all files together.
const KEPT: usize = 8 << 20;
/// The largest chunk that is kept, in bytes.
const LARGEST: usize = 4 << 20;

/// By file, dataset and chunk.
type Key = (u64, u64, u64);

static CHUNKS: LazyLock<Mutex<Recent<Key>>> = LazyLock::new(Mutex::default);
static FILES: AtomicU64 = AtomicU64::new(0);

/// The decoded chunks of a file.
#[derive(Debug)]
pub(crate) struct ChunkCache {
    file: u64,
}

impl Default for ChunkCache {
    fn default() -> Self {
        Self { file: FILES.fetch_add(1, Ordering::Relaxed) }
    }
}

impl ChunkCache {
    /// Whether chunks of this size are kept.
    pub(crate) fn takes(bytes: usize) -> bool {
        bytes <= LARGEST
    }

    /// The number of the file.
    pub(crate) fn file(&self) -> u64 {
        self.file
    }

    /// The chunk of a dataset, by their addresses.
    pub(crate) fn get(&self, (dataset, chunk): (u64, u64)) -> Option<Arc<[u8]>> {
        let mut chunks = CHUNKS.lock().unwrap_or_else(PoisonError::into_inner);
        chunks.get(&(self.file, dataset, chunk), KEPT)
    }

    pub(crate) fn insert(&self, (dataset, chunk): (u64, u64), bytes: &[u8]) {
        let bytes = Arc::from(bytes);
        let mut chunks = CHUNKS.lock().unwrap_or_else(PoisonError::into_inner);
        chunks.insert((self.file, dataset, chunk), bytes, KEPT);
    }
}
