//! Links. Source: specification §IV.A.2.g, "The Link Message".

use super::{CharacterSet, Name};

/// A name in a group, and what it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The name.
    pub name: Name,
    /// How it is encoded.
    pub charset: CharacterSet,
    /// Its number in the order of creation, where the group tracks that.
    pub creation_order: Option<i64>,
    /// What it leads to.
    pub target: LinkTarget,
}

/// What a link leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkTarget {
    /// An object of this file, by the address of its header.
    Hard(u64),
    /// A path in this file.
    Soft(Name),
    /// A path in another file.
    External {
        /// The file.
        file: Name,
        /// The path in it.
        path: Name,
    },
    /// An application's own class of links.
    User {
        /// The class, 65 to 255.
        class: u8,
        /// Its data.
        data: Vec<u8>,
    },
}
