//! Superblock. Source: specification §II.A, versions 2 and 3.

use super::{Bytes, SIZES};
use crate::checksum::lookup3;
use crate::{Error, Result};

/// Size of a superblock in bytes.
pub const SUPERBLOCK_BYTES: u64 = 48;

const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";

/// Encodes a superblock of version 2 (for HDF5 1.8 and later) or 3 (for 1.10 and later; the version required
/// for SWMR access). Arguments: the root group's object header, the end of the file, and the object header of
/// the extension. It is placed at `base`, from which addresses count. The consistency flags are clear: no
/// writer has the file open.
///
/// # Errors
/// Unsupported for other versions; Invalid if an object header is outside the file; Limit if the file would
/// end beyond 2⁶⁴ - 1.
pub fn encode(version: u8, root: u64, end: u64, extension: Option<u64>, base: u64) -> Result<Vec<u8>> {
    if !matches!(version, 2 | 3) {
        return Err(Error::unsupported(format!("a superblock of version {version} cannot be written")));
    }
    for (what, address) in [("root group", Some(root)), ("superblock extension", extension)] {
        if let Some(address) = address.filter(|address| !(SUPERBLOCK_BYTES..end).contains(address)) {
            let message = format!("the {what} at {address:#x} is outside a file of {end} bytes");
            return Err(Error::invalid(message).within("superblock"));
        }
    }
    let Some(whole) = end.checked_add(base) else {
        return Err(Error::limit(format!(
            "a file of {end} bytes at base address {base:#x} ends beyond 2^64 - 1"
        ))
        .within("superblock"));
    };
    let mut bytes = Bytes::with_capacity(48);
    bytes.raw(SIGNATURE).u8(version).u8(SIZES.address).u8(SIZES.length).u8(0);
    bytes.u64(base).address(extension).u64(whole).u64(root).checksum();
    Ok(bytes.into_vec())
}

/// Marks a superblock of version 3 as open in a writer that admits concurrent readers (SWMR).
///
/// # Errors
/// Invalid for other versions.
pub fn mark_swmr(superblock: &mut [u8]) -> Result<()> {
    let wrong = || Error::invalid("SWMR access needs a superblock of version 3").within("superblock");
    let (covered, sum) = superblock.split_at_mut_checked(44).ok_or_else(wrong)?;
    match covered.get_mut(8..12) {
        Some([3, _, _, flags]) => *flags = 0b101,
        _ => return Err(wrong()),
    }
    let sum = sum.get_mut(..4).ok_or_else(wrong)?;
    sum.copy_from_slice(&lookup3(covered).to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fuel, Limits, parse};

    #[test]
    fn what_is_written_is_read() {
        for (version, extension) in [(2, None), (3, None), (3, Some(500))] {
            let mut file = encode(version, 48, 1000, extension, 0).unwrap();
            assert_eq!(file.len() as u64, SUPERBLOCK_BYTES);
            file.resize(1000, 0);
            // The extension is parsed, too.
            file[500..516].copy_from_slice(b"OHDR\x02\0\x04\0\0\0\0\0\0\0\0\0");
            let sum = lookup3(&file[500..511]);
            file[511..515].copy_from_slice(&sum.to_le_bytes());
            let limits = Limits::default();
            let found = parse::superblock::parse(&file[..].as_ref(), &limits, &Fuel::new(&limits)).unwrap();
            assert_eq!((found.version, found.root, found.end), (version, 48, 1000));
            assert_eq!((found.extension, found.base, found.flags), (extension, 0, 0));
            parse::superblock::check_flags(&found).unwrap();
        }
    }

    #[test]
    fn marks_of_a_swmr_writer() {
        let mut file = encode(3, 48, 1000, None, 0).unwrap();
        mark_swmr(&mut file).unwrap();
        file.resize(1000, 0);
        let limits = Limits::default();
        let found = parse::superblock::parse(&file[..].as_ref(), &limits, &Fuel::new(&limits)).unwrap();
        assert!(parse::superblock::is_swmr(&found) && parse::superblock::is_marked(&found));
        assert!(mark_swmr(&mut encode(2, 48, 1000, None, 0).unwrap()).is_err());
        assert!(mark_swmr(&mut file[..40]).is_err());
    }

    #[test]
    fn what_readers_refuse_is_not_written() {
        assert!(encode(1, 48, 1000, None, 0).is_err());
        assert!(encode(2, 0, 1000, None, 0).is_err());
        assert!(encode(2, 1000, 1000, None, 0).is_err());
        assert!(encode(2, 48, 1000, Some(u64::MAX), 0).is_err());
    }
}
