//! Decoded references. Source: specification §VIII.B and C; HDF5 2.x H5R for revised references.

use super::{Name, RegionSelection};

/// Target of a stored reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// File, if it is not the one that stores the reference.
    pub file: Option<Name>,
    /// Address of the object's header.
    pub address: u64,
    /// Selected part of the object, for region references.
    pub region: Option<RegionSelection>,
    /// Name of the attribute, for attribute references.
    pub attribute: Option<Name>,
}
