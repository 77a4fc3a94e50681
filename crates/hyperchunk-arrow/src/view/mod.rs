//! Tables over HDF5 data, without copies where possible.
//!
//! A table consists of columns of equal length: the datasets of a group, the members of a compound, or one
//! dataset whose rows are counted by its first dimension. Nothing is read until batches are requested. Data
//! of a local file in Arrow's layout are mapped ([`map`]); all others are read by the engine, all columns of
//! a batch in one planned read, and the next batch in the background ([`ahead`]).

mod ahead;
mod batches;
mod chosen;
mod compress;
mod describe;
mod find;
mod gather;
mod lies;
mod looks;
mod map;
mod piece;
mod room;
mod scan;
mod schemes;
mod table;
mod texts;
mod zones;

pub use ahead::{after_fork, before_fork};
pub use batches::Batches;
pub use chosen::Chosen;
pub use piece::in_one_piece;
pub use scan::{Scan, ScanPart};
pub use table::{Storage, Table, TableOptions};
pub use zones::{ZonedColumn, Zones};
