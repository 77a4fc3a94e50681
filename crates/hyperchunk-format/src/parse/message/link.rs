//! Links of new-style groups. Source: specification §IV.A.2.g, "The Link Message"; HDF5 2.x `H5Lexternal.c`
//! for the value of external links.

use crate::model::{CharacterSet, Link, LinkTarget, Name};
use crate::{Cursor, Result, Sizes};

const HARD: u8 = 0;
const SOFT: u8 = 1;
const EXTERNAL: u8 = 64;

/// Reads a link.
///
/// # Errors
/// Corrupt or Unsupported if it is damaged.
pub fn parse(cursor: &mut Cursor<'_>, sizes: Sizes) -> Result<Link> {
    const KNOWN_FLAGS: u8 = 0x1f;
    cursor.version(1..=1)?;
    let flags = cursor.u8()?;
    if flags & !KNOWN_FLAGS != 0 {
        return Err(cursor.error(format!("unknown flags {flags:#04x}")));
    }
    let class = if flags & 0x08 != 0 { cursor.u8()? } else { HARD };
    let creation_order = if flags & 0x04 != 0 { Some(i64::from_le_bytes(cursor.array()?)) } else { None };
    let charset = if flags & 0x10 != 0 { charset(cursor)? } else { CharacterSet::Ascii };
    let length = cursor.uint(1 << (flags & 0x03))?;
    let name = take(cursor, length)?;
    if name.is_empty() {
        return Err(cursor.error("a link without a name".into()));
    }
    let target = target(cursor, sizes, class)?;
    Ok(Link { name: until_nul(name), charset, creation_order, target })
}

fn charset(cursor: &mut Cursor<'_>) -> Result<CharacterSet> {
    match cursor.u8()? {
        0 => Ok(CharacterSet::Ascii),
        1 => Ok(CharacterSet::Utf8),
        other => Err(cursor.error(format!("unknown character set {other} of a name"))),
    }
}

fn take<'a>(cursor: &mut Cursor<'a>, length: u64) -> Result<&'a [u8]> {
    cursor.take(usize::try_from(length).unwrap_or(usize::MAX))
}

/// Ends a name at its first NUL, regardless of its length field, as libraries do.
fn until_nul(bytes: &[u8]) -> Name {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default().into()
}

fn target(cursor: &mut Cursor<'_>, sizes: Sizes, class: u8) -> Result<LinkTarget> {
    if class == HARD {
        // An undefined address is an error for following the link, not for listing it.
        return cursor.address(sizes).map(|address| LinkTarget::Hard(address.unwrap_or(u64::MAX)));
    }
    let length = cursor.u16()?;
    match class {
        SOFT if length > 0 => Ok(LinkTarget::Soft(until_nul(cursor.take(length.into())?))),
        EXTERNAL if length >= 3 => Ok(external(cursor.take(length.into())?)),
        EXTERNAL.. if class != EXTERNAL => {
            Ok(LinkTarget::User { class, data: cursor.take(length.into())?.to_vec() })
        }
        _ => Err(cursor.error(format!("an invalid link of type {class} with a value of {length} bytes"))),
    }
}

/// Reads the value of an external link: version and flags in one byte, the file's name, the object's path. A
/// damaged value is listed as a user-defined link, which cannot be followed.
fn external(value: &[u8]) -> LinkTarget {
    let mut parts = value.strip_prefix(&[0]).unwrap_or_default().splitn(3, |byte| *byte == 0);
    match (parts.next(), parts.next()) {
        (Some(file), Some(path)) if !file.is_empty() => {
            LinkTarget::External { file: file.into(), path: path.into() }
        }
        _ => LinkTarget::User { class: EXTERNAL, data: value.to_vec() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Option<(&str, LinkTarget)>) {
        let link = parse(&mut Cursor::new(bytes, "", 0), Sizes { address: 4, length: 4 }).ok();
        let expected = expected.map(|(name, target)| (Name::from(name), target));
        assert_eq!(link.map(|link| (link.name, link.target)), expected, "{bytes:?}");
    }

    #[test]
    fn targets() {
        check(b"\x01\0\x01a\x07\0\0\0", Some(("a", LinkTarget::Hard(7))));
        check(b"\x01\0\x01a\xff\xff\xff\xff", Some(("a", LinkTarget::Hard(u64::MAX))));
        check(b"\x01\x08\x01\x01a\x02\0/b", Some(("a", LinkTarget::Soft("/b".into()))));
        let external = LinkTarget::External { file: "f.h5".into(), path: "/b".into() };
        check(b"\x01\x08\x40\x01a\x09\0\0f.h5\0/b\0", Some(("a", external)));
        let damaged = LinkTarget::User { class: 64, data: b"\x10f\0b".to_vec() };
        check(b"\x01\x08\x40\x01a\x04\0\x10f\0b", Some(("a", damaged)));
        let user = LinkTarget::User { class: 187, data: vec![9] };
        check(b"\x01\x08\xbb\x01a\x01\09", Some(("a", LinkTarget::User { class: 187, data: b"9".to_vec() })));
        check(b"\x01\x08\xbb\x01a\x01\0\x09", Some(("a", user)));
    }

    #[test]
    fn fields() {
        let bytes = b"\x01\x15\x05\0\0\0\0\0\0\0\x01\x02\0\xc3\xa9\x07\0\0\0";
        let link = parse(&mut Cursor::new(bytes, "", 0), Sizes { address: 4, length: 4 }).unwrap();
        let expected = Link {
            name: "é".into(),
            charset: CharacterSet::Utf8,
            creation_order: Some(5),
            target: LinkTarget::Hard(7),
        };
        assert_eq!(link, expected);
        check(b"\x01\x03\x01\0\0\0\0\0\0\0a\x07\0\0\0", Some(("a", LinkTarget::Hard(7))));
        check(b"\x01\0\x03a\0b\x07\0\0\0", Some(("a", LinkTarget::Hard(7))));
    }

    #[test]
    fn damage() {
        check(b"", None);
        check(b"\x02\0\x01a\x07\0\0\0", None);
        check(b"\x01\x20\x01a\x07\0\0\0", None);
        check(b"\x01\0\0\x07\0\0\0", None);
        check(b"\x01\0\x01a\x07\0\0", None);
        check(b"\x01\x03\xff\xff\xff\xff\xff\xff\xff\xff", None);
        check(b"\x01\x08\x01\x01a\0\0", None);
        check(b"\x01\x08\x02\x01a\x01\0b", None);
        check(b"\x01\x08\x40\x01a\x02\0\0\0", None);
        check(b"\x01\x10\x02\x01a\x07\0\0\0", None);
    }
}
