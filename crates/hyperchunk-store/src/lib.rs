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

pub mod admin;
mod arrow_files;
pub mod commit;
pub mod format;
mod location;
pub mod observe;
pub mod query;
mod read;
pub mod restructure;
#[cfg(target_os = "linux")]
pub mod shared_memory_pool;
mod statistics;
mod storage;
mod writer;

pub use arrow_files::{Fragment, FragmentBatch, Fragments, WriterBytes, fragments};
pub use commit::known_store::{FileStamp, KnownStore, NewStore, OwnDataset};
use format::checksums::Headers;
pub use format::commit_report::Report;
pub use format::definition::Definition;
pub use format::header::LogHeader;
pub use format::id::{Session, StoreId, WriterId, launched};
pub use format::index::{DatasetEntry, DatasetWrites, Image};
pub use format::manifest::{Conflict, LogPart, Manifest, Part, StoredDataset};
pub use format::page::{MAX_PAGE_BYTES, MAX_PAGE_ENTRIES, Page, PageHead, PageKind};
pub use format::piece::{Extent, Hyperslab, Piece, PieceForm};
pub use format::run_length::PackedPieces;
pub use format::stamp::{STAMPED_WITHIN_BYTES, read_epoch, read_store_id};
pub use hyperchunk::storage::{DatasetId, MARKER, Marker, has_store, store_folder};
pub use location::bucket::{Bucket, PendingUpload as BegunUpload};
pub use location::lock::{hold_alone, locks_are_off};
pub use location::process::place as process_place;
pub use location::site::{LogName, Site, SiteBuf, real_file};
pub use read::hyperslabs::boxes;
pub(crate) use read::hyperslabs::split_range;
pub use read::scan_log::{Log, LogEnd};
pub(crate) use read::snapshot::{Store, sharded};
pub use statistics::{Extreme, Statistics};
pub(crate) use statistics::{Machine, NumberFormat, Pass};
pub use storage::register;
pub use writer::create::{NamedDefinition, PendingStore, attach, begin, create};
pub use writer::log_writer::{LogWriter, Mode, Segments, WriterOptions};
pub use writer::observer::AnalysisId;

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
