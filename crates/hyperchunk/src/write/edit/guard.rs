//! Guard of a commit: a superblock that libhdf5 refuses, while the commit is written to the file.

use hyperchunk_format::checksum::lookup3;
use hyperchunk_format::parse::superblock::GUARDED_VERSION;

/// First bytes of a superblock.
const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";
/// Offset of the version in a superblock.
const VERSION_AT: usize = 8;
/// Offset of the status flags in a superblock of version 3.
const FLAGS_AT: usize = 11;
/// Flag of a file that a program is writing.
const WRITE_ACCESS: u8 = 1;
/// Offset of the checksum in a superblock of version 3 with addresses of 8 bytes.
const CHECKSUM_AT: usize = 44;
/// Returns the guarded superblock: with the flag for write access in version 3; with a version that does not
/// exist for older ones, which have no such flag. `None` if the bytes are not a superblock.
pub(super) fn guarded(superblock: &[u8]) -> Option<Vec<u8>> {
    if !superblock.starts_with(SIGNATURE) {
        return None;
    }
    let mut bytes = superblock.to_vec();
    let version = bytes.get_mut(VERSION_AT)?;
    if *version < 3 {
        *version = GUARDED_VERSION;
        return Some(bytes);
    }
    *bytes.get_mut(FLAGS_AT)? |= WRITE_ACCESS;
    let sum = lookup3(bytes.get(..CHECKSUM_AT)?).to_le_bytes();
    bytes.get_mut(CHECKSUM_AT..CHECKSUM_AT + 4)?.copy_from_slice(&sum);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_superblocks_are_guarded() {
        assert_eq!(guarded(b"no superblock, but a long text that is not one of them"), None);
        assert_eq!(guarded(SIGNATURE), None);
        let mut bytes = SIGNATURE.to_vec();
        bytes.resize(48, 0);
        let old = guarded(&bytes).unwrap();
        assert_eq!((old[VERSION_AT], &old[9..]), (GUARDED_VERSION, &bytes[9..]));
        bytes[VERSION_AT] = 3;
        let new = guarded(&bytes).unwrap();
        assert_eq!(
            (new[FLAGS_AT], &new[CHECKSUM_AT..]),
            (1, &lookup3(&new[..CHECKSUM_AT]).to_le_bytes()[..])
        );
        assert_eq!(guarded(&bytes[..40]), None);
    }
}
