//! Statistics of columns, recorded by a store's writers or by `hyperchunk analyze`.

use super::table::{Column, Inner, Table, named};
use crate::Result;
use arrow_schema::DataType;
use hyperchunk::Dataset;
use hyperchunk_store::query::Queries as _;
use hyperchunk_store::query::{Bounds, RowZones};

/// Statistics of a table's columns, for each zone of its rows.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Zones {
    /// The end (exclusive) of each zone, relative to the table's first row; the first zone begins at 0.
    pub ends: Vec<u64>,
    /// The columns that have statistics.
    pub columns: Vec<ZonedColumn>,
    /// Number of bytes of statistics read.
    pub bytes_scanned: u64,
}

/// Statistics of a column.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ZonedColumn {
    /// Its name.
    pub name: String,
    /// The bounds of its values in each zone; `None` if unknown.
    pub bounds: Vec<Option<Bounds>>,
}

impl Zones {
    /// Makes zones from their ends and, for each column, the bounds of its values in each zone.
    #[must_use]
    pub fn new(ends: Vec<u64>, columns: Vec<(String, Vec<Option<Bounds>>)>) -> Self {
        let columns = columns.into_iter().map(|(name, bounds)| ZonedColumn { name, bounds }).collect();
        Self { ends, columns, bytes_scanned: 0 }
    }
}

impl Table {
    /// Returns whether any column has statistics. Does not read them.
    ///
    /// # Errors
    /// Errors of [`Dataset::keeps_row_zones`].
    pub fn keeps_zones(&self) -> Result<bool> {
        for dataset in self.0.columns.iter().filter_map(|column| self.0.numbers(column)) {
            if dataset.keeps_row_zones().map_err(|error| named(error, dataset.object()))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the names of the columns whose values are plain numbers, never null, and all elements of a dataset:
    /// statistics of the dataset are those of the column.
    #[must_use]
    pub fn plain_numbers(&self) -> Vec<&str> {
        let columns = self.0.columns.iter().filter(|column| self.0.numbers(column).is_some());
        columns.map(|column| column.kind.field().name().as_str()).collect()
    }

    /// Returns the statistics of columns; `None` if there are none. Reads no values.
    ///
    /// # Errors
    /// NotFound if a column does not exist; errors of [`Dataset::row_zones`].
    pub fn zones(&self, columns: &[&str]) -> Result<Option<Zones>> {
        let selected = self.select(columns)?;
        let inner = &*selected.0;
        let mut known = Vec::new();
        for column in &inner.columns {
            if let Some(found) = column_zones(inner, column)? {
                known.push((column.kind.field().name().clone(), found));
            }
        }
        if known.is_empty() {
            return Ok(None);
        }
        let bytes_scanned =
            known.iter().fold(0_u64, |sum, (_, found)| sum.saturating_add(found.bytes_scanned));
        let ends = known.iter().flat_map(|(_, found)| found.zones.iter().map(|zone| zone.end));
        let mut ends: Vec<u64> = ends.collect();
        ends.sort_unstable();
        ends.dedup();
        let columns =
            known.into_iter().map(|(name, found)| ZonedColumn { name, bounds: bounds_at(&found, &ends) });
        let columns = columns.collect();
        ends.iter_mut().for_each(|end| *end -= inner.rows.start);
        Ok(Some(Zones { ends, columns, bytes_scanned }))
    }
}

impl Inner {
    /// Returns the dataset whose elements are the values of a column, if they are plain numbers.
    fn numbers(&self, column: &Column) -> Option<&Dataset> {
        let field = column.kind.field();
        let stored = self.stored.get(column.stored)?;
        let plain = match field.data_type() {
            DataType::Float32 | DataType::Float64 => true,
            other => other.is_integer(),
        };
        (plain && !field.is_nullable() && column.is_whole(stored)).then_some(&stored.dataset)
    }
}

/// Returns the statistics of a column.
fn column_zones(table: &Inner, column: &Column) -> Result<Option<RowZones>> {
    let Some(dataset) = table.numbers(column) else { return Ok(None) };
    dataset.row_zones(table.rows.clone()).map_err(|error| named(error, dataset.object()))
}

/// Returns the bounds for each zone; `ends` includes all ends of the column's own zones.
fn bounds_at(found: &RowZones, ends: &[u64]) -> Vec<Option<Bounds>> {
    let mut zones = found.zones.iter().peekable();
    let bounds = ends.iter().map(|end| {
        let bounds = zones.peek().and_then(|zone| zone.bounds);
        zones.next_if(|zone| zone.end <= *end);
        bounds
    });
    bounds.collect()
}
