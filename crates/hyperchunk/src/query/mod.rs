//! Queries on values: small statistics narrow down the candidates, and only these are read.
//!
//! Datasets of sharded stores have statistics in their logs (`store/zone_map`), others in a file next
//! to theirs that `analyze` makes ([`zonemap`]). Data without statistics are read, so an answer is
//! always complete.

mod answer;
pub(crate) mod boxes;
mod elements;
mod judge;
mod predicate;
mod rows;
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
