//! File space management. Source: specification §IV.A.2.x, "The File Space Info Message".

use crate::encode::Bytes;
use crate::parse::message::file_space::FileSpace;
use crate::{Error, Result};

const STRUCTURE: &str = "file space info message";
/// Flags that libraries give to this message: not shared; marked by writers that do not know it.
pub const FLAGS: u8 = 0x04 | 0x10;
/// Flags for a file whose bytes must not move: readers that do not know the message may open the file,
/// writers may not.
pub const STRICT: u8 = 0x04 | 0x08;

/// Encodes the strategy by which libraries that change the file manage its space. The list of free space is
/// not stored. The message belongs in the superblock extension, with [`FLAGS`] or [`STRICT`]; HDF5 1.8 does
/// not know it, but reads the file.
///
/// # Errors
/// Invalid if the page size is outside the range that libraries allow.
pub fn encode(space: &FileSpace) -> Result<Vec<u8>> {
    const VERSION: u8 = 1;
    const AGGREGATES: u8 = 0;
    const PAGES: u8 = 1;
    const NONE: u8 = 3;
    const MIN_PAGE_BYTES: u64 = 512;
    const MAX_PAGE_BYTES: u64 = 1 << 30;
    let FileSpace { paged, reused, page_size, .. } = *space;
    if !(MIN_PAGE_BYTES..=MAX_PAGE_BYTES).contains(&page_size) {
        let message = format!("pages of {page_size} bytes, expected {MIN_PAGE_BYTES} to {MAX_PAGE_BYTES}");
        return Err(Error::invalid(message).within(STRUCTURE));
    }
    let mut bytes = Bytes::new();
    bytes.u8(VERSION).u8(match (paged, reused) {
        (true, _) => PAGES,
        (false, true) => AGGREGATES,
        (false, false) => NONE,
    });
    // Free space does not persist; minimum tracked free-space section; page size.
    bytes.u8(0).u64(1).u64(page_size);
    // Page-end metadata threshold; end of the file before the free-space managers.
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
                let space = FileSpace { paged, reused, persists: false, page_size };
                let bytes = encode(&space).unwrap();
                assert_eq!(bytes.len(), 29);
                let found = parse::message::file_space::parse(&mut Cursor::new(&bytes, "", 0), SIZES);
                assert_eq!(found.unwrap(), space);
            }
        }
        assert!(encode(&FileSpace { paged: true, reused: true, persists: false, page_size: 511 }).is_err());
        assert!(
            encode(&FileSpace { paged: true, reused: true, persists: false, page_size: (1 << 30) + 1 })
                .is_err()
        );
    }
}
