//! Attributes in dense storage. Source: specification §IV.A.2.v, "The Attribute Info Message"; §III.A.2,
//! B-tree record types 8 and 9.

use super::blocks::Allocate;
use super::fractal_heap::{self, ATTRIBUTES};
use super::group::{DenseStorage, joined, sorted_names, sorted_orders};
use super::{Bytes, fit};
use crate::model::Name;
use crate::{Error, Result, checksum};

const STRUCTURE: &str = "dense attributes";
const BY_NAME: u8 = 8;
const BY_ORDER: u8 = 9;
/// Creation order of an attribute whose object does not track it.
const NO_ORDER: u32 = u16::MAX as u32;

/// Encodes attributes, in any order, as dense storage. If `indexed`, an index by creation order is
/// added, which requires the creation order of all. Each attribute is given by its name, its creation order,
/// and the message from [`super::message::attribute::encode`].
///
/// # Errors
/// Invalid if two have the same name or creation order, or if one to be indexed has no creation order; Limit
/// if a creation order is too large.
pub fn dense(
    messages: &[(Name, Option<u32>, Vec<u8>)],
    indexed: bool,
    allocate: &mut Allocate<'_>,
) -> Result<DenseStorage> {
    encode_dense(messages, indexed, allocate).map_err(|error| error.within(STRUCTURE))
}

fn encode_dense(
    messages: &[(Name, Option<u32>, Vec<u8>)],
    indexed: bool,
    allocate: &mut Allocate<'_>,
) -> Result<DenseStorage> {
    const MESSAGE_FLAGS: u8 = 0;
    let objects: Vec<&[u8]> = messages.iter().map(|(_, _, message)| message.as_slice()).collect();
    let heap = fractal_heap::encode(ATTRIBUTES, &objects, allocate)?;
    let numbers = messages.iter().map(|(_, order, _)| match order {
        // Libraries store the creation order in 16 bits elsewhere.
        Some(order) if *order >= NO_ORDER => {
            Err(Error::limit(format!("creation order {order} of an attribute")))
        }
        order => Ok(order.unwrap_or(NO_ORDER)),
    });
    let numbers: Vec<u32> = numbers.collect::<Result<_>>()?;
    // Part of a record common to both indexes: heap id, message flags, creation order.
    let mut parts = Bytes::new();
    for (id, number) in heap.ids.chunks_exact(ATTRIBUTES.id_length.into()).zip(&numbers) {
        parts.raw(id).u8(MESSAGE_FLAGS).u32(*number);
    }
    let parts = || parts.as_slice().chunks_exact(13);
    let mut names: Vec<(u32, &[u8], &[u8])> = messages
        .iter()
        .zip(parts())
        .map(|((name, _, _), part)| (checksum::lookup3(name.as_bytes()), name.as_bytes(), part))
        .collect();
    let mut by_name = Bytes::new();
    for (hash, part) in sorted_names(&mut names, STRUCTURE)? {
        by_name.raw(part).u32(hash);
    }
    let mut by_order = None;
    if indexed {
        if numbers.contains(&NO_ORDER) {
            return Err(Error::invalid("an attribute without a creation order"));
        }
        let mut orders: Vec<(u64, &[u8])> = numbers.iter().copied().map(u64::from).zip(parts()).collect();
        let records = by_order.insert(Bytes::new());
        for (_, part) in sorted_orders(&mut orders, STRUCTURE)? {
            records.raw(part);
        }
    }
    let by_order = by_order.as_ref().map(|records| (BY_ORDER, 13, records));
    joined(heap.blocks, (BY_NAME, 17, &by_name), by_order, allocate)
}

/// Returns the creation order of the next attribute, for the attribute info message.
///
/// # Errors
/// Limit if all numbers are used up.
pub fn next_order(last: Option<u32>) -> Result<u16> {
    fit(last.map_or(0, |last| last.saturating_add(1)), "as the creation order of an attribute")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::LibVersion;
    use crate::encode::blocks::one_after_another;
    use crate::encode::message::attribute_info::{self, AttributeInfo};
    use crate::encode::message::{ATTRIBUTE_INFO, attribute};
    use crate::encode::object_header::{self, HeaderOptions, Message};
    use crate::model::{Attribute, ByteOrder, CharacterSet, Dataspace, Datatype};
    use crate::parse;
    use crate::parse::testing::with_image;

    fn attributes(count: usize, tracked: bool) -> Vec<Attribute> {
        let attribute = |number: usize| {
            let size = [1, 10, 100, 4000, 70_000][number % if count > 1000 { 3 } else { 5 }];
            Attribute {
                name: format!("é {}", number.wrapping_mul(7919) % count).as_str().into(),
                charset: CharacterSet::Utf8,
                datatype: Datatype::integer(1, false, ByteOrder::Little),
                committed: None,
                dataspace: Dataspace::Simple { dims: vec![size], max: vec![Some(size)] },
                data: vec![number as u8; size as usize],
                creation_order: tracked.then_some(number as u32),
            }
        };
        (0..count).map(attribute).collect()
    }

    fn encoded(attributes: &[Attribute]) -> Vec<(Name, Option<u32>, Vec<u8>)> {
        let encoded = |a: &Attribute| {
            (a.name.clone(), a.creation_order, attribute::encode(a, LibVersion::V18).unwrap())
        };
        attributes.iter().map(encoded).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        for count in [0, 1, 9, 200, 3000] {
            for (tracked, indexed) in [(false, false), (true, false), (true, true)] {
                let mut attributes = attributes(count, tracked);
                let base = 500;
                let dense = dense(&encoded(&attributes), indexed, &mut one_after_another(base)).unwrap();
                let info = AttributeInfo {
                    next_order: tracked.then_some(count as u16),
                    indexed,
                    heap: Some(dense.heap),
                    by_name: Some(dense.by_name),
                    by_order: dense.by_order,
                };
                let data = attribute_info::encode(&info).unwrap();
                let message = Message { kind: ATTRIBUTE_INFO, flags: 0, creation_order: None, data };
                let mut file = object_header::encode(&[message], &HeaderOptions::default()).unwrap();
                file.resize(base as usize, 0);
                file.extend(dense.blocks.bytes);
                with_image(&file, |image| {
                    let header = parse::object_header::parse(image, 0).unwrap();
                    for attribute in attributes.iter().step_by(13) {
                        let name = attribute.name.as_bytes();
                        let found = parse::attributes::find(image, &header, name).unwrap();
                        assert!(found.as_ref() == Some(attribute));
                    }
                    attributes.sort_by(|a, b| a.name.cmp(&b.name));
                    assert!(parse::attributes::all(image, &header).unwrap() == attributes);
                    if let Some(by_order) = dense.by_order {
                        let tree = parse::btree_v2::BTree::open(image, by_order, &[BY_ORDER]).unwrap();
                        let records = tree.records(image).unwrap();
                        let orders = records.chunks_exact(13).map(|r| r[9..13].try_into().unwrap());
                        let orders: Vec<u32> = orders.map(u32::from_le_bytes).collect();
                        assert_eq!(orders, (0..count as u32).collect::<Vec<_>>());
                    }
                });
            }
        }
    }

    #[test]
    fn what_contradicts_itself_is_not_written() {
        let check = |change: &dyn Fn(&mut Vec<Attribute>), indexed, written: bool| {
            let mut attributes = attributes(9, true);
            change(&mut attributes);
            assert_eq!(dense(&encoded(&attributes), indexed, &mut one_after_another(0)).is_ok(), written);
        };
        check(&|_| (), true, true);
        check(&|all| all[3].name = all[4].name.clone(), false, false);
        check(&|all| all[3].creation_order = Some(4), true, false);
        check(&|all| all[3].creation_order = Some(4), false, true);
        check(&|all| all[3].creation_order = None, true, false);
        check(&|all| all[3].creation_order = Some(65_535), false, false);
        assert_eq!(next_order(None).unwrap(), 0);
        assert_eq!(next_order(Some(65_534)).unwrap(), 65_535);
        assert!(next_order(Some(65_535)).is_err());
    }
}
