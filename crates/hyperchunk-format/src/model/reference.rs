//! References as values. Source: specification §VIII.B and C; HDF5 2.x H5R for revised references.

use super::{Name, Selected};

/// What a stored reference refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The file, where it is not the one that stores the reference.
    pub file: Option<Name>,
    /// The object, by the address of its header.
    pub address: u64,
    /// The part of it, for region references.
    pub region: Option<Selected>,
    /// The attribute of it, for attribute references.
    pub attribute: Option<Name>,
}
