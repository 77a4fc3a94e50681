//! Attributes. Source: specification §IV.A.2.m.

use super::{CharacterSet, Dataspace, Datatype, Name};

/// A named value of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// The name.
    pub name: Name,
    /// How it is encoded.
    pub charset: CharacterSet,
    /// The type of its elements.
    pub datatype: Datatype,
    /// The committed datatype that it uses, by the address of its header.
    pub committed: Option<u64>,
    /// Its extent.
    pub dataspace: Dataspace,
    /// Its elements, as stored: exactly as many bytes as type and space make.
    pub data: Vec<u8>,
    /// Its number in the order of creation, where the object tracks that.
    pub creation_order: Option<u32>,
}
