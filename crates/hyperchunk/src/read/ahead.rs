//! Speculative fetching of chunks together with the leaves of their index, which saves a round trip.

use super::table::chunk_map;
use crate::Result;
use crate::dataset::Dataset;
use crate::io::Source;
use bytes::Bytes;
use hyperchunk_format::model::{Chunked, Layout};
use hyperchunk_format::parse::chunk_index;
use hyperchunk_format::select::Selection;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of bytes fetched speculatively: more takes longer than the saved round trip.
pub(crate) const MAX_BYTES: u64 = 32 << 20;

/// A fetched range of a file.
pub(crate) struct Ahead {
    source: Arc<dyn Source>,
    start: u64,
    bytes: Bytes,
}

impl Ahead {
    /// Returns whether the range is of this file.
    pub(super) fn has_source(&self, source: &Arc<dyn Source>) -> bool {
        Arc::ptr_eq(&self.source, source)
    }

    /// Returns the bytes of a part of the file, if the range covers it.
    pub(super) fn get(&self, range: &Range<u64>) -> Option<&[u8]> {
        let from = usize::try_from(range.start.checked_sub(self.start)?).ok()?;
        let to = usize::try_from(range.end.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..to)
    }
}

/// Loads the chunk index for a read. If the read needs all chunks and they seem to be stored contiguously,
/// they are fetched in the same round trip.
pub(super) fn prepare(dataset: &Dataset, selection: &Selection) -> Result<Option<Ahead>> {
    let Layout::Chunked(chunked) = dataset.layout() else {
        dataset.prepare(selection)?;
        return Ok(None);
    };
    let file = dataset.object().file();
    let Some(range) = guess(dataset, chunked, selection)? else {
        dataset.prepare(selection)?;
        return Ok(None);
    };
    let (prepared, bytes) = file.fetch_beside(range.clone(), || dataset.prepare(selection));
    prepared?;
    Ok(bytes.map(|bytes| Ahead { source: Arc::clone(&file.0.source), start: range.start, bytes }))
}

/// Guesses the range of the file that contains the chunks of a read, if the read needs all of them.
fn guess(dataset: &Dataset, chunked: &Chunked, selection: &Selection) -> Result<Option<Range<u64>>> {
    let file = dataset.object().file();
    if dataset.0.sharded.is_some() || dataset.0.table.get().is_some() || file.0.index.is_some() {
        return Ok(None);
    }
    let region = selection.chunk_region(dataset.dims(), &chunked.dims)?;
    let mut grid = dataset.dims().iter().zip(&chunked.dims).map(|(extent, chunk)| extent.div_ceil(*chunk));
    if !region.iter().all(|range| range.start == 0 && grid.next() == Some(range.end)) {
        return Ok(None);
    }
    let found = dataset.object().parse(|image, _| chunk_index::in_a_row(image, &chunk_map(dataset, chunked)));
    // An error in the index is reported when the index is read.
    let Ok(Some(found)) = found else { return Ok(None) };
    let base = file.superblock().base;
    let range = found.start.saturating_add(base)..found.end.saturating_add(base).min(file.size());
    let most = MAX_BYTES.min(file.options().limits.in_flight_bytes);
    Ok(Some(range).filter(|range| range.start < range.end && range.end - range.start <= most))
}
