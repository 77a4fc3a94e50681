//! HDF5 files as files of Arrow, and back.
//!
//! A dataset becomes one file: IPC ([`Format::File`], [`Format::Stream`]) or Parquet. A 1-D dataset of
//! compounds is a table of its members, every other one a column. A whole HDF5 file becomes a folder: an IPC
//! file for each dataset, and `hyperchunk.json` with groups, links and attributes ([`manifest`]). All of it
//! can be imported again: types, extents, attributes, fill values and the layout are in the metadata.
//!
//! Data go through memory in batches of some megabytes, whatever their size.

mod dataset;
mod export;
mod folder;
mod import;
mod layout;
mod manifest;
mod sink;
mod source;

use crate::{Error, Result};
pub use dataset::DatasetTable;
pub use export::{Export, ExportOptions, ExportSummary};
pub use import::{ImportOptions, ImportSummary, import};
pub use sink::Format;
pub use source::TableFile;

/// Runs a function that reads untrusted bytes. Libraries that it calls are known to panic instead of
/// returning an error; a panic becomes an error here.
pub(crate) fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Error::corrupt("the file is damaged: its reader gave up")))
}

#[cfg(test)]
mod tests;
