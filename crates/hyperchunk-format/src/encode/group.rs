//! Groups in dense storage. Source: specification §IV.C, "Group"; §III.A.2, B-tree record types 5 and 6.

use super::blocks::{Allocate, Blocks};
use super::fractal_heap::{self, LINKS};
use super::message::link;
use super::{Bytes, btree_v2};
use crate::model::Link;
use crate::{Error, Result, checksum};

const STRUCTURE: &str = "dense group";
const BY_NAME: u8 = 5;
const BY_ORDER: u8 = 6;
/// Node size of the B-trees.
pub(crate) const NODE_BYTES: u32 = 512;

/// Links or attributes in dense storage: a heap followed by its indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenseStorage {
    /// Blocks of the heap and the indexes.
    pub blocks: Blocks,
    /// Address of the heap.
    pub heap: u64,
    /// Address of the B-tree by name.
    pub by_name: u64,
    /// Address of the B-tree by creation order.
    pub by_order: Option<u64>,
}

/// Encodes links, in any order, as dense storage. If `track_order`, an index by creation order is
/// added, which requires the creation order of all links.
///
/// # Errors
/// Invalid if two have the same name or creation order, or if one to be indexed has no creation order; the
/// errors of links.
pub fn dense_links(links: &[Link], track_order: bool, allocate: &mut Allocate<'_>) -> Result<DenseStorage> {
    let objects: Vec<Vec<u8>> = links.iter().map(link::encode).collect::<Result<_>>()?;
    let heap = fractal_heap::encode(LINKS, &objects, allocate)?;
    let ids = || heap.ids.chunks_exact(LINKS.id_length.into());
    let mut names: Vec<(u32, &[u8], &[u8])> = links
        .iter()
        .zip(ids())
        .map(|(link, id)| (checksum::lookup3(link.name.as_bytes()), link.name.as_bytes(), id))
        .collect();
    let mut by_name = Bytes::new();
    for (hash, id) in sorted_names(&mut names, STRUCTURE)? {
        by_name.u32(hash).raw(id);
    }
    let mut by_order = None;
    if track_order {
        let mut orders: Vec<(u64, &[u8])> = links
            .iter()
            .zip(ids())
            .map(|(link, id)| Some((u64::try_from(link.creation_order?).ok()?, id)))
            .collect::<Option<_>>()
            .ok_or_else(|| Error::invalid("a link without a creation order").within(STRUCTURE))?;
        let records = by_order.insert(Bytes::new());
        for (order, id) in sorted_orders(&mut orders, STRUCTURE)? {
            records.u64(order).raw(id);
        }
    }
    let by_order = by_order.as_ref().map(|records| (BY_ORDER, 15, records));
    joined(heap.blocks, (BY_NAME, 11, &by_name), by_order, allocate)
}

/// Sorts hashes and heap ids for an index by name: by hash, then by name.
pub(crate) fn sorted_names<'n>(
    names: &'n mut [(u32, &[u8], &'n [u8])],
    structure: &'static str,
) -> Result<impl Iterator<Item = (u32, &'n [u8])>> {
    names.sort_unstable();
    for ((_, name, _), (_, next, _)) in names.iter().zip(names.iter().skip(1)) {
        if name == next {
            return Err(Error::invalid(format!("duplicate name `{}`", name.escape_ascii())).within(structure));
        }
    }
    Ok(names.iter().map(|(hash, _, id)| (*hash, *id)))
}

/// Sorts entries for an index by creation order.
pub(crate) fn sorted_orders<'n, T: Copy + Ord>(
    orders: &'n mut [(u64, T)],
    structure: &'static str,
) -> Result<impl Iterator<Item = (u64, T)> + 'n> {
    orders.sort_unstable();
    for ((order, _), (next, _)) in orders.iter().zip(orders.iter().skip(1)) {
        if order == next {
            return Err(Error::invalid(format!("duplicate creation order {order}")).within(structure));
        }
    }
    Ok(orders.iter().copied())
}

/// Joins a heap and its indexes. Each index is given by its record type, record size and records.
pub(crate) fn joined(
    heap: Blocks,
    by_name: (u8, u16, &Bytes),
    by_order: Option<(u8, u16, &Bytes)>,
    allocate: &mut Allocate<'_>,
) -> Result<DenseStorage> {
    let undefined = || Error::invalid("a heap or B-tree without blocks");
    let mut blocks = heap;
    let heap = blocks.first().ok_or_else(undefined)?;
    let mut add = |(kind, record_size, records): (u8, u16, &Bytes)| {
        let tree = btree_v2::encode(kind, NODE_BYTES, record_size, records.as_slice(), allocate)?;
        let address = tree.first().ok_or_else(undefined)?;
        blocks.append(tree);
        Ok(address)
    };
    let by_name = add(by_name)?;
    let by_order = by_order.map(add).transpose()?;
    Ok(DenseStorage { blocks, heap, by_name, by_order })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::blocks::one_after_another;
    use crate::encode::message::link_info::{self, LinkInfo};
    use crate::encode::message::{GROUP_INFO, LINK_INFO};
    use crate::encode::object_header::{self, HeaderOptions, Message};
    use crate::model::{CharacterSet, LinkTarget, ObjectHeader};
    use crate::parse;
    use crate::parse::testing::with_image;

    fn links(count: usize) -> Vec<Link> {
        let link = |number: usize| Link {
            // Unsorted.
            name: format!("link {}", number.wrapping_mul(7919) % count).as_str().into(),
            charset: CharacterSet::Ascii,
            creation_order: Some(number as i64 * 2),
            target: match number % 3 {
                0 => LinkTarget::Hard(number as u64 + 1000),
                1 => LinkTarget::Soft(format!("/somewhere/{number}").as_str().into()),
                _ => LinkTarget::External {
                    file: "f".into(),
                    path: "x".repeat(number % 5000 + 1).as_str().into(),
                },
            },
        };
        (0..count).map(link).collect()
    }

    /// Creates a file with a group at 0 that has these links.
    fn file(links: &[Link], track_order: bool) -> Vec<u8> {
        let base = 2000;
        let dense = dense_links(links, track_order, &mut one_after_another(base)).unwrap();
        let info = LinkInfo {
            next_order: track_order.then_some(links.len() as u64 * 2),
            indexed: track_order,
            heap: Some(dense.heap),
            by_name: Some(dense.by_name),
            by_order: dense.by_order,
        };
        let message = |kind, data| Message { kind, flags: 0, creation_order: None, data };
        let messages =
            [message(LINK_INFO, link_info::encode(&info).unwrap()), message(GROUP_INFO, vec![0, 0])];
        let mut file = object_header::encode(&messages, &HeaderOptions::default()).unwrap();
        file.resize(base as usize, 0);
        file.extend(dense.blocks.bytes);
        file
    }

    fn with_group<T>(file: &[u8], test: impl FnOnce(crate::Image<'_>, &ObjectHeader) -> T) -> T {
        with_image(file, |image| test(image, &parse::object_header::parse(image, 0).unwrap()))
    }

    #[test]
    fn what_is_written_is_read() {
        for count in [0, 1, 9, 100, 5000] {
            for track_order in [false, true] {
                let mut links = links(count);
                let file = file(&links, track_order);
                with_group(&file, |image, header| {
                    assert_eq!(parse::group::count(image, header).unwrap(), count as u64);
                    for link in links.iter().step_by(97) {
                        let found = parse::group::find(image, header, link.name.as_bytes()).unwrap();
                        assert_eq!(found.as_ref(), Some(link));
                    }
                    assert_eq!(parse::group::find(image, header, b"no link").unwrap(), None);
                    links.sort_by(|a, b| a.name.cmp(&b.name));
                    assert!(parse::group::links(image, header).unwrap() == links);
                    let info = parse::group::info(image, header).unwrap().unwrap();
                    assert_eq!(info.by_order.is_some(), track_order);
                    if let Some(by_order) = info.by_order {
                        let tree = parse::btree_v2::BTree::open(image, by_order, &[BY_ORDER]).unwrap();
                        let records = tree.records(image).unwrap();
                        let orders = records.chunks_exact(15).map(|r| r[..8].try_into().unwrap());
                        let orders: Vec<u64> = orders.map(u64::from_le_bytes).collect();
                        assert_eq!(orders, (0..count as u64).map(|number| number * 2).collect::<Vec<_>>());
                    }
                });
            }
        }
    }

    #[test]
    fn names_of_one_hash_are_in_order() {
        // Two names with equal hashes, found by search.
        let mut seen = std::collections::HashMap::new();
        let pair = (0..1_000_000_u32).find_map(|number| {
            let name = format!("{number}");
            seen.insert(checksum::lookup3(name.as_bytes()), number).map(|other| [other, number])
        });
        let pair = pair.unwrap().map(|number| number.to_string());
        let mut links = links(20);
        for (link, name) in links.iter_mut().zip(pair.iter().rev()) {
            link.name = name.as_str().into();
        }
        with_group(&file(&links, false), |image, header| {
            for link in &links {
                let found = parse::group::find(image, header, link.name.as_bytes()).unwrap();
                assert_eq!(found.as_ref(), Some(link));
            }
        });
    }

    #[test]
    fn what_contradicts_itself_is_not_written() {
        let mut twice = links(9);
        twice[3].name = twice[4].name.clone();
        assert!(dense_links(&twice, false, &mut one_after_another(0)).is_err());
        let mut same = links(9);
        same[3].creation_order = same[4].creation_order;
        assert!(dense_links(&same, false, &mut one_after_another(0)).is_ok());
        assert!(dense_links(&same, true, &mut one_after_another(0)).is_err());
        same[3].creation_order = None;
        assert!(dense_links(&same, true, &mut one_after_another(0)).is_err());
    }
}
