//! Restructuring: other layouts of a dataset, made from requests of about a hundred bytes,
//! independent of its size.
//!
//! A layout is an HDF5 file in the folder `layouts` of the file's `.d` folder, or a separate file.
//! The request and the source determine a plan ([`plan`]), and the plan determines a list of tasks,
//! which is never stored: each task reads a box and writes it to offsets that no other task writes
//! to. So any number of processes, on any machines, can execute any of them, in any order and
//! repeatedly; a mark records that one is done. When all are done, any process can complete the
//! file. Reads of the dataset use the layout that is cheapest for the selection.
//!
//! **Invariant:** a layout is read only in place of its source: it records the source's identity,
//! and a file that was written to since, or an epoch with other parts of the dataset, does not
//! match.
//!
//! Source: *A Plugin for HDF5 using PLFS for Improved I/O Performance and Semantic Analysis*, which
//! proposes to restructure by requests of constant size; the passes follow rechunker.

mod boxes;
mod catalogue;
mod commit;
mod job;
mod marks;
mod names;
mod order;
pub mod plan;
mod request;
mod share;
mod source;
mod task;

pub use boxes::Grid;
pub(crate) use catalogue::Layouts;
pub use catalogue::{LayoutInfo, State, layouts, remove};
pub use commit::CommitReport;
pub use job::{Job, Progress, WorkReport};
pub use order::Order;
pub use request::{Chunking, Request, parse_byte_count};
pub use share::cut;

/// Name of the folder of layouts, in the folder of a file.
const FOLDER: &str = hyperchunk::storage::LAYOUTS;
/// File name of a complete layout, in its own folder.
const LAYOUT: &str = "layout.h5";
/// File name, in that folder, of the digest of the source file.
const CONTENTS: &str = "contents";
/// File name, in that folder, of the identity of a copy of the source file that the layout fits, too.
const ADOPTED: &str = "adopted";
/// File name of a layout in progress.
const PARTIAL: &str = "layout.h5.partial";

/// Returns the number of threads; 0 means one per processor.
fn thread_count(threads: usize) -> usize {
    match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
}

#[cfg(test)]
mod tests;
