//! Link info: storage of a new-style group's links. Source: specification §IV.A.2.c, "The Link Info Message".

use crate::Result;
use crate::encode::Bytes;

/// Storage of a new-style group's links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkInfo {
    /// Creation order of the next link, if the creation order is tracked.
    pub next_order: Option<u64>,
    /// True if links in a heap are indexed by creation order; requires tracking.
    pub indexed: bool,
    /// Fractal heap with the links; `None` if they are in the header.
    pub heap: Option<u64>,
    /// B-tree by name, if there is a heap.
    pub by_name: Option<u64>,
    /// B-tree by creation order, if there is a heap and it is indexed.
    pub by_order: Option<u64>,
}

/// Encodes a link info message.
///
/// # Errors
/// Invalid if the fields are contradictory; Limit if there are too many links.
pub fn encode(info: &LinkInfo) -> Result<Vec<u8>> {
    const VERSION: u8 = 0;
    let flags = super::index_flags(info.next_order.is_some(), info.indexed)?;
    super::check_index("link info message", info.indexed, [info.heap, info.by_name, info.by_order])?;
    let mut bytes = Bytes::new();
    bytes.u8(VERSION).u8(flags);
    if let Some(next) = info.next_order {
        bytes.u64(crate::encode::fit::<i64, _>(next, "links")?.cast_unsigned());
    }
    bytes.address(info.heap).address(info.by_name);
    if info.indexed {
        bytes.address(info.by_order);
    }
    Ok(bytes.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::SIZES;
    use crate::{Cursor, parse};

    #[test]
    fn what_is_written_is_read() {
        let check = |info: LinkInfo| {
            let bytes = encode(&info).unwrap();
            let mut cursor = Cursor::new(&bytes, "", 0);
            let found = parse::message::link_info::parse(&mut cursor, SIZES).unwrap();
            assert_eq!(cursor.left(), 0);
            assert_eq!(found.order_tracked, info.next_order.is_some());
            let addresses = (found.heap, found.by_name, found.by_order);
            assert_eq!(addresses, (info.heap, info.by_name, info.by_order));
        };
        check(LinkInfo::default());
        check(LinkInfo { next_order: Some(7), ..LinkInfo::default() });
        check(LinkInfo { next_order: Some(7), indexed: true, ..LinkInfo::default() });
        let dense = LinkInfo { heap: Some(1), by_name: Some(2), ..LinkInfo::default() };
        check(dense);
        check(LinkInfo { next_order: Some(i64::MAX as u64), indexed: true, by_order: Some(3), ..dense });
    }

    #[test]
    fn what_contradicts_itself_is_not_written() {
        let dense = LinkInfo { heap: Some(1), by_name: Some(2), ..LinkInfo::default() };
        assert!(encode(&LinkInfo { indexed: true, ..LinkInfo::default() }).is_err());
        assert!(encode(&LinkInfo { by_name: None, ..dense }).is_err());
        assert!(encode(&LinkInfo { heap: None, ..dense }).is_err());
        assert!(encode(&LinkInfo { by_order: Some(3), ..dense }).is_err());
        assert!(encode(&LinkInfo { next_order: Some(1), indexed: true, ..dense }).is_err());
        assert!(encode(&LinkInfo { next_order: Some(u64::MAX), ..dense }).is_err());
    }
}
