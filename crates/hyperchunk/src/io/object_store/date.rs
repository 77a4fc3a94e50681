//! Dates in headers of HTTP (RFC 9110, 5.6.7).

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Parses a date in any of the three forms into seconds since 1970; `None` for earlier dates.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let parts: Vec<&str> = text.split([' ', ',', '-']).filter(|part| !part.is_empty()).take(7).collect();
    let (day, month, year, time) = match *parts {
        // `Sun, 06 Nov 1994 08:49:37 GMT` and the obsolete `Sunday, 06-Nov-94 08:49:37 GMT`.
        [_, day, month, year, time, "GMT"] => (day, month, year, time),
        // `Sun Nov 6 08:49:37 1994`, the format of C's `asctime`.
        [_, month, day, time, year] => (day, month, year, time),
        _ => return None,
    };
    let month = MONTHS.iter().position(|name| *name == month)? as u64;
    let year = match (year.len(), number(year, 9999)?) {
        (2, short) if short < 70 => 2000 + short,
        (2, short) => 1900 + short,
        (_, year) => year,
    };
    let day = number(day, 31)?.checked_sub(1)?;
    let mut time = time.split(':');
    let mut field = |most| number(time.next()?, most);
    let seconds = field(23)? * 3600 + field(59)? * 60 + field(60)?;
    if time.next().is_some() {
        return None;
    }
    // Counting years from March puts the leap day at the end.
    let (years, since_march) = if month < 2 { (year.checked_sub(1)?, month + 10) } else { (year, month - 2) };
    let leaps = years / 4 - years / 100 + years / 400;
    let days = years * 365 + leaps + (since_march * 153 + 2) / 5 + day;
    // Days from 1 March of the year 0 to 1 January 1970.
    Some(days.checked_sub(719_468)? * 86_400 + seconds)
}

fn number(text: &str, most: u64) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_forms() {
        for (text, expected) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
            ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Tue, 29 Feb 2000 23:59:59 GMT", Some(951_868_799)),
            ("Wed, 01 Mar 2000 00:00:00 GMT", Some(951_868_800)),
            ("Sat, 31 Dec 2044 23:59:60 GMT", Some(2_366_841_600)),
            ("Friday, 01-Jan-27 00:00:00 GMT", Some(1_798_761_600)),
            ("Wed, 31 Dec 1969 23:59:59 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37", None),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
            ("Sun, 06 Nov 1994 24:00:00 GMT", None),
            ("Sun, 06 Nov 1994 08:49 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37:00 GMT", None),
            ("Sun, 00 Nov 1994 08:49:37 GMT", None),
            ("Sun, 32 Nov 1994 08:49:37 GMT", None),
            ("Sun, +6 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Nul 1994 08:49:37 GMT", None),
            ("Sun, 06 Jan 0 08:49:37 GMT", None),
            ("Sun, 06 Nov 99999 08:49:37 GMT", None),
            ("120", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
