//! Extents of an object's structures outside its header, whose space is free after an editor has replaced
//! them.

use super::btree_v2::BTree;
use super::chunk_index::{self, ChunkMap};
use super::fractal_heap::FractalHeap;
use super::{attributes, group};
use crate::image::Extents;
use crate::model::{Chunk, LinkStorage, ObjectHeader};
use crate::{Image, Result};

/// Record types of B-trees of links and attributes, by name and by creation order.
const DENSE_TREES: [u8; 4] = [5, 6, 8, 9];

/// Address and size of a structure, in bytes.
pub type Extent = (u64, u64);

/// Returns all stored chunks, and the extents of the parts of their index whose sizes are certain; no extents
/// if any overlap.
///
/// # Errors
/// As [`chunk_index::chunks`].
pub fn index(image: Image<'_>, map: &ChunkMap<'_>) -> Result<(Vec<Chunk>, Vec<Extent>)> {
    let extents = Extents::default();
    let chunks = chunk_index::chunks(image.recording(&extents), map)?;
    Ok((chunks, distinct(extents)))
}

/// Returns the extents of the dense storage of an object's attributes. Empty if any overlap.
///
/// # Errors
/// Corrupt, Truncated; Need.
pub fn attribute_storage(image: Image<'_>, header: &ObjectHeader) -> Result<Vec<Extent>> {
    let Some(info) = attributes::info(image, header)? else { return Ok(Vec::new()) };
    dense(image, info.heap, [info.by_name, info.by_order])
}

/// Returns the extents of the dense storage of a group's links. Empty if any overlap.
///
/// # Errors
/// Corrupt, Truncated; Need.
pub fn link_storage(image: Image<'_>, header: &ObjectHeader) -> Result<Vec<Extent>> {
    match group::storage(image, header)? {
        Some(LinkStorage::Dense { heap, by_name, by_order }) => {
            dense(image, Some(heap), [Some(by_name), by_order])
        }
        _ => Ok(Vec::new()),
    }
}

fn dense(image: Image<'_>, heap: Option<u64>, trees: [Option<u64>; 2]) -> Result<Vec<Extent>> {
    let extents = Extents::default();
    let image = image.recording(&extents);
    if let Some(heap) = heap {
        FractalHeap::open(image, heap)?.record_extents(image)?;
    }
    for address in trees.into_iter().flatten() {
        BTree::open(image, address, &DENSE_TREES)?.for_each(image, &mut |_| Ok(()))?;
    }
    Ok(distinct(extents))
}

/// Sorts the extents by address and removes duplicates. Returns none if any overlap, as in a damaged file.
fn distinct(extents: Extents) -> Vec<Extent> {
    let mut all = extents.into_vec();
    all.sort_unstable();
    all.dedup();
    let overlap = |pair: &[Extent]| matches!(pair, [(start, length), (next, _)] if start.saturating_add(*length) > *next);
    if all.windows(2).any(overlap) { Vec::new() } else { all }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode;
    use crate::encode::blocks::one_after_another;
    use crate::encode::chunk_index::Kind;
    use crate::model::{ChunkIndex, Chunked};
    use crate::parse::testing::with_image;

    /// Encodes an index at odd addresses with gaps; its extents must be the blocks.
    fn check(kind: Kind, max: Option<u64>, version: u8, count: u64, filtered: bool) {
        let mut chunked = Chunked {
            dims: vec![4, 8],
            element_size: 8,
            edge_chunks_unfiltered: false,
            version,
            index: ChunkIndex::BTreeV1 { address: None },
        };
        let (dims, max) = ([count * 4, 8], [max.map(|_| count * 4), Some(8)]);
        let chunk = |number| Chunk { scaled: vec![number, 0], address: 1 << 30, size: 256, filter_mask: 0 };
        let chunks: Vec<Chunk> = (0..count).map(chunk).collect();
        let mut next = 1001;
        let map = ChunkMap { chunked: &chunked, dims: &dims, max: &max, filtered };
        let mut allocate = |size: u64| {
            let address = next;
            next += size + 13;
            Ok(address)
        };
        let encoded = encode::chunk_index::encode(kind, &map, &chunks, &mut allocate).unwrap();
        let mut file = vec![0xee; next as usize];
        for (address, block) in encoded.blocks.iter() {
            file[address as usize..][..block.len()].copy_from_slice(block);
        }
        chunked.index = encoded.index;
        with_image(&file, |image| {
            let map = ChunkMap { chunked: &chunked, dims: &dims, max: &max, filtered };
            let mut blocks = encoded.blocks.extents.clone();
            blocks.sort_unstable();
            let (found, extents) = index(image, &map).unwrap();
            assert!(found == chunks, "{kind:?} {count}");
            assert_eq!(extents, blocks, "{kind:?} {count} {filtered}");
        });
    }

    #[test]
    fn test_extents_of_indexes_are_their_blocks() {
        for filtered in [false, true] {
            for count in [1, 5, 64, 65, 1000, 5000, 30_000] {
                check(Kind::BTreeV1, None, 3, count, filtered);
                check(Kind::FixedArray, Some(0), 4, count, filtered);
                check(Kind::ExtensibleArray, None, 4, count, filtered);
                check(Kind::BTreeV2, None, 4, count, filtered);
            }
        }
    }

    #[test]
    fn test_extents_of_dense_storage_are_all_its_bytes() {
        use crate::model::{CharacterSet, Link, LinkTarget};
        for count in [1, 9, 100, 3000] {
            let link = |number: usize| Link {
                name: format!("link {number}").as_str().into(),
                charset: CharacterSet::Ascii,
                creation_order: Some(number as i64),
                target: LinkTarget::Soft("x".repeat(number % 300 * (number % 50) + 1).as_str().into()),
            };
            let links: Vec<Link> = (0..count).map(link).collect();
            let base = 77;
            let stored = encode::group::dense_links(&links, true, &mut one_after_another(base)).unwrap();
            let mut file = vec![0; base as usize];
            file.extend(&stored.blocks.bytes);
            with_image(&file, |image| {
                let extents =
                    dense(image, Some(stored.heap), [Some(stored.by_name), stored.by_order]).unwrap();
                let mut end = base;
                for (start, length) in extents {
                    assert_eq!(start, end, "{count}");
                    end = start + length;
                }
                assert_eq!(end, file.len() as u64, "{count}");
            });
        }
    }

    #[test]
    fn test_extents_that_overlap_are_left_out() {
        let extents = Extents::default();
        with_image(&[0; 8], |image| {
            let image = image.recording(&extents);
            image.belongs(0, 5);
            image.belongs(4, 2);
            image.belongs(4, 2);
        });
        assert!(distinct(extents).is_empty());
    }
}
