//! Groups: their links, in any storage. Source: specification §IV.C and D; HDF5 2.x `H5Gobj.c` for the
//! precedence of the storages.

use super::btree_v2::BTree;
use super::budget::Budget;
use super::dense_objects::DenseObjects;
use super::local_heap::LocalHeap;
use super::message::link_info::LinkInfo;
use super::message::{self, link, link_info};
use super::object::find as find_message;
use super::{btree_v1, symbol_table};
use crate::image::both;
use crate::model::{Link, LinkStorage, LinkTarget, ObjectHeader};
use crate::{Cursor, Error, ErrorKind, Image, Result, checksum};
use std::cmp::Ordering;

/// Record type of a B-tree of links by name.
const BY_NAME: u8 = 5;
/// Record type of a B-tree of links by creation order.
const BY_ORDER: u8 = 6;
const SYMBOL_NODES: &str = "symbol table nodes";

/// Returns the storage of the group's links; `None` if the object is not a group.
///
/// # Errors
/// Corrupt or Unsupported if the messages are damaged.
pub fn storage(image: Image<'_>, header: &ObjectHeader) -> Result<Option<LinkStorage>> {
    if let Some(info) = info(image, header)? {
        let Some(heap) = info.heap else { return Ok(Some(LinkStorage::Compact)) };
        let by_name = info.by_name.ok_or_else(|| {
            Error::corrupt("dense links without a B-tree by name").within("link info message")
        })?;
        return Ok(Some(LinkStorage::Dense { heap, by_name, by_order: info.by_order }));
    }
    let Some(raw) = find_message(header, message::SYMBOL_TABLE) else { return Ok(None) };
    let mut cursor = message::cursor(raw, "symbol table message");
    let (btree, heap) = message::symbol_table::parse(&mut cursor, image.sizes)?;
    Ok(Some(LinkStorage::SymbolTable { btree, heap }))
}

/// Reads the link info message of a new-style group's header, if there is one.
///
/// # Errors
/// Corrupt or Unsupported if the message is damaged.
pub fn info(image: Image<'_>, header: &ObjectHeader) -> Result<Option<LinkInfo>> {
    find_message(header, message::LINK_INFO)
        .map(|raw| link_info::parse(&mut message::cursor(raw, "link info message"), image.sizes))
        .transpose()
}

fn required(image: Image<'_>, header: &ObjectHeader) -> Result<LinkStorage> {
    storage(image, header)?
        .ok_or_else(|| Error::invalid(format!("the object at {:#x} is no group", header.address)))
}

/// Reads the links of a group, sorted by name.
///
/// # Errors
/// Invalid if the object is not a group; Corrupt, Truncated or Unsupported if it is damaged.
pub fn links(image: Image<'_>, header: &ObjectHeader) -> Result<Vec<Link>> {
    let mut links = match required(image, header)? {
        LinkStorage::Compact => compact(image, header).collect::<Result<_>>()?,
        LinkStorage::SymbolTable { btree, heap } => symbol_table(image, btree, heap)?,
        LinkStorage::Dense { heap, by_name, .. } => {
            let tree = BTree::open(image, by_name, &[BY_NAME]);
            let (heap, tree) = both(DenseObjects::open(image, heap), tree)?;
            dense(image, &heap, &tree)?
        }
    };
    links.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(links)
}

/// Reads the links of a group that may be damaged: the intact ones, sorted by name, and the errors of the
/// others. If the B-tree by name of dense links is damaged, the B-tree by creation order is read, too.
///
/// # Errors
/// Invalid if the object is not a group; Io, Changed or Need if bytes cannot be read; Limit.
pub fn surviving(image: Image<'_>, header: &ObjectHeader) -> Result<(Vec<Link>, Vec<Error>)> {
    let mut found = Survivors::default();
    match required(image, header) {
        Err(error) => found.add(Err(error))?,
        Ok(LinkStorage::Compact) => compact(image, header).try_for_each(|link| found.add(link))?,
        Ok(LinkStorage::SymbolTable { btree, heap }) => match LocalHeap::open(image, heap) {
            Err(error) => found.add(Err(error))?,
            Ok(heap) => {
                let (leaves, errors) = btree_v1::surviving_group_leaves(image, btree)?;
                errors.into_iter().try_for_each(|error| found.add(Err(error)))?;
                for leaf in leaves {
                    match symbol_table::surviving(image, leaf) {
                        Err(error) => found.add(Err(error))?,
                        Ok(entries) => {
                            for entry in entries {
                                found.add(entry.and_then(|entry| symbol_table::link(entry, &heap)))?;
                            }
                        }
                    }
                }
            }
        },
        Ok(LinkStorage::Dense { heap, by_name, by_order }) => match DenseObjects::open(image, heap) {
            Err(error) => found.add(Err(error))?,
            Ok(heap) => {
                let whole = found.dense(image, &heap, by_name, BY_NAME)?;
                if let Some(by_order) = by_order.filter(|_| !whole) {
                    let heap = DenseObjects::open(image, heap_address(image, header)?)?;
                    found.dense(image, &heap, by_order, BY_ORDER)?;
                }
            }
        },
    }
    found.links.sort_by(|a, b| a.name.cmp(&b.name));
    found.links.dedup_by(|a, b| a.name == b.name);
    Ok((found.links, found.errors))
}

fn heap_address(image: Image<'_>, header: &ObjectHeader) -> Result<u64> {
    match required(image, header)? {
        LinkStorage::Dense { heap, .. } => Ok(heap),
        _ => Err(Error::corrupt("links without a heap")),
    }
}

/// Links of a damaged group.
#[derive(Default)]
struct Survivors {
    links: Vec<Link>,
    errors: Vec<Error>,
}

impl Survivors {
    fn add(&mut self, link: Result<Link>) -> Result<()> {
        match link {
            Ok(link) => self.links.push(link),
            Err(error) if error.is_of_reading() || error.kind() == ErrorKind::Limit => return Err(error),
            Err(error) => self.errors.push(error),
        }
        Ok(())
    }

    /// Adds the links that a B-tree refers to; returns whether the tree and all links are intact.
    fn dense(&mut self, image: Image<'_>, heap: &DenseObjects<'_>, tree: u64, kind: u8) -> Result<bool> {
        let before = self.errors.len();
        let mut ids: Vec<Vec<u8>> = Vec::new();
        let read = BTree::open(image, tree, &[kind]).and_then(|tree| {
            tree.for_each(image, &mut |bytes| {
                let mut cursor = Cursor::new(bytes, "record of a link", 0);
                cursor.skip(if kind == BY_NAME { 4 } else { 8 })?;
                ids.push(cursor.rest().to_vec());
                Ok(())
            })
        });
        if let Err(error) = read {
            self.add(Err(error))?;
        }
        for id in ids {
            self.add(heap.get(&id).and_then(|object| parse_object(image, &object)))?;
        }
        Ok(self.errors.len() == before)
    }
}

/// Finds the link with a name.
///
/// # Errors
/// As [`links`].
pub fn find(image: Image<'_>, header: &ObjectHeader, name: &[u8]) -> Result<Option<Link>> {
    match required(image, header)? {
        LinkStorage::Compact => compact(image, header)
            .find(|link| link.as_ref().map_or(true, |link| link.name.as_bytes() == name))
            .transpose(),
        LinkStorage::SymbolTable { btree, heap } => find_symbol(image, btree, heap, name),
        LinkStorage::Dense { heap, by_name, .. } => find_dense(image, heap, by_name, name),
    }
}

/// Returns the number of links in a group.
///
/// # Errors
/// As [`links`].
pub fn count(image: Image<'_>, header: &ObjectHeader) -> Result<u64> {
    match required(image, header)? {
        LinkStorage::Compact => Ok(compact(image, header).count() as u64),
        LinkStorage::SymbolTable { btree, .. } => {
            let nodes = nodes(image, btree)?;
            Ok(nodes.iter().fold(0, |count, entries| count.saturating_add(entries.len() as u64)))
        }
        LinkStorage::Dense { by_name, .. } => BTree::open(image, by_name, &[BY_NAME])?.count(image),
    }
}

fn compact<'h>(image: Image<'h>, header: &'h ObjectHeader) -> impl Iterator<Item = Result<Link>> + 'h {
    let messages = header.messages.iter().filter(|raw| raw.kind == message::LINK);
    messages.map(move |raw| link::parse(&mut message::cursor(raw, "link message"), image.sizes))
}

/// Reads the entries of all symbol table nodes, node by node.
fn nodes(image: Image<'_>, btree: u64) -> Result<Vec<Vec<symbol_table::Entry>>> {
    let leaves = btree_v1::group_leaves(image, btree)?;
    let parts: Vec<_> = leaves.iter().map(|address| symbol_table::usual(image, *address)).collect();
    image.will_need(&parts);
    let mut budget = Budget::new(&image, SYMBOL_NODES);
    image.all(leaves, |address| {
        let entries = symbol_table::entries(image, address)?;
        budget.take(symbol_table::size(image, entries.len() as u64))?;
        Ok(entries)
    })
}

fn symbol_table(image: Image<'_>, btree: u64, heap: u64) -> Result<Vec<Link>> {
    let (heap, nodes) = both(LocalHeap::open(image, heap), nodes(image, btree))?;
    // Each name is stored in the heap once.
    let mut budget = Budget::new(&image, SYMBOL_NODES);
    let links = nodes.into_iter().flatten().map(|entry| {
        let link = symbol_table::link(entry, &heap)?;
        let path = if let LinkTarget::Soft(path) = &link.target { path.as_bytes() } else { &[] };
        budget.take((link.name.as_bytes().len().saturating_add(path.len())) as u64)?;
        Ok(link)
    });
    links.collect()
}

fn find_symbol(image: Image<'_>, btree: u64, heap: u64, name: &[u8]) -> Result<Option<Link>> {
    let heap = LocalHeap::open(image, heap)?;
    let leaf = btree_v1::find_group_leaf(image, btree, &mut |offset| Ok(heap.name(offset)?.cmp(name)))?;
    let Some(leaf) = leaf else { return Ok(None) };
    for entry in symbol_table::entries(image, leaf)? {
        if heap.name(entry.name)? == name {
            // A caller usually continues in the group it finds, whose links are often far from its header.
            if let Some(btree) = entry.btree() {
                image.will_look_at(btree);
            }
            return symbol_table::link(entry, &heap).map(Some);
        }
    }
    Ok(None)
}

/// Parses a record of a B-tree by name: the hash of the name and the link's heap id.
fn record(record: &[u8]) -> Result<(u32, &[u8])> {
    let mut cursor = Cursor::new(record, "record of a link by name", 0);
    Ok((cursor.u32()?, cursor.rest()))
}

fn parse_object(image: Image<'_>, object: &[u8]) -> Result<Link> {
    link::parse(&mut Cursor::new(object, "link message in a fractal heap", 0), image.sizes)
}

fn dense<'i>(image: Image<'i>, heap: &DenseObjects<'i>, by_name: &BTree) -> Result<Vec<Link>> {
    let records = by_name.records(image)?;
    image.all(records.chunks_exact(by_name.record_size()), |bytes| {
        let (_, id) = record(bytes)?;
        parse_object(image, &heap.get(id)?)
    })
}

fn find_dense(image: Image<'_>, heap: u64, by_name: u64, name: &[u8]) -> Result<Option<Link>> {
    let tree = BTree::open(image, by_name, &[BY_NAME]);
    let (heap, tree) = both(DenseObjects::open(image, heap), tree)?;
    let hash = checksum::lookup3(name);
    let mut found = None;
    let mut collided = false;
    let mut compare = |bytes: &[u8]| {
        let (record_hash, id) = record(bytes)?;
        if record_hash != hash {
            return Ok(record_hash.cmp(&hash));
        }
        let link = parse_object(image, &heap.get(id)?)?;
        let ordering = link.name.as_bytes().cmp(name);
        match ordering {
            Ordering::Equal => found = Some(link),
            _ => collided = true,
        }
        Ok(ordering)
    };
    tree.find(image, &mut compare)?;
    if found.is_none() && collided {
        // Not all writers sort names with equal hashes.
        found = dense(image, &heap, &tree)?.into_iter().find(|link| link.name.as_bytes() == name);
    }
    Ok(found)
}
