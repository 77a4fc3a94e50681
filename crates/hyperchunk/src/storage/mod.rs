//! Interface to data that are not in the file of their dataset: sharded stores, and other layouts of a
//! dataset.
//!
//! The engine recognizes a store's dataset by its [`Marker`], and asks the registered [`Storage`]
//! for the data. `hyperchunk_store::register` registers the only one. Without it, such a dataset
//! cannot be read: the parts that libhdf5 finds in external files may be incomplete.

mod marker;

pub use crate::companion::{LAYOUTS, has_store, store_folder};
pub use crate::id::{DatasetId, hash, parse_id, random_id, write_id};
pub use marker::{ADVICE, MARKER, Marker};

use crate::io::Source;
use crate::read::{Output, Parts, Stretch};
use crate::{Dataset, Error, ErrorKind, ExternalPolicy, File, Limits, Result};
use hyperchunk_format::parse::object::DatasetHeader;
use hyperchunk_format::select::Selection;
use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Name of the group in a skeleton's root group that contains the blocks of virtual datasets.
pub const BLOCKS: &[u8] = b".hyperchunk-store";

/// Location of a file that has datasets in stores.
#[derive(Debug, Clone, Copy)]
pub struct FileLocation<'f> {
    /// The path, or the URL without secrets; `None` for a file in memory.
    pub path: Option<&'f Path>,
    /// The bytes of the file.
    pub source: &'f Arc<dyn Source>,
    /// Policy for other files.
    pub external: ExternalPolicy,
}

/// An opened epoch of a store.
#[derive(Debug)]
pub struct Epoch {
    /// The HDF5 file of that epoch.
    pub image: Arc<[u8]>,
    /// State for that file.
    pub storage: Arc<dyn FileStorage>,
}

/// Implementation of stores and layouts, one in each process.
pub trait Storage: Sync {
    /// Returns the state for a file that is being opened.
    fn file(&self) -> Arc<dyn FileStorage>;

    /// Opens an epoch of the store of a file.
    ///
    /// # Errors
    /// NotFound if there is no such epoch; errors of reading it.
    fn open_epoch(&self, location: &FileLocation<'_>, epoch: u64) -> Result<Epoch>;

    /// Checks that an empty file with the folder of a store is not one that writers have truncated and not yet
    /// committed.
    ///
    /// # Errors
    /// NotFound if it is; errors of reading the logs.
    fn check_committed(&self, path: &Path) -> Result<()>;
}

/// Stores and layouts of an open file.
pub trait FileStorage: Debug + Send + Sync {
    /// Opens the dataset of a marker. Replaces the description of the stub in `header` by the
    /// dataset's own.
    ///
    /// # Errors
    /// Errors of reading. A missing or damaged store is not an error here: each read of the returned dataset
    /// reports it.
    fn dataset(
        &self,
        location: &FileLocation<'_>,
        marker: Marker,
        header: &mut DatasetHeader,
    ) -> Result<Arc<dyn DatasetStorage>>;

    /// Returns another layout of a dataset that serves a selection at a lower cost, if there is
    /// one.
    fn cheapest(&self, dataset: &Dataset, selection: &Selection) -> Option<Dataset>;
}

/// Data of a dataset of a store.
pub trait DatasetStorage: Any + Debug + Send + Sync {
    /// Returns the marker, which names the dataset and its epoch.
    fn marker(&self) -> Marker;

    /// Returns whether the store was found.
    fn is_committed(&self) -> bool;

    /// Returns whether the store may exist but must not be used. The data that libhdf5 would read may then
    /// differ from the store's.
    fn is_refused(&self) -> bool;

    /// Returns whether the data are reached over a network.
    fn is_remote(&self) -> bool;

    /// Returns the number of pieces of the data; `None` if it is unknown.
    fn pieces(&self) -> Option<u64>;

    /// Returns the coordinates of the cells that contain written data, in a regular division of the dataset
    /// into cells of the extent `grid`.
    ///
    /// # Errors
    /// The reason why the dataset cannot be read; Limit for too many cells.
    fn written_cells(&self, grid: &[u64], limits: &Limits) -> Result<Vec<Vec<u64>>>;

    /// Returns the locations of those of the rows that are contiguous and unfiltered in a local file. `sizes`
    /// is the size of a row and of an element, in bytes.
    ///
    /// # Errors
    /// Errors of finding them.
    fn contiguous_rows(&self, rows: &Range<u64>, sizes: (u64, u64), limits: &Limits) -> Result<Vec<Stretch>>;

    /// Reads a selection. `means` is the maximum number of threads, and the limits. If `parts` is given, adds
    /// the file ranges that must be fetched to it instead of reading them.
    ///
    /// # Errors
    /// The reason why the dataset cannot be read; errors of reading.
    fn read<'a>(
        &self,
        selection: &Selection,
        output: &'a Output<'a>,
        means: (usize, &Limits),
        parts: Option<&mut Parts<'a>>,
    ) -> Result<()>;
}

static STORAGE: OnceLock<&'static dyn Storage> = OnceLock::new();

/// Sets the process's storage. Later calls have no effect.
pub fn set_storage(storage: &'static dyn Storage) {
    STORAGE.get_or_init(|| storage);
}

/// Returns the process's storage, if one is registered.
pub(crate) fn storage() -> Option<&'static dyn Storage> {
    STORAGE.get().copied()
}

/// Maximum size in bytes of a file that is empty because writers have truncated it.
const MAX_EMPTY_BYTES: u64 = 4096;

/// Checks that a local file is not empty only because its store is not committed yet.
///
/// # Errors
/// As [`Storage::check_committed`].
pub(crate) fn check_committed(file: &File) -> Result<()> {
    if file.options().ignore_stores || file.source().size() > MAX_EMPTY_BYTES {
        return Ok(());
    }
    let (Some(path), Some(storage)) = (file.located(), storage()) else { return Ok(()) };
    if !has_store(path) || !file.root()?.group()?.links()?.is_empty() {
        return Ok(());
    }
    storage.check_committed(path)
}

/// Returns the error of reads in a process without storage. The caller adds the name of the dataset.
pub(crate) fn unregistered() -> Error {
    let message = "cannot read the data: they are in a sharded store; register hyperchunk-store to read it";
    Error::new(ErrorKind::Unsupported, message)
}

/// Dataset of a store in a process without storage: every read is an error.
#[derive(Debug)]
pub(crate) struct UnregisteredDataset(pub(crate) Marker);

impl DatasetStorage for UnregisteredDataset {
    fn marker(&self) -> Marker {
        self.0
    }

    fn is_committed(&self) -> bool {
        false
    }

    fn is_refused(&self) -> bool {
        true
    }

    fn is_remote(&self) -> bool {
        false
    }

    fn pieces(&self) -> Option<u64> {
        None
    }

    fn written_cells(&self, _: &[u64], _: &Limits) -> Result<Vec<Vec<u64>>> {
        Err(unregistered())
    }

    fn contiguous_rows(&self, _: &Range<u64>, _: (u64, u64), _: &Limits) -> Result<Vec<Stretch>> {
        Ok(Vec::new())
    }

    fn read<'a>(
        &self,
        _: &Selection,
        _: &'a Output<'a>,
        _: (usize, &Limits),
        _: Option<&mut Parts<'a>>,
    ) -> Result<()> {
        Err(unregistered())
    }
}

#[cfg(test)]
mod tests;
