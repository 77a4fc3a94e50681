//! Modification times of objects. Source: specification §IV.A.2.o and s, "Object Modification Time".

use crate::{Cursor, Result};

/// Reads the new message. Returns seconds since 1970.
///
/// # Errors
/// Corrupt or Unsupported if it is damaged.
pub fn parse(cursor: &mut Cursor<'_>) -> Result<i64> {
    cursor.version(1..=1)?;
    cursor.skip(3)?;
    cursor.u32().map(i64::from)
}

/// Reads the old message: the digits of year, month, day, hour, minute and second, in UTC. Returns seconds
/// since 1970.
///
/// # Errors
/// Corrupt if a character is not a digit, or the fields are not a date.
pub fn parse_old(cursor: &mut Cursor<'_>) -> Result<i64> {
    let mut digits = |count: usize| {
        let text = std::str::from_utf8(cursor.take(count)?).ok();
        let number = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let number = number.and_then(|text| text.parse::<i64>().ok());
        number.ok_or_else(|| cursor.error("the date does not consist of digits".into()))
    };
    let [year, month, day] = [digits(4)?, digits(2)?, digits(2)?];
    let [hour, minute, second] = [digits(2)?, digits(2)?, digits(2)?];
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return Err(cursor.error(format!("not a date: {year}-{month}-{day} {hour}:{minute}:{second}")));
    }
    Ok(days(year, month, day)
        .saturating_mul(24)
        .saturating_add(hour)
        .saturating_mul(60)
        .saturating_add(minute)
        .saturating_mul(60)
        .saturating_add(second))
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar. Years start in March, so that the
/// leap day is last.
#[expect(clippy::arithmetic_side_effects, reason = "years have four digits")]
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // Five months from March on have 153 days; from year 0 to 1970 there are 719468 days.
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |text: &[u8], seconds: Option<i64>| {
            assert_eq!(parse_old(&mut Cursor::new(text, "", 0)).ok(), seconds);
        };
        check(b"19700101000000\0\0", Some(0));
        check(b"20000229235959", Some(951_868_799));
        check(b"20260731120000", Some(1_785_499_200));
        check(b"20261331120000", None);
        check(b"2026+101120000", None);
        check(b"2026", None);
    }
}
