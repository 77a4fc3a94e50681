//! Following a store, and functions that analyse written data.

pub mod follow;
pub mod observer;
pub mod results;
