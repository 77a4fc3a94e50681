//! Hints for the link storage of a new-style group. Source: specification §IV.A.2.k, "The Group Info
//! Message".

use crate::{Cursor, Result};

/// Hints for the link storage of a new-style group. Readers need none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupInfo {
    /// Link phase change values: maximum number of compact links, minimum number of dense links.
    pub phase_change: Option<(u16, u16)>,
    /// Estimated number of links, and estimated length of a link's name.
    pub estimate: Option<(u16, u16)>,
}

/// Reads a group info message.
///
/// # Errors
/// Corrupt or Unsupported if it is damaged.
pub fn parse(cursor: &mut Cursor<'_>) -> Result<GroupInfo> {
    cursor.version(0..=0)?;
    let flags = cursor.u8()?;
    if flags & !0x03 != 0 {
        return Err(cursor.error(format!("unknown flags {flags:#04x}")));
    }
    let mut pair = |flag| if flags & flag != 0 { Ok(Some((cursor.u16()?, cursor.u16()?))) } else { Ok(None) };
    Ok(GroupInfo { phase_change: pair(0x01)?, estimate: pair(0x02)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_damage() {
        let check = |bytes: &[u8], expected| {
            let found = parse(&mut Cursor::new(bytes, "", 0)).ok();
            assert_eq!(found.map(|info| (info.phase_change, info.estimate)), expected, "{bytes:?}");
        };
        check(&[0, 0], Some((None, None)));
        check(&[0, 1, 8, 0, 6, 0], Some((Some((8, 6)), None)));
        check(&[0, 3, 8, 0, 6, 0, 4, 0, 9, 0], Some((Some((8, 6)), Some((4, 9)))));
        check(&[1, 0], None);
        check(&[0, 4], None);
        check(&[0, 2, 4, 0, 9], None);
    }
}
