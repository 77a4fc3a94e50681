//! Editing existing files through libhdf5: attaching, listing and removing live datasets.

mod attach;
mod attributes;
mod check;
mod convert;
mod dimensions;
mod extend;
mod list;
mod open;
mod rebuild;
mod record_file;
mod source;
mod verify;

pub use attach::{AttachedDataset, Options, Program, attach};
pub use attributes::{Value, parse as parse_attribute};
pub use check::{CheckResult, check, named_key, runs_here};
pub use convert::convert;
pub use extend::{ExtendedDataset, extend};
pub use list::{Entry, find, list, remove, split_target};
pub use rebuild::rebuild;
