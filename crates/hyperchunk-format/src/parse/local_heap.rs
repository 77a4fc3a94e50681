//! Local heaps: names of old-style groups and of external files. Source: specification §III.D, "Disk Format:
//! Level 1D - Local Heaps".

use crate::{Cursor, Error, Image, Result};
use std::borrow::Cow;

const NAME: &str = "local heap";

/// Value of the free list's head if there is no free block.
const NO_FREE_BLOCK: u64 = 1;

/// Local heap with its data.
#[derive(Debug)]
pub struct LocalHeap<'a> {
    data: Cow<'a, [u8]>,
    /// Offset of the data in the file, for error messages.
    offset: u64,
}

impl<'a> LocalHeap<'a> {
    /// Opens the heap at `address`.
    ///
    /// # Errors
    /// Corrupt, Truncated, Unsupported; Need.
    pub fn open(image: Image<'a>, address: u64) -> Result<Self> {
        let sizes = image.sizes;
        let length = 8_u64.saturating_add(u64::from(sizes.length) * 2).saturating_add(sizes.address.into());
        let prefix = image.read(NAME, address, length)?;
        let mut cursor = image.cursor(&prefix, NAME, address);
        cursor.signature(b"HEAP")?;
        cursor.version(0..=0)?;
        cursor.skip(3)?;
        let size = cursor.length(sizes)?;
        let free = cursor.length_or_undefined(sizes)?;
        let data_address = cursor
            .address(sizes)?
            .ok_or_else(|| cursor.error("the address of the data segment is undefined".into()))?;
        let data = image.read(NAME, data_address, size)?;
        check_free_list(&image.cursor(&data, NAME, data_address), usize::from(sizes.length), free)?;
        Ok(Self { data, offset: image.offset(data_address)? })
    }

    /// Returns the size of the data segment in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.data.len() as u64
    }

    /// Returns the name at `offset`, without its NUL.
    ///
    /// # Errors
    /// Corrupt if it is outside the heap or has no NUL.
    pub fn name(&self, offset: u64) -> Result<&[u8]> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.data.get(offset..));
        let rest = rest.filter(|rest| !rest.is_empty()).ok_or_else(|| {
            let message = format!("a name at byte {offset} of {} bytes in the heap", self.data.len());
            Error::corrupt(message).within(NAME).at(self.offset)
        })?;
        Cursor::new(rest, NAME, self.offset.saturating_add(offset)).until_nul()
    }
}

/// Checks the free list: its blocks must be inside the data segment, and not more than fit in it, so that the
/// list has no cycle. The names in a heap with a damaged list cannot be trusted; libhdf5 refuses it, too.
fn check_free_list(data: &Cursor<'_>, width: usize, head: Option<u64>) -> Result<()> {
    let mut next = head.filter(|head| *head != NO_FREE_BLOCK);
    let most = data.left().checked_div(width.saturating_mul(2)).unwrap_or(0);
    let mut count = 0_usize;
    while let Some(at) = next {
        let mut block = data.clone();
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        count = count.saturating_add(1);
        if count > most || start > block.left() {
            return Err(data.error(format!("the list of free blocks is damaged: a block at byte {at}")));
        }
        block.skip(start)?;
        let left = block.left() as u64;
        let following = block.uint(width)?;
        let size = block.uint(width)?;
        if following == 0 || size > left {
            return Err(data.error(format!("the list of free blocks is damaged: a block of {size} bytes")));
        }
        next = Some(following).filter(|following| *following != NO_FREE_BLOCK);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::testing::{Maker, survives_damage, with_image};

    fn heap() -> Vec<u8> {
        let prefix = Maker::default().raw(b"HEAP").u8s(&[0; 4]).u64s(&[40, 16, 32]);
        // Two names and a free block of 24 bytes.
        prefix.raw(b"\0\0\0\0\0\0\0\0group\0\0\0").u64s(&[1, 24, 0]).0
    }

    #[test]
    fn names_are_found() {
        let name =
            |offset| with_image(&heap(), |image| LocalHeap::open(image, 0)?.name(offset).map(<[u8]>::to_vec));
        assert_eq!(name(0).unwrap(), b"");
        assert_eq!(name(8).unwrap(), b"group");
        assert_eq!(name(10).unwrap(), b"oup");
        assert!(name(40).unwrap_err().to_string().contains("a name at byte 40 of 40"));
        assert!(name(u64::MAX).is_err());
    }

    #[test]
    fn damage_is_refused() {
        let check = |at: usize, byte: u8, message: &str| {
            let mut file = heap();
            file[at] = byte;
            let error = with_image(&file, |image| LocalHeap::open(image, 0).map(drop)).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        };
        check(3, b'Q', "signature `HEAP` expected");
        check(4, 1, "version 1");
        check(8, 41, "the file ends");
        check(16, 41, "free blocks is damaged");
        check(16, 33, "bytes are needed");
        // A free block that is its own successor.
        check(48, 16, "free blocks is damaged");
        check(56, 25, "free blocks is damaged");
        survives_damage(&heap(), |image| {
            drop(LocalHeap::open(image, 0).map(|heap| heap.name(8).map(<[u8]>::len)))
        });
    }
}
