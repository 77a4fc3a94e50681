//! Restructuring: another layout of a dataset, asked for in about a hundred bytes, however large it is.
//!
//! A layout is an HDF5 file in the folder `layouts` of the file's folder `.d`, or a file of its own. From the request and
//! the source follows a plan ([`plan`]), and from that a list of tasks, which is never written down: each reads a box and
//! writes it to places that no other one writes to. So any number of processes, on any machines, do any of them, in any
//! order, more than once; a mark says that one is done. When all are, anybody makes the file whole. Whoever opens the
//! dataset reads from the layout that is the cheapest for the selection.
//!
//! **Invariant:** a layout is read only in place of what it was made of: it names that, and a file that was written to
//! since, or an epoch that has other parts of the dataset, is something else.
//!
//! Source: *A Plugin for HDF5 using PLFS for Improved I/O Performance and Semantic Analysis*, which proposes to restructure
//! by requests of constant size; the passes are those of rechunker.

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
pub use catalogue::{Listed, State, layouts, remove};
pub use commit::Committed;
pub use job::{Job, Progress, Worked};
pub use order::Order;
pub use request::{Chunking, Request, bytes_of};
pub use share::cut;

/// Where layouts are, in the folder of a file.
const FOLDER: &str = "layouts";
/// A layout that is whole, in its own folder.
const LAYOUT: &str = "layout.h5";
/// In that folder, the digest of the file that it was made of.
const CONTENTS: &str = "contents";
/// In that folder, which copy of that file it was found to be of, too.
const ADOPTED: &str = "adopted";
/// Its name before that.
const PARTIAL: &str = "layout.h5.partial";

/// How many threads work; 0 for as many as there are processors.
fn threads_of(threads: usize) -> usize {
    match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
}

#[cfg(test)]
mod tests;
