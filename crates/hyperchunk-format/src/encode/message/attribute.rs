//! Attributes of version 3. Source: specification §IV.A.2.m, "The Attribute Message".

use super::{charset_number, dataspace, datatype, name_bytes, shared};
use crate::encode::{Bytes, LibVersion, fit};
use crate::model::Attribute;
use crate::parse::message::attribute::DATATYPE_SHARED;
use crate::{Error, Result};

const STRUCTURE: &str = "attribute message";

/// Encodes an attribute, without its creation order. The result may exceed the size limit of header messages;
/// such attributes are stored in a heap.
///
/// # Errors
/// Invalid if the size of the data does not match datatype and extent; Limit if a part is too large; the
/// errors of its datatype.
pub fn encode(attribute: &Attribute, oldest: LibVersion) -> Result<Vec<u8>> {
    encoded(attribute, oldest).map_err(|error| error.within(STRUCTURE))
}

fn encoded(attribute: &Attribute, oldest: LibVersion) -> Result<Vec<u8>> {
    const VERSION: u8 = 3;
    let name = name_bytes(&attribute.name, STRUCTURE)?;
    let size = attribute.dataspace.elements().and_then(|count| count.checked_mul(attribute.datatype.size));
    if size != Some(attribute.data.len() as u64) {
        let message =
            format!("{} bytes of data do not match {:?}", attribute.data.len(), attribute.dataspace);
        return Err(Error::invalid(message));
    }
    // Also encoded for a committed datatype, to check that it can be written.
    let datatype = datatype::encode(&attribute.datatype, oldest)?;
    let (flags, datatype) = match attribute.committed {
        Some(address) => (DATATYPE_SHARED, shared::committed(address)),
        None => (0, datatype),
    };
    let dataspace = dataspace::encode(&attribute.dataspace)?;
    let mut bytes = Bytes::with_capacity(attribute.data.len().saturating_add(128));
    bytes.u8(VERSION).u8(flags);
    bytes.u16(fit(name.len().saturating_add(1), "bytes of an attribute's name")?);
    bytes.u16(fit(datatype.len(), "bytes of an attribute's datatype")?);
    bytes.u16(fit(dataspace.len(), "bytes of an attribute's dataspace")?);
    bytes.u8(charset_number(attribute.charset)).raw(name).u8(0);
    bytes.raw(&datatype).raw(&dataspace).raw(&attribute.data);
    Ok(bytes.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::message::DATATYPE;
    use crate::encode::object_header::{self, HeaderOptions, Message};
    use crate::model::{ByteOrder, CharacterSet, Dataspace, Datatype};
    use crate::parse::testing::with_image;
    use crate::{Cursor, parse};

    fn attribute(name: &str, committed: Option<u64>, dataspace: Dataspace) -> Attribute {
        let charset = if name.is_ascii() { CharacterSet::Ascii } else { CharacterSet::Utf8 };
        let datatype = Datatype::integer(2, true, ByteOrder::Big);
        let data = vec![7; usize::try_from(dataspace.elements().unwrap() * 2).unwrap()];
        Attribute { name: name.into(), charset, datatype, committed, dataspace, data, creation_order: None }
    }

    #[test]
    fn what_is_written_is_read() {
        // A committed datatype at 0.
        let datatype =
            datatype::encode(&Datatype::integer(2, true, ByteOrder::Big), LibVersion::V18).unwrap();
        let message = Message { kind: DATATYPE, flags: 0, creation_order: None, data: datatype };
        let file = object_header::encode(&[message], &HeaderOptions::default()).unwrap();
        for name in ["a", "é", &"x".repeat(65_534)] {
            for committed in [None, Some(0)] {
                let simple = |dims: Vec<u64>| {
                    let max = dims.iter().copied().map(Some).collect();
                    Dataspace::Simple { dims, max }
                };
                for dataspace in [
                    Dataspace::Null,
                    Dataspace::Scalar,
                    simple(vec![3, 2]),
                    simple(vec![0]),
                    simple(vec![40_000]),
                ] {
                    let attribute = attribute(name, committed, dataspace);
                    let bytes = encode(&attribute, LibVersion::V18).unwrap();
                    let mut cursor = Cursor::new(&bytes, "", 0);
                    let found =
                        with_image(&file, |image| parse::message::attribute::parse(image, &mut cursor));
                    assert_eq!(found.unwrap(), attribute);
                    assert_eq!(cursor.left(), 0);
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_stored_is_not_written() {
        let scalar = |name: &str| attribute(name, None, Dataspace::Scalar);
        assert!(encode(&scalar(""), LibVersion::V18).is_err());
        assert!(encode(&scalar("a\0b"), LibVersion::V18).is_err());
        assert!(encode(&scalar(&"x".repeat(65_535)), LibVersion::V18).is_err());
        assert!(encode(&Attribute { data: vec![0; 3], ..scalar("a") }, LibVersion::V18).is_err());
        assert!(encode(&Attribute { dataspace: Dataspace::Null, ..scalar("a") }, LibVersion::V18).is_err());
    }
}
