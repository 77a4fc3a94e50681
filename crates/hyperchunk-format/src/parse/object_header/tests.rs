use super::*;
use crate::checksum::lookup3;
use crate::{ErrorKind, Fuel, Limits, Sizes};

fn parsed(file: &[u8]) -> Result<ObjectHeader> {
    let (limits, sizes) = (Limits::default(), Sizes { address: 4, length: 4 });
    parse(Image::new(&file, 0, sizes, &limits, &Fuel::new(&limits)), 0)
}

/// Checks the types and sizes of the retained messages.
fn check(file: &[u8], expected: &[(u16, usize)]) {
    let header = parsed(file).unwrap();
    let found: Vec<_> = header.messages.iter().map(|message| (message.kind, message.data.len())).collect();
    assert_eq!(found, expected);
}

fn refused(file: &[u8], kind: ErrorKind) {
    assert_eq!(
        parsed(file).map(|header| header.messages).map_err(|error| error.kind()),
        Err(kind),
        "{file:?}"
    );
}

/// Creates a version 1 message.
fn message_1(kind: u16, flags: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend((data.len() as u16).to_le_bytes());
    bytes.extend([flags, 0, 0, 0]);
    bytes.extend(data);
    bytes
}

fn header_1(count: u16, messages: &[Vec<u8>]) -> Vec<u8> {
    let messages = messages.concat();
    let mut bytes = vec![1, 0];
    bytes.extend(count.to_le_bytes());
    bytes.extend(7_u32.to_le_bytes());
    bytes.extend((messages.len() as u32).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(messages);
    bytes
}

fn address_and_size(address: u32, size: u32) -> Vec<u8> {
    [address.to_le_bytes(), size.to_le_bytes()].concat()
}

fn closed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(lookup3(&bytes).to_le_bytes());
    bytes
}

fn header_2(flags: u8, between: &[u8], messages: &[u8]) -> Vec<u8> {
    let mut bytes = b"OHDR\x02".to_vec();
    bytes.push(flags);
    bytes.extend(between);
    bytes.push(messages.len() as u8);
    bytes.extend(messages);
    closed(bytes)
}

#[test]
fn version_1() {
    let file = header_1(2, &[message_1(0, 0, &[0; 8]), message_1(1, 0, &[0; 16])]);
    check(&file, &[(1, 16)]);
    assert_eq!(parsed(&file).unwrap().reference_count, 7);
    check(&header_1(0, &[]), &[]);
    // The prefix declares too many messages: an old library's mistake.
    check(&header_1(9, &[message_1(1, 0, &[0; 16])]), &[(1, 16)]);
    refused(&header_1(1, &[message_1(1, 0, &[0; 16]), message_1(1, 0, &[])]), ErrorKind::Corrupt);
    refused(&header_1(1, &[message_1(1, 0, &[0; 7])]), ErrorKind::Corrupt);
    refused(&header_1(1, &[message_1(1, 0, &[0; 8]), vec![0; 4]]), ErrorKind::Corrupt);
    refused(&header_1(1, &[]), ErrorKind::Corrupt);
    refused(&[2; 16], ErrorKind::Unsupported);
}

#[test]
fn continuations_of_version_1() {
    let more = message_1(3, 0, &[0; 8]);
    let file = |address, size| {
        let first =
            header_1(3, &[message_1(0x10, 0, &address_and_size(address, size)), message_1(1, 0, &[0; 8])]);
        [first, more.clone()].concat()
    };
    check(&file(48, 16), &[(1, 8), (3, 8)]);
    refused(&file(48, 0), ErrorKind::Corrupt);
    refused(&file(0, 16), ErrorKind::Corrupt);
    refused(&file(48, 17), ErrorKind::Corrupt);
    refused(&file(60, 16), ErrorKind::Truncated);
    refused(&file(u32::MAX, 16), ErrorKind::Corrupt);
}

#[test]
fn a_block_that_continues_itself() {
    let tail = message_1(0x10, 0, &address_and_size(32, 16));
    let first = header_1(2, &[message_1(0x10, 0, &address_and_size(32, 16))]);
    refused(&[first, tail, vec![0; 64]].concat(), ErrorKind::Corrupt);
}

#[test]
fn version_2() {
    check(&header_2(0, &[], &[1, 2, 0, 0, 7, 8]), &[(1, 2)]);
    // A gap shorter than a message's prefix.
    check(&header_2(0, &[], &[1, 2, 0, 0, 7, 8, 0, 0, 0]), &[(1, 2)]);
    refused(&header_2(0, &[], &[0, 1, 0, 0, 7, 0, 0, 0]), ErrorKind::Corrupt);
    let times = [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0];
    let header = parsed(&header_2(0x24, &times, &[0x16, 5, 0, 0, 9, 0, 0, 3, 0, 0, 0])).unwrap();
    assert_eq!(header.times, Some(Times { access: 1, modification: 2, change: 3, birth: 4 }));
    assert_eq!((header.reference_count, header.attribute_order_tracked), (3, true));
    let header = parsed(&header_2(0x04, &[], &[0x0c, 0, 0, 0, 9, 0])).unwrap();
    assert_eq!(header.messages[0].creation_order, Some(9));
    refused(&header_2(0x40, &[], &[]), ErrorKind::Corrupt);
    refused(&header_2(0x10, &[5, 0, 6, 0], &[]), ErrorKind::Corrupt);
    let mut damaged = header_2(0, &[], &[1, 2, 0, 0, 7, 8]);
    damaged[12] ^= 1;
    refused(&damaged, ErrorKind::Corrupt);
}

#[test]
fn continuations_of_version_2() {
    let block = closed(b"OCHK\x03\x01\0\0\x07".to_vec());
    let at = |address: u32, block: &[u8]| {
        let message = [vec![0x10, 8, 0, 0], address_and_size(address, block.len() as u32)].concat();
        [header_2(0, &[], &message), block.to_vec()].concat()
    };
    check(&at(23, &block), &[(3, 1)]);
    refused(&at(23, &closed(b"OHDR\x03\x01\0\0\x07".to_vec())), ErrorKind::Corrupt);
    refused(&at(23, b"OCHK\x03\x01\0\0\x07\0\0\0\0"), ErrorKind::Corrupt);
}

#[test]
fn flags_of_messages() {
    let header = |kind: u8, flags: u8| header_2(0, &[], &[kind, 0, 0, flags]);
    check(&header(0x19, 0x08), &[(0x19, 0)]);
    check(&header(0x19, 0x10), &[(0x19, 0)]);
    refused(&header(0x19, 0x80), ErrorKind::Unsupported);
    refused(&header(0x09, 0x80), ErrorKind::Unsupported);
    check(&header(0x03, 0x80), &[(0x03, 0)]);
    check(&header(0x03, 0x42), &[(0x03, 0)]);
    refused(&header(0x08, 0x02), ErrorKind::Corrupt);
    refused(&header(0x03, 0x06), ErrorKind::Corrupt);
    refused(&header(0x19, 0x28), ErrorKind::Corrupt);
    refused(&header(0x19, 0x20), ErrorKind::Corrupt);
}
