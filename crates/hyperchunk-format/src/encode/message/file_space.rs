//! How the space of a file is managed. Source: specification §IV.A.2.x, "The File Space Info Message".

use crate::encode::Bytes;
use crate::parse::message::file_space::FileSpace;
use crate::{Error, Result};

const STRUCTURE: &str = "file space info message";
/// The flags that libraries give to this message: it is not shared; and who does not know it and changes the file marks it.
pub const FLAGS: u8 = 0x04 | 0x10;
/// Those for a file whose bytes must stay where they are: who does not know the message may read the file, not change it.
pub const STRICT: u8 = 0x04 | 0x08;

/// How libraries that change the file manage its space. What is free in it is not listed. The message stands in the
/// extension of the superblock, with [`FLAGS`] or [`STRICT`]; HDF5 1.8 does not know it, but reads the file.
///
/// # Errors
/// Invalid, if pages are smaller or larger than libraries allow.
pub fn encode(space: &FileSpace) -> Result<Vec<u8>> {
    const VERSION: u8 = 1;
    const AGGREGATES: u8 = 0;
    const PAGES: u8 = 1;
    const NONE: u8 = 3;
    const SMALLEST_PAGE: u64 = 512;
    const LARGEST_PAGE: u64 = 1 << 30;
    let FileSpace { paged, reused, page_size } = *space;
    if !(SMALLEST_PAGE..=LARGEST_PAGE).contains(&page_size) {
        let message = format!("pages of {page_size} bytes, not {SMALLEST_PAGE} to {LARGEST_PAGE}");
        return Err(Error::invalid(message).within(STRUCTURE));
    }
    let mut bytes = Bytes::new();
    bytes.u8(VERSION).u8(match (paged, reused) {
        (true, _) => PAGES,
        (false, true) => AGGREGATES,
        (false, false) => NONE,
    });
    // Free space does not persist; the smallest piece that would be kept; the page size.
    bytes.u8(0).u64(1).u64(page_size);
    // The end of pages that stays free; where the file ended before its lists of free space.
    bytes.u16(0).address(None);
    Ok(bytes.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::SIZES;
    use crate::{Cursor, parse};

    #[test]
    fn what_is_written_is_read() {
        for (paged, reused) in [(false, false), (false, true), (true, true)] {
            for page_size in [512, 4096, 1 << 20, 1 << 30] {
                let space = FileSpace { paged, reused, page_size };
                let bytes = encode(&space).unwrap();
                assert_eq!(bytes.len(), 29);
                let found = parse::message::file_space::parse(&mut Cursor::new(&bytes, "", 0), SIZES);
                assert_eq!(found.unwrap(), space);
            }
        }
        assert!(encode(&FileSpace { paged: true, reused: true, page_size: 511 }).is_err());
        assert!(encode(&FileSpace { paged: true, reused: true, page_size: (1 << 30) + 1 }).is_err());
    }
}
