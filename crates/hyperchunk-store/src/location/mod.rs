//! Places of a store: a folder beside a local file, or a bucket.

pub(crate) mod bucket;
pub(crate) mod site;
