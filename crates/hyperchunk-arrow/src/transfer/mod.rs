//! HDF5 files as files of Arrow, and back.
//!
//! A dataset becomes one file: IPC ([`Format::File`], [`Format::Stream`]) or Parquet. A one-dimensional
//! dataset of compounds becomes a table with a column for each member; any other dataset becomes one column.
//! A whole HDF5 file becomes a folder: an IPC file for each dataset, and `hyperchunk.json` with groups, links
//! and attributes ([`manifest`]). All of it can be imported again: types, extents, attributes, fill values
//! and the layout are in the metadata.
//!
//! Data are converted in batches of some megabytes, so memory does not depend on the size of a dataset.

mod column_attributes;
mod dataset;
mod export;
mod folder;
mod import;
mod layout;
mod manifest;
#[cfg(feature = "parquet")]
mod parquet_types;
mod sink;
mod source;

#[cfg(feature = "flight")]
pub(crate) use column_attributes::store_type;
pub use dataset::DatasetTable;
pub use export::{Export, ExportOptions, ExportSummary};
pub use import::{ImportOptions, ImportSummary, import};
pub use sink::Format;
pub use source::TableFile;

#[cfg(test)]
mod tests;
