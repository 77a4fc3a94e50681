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
