//! Symbol table nodes: the links of old-style groups. Source: specification §III.B, "Disk Format: Level 1B -
//! Group Symbol Table Nodes", and §III.C, "Symbol Table Entry".

use super::local_heap::LocalHeap;
use crate::model::{CharacterSet, Link, LinkTarget};
use crate::{Cursor, Image, Result};

const STRUCTURE: &str = "symbol table node";
/// Capacity of a node with the default K.
const USUAL_ENTRIES: u64 = 8;
/// Size of signature, version and count.
const PREFIX_BYTES: u64 = 8;

/// Entry of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Offset of the link's name in the local heap.
    pub(crate) name: u64,
    target: Target,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Object(Option<u64>),
    /// Old-style group, by its address and the cached address of its B-tree. The cached address is a hint;
    /// the group's header decides.
    Group(Option<u64>, u64),
    /// Offset of a soft link's path in the local heap.
    Path(u64),
}

/// Returns the size of a node with this number of entries.
pub(crate) fn size(image: Image<'_>, entries: u64) -> u64 {
    let entry = u64::from(image.sizes.length).saturating_add(image.sizes.address.into()).saturating_add(24);
    entries.saturating_mul(entry).saturating_add(PREFIX_BYTES)
}

/// Returns the range (address, length) of the first read of a node.
pub(crate) fn usual(image: Image<'_>, address: u64) -> (u64, u64) {
    (address, size(image, USUAL_ENTRIES).min(image.left(address)))
}

/// Reads the entries of the node at an address.
///
/// # Errors
/// Corrupt, Truncated or Unsupported if it is damaged.
pub(crate) fn entries(image: Image<'_>, address: u64) -> Result<Vec<Entry>> {
    let mut bytes = image.read_up_to(STRUCTURE, address, size(image, USUAL_ENTRIES))?;
    let mut cursor = image.cursor(&bytes, STRUCTURE, address);
    cursor.signature(b"SNOD")?;
    cursor.version(1..=1)?;
    cursor.skip(1)?;
    let count = cursor.u16()?;
    let size = size(image, count.into());
    if size > bytes.len() as u64 {
        bytes = image.read(STRUCTURE, address, size)?;
    }
    let mut cursor = image.cursor(&bytes, STRUCTURE, address);
    cursor.skip(8)?;
    (0..count).map(|_| entry(image, &mut cursor)).collect()
}

/// Reads the entries of a node that may be damaged, each with its own error.
///
/// # Errors
/// If the node's prefix is damaged.
pub(crate) fn surviving(image: Image<'_>, address: u64) -> Result<Vec<Result<Entry>>> {
    let bytes = image.read(STRUCTURE, address, PREFIX_BYTES)?;
    let mut cursor = image.cursor(&bytes, STRUCTURE, address);
    cursor.signature(b"SNOD")?;
    cursor.version(1..=1)?;
    cursor.skip(1)?;
    let count = u64::from(cursor.u16()?);
    let place = |number: u64| address.saturating_add(size(image, number));
    let one = size(image, 1).saturating_sub(PREFIX_BYTES);
    let read = |number: u64| {
        let bytes = image.read(STRUCTURE, place(number), one)?;
        entry(image, &mut image.cursor(&bytes, STRUCTURE, place(number)))
    };
    Ok((0..count).map(read).collect())
}

fn entry(image: Image<'_>, cursor: &mut Cursor<'_>) -> Result<Entry> {
    let name = cursor.length(image.sizes)?;
    let address = cursor.address(image.sizes)?;
    let cached = cursor.u32()?;
    cursor.skip(4)?;
    let mut scratch = cursor.clone();
    cursor.skip(16)?;
    match cached {
        0 => Ok(Entry { name, target: Target::Object(address) }),
        1 => match scratch.address(image.sizes)? {
            Some(btree) => Ok(Entry { name, target: Target::Group(address, btree) }),
            None => Ok(Entry { name, target: Target::Object(address) }),
        },
        2 => Ok(Entry { name, target: Target::Path(scratch.u32()?.into()) }),
        other => Err(cursor.error(format!("an entry with cached information of unknown type {other}"))),
    }
}

impl Entry {
    /// Returns the cached address of the target group's B-tree.
    pub(crate) fn btree(&self) -> Option<u64> {
        if let Target::Group(_, btree) = self.target { Some(btree) } else { None }
    }
}

/// Converts an entry to a link.
///
/// # Errors
/// Corrupt if a name is not in the heap.
pub(crate) fn link(entry: Entry, heap: &LocalHeap<'_>) -> Result<Link> {
    let target = match entry.target {
        // An undefined address is an error for following the link, not for listing it.
        Target::Object(address) | Target::Group(address, _) => LinkTarget::Hard(address.unwrap_or(u64::MAX)),
        Target::Path(offset) => LinkTarget::Soft(heap.name(offset)?.into()),
    };
    let name = heap.name(entry.name)?;
    if name.is_empty() {
        return Err(crate::Error::corrupt("a link without a name").within(STRUCTURE));
    }
    Ok(Link { name: name.into(), charset: CharacterSet::Ascii, creation_order: None, target })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::testing::{Maker, survives_damage, with_image};

    /// Creates a node at 0 with one entry of each kind, followed by a heap.
    fn file(first: u32) -> Vec<u8> {
        let node = Maker::default().raw(b"SNOD\x01\0\x03\0");
        let node = node.u64s(&[8, 100]).u32s(&[first, 0, 0, 0, 0, 0]);
        let node = node.u64s(&[16, 200]).u32s(&[1, 0, 1, 2, 3, 4]);
        let node = node.u64s(&[24, u64::MAX]).u32s(&[2, 0, 32, 0, 0, 0]);
        let heap = node.to(512).raw(b"HEAP\0\0\0\0").u64s(&[40, 1, 544]);
        heap.raw(b"\0\0\0\0\0\0\0\0a\0\0\0\0\0\0\0b\0\0\0\0\0\0\0c\0\0\0\0\0\0\0/d/e\0\0\0\0").0
    }

    fn links(image: Image<'_>) -> Result<Vec<Link>> {
        let heap = LocalHeap::open(image, 512)?;
        entries(image, 0)?.into_iter().map(|entry| link(entry, &heap)).collect()
    }

    #[test]
    fn links_of_each_kind() {
        let expected = [
            ("a", LinkTarget::Hard(100)),
            ("b", LinkTarget::Hard(200)),
            ("c", LinkTarget::Soft("/d/e".into())),
        ];
        let links = with_image(&file(0), links).unwrap();
        let found: Vec<_> = links.into_iter().map(|link| (link.name.to_string(), link.target)).collect();
        assert_eq!(found, expected.map(|(name, target)| (name.to_string(), target)));
    }

    #[test]
    fn damage_is_refused() {
        assert!(with_image(&file(3), links).is_err());
        let mut file = file(0);
        file[8] = 0;
        assert!(with_image(&file, links).unwrap_err().to_string().contains("without a name"));
        survives_damage(&file, |image| drop(links(image)));
    }
}
