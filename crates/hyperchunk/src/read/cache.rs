//! Chunks that were decoded last: small slices of one chunk decode it once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How many bytes of decoded chunks a file keeps.
const KEPT: usize = 8 << 20;

/// Decoded chunks of a file, by address. Those used longest ago leave first.
#[derive(Default)]
pub(crate) struct ChunkCache(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// By dataset and chunk.
    chunks: HashMap<(u64, u64), Entry>,
    bytes: usize,
    clock: u64,
}

/// When a chunk was used last, and its bytes.
type Entry = (u64, Arc<[u8]>);

impl ChunkCache {
    /// Whether chunks of this size are kept.
    pub(crate) fn takes(bytes: usize) -> bool {
        bytes <= KEPT / 2
    }

    pub(crate) fn get(&self, key: (u64, u64)) -> Option<Arc<[u8]>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clock += 1;
        let clock = kept.clock;
        let (used, bytes) = kept.chunks.get_mut(&key)?;
        *used = clock;
        Some(Arc::clone(bytes))
    }

    pub(crate) fn insert(&self, key: (u64, u64), bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.bytes + bytes.len() > KEPT {
            let Some(oldest) = kept.chunks.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| *key)
            else {
                break;
            };
            let gone = kept.chunks.remove(&oldest).map_or(0, |(_, bytes)| bytes.len());
            kept.bytes -= gone;
        }
        kept.clock += 1;
        let entry = (kept.clock, Arc::from(bytes));
        kept.bytes += bytes.len();
        if let Some((_, old)) = kept.chunks.insert(key, entry) {
            kept.bytes -= old.len();
        }
    }
}
