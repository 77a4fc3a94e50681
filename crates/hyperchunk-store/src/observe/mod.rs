//! Standing queries on data that were just flushed, observers of writes, and stored results of analyses.

pub mod follow;
pub mod observer;
pub mod results;
