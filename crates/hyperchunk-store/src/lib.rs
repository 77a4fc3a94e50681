//! Sharded stores: any number of processes write one logical file, each to a log of its own.
//!
//! The folder of a store is next to the file at the user's path, the *skeleton*, and has the same
//! name followed by `.d`. Each writer appends to its own log there: raw elements, chunks,
//! definitions of datasets, and a small HDF5 file with its groups and attributes. Writers never
//! wait for each other. A commit makes an *epoch*: one manifest, which records the parts of logs
//! that belong to it and the location of all data; and a new skeleton.
//!
//! Source: *A Plugin for HDF5 using PLFS for Improved I/O Performance and Semantic Analysis*. The
//! idea, a log per process, is taken from it; the layout, a container per dataset, is not.
//!
//! Call [`register`] once before the engine opens files: then [`hyperchunk::File`] reads the
//! datasets of stores, and uses the layouts that [`restructure`] makes.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may fail"))]

pub mod analysis_values;
mod blocks;
mod boxes;
mod bucket;
#[cfg_attr(not(target_os = "linux"), path = "unbuffered.rs")]
mod buffered;
mod bytes;
mod checks;
mod collective;
pub mod commit;
mod committed;
pub mod compact;
mod contiguous_rows;
mod create;
mod definition;
mod filtered;
pub mod follow;
mod fragment;
mod header;
mod id;
mod index;
mod io_plan;
mod known_store;
pub mod link;
mod lock;
mod log;
mod log_cache;
mod manifest;
mod marker;
pub mod merged_file;
pub mod observer;
mod overlap;
mod overlay_order;
pub mod pack;
mod page;
mod piece;
mod pieces;
mod process;
pub mod query;
mod read;
mod record;
mod report;
pub mod restructure;
pub mod results;
mod rtree;
mod run_length;
mod scan;
#[cfg(target_os = "linux")]
pub mod shared_memory_pool;
mod site;
mod stamp;
mod statistics;
pub mod status;
mod storage;
pub mod tree;
mod uncommitted;
pub mod vacuum;
pub mod verify;
mod virtual_blocks;
mod zone_map;
mod zones;

pub(crate) use blocks::split_range;
pub use boxes::boxes;
pub use bucket::{Bucket, PendingUpload as BegunUpload};
use checks::Headers;
pub(crate) use committed::Store;
pub use create::{NamedDefinition, NewStore, PendingStore, attach, begin, create};
pub use definition::Definition;
pub use fragment::{Fragment, FragmentBatch, Fragments, WriterBytes, fragments};
pub use header::LogHeader;
pub use hyperchunk::storage::{DatasetId, MARKER, Marker, store_folder};
pub use id::{Session, StoreId, WriterId, launched};
pub use index::{DatasetEntry, DatasetWrites, Image};
pub use known_store::{FileStamp, KnownStore, OwnDataset};
pub use lock::{hold_alone, locks_are_off};
pub use log::{LogWriter, Mode, Segments, WriterOptions};
pub use manifest::{Conflict, LogPart, Manifest, Part, StoredDataset};
pub use observer::AnalysisId;
pub use page::{MAX_PAGE_BYTES, MAX_PAGE_ENTRIES, Page, PageHead, PageKind};
pub use piece::{Extent, Piece, Place, Slab};
pub use process::place as process_place;
pub use report::Report;
pub use run_length::PackedPieces;
pub use scan::{Ending, Log};
pub use site::{LogName, Site, SiteBuf, real_file};
pub use stamp::{STAMPED_WITHIN_BYTES, read_epoch, read_store_id};
pub use statistics::{Extreme, Statistics};
pub(crate) use statistics::{Machine, NumberFormat, Pass};
pub use storage::register;
pub(crate) use storage::sharded;

use std::path::{Path, PathBuf};

/// Receipt of a flush, passed to a commit to include everything written until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The writer.
    pub writer: WriterId,
    /// Offset of the last index's trailer in the log.
    pub(crate) trailer: u64,
    /// xxh3 of the trailer.
    pub(crate) hash: [u8; 16],
}

impl Ticket {
    /// Encoded size in bytes ([`Ticket::to_bytes`]).
    pub const ENCODED_BYTES: usize = 40;
}

/// Returns the path of a writer's log.
#[must_use]
pub fn log_path(path: &Path, writer: WriterId) -> PathBuf {
    store_folder(path).join(format!("{writer}.log"))
}

/// Path prefix of the definitions of datasets that were created without a name; a unique id follows
/// it.
pub const NAMELESS: &[u8] = b"/.nameless/";

#[cfg(test)]
mod tests;
