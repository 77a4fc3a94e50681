//! Table of shared object header messages, which maps message types to heaps. Its indexes help writers to
//! find equal messages; readers only need the heaps. Source: specification §IV.A.2.p, "Shared Message Table",
//! and §III.H.

use super::fractal_heap::FractalHeap;
use super::message;
use crate::{Error, Image, Result};

const STRUCTURE: &str = "shared message table";

/// Opens the heap with the shared messages of a type.
///
/// # Errors
/// Corrupt, Truncated or Unsupported if there is no such heap, or if the table is damaged.
pub(crate) fn heap(image: Image<'_>, kind: u16) -> Result<FractalHeap<'_>> {
    let Some(table) = image.shared_messages else {
        return Err(
            Error::corrupt("a shared message in a file without a shared message table").within(STRUCTURE)
        );
    };
    // Old and new fill values are shared in one heap.
    let kind = if kind == message::FILL_VALUE_OLD { message::FILL_VALUE } else { kind };
    let entry = u64::from(image.sizes.address).saturating_mul(2).saturating_add(14);
    let length = entry.saturating_mul(table.indexes.into()).saturating_add(8);
    let bytes = image.read(STRUCTURE, table.address, length)?;
    let bytes = image.checked(&bytes, STRUCTURE, table.address)?;
    let mut cursor = image.cursor(bytes, STRUCTURE, table.address);
    cursor.signature(b"SMTB")?;
    for _ in 0..table.indexes {
        cursor.version(0..=0)?;
        cursor.skip(1)?;
        let kinds = cursor.u16()?;
        cursor.skip(10)?;
        let (_, heap) = (cursor.address(image.sizes)?, cursor.address(image.sizes)?);
        if kinds.checked_shr(kind.into()).unwrap_or(0) & 1 != 0 {
            let heap = heap.ok_or_else(|| {
                cursor.error("the address of the heap with the messages is undefined".into())
            })?;
            return FractalHeap::open(image, heap);
        }
    }
    Err(cursor.error(format!("no heap for messages of type {kind:#06x}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SharedMessageTable;
    use crate::parse::testing::{Maker, with_image};

    fn check(file: &[u8], indexes: u8, kind: u16, expected: &str) {
        let table = Some(SharedMessageTable { address: 0, indexes });
        let error = with_image(file, |image| heap(image.with_shared_messages(table), kind).map(drop));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn heaps_of_types() {
        let index = |maker: Maker, kinds, heap| {
            maker.u8s(&[0, 0]).u16s(&[kinds]).u32s(&[50]).u16s(&[50, 40, 1]).u64s(&[u64::MAX, heap])
        };
        let file = index(index(Maker::default().raw(b"SMTB"), 0x22, 0x7000), 0x1008, 0x8000).checksum(0).0;
        for (kind, offset) in [(1, 0x7000), (4, 0x7000), (5, 0x7000), (3, 0x8000), (12, 0x8000)] {
            check(&file, 2, kind, &format!("at offset {offset}"));
        }
        check(&file, 2, 11, "no heap for messages of type 0x000b");
        check(&file, 1, 1, "checksum");
        let error = with_image(&file, |image| heap(image, 1).map(drop)).unwrap_err();
        assert!(error.to_string().contains("without a shared message table"));
    }
}
