//! Sharded stores in the connector.
//!
//! A process that writes has a *writer*: a log, and its own skeleton, an unnamed native file whose image is
//! stored in the log. The datasets in the skeleton are stubs; their elements are written to the log, and read
//! from all logs. When the last object of the file is closed, the writer is finished, and the session's last
//! writer commits.

mod at_exit;
mod attributes;
mod chunks;
mod copy;
mod create;
mod dataset_queries;
mod describe;
mod fields;
mod finish;
mod layers;
mod location;
mod names;
mod open_here;
mod open_store;
mod paths;
mod peers;
mod pieces;
mod process_group;
mod selection;
mod shared;
mod transfer;
mod virtuals;

pub(super) use at_exit::report_at_exit;
pub(super) use chunks::optional;
pub(super) use copy::{Copy, copy};
pub(super) use create::{Creation, create_dataset};
pub(super) use dataset_queries::{get, specific};
pub(super) use names::{check_location, check_name, check_value};
pub(super) use open_here::{LiveObject, live_object};
pub(super) use open_store::{Call as FileCall, create, divert, is_plain_driver, open};
pub(super) use paths::{forget, is_store_named};
pub(super) use shared::SharedDataset;
pub(super) use transfer::{Call, read, write};
pub(super) use virtuals::Sources;

use super::failure::{Outcome, refuse};
use super::mpi::Ranks;
use super::options::Options;
use super::slot::Slot;
use crate::symbols::Hid;
use hyperchunk_store::{DatasetId, Definition, LogWriter, Manifest, WriterBytes, WriterId, log_path};
use layers::{Layer, Source};
use peers::Peers;
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};

/// A store that this process has open, for one libhdf5.
pub(super) struct Store {
    slot: &'static Slot,
    path: PathBuf,
    /// The skeleton's name, as the lower connector knows it.
    name: Vec<u8>,
    options: Options,
    writer: Option<LogWriter>,
    /// The other writers of the file; `None` if it is open for reading only.
    peers: Option<Arc<Peers>>,
    /// Keeps the skeleton open while any object of the file is open.
    keeper: Mutex<Option<Keeper>>,
    /// The stamp of the file at the path, when it was last checked.
    at_path: Mutex<Option<FileStamp>>,
    /// Number of our objects that belong to the store.
    objects: AtomicUsize,
    ended: AtomicBool,
    manifests: Mutex<HashMap<u64, Arc<Manifest>>>,
    logs: Mutex<HashMap<WriterId, Arc<File>>>,
    datasets: Mutex<HashMap<DatasetId, Arc<SharedDataset>>>,
    /// Identities used so far, also by deleted datasets.
    used: Mutex<HashSet<DatasetId>>,
    /// The file locking settings with which the store was first opened.
    locking: (bool, bool),
    /// The ranks that have the store open together, until they close it.
    ranks: Mutex<Option<Arc<Ranks>>>,
    /// True if the ranks have committed the store, or have failed to.
    settled: AtomicBool,
}

/// Device, inode, size and time of modification of a file.
type FileStamp = (u64, u64, u64, (i64, i64));

/// Keeps a skeleton open: the root group of the lower file that was opened first. Pointers are stored as
/// numbers.
#[derive(Clone, Copy)]
struct Keeper {
    group: usize,
    /// The lower file itself, if the lower connector is the native one; the group keeps it open. Requesting
    /// it from the native connector (`H5VL_OBJECT_GET_FILE`) would count an identifier of the file, which
    /// would never be closed.
    file: Option<usize>,
    vol: Hid,
}

/// A store as one call opened it.
pub(super) struct OpenStore {
    pub(super) store: Arc<Store>,
    /// The name that the application gave.
    pub(super) given: CString,
    /// `H5F_ACC_RDWR` and so on.
    pub(super) flags: u32,
}

/// A dataset of a store, as one call opened it.
pub(super) struct StoreDataset {
    slot: &'static Slot,
    pub(super) shared: Arc<SharedDataset>,
    /// The dataset's datatype.
    kind: Hid,
    /// The creation list, as the application passed it.
    plist: Hid,
}

impl Drop for StoreDataset {
    fn drop(&mut self) {
        // SAFETY: both are ours and open.
        self.slot.keep_errors(|| unsafe {
            (self.slot.api.type_close)(self.kind);
            (self.slot.api.plist_close)(self.plist);
        });
    }
}

impl Store {
    /// Returns the writer, or an error if the store is read-only.
    fn writer(&self) -> Outcome<&LogWriter> {
        match &self.writer {
            Some(writer) => Ok(writer),
            None => refuse!("{} is open for reading only", self.path.display()),
        }
    }

    fn manifest(&self, epoch: u64) -> hyperchunk::Result<Arc<Manifest>> {
        let mut known = self.manifests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(manifest) = known.get(&epoch) {
            return Ok(Arc::clone(manifest));
        }
        let manifest = Manifest::epoch(&self.path, epoch)?;
        known.insert(epoch, Arc::clone(&manifest));
        Ok(manifest)
    }

    fn source(&self, writer: WriterId, definition: &Definition) -> hyperchunk::Result<Source> {
        let bytes = WriterBytes::new(&self.path, writer, self.log(writer)?, definition);
        Ok(Source::Other(Arc::new(bytes)))
    }

    fn log(&self, writer: WriterId) -> hyperchunk::Result<Arc<File>> {
        let mut known = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = known.get(&writer) {
            return Ok(Arc::clone(file));
        }
        let path = log_path(&self.path, writer);
        let file = File::open(&path).map_err(|error| {
            let message = format!("cannot open a log of the store: {error}");
            hyperchunk::Error::new(hyperchunk::ErrorKind::NotFound, message).file(path.display())
        })?;
        let file = Arc::new(file);
        known.insert(writer, Arc::clone(&file));
        Ok(file)
    }

    /// Returns the dataset that a marker with this identity and epoch names.
    fn shared(&self, id: DatasetId, epoch: u64) -> Outcome<Arc<SharedDataset>> {
        let known = |store: &Self| {
            let datasets = store.datasets.lock().unwrap_or_else(PoisonError::into_inner);
            datasets.get(&id).cloned()
        };
        if let Some(shared) = known(self) {
            return Ok(shared);
        }
        let mut definition = None;
        let mut dims = Vec::new();
        let mut layers = Vec::new();
        if epoch > 0 {
            let manifest = self.manifest(epoch)?;
            let Some(stored) = manifest.dataset(&id) else {
                refuse!(
                    "epoch {epoch} of {0} does not have the dataset {id}: the folder {0}.d is incomplete, or belongs to another file",
                    self.path.display()
                )
            };
            for part in &stored.parts {
                let log = usize::try_from(part.log).ok().and_then(|log| manifest.logs.get(log));
                let Some(log) = log else { refuse!("epoch {epoch} refers to a log that it does not have") };
                layers.push(Layer::new(
                    self.source(log.writer, &stored.definition)?,
                    part.epoch,
                    &part.written,
                ));
            }
            definition = Some(stored.definition.clone());
            dims.clone_from(&stored.extent);
        }
        if let Some(peers) = &self.peers {
            peers.refresh()?;
            let found = peers.dataset(id)?;
            if dims.is_empty() {
                dims.clone_from(&found.dims);
            }
            dims.iter_mut().zip(&found.dims).for_each(|(dim, other)| *dim = (*dim).max(*other));
            definition = definition.or(found.definition);
        }
        let Some(definition) = definition else {
            refuse!(
                "cannot find the dataset {id}: none of the finished or flushed logs of {} defines it",
                self.path.display()
            )
        };
        let mut is_ahead = false;
        let own = match &self.writer {
            Some(writer) => {
                let number = writer.define(&definition)?;
                is_ahead = writer.dataset(number)?.dims != dims;
                Some((writer.clone(), number))
            }
            None => None,
        };
        let shared = SharedDataset::new(id, definition, dims, layers, own);
        let shared = shared.ahead(is_ahead).with_peers(self.peers.as_ref());
        let shared = shared.with_codec(self.options.codec);
        let shared = Arc::new(shared);
        let mut datasets = self.datasets.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(datasets.entry(id).or_insert(shared)))
    }

    /// Returns the lower object that keeps the skeleton open.
    fn keeper(&self) -> Option<Keeper> {
        *self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
