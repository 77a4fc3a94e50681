//! Where values lie that are asked for: first by statistics, which are small, then by reading what is left.
//!
//! Datasets of sharded stores have statistics in their logs (`store/zoned`), others in a file beside theirs that `analyze` makes
//! ([`zonemap`]). What nothing is known of is read: an answer never leaves out a value.

mod answer;
pub(crate) mod boxes;
mod elements;
mod judge;
mod predicate;
mod rows;
mod top;
mod zone;
pub mod zonemap;

pub use answer::{Answer, Found, Matches};
pub(crate) use elements::Elements;
pub use predicate::Predicate;
pub use rows::{BoundedRows, Bounds, RowZones};
pub use top::{By, Shard, Top};
pub use zone::ZoneState;
pub(crate) use zone::{Ask, Zone, Zoned};
