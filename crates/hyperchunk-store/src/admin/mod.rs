//! Care of a store: packing, compaction, garbage collection, verification, export and import.

mod blocks;
pub mod compact;
pub mod pack;
pub mod status;
pub mod tree;
pub mod vacuum;
pub mod verify;
