//! Location of a store: a folder beside a local file, or a bucket.

pub(crate) mod bucket;
pub(crate) mod file_identity;
pub(crate) mod lock;
mod manifests;
pub(crate) mod process;
pub(crate) mod site;
