//! HDF5 data as Apache Arrow, and back: types, tables over datasets and groups, and files that are both.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may fail"))]

pub mod dual;
#[cfg(feature = "flight")]
pub mod flight;
pub mod predicate;
pub mod transfer;
pub mod types;
mod values;
pub mod view;

pub use {arrow_array, arrow_buffer, arrow_schema};

pub use hyperchunk::{Error, ErrorKind, Result};
pub use types::{Cells, ColumnType, Compounds, ConversionOptions, Enums, Half, Strings, datatype_from_field};
pub use values::{attributes_from_metadata, attributes_to_metadata, split_members, write_column};
pub use view::{Batches, Table, TableOptions};
