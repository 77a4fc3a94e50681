//! Shared messages, whose data are in a committed datatype or in the heap of shared messages. Source:
//! specification §IV.A.2, "shared message" versions 1 to 3.

use super::{DATATYPE, SHARED};
use crate::model::RawMessage;
use crate::parse::{object_header, shared_messages};
use crate::{Cursor, Image, Result};
use std::borrow::Cow;

const STRUCTURE: &str = "shared message";
/// Maximum length of a chain of shared messages. Libraries only write shared messages that point to plain
/// ones.
const MAX_DEPTH: u32 = 4;

/// Data of a message: its own, or shared data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body<'a> {
    /// Message data.
    pub data: Cow<'a, [u8]>,
    /// Offset of the data in the file; 0 if they are in a heap.
    pub offset: u64,
    /// Address of the object header of the committed datatype, if the data are from one.
    pub committed: Option<u64>,
}

impl Body<'_> {
    /// Creates a cursor at the start of the data.
    #[must_use]
    pub fn cursor(&self, structure: &'static str) -> Cursor<'_> {
        Cursor::new(&self.data, structure, self.offset)
    }
}

/// Returns the data of a message: its own, or the shared ones it points to.
///
/// # Errors
/// Corrupt if its target does not exist.
pub fn resolve<'m>(image: Image<'_>, message: &'m RawMessage) -> Result<Body<'m>> {
    if message.flags & SHARED == 0 {
        return Ok(Body { data: Cow::Borrowed(&message.data), offset: message.offset, committed: None });
    }
    follow(image, message.kind, &mut super::cursor(message, STRUCTURE), MAX_DEPTH)
}

/// Returns the data of the message of type `kind` to which a shared message's data point.
///
/// # Errors
/// Corrupt if the target does not exist.
pub fn resolve_data(image: Image<'_>, kind: u16, cursor: &mut Cursor<'_>) -> Result<Body<'static>> {
    follow(image, kind, cursor, MAX_DEPTH)
}

/// Location of a shared message's data.
enum Place {
    /// Object header, by its address.
    Committed(u64),
    /// Heap of shared messages, by heap id.
    Heap([u8; 8]),
}

fn place(image: Image<'_>, cursor: &mut Cursor<'_>) -> Result<Place> {
    let version = cursor.version(1..=3)?;
    let class = cursor.u8()?;
    match version {
        // A symbol table entry: the offset of its name, then the address of the object.
        1 => cursor.skip(usize::from(image.sizes.length).saturating_add(6))?,
        3 if class == 1 => return cursor.array().map(Place::Heap),
        _ => {}
    }
    let address = cursor.address(image.sizes)?;
    address.map(Place::Committed).ok_or_else(|| cursor.error("the address of the object is undefined".into()))
}

fn follow(image: Image<'_>, kind: u16, cursor: &mut Cursor<'_>, depth: u32) -> Result<Body<'static>> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(cursor.error("a chain of shared messages that is too long or a cycle".into()));
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
