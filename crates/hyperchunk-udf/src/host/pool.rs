//! Warm sessions, so that reading a slice does not start a process.

use super::session::{JobSlot, Session};
use crate::profile::Profile;
use crate::stub::RecordDigest;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// Sessions that are kept.
const MAX_IDLE: usize = 16;
/// A session with more memory than this is not kept.
const MAX_KEPT_BYTES: usize = 512 << 20;

/// What makes two evaluations the same work in the same place, so that one worker may serve both. A worker never
/// serves another file or another record: it could carry what it saw from one to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionKey {
    /// Device and inode of the file, or another number that is never used twice.
    pub file: (u64, u64),
    /// What tells that the file was changed: its size and the time of its last change, in seconds and nanoseconds.
    pub version: (u64, i64, i64),
    /// The record.
    pub record: RecordDigest,
    /// The profile: one that was changed meanwhile is another.
    pub profile: Profile,
    /// The path that the file was opened by, which functions can ask for.
    pub file_path: String,
    /// Where the data lies.
    pub slots: Vec<JobSlot>,
}

/// The contents of a cache, or `None` while another thread has it: a cache is never waited for. After a fork, the lock
/// of a thread that is not there any more would be waited for for ever.
pub fn cache<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The process's sessions.
#[derive(Debug)]
pub struct Pool(Mutex<Vec<(Arc<SessionKey>, Session)>>);

impl Pool {
    /// The one pool.
    pub fn global() -> &'static Pool {
        static POOL: Pool = Pool(Mutex::new(Vec::new()));
        &POOL
    }

    /// Takes a session for `key` out of the pool.
    pub fn take(&self, key: &Arc<SessionKey>) -> Option<Session> {
        let mut idle = cache(&self.0)?;
        // The last one is the likeliest: the chunk before this one put it there.
        let is_wanted =
            |(k, s): &(Arc<SessionKey>, Session)| (Arc::ptr_eq(k, key) || k == key) && s.is_ours();
        while let Some(at) = idle.iter().rposition(is_wanted) {
            let session = idle.remove(at).1;
            if !session.is_over() {
                return Some(session);
            }
        }
        // A new worker will be started, so there is time to clear away those that have ended.
        idle.retain(|(_, s)| s.is_ours() && !s.is_over());
        None
    }

    /// Puts a session back for the next read.
    pub fn put(&self, key: Arc<SessionKey>, session: Session) {
        if session.shared_bytes() > MAX_KEPT_BYTES {
            return;
        }
        let Some(mut idle) = cache(&self.0) else { return };
        if idle.len() >= MAX_IDLE {
            idle.remove(0);
        }
        idle.push((key, session));
    }

    /// Ends every idle session: for tests, and for programs that count processes.
    pub fn clear(&self) {
        if let Some(mut idle) = cache(&self.0) {
            idle.clear();
        }
    }

    /// The processes of the idle sessions.
    pub fn pids(&self) -> Vec<i32> {
        cache(&self.0).map_or_else(Vec::new, |idle| idle.iter().map(|(_, s)| s.pid()).collect())
    }
}
