//! Implementation of the engine's storage traits ([`hyperchunk::storage`]) by sharded stores and layouts.

use crate::commit::sessions;
use crate::read::snapshot::{ShardedDataset, Store, Stores};
use crate::restructure::Layouts;
use hyperchunk::internal::{Output, Parts, Stretch};
use hyperchunk::storage::{DatasetStorage, Epoch, FileLocation, FileStorage, Marker, Storage, set_storage};
use hyperchunk::{Dataset, Limits, Result};
use hyperchunk_format::parse::object::DatasetHeader;
use hyperchunk_format::select::Selection;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The [`Storage`] that [`register`] installs.
struct Shards;

/// Stores and layouts of an open file.
#[derive(Debug, Default)]
struct FileState {
    stores: Stores,
    layouts: Layouts,
}

/// Registers this crate with the engine: files opened from now on, by any thread, are read with
/// their stores and layouts. Without it, the engine refuses to read a store's dataset. Repeated
/// calls have no effect.
pub fn register() {
    set_storage(&Shards);
}

impl Storage for Shards {
    fn file(&self) -> Arc<dyn FileStorage> {
        Arc::new(FileState::default())
    }

    fn open_epoch(&self, location: &FileLocation<'_>, epoch: u64) -> Result<Epoch> {
        let store = Store::open(location, epoch)?;
        let image = Arc::from(store.image());
        let state = FileState { stores: Stores::with(store), layouts: Layouts::default() };
        Ok(Epoch { image, storage: Arc::new(state) })
    }

    fn check_committed(&self, path: &Path) -> Result<()> {
        sessions::check_committed(path)
    }
}

impl FileStorage for FileState {
    fn dataset(
        &self,
        location: &FileLocation<'_>,
        marker: Marker,
        header: &mut DatasetHeader,
    ) -> Result<Arc<dyn DatasetStorage>> {
        Ok(Arc::new(ShardedDataset::open(&self.stores, location, marker, header)?))
    }

    fn cheapest(&self, dataset: &Dataset, selection: &Selection) -> Option<Dataset> {
        self.layouts.cheapest(dataset, selection)
    }
}

impl DatasetStorage for ShardedDataset {
    fn marker(&self) -> Marker {
        Self::marker(self)
    }

    fn is_committed(&self) -> bool {
        Self::is_committed(self)
    }

    fn is_refused(&self) -> bool {
        Self::is_refused(self)
    }

    fn is_remote(&self) -> bool {
        Self::is_remote(self)
    }

    fn pieces(&self) -> Option<u64> {
        Some(Self::pieces(self))
    }

    fn written_cells(&self, grid: &[u64], limits: &Limits) -> Result<Vec<Vec<u64>>> {
        Self::written_cells(self, grid, limits)
    }

    fn contiguous_rows(&self, rows: &Range<u64>, sizes: (u64, u64), limits: &Limits) -> Result<Vec<Stretch>> {
        Self::contiguous_rows(self, rows, sizes, limits)
    }

    fn read<'a>(
        &self,
        selection: &Selection,
        output: &'a Output<'a>,
        means: (usize, &Limits),
        parts: Option<&mut Parts<'a>>,
    ) -> Result<()> {
        Self::read(self, selection, output, means, parts)
    }
}
