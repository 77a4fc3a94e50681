//! Writing of new files, and edits of existing ones. Chunks are compressed on all cores and written at once
//! to their final addresses; structure is written at a commit.
//!
//! The steps reverse a read: **gather → encode → place → write → commit**. An atomic counter
//! allocates space, so any number of threads can write at once without locking the file. Objects, attributes
//! and chunk indexes are kept in memory until the file is committed. A commit writes them as one region, and
//! then the superblock, which points to it. Until the first commit, a local file has its final name plus
//! `.partial`, and is not an HDF5 file.
//!
//! Source: *RFC: Direct Chunk Write*; specification §II to §VII.

mod abandoned_journal;
mod auxiliary;
mod chunk_key;
mod chunks;
mod commit;
mod commit_mark;
mod committed_places;
mod dataset;
mod edit;
mod embedded_format;
mod encoding;
mod free_list;
mod gate;
mod group_messages;
mod heap;
mod journal;
mod lookup;
mod message_limits;
mod new_dataset;
mod object_contents;
mod offset_sink;
mod omitted_parts;
mod options;
mod parts;
mod paths;
mod recover;
mod reserved;
mod rewrite;
mod sequences;
mod sink;
mod snapshot;
mod space;
mod stream;
mod swmr;
mod tree;
mod writer;

use crate::Result;
use hyperchunk_format::encode::{self, LibVersion};
use hyperchunk_format::model::Datatype;

pub use crate::io::upload::StoredObject;
pub(crate) use abandoned_journal::{check_recovered, check_unjournalled};
pub use dataset::{ChunkRun, DatasetWriter, DirectChunk, FilePart};
pub(crate) use edit::{
    WaitingCommit, check_not_edited, read_to_salvage, settle_in_file, settle_to_read, settle_to_replace,
};
pub use embedded_format::{FormatBytes, Offsets, Plan, SealedObject, SecondFormat};
pub use lookup::Target;
pub use options::{CreateOptions, DatasetOptions, FileLayout, NewLayout, Sync};
pub use paths::{ExistingLink, LinkPlace, missing_attribute};
pub use recover::{RecoveryReport, recover};
pub use rewrite::AdoptedObjects;
pub use sink::{LocalSink, MemorySink, Sink};
pub use snapshot::ReadGuard;
pub use stream::StreamSink;
pub use tree::{NewLink, NodeId};
pub use writer::Writer;

/// Encodes for the oldest release of HDF5 that supports the content, from `oldest` to `newest`. If none does,
/// returns the error for `oldest`.
fn oldest_able<T>(
    oldest: LibVersion,
    newest: LibVersion,
    encode: impl Fn(LibVersion) -> Result<T>,
) -> Result<(LibVersion, T)> {
    encode(oldest).map(|made| (oldest, made)).or_else(|error| {
        let newer =
            [LibVersion::V110, LibVersion::V200].into_iter().filter(|age| *age > oldest && *age <= newest);
        newer.filter_map(|age| Some((age, encode(age).ok()?))).next().ok_or(error)
    })
}

/// Returns the oldest release of HDF5 that supports a datatype.
fn needs(datatype: &Datatype, oldest: LibVersion, newest: LibVersion) -> Result<LibVersion> {
    oldest_able(oldest, newest, |age| encode::message::datatype::encode(datatype, age)).map(|(age, _)| age)
}

/// Returns the notice about content that needs a newer release of HDF5.
fn notice(what: &str, age: LibVersion) -> String {
    let release = if age == LibVersion::V200 { "2.0" } else { "1.10" };
    format!("{what}: HDF5 before {release} cannot read it")
}

#[cfg(test)]
mod failing_tests;
#[cfg(test)]
mod recover_tests;
#[cfg(test)]
mod swmr_tests;
#[cfg(test)]
mod tests;
