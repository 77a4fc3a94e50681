//! Editing existing files through a libhdf5: attaching, listing, removing live datasets.

mod attach;
mod list;
mod open;
mod verify;

pub use attach::{Attached, Options, Program, attach};
pub use list::{Entry, find, list, remove, split_target};
pub use verify::verify_stubs;
