//! Modification times of objects. Source: specification §IV.A.2.s, "Object Modification Time".

use crate::Result;
use crate::encode::{Bytes, fit};

/// Encodes a time in seconds since 1970.
///
/// # Errors
/// Limit if it is before 1970 or after 2106.
pub fn encode(seconds: i64) -> Result<Vec<u8>> {
    const VERSION: u8 = 1;
    let mut bytes = Bytes::with_capacity(8);
    bytes.u8(VERSION).zeros(3).u32(fit(seconds, "seconds since 1970")?);
    Ok(bytes.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cursor, parse};

    #[test]
    fn what_is_written_is_read() {
        for seconds in [0, 1_785_499_200, u32::MAX.into()] {
            let bytes = encode(seconds).unwrap();
            let found = parse::message::modification_time::parse(&mut Cursor::new(&bytes, "", 0));
            assert_eq!(found.unwrap(), seconds);
        }
        assert!(encode(-1).is_err());
        assert!(encode(1 << 32).is_err());
    }
}
