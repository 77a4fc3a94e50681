//! Links of new-style groups. Source: specification §IV.A.2.g, "The Link Message"; HDF5 2.x `H5Lexternal.c`
//! for the value of external links.

use super::{charset_number, name_bytes};
use crate::encode::{Bytes, UNDEFINED, fit};
use crate::model::{CharacterSet, Link, LinkTarget};
use crate::{Error, Result};

const STRUCTURE: &str = "link message";
const SOFT: u8 = 1;
const EXTERNAL: u8 = 64;

/// Encodes a link.
///
/// # Errors
/// Invalid if readers would misinterpret it; Limit if a path is too long.
pub fn encode(link: &Link) -> Result<Vec<u8>> {
    const VERSION: u8 = 1;
    const HAS_ORDER: u8 = 0x04;
    const HAS_CLASS: u8 = 0x08;
    const HAS_CHARSET: u8 = 0x10;
    let name = name_bytes(&link.name, STRUCTURE)?;
    let power: u8 = match name.len() {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        _ => 2,
    };
    let (class, target) = target(&link.target)?;
    let mut flags = power;
    let mut fields = Bytes::new();
    if let Some(class) = class {
        flags |= HAS_CLASS;
        fields.u8(class);
    }
    if let Some(order) = link.creation_order {
        if order < 0 {
            return Err(Error::invalid(format!("a link with creation order {order}")).within(STRUCTURE));
        }
        flags |= HAS_ORDER;
        fields.u64(order.cast_unsigned());
    }
    if link.charset != CharacterSet::Ascii {
        flags |= HAS_CHARSET;
        fields.u8(charset_number(link.charset));
    }
    let mut bytes = Bytes::new();
    bytes.u8(VERSION).u8(flags).raw(fields.as_slice());
    bytes.uint(name.len() as u64, 1 << power)?.raw(name).raw(target.as_slice());
    Ok(bytes.into_vec())
}

/// Encodes the target; also returns the class, except for hard links.
fn target(target: &LinkTarget) -> Result<(Option<u8>, Bytes)> {
    let mut bytes = Bytes::new();
    let class = match target {
        LinkTarget::Hard(UNDEFINED) => {
            return Err(Error::invalid("a hard link to an undefined address").within(STRUCTURE));
        }
        LinkTarget::Hard(address) => {
            bytes.u64(*address);
            None
        }
        LinkTarget::Soft(path) => {
            sized(&mut bytes, name_bytes(path, STRUCTURE)?)?;
            Some(SOFT)
        }
        LinkTarget::External { file, path } => {
            let parts = [&[0], name_bytes(file, STRUCTURE)?, &[0], name_bytes(path, STRUCTURE)?, &[0]];
            sized(&mut bytes, &parts.concat())?;
            Some(EXTERNAL)
        }
        LinkTarget::User { class, data } if *class > EXTERNAL => {
            sized(&mut bytes, data)?;
            Some(*class)
        }
        LinkTarget::User { class, .. } => {
            return Err(Error::invalid(format!("a user-defined link of class {class}, expected 65 to 255"))
                .within(STRUCTURE));
        }
    };
    Ok((class, bytes))
}

/// Appends a value preceded by its length.
fn sized(bytes: &mut Bytes, value: &[u8]) -> Result<()> {
    let length = fit(value.len(), "bytes of a link's value").map_err(|error| error.within(STRUCTURE))?;
    bytes.u16(length).raw(value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::SIZES;
    use crate::{Cursor, parse};

    fn link(name: &str, order: Option<i64>, target: LinkTarget) -> Link {
        let charset = if name.is_ascii() { CharacterSet::Ascii } else { CharacterSet::Utf8 };
        Link { name: name.into(), charset, creation_order: order, target }
    }

    fn external(file: &str, path: &str) -> LinkTarget {
        LinkTarget::External { file: file.into(), path: path.into() }
    }

    #[test]
    fn what_is_written_is_read() {
        for length in [1, 255, 256, 65_535, 65_536] {
            for letter in ["a", "é"] {
                for order in [None, Some(0), Some(i64::MAX)] {
                    for target in [
                        LinkTarget::Hard(0),
                        LinkTarget::Hard(u64::MAX - 1),
                        LinkTarget::Soft("/a/b".into()),
                        LinkTarget::Soft("x".repeat(65_535).as_str().into()),
                        external("f.h5", "/a"),
                        LinkTarget::User { class: 65, data: vec![] },
                        LinkTarget::User { class: 255, data: vec![0; 9] },
                    ] {
                        let link = link(&letter.repeat(length), order, target);
                        let bytes = encode(&link).unwrap();
                        let mut cursor = Cursor::new(&bytes, "", 0);
                        assert_eq!(parse::message::link::parse(&mut cursor, SIZES).unwrap(), link);
                        assert_eq!(cursor.left(), 0);
                    }
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_stored_is_not_written() {
        let refused = |name: &str, order, target| assert!(encode(&link(name, order, target)).is_err());
        refused("", None, LinkTarget::Hard(0));
        refused("a\0b", None, LinkTarget::Hard(0));
        refused("a", Some(-1), LinkTarget::Hard(0));
        refused("a", None, LinkTarget::Hard(u64::MAX));
        refused("a", None, LinkTarget::Soft("".into()));
        refused("a", None, LinkTarget::Soft("x".repeat(65_536).as_str().into()));
        refused("a", None, external("", "/a"));
        refused("a", None, external("a\0b", "/a"));
        refused("a", None, external("f", ""));
        refused("a", None, LinkTarget::User { class: 64, data: vec![0, 0, 0] });
    }
}
