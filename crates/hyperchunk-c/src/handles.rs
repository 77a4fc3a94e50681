//! Table of open objects. The program refers to them by numbers (`hc_id`).

use crate::read::ReadObject;
use hyperchunk::write::{DatasetWriter, NodeId, Writer};
use hyperchunk::{Error, Result};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

/// An open object.
#[derive(Clone)]
pub(crate) enum Handle {
    File(Writer),
    Group(Writer, NodeId),
    Dataset(Writer, DatasetWriter),
    /// A file, group or dataset that is open for reading.
    Read(Arc<ReadObject>),
}

/// Next number. Numbers are never reused, so the number of a closed object stays invalid.
static NEXT: AtomicI64 = AtomicI64::new(1);
static OPEN: LazyLock<RwLock<HashMap<i64, Handle>>> = LazyLock::new(RwLock::default);

impl Handle {
    /// Adds the object to the table; returns its number.
    pub(crate) fn open(self) -> i64 {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        OPEN.write().unwrap_or_else(PoisonError::into_inner).insert(id, self);
        id
    }

    /// Returns the object with number `id`.
    pub(crate) fn get(id: i64) -> Result<Self> {
        let open = OPEN.read().unwrap_or_else(PoisonError::into_inner);
        open.get(&id)
            .cloned()
            .ok_or_else(|| Error::invalid(format!("ID {id} is no open file, group or dataset")))
    }

    pub(crate) fn forget(id: i64) {
        OPEN.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// Returns the writer of the object's file, and the object's node in it.
    pub(crate) fn writer(&self) -> Result<(&Writer, NodeId)> {
        match self {
            Self::File(file) => Ok((file, NodeId::ROOT)),
            Self::Group(file, id) => Ok((file, *id)),
            Self::Dataset(file, dataset) => Ok((file, dataset.id())),
            Self::Read(_) => {
                Err(Error::invalid("cannot change the file: it is open for reading; open it with hc_open_rw"))
            }
        }
    }

    /// Returns the dataset with number `id`, of a file that is open for writing.
    pub(crate) fn dataset(id: i64) -> Result<DatasetWriter> {
        match Self::get(id)? {
            Self::Dataset(_, dataset) => Ok(dataset),
            other => {
                other.writer()?;
                Err(Error::invalid(format!("expected a dataset, got a file or group (ID {id})")))
            }
        }
    }

    /// Returns the object with number `id`, of a file that is open for reading.
    pub(crate) fn to_read(id: i64) -> Result<Arc<ReadObject>> {
        match Self::get(id)? {
            Self::Read(object) => Ok(object),
            _ => Err(Error::invalid(
                "cannot read: the file is being written; close it, and open it with hc_open",
            )),
        }
    }
}
