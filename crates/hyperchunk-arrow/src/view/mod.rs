//! Tables over HDF5 data: what is stored is looked at where it lies.
//!
//! A table is columns of equal length: the datasets of a group, the members of a compound, or one dataset whose rows are what
//! its first dimension counts. Nothing is read until batches are asked for. What lies in a file of this machine as Arrow has
//! it is mapped ([`map`]); all else is read by the engine, all columns of a batch in one planned read, and the next batch
//! while one is looked at ([`ahead`]).

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
