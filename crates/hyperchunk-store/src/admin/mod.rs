//! Maintenance of a store: status, packing, compaction, garbage collection, verification, export and import.

mod blocks;
pub mod compact;
pub mod pack;
pub mod status;
pub mod tree;
pub mod vacuum;
pub mod verify;
