//! Selections as files store them and as callers make them. Source: specification §VIII.A, "Dataspace selections".

/// Which elements of a dataspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// None.
    None,
    /// All.
    All,
    /// Single elements, in order: `rank` coordinates each.
    Points {
        /// How many coordinates a point has.
        rank: usize,
        /// The coordinates of all points, one point after another.
        coordinates: Vec<u64>,
    },
    /// A regular pattern of blocks, one [`Hyperslab`] a dimension.
    Regular(Vec<Hyperslab>),
    /// Blocks that do not overlap.
    Blocks {
        /// How many coordinates a corner has.
        rank: usize,
        /// For each block its first and its last corner, inclusive: `2 × rank` numbers a block.
        corners: Vec<u64>,
    },
}

/// A regular pattern in one dimension: `count` blocks of `block` elements, each `stride` after the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hyperslab {
    /// The first element.
    pub start: u64,
    /// From the start of a block to the start of the next; never 0.
    pub stride: u64,
    /// How many blocks; `None` for as many as there are (`H5S_UNLIMITED`).
    pub count: Option<u64>,
    /// How many elements a block has; `None` for as many as there are.
    pub block: Option<u64>,
}

/// A selection with the extent that it was made in, where the file stores one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// The extent.
    pub dims: Option<Vec<u64>>,
    /// The elements.
    pub selection: Selection,
}
