//! Queries on values: small statistics narrow down the candidates, and only these are read.
//!
//! Datasets of sharded stores have statistics in their logs (`sharded_zones`), others in a file next
//! to their own that `analyze` makes ([`zonemap`]). Data without statistics are read, so an answer is
//! always complete.

mod answer;
pub(crate) mod boxes;
pub mod collected;
mod elements;
mod judge;
mod predicate;
mod rows;
mod sharded_zones;
mod top;
mod zone;
pub mod zonemap;

pub use answer::{Answer, MatchBatch, Matches};
pub(crate) use elements::Elements;
pub use predicate::Predicate;
pub use rows::{BoundedRows, Bounds, RowZones};
pub use top::{RankBy, Top, ZoneStats};
pub use zone::ZoneState;
pub(crate) use zone::{Zone, ZoneMap, ZoneRequest};

use crate::Hyperslab;
use hyperchunk::{Dataset, Result};
use std::ops::Range;

/// Queries of the values of a dataset.
pub trait Queries {
    /// Returns the regions that may hold values matching a predicate, in the whole dataset or in a
    /// box.
    ///
    /// # Errors
    /// Unsupported for elements that are not plain numbers, and if there are no statistics; Invalid
    /// for a box outside the extent; errors of reading statistics.
    fn query(&self, predicate: &Predicate, slab: Option<&Hyperslab>) -> Result<Answer>;

    /// As [`Queries::query`], but elements without statistics are a region that may match. Statistics of
    /// another version of the file are not used.
    ///
    /// # Errors
    /// As [`Queries::query`].
    fn query_all(&self, predicate: &Predicate, slab: Option<&Hyperslab>) -> Result<Answer>;

    /// Returns a reader of the values that match a predicate, given the answer to it.
    ///
    /// # Errors
    /// As [`Queries::query`].
    fn matches(&self, predicate: &Predicate, answer: &Answer) -> Result<Matches>;

    /// Returns the first zones of the dataset, or of a box, ranked by a criterion. Unwritten
    /// elements form no zone. Partly covered zones, and zones without statistics, are read if the
    /// result depends on them.
    ///
    /// # Errors
    /// As [`Queries::query`].
    fn top(&self, count: usize, by: RankBy, slab: Option<&Hyperslab>) -> Result<Top>;

    /// Returns the zones of the dataset, or of a part of it.
    ///
    /// # Errors
    /// Unsupported for elements that are not plain numbers, and if there are no statistics; errors
    /// of reading them.
    fn zones(&self, slab: Option<&Hyperslab>) -> Result<Vec<ZoneState>>;

    /// Returns bounds of the values of some rows, without reading the rows. `None` if there are no
    /// statistics, if they describe another version of the file, or if the dataset is not
    /// one-dimensional with plain numbers.
    ///
    /// # Errors
    /// Errors of reading the statistics; Corrupt if they are damaged.
    fn row_zones(&self, rows: Range<u64>) -> Result<Option<RowZones>>;

    /// Returns whether there are statistics for [`Queries::row_zones`], without reading them.
    ///
    /// # Errors
    /// Errors of opening the statistics; Corrupt if they are damaged.
    fn keeps_row_zones(&self) -> Result<bool>;
}

impl Queries for Dataset {
    fn query(&self, predicate: &Predicate, slab: Option<&Hyperslab>) -> Result<Answer> {
        answer::query(self, predicate, slab, false)
    }

    fn query_all(&self, predicate: &Predicate, slab: Option<&Hyperslab>) -> Result<Answer> {
        answer::query(self, predicate, slab, true)
    }

    fn matches(&self, predicate: &Predicate, answer: &Answer) -> Result<Matches> {
        answer::matches(self, predicate, answer)
    }

    fn top(&self, count: usize, by: RankBy, slab: Option<&Hyperslab>) -> Result<Top> {
        top::top(self, count, by, slab)
    }

    fn zones(&self, slab: Option<&Hyperslab>) -> Result<Vec<ZoneState>> {
        zone::zones(self, slab)
    }

    fn row_zones(&self, rows: Range<u64>) -> Result<Option<RowZones>> {
        rows::row_zones(self, rows)
    }

    fn keeps_row_zones(&self) -> Result<bool> {
        rows::keeps_row_zones(self)
    }
}
