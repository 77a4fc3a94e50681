//! Dataspaces. Source: specification §IV.A.2.b, "The Dataspace Message".

use crate::model::Dataspace;
use crate::{Cursor, Result, Sizes};

/// HDF5's maximum rank.
pub(crate) const MAX_RANK: u8 = 32;

/// Reads a dataspace of version 1 or 2.
///
/// # Errors
/// Corrupt or Unsupported if it is damaged.
pub fn parse(cursor: &mut Cursor<'_>, sizes: Sizes) -> Result<Dataspace> {
    let version = cursor.version(1..=2)?;
    let rank = cursor.u8()?;
    let flags = cursor.u8()?;
    if rank > MAX_RANK {
        return Err(cursor.error(format!("{rank} dimensions, more than {MAX_RANK}")));
    }
    let class = cursor.u8()?;
    match (version, class, rank) {
        (1, _, 0) => return Ok(Dataspace::Scalar),
        (1, ..) => cursor.skip(4)?,
        (2, 0 | 1, 0) => return Ok(Dataspace::Scalar),
        (2, 2, 0) => return Ok(Dataspace::Null),
        (2, 1, _) => {}
        _ => return Err(cursor.error(format!("{rank} dimensions of a dataspace of class {class}"))),
    }
    let dims: Vec<u64> = (0..rank).map(|_| cursor.length(sizes)).collect::<Result<_>>()?;
    if flags & 0x01 == 0 {
        let max = dims.iter().copied().map(Some).collect();
        return Ok(Dataspace::Simple { dims, max });
    }
    let max: Vec<Option<u64>> =
        (0..rank).map(|_| cursor.length_or_undefined(sizes)).collect::<Result<_>>()?;
    if dims.iter().zip(&max).any(|(dim, max)| max.is_some_and(|max| *dim > max)) {
        return Err(cursor.error(format!("an extent of {dims:?}, larger than the maximum extent {max:?}")));
    }
    Ok(Dataspace::Simple { dims, max })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Option<Dataspace>) {
        let sizes = Sizes { address: 8, length: 4 };
        assert_eq!(parse(&mut Cursor::new(bytes, "", 0), sizes).ok(), expected, "{bytes:?}");
    }

    #[test]
    fn versions_and_classes() {
        check(&[1, 0, 0, 0, 0, 0, 0, 0], Some(Dataspace::Scalar));
        check(&[2, 0, 0, 0], Some(Dataspace::Scalar));
        check(&[2, 0, 0, 2], Some(Dataspace::Null));
        let simple = |max| Some(Dataspace::Simple { dims: vec![3], max: vec![max] });
        check(&[1, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0], simple(Some(3)));
        check(&[2, 1, 1, 1, 3, 0, 0, 0, 255, 255, 255, 255], simple(None));
        check(&[2, 1, 1, 1, 3, 0, 0, 0, 9, 0, 0, 0], simple(Some(9)));
    }

    #[test]
    fn damage() {
        check(&[], None);
        check(&[3, 0, 0, 0], None);
        check(&[2, 33, 0, 1], None);
        check(&[2, 1, 0, 0, 3, 0, 0, 0], None);
        check(&[2, 0, 0, 3], None);
        check(&[2, 1, 0, 1, 3, 0, 0], None);
        check(&[2, 1, 1, 1, 3, 0, 0, 0, 2, 0, 0, 0], None);
    }
}
