//! Identity of a worker's program: the build id, which the linker derives from the content.

use std::io::Read as _;
use std::path::Path;

/// Number of bytes searched: the program's headers and notes are at its start.
const MAX_HEADER_BYTES: u64 = 64 << 10;
const LOADED_NOTES: u32 = 4;
const BUILD_ID: u32 = 3;

/// Returns the build id of a program, or `None` if it has none.
pub(super) fn build_id(program: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(program).ok()?.take(MAX_HEADER_BYTES).read_to_end(&mut bytes).ok()?;
    find(&bytes).map(<[u8]>::to_vec)
}

/// Searches the notes of a 64-bit little-endian ELF file.
fn find(file: &[u8]) -> Option<&[u8]> {
    file.strip_prefix(b"\x7fELF\x02\x01")?;
    let (table, size, count) = (long(file, 0x20)?, half(file, 0x36)?, half(file, 0x38)?);
    for n in 0..count {
        let row = file.get(table.checked_add(n.checked_mul(size)?)?..)?;
        if word(row, 0)? != LOADED_NOTES {
            continue;
        }
        let (at, length) = (long(row, 8)?, long(row, 0x20)?);
        let Some(notes) = file.get(at..).and_then(|rest| rest.get(..length)) else { continue };
        if let Some(id) = note(notes) {
            return Some(id);
        }
    }
    None
}

fn note(mut notes: &[u8]) -> Option<&[u8]> {
    loop {
        let (name, content) =
            (usize::try_from(word(notes, 0)?).ok()?, usize::try_from(word(notes, 4)?).ok()?);
        let start = name.checked_next_multiple_of(4)?.checked_add(12)?;
        if word(notes, 8)? == BUILD_ID && notes.get(12..)?.starts_with(b"GNU\0") && content >= 8 {
            return notes.get(start..)?.get(..content);
        }
        notes = notes.get(start.checked_add(content.checked_next_multiple_of(4)?)?..)?;
    }
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk().map(|b| usize::from(u16::from_le_bytes(*b)))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk().and_then(|b| usize::try_from(u64::from_le_bytes(*b)).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a file with one program header and two notes.
    fn program() -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01".to_vec();
        file.resize(64, 0);
        file[0x20] = 64;
        (file[0x36], file[0x38]) = (56, 1);
        file.extend(4u32.to_le_bytes());
        file.resize(128, 0);
        file[64 + 8] = 128;
        file[64 + 0x20] = 60;
        for (kind, content) in [(1u32, &[9u8; 4][..]), (3, &[7; 20])] {
            file.extend(
                [4u32, u32::try_from(content.len()).unwrap(), kind].iter().flat_map(|w| w.to_le_bytes()),
            );
            file.extend(b"GNU\0");
            file.extend(content);
        }
        file.resize(200, 0);
        file
    }

    #[test]
    fn the_number_is_found_and_damage_does_no_harm() {
        let file = program();
        assert_eq!(find(&file), Some(&[7u8; 20][..]));
        for at in 0..file.len() {
            assert!(find(&file[..at]).is_none_or(|id| id == [7; 20]));
            for value in [0, 1, 0xff] {
                let mut damaged = file.clone();
                damaged[at] = value;
                let _ = find(&damaged);
            }
        }
        assert_eq!(build_id(Path::new("/nothing")), None);
    }
}
