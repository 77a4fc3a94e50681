//! Tables over HDF5 data, without copies where possible.
//!
//! A table consists of columns of equal length: the datasets of a group, the members of a compound, or one
//! dataset whose rows are counted by its first dimension. Nothing is read until batches are requested. Data
//! of a local file in Arrow's layout are mapped ([`map`]); all others are read by the engine, all columns of
//! a batch in one planned read, and the next batch in the background ([`background`]).

mod background;
mod batches;
mod buffer_pool;
mod candidate_rows;
mod compress;
mod contiguous;
mod conversion_options;
mod describe;
mod filter;
mod find;
mod gather;
mod imported_columns;
mod map;
mod row_extents;
mod scan;
mod table;
mod table_conventions;
mod text_attributes;
mod zones;

pub use background::{after_fork, before_fork};
pub use batches::Batches;
pub use contiguous::map_contiguous;
pub use filter::FilteredBatches;
pub use scan::{Scan, ScanPart};
pub(crate) use table::no_column;
pub use table::{Storage, Table, TableOptions, joined};
pub use zones::{ZonedColumn, Zones};
