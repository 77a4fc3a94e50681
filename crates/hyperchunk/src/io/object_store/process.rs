//! State shared by all files of a process: runtime, connections and the bound on requests in flight.
//!
//! This state does not survive a fork, because the child has no threads. The child creates its own at its
//! first read.

use super::hosts::Hosts;
use super::location::Kind;
use super::store::{Connection, Store};
use crate::io::PerProcess;
use crate::{Error, ErrorKind, Result};
use object_store::client::HttpClient;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

/// Number of cached stores, clients and regions from which on unused ones, or all, are evicted.
const MAX_CACHED_ENTRIES: usize = 64;
/// Maximum total weight of all requests in flight.
const MAX_WEIGHT: u32 = 1 << 16;

/// State shared by all files of one process.
pub(super) struct Process {
    pub(super) runtime: Runtime,
    gate: Arc<Semaphore>,
    stores: Mutex<HashMap<Arc<Connection>, Arc<Store>>>,
    clients: Mutex<HashMap<String, HttpClient>>,
    /// Actual regions of buckets that are not where the connection expected them.
    regions: Mutex<HashMap<Arc<Connection>, String>>,
    hosts: Arc<Hosts>,
}

static SHARED: PerProcess<Process> = PerProcess::new();

impl Process {
    /// Returns this process's state.
    pub(super) fn get() -> Result<&'static Self> {
        SHARED.get(Self::new, |spare| spare.runtime.shutdown_background())
    }

    fn new() -> Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get() / 2).clamp(1, 2);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .max_blocking_threads(32)
            .thread_name("hyperchunk-io")
            .enable_all()
            .build()
            .map_err(|error| Error::new(ErrorKind::Io, format!("cannot start threads: {error}")))?;
        Ok(Self {
            runtime,
            gate: Arc::new(Semaphore::new(MAX_WEIGHT as usize)),
            stores: Mutex::default(),
            clients: Mutex::default(),
            regions: Mutex::default(),
            hosts: Arc::default(),
        })
    }

    /// Waits until one more request may be in flight: 256 for all files together, or one file's limit if
    /// that is larger.
    pub(super) async fn enter(&self, concurrency: usize) -> impl Drop + use<> {
        let share = u32::try_from(concurrency.max(256)).unwrap_or(MAX_WEIGHT);
        let permit = Arc::clone(&self.gate).acquire_many_owned((MAX_WEIGHT / share).max(1)).await;
        WeightPermit(permit.ok())
    }

    /// Returns the web servers of open files.
    pub(super) fn hosts(&self) -> &Arc<Hosts> {
        &self.hosts
    }

    /// Records that a bucket is in another region. Returns false if this region is already used.
    pub(super) fn moved(&self, connection: &Arc<Connection>, region: &str) -> bool {
        let moved = connection.kind == Kind::S3 && connection.settings.get("aws_region") != Some(region);
        if moved {
            let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
            if regions.len() >= MAX_CACHED_ENTRIES {
                regions.clear();
            }
            regions.insert(Arc::clone(connection), region.to_owned());
        }
        moved
    }

    /// Returns the store for a connection.
    pub(super) fn store(&self, connection: &Arc<Connection>) -> Result<Arc<Store>> {
        let region = self.regions.lock().unwrap_or_else(PoisonError::into_inner).get(connection).cloned();
        let moved = region.map(|region| {
            let mut moved = Connection::clone(connection);
            moved.settings.set("aws_region", &region);
            Arc::new(moved)
        });
        let connection = moved.as_ref().unwrap_or(connection);
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = stores.get(connection) {
            return Ok(Arc::clone(store));
        }
        if stores.len() >= MAX_CACHED_ENTRIES {
            stores.retain(|_, store| Arc::strong_count(store) > 1);
        }
        let store = Arc::new(Store::new(connection)?);
        stores.insert(Arc::clone(connection), Arc::clone(&store));
        Ok(store)
    }

    /// Returns the client with these settings, which has the connections to all servers that are reached with
    /// them.
    pub(super) fn client(
        &self,
        settings: String,
        make: impl FnOnce() -> object_store::Result<HttpClient>,
    ) -> object_store::Result<HttpClient> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&settings) {
            return Ok(client.clone());
        }
        if clients.len() >= MAX_CACHED_ENTRIES {
            clients.clear();
        }
        let client = make()?;
        clients.insert(settings, client.clone());
        Ok(client)
    }
}

/// A request's share of the maximum weight.
struct WeightPermit(Option<tokio::sync::OwnedSemaphorePermit>);

impl Drop for WeightPermit {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}
