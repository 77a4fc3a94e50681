//! External data files of a dataset. Source: specification §IV.A.2.h, "The External Data Files Message".

use crate::model::ExternalFile;
use crate::parse::local_heap::LocalHeap;
use crate::{Cursor, Image, Result};

/// Reads the list of files, in order.
///
/// # Errors
/// Corrupt or Unsupported if the message or the heap with the names is damaged.
pub fn parse(image: Image<'_>, cursor: &mut Cursor<'_>) -> Result<Vec<ExternalFile>> {
    cursor.version(1..=1)?;
    cursor.skip(3)?;
    let (allocated, used) = (cursor.u16()?, cursor.u16()?);
    if allocated == 0 || used > allocated {
        return Err(cursor.error(format!("{used} files in {allocated} slots")));
    }
    let heap = cursor.address(image.sizes)?;
    let heap =
        heap.ok_or_else(|| cursor.error("the address of the heap with the file names is undefined".into()))?;
    let heap = LocalHeap::open(image, heap)?;
    let file = |_| {
        let name = heap.name(cursor.length(image.sizes)?)?;
        if name.is_empty() {
            return Err(cursor.error("a file without a name".into()));
        }
        let offset = cursor.length(image.sizes)?;
        let size = cursor.length_or_undefined(image.sizes)?;
        Ok(ExternalFile { name: name.into(), offset, size })
    };
    (0..used).map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::testing::{Maker, survives_damage, with_image};

    /// Creates the message at 0, then a heap with the names at 8 and 16.
    fn file() -> Vec<u8> {
        let message =
            Maker::default().u8s(&[1, 0, 0, 0, 2, 0, 2, 0]).u64s(&[64, 8, 0, 100, 16, 50, u64::MAX]);
        let heap = message.raw(b"HEAP\0\0\0\0").u64s(&[24, 1, 96]);
        heap.raw(b"\0\0\0\0\0\0\0\0a.raw\0\0\0b.raw\0\0\0").0
    }

    fn parsed(image: Image<'_>) -> Result<Vec<ExternalFile>> {
        parse(image, &mut Cursor::new(&image.read("", 0, 64)?, "", 0))
    }

    #[test]
    fn files_have_names() {
        let external = |name: &str, offset, size| ExternalFile { name: name.into(), offset, size };
        let expected = [external("a.raw", 0, Some(100)), external("b.raw", 50, None)];
        assert_eq!(with_image(&file(), parsed).unwrap(), expected);
    }

    #[test]
    fn damage_is_refused() {
        let check = |at: usize, byte: u8| {
            let mut file = file();
            file[at] = byte;
            assert!(with_image(&file, parsed).is_err(), "byte {at}");
        };
        check(0, 2);
        check(4, 1);
        check(8, 65);
        check(16, 24);
        check(16, 0);
        survives_damage(&file(), |image| drop(parsed(image)));
    }
}
