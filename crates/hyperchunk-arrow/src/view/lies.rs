//! The locations of a dataset's rows: in mapped files, or to be read.

use super::map::Map;
use super::table::{Column, Inner, Stored};
use crate::Result;
use std::ops::Range;
use std::sync::Arc;

/// Minimum average size of pieces for mapping, in bytes: for smaller ones a batch each would cost more than
/// reading.
const WORTH_A_MAP: u64 = 64 << 10;

/// The locations of a dataset's rows.
#[derive(Debug)]
pub(super) struct Lie {
    /// Sorted, without gaps.
    pub(super) pieces: Vec<Piece>,
    /// The index of the last used piece.
    now: usize,
    /// Number of rows in a chunk that must be read; 1 without chunks.
    pub(super) height: u64,
}

/// Rows that are contiguous in a file, or must be read.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) rows: Range<u64>,
    pub(super) place: Option<Place>,
}

/// A place in a mapped file.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) map: Arc<Map>,
    pub(super) offset: u64,
}

impl Lie {
    /// Finds the rows of a table in one of its datasets.
    pub(super) fn of(table: &Inner, stored: &Stored) -> Result<Self> {
        let height = stored.dataset.chunked().and_then(|chunked| chunked.dims.first().copied()).unwrap_or(1);
        let all = || vec![Piece { rows: table.rows.clone(), place: None }];
        let found = if table.mapped { stored.dataset.stretches(table.rows.clone())? } else { Vec::new() };
        let mapped = found.iter().filter(|stretch| stretch.place.is_some());
        let rows =
            mapped.clone().map(|stretch| stretch.rows.end - stretch.rows.start).fold(0, u64::saturating_add);
        let count = mapped.count() as u64;
        let each = rows.saturating_mul(stored.row as u64).checked_div(count).unwrap_or(0);
        if count == 0 || (count > 1 && each < WORTH_A_MAP) {
            return Ok(Self { pieces: all(), now: 0, height });
        }
        let pieces = found.into_iter().map(|stretch| {
            let place = match stretch.place {
                Some((source, offset)) => table.maps.get(&source)?.map(|map| Place { map, offset }),
                None => None,
            };
            Ok(Piece { rows: stretch.rows, place })
        });
        Ok(Self { pieces: pieces.collect::<Result<_>>()?, now: 0, height })
    }

    /// Returns the piece that contains a row; rows must be requested in order.
    pub(super) fn piece(&mut self, row: u64) -> Option<&Piece> {
        while self.pieces.get(self.now).is_some_and(|piece| piece.rows.end <= row) {
            self.now += 1;
        }
        self.pieces.get(self.now)
    }
}

impl Place {
    /// Returns the place of a later row.
    pub(super) fn of_row(&self, rows: u64, row: usize) -> Self {
        // No overflow: all rows of a piece are inside the file.
        Self { map: Arc::clone(&self.map), offset: self.offset + rows * row as u64 }
    }
}

impl Column {
    /// Returns whether it consists of all bytes of its dataset.
    pub(super) fn is_whole(&self, stored: &Stored) -> bool {
        self.offset == 0 && self.kind.row_size() == stored.row
    }

    /// Returns whether its values are the bytes at a place of a mapped file.
    pub(super) fn is_as_stored(&self, stored: &Stored, place: Option<&Place>) -> bool {
        let Some((place, align)) = place.zip(self.kind.zero_copy()) else { return false };
        self.is_whole(stored) && place.map.address(place.offset).is_multiple_of(align.max(1))
    }
}
