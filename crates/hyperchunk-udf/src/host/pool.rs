//! Pool of warm sessions, so that reading a slice does not start a process.

use super::idle;
use super::job::SessionKey;
use super::session::Session;
use crate::cache::cache;
use crate::protocol::IDLE_TIMEOUT;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Maximum number of pooled sessions.
const MAX_IDLE_SESSIONS: usize = 16;
/// Maximum shared memory of a pooled session.
const MAX_IDLE_BYTES: usize = 512 << 20;

/// Time after a call at which an idle worker is asked to show that it waits for the next.
const SETTLE_TIME: Duration = Duration::from_millis(200);
/// Time that it then has to do so: on a busy machine, it has to wait to be scheduled.
const REPLY_TIMEOUT: Duration = Duration::from_millis(500);

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
