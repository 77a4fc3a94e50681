//! What all files of a process share: the threads that wait for the network, connections, and how much may be under way.
//!
//! None of it outlives a fork: the child has no threads. It makes its own when it first reads.

use super::location::Kind;
use super::store::{Connection, Store};
use crate::io::PerProcess;
use crate::{Error, ErrorKind, Result};
use object_store::client::HttpClient;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

/// How many stores and clients are kept; beyond that, those that no file uses are forgotten.
const KEPT: usize = 64;
/// What all requests that are under way weigh together, at most.
const WEIGHT: u32 = 1 << 16;

/// What all files of one process share.
pub(super) struct Process {
    pub(super) runtime: Runtime,
    gate: Arc<Semaphore>,
    stores: Mutex<HashMap<Arc<Connection>, Arc<Store>>>,
    clients: Mutex<HashMap<String, HttpClient>>,
    /// Where buckets are that are not where they were looked for.
    regions: Mutex<HashMap<Arc<Connection>, String>>,
}

static SHARED: PerProcess<Process> = PerProcess::new();

impl Process {
    /// That of this process.
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
            gate: Arc::new(Semaphore::new(WEIGHT as usize)),
            stores: Mutex::default(),
            clients: Mutex::default(),
            regions: Mutex::default(),
        })
    }

    /// Waits until one more request may be under way: of all files together 256, or as many as of one if that is more.
    pub(super) async fn enter(&self, concurrency: usize) -> impl Drop + use<> {
        let share = u32::try_from(concurrency.max(256)).unwrap_or(WEIGHT);
        let permit = Arc::clone(&self.gate).acquire_many_owned((WEIGHT / share).max(1)).await;
        Held(permit.ok())
    }

    /// Notes that a bucket is in another region; `false` if it is the one where it was looked for.
    pub(super) fn moved(&self, connection: &Arc<Connection>, region: &str) -> bool {
        let moved = connection.kind == Kind::S3 && connection.settings.get("aws_region") != Some(region);
        if moved {
            let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
            if regions.len() >= KEPT {
                regions.clear();
            }
            regions.insert(Arc::clone(connection), region.to_owned());
        }
        moved
    }

    /// The store at the end of a connection.
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
        if stores.len() >= KEPT {
            stores.retain(|_, store| Arc::strong_count(store) > 1);
        }
        let store = Arc::new(Store::new(connection)?);
        stores.insert(Arc::clone(connection), Arc::clone(&store));
        Ok(store)
    }

    /// The client with these settings: it holds the connections to all servers that are reached so.
    pub(super) fn client(
        &self,
        settings: String,
        make: impl FnOnce() -> object_store::Result<HttpClient>,
    ) -> object_store::Result<HttpClient> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&settings) {
            return Ok(client.clone());
        }
        if clients.len() >= KEPT {
            clients.clear();
        }
        let client = make()?;
        clients.insert(settings, client.clone());
        Ok(client)
    }
}

/// A request's part of what may be under way.
struct Held(Option<tokio::sync::OwnedSemaphorePermit>);

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}
