//! Locks of caches that all threads of a process share.

use std::sync::{Mutex, MutexGuard, TryLockError};

/// Locks a cache, or returns `None` while another thread holds it. Never blocks: after a fork, the thread
/// that holds the lock may no longer exist, and the wait would never end.
pub fn cache<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
