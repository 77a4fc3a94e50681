//! Values: stored bytes as Arrow's arrays, and back.

mod from_stored;
