//! Standing queries on data that were just flushed, observers of writes, and stored results of analyses.

pub mod follow;
pub mod results;

pub use crate::writer::observer;
