//! Chunks in a version 2 B-tree. Source: specification §VII.E, "The v2 B-tree Index"; §III.A.2, record types
//! 10 and 11.

use super::record::Format;
use super::region::Region;
use crate::model::Chunk;
use crate::parse::btree_v2::BTree;
use crate::{Cursor, Error, Image, Result};

const NAME: &str = "version 2 B-tree of chunks";

pub(super) fn chunks(image: Image<'_>, header: u64, format: Format, region: &Region) -> Result<Vec<Chunk>> {
    let rank = region.rank();
    let tree = BTree::open(image, header, &[if format.filtered { 11 } else { 10 }])?;
    let size = format.size().saturating_add(rank.saturating_mul(8));
    if tree.record_size() != size {
        let message = format!("records of {} bytes instead of {size}", tree.record_size());
        return Err(Error::corrupt(message).at(image.offset(header)?));
    }
    let mut chunks = Vec::new();
    let (mut left, mut right) = (Vec::new(), Vec::new());
    let wanted = |before: Option<&[u8]>, after: Option<&[u8]>| {
        let found = match before {
            Some(record) => {
                place(record, format, &mut left);
                region.advance_beyond(&mut left)
            }
            None => {
                left.clear();
                left.resize(rank, 0);
                region.advance(&mut left)
            }
        };
        Ok(found
            && after.is_none_or(|record| {
                place(record, format, &mut right);
                left < right
            }))
    };
    let (mut scaled, mut last) = (Vec::new(), Vec::new());
    tree.walk(image, wanted, |record| {
        place(record, format, &mut scaled);
        if scaled <= last {
            return Err(Error::corrupt("chunks that are not in order"));
        }
        if region.contains(&scaled) {
            let mut cursor = Cursor::new(record, NAME, image.offset(header)?);
            if let Some((address, size, filter_mask)) = format.parse(&mut cursor)? {
                chunks.push(Chunk { scaled: scaled.clone(), address, size, filter_mask });
            }
        }
        std::mem::swap(&mut scaled, &mut last);
        Ok(())
    })?;
    Ok(chunks)
}

/// Reads the coordinates of a record's chunk in the grid of chunks.
fn place(record: &[u8], format: Format, scaled: &mut Vec<u64>) {
    let (coordinates, _) = record.get(format.size()..).unwrap_or_default().as_chunks::<8>();
    scaled.clear();
    scaled.extend(coordinates.iter().map(|coordinate| u64::from_le_bytes(*coordinate)));
}
