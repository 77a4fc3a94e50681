//! Selections, as stored in files and as made by callers. Source: specification §VIII.A, "Dataspace
//! selections".

/// Set of elements of a dataspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredSelection {
    /// No element.
    None,
    /// Every element.
    All,
    /// Single elements, in order: `rank` coordinates each.
    Points {
        /// Number of coordinates of a point.
        rank: usize,
        /// Coordinates of all points, one point after another.
        coordinates: Vec<u64>,
    },
    /// Regular pattern of blocks, one [`Hyperslab`] a dimension.
    Regular(Vec<Hyperslab>),
    /// Blocks that do not overlap.
    Blocks {
        /// Number of coordinates of a corner.
        rank: usize,
        /// First and last corner of each block, inclusive: `2 × rank` numbers a block.
        corners: Vec<u64>,
    },
}

/// Regular pattern in one dimension: `count` blocks of `block` elements, `stride` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hyperslab {
    /// First element.
    pub start: u64,
    /// Distance between the starts of two blocks; never 0.
    pub stride: u64,
    /// Number of blocks; `None` for unlimited (`H5S_UNLIMITED`).
    pub count: Option<u64>,
    /// Number of elements in a block; `None` for unlimited.
    pub block: Option<u64>,
}

/// Selection with the extent of its dataspace, where the file stores one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionSelection {
    /// Extent.
    pub dims: Option<Vec<u64>>,
    /// Selected elements.
    pub selection: StoredSelection,
}
