//! Attributes as inputs of functions: code shared by the readers.

use crate::datatype::Datatype;
use crate::error::{Result, fail};

/// Minimum size of an input's strings in bytes, so that the attribute's value may become longer.
const MIN_STRING_BYTES: usize = 256;

/// Returns the datatype of an attribute with these strings, with room for longer ones.
///
/// # Errors
/// `Unsupported` when they are too long.
pub fn text_datatype(texts: &[Vec<u8>]) -> Result<Datatype> {
    let longest = texts.iter().map(Vec::len).max().unwrap_or(0);
    Datatype::text((longest + 1).next_multiple_of(64).max(MIN_STRING_BYTES))
}

/// Writes strings one after another, each padded with zeros to `room` bytes, with at least one zero.
///
/// # Errors
/// `Invalid` when one is too long, or their number has changed.
pub fn place_texts(texts: &[Vec<u8>], room: usize, to: &mut [u8]) -> Result<()> {
    if texts.len().checked_mul(room) != Some(to.len()) {
        fail!(Invalid, "the number of its strings has changed to {}; attach the function again", texts.len())
    }
    for (text, to) in texts.iter().zip(to.chunks_exact_mut(room.max(1))) {
        let Some((text_room, end)) = to.split_at_mut_checked(text.len()).filter(|(_, end)| !end.is_empty())
        else {
            fail!(
                Invalid,
                "a string has {} bytes now, and the function was attached with room for {}; attach it again",
                text.len(),
                room.saturating_sub(1)
            )
        };
        text_room.copy_from_slice(text);
        end.fill(0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_have_room_and_an_end() {
        assert_eq!(text_datatype(&[b"K".to_vec()]).unwrap(), Datatype::Text(256));
        assert_eq!(text_datatype(&[vec![b'a'; 256]]).unwrap(), Datatype::Text(320));
        let mut to = [1; 6];
        place_texts(&[b"ab".to_vec(), b"".to_vec()], 3, &mut to).unwrap();
        assert_eq!(&to, b"ab\0\0\0\0");
        assert!(place_texts(&[b"abc".to_vec(), b"".to_vec()], 3, &mut to).is_err());
        assert!(place_texts(&[b"".to_vec()], 3, &mut to).is_err());
    }
}
