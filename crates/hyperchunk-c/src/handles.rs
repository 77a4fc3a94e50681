//! The table of open objects, which the program refers to by numbers.

use hyperchunk::write::{DatasetWriter, NodeId, Writer};
use hyperchunk::{Error, Result};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{LazyLock, PoisonError, RwLock};

/// An open object.
#[derive(Clone)]
pub(crate) enum Handle {
    File(Writer),
    Group(Writer, NodeId),
    Dataset(Writer, DatasetWriter),
}

/// The next number. Numbers are never reused, so a closed one stays invalid.
static NEXT: AtomicI64 = AtomicI64::new(1);
static OPEN: LazyLock<RwLock<HashMap<i64, Handle>>> = LazyLock::new(RwLock::default);

impl Handle {
    /// Assigns it a number.
    pub(crate) fn open(self) -> i64 {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        OPEN.write().unwrap_or_else(PoisonError::into_inner).insert(id, self);
        id
    }

    /// Returns the object with a number.
    pub(crate) fn get(id: i64) -> Result<Self> {
        let open = OPEN.read().unwrap_or_else(PoisonError::into_inner);
        open.get(&id)
            .cloned()
            .ok_or_else(|| Error::invalid(format!("{id} is no open file, group or dataset")))
    }

    pub(crate) fn forget(id: i64) {
        OPEN.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    pub(crate) fn file(&self) -> &Writer {
        match self {
            Self::File(file) | Self::Group(file, _) | Self::Dataset(file, _) => file,
        }
    }

    pub(crate) fn node(&self) -> NodeId {
        match self {
            Self::File(_) => NodeId::ROOT,
            Self::Group(_, id) => *id,
            Self::Dataset(_, dataset) => dataset.id(),
        }
    }

    pub(crate) fn dataset(id: i64) -> Result<DatasetWriter> {
        match Self::get(id)? {
            Self::Dataset(_, dataset) => Ok(dataset),
            _ => Err(Error::invalid(format!("{id} is no dataset"))),
        }
    }
}
