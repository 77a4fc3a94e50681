//! Dual files, which are HDF5 and Arrow IPC at once: a column's values are the data of a dataset.
//!
//! The layout, byte by byte, is in `docs/formats/arrow.md`. In short:
//!
//! ```text
//! user block       ARROW1, the schema's message
//! row groups       [the message of a record batch] [values of column 0] [values of column 1] …
//! structure        HDF5's, with Arrow's footer around the headers of the columns and of their group
//! ```
//!
//! A row group's values of a column are a chunk of the column's dataset, or all of it if there is one row
//! group. No value is stored twice: a program that writes a value through one format changes it in the other.
//!
//! **Changes by other programs.** HDF5 does not reuse freed space in such a file (file space strategy
//! "none"), so values are never overwritten by other data. Any addition moves the end of the file, where
//! Arrow's readers look first. An in-place change of an object header alters its checksum, on which Arrow's
//! footer depends (see [`footer`]). So an Arrow reader either gets the right values or rejects the file.

mod batch;
mod check;
mod columns;
mod fix;
mod flat;
mod footer;
mod metadata;
mod writer;

pub use check::{CheckReport, check};
#[cfg(feature = "flight")]
pub(crate) use columns::lost;
pub use fix::{FixOptions, FixReport, fix, fix_to};
pub use writer::{DualOptions, DualWriter, NewColumn};

#[cfg(test)]
mod tests;
