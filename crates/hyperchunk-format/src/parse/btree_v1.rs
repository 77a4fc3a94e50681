//! Version 1 B-trees: links of groups, chunks of datasets. Source: specification §III.A.1, "Disk Format:
//! Level 1A1 - Version 1 B-trees".

use super::budget::Budget;
use crate::{Cursor, Error, Image, Result};
use std::borrow::Cow;
use std::cmp::Ordering;

const NAME: &str = "version 1 B-tree";

/// Number of children in a group's internal node with the default K: 2 × 16. The first read of a node has the
/// size of such a node.
const GROUP_CHILDREN: u64 = 32;

/// Kind of a node's children.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Symbol table nodes; a key is the offset of a name in the local heap.
    Group,
    /// Chunks; a key is size, filter mask and offset, with one coordinate more than the dataset's rank.
    Chunks {
        /// Rank of the dataset.
        rank: usize,
    },
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Self::Group => 0,
            Self::Chunks { .. } => 1,
        }
    }

    fn key_size(self, image: &Image<'_>) -> usize {
        match self {
            Self::Group => image.sizes.length.into(),
            Self::Chunks { rank } => rank.saturating_add(2).saturating_mul(8),
        }
    }

    fn usual_children(self, image: &Image<'_>) -> u64 {
        match self {
            Self::Group => GROUP_CHILDREN,
            Self::Chunks { .. } => u64::from(image.chunk_k).saturating_mul(2),
        }
    }
}

/// B-tree node.
struct Node<'a> {
    bytes: Cow<'a, [u8]>,
    /// Position of the first key in `bytes`.
    start: usize,
    /// Offset of the node in the file, for error messages.
    offset: u64,
    /// Level of the node; 0 for a leaf.
    level: u8,
    children: usize,
    key_size: usize,
    address_size: usize,
}

/// Child of a node, with its two adjacent keys.
struct Child<'n> {
    left: &'n [u8],
    address: &'n [u8],
    right: &'n [u8],
    /// Offset of its node in the file.
    offset: u64,
}

impl<'a> Node<'a> {
    /// Returns the size in bytes of a node with this number of children, including its header.
    fn size(image: &Image<'_>, kind: Kind, children: u64) -> u64 {
        let address = u64::from(image.sizes.address);
        let key = kind.key_size(image) as u64;
        let entries = children.saturating_mul(address.saturating_add(key));
        8_u64.saturating_add(address.saturating_mul(2)).saturating_add(entries).saturating_add(key)
    }

    fn read(
        image: Image<'a>,
        address: u64,
        kind: Kind,
        level: Option<u8>,
        budget: &mut Budget,
    ) -> Result<Self> {
        let mut bytes =
            image.read_up_to(NAME, address, Self::size(&image, kind, kind.usual_children(&image)))?;
        let mut cursor = image.cursor(&bytes, NAME, address);
        cursor.signature(b"TREE")?;
        let number = cursor.u8()?;
        if number != kind.number() {
            return Err(cursor.error(format!("a node of type {number} instead of {}", kind.number())));
        }
        let found = cursor.u8()?;
        if let Some(level) = level.filter(|level| *level != found) {
            return Err(cursor.error(format!("a node of level {found} instead of {level}")));
        }
        let children = cursor.u16()?;
        cursor.skip(usize::from(image.sizes.address).saturating_mul(2))?;
        let start = cursor.position();
        // A node without children has no keys.
        let size = match children {
            0 => start as u64,
            _ => Self::size(&image, kind, children.into()),
        };
        if size > bytes.len() as u64 {
            bytes = image.read(NAME, address, size)?;
        }
        budget.take(size)?;
        if let Kind::Chunks { .. } = kind {
            Self::record_extent(image, address, kind, size)?;
        }
        Ok(Self {
            bytes,
            start,
            offset: image.offset(address)?,
            level: found,
            children: children.into(),
            key_size: kind.key_size(&image),
            address_size: image.sizes.address.into(),
        })
    }

    /// Records the extent of a node, of which `used` bytes are used. A node has room for the usual number of
    /// children, and libhdf5 fills the unused part with zeros. Other programs may omit that part, so the
    /// extent is recorded only if it is zero.
    fn record_extent(image: Image<'a>, address: u64, kind: Kind, used: u64) -> Result<()> {
        let whole = Self::size(&image, kind, kind.usual_children(&image));
        if !image.records_extents() || image.left(address) < whole || used > whole {
            return Ok(());
        }
        let bytes = image.read(NAME, address, whole)?;
        let unused = usize::try_from(used).ok().and_then(|used| bytes.get(used..)).unwrap_or_default();
        if unused.iter().all(|byte| *byte == 0) {
            image.belongs(address, whole);
        }
        Ok(())
    }

    fn children(&self) -> impl Iterator<Item = Child<'_>> {
        let entry = self.key_size.saturating_add(self.address_size).max(1);
        let end = entry.saturating_mul(self.children).saturating_add(self.key_size);
        let entries = self.bytes.get(self.start..self.start.saturating_add(end)).unwrap_or_default();
        let windows = entries.windows(entry.saturating_add(self.key_size)).step_by(entry);
        windows.map(|window| {
            let (left, rest) = window.split_at_checked(self.key_size).unwrap_or_default();
            let (address, right) = rest.split_at_checked(self.address_size).unwrap_or_default();
            Child { left, address, right, offset: self.offset }
        })
    }
}

impl Child<'_> {
    fn address(&self, image: &Image<'_>) -> Result<u64> {
        let mut cursor = Cursor::new(self.address, NAME, self.offset);
        cursor
            .address(image.sizes)?
            .ok_or_else(|| Error::corrupt("a child's address is undefined").within(NAME).at(self.offset))
    }
}

/// Visits the children of all leaves in order. Skips a subtree if `wanted` is false for its two adjacent
/// keys.
fn walk(
    image: Image<'_>,
    root: u64,
    kind: Kind,
    mut wanted: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    mut each: impl FnMut(&[u8], u64) -> Result<()>,
) -> Result<()> {
    let mut budget = Budget::new(&image, NAME);
    let usual = Node::size(&image, kind, kind.usual_children(&image));
    let mut nodes = vec![root];
    let mut level = None;
    while !nodes.is_empty() {
        if nodes.len() > 1 {
            let parts: Vec<(u64, u64)> =
                nodes.iter().map(|address| (*address, usual.min(image.left(*address)))).collect();
            image.will_need(&parts);
        }
        let mut below = Vec::new();
        image.all(std::mem::take(&mut nodes), |address| {
            let node = Node::read(image, address, kind, level, &mut budget)?;
            // All nodes of one depth must have the same level; the root sets the first.
            level = Some(node.level);
            for child in node.children() {
                if node.level > 0 && !wanted(child.left, child.right)? {
                    continue;
                }
                let address = child.address(&image)?;
                match node.level {
                    0 => each(child.left, address)?,
                    _ => below.push(address),
                }
            }
            Ok(())
        })?;
        level = level.and_then(|level| level.checked_sub(1));
        nodes = below;
    }
    Ok(())
}

/// Returns the addresses of all symbol table nodes of a group, in the order of their names.
///
/// # Errors
/// Corrupt, Truncated; Need.
pub fn group_leaves(image: Image<'_>, root: u64) -> Result<Vec<u64>> {
    let mut leaves = Vec::new();
    walk(
        image,
        root,
        Kind::Group,
        |_, _| Ok(true),
        |_, address| {
            leaves.push(address);
            Ok(())
        },
    )?;
    Ok(leaves)
}

/// Returns the addresses of the symbol table nodes below the intact nodes of a damaged tree, and the errors
/// of the other nodes.
///
/// # Errors
/// Io, Changed or Need if bytes cannot be read; Limit.
pub(crate) fn surviving_group_leaves(image: Image<'_>, root: u64) -> Result<(Vec<u64>, Vec<Error>)> {
    let mut budget = Budget::new(&image, NAME);
    let (mut leaves, mut errors) = (Vec::new(), Vec::new());
    let mut nodes = vec![(root, None)];
    while let Some((address, level)) = nodes.pop() {
        image.visit()?;
        let node = match Node::read(image, address, Kind::Group, level, &mut budget) {
            Err(error) if error.is_of_reading() => return Err(error),
            Err(error) => {
                errors.push(error);
                continue;
            }
            Ok(node) => node,
        };
        for child in node.children() {
            match (child.address(&image), node.level.checked_sub(1)) {
                (Err(error), _) => errors.push(error),
                (Ok(address), None) => leaves.push(address),
                (Ok(address), below) => nodes.push((address, below)),
            }
        }
    }
    Ok((leaves, errors))
}

/// Finds the symbol table node for a name. `compare` gets the offset of a name in the local heap and returns
/// how that name compares to the wanted one.
///
/// # Errors
/// Corrupt, Truncated; Need; the errors of `compare`.
pub fn find_group_leaf(
    image: Image<'_>,
    root: u64,
    compare: &mut dyn FnMut(u64) -> Result<Ordering>,
) -> Result<Option<u64>> {
    let mut budget = Budget::new(&image, NAME);
    let mut address = root;
    let mut level = None;
    loop {
        let node = Node::read(image, address, Kind::Group, level, &mut budget)?;
        let mut key = |bytes: &[u8]| compare(Cursor::new(bytes, NAME, node.offset).length(image.sizes)?);
        // A child has the names greater than its left key, up to and including its right key. Descend into
        // the first child whose right key is not less than the name.
        let (mut from, mut to) = (0, node.children);
        while from < to {
            let middle = from.midpoint(to);
            let Some(child) = node.children().nth(middle) else { break };
            match key(child.right)? {
                Ordering::Less => from = middle.saturating_add(1),
                _ => to = middle,
            }
        }
        let Some(child) = node.children().nth(from) else { return Ok(None) };
        if key(child.left)? != Ordering::Less {
            return Ok(None);
        }
        address = child.address(&image)?;
        level = match node.level.checked_sub(1) {
            None => return Ok(Some(address)),
            below => below,
        };
    }
}

/// Key of a chunk.
#[derive(Debug)]
pub(super) struct ChunkKey<'k> {
    pub(super) size: u32,
    pub(super) filter_mask: u32,
    /// Offset of the first element, in elements, eight bytes a dimension, followed by a 0.
    pub(super) offset: &'k [u8],
}

impl<'k> ChunkKey<'k> {
    fn parse(key: &'k [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(key, NAME, 0);
        Ok(Self { size: cursor.u32()?, filter_mask: cursor.u32()?, offset: cursor.rest() })
    }
}

/// Visits the chunks of a dataset in order. Skips a subtree if `wanted` is false for the offsets in its two
/// adjacent keys.
pub(super) fn walk_chunks(
    image: Image<'_>,
    root: u64,
    rank: usize,
    mut wanted: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    mut each: impl FnMut(ChunkKey<'_>, u64) -> Result<()>,
) -> Result<()> {
    walk(
        image,
        root,
        Kind::Chunks { rank },
        |left, right| wanted(ChunkKey::parse(left)?.offset, ChunkKey::parse(right)?.offset),
        |key, address| each(ChunkKey::parse(key)?, address),
    )
}

/// Visits the leaves of a dataset, each with the key of its first chunk, if the root is their parent. Returns
/// whether it is. Reads only the root.
pub(super) fn chunk_leaves(
    image: Image<'_>,
    root: u64,
    rank: usize,
    mut each: impl FnMut(ChunkKey<'_>, u64) -> Result<()>,
) -> Result<bool> {
    let node = Node::read(image, root, Kind::Chunks { rank }, None, &mut Budget::new(&image, NAME))?;
    if node.level != 1 {
        return Ok(false);
    }
    node.children().try_for_each(|child| each(ChunkKey::parse(child.left)?, child.address(&image)?))?;
    Ok(true)
}

#[cfg(test)]
mod tests;
