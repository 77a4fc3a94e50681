//! Metadata cache images: metadata stored by the writer in one block instead of at their addresses. Source:
//! HDF5 1.10 and later, `H5Cimage.c`.

use crate::model::Superblock;
use crate::{Cursor, Image, Result};
use std::collections::BTreeMap;

const STRUCTURE: &str = "metadata cache image";

/// Reads the patches to apply to the file before any structure except the superblock is parsed: address and
/// bytes of each, in order and disjoint. Empty if the file has no cache image.
///
/// # Errors
/// Corrupt, Truncated or Unsupported if it is damaged.
pub fn entries(image: Image<'_>, superblock: &Superblock) -> Result<Vec<(u64, Vec<u8>)>> {
    let Some(block) = superblock.cache_image else { return Ok(Vec::new()) };
    let bytes = image.read(STRUCTURE, block.address, block.size)?;
    let mut cursor = image.cursor(&bytes, STRUCTURE, block.address);
    cursor.signature(b"MDCI")?;
    cursor.version(0..=0)?;
    let flags = cursor.u8()?;
    if flags & 0x01 != 0 {
        return Err(
            crate::Error::unsupported("a cache image with the cache's resize status").within(STRUCTURE)
        );
    }
    let length = cursor.length(image.sizes)?;
    if length != block.size {
        return Err(cursor.error(format!("{length} bytes in a block of {}", block.size)));
    }
    let count = cursor.u32()?;
    if count == 0 {
        return Err(cursor.error("a cache image without entries".into()));
    }
    let mut entries = BTreeMap::new();
    for _ in 0..count {
        let (address, bytes) = entry(image, &mut cursor, superblock.end)?;
        if entries.insert(address, bytes).is_some() {
            return Err(cursor.error(format!("two entries for address {address:#x}")));
        }
    }
    let ends = entries.iter().map(|(address, bytes)| address.saturating_add(bytes.len() as u64));
    if ends.zip(entries.keys().skip(1)).any(|(end, next)| end > *next) {
        return Err(cursor.error("the entries of the cache image overlap".into()));
    }
    Ok(entries.into_iter().collect())
}

fn entry(image: Image<'_>, cursor: &mut Cursor<'_>, end: u64) -> Result<(u64, Vec<u8>)> {
    const TYPE_COUNT: u8 = 30;
    const RING_COUNT: u8 = 6;
    const MAX_AGE: u8 = 100;
    let (class, flags, ring, age) = (cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?);
    let (children, dirty, parents) = (cursor.u16()?, cursor.u16()?, cursor.u16()?);
    let is_parent = flags & 0x04 != 0;
    if class >= TYPE_COUNT
        || ring >= RING_COUNT
        || age > MAX_AGE
        || is_parent != (children > 0)
        || dirty > children
    {
        return Err(cursor.error(format!("an invalid entry of type {class}, ring {ring}, age {age}")));
    }
    cursor.skip(4)?;
    let address = cursor.address(image.sizes)?;
    let size = cursor.length(image.sizes)?;
    cursor.skip(usize::from(image.sizes.address).saturating_mul(parents.into()))?;
    let inside = |address: &u64| address.checked_add(size).is_some_and(|last| last <= end);
    match address.filter(inside) {
        Some(address) if size > 0 => {
            let bytes = cursor.take(usize::try_from(size).unwrap_or(usize::MAX))?;
            Ok((address, bytes.to_vec()))
        }
        _ => {
            Err(cursor.error(format!("an entry of {size} bytes at {address:x?}, empty or outside the file")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sizes;
    use crate::model::CacheImage;
    use crate::parse::testing::{Maker, survives_damage, with_image};

    fn superblock(size: u64) -> Superblock {
        Superblock {
            version: 2,
            base: 0,
            sizes: Sizes { address: 8, length: 8 },
            end: 1000,
            root: 48,
            group_leaf_k: 4,
            group_internal_k: 16,
            chunk_k: 32,
            extension: None,
            driver: None,
            flags: 0,
            shared_messages: None,
            cache_image: Some(CacheImage { address: 0, size }),
        }
    }

    fn entry(maker: Maker, address: u64, bytes: &[u8]) -> Maker {
        let maker = maker.u8s(&[5, 3, 1, 0]).u16s(&[0, 0, 1]).u32s(&[0]);
        maker.u64s(&[address, bytes.len() as u64, 7]).raw(bytes)
    }

    fn file(addresses: [u64; 2]) -> Vec<u8> {
        let start = Maker::default().raw(b"MDCI\0\0").u64s(&[106]).u32s(&[2]);
        let [first, second] = addresses;
        entry(entry(start, first, b"abcd"), second, b"efgh").u32s(&[0]).0
    }

    fn parsed(file: &[u8]) -> Result<Vec<(u64, Vec<u8>)>> {
        with_image(file, |image| entries(image, &superblock(file.len() as u64)))
    }

    #[test]
    fn entries_have_places() {
        let expected = vec![(100, b"efgh".to_vec()), (200, b"abcd".to_vec())];
        assert_eq!(parsed(&file([200, 100])).unwrap(), expected);
    }

    #[test]
    fn damage_is_refused() {
        assert!(parsed(&file([200, 200])).is_err());
        assert!(parsed(&file([200, 203])).is_err());
        assert!(parsed(&file([200, 997])).is_err());
        assert!(parsed(&file([200, u64::MAX])).is_err());
        let mut none = file([200, 100]);
        none[14] = 0;
        assert!(parsed(&none).is_err());
        survives_damage(&file([200, 100]), |image| drop(entries(image, &superblock(106))));
    }
}
