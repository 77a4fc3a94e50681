//! Version 2 B-trees, built in bulk from all their records. Source: specification §III.A.2, "Disk Format:
//! Level 1A2 - Version 2 B-trees".

use super::blocks::{Allocate, Blocks, Extent};
use super::{Bytes, fit};
use crate::parse::btree_v2::width;
use crate::{Error, Result};

const NAME: &str = "version 2 B-tree";

/// Size of signature, version, type and checksum of a node.
const NODE_OVERHEAD_BYTES: u64 = 10;
/// Size of the header: signature, version, type, sizes of nodes and records, depth, percentages, root, count,
/// total, checksum.
const HEADER_BYTES: u64 = 38;
/// Size of an address.
const ADDRESS_BYTES: u64 = 8;
/// Fill percentages at which libraries that add or remove records split and merge nodes.
pub(crate) const SPLIT_PERCENT: u8 = 100;
pub(crate) const MERGE_PERCENT: u8 = 40;

/// Capacity of the nodes at one depth; depth 0 is the leaves.
#[derive(Debug, Clone, Copy)]
struct Depth {
    /// Maximum number of records in a node and its subtree.
    most_below: u64,
    /// Width of that number in a pointer to such a node; 0 for leaves.
    total_width: usize,
}

/// Node: a range of the records. In an inner node most of them belong to its children.
#[derive(Debug, Clone, Copy)]
struct Node {
    first: u64,
    count: u64,
}

/// Encodes a tree of records of type `kind`, each of `record_size` bytes, in order: a header, and nodes of
/// `node_size` bytes. The record counts of sibling subtrees differ by at most one.
///
/// # Errors
/// Invalid if a node is too small for its records; the errors of the allocator.
pub fn encode(
    kind: u8,
    node_size: u32,
    record_size: u16,
    records: &[u8],
    allocate: &mut Allocate<'_>,
) -> Result<Blocks> {
    Encoder::new(kind, node_size, record_size, records)
        .and_then(|encoder| encoder.encode(allocate))
        .map_err(|error| error.within(NAME))
}

struct Encoder<'r> {
    kind: u8,
    node_size: u32,
    record_size: u16,
    records: &'r [u8],
    total: u64,
    /// Dimensions by depth, from the leaves up to the root.
    depths: Vec<Depth>,
    /// Width of the record count in a pointer to a node.
    count_width: usize,
}

impl<'r> Encoder<'r> {
    fn new(kind: u8, node_size: u32, record_size: u16, records: &'r [u8]) -> Result<Self> {
        let size = u64::from(record_size);
        let impossible = || {
            Error::invalid(format!("nodes of {node_size} bytes do not fit records of {record_size} bytes"))
        };
        let total = (records.len() as u64).checked_div(size).ok_or_else(impossible)?;
        if total.checked_mul(size) != Some(records.len() as u64) {
            return Err(Error::invalid(format!(
                "{} bytes of records, expected a multiple of {record_size}",
                records.len()
            )));
        }
        let room = u64::from(node_size);
        let most = room.saturating_sub(NODE_OVERHEAD_BYTES).checked_div(size).filter(|most| *most > 0);
        let most = most.ok_or_else(impossible)?;
        let count_width = width(most);
        let mut depths = vec![Depth { most_below: most, total_width: 0 }];
        let mut below = Depth { most_below: most, total_width: 0 };
        while below.most_below < total {
            let pointer =
                ADDRESS_BYTES.saturating_add(count_width as u64).saturating_add(below.total_width as u64);
            let most = room
                .saturating_sub(NODE_OVERHEAD_BYTES.saturating_add(pointer))
                .checked_div(size.saturating_add(pointer))
                .filter(|most| *most > 0)
                .ok_or_else(impossible)?;
            let most_below = most.saturating_add(1).saturating_mul(below.most_below).saturating_add(most);
            below = Depth { most_below, total_width: width(most_below) };
            depths.push(below);
        }
        Ok(Self { kind, node_size, record_size, records, total, depths, count_width })
    }

    fn encode(&self, allocate: &mut Allocate<'_>) -> Result<Blocks> {
        let node_size = u64::from(self.node_size);
        let mut extents = vec![(allocate(HEADER_BYTES)?, HEADER_BYTES)];
        let root_address = if self.total > 0 { Some(allocate(node_size)?) } else { None };
        extents.extend(root_address.map(|address| (address, node_size)));
        let depth = self.depths.len().saturating_sub(1);
        let root = Node { first: 0, count: self.total };
        let inside =
            if depth == 0 { self.total } else { (self.children(root, depth).len() as u64).saturating_sub(1) };
        let mut header = Bytes::new();
        header.raw(b"BTHD").u8(0).u8(self.kind).u32(self.node_size).u16(self.record_size);
        header.u16(fit(depth, "levels of nodes")?).u8(SPLIT_PERCENT).u8(MERGE_PERCENT);
        header.address(root_address);
        header.u16(fit(inside, "records in a node")?).u64(self.total).checksum();
        let mut bytes = header;
        if self.total == 0 {
            return Ok(Blocks { bytes: bytes.into_vec(), extents });
        }
        let mut level = vec![root];
        for depth in (0..=depth).rev() {
            let mut next = Vec::new();
            for node in level {
                let below = if depth == 0 { Vec::new() } else { self.children(node, depth) };
                let start = bytes.len();
                let first = extents.len();
                for _ in &below {
                    extents.push((allocate(node_size)?, node_size));
                }
                self.node(node, depth, &below, extents.get(first..).unwrap_or_default(), &mut bytes)?;
                bytes.checksum_since(start);
                bytes.pad_to(start.saturating_add(self.node_size as usize));
                next.extend(below);
            }
            level = next;
        }
        Ok(Blocks { bytes: bytes.into_vec(), extents })
    }

    /// Splits the records of an inner node among as few children as can hold them, at least two. The records
    /// that separate the children stay in the node.
    fn children(&self, node: Node, depth: usize) -> Vec<Node> {
        let room = self.depths.get(depth.saturating_sub(1)).map_or(1, |below| below.most_below);
        let count = node.count.saturating_add(1).div_ceil(room.saturating_add(1)).max(2);
        let records = node.count.saturating_sub(count.saturating_sub(1));
        let each = records.checked_div(count).unwrap_or(0);
        let more = records.checked_rem(count).unwrap_or(0);
        let mut first = node.first;
        (0..count)
            .map(|number| {
                let node = Node { first, count: each.saturating_add(u64::from(number < more)) };
                first = first.saturating_add(node.count).saturating_add(1);
                node
            })
            .collect()
    }

    /// Appends a node without its checksum; its children `below` have these extents.
    fn node(
        &self,
        node: Node,
        depth: usize,
        below: &[Node],
        extents: &[Extent],
        bytes: &mut Bytes,
    ) -> Result<()> {
        bytes.raw(if depth == 0 { b"BTLF" } else { b"BTIN" }).u8(0).u8(self.kind);
        if depth == 0 {
            bytes.raw(self.records(node.first, node.count)?);
            return Ok(());
        }
        // One record separates each two children.
        for next in below.iter().skip(1) {
            bytes.raw(self.records(next.first.saturating_sub(1), 1)?);
        }
        let total_width = match depth {
            1 => None,
            _ => depth.checked_sub(1).and_then(|below| self.depths.get(below)).map(|below| below.total_width),
        };
        for ((address, _), child) in extents.iter().zip(below) {
            let inside = match depth {
                1 => child.count,
                _ => (self.children(*child, depth.saturating_sub(1)).len() as u64).saturating_sub(1),
            };
            bytes.u64(*address).uint(inside, self.count_width)?;
            if let Some(width) = total_width {
                bytes.uint(child.count, width)?;
            }
        }
        Ok(())
    }

    fn records(&self, first: u64, count: u64) -> Result<&'r [u8]> {
        let size = usize::from(self.record_size);
        let place = |number: u64| usize::try_from(number).ok()?.checked_mul(size);
        let range = place(first).zip(first.checked_add(count).and_then(place));
        let records = range.and_then(|(start, end)| self.records.get(start..end));
        records.ok_or_else(|| Error::limit("more records than fit in memory"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::blocks::one_after_another;
    use crate::parse;
    use crate::parse::testing::with_image;

    fn check(node_size: u32, record_size: u16, count: u32, depth: u16) {
        let record = |number: u32| {
            let mut record = number.to_be_bytes().to_vec();
            record.resize(record_size.into(), number as u8);
            record
        };
        let records: Vec<u8> = (0..count).flat_map(record).collect();
        let base = 1000;
        let bytes = encode(5, node_size, record_size, &records, &mut one_after_another(base)).unwrap().bytes;
        assert_eq!(
            bytes.len(),
            encode(5, node_size, record_size, &records, &mut one_after_another(0)).unwrap().bytes.len()
        );
        assert_eq!(u16::from_le_bytes([bytes[12], bytes[13]]), depth, "{count} records");
        let mut file = vec![0; base as usize];
        file.extend(bytes);
        with_image(&file, |image| {
            let tree = parse::btree_v2::BTree::open(image, base, &[5]).unwrap();
            assert_eq!((tree.kind(), tree.len(), tree.record_size()), (5, count.into(), record_size.into()));
            assert!(tree.records(image).unwrap() == records);
            for sought in [0, 1, count / 3, count.saturating_sub(1), count] {
                let sought_bytes = sought.to_be_bytes();
                let found = tree.find(image, &mut |record| Ok(record[..4].cmp(&sought_bytes))).unwrap();
                assert_eq!(found, (sought < count).then(|| record(sought)));
            }
        });
    }

    #[test]
    fn what_is_written_is_read() {
        check(512, 11, 0, 0);
        // 45 records in a leaf, 25 pointers in a node above it.
        check(512, 11, 1, 0);
        check(512, 11, 45, 0);
        check(512, 11, 46, 1);
        check(512, 11, 25 * 45 + 24, 1);
        check(512, 11, 25 * 45 + 25, 2);
        check(2048, 24, 20_000, 2);
        // 4 records in a leaf, 1 in each node above it.
        for count in 0..400 {
            let depth = (0..).find(|depth| count < (5 << depth)).unwrap();
            check(50, 10, count, depth);
        }
    }

    #[test]
    fn nodes_are_evenly_full() {
        for (node_size, record_size) in [(512, 11), (512, 17), (512, 24), (2048, 24)] {
            for count in (0..30_000).step_by(997) {
                let records = vec![0; count * usize::from(record_size)];
                let encoder = Encoder::new(5, node_size, record_size, &records).unwrap();
                let mut level = vec![Node { first: 0, count: count as u64 }];
                for depth in (1..encoder.depths.len()).rev() {
                    let counts: Vec<_> =
                        level.iter().map(|node| encoder.children(*node, depth).len() - 1).collect();
                    let (all, below) =
                        (encoder.depths[depth].most_below, encoder.depths[depth - 1].most_below);
                    let most = ((all - below) / (below + 1)) as usize;
                    assert!(counts.iter().all(|count| *count <= most && *count > 0));
                    if level.len() > 1 {
                        // No library would merge these nodes.
                        assert!(
                            counts.iter().all(|count| *count >= most * usize::from(MERGE_PERCENT) / 100),
                            "{counts:?}"
                        );
                    }
                    level = level.iter().flat_map(|node| encoder.children(*node, depth)).collect();
                }
                let most = encoder.depths[0].most_below;
                assert!(level.iter().all(|node| node.count <= most));
                assert!(
                    level.len() == 1
                        || level.iter().all(|node| node.count >= most * u64::from(MERGE_PERCENT) / 100)
                );
            }
        }
    }

    #[test]
    fn nodes_have_room() {
        assert!(encode(5, 20, 11, &[0; 11], &mut one_after_another(0)).is_err());
        assert!(encode(5, 512, 0, &[0; 11], &mut one_after_another(0)).is_err());
        assert!(encode(5, 512, 11, &[0; 12], &mut one_after_another(0)).is_err());
        // Large enough for leaves, too small for inner nodes.
        assert!(encode(5, 22, 12, &[0; 24], &mut one_after_another(0)).is_err());
    }
}
