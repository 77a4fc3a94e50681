//! Object comments. Source: specification §IV.A.2.n, "Object Comment".

use crate::Result;
use crate::encode::Bytes;
use crate::model::Name;

/// Encodes a comment.
///
/// # Errors
/// Invalid if it is empty or has a NUL.
pub fn encode(comment: &Name) -> Result<Vec<u8>> {
    let mut bytes = Bytes::new();
    bytes.raw(super::name_bytes(comment, "comment message")?).u8(0);
    Ok(bytes.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cursor, parse};

    #[test]
    fn what_is_written_is_read() {
        let comment = Name::from("what a comment, é");
        let bytes = encode(&comment).unwrap();
        assert_eq!(parse::message::comment::parse(&Cursor::new(&bytes, "", 0)), comment);
        assert!(encode(&Name::from("a\0b")).is_err());
    }
}
