//! Finds the datasets that a source names, by parsing it.

mod cpp;
mod lua;
