//! Hints for the link storage of a new-style group. Source: specification §IV.A.2.k, "The Group Info
//! Message".

use crate::encode::Bytes;
use crate::parse::message::group_info::GroupInfo;
use crate::{Error, Result};

/// Encodes hints for libraries that add links to the group. Without phase change values they use a heap from
/// 9 links on, and the header again below 6.
///
/// # Errors
/// Invalid if the maximum number of compact links is below the minimum number of dense links.
pub fn encode(info: &GroupInfo) -> Result<Vec<u8>> {
    const VERSION: u8 = 0;
    if info.phase_change.is_some_and(|(max_compact, min_dense)| max_compact < min_dense) {
        return Err(Error::invalid(format!("invalid phase change values {:?}", info.phase_change))
            .within("group info message"));
    }
    let mut bytes = Bytes::new();
    bytes.u8(VERSION).u8(u8::from(info.phase_change.is_some()) | u8::from(info.estimate.is_some()) << 1);
    for (first, second) in [info.phase_change, info.estimate].into_iter().flatten() {
        bytes.u16(first).u16(second);
    }
    Ok(bytes.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cursor, parse};

    #[test]
    fn what_is_written_is_read() {
        for phase_change in [None, Some((8, 6))] {
            for estimate in [None, Some((4, 9))] {
                let info = GroupInfo { phase_change, estimate };
                let bytes = encode(&info).unwrap();
                let mut cursor = Cursor::new(&bytes, "", 0);
                assert_eq!(parse::message::group_info::parse(&mut cursor).unwrap(), info);
                assert_eq!(cursor.left(), 0);
            }
        }
        assert!(encode(&GroupInfo { phase_change: Some((5, 6)), estimate: None }).is_err());
    }
}
