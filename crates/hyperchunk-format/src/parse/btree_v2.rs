//! Version 2 B-trees: links and attributes in dense storage, huge objects of fractal heaps, shared messages,
//! chunks. Source: specification §III.A.2, "Disk Format: Level 1A2 - Version 2 B-trees".

use super::budget::Budget;
use crate::{Cursor, Error, Image, Result};
use std::borrow::Cow;
use std::cmp::Ordering;

const NAME: &str = "version 2 B-tree";

/// Size of signature, version, type and checksum of a node.
const NODE_OVERHEAD_BYTES: u64 = 10;

/// Version 2 B-tree.
#[derive(Debug, Clone)]
pub struct BTree {
    /// Record type.
    kind: u8,
    node_size: u64,
    record_size: usize,
    root: Option<Pointer>,
    total: u64,
    /// Node dimensions by depth, leaves first.
    depths: Vec<Depth>,
    /// Width of the record count in a pointer to a node.
    count_width: usize,
}

/// Address of a node and its number of records.
#[derive(Debug, Clone, Copy)]
struct Pointer {
    address: u64,
    count: u16,
}

/// Dimensions of the nodes at one depth.
#[derive(Debug, Clone, Copy)]
struct Depth {
    /// Maximum number of records in a node.
    most: u64,
    /// Maximum number of records in a node and its subtree.
    most_below: u64,
    /// Width of the total record count in a pointer to such a node; 0 for leaves.
    total_width: usize,
}

/// Returns the number of bytes needed for numbers up to `limit`.
pub(crate) fn width(limit: u64) -> usize {
    (limit.checked_ilog2().unwrap_or(0) / 8).saturating_add(1).try_into().unwrap_or(8)
}

/// Record, or node not read yet. A list of them, in tree order, represents a partly read tree.
enum Item {
    Record(Box<[u8]>),
    Node(Pointer),
}

impl Item {
    fn record(&self) -> Option<&[u8]> {
        match self {
            Self::Record(record) => Some(record),
            Self::Node(_) => None,
        }
    }
}

impl BTree {
    /// Opens the tree at `address`, whose records must have one of these types.
    ///
    /// # Errors
    /// Corrupt, Truncated, Unsupported; Need.
    pub fn open(image: Image<'_>, address: u64, kinds: &[u8]) -> Result<Self> {
        let sizes = image.sizes;
        let length = 22_u64.saturating_add(sizes.address.into()).saturating_add(sizes.length.into());
        let bytes = image.read(NAME, address, length)?;
        let mut cursor = image.cursor(image.checked(&bytes, NAME, address)?, NAME, address);
        cursor.signature(b"BTHD")?;
        cursor.version(0..=0)?;
        let kind = cursor.u8()?;
        if !kinds.contains(&kind) {
            return Err(cursor.error(format!("records of type {kind}, expected one of {kinds:?}")));
        }
        let node_size = u64::from(cursor.u32()?);
        let record_size = u64::from(cursor.u16()?);
        let depth = cursor.u16()?;
        // Split and merge percentages, which only writers use.
        cursor.skip(2)?;
        let root = cursor.address(sizes)?;
        let count = cursor.u16()?;
        let total = cursor.length(sizes)?;

        let leaf = node_size.saturating_sub(NODE_OVERHEAD_BYTES).checked_div(record_size).unwrap_or(0);
        let count_width = width(leaf);
        let mut depths = vec![Depth { most: leaf, most_below: leaf, total_width: 0 }];
        let impossible = || {
            cursor.error(format!(
                "nodes of {node_size} bytes do not fit records of {record_size} bytes at depth {depth}"
            ))
        };
        let mut below = depths.first().copied().ok_or_else(impossible)?;
        for _ in 0..depth {
            let pointer = u64::from(sizes.address)
                .saturating_add(count_width as u64)
                .saturating_add(below.total_width as u64);
            let most = node_size
                .saturating_sub(NODE_OVERHEAD_BYTES.saturating_add(pointer))
                .checked_div(record_size.saturating_add(pointer))
                .filter(|most| *most > 0)
                .ok_or_else(impossible)?;
            // A tree with more records than 64 bits can count is invalid.
            let most_below = most
                .saturating_add(1)
                .checked_mul(below.most_below)
                .and_then(|records| records.checked_add(most))
                .ok_or_else(impossible)?;
            below = Depth { most, most_below, total_width: width(most_below) };
            depths.push(below);
        }
        if leaf == 0 {
            return Err(impossible());
        }
        image.belongs(address, length);
        Ok(Self {
            kind,
            node_size,
            record_size: usize::try_from(record_size).unwrap_or(0),
            root: root.filter(|_| count > 0).map(|address| Pointer { address, count }),
            total,
            depths,
            count_width,
        })
    }

    /// Returns the record type.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// Returns the size of a record in bytes.
    #[must_use]
    pub fn record_size(&self) -> usize {
        self.record_size
    }

    /// Returns the number of records according to the header.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.total
    }

    /// True if the header declares no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Returns the number of records. Reads only the root, whose counts must match the header.
    ///
    /// # Errors
    /// Corrupt, Truncated; Need.
    pub fn count(&self, image: Image<'_>) -> Result<u64> {
        let mut count = self.root.map_or(0, |root| u64::from(root.count));
        let depth = self.depths.len().saturating_sub(1);
        if let Some(root) = self.root
            && depth > 0
        {
            let bytes = self.node(image, root, depth, &mut Budget::new(&image, NAME))?;
            let (_, mut cursor) = self.split(image, &bytes, root, depth)?;
            for _ in 0..=root.count {
                let (below, total) = self.counted_pointer(image, &mut cursor, depth)?;
                count = count.saturating_add(total.unwrap_or_else(|| below.count.into()));
            }
        }
        if count != self.total {
            let message =
                format!("a total of {} records, expected {count} records as in the root", self.total);
            return Err(Error::corrupt(message).within(NAME));
        }
        Ok(count)
    }

    /// Reads all records in order, concatenated: each has [`BTree::record_size`] bytes, never 0.
    ///
    /// # Errors
    /// Corrupt, Truncated; Need.
    pub fn records(&self, image: Image<'_>) -> Result<Vec<u8>> {
        let mut records = Vec::new();
        self.for_each(image, &mut |record| {
            records.extend_from_slice(record);
            Ok(())
        })?;
        Ok(records)
    }

    /// Calls `each` for all records, in order.
    ///
    /// # Errors
    /// Corrupt, Truncated; Need; the errors of `each`.
    pub fn for_each(&self, image: Image<'_>, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.walk(image, |_, _| Ok(true), each)
    }

    /// Calls `each` for records, in order. Skips the nodes between two adjacent records if `wanted` returns
    /// false for them; `None` stands for the ends of the tree.
    ///
    /// # Errors
    /// As [`BTree::for_each`].
    pub(super) fn walk(
        &self,
        image: Image<'_>,
        mut wanted: impl FnMut(Option<&[u8]>, Option<&[u8]>) -> Result<bool>,
        mut each: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let Some(root) = self.root else { return Ok(()) };
        let mut budget = Budget::new(&image, NAME);
        let mut items = vec![Item::Node(root)];
        for depth in (1..self.depths.len()).rev() {
            self.will_need(image, &items, depth);
            let mut next: Vec<Item> = Vec::new();
            let followers = items.iter().skip(1).map(Some).chain([None]);
            image.all(items.iter().zip(followers), |(item, follower)| {
                let pointer = match item {
                    Item::Record(record) => {
                        next.push(Item::Record(record.clone()));
                        return Ok(());
                    }
                    Item::Node(pointer) => *pointer,
                };
                let bytes = self.node(image, pointer, depth, &mut budget)?;
                let (records, mut pointers) = self.split(image, &bytes, pointer, depth)?;
                let after = follower.and_then(Item::record);
                for record in records.chunks_exact(self.record_size).map(Some).chain([None]) {
                    let child = self.pointer(image, &mut pointers, depth)?;
                    let before = next.iter().rev().find_map(Item::record);
                    if wanted(before, record.or(after))? {
                        next.push(Item::Node(child));
                    }
                    next.extend(record.map(|record| Item::Record(record.into())));
                }
                Ok(())
            })?;
            items = next;
        }
        self.will_need(image, &items, 0);
        image.all(&items, |item| match item {
            Item::Record(record) => each(record),
            Item::Node(pointer) => {
                let bytes = self.node(image, *pointer, 0, &mut budget)?;
                let (records, _) = self.split(image, &bytes, *pointer, 0)?;
                records.chunks_exact(self.record_size).try_for_each(&mut each)
            }
        })?;
        Ok(())
    }

    /// Finds the record for which `compare` returns Equal; `compare` tells how a record compares to the
    /// wanted one.
    ///
    /// # Errors
    /// Corrupt, Truncated; Need; the errors of `compare`.
    pub fn find(
        &self,
        image: Image<'_>,
        compare: &mut dyn FnMut(&[u8]) -> Result<Ordering>,
    ) -> Result<Option<Vec<u8>>> {
        let Some(mut pointer) = self.root else { return Ok(None) };
        let mut budget = Budget::new(&image, NAME);
        for depth in (0..self.depths.len()).rev() {
            let bytes = self.node(image, pointer, depth, &mut budget)?;
            let (records, mut pointers) = self.split(image, &bytes, pointer, depth)?;
            let (mut from, mut to) = (0, usize::from(pointer.count));
            while from < to {
                let middle = from.midpoint(to);
                let Some(record) = records.chunks_exact(self.record_size).nth(middle) else { break };
                match compare(record)? {
                    Ordering::Equal => return Ok(Some(record.to_vec())),
                    Ordering::Less => from = middle.saturating_add(1),
                    Ordering::Greater => to = middle,
                }
            }
            if depth > 0 {
                for _ in 0..from {
                    self.pointer(image, &mut pointers, depth)?;
                }
                pointer = self.pointer(image, &mut pointers, depth)?;
            }
        }
        Ok(None)
    }

    /// Returns the number of used bytes of a node.
    fn used(&self, image: Image<'_>, count: u16, depth: usize) -> u64 {
        let records = (self.record_size as u64).saturating_mul(count.into());
        let pointers = match depth {
            0 => 0,
            _ => (self.pointer_size(image, depth) as u64).saturating_mul(u64::from(count).saturating_add(1)),
        };
        NODE_OVERHEAD_BYTES.saturating_add(records).saturating_add(pointers)
    }

    /// Returns the size of a pointer in a node of that depth.
    fn pointer_size(&self, image: Image<'_>, depth: usize) -> usize {
        usize::from(image.sizes.address)
            .saturating_add(self.count_width)
            .saturating_add(self.total_width(depth))
    }

    /// Returns the width of the total record count in a pointer in a node of that depth.
    fn total_width(&self, depth: usize) -> usize {
        depth.checked_sub(1).and_then(|below| self.depths.get(below)).map_or(0, |below| below.total_width)
    }

    fn will_need(&self, image: Image<'_>, items: &[Item], depth: usize) {
        let parts: Vec<(u64, u64)> = items
            .iter()
            .filter_map(|item| match item {
                Item::Record(_) => None,
                Item::Node(Pointer { address, count }) => Some((*address, self.used(image, *count, depth))),
            })
            .collect();
        if parts.len() > 1 {
            image.will_need(&parts);
        }
    }

    /// Reads the used part of a node and verifies its checksum.
    fn node<'a>(
        &self,
        image: Image<'a>,
        pointer: Pointer,
        depth: usize,
        budget: &mut Budget,
    ) -> Result<Cow<'a, [u8]>> {
        let Pointer { address, count } = pointer;
        let most = self.depths.get(depth).map_or(0, |depth| depth.most);
        if u64::from(count) > most {
            let message = format!("a node of {count} records, which has room for {most}");
            return Err(Error::corrupt(message).within(NAME).at(image.offset(address)?));
        }
        let used = self.used(image, count, depth);
        let bytes = image.read(NAME, address, used)?;
        budget.take(used)?;
        image.checked(&bytes, NAME, address)?;
        image.belongs(address, self.node_size);
        Ok(bytes)
    }

    /// Returns the records of a node, and a cursor at the pointers after them.
    fn split<'b>(
        &self,
        image: Image<'_>,
        bytes: &'b [u8],
        pointer: Pointer,
        depth: usize,
    ) -> Result<(&'b [u8], Cursor<'b>)> {
        let mut cursor = image.cursor(bytes, NAME, pointer.address);
        cursor.signature(if depth == 0 { b"BTLF" } else { b"BTIN" })?;
        cursor.version(0..=0)?;
        let kind = cursor.u8()?;
        if kind != self.kind {
            return Err(cursor.error(format!("a node of type {kind} in a tree of type {}", self.kind)));
        }
        let records = cursor.take(self.record_size.saturating_mul(pointer.count.into()))?;
        Ok((records, cursor))
    }

    /// Reads the next pointer in a node of that depth.
    fn pointer(&self, image: Image<'_>, cursor: &mut Cursor<'_>, depth: usize) -> Result<Pointer> {
        Ok(self.counted_pointer(image, cursor, depth)?.0)
    }

    /// Reads the next pointer in a node of that depth, and the number of all records below it, which
    /// pointers to leaves do not have.
    fn counted_pointer(
        &self,
        image: Image<'_>,
        cursor: &mut Cursor<'_>,
        depth: usize,
    ) -> Result<(Pointer, Option<u64>)> {
        let address = cursor.address(image.sizes)?;
        let count = cursor.uint(self.count_width)?;
        let width = self.total_width(depth);
        let total = if width > 0 { Some(cursor.uint(width)?) } else { None };
        match (address, u16::try_from(count)) {
            (Some(address), Ok(count)) => Ok((Pointer { address, count }, total)),
            _ => Err(cursor.error(format!("a pointer to {address:?} with {count} records"))),
        }
    }
}

#[cfg(test)]
mod tests;
