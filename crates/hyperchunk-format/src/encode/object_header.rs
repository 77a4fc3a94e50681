//! Object headers of version 2. Source: specification §IV.A.1.b, "Version 2 Data Object Header Prefix".

use super::{Bytes, fit};
use crate::checksum::lookup3;
use crate::model::Times;
use crate::parse::message::CONTINUATION;
use crate::{Error, Result};

const STRUCTURE: &str = "object header";

/// Size of the body of a continuation message. A header needs a message at least as large: when the header
/// grows, libhdf5 moves such a message and puts its continuation message there. It writes past smaller ones
/// without an error.
const CONTINUATION_BYTES: usize = 16;
/// Type of a NIL message.
const NIL: u16 = 0;

/// Message of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Message type number.
    pub kind: u16,
    /// Message flags.
    pub flags: u8,
    /// Creation order of an attribute, where it is tracked; 0 for other messages.
    pub creation_order: Option<u16>,
    /// Message body.
    pub data: Vec<u8>,
}

/// Properties of a header besides its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeaderOptions {
    /// Access, modification, change and birth time.
    pub times: Option<Times>,
    /// True if the creation order of attributes is tracked.
    pub attribute_order_tracked: bool,
    /// True if the creation order of attributes is indexed; requires tracking.
    pub attribute_order_indexed: bool,
}

impl HeaderOptions {
    fn flags(&self) -> Result<u8> {
        if self.attribute_order_indexed && !self.attribute_order_tracked {
            let message = "the creation order of attributes is indexed but not tracked";
            return Err(Error::invalid(message).within(STRUCTURE));
        }
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        Ok(flag(self.attribute_order_tracked, 0x04)
            | flag(self.attribute_order_indexed, 0x08)
            | flag(self.times.is_some(), 0x20))
    }
}

/// Replaces the body of the first message of a kind, in an encoded header of one block, by one of the same
/// size.
///
/// # Errors
/// Invalid if there is no such message, or it has another size.
pub fn replace(header: &mut [u8], kind: u16, data: &[u8]) -> Result<()> {
    let wrong = || {
        let message = format!("the header has no message of type {kind} with {} bytes", data.len());
        Error::invalid(message).within(STRUCTURE)
    };
    let flags = *header.get(5).ok_or_else(wrong)?;
    let optional = [(0x20, 16_usize), (0x10, 4)].into_iter().filter(|(flag, _)| flags & flag != 0);
    let mut at = optional.fold(6_usize, |at, (_, size)| at.saturating_add(size));
    let width = 1_usize << (flags & 3);
    let size = header.get(at..at.saturating_add(width)).ok_or_else(wrong)?;
    let size = size.iter().rev().fold(0_usize, |size, byte| (size << 8) | usize::from(*byte));
    at = at.saturating_add(width);
    let end = at.saturating_add(size);
    let prefix = if flags & 0x04 == 0 { 4 } else { 6 };
    while let Some(&[found, low, high]) = header.get(at..at.saturating_add(3)) {
        let body = at.saturating_add(prefix);
        at = body.saturating_add(u16::from_le_bytes([low, high]).into());
        if at > end {
            break;
        }
        if u16::from(found) == kind {
            let place = header.get_mut(body..at).filter(|place| place.len() == data.len());
            place.ok_or_else(wrong)?.copy_from_slice(data);
            let (covered, sum) = header.split_at_mut_checked(end).ok_or_else(wrong)?;
            let sum = sum.get_mut(..4).ok_or_else(wrong)?;
            sum.copy_from_slice(&lookup3(covered).to_le_bytes());
            return Ok(());
        }
    }
    Err(wrong())
}

/// Encodes a header in one block.
///
/// # Errors
/// Limit if a message is too large; Invalid if the options are contradictory.
pub fn encode(messages: &[Message], options: &HeaderOptions) -> Result<Vec<u8>> {
    let body = body(messages, options)?;
    // The size of the messages takes 1, 2, 4 or 8 bytes.
    let power: u8 = match body.len() {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        _ => 2,
    };
    fit::<u32, _>(body.len(), "bytes of messages in one block")?;
    let mut bytes = Bytes::with_capacity(body.len().saturating_add(32));
    bytes.raw(b"OHDR").u8(2).u8(options.flags()? | power);
    if let Some(times) = options.times {
        bytes.u32(times.access).u32(times.modification).u32(times.change).u32(times.birth);
    }
    bytes.uint(body.len() as u64, 1 << power)?.raw(&body).checksum();
    Ok(bytes.into_vec())
}

/// Returns the size of a header with only a continuation message, for an object whose address is needed
/// before its messages are known.
#[must_use]
pub fn pinned_size(options: &HeaderOptions) -> u64 {
    // The size does not depend on the continuation's content.
    encode_pinned(0, 0, options).map_or(0, |bytes| bytes.len() as u64)
}

/// Encodes a header that only points to the block with its messages: `length` bytes from
/// [`encode_continuation`], placed at `continuation`.
///
/// # Errors
/// Invalid if the options are contradictory.
pub fn encode_pinned(continuation: u64, length: u64, options: &HeaderOptions) -> Result<Vec<u8>> {
    let mut data = Bytes::with_capacity(16);
    data.u64(continuation).u64(length);
    let message = Message { kind: CONTINUATION, flags: 0, creation_order: None, data: data.into_vec() };
    encode(&[message], options)
}

/// Encodes the block with the messages of a pinned header.
///
/// # Errors
/// As [`encode`].
pub fn encode_continuation(messages: &[Message], options: &HeaderOptions) -> Result<Vec<u8>> {
    let body = body(messages, options)?;
    options.flags()?;
    let mut bytes = Bytes::with_capacity(body.len().saturating_add(8));
    bytes.raw(b"OCHK").raw(&body).checksum();
    Ok(bytes.into_vec())
}

/// Returns the NIL message that a header with these messages needs, so that libhdf5 has space for a
/// continuation message; `None` if one of the messages is large enough. The functions of this module encode
/// it after the others.
#[must_use]
pub fn room(messages: &[Message]) -> Option<Message> {
    let is_missing = messages.iter().all(|message| message.data.len() < CONTINUATION_BYTES);
    let data = vec![0; CONTINUATION_BYTES];
    is_missing.then_some(Message { kind: NIL, flags: 0, creation_order: None, data })
}

/// Encodes the messages with their prefixes.
fn body(messages: &[Message], options: &HeaderOptions) -> Result<Vec<u8>> {
    let mut body = Bytes::new();
    for message in messages.iter().chain(&room(messages)) {
        let what = "bytes of one message";
        let size = fit::<u16, _>(message.data.len(), what).map_err(|error| error.within(STRUCTURE))?;
        body.u8(fit(message.kind, "as a message type")?).u16(size).u8(message.flags);
        if options.attribute_order_tracked {
            body.u16(message.creation_order.unwrap_or(0));
        }
        body.raw(&message.data);
    }
    Ok(body.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::parse::testing::with_image;

    #[test]
    fn test_header_has_room_for_a_continuation_message() {
        let message = |size| Message { kind: 3, flags: 0, creation_order: None, data: vec![1; size] };
        let sizes = |messages: &[Message]| {
            let file = encode(messages, &HeaderOptions::default()).unwrap();
            // Prefix and size of the messages, the messages with 4 bytes before each, a checksum.
            file.len() - 7 - 4
        };
        assert_eq!(sizes(&[message(12)]), 4 + 12 + 4 + 16);
        assert_eq!(sizes(&[message(12), message(15)]), 4 + 12 + 4 + 15 + 4 + 16);
        assert_eq!(sizes(&[message(12), message(16)]), 4 + 12 + 4 + 16);
        assert_eq!(sizes(&[]), 4 + 16);
    }

    fn messages(sizes: &[usize]) -> Vec<Message> {
        let message = |(number, size): (usize, &usize)| Message {
            kind: [3, 12, 6][number % 3],
            flags: (number % 2) as u8,
            creation_order: Some(number as u16),
            data: vec![number as u8; *size],
        };
        sizes.iter().enumerate().map(message).collect()
    }

    fn options() -> impl Iterator<Item = HeaderOptions> {
        let times = Times { access: 1, modification: 2, change: 3, birth: 4 };
        [(false, false), (true, false), (true, true)].into_iter().flat_map(move |(tracked, indexed)| {
            [None, Some(times)].into_iter().map(move |times| HeaderOptions {
                times,
                attribute_order_tracked: tracked,
                attribute_order_indexed: indexed,
            })
        })
    }

    fn check(file: &[u8], written: &[Message], options: &HeaderOptions) {
        let found = with_image(file, |image| parse::object_header::parse(image, 0)).unwrap();
        assert_eq!((found.version, found.times, found.reference_count), (2, options.times, 1));
        assert_eq!(found.attribute_order_tracked, options.attribute_order_tracked);
        assert_eq!(found.attribute_order_indexed, options.attribute_order_indexed);
        assert_eq!(found.messages.len(), written.len());
        for (found, written) in found.messages.iter().zip(written) {
            assert_eq!(
                (found.kind, found.flags, &*found.data),
                (written.kind, written.flags, &*written.data)
            );
            let order = if options.attribute_order_tracked { written.creation_order } else { None };
            assert_eq!(found.creation_order, order);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for sizes in [&[][..], &[0], &[1, 2, 3], &[251], &[252], &[300, 5], &[65_535], &[65_535, 9, 65_535]] {
            for options in options() {
                let messages = messages(sizes);
                check(&encode(&messages, &options).unwrap(), &messages, &options);
                if messages.is_empty() {
                    continue;
                }
                let block = encode_continuation(&messages, &options).unwrap();
                let pinned = encode_pinned(100, block.len() as u64, &options).unwrap();
                assert_eq!(pinned.len() as u64, pinned_size(&options));
                let mut file = pinned;
                file.resize(100, 0);
                file.extend(block);
                check(&file, &messages, &options);
            }
        }
    }

    #[test]
    fn what_cannot_be_stored_is_not_written() {
        let error = encode(&messages(&[65_536]), &HeaderOptions::default()).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Limit);
        let options = HeaderOptions { attribute_order_indexed: true, ..HeaderOptions::default() };
        assert_eq!(encode(&[], &options).unwrap_err().kind(), crate::ErrorKind::Invalid);
        assert!(encode_continuation(&messages(&[1]), &options).is_err());
    }

    #[test]
    fn a_message_is_replaced_in_place() {
        for options in options() {
            let mut written = messages(&[20, 300, 7]);
            let mut file = encode(&written, &options).unwrap();
            let kind = written[2].kind;
            written[2].data = vec![9; 7];
            replace(&mut file, kind, &[9; 7]).unwrap();
            check(&file, &written, &options);
            let before = file.clone();
            for (kind, data) in [(kind, &[9; 300][..]), (99, &[9; 7])] {
                assert!(replace(&mut file, kind, data).is_err());
            }
            for length in 0..file.len() {
                // A header that is cut off has no room for the checksum.
                let mut cut = file[..length].to_vec();
                assert!(replace(&mut cut, kind, &[8; 7]).is_err(), "{length}");
            }
            assert_eq!(file, before);
        }
    }
}
