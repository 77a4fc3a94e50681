//! Reference counts: numbers of hard links. Source: specification §IV.A.2.w, "The Object Reference Count
//! Message".

use crate::encode::Bytes;

/// Encodes the number of hard links to an object. An object without this message has one.
#[must_use]
pub fn encode(count: u32) -> Vec<u8> {
    const VERSION: u8 = 0;
    let mut bytes = Bytes::with_capacity(5);
    bytes.u8(VERSION).u32(count);
    bytes.into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::message::REFERENCE_COUNT;
    use crate::encode::object_header::{self, HeaderOptions, Message};
    use crate::parse;
    use crate::parse::testing::with_image;

    #[test]
    fn what_is_written_is_read() {
        let message = Message { kind: REFERENCE_COUNT, flags: 0, creation_order: None, data: encode(70_000) };
        let file = object_header::encode(&[message], &HeaderOptions::default()).unwrap();
        let header = with_image(&file, |image| parse::object_header::parse(image, 0)).unwrap();
        assert_eq!(header.reference_count, 70_000);
    }
}
