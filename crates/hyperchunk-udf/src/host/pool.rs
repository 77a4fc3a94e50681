//! Pool of warm sessions, so that reading a slice does not start a process.

use super::idle;
use super::session::{JobSlot, Session};
use crate::profile::Profile;
use crate::protocol::IDLE_TIMEOUT;
use crate::stub::RecordDigest;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// Maximum number of pooled sessions.
const MAX_IDLE_SESSIONS: usize = 16;
/// Maximum shared memory of a pooled session.
const MAX_IDLE_BYTES: usize = 512 << 20;

/// Time after a call at which an idle worker is asked to show that it waits for the next.
const SETTLE_TIME: Duration = Duration::from_millis(200);
/// Time that it then has to do so: on a busy machine, it has to wait to be scheduled.
const REPLY_TIMEOUT: Duration = Duration::from_millis(500);

/// Identity of an evaluation: one worker may serve all evaluations with the same key. A worker never serves
/// another file or another record, since it could leak data from one to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionKey {
    /// Device and inode of the file, or another number that is never reused.
    pub file: (u64, u64),
    /// Version of the file: its size and the time of its last change, in seconds and nanoseconds.
    pub version: (u64, i64, i64),
    /// Digest of the record.
    pub record: RecordDigest,
    /// Profile; a changed profile is a different key.
    pub profile: Profile,
    /// Path that the file was opened by, which functions can query.
    pub file_path: String,
    /// Datasets with the location of their data.
    pub slots: Vec<JobSlot>,
}

/// Locks a cache, or returns `None` while another thread holds it. Never blocks: after a fork, the thread
/// that holds the lock may no longer exist, and the wait would never end.
pub fn cache<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[derive(Debug)]
struct IdleSession {
    key: Arc<SessionKey>,
    session: Session,
    since: Instant,
    /// Time at which the worker was asked to show that it waits for calls.
    asked: Option<Instant>,
}

impl IdleSession {
    /// Returns whether the worker waits for calls, as far as is known by now. A worker that reported the end
    /// of its call but reads no message, or continues to compute, has to be ended.
    fn is_waiting(&mut self, now: Instant) -> bool {
        match self.asked {
            _ if !self.session.is_ours() => true,
            None if now.duration_since(self.since) >= SETTLE_TIME => {
                self.asked = Some(now);
                self.session.ask_to_look()
            }
            Some(asked) if now.duration_since(asked) >= REPLY_TIMEOUT => self.session.has_looked(),
            _ => true,
        }
    }
}

/// Pool of the process's idle sessions.
#[derive(Debug)]
pub struct Pool(Mutex<Vec<IdleSession>>);

impl Pool {
    /// Returns the pool of the process.
    pub fn global() -> &'static Pool {
        static POOL: Pool = Pool(Mutex::new(Vec::new()));
        &POOL
    }

    /// Takes a session for `key` out of the pool.
    pub fn take(&self, key: &Arc<SessionKey>) -> Option<Session> {
        let mut idle = cache(&self.0)?;
        // The last one is the likeliest: the preceding chunk returned it.
        let is_wanted = |i: &IdleSession| (Arc::ptr_eq(&i.key, key) || i.key == *key) && i.session.is_ours();
        while let Some(at) = idle.iter().rposition(is_wanted) {
            let session = idle.remove(at).session;
            if !session.is_over() && session.is_here() {
                return Some(session);
            }
        }
        // A new worker will be started, so there is time to remove ended ones.
        idle.retain(|i| i.session.is_ours() && !i.session.is_over());
        None
    }

    /// Returns a session to the pool for the next read.
    pub fn put(&self, key: Arc<SessionKey>, session: Session) {
        if session.shared_bytes() > MAX_IDLE_BYTES || session.is_worn {
            return;
        }
        let Some(mut idle) = cache(&self.0) else { return };
        if idle.len() >= MAX_IDLE_SESSIONS {
            idle.remove(0);
        }
        idle.push(IdleSession { key, session, since: Instant::now(), asked: None });
        drop(idle);
        idle::watch();
    }

    /// Ends sessions that were not used for a while. Returns the time at which the next one is due.
    pub(super) fn end_idle(&self) -> Option<Instant> {
        let now = Instant::now();
        let Some(mut idle) = cache(&self.0) else { return now.checked_add(idle::RETRY_INTERVAL) };
        let is_due = |i: &mut IdleSession| {
            now.duration_since(i.since) >= IDLE_TIMEOUT || i.session.is_over() || !i.is_waiting(now)
        };
        let due: Vec<IdleSession> = idle.extract_if(.., is_due).collect();
        let next = idle.iter().filter_map(|i| i.since.checked_add(IDLE_TIMEOUT)).min();
        // Ending a process takes a moment, during which the pool must not be locked.
        drop(idle);
        drop(due);
        next
    }

    /// Ends every idle session: for tests, and for programs that count processes.
    pub fn clear(&self) {
        if let Some(mut idle) = cache(&self.0) {
            idle.clear();
        }
    }

    /// Returns the process ids of the idle sessions.
    pub fn pids(&self) -> Vec<i32> {
        cache(&self.0).map_or_else(Vec::new, |idle| idle.iter().map(|i| i.session.pid()).collect())
    }
}
