//! Links. Source: specification §IV.A.2.g, "The Link Message".

use super::{CharacterSet, Name};

/// Link: a name in a group and its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The name.
    pub name: Name,
    /// Character set of the name.
    pub charset: CharacterSet,
    /// Creation order, where the group tracks it.
    pub creation_order: Option<i64>,
    /// Target.
    pub target: LinkTarget,
}

/// Target of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkTarget {
    /// Object of this file, by the address of its header.
    Hard(u64),
    /// Path in this file.
    Soft(Name),
    /// Path in another file.
    External {
        /// Name of the file.
        file: Name,
        /// Path in that file.
        path: Name,
    },
    /// Link of a class that an application defined.
    User {
        /// Class, 65 to 255.
        class: u8,
        /// Link data.
        data: Vec<u8>,
    },
}
