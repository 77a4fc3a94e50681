//! File space management. Source: specification §IV.A.2.x, "The File Space Info Message".

use crate::{Cursor, Result, Sizes};

/// File space management of a writer. Readers may use it to guess the location of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSpace {
    /// True if metadata and raw data are in separate pages.
    pub paged: bool,
    /// True if freed space may be reused.
    pub reused: bool,
    /// True if the file stores which of its space is free, for the next program that writes to it.
    pub persists: bool,
    /// Page size in bytes.
    pub page_size: u64,
}

/// Reads a file space info message.
///
/// # Errors
/// Corrupt or Unsupported if it is damaged.
pub fn parse(cursor: &mut Cursor<'_>, sizes: Sizes) -> Result<FileSpace> {
    const PAGED: u8 = 1;
    const NONE: u8 = 3;
    const OLD_PERSISTS: u8 = 1;
    const OLD_NONE: u8 = 4;
    const OLD_PAGE_BYTES: u64 = 4096;
    let version = cursor.version(0..=1)?;
    if version == 0 {
        // Written by development versions before HDF5 1.10, which had other strategies.
        let strategy = cursor.u8()?;
        let _threshold = cursor.length(sizes)?;
        let (reused, persists) = (strategy != OLD_NONE, strategy == OLD_PERSISTS);
        return Ok(FileSpace { paged: false, reused, persists, page_size: OLD_PAGE_BYTES });
    }
    let strategy = cursor.u8()?;
    let persists = cursor.u8()? != 0;
    let _threshold = cursor.length(sizes)?;
    let page_size = cursor.length(sizes)?;
    Ok(FileSpace { paged: strategy == PAGED, reused: strategy != NONE, persists, page_size })
}

/// Returns the position in a message from which on it contains only addresses, mostly of free-space managers.
/// If all bytes from there on are 0xff, all addresses are undefined, and there are no managers.
///
/// # Errors
/// As [`parse`].
pub fn managers(message: &[u8], sizes: Sizes) -> Result<usize> {
    let mut cursor = Cursor::new(message, "file space info message", 0);
    parse(&mut cursor, sizes)?;
    if message.first() == Some(&1) {
        let _page_end_threshold = cursor.u16()?;
    }
    Ok(cursor.position())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let sizes = Sizes { address: 8, length: 4 };
        let bytes = [1, 1, 0, 1, 0, 0, 0, 0, 0, 64, 0, 9, 9];
        let space = parse(&mut Cursor::new(&bytes, "", 0), sizes).unwrap();
        assert_eq!(space, FileSpace { paged: true, reused: true, persists: false, page_size: 4 << 20 });
        assert!(parse(&mut Cursor::new(&bytes[..9], "", 0), sizes).is_err());
        assert!(parse(&mut Cursor::new(&[0, 1], "", 0), sizes).is_err());
        assert_eq!(managers(&[&bytes[..11], &[0; 40]].concat(), sizes).unwrap(), 13);
        let old = parse(&mut Cursor::new(&[0, 1, 1, 0, 0, 0], "", 0), sizes).unwrap();
        assert_eq!(old, FileSpace { paged: false, reused: true, persists: true, page_size: 4096 });
        assert_eq!(managers(&[0, 1, 1, 0, 0, 0, 7], sizes).unwrap(), 6);
        assert!(parse(&mut Cursor::new(&[2, 1, 1, 0, 0, 0], "", 0), sizes).is_err());
    }
}
