//! Warm sessions, so that reading a slice does not start a process.

use super::idle;
use super::session::{JobSlot, Session};
use crate::profile::Profile;
use crate::protocol::IDLE;
use crate::stub::RecordDigest;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// Sessions that are kept.
const MAX_IDLE: usize = 16;
/// A session with more memory than this is not kept.
const MAX_KEPT_BYTES: usize = 512 << 20;

/// So long after a call, an idle worker is asked to show that it waits for the next.
const SETTLED: Duration = Duration::from_millis(200);
/// So long after that it has to have done so: on a busy machine, it has to wait for its turn.
const PATIENCE: Duration = Duration::from_millis(500);

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

#[derive(Debug)]
struct Idle {
    key: Arc<SessionKey>,
    session: Session,
    since: Instant,
    /// When it was asked to show that it waits for calls.
    asked: Option<Instant>,
}

impl Idle {
    /// Whether the worker waits for calls, as far as it can be told by now: one that has said that it is done and reads nothing, or goes
    /// on computing, is to be ended.
    fn waits(&mut self, now: Instant) -> bool {
        match self.asked {
            _ if !self.session.is_ours() => true,
            None if now.duration_since(self.since) >= SETTLED => {
                self.asked = Some(now);
                self.session.ask_to_look()
            }
            Some(asked) if now.duration_since(asked) >= PATIENCE => self.session.has_looked(),
            _ => true,
        }
    }
}

/// The process's sessions.
#[derive(Debug)]
pub struct Pool(Mutex<Vec<Idle>>);

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
        let is_wanted = |i: &Idle| (Arc::ptr_eq(&i.key, key) || i.key == *key) && i.session.is_ours();
        while let Some(at) = idle.iter().rposition(is_wanted) {
            let session = idle.remove(at).session;
            if !session.is_over() && session.is_here() {
                return Some(session);
            }
        }
        // A new worker will be started, so there is time to clear away those that have ended.
        idle.retain(|i| i.session.is_ours() && !i.session.is_over());
        None
    }

    /// Puts a session back for the next read.
    pub fn put(&self, key: Arc<SessionKey>, session: Session) {
        if session.shared_bytes() > MAX_KEPT_BYTES || session.is_worn {
            return;
        }
        let Some(mut idle) = cache(&self.0) else { return };
        if idle.len() >= MAX_IDLE {
            idle.remove(0);
        }
        idle.push(Idle { key, session, since: Instant::now(), asked: None });
        drop(idle);
        idle::watch();
    }

    /// Ends sessions that nobody has used for a while; returns when the next one is due.
    pub(super) fn end_idle(&self) -> Option<Instant> {
        let now = Instant::now();
        let Some(mut idle) = cache(&self.0) else { return now.checked_add(idle::BUSY) };
        let is_due =
            |i: &mut Idle| now.duration_since(i.since) >= IDLE || i.session.is_over() || !i.waits(now);
        let due: Vec<Idle> = idle.extract_if(.., is_due).collect();
        let next = idle.iter().filter_map(|i| i.since.checked_add(IDLE)).min();
        // Ending a process takes a moment, for which nobody shall find the pool taken.
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

    /// The processes of the idle sessions.
    pub fn pids(&self) -> Vec<i32> {
        cache(&self.0).map_or_else(Vec::new, |idle| idle.iter().map(|i| i.session.pid()).collect())
    }
}
