//! Bytes of logs, manifests and markers, and their values.

pub mod analysis_values;
pub(crate) mod checksums;
pub(crate) mod commit_report;
pub(crate) mod definition;
pub(crate) mod fragment_offset;
pub(crate) mod header;
pub(crate) mod id;
pub(crate) mod index;
pub(crate) mod manifest;
pub(crate) mod marker;
pub(crate) mod page;
pub(crate) mod piece;
pub(crate) mod record;
pub(crate) mod run_length;
pub(crate) mod stamp;
pub(crate) mod varint;
