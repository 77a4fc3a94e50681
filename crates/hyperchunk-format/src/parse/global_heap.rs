//! Global heap collections: variable-length data, regions, mappings of virtual datasets. Source:
//! specification §III.E, "Disk Format: Level 1E - Global Heap".

use crate::{Image, Result};
use std::borrow::Cow;
use std::ops::Range;

const NAME: &str = "global heap collection";

/// Minimum size of a collection, according to the specification and libhdf5.
const MIN_COLLECTION_BYTES: u64 = 4096;

/// Collection of the global heap.
#[derive(Debug, Clone)]
pub struct Collection<'a> {
    bytes: Cow<'a, [u8]>,
    /// Objects by index, each with its range in `bytes`.
    objects: Vec<(u16, Range<usize>)>,
}

impl<'a> Collection<'a> {
    /// Opens the collection at `address`.
    ///
    /// # Errors
    /// Corrupt, Truncated, Unsupported; Need.
    pub fn open(image: Image<'a>, address: u64) -> Result<Self> {
        // Most collections have the minimum size, so that one read is enough.
        let mut bytes = image.read_up_to(NAME, address, MIN_COLLECTION_BYTES)?;
        let mut cursor = image.cursor(&bytes, NAME, address);
        cursor.signature(b"GCOL")?;
        cursor.version(1..=1)?;
        cursor.skip(3)?;
        let size = cursor.length(image.sizes)?;
        if size < MIN_COLLECTION_BYTES {
            return Err(cursor
                .error(format!("a collection of {size} bytes; the smallest has {MIN_COLLECTION_BYTES}")));
        }
        if size != bytes.len() as u64 {
            bytes = image.read(NAME, address, size)?;
        }
        let objects = objects(&image, &bytes, address)?;
        Ok(Self { bytes, objects })
    }

    /// Returns the object with an index. Index 0 is free space, never an object.
    #[must_use]
    pub fn object(&self, index: u32) -> Option<&[u8]> {
        let index = u16::try_from(index).ok().filter(|index| *index != 0)?;
        let at = self.objects.partition_point(|(other, _)| *other < index);
        let (found, range) = self.objects.get(at)?;
        if *found == index { self.bytes.get(range.clone()) } else { None }
    }

    /// Returns the size of the collection in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Copies the bytes, so that the collection no longer borrows from the view.
    #[must_use]
    pub fn into_owned(self) -> Collection<'static> {
        Collection { bytes: Cow::Owned(self.bytes.into_owned()), objects: self.objects }
    }
}

/// Lists the objects by index. If two have the same index, the last one counts.
fn objects(image: &Image<'_>, bytes: &[u8], address: u64) -> Result<Vec<(u16, Range<usize>)>> {
    let width = usize::from(image.sizes.length);
    let header = 8_usize.saturating_add(width).next_multiple_of(8);
    let mut cursor = image.cursor(bytes, NAME, address);
    cursor.skip(header)?;
    let mut objects: Vec<(u16, Range<usize>)> = Vec::new();
    let mut in_order = true;
    // Space too small for an object's header is free.
    while cursor.left() >= header {
        let start = cursor.position();
        let index = cursor.u16()?;
        cursor.skip(6)?;
        let size = cursor.uint(width)?;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let whole = match index {
            // The size of free space includes its header.
            0 => size,
            _ => size.checked_next_multiple_of(8).unwrap_or(usize::MAX).saturating_add(header),
        };
        if whole == 0 || whole.checked_rem(8) != Some(0) || whole > bytes.len().saturating_sub(start) {
            return Err(
                cursor.error(format!("object {index} of {size} bytes does not fit in the collection"))
            );
        }
        if index != 0 {
            let data = start.saturating_add(header);
            in_order &= objects.last().is_none_or(|(last, _)| *last < index);
            objects.push((index, data..data.saturating_add(size)));
        }
        cursor = image.cursor(bytes, NAME, address);
        cursor.skip(start.saturating_add(whole))?;
    }
    if !in_order {
        objects.reverse();
        objects.sort_by_key(|(index, _)| *index);
        objects.dedup_by_key(|(index, _)| *index);
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::testing::{Maker, survives_damage, with_image};

    fn collection() -> Vec<u8> {
        let file = Maker::default().raw(b"GCOL").u8s(&[1, 0, 0, 0]).u64s(&[4096]);
        let file = file.u16s(&[2, 1, 0, 0]).u64s(&[5]).raw(b"hello\0\0\0");
        let file = file.u16s(&[1, 1, 0, 0]).u64s(&[0]);
        let file = file.u16s(&[9, 1, 0, 0]).u64s(&[8]).raw(b"12345678");
        let free = 4096 - file.0.len() as u64;
        file.u16s(&[0; 4]).u64s(&[free]).to(4096).0
    }

    #[test]
    fn objects_are_found() {
        let file = collection();
        let heap = with_image(&file, |image| Collection::open(image, 0).unwrap().into_owned());
        assert_eq!(heap.object(2), Some(&b"hello"[..]));
        assert_eq!(heap.object(1), Some(&b""[..]));
        assert_eq!(heap.object(9), Some(&b"12345678"[..]));
        for absent in [0, 3, 10, 0x10001, u32::MAX] {
            assert_eq!(heap.object(absent), None);
        }
    }

    #[test]
    fn damage_is_refused() {
        let check = |at: usize, byte: u8, message: &str| {
            let mut file = collection();
            file[at] = byte;
            let error = with_image(&file, |image| Collection::open(image, 0).map(drop)).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        };
        check(0, 0, "signature `GCOL` expected");
        check(4, 2, "version 2");
        check(9, 0, "0 bytes; the smallest has 4096");
        check(9, 32, "the file ends");
        check(30, 1, "does not fit");
        check(31, 0xff, "does not fit");
        // Free space of size 0 would loop forever.
        let at = collection().len() - 4096 + 16 + 24 + 16 + 24 + 8;
        let mut file = collection();
        file[at..at + 8].fill(0);
        assert!(with_image(&file, |image| Collection::open(image, 0).is_err()));
        survives_damage(&collection()[..], |image| {
            drop(Collection::open(image, 0).map(|heap| heap.object(9).map(<[u8]>::len)));
        });
    }
}
