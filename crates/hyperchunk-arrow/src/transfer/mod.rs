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

pub use dataset::DatasetTable;
pub use export::{Export, ExportOptions, ExportSummary};
pub use import::{ImportOptions, ImportSummary, import};
pub use sink::Format;
pub use source::TableFile;

#[cfg(test)]
mod tests;
