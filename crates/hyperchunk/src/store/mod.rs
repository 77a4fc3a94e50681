//! Sharded stores: any number of processes write one logical file, each to a log of its own.
//!
//! Beside the file at the user's path, the *skeleton*, lies a folder of the same name with `.d` behind. Each writer has one log
//! there and appends to it what it writes: raw elements, chunks, definitions of datasets, its own small HDF5 file with groups
//! and attributes. Nobody waits for anybody. A commit makes an *epoch*: one manifest, which names what of which log belongs to
//! it, and says where everything lies; and a new skeleton.
//!
//! Source: *A Plugin for HDF5 using PLFS for Improved I/O Performance and Semantic Analysis*, of which this keeps the idea, a
//! log a process, and not the layout, a container a dataset.

mod blocks;
mod bounds;
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
mod create;
mod definition;
mod filtered;
pub mod follow;
mod fragment;
mod header;
mod id;
mod index;
mod known;
pub mod link;
mod lock;
mod log;
mod manifest;
pub mod marker;
pub mod observer;
mod overlap;
mod own;
pub mod pack;
mod packing;
mod page;
pub mod pairs;
mod piece;
mod pieces;
mod pool;
mod process;
mod read;
mod record;
mod report;
pub mod results;
mod scan;
mod site;
pub mod skeleton;
mod spans;
mod stamp;
mod statistics;
pub mod status;
mod stretches;
pub mod tree;
pub mod vacuum;
pub mod verify;
mod virtual_blocks;
mod waves;
mod zoned;
mod zones;

pub(crate) use blocks::boxes_of;
pub use boxes::boxes;
pub use bucket::{Begun as BegunUpload, Bucket};
use checks::Headers;
pub(crate) use committed::{Home, Sharded, Store, Stores};
pub use create::{Begun, Fresh, NamedDefinition, attach, begin, create};
pub use definition::Definition;
pub use fragment::{Fragment, FragmentBatch, Fragments, WriterBytes, fragments};
pub use header::LogHeader;
pub use id::{DatasetId, Session, StoreId, WriterId, launched};
pub use index::{Defined, Image, Written};
pub use known::{FileStamp, Known, Own};
pub use lock::{hold_alone, locks_are_off};
pub use log::{LogWriter, Mode, Segments, WriterOptions};
pub use manifest::{Conflict, LogPart, Manifest, Part, Stored};
pub use marker::Marker;
pub use observer::AnalysisId;
pub use packing::PackedPieces;
pub use page::{LARGEST_PAGE, MOST_ENTRIES, Page, PageHead, PageKind};
pub use piece::{Extent, Piece, Place, Slab};
pub use process::place as process_place;
pub use report::Report;
pub use scan::{Ending, Log};
pub use site::{LogName, Site, SiteBuf, real_file};
pub use stamp::{STAMPED_WITHIN_BYTES, epoch_of, store_of};
pub use statistics::{Extreme, Statistics};
pub(crate) use statistics::{Looks, Machine, Pass};
pub(crate) use virtual_blocks::GROUP as BLOCKS;

use std::path::{Path, PathBuf};

/// What a writer hands to whoever commits: it leads to what was written until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The writer.
    pub writer: WriterId,
    /// Where in its log the trailer of the last index is.
    pub(crate) trailer: u64,
    /// xxh3 of the trailer.
    pub(crate) hash: [u8; 16],
}

impl Ticket {
    /// How many bytes it has ([`Ticket::to_bytes`]).
    pub const SIZE: usize = 40;
}

/// Where the logs of a file's store are: beside the file itself, whose path this is, and not beside a symbolic link to it
/// ([`real_file`]).
#[must_use]
pub fn folder_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".d");
    PathBuf::from(name)
}

/// Where the log of a writer is.
#[must_use]
pub fn log_of(path: &Path, writer: WriterId) -> PathBuf {
    folder_of(path).join(format!("{writer}.log"))
}

/// The path under which datasets are defined that are made without a name; an id of their own follows it.
pub const NAMELESS: &[u8] = b"/.nameless/";

/// What the name of the external file that marks a store's dataset begins with. There must never be such a folder.
pub const MARKER: &str = "/.hyperchunk-store/";

#[cfg(test)]
mod tests;
