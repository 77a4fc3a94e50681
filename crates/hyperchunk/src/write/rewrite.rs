//! Rewriting of existing files: creates new structure, and keeps the data in place.

use super::options::{CreateOptions, DatasetOptions, NewLayout};
use super::sink::LocalSink;
use super::tree::{NewLink, Node, NodeId, NodeKind};
use super::writer::Writer;
use crate::{Dataset, Error, File, Object, Result};
use hyperchunk_format::encode::LibVersion;
use hyperchunk_format::model::{Class, Datatype, Layout, Link, LinkTarget, ObjectKind};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// Default of the superblock's rank of chunk B-trees, for files that do not store it.
const DEFAULT_CHUNK_K: u16 = 32;

/// New objects by the address of their old headers.
pub type AdoptedObjects = HashMap<u64, NodeId>;

impl Writer {
    /// Continues a local file that no program has open. The next commit writes new headers of all groups, and
    /// of the datasets with the header addresses `rewritten`, to the end of the file. The other objects, and
    /// all data, stay in place. Only the superblock is overwritten.
    ///
    /// # Errors
    /// Unsupported for content that cannot be kept in place: object references, datasets in `rewritten` with
    /// filters or external data, and rare features of the format; Locked if a program has the file open.
    pub fn adopt(
        file: &File,
        rewritten: &HashSet<u64>,
        options: &CreateOptions,
    ) -> Result<(Self, AdoptedObjects)> {
        let path = file.path().ok_or_else(|| Error::invalid("cannot change a file without a name"))?;
        adopt(file, path, rewritten, options).map_err(|error| error.file(path.display()))
    }
}

fn adopt(
    file: &File,
    path: &Path,
    rewritten: &HashSet<u64>,
    options: &CreateOptions,
) -> Result<(Writer, AdoptedObjects)> {
    let superblock = file.superblock();
    let odd = [
        (superblock.shared_messages.is_some(), "shared messages"),
        (superblock.cache_image.is_some(), "an image of the metadata cache"),
        (superblock.driver.is_some(), "information for a driver"),
        (superblock.chunk_k != DEFAULT_CHUNK_K, "B-trees of another width"),
        (superblock.sizes.address != 8 || superblock.sizes.length != 8, "addresses that do not have 8 bytes"),
    ];
    if let Some((_, what)) = odd.iter().find(|(is, _)| *is) {
        return Err(Error::unsupported(format!(
            "cannot rewrite the structure of the file in place: it has {what}"
        )));
    }
    let mut options = CreateOptions { journal: false, user_block: superblock.base, ..options.clone() };
    options.oldest = if superblock.version == 3 { LibVersion::V110 } else { LibVersion::V18 };
    options.newest = LibVersion::V200;
    let sink = Arc::new(LocalSink::adopt(path)?);
    // The old file is read while the new structure is written, since its bytes stay in place.
    file.0.source.follow_growth();
    let shown = path.to_string_lossy();
    let end = superblock.end.next_multiple_of(8);
    let writer = Writer::over(sink, Some(&shown), &options, None, end);
    let mut adopted = AdoptedObjects::new();
    let root = file.root()?;
    adopted.insert(root.address(), NodeId::ROOT);
    describe(&writer, NodeId::ROOT, &root)?;
    let mut open = vec![(NodeId::ROOT, root)];
    while let Some((id, object)) = open.pop() {
        let mut links = object.group()?.links()?;
        links.sort_by_key(|link| link.creation_order);
        for link in links {
            let target = match &link.target {
                LinkTarget::Hard(address) => match adopted.get(address) {
                    Some(known) => NewLink::Hard(*known),
                    None => {
                        let object = file.object(*address)?;
                        let found = node(&writer, &object, rewritten)
                            .map_err(|error| error.object(link.name.to_string()))?;
                        adopted.insert(*address, found);
                        if object.kind() == ObjectKind::Group {
                            open.push((found, object));
                        }
                        NewLink::Hard(found)
                    }
                },
                other => elsewhere(&link, other)?,
            };
            writer.0.tree_mut().link(id, link.name.as_bytes(), target)?;
        }
    }
    if rewritten.iter().any(|address| !adopted.contains_key(address)) {
        return Err(Error::invalid("a dataset to rewrite cannot be reached by links"));
    }
    Ok((writer, adopted))
}

fn elsewhere(link: &Link, target: &LinkTarget) -> Result<NewLink> {
    Ok(match target {
        LinkTarget::Soft(path) => NewLink::Soft(path.clone()),
        LinkTarget::External { file, path } => NewLink::External { file: file.clone(), path: path.clone() },
        LinkTarget::User { class, data } => NewLink::User { class: *class, data: data.clone() },
        LinkTarget::Hard(_) => return Err(Error::invalid(format!("unexpected hard link {}", link.name))),
    })
}

/// Creates a new object for an old one, or keeps the old one.
fn node(writer: &Writer, object: &Object, rewritten: &HashSet<u64>) -> Result<NodeId> {
    let refused = |datatype: &Datatype| {
        if datatype.any(&mut |part| matches!(part.class, Class::Reference(_))) {
            return Err(Error::unsupported("object references: they would refer to the old objects"));
        }
        Ok(())
    };
    let kind = object.kind();
    if kind == ObjectKind::Dataset {
        refused(object.dataset()?.datatype())?;
    }
    for (_, attribute) in object.each_attribute()? {
        refused(&attribute?.datatype)?;
    }
    let tracked = object.header().attribute_order_tracked;
    let id = match kind {
        ObjectKind::Group => {
            let tracked = object.group()?.tracks_order()?;
            writer.0.tree_mut().add(Node::new(NodeKind::Group(super::tree::GroupNode::default()), tracked))
        }
        ObjectKind::Dataset if rewritten.contains(&object.address()) => {
            dataset(writer, &object.dataset()?, tracked)?
        }
        kind => {
            let kept = NodeKind::Kept { kind, address: object.address() };
            return Ok(writer.0.tree_mut().add(Node::new(kept, tracked)));
        }
    };
    describe(writer, id, object)?;
    Ok(id)
}

/// Copies attributes and comment to a new object.
fn describe(writer: &Writer, id: NodeId, object: &Object) -> Result<()> {
    let mut tree = writer.0.tree_mut();
    let mut attributes = Vec::new();
    for (name, attribute) in object.each_attribute()? {
        let attribute = attribute?;
        if attribute.datatype.any(&mut |part| matches!(part.class, Class::Reference(_))) {
            let message =
                format!("object references (attribute {name}): they would refer to the old objects");
            return Err(Error::unsupported(message));
        }
        attributes.push(attribute);
    }
    attributes.sort_by_key(|attribute| attribute.creation_order);
    for attribute in attributes {
        tree.set_attribute(id, attribute)?;
    }
    if id == NodeId::ROOT {
        tree.node_mut(id)?.track_order = object.group()?.tracks_order()?;
    }
    tree.node_mut(id)?.comment = object.comment()?;
    Ok(())
}

fn dataset(writer: &Writer, old: &Dataset, tracked: bool) -> Result<NodeId> {
    if !old.pipeline().is_empty() || !old.external().is_empty() || old.store().is_some() {
        return Err(Error::unsupported("data with filters, or in other files"));
    }
    let layout = match old.layout() {
        Layout::Contiguous { .. } => NewLayout::Contiguous,
        Layout::Chunked(chunked) => NewLayout::Chunked(chunked.dims.clone()),
        _ => return Err(Error::unsupported("data in the object header, or in other datasets")),
    };
    let mut options =
        DatasetOptions::new(old.datatype().clone(), old.dataspace().clone()).with_layout(layout);
    options.committed = old.committed();
    options.fill = old.fill().clone();
    options.track_order = tracked;
    let made = writer.create_dataset(NodeId::ROOT, b"", options)?;
    match old.layout() {
        Layout::Contiguous { address: Some(address), .. } => made.place(*address)?,
        Layout::Chunked(chunked) => {
            for chunk in old.chunks()? {
                let offset: Vec<u64> =
                    chunk.scaled.iter().zip(&chunked.dims).map(|(n, dim)| n * dim).collect();
                made.place_chunk(&offset, chunk.address)?;
            }
        }
        _ => {}
    }
    Ok(made.id())
}
