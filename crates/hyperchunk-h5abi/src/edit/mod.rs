//! Editing existing files through a libhdf5: attaching, listing, removing live datasets.

mod attach;
mod check;
mod convert;
mod extend;
mod list;
mod open;
mod rebuild;
mod record_file;
mod source;
mod verify;

pub use attach::{Attached, Options, Program, attach};
pub use check::{Checked, check, named_key, runs_here};
pub use convert::convert;
pub use extend::{Extended, extend};
pub use list::{Entry, find, list, remove, split_target};
pub use rebuild::rebuild;
