//! Cache of GPU memory between calls, which saves frequent callers from allocating and freeing it each time.

use crate::{Context, DeviceMemory};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The memory of one of the two buffers.
#[derive(Debug, Default)]
pub(super) struct Buffers(pub(super) [Option<DeviceMemory>; 6]);

impl Buffers {
    fn bytes(&self) -> usize {
        self.0.iter().flatten().map(DeviceMemory::bytes).sum()
    }
}

/// A cache of memory on one GPU, with a size limit; freed on drop.
#[derive(Debug)]
pub struct BufferCache {
    most: usize,
    waiting: Mutex<Vec<Buffers>>,
}

impl BufferCache {
    /// Creates an empty cache with a limit of `most` unused bytes.
    #[must_use]
    pub fn new(most: usize) -> BufferCache {
        BufferCache { most, waiting: Mutex::new(Vec::new()) }
    }

    /// Returns the number of cached bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.waiting().iter().map(Buffers::bytes).sum()
    }

    /// Frees all cached memory; returns whether there was any.
    pub fn clear(&self) -> bool {
        let freed = std::mem::take(&mut *self.waiting());
        !freed.is_empty()
    }

    pub(super) fn take(&self, context: &Arc<Context>) -> Buffers {
        let mut waiting = self.waiting();
        let is_of = |buffers: &Buffers| {
            buffers.0.iter().flatten().all(|memory| Arc::ptr_eq(memory.context(), context))
        };
        let found = waiting.iter().position(is_of);
        found.map(|place| waiting.remove(place)).unwrap_or_default()
    }

    /// Caches as many of the buffers as the limit allows.
    pub(super) fn put(&self, mut buffers: Buffers) {
        let mut waiting = self.waiting();
        let mut left = self.most.saturating_sub(waiting.iter().map(Buffers::bytes).sum());
        for memory in &mut buffers.0 {
            match memory.as_ref().map_or(0, DeviceMemory::bytes) {
                bytes if bytes <= left => left -= bytes,
                _ => *memory = None,
            }
        }
        if buffers.bytes() > 0 {
            waiting.push(buffers);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Buffers>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
