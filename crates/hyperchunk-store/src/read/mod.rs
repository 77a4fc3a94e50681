//! Reading of an epoch: the pieces that intersect a selection, and the plan of the bytes to read.

pub(crate) mod contiguous_rows;
pub(crate) mod hyperslabs;
pub(crate) mod io_plan;
pub(crate) mod log_cache;
pub(crate) mod overlay_order;
pub(crate) mod pieces;
pub(crate) mod plan;
pub(crate) mod rtree;
pub(crate) mod scan_log;
pub(crate) mod snapshot;
