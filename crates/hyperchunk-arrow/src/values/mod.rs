//! Conversion of values between stored bytes and Arrow's arrays.

mod attributes;
mod from_stored;
mod json;
mod references;
mod to_stored;

pub(crate) use attributes::committed;
pub use attributes::{attributes_from_metadata, attributes_to_metadata};
pub(crate) use from_stored::arrow;
pub use from_stored::split_members;
pub use to_stored::write_column;
#[cfg(feature = "flight")]
pub(crate) use to_stored::{ElementEncoder, HeapTarget};

use hyperchunk::{Error, Result};

/// Runs a function that reads untrusted bytes. Libraries that it calls are known to panic instead of
/// returning an error; a panic becomes an error here.
pub(crate) fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Error::corrupt("the file is damaged: a library panicked while reading it")))
}
