//! Care of a store: packing, compaction, garbage collection, verification, export and import.

pub mod compact;
pub mod pack;
pub(crate) mod scan_log;
pub mod status;
pub mod tree;
pub mod vacuum;
pub mod verify;
