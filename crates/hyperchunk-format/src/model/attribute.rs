//! Attributes. Source: specification §IV.A.2.m.

use super::{CharacterSet, Dataspace, Datatype, Name};

/// Named value of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// The name.
    pub name: Name,
    /// Character set of the name.
    pub charset: CharacterSet,
    /// Datatype of the elements.
    pub datatype: Datatype,
    /// Address of the object header of the committed datatype, if one is used.
    pub committed: Option<u64>,
    /// Extent.
    pub dataspace: Dataspace,
    /// Elements as stored; the length follows from datatype and dataspace.
    pub data: Vec<u8>,
    /// Creation order, where the object tracks it.
    pub creation_order: Option<u32>,
}
