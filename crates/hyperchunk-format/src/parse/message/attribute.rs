//! Attributes of versions 1 to 3. Source: specification §IV.A.2.m, "The Attribute Message".

use super::{DATASPACE, DATATYPE, dataspace, datatype, shared};
use crate::model::{Attribute, CharacterSet, Name};
use crate::{Cursor, Error, Image, Result};

pub(crate) const DATATYPE_SHARED: u8 = 0x01;
const DATASPACE_SHARED: u8 = 0x02;

/// Fields before an attribute's datatype.
struct Prefix {
    name: Name,
    charset: CharacterSet,
    version: u8,
    flags: u8,
    datatype_size: usize,
    dataspace_size: usize,
}

/// Reads the name only.
///
/// # Errors
/// Corrupt or Unsupported if the name or a field before it is damaged.
pub fn parse_name(cursor: &mut Cursor<'_>) -> Result<Name> {
    prefix(cursor).map(|prefix| prefix.name)
}

/// Reads an attribute. Its creation order is not part of the message.
///
/// # Errors
/// Corrupt or Unsupported if it is damaged.
pub fn parse(image: Image<'_>, cursor: &mut Cursor<'_>) -> Result<Attribute> {
    let Prefix { name, charset, version, flags, datatype_size, dataspace_size } = prefix(cursor)?;
    let (mut datatype, mut committed) = (part(cursor, version, datatype_size, "datatype message")?, None);
    let datatype = if flags & DATATYPE_SHARED == 0 {
        datatype::parse(&mut datatype, image.limits)?
    } else {
        let body = shared::resolve_data(image, DATATYPE, &mut datatype)?;
        committed = body.committed;
        datatype::parse(&mut body.cursor("datatype message"), image.limits)?
    };
    let mut dataspace = part(cursor, version, dataspace_size, "dataspace message")?;
    let dataspace = if flags & DATASPACE_SHARED == 0 {
        dataspace::parse(&mut dataspace, image.sizes)?
    } else {
        let body = shared::resolve_data(image, DATASPACE, &mut dataspace)?;
        dataspace::parse(&mut body.cursor("dataspace message"), image.sizes)?
    };
    let size = dataspace.elements().and_then(|elements| elements.checked_mul(datatype.size));
    let size = size.and_then(|size| usize::try_from(size).ok());
    let size = size.ok_or_else(|| {
        cursor.error(format!("an extent of {:?}, larger than the address space", dataspace.dims()))
    })?;
    let data = cursor.take(size)?.to_vec();
    Ok(Attribute { name, charset, datatype, committed, dataspace, data, creation_order: None })
}

fn prefix(cursor: &mut Cursor<'_>) -> Result<Prefix> {
    let version = cursor.version(1..=3)?;
    let mut flags = cursor.u8()?;
    if version == 1 {
        flags = 0;
    } else if flags & !(DATATYPE_SHARED | DATASPACE_SHARED) != 0 {
        return Err(cursor.error(format!("unknown flags {flags:#04x}")));
    }
    let name_size = usize::from(cursor.u16()?);
    let datatype_size = cursor.u16()?.into();
    let dataspace_size = cursor.u16()?.into();
    let utf8 = version == 3 && cursor.u8()? == 1;
    let charset = if utf8 { CharacterSet::Utf8 } else { CharacterSet::Ascii };
    // Libraries set the final NUL of the name themselves, so the byte in its place is not checked.
    let name = part(cursor, version, name_size, "attribute's name")?.rest();
    match name.split_last() {
        Some((_, name)) if !name.is_empty() && !name.contains(&0) => {
            Ok(Prefix { name: name.into(), charset, version, flags, datatype_size, dataspace_size })
        }
        _ => Err(cursor.error(format!("an invalid name `{}` of {name_size} bytes", name.escape_ascii()))),
    }
}

/// Reads a part of the attribute, which version 1 pads to a multiple of 8 bytes.
fn part<'a>(
    cursor: &mut Cursor<'a>,
    version: u8,
    size: usize,
    structure: &'static str,
) -> Result<Cursor<'a>> {
    let offset = cursor.offset();
    let bytes = cursor.take(size)?;
    if version == 1 {
        let padded = size
            .checked_next_multiple_of(8)
            .ok_or_else(|| Error::corrupt("an attribute larger than the address space"))?;
        cursor.skip(padded.saturating_sub(size))?;
    }
    Ok(Cursor::new(bytes, structure, offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ByteOrder, Dataspace, Datatype};
    use crate::parse::testing::{Maker, with_image};

    const I16: &[u8] = &[0x10, 0x08, 0, 0, 2, 0, 0, 0, 0, 0, 16, 0];
    const TWO: &[u8] = &[2, 1, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0];

    fn message(version: u8, between: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        let sizes: Vec<u16> = parts[..3].iter().map(|part| u16::try_from(part.len()).unwrap()).collect();
        let start = Maker::default().u8s(&[version, 0]).u16s(&sizes).u8s(between);
        parts.iter().fold(start, |maker, part| maker.raw(part)).0
    }

    fn parsed(bytes: &[u8]) -> Result<Attribute> {
        with_image(bytes, |image| parse(image, &mut Cursor::new(bytes, "", 0)))
    }

    fn check(bytes: &[u8], charset: CharacterSet) {
        let expected = Attribute {
            name: "é".into(),
            charset,
            datatype: Datatype::integer(2, true, ByteOrder::Little),
            committed: None,
            dataspace: Dataspace::Simple { dims: vec![2], max: vec![Some(2)] },
            data: vec![1, 2, 3, 4],
            creation_order: None,
        };
        assert_eq!(parsed(bytes).unwrap(), expected);
        assert_eq!(parse_name(&mut Cursor::new(bytes, "", 0)).unwrap(), expected.name);
        for length in 0..bytes.len() {
            assert!(parsed(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn versions() {
        let name = "é\0".as_bytes();
        check(&message(2, &[], &[name, I16, TWO, &[1, 2, 3, 4]]), CharacterSet::Ascii);
        check(&message(3, &[1], &[name, I16, TWO, &[1, 2, 3, 4]]), CharacterSet::Utf8);
        let pad = |part: &[u8], to: usize| [part, &vec![9; to - part.len()]].concat();
        let mut padded = message(1, &[], &[name, I16, TWO]);
        padded.truncate(8);
        padded.extend([pad(name, 8), pad(I16, 16), pad(TWO, 16), vec![1, 2, 3, 4]].concat());
        check(&padded, CharacterSet::Ascii);
    }

    #[test]
    fn damage() {
        let refused = |bytes: &[u8]| assert!(parsed(bytes).is_err(), "{bytes:?}");
        refused(&message(4, &[], &[b"a\0", I16, TWO, &[1, 2, 3, 4]]));
        refused(&message(2, &[], &[b"\0", I16, TWO, &[1, 2, 3, 4]]));
        refused(&message(2, &[], &[b"", I16, TWO, &[1, 2, 3, 4]]));
        refused(&message(2, &[], &[b"a\0b\0", I16, TWO, &[1, 2, 3, 4]]));
        refused(&message(2, &[], &[b"a\0", &I16[..8], TWO, &[1, 2, 3, 4]]));
        let huge = [2, 1, 0, 1, 255, 255, 255, 255, 255, 255, 255, 127];
        refused(&message(2, &[], &[b"a\0", I16, &huge, &[1, 2, 3, 4]]));
        let mut flags = message(2, &[], &[b"a\0", I16, TWO, &[1, 2, 3, 4]]);
        flags[1] = 4;
        refused(&flags);
    }
}
