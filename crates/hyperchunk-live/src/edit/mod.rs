//! Edits of live datasets: attaching, listing, checking, growing and removing them, through the engine's editor.
//! Each edit is one commit.

mod attach;
mod attributes;
mod check;
mod convert;
mod dimensions;
mod extend;
mod inputs_before;
mod list;
mod lookup;
mod open;
mod rebuild;
mod source;
mod store;
mod types;
mod verify;

pub use attach::{AttachedDataset, Options, Program, attach};
pub use attributes::{Value, parse as parse_attribute};
pub use check::{CheckResult, check, named_key, runs_here};
pub use convert::convert;
pub use extend::{ExtendedDataset, extend};
pub use inputs_before::InputsBefore;
pub use list::{Entry, find, list, remove, split_target};
pub use rebuild::rebuild;

/// Returns an `Err` of `kind` with a formatted message.
macro_rules! fail {
    ($kind:ident, $($arg:tt)*) => {
        return Err(hyperchunk_udf::error::Error::new(
            hyperchunk_udf::error::ErrorKind::$kind,
            format!($($arg)*),
        ))
    };
}
use fail;

/// Returns the absolute path of a dataset's name.
fn absolute(name: &str) -> String {
    format!("/{}", name.trim_start_matches('/'))
}
