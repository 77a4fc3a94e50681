//! Fill values, from the old message and from versions 1 to 3 of the new one. Source: specification §IV.A.2.e
//! and f.

use crate::model::{AllocationTime, FillTime, FillValue, FillWhen};
use crate::{Cursor, Result};

/// Reads the new fill value message.
///
/// # Errors
/// Corrupt or Unsupported if it is damaged.
pub fn parse(cursor: &mut Cursor<'_>) -> Result<FillValue> {
    if cursor.version(1..=3)? == 3 {
        return version_3(cursor);
    }
    let (allocation, time) = (cursor.u8()?, cursor.u8()?);
    let (allocation, time) = (self::allocation(cursor, allocation)?, self::time(cursor, time)?);
    let defined = cursor.u8()? != 0;
    let value = if defined { value(cursor, FillWhen::Default)? } else { FillWhen::Undefined };
    Ok(FillValue { value, allocation, time })
}

fn version_3(cursor: &mut Cursor<'_>) -> Result<FillValue> {
    const UNDEFINED: u8 = 0x10;
    const HAS_VALUE: u8 = 0x20;
    let flags = cursor.u8()?;
    let value = match flags & !0x0f {
        0 => FillWhen::Default,
        UNDEFINED => FillWhen::Undefined,
        HAS_VALUE => value(cursor, FillWhen::Default)?,
        _ => return Err(cursor.error(format!("invalid flags {flags:#04x}"))),
    };
    let allocation = allocation(cursor, flags & 0x03)?;
    let time = time(cursor, flags >> 2 & 0x03)?;
    Ok(FillValue { value, allocation, time })
}

/// Reads the old fill value message; the times are the defaults of the libraries of its time.
///
/// # Errors
/// Corrupt if it is damaged.
pub fn parse_old(cursor: &mut Cursor<'_>) -> Result<FillValue> {
    let value = value(cursor, FillWhen::Undefined)?;
    Ok(FillValue { value, allocation: AllocationTime::Late, time: FillTime::IfSet })
}

/// Reads a size and that number of bytes; returns `empty` for size 0. A negative size means an undefined
/// value; only new messages have one.
fn value(cursor: &mut Cursor<'_>, empty: FillWhen) -> Result<FillWhen> {
    match i32::from_le_bytes(cursor.array()?) {
        0 => Ok(empty),
        size => match usize::try_from(size) {
            Ok(size) => Ok(FillWhen::User(cursor.take(size)?.to_vec())),
            Err(_) => Ok(FillWhen::Undefined),
        },
    }
}

fn allocation(cursor: &Cursor<'_>, number: u8) -> Result<AllocationTime> {
    match number {
        0 => Ok(AllocationTime::Default),
        1 => Ok(AllocationTime::Early),
        2 => Ok(AllocationTime::Late),
        3 => Ok(AllocationTime::Incremental),
        _ => Err(cursor.error(format!("unknown space allocation time {number}"))),
    }
}

fn time(cursor: &Cursor<'_>, number: u8) -> Result<FillTime> {
    match number {
        0 => Ok(FillTime::Allocation),
        1 => Ok(FillTime::Never),
        2 => Ok(FillTime::IfSet),
        _ => Err(cursor.error(format!("unknown fill value write time {number}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Option<(FillWhen, AllocationTime, FillTime)>) {
        let expected = expected.map(|(value, allocation, time)| FillValue { value, allocation, time });
        assert_eq!(parse(&mut Cursor::new(bytes, "", 0)).ok(), expected, "{bytes:?}");
    }

    #[test]
    fn versions() {
        use {AllocationTime as A, FillTime as T, FillWhen as W};
        check(&[1, 2, 2, 0], Some((W::Undefined, A::Late, T::IfSet)));
        check(&[2, 2, 2, 1, 0, 0, 0, 0], Some((W::Default, A::Late, T::IfSet)));
        check(&[2, 1, 0, 1, 2, 0, 0, 0, 7, 8], Some((W::User(vec![7, 8]), A::Early, T::Allocation)));
        check(&[2, 1, 0, 1, 255, 255, 255, 255], Some((W::Undefined, A::Early, T::Allocation)));
        check(&[3, 0x0a], Some((W::Default, A::Late, T::IfSet)));
        check(&[3, 0x15], Some((W::Undefined, A::Early, T::Never)));
        check(&[3, 0x2b, 1, 0, 0, 0, 9], Some((W::User(vec![9]), A::Incremental, T::IfSet)));
    }

    #[test]
    fn old() {
        let value = |bytes| parse_old(&mut Cursor::new(bytes, "", 0)).map(|fill| fill.value).ok();
        assert_eq!(value(&[2, 0, 0, 0, 7, 8]), Some(FillWhen::User(vec![7, 8])));
        assert_eq!(value(&[0, 0, 0, 0]), Some(FillWhen::Undefined));
        assert_eq!(value(&[2, 0, 0, 0, 7]), None);
    }

    #[test]
    fn damage() {
        check(&[], None);
        check(&[0, 0, 0, 0], None);
        check(&[2, 4, 2, 0], None);
        check(&[2, 1, 3, 0], None);
        check(&[2, 1, 0, 1, 3, 0, 0, 0, 7, 8], None);
        check(&[3, 0x3a, 1, 0, 0, 0, 9], None);
        check(&[3, 0x4a], None);
    }
}
