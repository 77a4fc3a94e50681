//! Filter pipelines of versions 1 and 2. Source: specification §IV.A.2.l, "The Filter Pipeline Message".

use crate::model::{Filter, Name, Pipeline};
use crate::{Cursor, Result};

/// Maximum number of filters in a pipeline: the number of bits in a chunk's filter mask.
pub(crate) const MAX_FILTERS: u8 = 32;
/// First filter identifier with a name in version 2; lower ones are the library's own.
pub(crate) const FIRST_NAMED: u16 = 256;

/// Reads a filter pipeline.
///
/// # Errors
/// Corrupt or Unsupported if it is damaged.
pub fn parse(cursor: &mut Cursor<'_>) -> Result<Pipeline> {
    let version = cursor.version(1..=2)?;
    let count = cursor.u8()?;
    if count > MAX_FILTERS {
        return Err(cursor.error(format!("{count} filters, more than {MAX_FILTERS}")));
    }
    if version == 1 {
        cursor.skip(6)?;
    }
    (0..count).map(|_| filter(cursor, version)).collect()
}

fn filter(cursor: &mut Cursor<'_>, version: u8) -> Result<Filter> {
    let id = cursor.u16()?;
    let name_length = if version == 1 || id >= FIRST_NAMED { cursor.u16()? } else { 0 };
    if version == 1 && name_length % 8 != 0 {
        return Err(cursor.error(format!("a filter name of {name_length} bytes, expected a multiple of 8")));
    }
    let flags = cursor.u16()?;
    let count = cursor.u16()?;
    let name = cursor.take(name_length.into())?.split(|byte| *byte == 0).next().unwrap_or_default();
    let parameters = (0..count).map(|_| cursor.u32()).collect::<Result<_>>()?;
    if version == 1 && count % 2 == 1 {
        cursor.skip(4)?;
    }
    let name = (!name.is_empty()).then(|| Name::from(name));
    Ok(Filter { id, optional: flags & 0x01 != 0, name, parameters })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats a filter on one line: identifier, optional, name, parameters.
    fn line(filter: &Filter) -> String {
        format!("{} {} {:?} {:?}", filter.id, filter.optional, filter.name, filter.parameters)
    }

    fn check(bytes: &[u8], expected: Option<&[&str]>) {
        let lines = parse(&mut Cursor::new(bytes, "", 0)).ok().map(|all| all.iter().map(line).collect());
        let expected: Option<Vec<String>> =
            expected.map(|lines| lines.iter().map(|line| (*line).into()).collect());
        assert_eq!(lines, expected);
    }

    #[test]
    fn versions() {
        let deflate = b"\x01\x01\0\0\0\0\0\0\x01\0\x08\0\x01\0\x01\0deflate\0\x06\0\0\0\0\0\0\0";
        check(deflate, Some(&["1 true Some(\"deflate\") [6]"]));
        let two = b"\x02\x02\x01\0\0\0\x01\0\x06\0\0\0\x00\x7d\0\0\0\0\0\0";
        check(two, Some(&["1 false None [6]", "32000 false None []"]));
        let named = b"\x02\x01\x00\x7d\x04\0\x01\0\0\0lzf\0";
        check(named, Some(&["32000 true Some(\"lzf\") []"]));
        check(b"\x02\x00", Some(&[]));
    }

    #[test]
    fn damage() {
        check(b"", None);
        check(b"\x03\x00", None);
        check(b"\x02\x21", None);
        check(b"\x02\x01\x01\0\0\0\x01\0", None);
        check(b"\x01\x01\0\0\0\0\0\0\x01\0\x07\0\x01\0\x00\0deflate", None);
    }
}
