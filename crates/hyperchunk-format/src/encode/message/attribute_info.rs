//! Attribute info: storage of an object's attributes. Source: specification §IV.A.2.v, "The Attribute Info
//! Message".

use crate::Result;
use crate::encode::Bytes;

/// Storage of an object's attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttributeInfo {
    /// Creation order of the next attribute, if the creation order is tracked.
    pub next_order: Option<u16>,
    /// True if attributes in a heap are indexed by creation order; requires tracking.
    pub indexed: bool,
    /// Fractal heap with the attributes; `None` if they are in the header.
    pub heap: Option<u64>,
    /// B-tree by name, if there is a heap.
    pub by_name: Option<u64>,
    /// B-tree by creation order, if there is a heap and it is indexed.
    pub by_order: Option<u64>,
}

/// Encodes an attribute info message. Every object with attributes needs one: without it, libhdf5 counts no
/// attributes, even where it lists the ones in the header.
///
/// # Errors
/// Invalid if the fields are contradictory.
pub fn encode(info: &AttributeInfo) -> Result<Vec<u8>> {
    const VERSION: u8 = 0;
    let flags = super::index_flags(info.next_order.is_some(), info.indexed)?;
    super::check_index("attribute info message", info.indexed, [info.heap, info.by_name, info.by_order])?;
    let mut bytes = Bytes::new();
    bytes.u8(VERSION).u8(flags);
    if let Some(next) = info.next_order {
        bytes.u16(next);
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
        let check = |info: AttributeInfo| {
            let bytes = encode(&info).unwrap();
            let mut cursor = Cursor::new(&bytes, "", 0);
            let found = parse::message::attribute_info::parse(&mut cursor, SIZES).unwrap();
            assert_eq!(cursor.left(), 0);
            assert_eq!(found.order_tracked, info.next_order.is_some());
            let addresses = (found.heap, found.by_name, found.by_order);
            assert_eq!(addresses, (info.heap, info.by_name, info.by_order));
        };
        check(AttributeInfo::default());
        check(AttributeInfo { next_order: Some(7), indexed: true, ..AttributeInfo::default() });
        let dense = AttributeInfo { heap: Some(1), by_name: Some(2), ..AttributeInfo::default() };
        check(dense);
        check(AttributeInfo { next_order: Some(65_535), indexed: true, by_order: Some(3), ..dense });
        assert!(encode(&AttributeInfo { indexed: true, ..AttributeInfo::default() }).is_err());
        assert!(encode(&AttributeInfo { by_order: Some(3), ..dense }).is_err());
    }
}
