//! Shared messages: the data of a message that lie in a committed datatype or in the heap of shared messages. Source:
//! specification §IV.A.2, "shared message" versions 1 to 3.

use super::{DATATYPE, SHARED};
use crate::model::RawMessage;
use crate::parse::{object_header, shared_messages};
use crate::{Cursor, Image, Result};
use std::borrow::Cow;

const STRUCTURE: &str = "shared message";
/// How often a shared message may lead to another. Libraries write messages that lead to plain ones only.
const DEEPEST: u32 = 4;

/// A message's data, wherever they lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body<'a> {
    /// The data.
    pub data: Cow<'a, [u8]>,
    /// Where they lie in the file; 0 if in a heap.
    pub offset: u64,
    /// The committed datatype that they are the type of, by the address of its header.
    pub committed: Option<u64>,
}

impl Body<'_> {
    /// A cursor at the start of the data.
    #[must_use]
    pub fn cursor(&self, structure: &'static str) -> Cursor<'_> {
        Cursor::new(&self.data, structure, self.offset)
    }
}

/// The data of a message: its own, or those that it leads to.
///
/// # Errors
/// Corrupt if it leads nowhere.
pub fn resolve<'m>(image: Image<'_>, message: &'m RawMessage) -> Result<Body<'m>> {
    if message.flags & SHARED == 0 {
        return Ok(Body { data: Cow::Borrowed(&message.data), offset: message.offset, committed: None });
    }
    follow(image, message.kind, &mut super::cursor(message, STRUCTURE), DEEPEST)
}

/// The data of the message of type `kind` that a shared message's own data lead to.
///
/// # Errors
/// Corrupt if they lead nowhere.
pub fn resolve_data(image: Image<'_>, kind: u16, cursor: &mut Cursor<'_>) -> Result<Body<'static>> {
    follow(image, kind, cursor, DEEPEST)
}

/// Where a shared message's data lie.
enum Place {
    /// In an object's header, by its address.
    Committed(u64),
    /// In the heap of shared messages, by its id.
    Heap([u8; 8]),
}

fn place(image: Image<'_>, cursor: &mut Cursor<'_>) -> Result<Place> {
    let version = cursor.version(1..=3)?;
    let class = cursor.u8()?;
    match version {
        // A symbol table entry: its name's offset, then the object's address.
        1 => cursor.skip(usize::from(image.sizes.length).saturating_add(6))?,
        3 if class == 1 => return cursor.array().map(Place::Heap),
        _ => {}
    }
    let address = cursor.address(image.sizes)?;
    address.map(Place::Committed).ok_or_else(|| cursor.error("the address of the object is undefined".into()))
}

fn follow(image: Image<'_>, kind: u16, cursor: &mut Cursor<'_>, depth: u32) -> Result<Body<'static>> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(cursor.error("shared messages lead to each other".into()));
    };
    match place(image, cursor)? {
        Place::Heap(id) => {
            let data = shared_messages::heap(image, kind)?.object(image, &id)?;
            Ok(Body { data: Cow::Owned(data), offset: 0, committed: None })
        }
        Place::Committed(address) => {
            let header = object_header::parse(image, address)?;
            let Some(message) = header.messages.into_iter().find(|message| message.kind == kind) else {
                return Err(
                    cursor.error(format!("the object at {address:#x} has no message of type {kind:#06x}"))
                );
            };
            let mut body = if message.flags & SHARED == 0 {
                Body { data: Cow::Owned(message.data.to_vec()), offset: message.offset, committed: None }
            } else {
                follow(image, kind, &mut super::cursor(&message, STRUCTURE), depth)?
            };
            body.committed = (kind == DATATYPE).then_some(address);
            Ok(body)
        }
    }
}
