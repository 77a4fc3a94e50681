//! The locations of a dataset's rows: in mapped files, or to be read.

use super::map::Map;
use super::table::{Column, Inner, StoredDataset};
use crate::Result;
use std::ops::Range;
use std::sync::Arc;

/// Minimum average size of mapped extents, in bytes: if they are smaller, a batch for each costs more than
/// reading.
const MIN_MAPPED_BYTES: u64 = 64 << 10;

/// The locations of a dataset's rows.
#[derive(Debug)]
pub(super) struct RowExtents {
    /// Sorted, without gaps.
    pub(super) extents: Vec<RowExtent>,
    /// The index of the last used extent.
    current: usize,
    /// Number of rows in a chunk that must be read; 1 without chunks.
    pub(super) height: u64,
}

/// Rows that are contiguous in a file, or must be read.
#[derive(Debug)]
pub(super) struct RowExtent {
    pub(super) rows: Range<u64>,
    pub(super) place: Option<MappedLocation>,
}

/// A location in a mapped file.
#[derive(Debug, Clone)]
pub(super) struct MappedLocation {
    pub(super) map: Arc<Map>,
    pub(super) offset: u64,
}

impl RowExtents {
    /// Finds the rows of a table in one of its datasets.
    pub(super) fn find(table: &Inner, stored: &StoredDataset) -> Result<Self> {
        let height = stored.dataset.chunked().and_then(|chunked| chunked.dims.first().copied()).unwrap_or(1);
        let all = || vec![RowExtent { rows: table.rows.clone(), place: None }];
        let found = if table.mapped { stored.dataset.stretches(table.rows.clone())? } else { Vec::new() };
        let mapped = found.iter().filter(|stretch| stretch.place.is_some());
        let rows =
            mapped.clone().map(|stretch| stretch.rows.end - stretch.rows.start).fold(0, u64::saturating_add);
        let count = mapped.count() as u64;
        let each = rows.saturating_mul(stored.row as u64).checked_div(count).unwrap_or(0);
        if count == 0 || (count > 1 && each < MIN_MAPPED_BYTES) {
            return Ok(Self { extents: all(), current: 0, height });
        }
        let extents = found.into_iter().map(|stretch| {
            let place = match stretch.place {
                Some((source, offset)) => table.maps.get(&source)?.map(|map| MappedLocation { map, offset }),
                None => None,
            };
            Ok(RowExtent { rows: stretch.rows, place })
        });
        Ok(Self { extents: extents.collect::<Result<_>>()?, current: 0, height })
    }

    /// Returns the extent that contains a row; rows must be requested in order.
    pub(super) fn extent(&mut self, row: u64) -> Option<&RowExtent> {
        while self.extents.get(self.current).is_some_and(|extent| extent.rows.end <= row) {
            self.current += 1;
        }
        self.extents.get(self.current)
    }
}

impl MappedLocation {
    /// Returns the location `rows` rows later; `row` is the size of a row.
    pub(super) fn at_row(&self, rows: u64, row: usize) -> Self {
        // No overflow: all rows of an extent are inside the file.
        Self { map: Arc::clone(&self.map), offset: self.offset + rows * row as u64 }
    }
}

impl Column {
    /// Returns whether it consists of all bytes of its dataset.
    pub(super) fn is_whole(&self, stored: &StoredDataset) -> bool {
        self.offset == 0 && self.kind.row_size() == stored.row
    }

    /// Returns whether the bytes at a location of a mapped file are its values.
    pub(super) fn is_as_stored(&self, stored: &StoredDataset, place: Option<&MappedLocation>) -> bool {
        let Some((place, align)) = place.zip(self.kind.zero_copy()) else { return false };
        self.is_whole(stored) && place.map.address(place.offset).is_multiple_of(align.max(1))
    }
}
