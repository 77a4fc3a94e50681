//! The connections of a server: their number for each peer, and the time limit for presenting the token.
//!
//! A connection that has not been authorised keeps its place only until another needs it: a full server, or a
//! peer with too many connections, closes the one that has waited longest.

use futures_util::task::AtomicWaker;
use std::collections::{HashMap, VecDeque};
use std::future::Future as _;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Sleep;

/// Maximum number of connections of a server.
const MAX_CONNECTIONS: usize = 512;
/// Maximum number of connections of one peer. All connections over a Unix socket count as one peer.
const MAX_CONNECTIONS_PER_PEER: usize = 256;
/// Time limit for a connection to be authorised.
const AUTHORIZATION_TIMEOUT: Duration = Duration::from_secs(10);

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Peers {
    open: Mutex<ConnectionCounts>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct ConnectionCounts {
    count: usize,
    of: HashMap<Option<IpAddr>, usize>,
    /// Connections that are not authorised yet, the oldest first.
    waiting: VecDeque<Arc<ConnectionState>>,
}

/// The state of a connection.
#[derive(Debug)]
pub(super) struct ConnectionState {
    peer: Option<IpAddr>,
    allowed: AtomicBool,
    closed: AtomicBool,
    reader: AtomicWaker,
}

impl ConnectionState {
    /// Marks the connection as authorised.
    pub(super) fn allow(&self) {
        self.allowed.store(true, Ordering::Release);
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.reader.wake();
    }
}

/// The place of a connection, freed on drop.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    state: Arc<ConnectionState>,
    peers: Arc<Peers>,
    until: Option<Pin<Box<Sleep>>>,
}

impl Peers {
    fn open(&self) -> MutexGuard<'_, ConnectionCounts> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a place for a connection of a peer; `None` if the peer has the maximum number of authorised
    /// ones. Waits if all places are taken by authorised connections.
    pub(super) async fn admit(self: &Arc<Self>, peer: Option<IpAddr>) -> Option<ConnectionPermit> {
        loop {
            let freed = self.freed.notified();
            {
                let mut open = self.open();
                open.waiting.retain(|state| !state.allowed.load(Ordering::Acquire));
                if open.of.get(&peer).is_some_and(|count| *count >= MAX_CONNECTIONS_PER_PEER)
                    && !open.give_up(|state| state.peer == peer)
                {
                    return None;
                }
                if open.count < MAX_CONNECTIONS || open.give_up(|_| true) {
                    return Some(self.enter(&mut open, peer));
                }
            }
            freed.await;
        }
    }

    fn enter(self: &Arc<Self>, open: &mut ConnectionCounts, peer: Option<IpAddr>) -> ConnectionPermit {
        let state = Arc::new(ConnectionState {
            peer,
            allowed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            reader: AtomicWaker::new(),
        });
        open.count += 1;
        *open.of.entry(peer).or_default() += 1;
        open.waiting.push_back(Arc::clone(&state));
        let until = Some(Box::pin(tokio::time::sleep(AUTHORIZATION_TIMEOUT)));
        ConnectionPermit { state, peers: Arc::clone(self), until }
    }
}

impl ConnectionCounts {
    /// Closes the unauthorised connection that has waited longest and fits; its place is free at once.
    fn give_up(&mut self, fits: impl Fn(&ConnectionState) -> bool) -> bool {
        let Some(at) = self.waiting.iter().position(|state| fits(state)) else { return false };
        if let Some(state) = self.waiting.remove(at) {
            self.leave(state.peer);
            state.close();
        }
        true
    }

    fn leave(&mut self, peer: Option<IpAddr>) {
        self.count = self.count.saturating_sub(1);
        if let Some(count) = self.of.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.of.remove(&peer);
            }
        }
    }
}

impl ConnectionPermit {
    /// Returns the state of the connection, for its requests.
    pub(super) fn state(&self) -> Arc<ConnectionState> {
        Arc::clone(&self.state)
    }

    /// Returns whether the connection has to end: it was closed, or took too long.
    pub(super) fn poll_end(&mut self, context: &mut Context<'_>) -> bool {
        if self.state.closed.load(Ordering::Acquire) {
            return true;
        }
        let Some(until) = &mut self.until else { return false };
        if self.state.allowed.load(Ordering::Acquire) {
            self.until = None;
            return false;
        }
        self.state.reader.register(context.waker());
        self.state.closed.load(Ordering::Acquire) || until.as_mut().poll(context) == Poll::Ready(())
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.peers.open();
        open.waiting.retain(|state| !Arc::ptr_eq(state, &self.state));
        // `give_up` has already freed the place of a connection that it closed.
        if !self.state.closed.load(Ordering::Acquire) {
            open.leave(self.state.peer);
        }
        drop(open);
        self.peers.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    fn peer(number: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, number]))
    }

    async fn ended(ticket: &mut ConnectionPermit) -> bool {
        poll_fn(|context| Poll::Ready(ticket.poll_end(context))).await
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test);
    }

    #[test]
    fn who_has_shown_nothing_makes_room() {
        run(async {
            let peers = Arc::new(Peers::default());
            let mut held = Vec::new();
            for number in 0..2 * MAX_CONNECTIONS {
                held.push(peers.admit(peer(u8::try_from(number % 4).unwrap())).await.unwrap());
            }
            assert!(ended(&mut held[0]).await && !ended(held.last_mut().unwrap()).await);
            assert_eq!(peers.open().count, MAX_CONNECTIONS);
            drop(held);
            let open = peers.open();
            assert_eq!((open.count, open.of.len(), open.waiting.len()), (0, 0, 0));
        });
    }

    #[test]
    fn a_peer_has_so_many_and_no_more() {
        run(async {
            let peers = Arc::new(Peers::default());
            let mut held = Vec::new();
            for _ in 0..MAX_CONNECTIONS_PER_PEER {
                let ticket = peers.admit(peer(1)).await.unwrap();
                ticket.state().allow();
                held.push(ticket);
            }
            assert!(peers.admit(peer(1)).await.is_none());
            let other = peers.admit(peer(2)).await.unwrap();
            assert!(!ended(&mut held[0]).await);
            held.pop();
            assert!(peers.admit(peer(1)).await.is_some());
            drop(other);
        });
    }

    #[test]
    fn all_places_taken_are_waited_for() {
        run(async {
            let peers = Arc::new(Peers::default());
            let mut held = Vec::new();
            for number in 0..MAX_CONNECTIONS {
                let ticket = peers.admit(peer(u8::try_from(number % 2).unwrap())).await.unwrap();
                ticket.state().allow();
                held.push(ticket);
            }
            let waiting = tokio::time::timeout(Duration::from_millis(50), peers.admit(peer(3)));
            assert!(waiting.await.is_err());
            let free = async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                held.pop();
            };
            let (admitted, ()) = tokio::join!(peers.admit(peer(3)), free);
            assert!(admitted.is_some());
        });
    }
}
