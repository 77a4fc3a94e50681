//! File space management. Source: specification §IV.A.2.x, "The File Space Info Message".

use crate::{Cursor, Result, Sizes};

/// File space management of a writer. Readers may use it to guess the location of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSpace {
    /// True if metadata and raw data are in separate pages.
    pub paged: bool,
    /// True if freed space may be reused.
    pub reused: bool,
    /// True if free space is listed in the file from one program to the next.
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
    cursor.version(1..=1)?;
    let strategy = cursor.u8()?;
    let persists = cursor.u8()? != 0;
    let _threshold = cursor.length(sizes)?;
    let page_size = cursor.length(sizes)?;
    Ok(FileSpace { paged: strategy == PAGED, reused: strategy != NONE, persists, page_size })
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
    }
}
