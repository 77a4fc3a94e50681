//! New files: chunks are compressed on all cores and put straight to their places, structure is written when a file is
//! committed.
//!
//! A write is a read backwards: **gather → encode → place → write → commit**. Space is given out by one counter, so any
//! number of threads write at once, without a lock around the file. Objects, attributes and indexes of chunks are values in
//! memory until the file is committed; then they become one region of the file, and the superblock, written last, leads to
//! it. Until then a file of this machine has the name that it will have with `.partial` behind, and is no HDF5 file.
//!
//! Source: *RFC: Direct Chunk Write*; specification §II to §VII.

mod chunks;
mod commit;
mod dataset;
mod encoding;
mod heap;
mod journal;
mod key;
mod lookup;
mod options;
mod parts;
mod recover;
mod sink;
mod snapshot;
mod space;
mod stream;
mod tree;
mod writer;

use hyperchunk_format::encode::{self, Oldest};
use hyperchunk_format::model::Datatype;

pub use crate::io::upload::Stored;
pub use dataset::{ChunkRun, DatasetWriter, DirectChunk, FilePart};
pub use lookup::Target;
pub use options::{CreateOptions, DatasetOptions, FileLayout, NewLayout, Sync};
pub use recover::{Recovered, recover};
pub use sink::{LocalSink, MemorySink, Sink};
pub use tree::{NewLink, NodeId};
pub use writer::Writer;

/// The oldest release that knows a datatype.
fn needs(datatype: &Datatype) -> Oldest {
    let known = |oldest| encode::message::datatype::encode(datatype, oldest).is_ok();
    [Oldest::V18, Oldest::V110].into_iter().find(|oldest| known(*oldest)).unwrap_or(Oldest::V200)
}

#[cfg(test)]
mod tests;
