//! The attributes of an object, wherever they are stored. Source: specification §IV.A.2.m and v; HDF5 2.x `H5Oattribute.c`
//! for which storage wins.

use super::message::attribute_info::AttributeInfo;
use super::message::shared::{self, Body};
use super::message::{self, attribute, attribute_info};
use super::object::find as find_message;
use crate::model::{Attribute, Name, ObjectHeader};
use crate::{Error, Image, Result};

const STRUCTURE: &str = "attribute message";

/// What an object's header says of its attributes.
///
/// # Errors
/// Corrupt or Unsupported if the message is damaged.
pub fn info(image: Image<'_>, header: &ObjectHeader) -> Result<Option<AttributeInfo>> {
    find_message(header, message::ATTRIBUTE_INFO)
        .map(|raw| attribute_info::parse(&mut message::cursor(raw, "attribute info message"), image.sizes))
        .transpose()
}

/// The attributes by name.
///
/// # Errors
/// Corrupt, Truncated or Unsupported if one is damaged.
pub fn all(image: Image<'_>, header: &ObjectHeader) -> Result<Vec<Attribute>> {
    each(image, header)?.into_iter().map(|(_, attribute)| attribute).collect()
}

/// The attributes by name, each with what is wrong with it.
///
/// # Errors
/// Corrupt, Truncated or Unsupported if they cannot be listed.
pub fn each(image: Image<'_>, header: &ObjectHeader) -> Result<Vec<(Name, Result<Attribute>)>> {
    let stored = stored(image, header)?;
    let mut attributes = image.all(&stored, |stored| {
        let name = stored.name()?;
        match stored.attribute(image) {
            Err(error) if error.is_need() => Err(error),
            attribute => Ok((name, attribute)),
        }
    })?;
    attributes.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(attributes)
}

/// The names of the attributes, in order.
///
/// # Errors
/// Corrupt, Truncated or Unsupported if they cannot be listed.
pub fn names(image: Image<'_>, header: &ObjectHeader) -> Result<Vec<Name>> {
    let mut names: Vec<Name> = stored(image, header)?.iter().map(Stored::name).collect::<Result<_>>()?;
    names.sort_unstable();
    Ok(names)
}

/// How many attributes there are.
///
/// # Errors
/// Corrupt, Truncated or Unsupported if they cannot be listed.
pub fn count(image: Image<'_>, header: &ObjectHeader) -> Result<u64> {
    match dense(image, header)? {
        Some(_) => Err(Error::unsupported("attributes in a heap")),
        None => Ok(compact(header).count() as u64),
    }
}

/// The attribute of that name.
///
/// # Errors
/// Corrupt, Truncated or Unsupported if it is damaged.
pub fn find(image: Image<'_>, header: &ObjectHeader, name: &[u8]) -> Result<Option<Attribute>> {
    if dense(image, header)?.is_some() {
        return Err(Error::unsupported("attributes in a heap"));
    }
    for stored in stored(image, header)? {
        if stored.name()?.as_bytes() == name {
            return stored.attribute(image).map(Some);
        }
    }
    Ok(None)
}

/// An attribute whose message was found, but not parsed.
struct Stored<'h> {
    body: Body<'h>,
    creation_order: Option<u32>,
}

impl Stored<'_> {
    fn name(&self) -> Result<Name> {
        attribute::parse_name(&mut self.body.cursor(STRUCTURE))
    }

    fn attribute(&self, image: Image<'_>) -> Result<Attribute> {
        let attribute = attribute::parse(image, &mut self.body.cursor(STRUCTURE))?;
        Ok(Attribute { creation_order: self.creation_order, ..attribute })
    }
}

/// The heap and the B-tree by name, where attributes are not in the header.
fn dense(image: Image<'_>, header: &ObjectHeader) -> Result<Option<(u64, u64)>> {
    let Some(AttributeInfo { heap: Some(heap), by_name, .. }) = info(image, header)? else { return Ok(None) };
    let by_name = by_name.ok_or_else(|| {
        Error::corrupt("attributes in a heap without a B-tree by name").within("attribute info message")
    })?;
    Ok(Some((heap, by_name)))
}

fn compact(header: &ObjectHeader) -> impl Iterator<Item = &crate::model::RawMessage> {
    header.messages.iter().filter(|raw| raw.kind == message::ATTRIBUTE)
}

fn stored<'h>(image: Image<'_>, header: &'h ObjectHeader) -> Result<Vec<Stored<'h>>> {
    if dense(image, header)?.is_some() {
        return Err(Error::unsupported("attributes in a heap"));
    }
    image.all(compact(header), |raw| {
        let creation_order = raw.creation_order.map(u32::from);
        Ok(Stored { body: shared::resolve(image, raw)?, creation_order })
    })
}
