//! Object headers of versions 1 and 2: a prefix and messages, in a chain of blocks. Source: specification
//! §IV.A.1.

use super::budget::Budget;
use super::message;
use crate::model::{ObjectHeader, Part, RawMessage, Times};
use crate::{Cursor, Error, Image, Result};
use std::collections::HashSet;
use std::sync::Arc;

const STRUCTURE: &str = "object header";
/// Size of the first read, in bytes. The first block of most headers fits in it.
const SPECULATIVE_BYTES: u64 = 512;
/// Initial capacity of the list of messages.
const USUAL_MESSAGES: usize = 8;

/// Reads the object header at an address, with the messages of all its blocks.
///
/// # Errors
/// Truncated or Corrupt if it is damaged; Unsupported if its version is unknown, or a message flagged as
/// mandatory for readers.
pub fn parse(image: Image<'_>, address: u64) -> Result<ObjectHeader> {
    let bytes = image.read_up_to(STRUCTURE, address, SPECULATIVE_BYTES)?;
    let mut cursor = image.cursor(&bytes, STRUCTURE, address);
    let prefix = if bytes.starts_with(b"OHDR") { prefix_2(&mut cursor)? } else { prefix_1(&mut cursor)? };
    let start = cursor.position();
    let length = (start as u64).checked_add(prefix.length).and_then(|end| end.checked_add(prefix.closing()));
    let length = length.ok_or_else(|| {
        cursor.error(format!("a first block of {} bytes, larger than the address space", prefix.length))
    })?;
    let bytes = match usize::try_from(length).ok().and_then(|length| bytes.get(..length)) {
        Some(bytes) => bytes.into(),
        None => image.read(STRUCTURE, address, length)?,
    };
    let mut budget = Budget::new(&image, STRUCTURE);
    budget.take(length)?;
    let mut blocks = Blocks {
        address,
        prefix,
        messages: Vec::with_capacity(USUAL_MESSAGES),
        continuations: Vec::new(),
        found: Vec::new(),
        first_block_bytes: length,
        budget,
        seen: HashSet::new(),
        count_so_far: 0,
    };
    let bytes = blocks.checked(image, &bytes, address)?;
    blocks.messages(image, bytes, address, start)?;
    if blocks.prefix.count.is_some_and(|count| usize::from(count) < blocks.count_so_far) {
        return Err(cursor.error(format!(
            "{} messages in the first block, more than in the whole header",
            blocks.count_so_far
        )));
    }
    blocks.follow(image)?;
    blocks.header()
}

/// Fields before the messages.
struct Prefix {
    version: u8,
    flags: u8,
    /// Size of the messages in the first block, in bytes.
    length: u64,
    /// Version 1: number of messages, and number of hard links to the object.
    count: Option<u16>,
    references: u32,
    times: Option<Times>,
}

impl Prefix {
    /// Returns the size of the checksum at the end of a block.
    fn closing(&self) -> u64 {
        if self.version == 1 { 0 } else { 4 }
    }

    /// True if messages have a creation order.
    fn ordered(&self) -> bool {
        self.flags & 0x04 != 0
    }

    /// Returns the size of the prefix of each message.
    fn message_prefix(&self) -> usize {
        match (self.version, self.ordered()) {
            (1, _) => 8,
            (_, true) => 6,
            (_, false) => 4,
        }
    }
}

fn prefix_1(cursor: &mut Cursor<'_>) -> Result<Prefix> {
    cursor.version(1..=1)?;
    cursor.skip(1)?;
    let count = cursor.u16()?;
    let references = cursor.u32()?;
    let length = u64::from(cursor.u32()?);
    cursor.skip(4)?;
    if (count > 0 && length < 8) || (count == 0 && length > 0) {
        return Err(cursor.error(format!("{count} messages in {length} bytes")));
    }
    Ok(Prefix { version: 1, flags: 0, length, count: Some(count), references, times: None })
}

fn prefix_2(cursor: &mut Cursor<'_>) -> Result<Prefix> {
    cursor.signature(b"OHDR")?;
    let version = cursor.version(2..=2)?;
    let flags = cursor.u8()?;
    if flags & !0x3f != 0 {
        return Err(cursor.error(format!("unknown flags {flags:#04x}")));
    }
    let mut times = None;
    if flags & 0x20 != 0 {
        let [access, modification, change, birth] =
            [cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?];
        times = Some(Times { access, modification, change, birth });
    }
    if flags & 0x10 != 0 {
        let (max_compact, min_dense) = (cursor.u16()?, cursor.u16()?);
        if max_compact < min_dense {
            return Err(cursor.error(format!(
                "at most {max_compact} compact attributes, fewer than the at least {min_dense} dense ones"
            )));
        }
    }
    let length = cursor.uint(1 << (flags & 0x03))?;
    let prefix = Prefix { version, flags, length, count: None, references: 1, times };
    if length > 0 && length < prefix.message_prefix() as u64 {
        return Err(cursor.error(format!("a first block of {length} bytes, too short for a message")));
    }
    Ok(prefix)
}

/// Object header under construction.
struct Blocks {
    address: u64,
    prefix: Prefix,
    messages: Vec<RawMessage>,
    /// Blocks not read yet: address and size.
    continuations: Vec<(u64, u64)>,
    /// All continuation blocks found so far.
    found: Vec<(u64, u64)>,
    first_block_bytes: u64,
    budget: Budget,
    /// Addresses of the continuation blocks already found.
    seen: HashSet<u64>,
    /// Number of messages in the blocks read, including NIL messages.
    count_so_far: usize,
}

impl Blocks {
    /// Verifies the checksum of a block, which version 1 does not have, and returns the bytes before it.
    fn checked<'b>(&self, image: Image<'_>, bytes: &'b [u8], address: u64) -> Result<&'b [u8]> {
        if self.prefix.version == 1 { Ok(bytes) } else { image.checked(bytes, STRUCTURE, address) }
    }

    /// Reads the continuation blocks. The blocks known at the same time are fetched together.
    fn follow(&mut self, image: Image<'_>) -> Result<()> {
        const STRUCTURE: &str = "object header continuation block";
        while !self.continuations.is_empty() {
            let known = std::mem::take(&mut self.continuations);
            image.will_need(&known);
            let blocks =
                image.all(known, |(address, size)| Ok((address, image.read(STRUCTURE, address, size)?)))?;
            for (address, bytes) in blocks {
                let bytes = self.checked(image, &bytes, address)?;
                let mut cursor = image.cursor(bytes, STRUCTURE, address);
                if self.prefix.version > 1 {
                    cursor.signature(b"OCHK")?;
                }
                self.messages(image, bytes, address, cursor.position())?;
            }
        }
        Ok(())
    }

    /// Reads the messages of one block, the first of which is at `start`.
    fn messages(&mut self, image: Image<'_>, bytes: &[u8], address: u64, start: usize) -> Result<()> {
        let block: Arc<[u8]> = bytes.into();
        let mut cursor = image.cursor(&block, STRUCTURE, address);
        cursor.skip(start)?;
        let mut nulls = false;
        while cursor.left() > 0 {
            let gap = cursor.left();
            if gap < self.prefix.message_prefix() {
                if self.prefix.version == 1 || nulls {
                    return Err(cursor.error(format!("{gap} bytes after the last message")));
                }
                return Ok(());
            }
            image.visit()?;
            self.count_so_far = self.count_so_far.saturating_add(1);
            let raw = self.message(&block, &mut cursor)?;
            nulls |= raw.kind == message::NULL;
            self.keep(image, raw)?;
        }
        Ok(())
    }

    fn message(&self, block: &Arc<[u8]>, cursor: &mut Cursor<'_>) -> Result<RawMessage> {
        let version_1 = self.prefix.version == 1;
        let kind = if version_1 { cursor.u16()? } else { cursor.u8()?.into() };
        let size = usize::from(cursor.u16()?);
        if version_1 && size % 8 != 0 {
            return Err(cursor.error(format!("a message of {size} bytes, expected a multiple of 8")));
        }
        let flags = cursor.u8()?;
        let mut creation_order = None;
        if version_1 {
            cursor.skip(3)?;
        } else if self.prefix.ordered() {
            creation_order = Some(cursor.u16()?);
        }
        let offset = cursor.offset();
        check_flags(cursor, kind, flags)?;
        let start = cursor.position();
        cursor.skip(size)?;
        let data = Part::new(block, start..cursor.position());
        Ok(RawMessage { kind, flags, creation_order, offset, data })
    }

    fn keep(&mut self, image: Image<'_>, raw: RawMessage) -> Result<()> {
        match raw.kind {
            message::NULL => {}
            message::CONTINUATION => {
                let mut cursor = message::cursor(&raw, "continuation message");
                let address = cursor.address(image.sizes)?;
                let size = cursor.length(image.sizes)?;
                self.budget.take(size)?;
                match address {
                    Some(address) if size > 0 && address != self.address && self.seen.insert(address) => {
                        self.continuations.push((address, size));
                        self.found.push((address, size));
                    }
                    _ => {
                        return Err(cursor.error("a continuation block that is empty or already read".into()));
                    }
                }
            }
            message::REFERENCE_COUNT => {
                let mut cursor = message::cursor(&raw, "reference count message");
                if self.prefix.version == 1 {
                    return Err(cursor.error(
                        "a reference count message in a header of version 1, whose prefix has the count"
                            .into(),
                    ));
                }
                cursor.version(0..=0)?;
                self.prefix.references = cursor.u32()?;
            }
            _ => self.messages.push(raw),
        }
        Ok(())
    }

    fn header(self) -> Result<ObjectHeader> {
        Ok(ObjectHeader {
            address: self.address,
            version: self.prefix.version,
            reference_count: self.prefix.references,
            times: self.prefix.times,
            attribute_order_tracked: self.prefix.flags & 0x04 != 0,
            attribute_order_indexed: self.prefix.flags & 0x08 != 0,
            first_block_bytes: self.first_block_bytes,
            continuations: self.found,
            messages: self.messages,
        })
    }
}

/// Refuses a message whose flags contradict each other or its type, or one that readers may not ignore.
fn check_flags(cursor: &Cursor<'_>, kind: u16, flags: u8) -> Result<()> {
    const DO_NOT_SHARE: u8 = 0x04;
    const FAIL_TO_WRITE: u8 = 0x08;
    const MARK_IF_UNKNOWN: u8 = 0x10;
    const WAS_UNKNOWN: u8 = 0x20;
    const SHAREABLE: u8 = 0x40;
    const FAIL_IF_UNKNOWN: u8 = 0x80;
    let set = |flag: u8| flags & flag != 0;
    let contradict = set(message::SHARED) && set(DO_NOT_SHARE)
        || set(WAS_UNKNOWN) && (set(FAIL_TO_WRITE) || !set(MARK_IF_UNKNOWN));
    if contradict {
        return Err(cursor.error(format!("flags {flags:#04x} of a message contradict each other")));
    }
    if !message::known(kind) {
        if set(FAIL_IF_UNKNOWN) {
            let message = format!("an unknown message of type {kind:#06x}, which readers may not ignore");
            return Err(Error::unsupported(message).within(STRUCTURE).at(cursor.offset()));
        }
    } else if set(message::SHARED | SHAREABLE) && !message::shareable(kind) {
        return Err(cursor.error(format!("a shared message of type {kind:#06x}, which cannot be shared")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
