//! Attributes of an object, in any storage. Source: specification §IV.A.2.m and v; HDF5 2.x `H5Oattribute.c`
//! for the precedence of the storages.

use super::btree_v2::BTree;
use super::budget::Budget;
use super::dense_objects::DenseObjects;
use super::message::attribute_info::AttributeInfo;
use super::message::shared::{self, Body};
use super::message::{self, attribute, attribute_info};
use super::object::find as find_message;
use super::shared_messages;
use crate::image::both;
use crate::model::{Attribute, Name, ObjectHeader};
use crate::{Cursor, Error, Image, Result, checksum};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::cmp::Ordering;

const STRUCTURE: &str = "attribute message";
/// Record type of a B-tree of attributes by name.
const BY_NAME: u8 = 8;

/// Reads the attribute info message of an object header, if there is one.
///
/// # Errors
/// Corrupt or Unsupported if the message is damaged.
pub fn info(image: Image<'_>, header: &ObjectHeader) -> Result<Option<AttributeInfo>> {
    find_message(header, message::ATTRIBUTE_INFO)
        .map(|raw| attribute_info::parse(&mut message::cursor(raw, "attribute info message"), image.sizes))
        .transpose()
}

/// Reads all attributes, sorted by name.
///
/// # Errors
/// Corrupt, Truncated or Unsupported if an attribute is damaged.
pub fn all(image: Image<'_>, header: &ObjectHeader) -> Result<Vec<Attribute>> {
    each(image, header)?.into_iter().map(|(_, attribute)| attribute).collect()
}

/// Reads all attributes, sorted by name. A damaged attribute has an error in place of its value.
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

/// Reads the names of the attributes, sorted.
///
/// # Errors
/// Corrupt, Truncated or Unsupported if they cannot be listed.
pub fn names(image: Image<'_>, header: &ObjectHeader) -> Result<Vec<Name>> {
    let mut names: Vec<Name> =
        stored(image, header)?.iter().map(StoredAttribute::name).collect::<Result<_>>()?;
    names.sort_unstable();
    Ok(names)
}

/// Reads the names and the creation order of the attributes, in storage order.
///
/// # Errors
/// Corrupt, Truncated or Unsupported if they cannot be listed.
pub fn listed(image: Image<'_>, header: &ObjectHeader) -> Result<Vec<(Name, Option<u32>)>> {
    stored(image, header)?.iter().map(|stored| Ok((stored.name()?, stored.creation_order))).collect()
}

/// Counts the attributes.
///
/// # Errors
/// Corrupt, Truncated or Unsupported if they cannot be listed.
pub fn count(image: Image<'_>, header: &ObjectHeader) -> Result<u64> {
    // Counted rather than read from the index, which may be damaged.
    Ok(names(image, header)?.len() as u64)
}

/// Finds the attribute with a name.
///
/// # Errors
/// Corrupt, Truncated or Unsupported if it is damaged.
pub fn find(image: Image<'_>, header: &ObjectHeader, name: &[u8]) -> Result<Option<Attribute>> {
    if let Some(dense) = dense(image, header)? {
        return find_dense(image, &dense, name);
    }
    for stored in stored(image, header)? {
        if stored.name()?.as_bytes() == name {
            return stored.attribute(image).map(Some);
        }
    }
    Ok(None)
}

/// Attribute whose message was found but not parsed.
struct StoredAttribute<'h> {
    body: Body<'h>,
    creation_order: Option<u32>,
}

impl StoredAttribute<'_> {
    fn name(&self) -> Result<Name> {
        attribute::parse_name(&mut self.body.cursor(STRUCTURE))
    }

    fn attribute(&self, image: Image<'_>) -> Result<Attribute> {
        let attribute = attribute::parse(image, &mut self.body.cursor(STRUCTURE))?;
        Ok(Attribute { creation_order: self.creation_order, ..attribute })
    }
}

/// Location of attributes in dense storage.
struct DenseAttributes {
    heap: u64,
    by_name: u64,
    order_tracked: bool,
}

impl DenseAttributes {
    fn open<'i>(&self, image: Image<'i>) -> Result<(Heaps<'i>, BTree)> {
        let tree = BTree::open(image, self.by_name, &[BY_NAME]);
        let (own, tree) = both(DenseObjects::open(image, self.heap), tree)?;
        let order_tracked = self.order_tracked;
        Ok((Heaps { image, own, shared: OnceCell::new(), order_tracked }, tree))
    }
}

fn dense(image: Image<'_>, header: &ObjectHeader) -> Result<Option<DenseAttributes>> {
    let Some(AttributeInfo { heap: Some(heap), by_name, order_tracked, .. }) = info(image, header)? else {
        return Ok(None);
    };
    let by_name = by_name.ok_or_else(|| {
        Error::corrupt("dense attributes without a B-tree by name").within("attribute info message")
    })?;
    Ok(Some(DenseAttributes { heap, by_name, order_tracked }))
}

fn compact(header: &ObjectHeader) -> impl Iterator<Item = &crate::model::RawMessage> {
    header.messages.iter().filter(|raw| raw.kind == message::ATTRIBUTE)
}

fn stored<'h>(image: Image<'_>, header: &'h ObjectHeader) -> Result<Vec<StoredAttribute<'h>>> {
    if let Some(dense) = dense(image, header)? {
        let (heaps, tree) = dense.open(image)?;
        return heaps.all(&tree);
    }
    let mut budget = Budget::new(&image, "attributes of an object");
    image.all(compact(header), |raw| {
        let creation_order = raw.creation_order.map(u32::from);
        let body = shared::resolve(image, raw)?;
        budget.take(body.data.len() as u64)?;
        Ok(StoredAttribute { body, creation_order })
    })
}

/// Record of a B-tree by name.
struct Record {
    id: [u8; 8],
    shared: bool,
    creation_order: u32,
    hash: u32,
}

impl Record {
    fn parse(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, "record of an attribute by name", 0);
        Ok(Self {
            id: cursor.array()?,
            shared: cursor.u8()? & message::SHARED != 0,
            creation_order: cursor.u32()?,
            hash: cursor.u32()?,
        })
    }
}

/// Heaps with attributes: the object's own and the one of shared messages.
struct Heaps<'i> {
    image: Image<'i>,
    own: DenseObjects<'i>,
    shared: OnceCell<DenseObjects<'i>>,
    order_tracked: bool,
}

impl<'i> Heaps<'i> {
    /// Reads all attributes of a B-tree.
    fn all<'h>(&self, by_name: &BTree) -> Result<Vec<StoredAttribute<'h>>> {
        let records = by_name.records(self.image)?;
        self.image
            .all(records.chunks_exact(by_name.record_size()), |bytes| self.stored(&Record::parse(bytes)?))
    }

    fn stored<'h>(&self, record: &Record) -> Result<StoredAttribute<'h>> {
        let data = if !record.shared {
            self.own.get(&record.id)?
        } else if let Some(shared) = self.shared.get() {
            shared.get(&record.id)?
        } else {
            let heap = shared_messages::heap(self.image, message::ATTRIBUTE)?;
            self.shared.get_or_init(|| DenseObjects::new(self.image, heap)).get(&record.id)?
        };
        let body = Body { data: Cow::Owned(data), offset: 0, committed: None };
        let creation_order = Some(record.creation_order).filter(|_| self.order_tracked);
        Ok(StoredAttribute { body, creation_order })
    }
}

fn find_dense(image: Image<'_>, dense: &DenseAttributes, name: &[u8]) -> Result<Option<Attribute>> {
    let (heaps, tree) = dense.open(image)?;
    let hash = checksum::lookup3(name);
    let mut found = None;
    let mut collided = false;
    let mut compare = |bytes: &[u8]| {
        let record = Record::parse(bytes)?;
        if record.hash != hash {
            return Ok(record.hash.cmp(&hash));
        }
        let stored = heaps.stored(&record)?;
        let ordering = stored.name()?.as_bytes().cmp(name);
        match ordering {
            Ordering::Equal => found = Some(stored),
            _ => collided = true,
        }
        Ok(ordering)
    };
    tree.find(image, &mut compare)?;
    if found.is_none() && collided {
        // Not all writers sort names with equal hashes.
        for stored in heaps.all(&tree)? {
            if stored.name()?.as_bytes() == name {
                found = Some(stored);
            }
        }
    }
    found.map(|stored| stored.attribute(image)).transpose()
}
