//! Loading of objects of the edited file into the tree.

use super::super::chunks::{Chunks, Data};
use super::super::journal::PlacedChunk;
use super::super::new_dataset::dataset_node;
use super::super::options::{DatasetOptions, NewLayout};
use super::super::tree::{DatasetNode, GroupLink, GroupNode, NewLink, Node, NodeId, NodeKind};
use super::super::writer::{Inner, Writer};
use super::{BaseObject, Edit};
use crate::{Dataset, Error, Object, Result};
use hyperchunk_format::encode::LibVersion;
use hyperchunk_format::encode::object_header;
use hyperchunk_format::model::{Layout, LinkTarget, ObjectHeader, ObjectKind};
use hyperchunk_format::parse::extents::{self, Extent};
use std::sync::{Arc, PoisonError};

impl Writer {
    /// Loads the header of an object, unless it is loaded.
    pub(in super::super) fn load(&self, id: NodeId) -> Result<()> {
        let Some(edit) = &self.0.edit else { return Ok(()) };
        let address = match self.0.tree().node(id)?.kind {
            NodeKind::Unread { address } => address,
            _ => return Ok(()),
        };
        let object = edit.base.object(address)?;
        let header = Arc::new(object.header().clone());
        let mut tree = self.0.tree_mut();
        let node = tree.node_mut(id)?;
        if !matches!(node.kind, NodeKind::Unread { .. }) {
            return Ok(());
        }
        node.kind = NodeKind::Kept { kind: object.kind(), address };
        node.links = header.reference_count;
        node.pinned = Some(address);
        node.track_order = header.attribute_order_tracked;
        node.comment = object.comment()?;
        node.blocks.clone_from(&header.continuations);
        node.dirty = false;
        node.base = Some(BaseObject::new(header));
        Ok(())
    }

    /// Loads the attributes of an object, unless they are loaded.
    pub(in super::super) fn load_attributes(&self, id: NodeId) -> Result<()> {
        let Some(edit) = &self.0.edit else { return Ok(()) };
        self.load(id)?;
        // Uses the header before the edit, as a commit may have replaced it.
        let header = match &self.0.tree().node(id)?.base {
            Some(base) if !base.has_attributes => Arc::clone(&base.header),
            _ => return Ok(()),
        };
        let object = Object::from_header(&edit.base, Arc::clone(&header))?;
        let attributes = object.attributes()?;
        let dense = edit.base.parse(|image| extents::attribute_storage(image, &header))?;
        let mut tree = self.0.tree_mut();
        let node = tree.node_mut(id)?;
        let Some(base) = node.base.as_mut().filter(|base| !base.has_attributes) else { return Ok(()) };
        base.has_attributes = true;
        base.attribute_extents = dense;
        base.attribute_types = attributes.iter().filter_map(|attribute| attribute.committed).collect();
        for attribute in attributes {
            let next = attribute.creation_order.map_or(0, |order| order.saturating_add(1));
            node.next_attribute = node.next_attribute.max(next);
            node.attributes.insert(attribute.name.clone(), attribute);
        }
        if !node.track_order {
            node.next_attribute = u32::try_from(node.attributes.len()).unwrap_or(u32::MAX);
        }
        Ok(())
    }

    /// Loads the headers of an attribute's old and new committed datatypes, when the attribute is set.
    pub(in super::super) fn load_replaced_type(
        &self,
        id: NodeId,
        name: &[u8],
        new: Option<u64>,
    ) -> Result<()> {
        if self.0.edit.is_none() {
            return Ok(());
        }
        let old = self.0.tree().node(id)?.attributes.get(name).and_then(|attribute| attribute.committed);
        self.load_datatypes(old.into_iter().chain(new))
    }

    /// Loads the headers of the committed datatypes at addresses, as their use counts will change.
    pub(in super::super) fn load_datatypes(&self, addresses: impl IntoIterator<Item = u64>) -> Result<()> {
        let Some(edit) = &self.0.edit else { return Ok(()) };
        for address in addresses {
            let made = self.object_at(address);
            let id = made.unwrap_or_else(|| edit.at(&mut self.0.tree_mut(), address));
            self.load_for_change(id)?;
            self.0.tree_mut().node_mut(id)?.dirty = true;
        }
        Ok(())
    }

    /// Loads the attributes of an object with a version 1 header, since any change encodes them again.
    pub(super) fn load_old_attributes(&self, id: NodeId) -> Result<()> {
        let is_old = self.0.tree().node(id)?.base.as_ref().is_some_and(|base| base.header.version == 1);
        if is_old { self.load_attributes(id) } else { Ok(()) }
    }

    /// Loads an object except its attributes, unless it is loaded.
    pub(in super::super) fn load_content(&self, id: NodeId) -> Result<()> {
        let Some(edit) = &self.0.edit else { return Ok(()) };
        self.load(id)?;
        let (kind, header) = {
            let tree = self.0.tree();
            let node = tree.node(id)?;
            match (&node.kind, &node.base) {
                (NodeKind::Kept { kind, .. }, Some(base)) => (*kind, Arc::clone(&base.header)),
                _ => return Ok(()),
            }
        };
        self.load_old_attributes(id)?;
        let object = Object::from_header(&edit.base, header)?;
        match kind {
            ObjectKind::Group => self.load_group(edit, id, &object),
            ObjectKind::Dataset => self.load_dataset(id, &object.dataset()?),
            ObjectKind::Datatype => {
                let datatype = object.datatype()?;
                self.0.tree_mut().node_mut(id)?.kind = NodeKind::Datatype(datatype);
                Ok(())
            }
        }
    }

    fn load_group(&self, edit: &Edit, id: NodeId, object: &Object) -> Result<()> {
        let group = object.group()?;
        let tracked = group.tracks_order()?;
        let dense = edit.base.parse(|image| extents::link_storage(image, object.header()))?;
        let mut links = group.links()?;
        links.sort_by_key(|link| link.creation_order);
        let mut tree = self.0.tree_mut();
        if !matches!(tree.node(id)?.kind, NodeKind::Kept { .. }) {
            return Ok(());
        }
        let mut found = GroupNode::default();
        for link in links {
            let order = link.creation_order.filter(|_| tracked).unwrap_or(found.next);
            found.next = found.next.max(order.saturating_add(1));
            let target = match &link.target {
                LinkTarget::Hard(address) => NewLink::Hard(edit.at(&mut tree, *address)),
                LinkTarget::Soft(path) => NewLink::Soft(path.clone()),
                LinkTarget::External { file, path } => {
                    NewLink::External { file: file.clone(), path: path.clone() }
                }
                LinkTarget::User { class, data } => NewLink::User { class: *class, data: data.clone() },
            };
            found.links.insert(link.name, GroupLink { order, target });
        }
        let node = tree.node_mut(id)?;
        node.track_order = tracked;
        node.kind = NodeKind::Group(found);
        if let Some(base) = &mut node.base {
            base.content_extents = dense;
        }
        Ok(())
    }

    fn load_dataset(&self, id: NodeId, old: &Dataset) -> Result<()> {
        let options = &self.0.options;
        let (node, index) = dataset(old, options.oldest)?;
        node.id.get_or_init(|| id);
        let mut tree = self.0.tree_mut();
        let place = tree.node_mut(id)?;
        if matches!(place.kind, NodeKind::Kept { .. }) {
            place.kind = NodeKind::Dataset(Arc::new(node));
            if let Some(base) = &mut place.base {
                base.content_extents = index;
            }
        }
        Ok(())
    }

    /// Loads the header of an object that will be changed.
    pub(in super::super) fn load_for_change(&self, id: NodeId) -> Result<()> {
        if self.0.edit.is_none() {
            return Ok(());
        }
        let loaded = self.load(id).and_then(|()| self.0.check_editable(id));
        let loaded = loaded.and_then(|()| self.load_old_attributes(id));
        loaded.map_err(|error| self.0.named(error))
    }
}

fn deleted() -> Error {
    Error::invalid("the object was deleted with its last link, or its transaction was rolled back")
}

impl Inner {
    /// Checks that no commit of an edit has removed an object.
    pub(in super::super) fn check_there(&self, id: NodeId) -> Result<()> {
        if self.edit.is_some() && self.tree().node(id)?.removed { Err(deleted()) } else { Ok(()) }
    }

    /// Checks that an edit can change an object: no commit has removed it, and a commit can encode it.
    pub(in super::super) fn check_editable(&self, id: NodeId) -> Result<()> {
        if self.edit.is_some() { check_editable(self.tree().node(id)?) } else { Ok(()) }
    }
}

/// Checks that an object can be changed: it has not been removed, its header has space for a continuation
/// message, and no message forbids changes.
fn check_editable(node: &Node) -> Result<()> {
    if node.removed {
        return Err(deleted());
    }
    let Some(base) = &node.base else { return Ok(()) };
    check_first_block(&base.header, object_header::pinned_size(&base.options()))?;
    if base.header.messages.iter().any(|raw| raw.flags & FAIL_TO_WRITE != 0 && !known(raw.kind)) {
        return Err(Error::unsupported(
            "cannot change the object: its header has an unknown message that forbids changes",
        ));
    }
    Ok(())
}

/// Checks that a new header of `needed` bytes fits into the first block of the old one.
pub(super) fn check_first_block(header: &ObjectHeader, needed: u64) -> Result<()> {
    if header.first_block_bytes >= needed {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "cannot change the object: expected a header with a first block of {needed} bytes, got {}; \
             `hyperchunk pack` makes a file that can be edited",
        header.first_block_bytes
    )))
}

/// Flag of a message that forbids changes by programs that do not support the message.
const FAIL_TO_WRITE: u8 = 0x08;

fn known(kind: u16) -> bool {
    kind <= hyperchunk_format::parse::message::CACHE_IMAGE
}

/// Returns the node of a stored dataset, and the extents of its chunk index.
pub(super) fn dataset(old: &Dataset, oldest: LibVersion) -> Result<(DatasetNode, Vec<Extent>)> {
    if old.store().is_some() {
        return Err(Error::unsupported("the data are in a sharded store: use a writer of the store"));
    }
    let layout = match old.layout() {
        Layout::Compact { .. } => NewLayout::Compact,
        _ if !old.external().is_empty() => NewLayout::External(old.external().to_vec()),
        Layout::Contiguous { .. } => NewLayout::Contiguous,
        Layout::Chunked(chunked) => NewLayout::Chunked(chunked.dims.clone()),
        Layout::Virtual { .. } => NewLayout::Virtual(old.mappings().to_vec()),
    };
    let mut options =
        DatasetOptions::new(old.datatype().clone(), old.dataspace().clone()).with_layout(layout);
    options.committed = old.committed();
    options.fill = old.fill().clone();
    options.pipeline = old.pipeline().to_vec();
    let mut node = dataset_node(options, oldest, LibVersion::V200)?;
    node.touched = false.into();
    node.is_edited = true;
    if let Layout::Chunked(chunked) = old.layout() {
        node.edge_chunks_unfiltered = chunked.edge_chunks_unfiltered;
    }
    let mut index = Vec::new();
    match (&node.data, old.layout()) {
        (Data::Compact(kept), Layout::Compact { data }) => {
            data.clone_into(&mut kept.write().unwrap_or_else(PoisonError::into_inner));
        }
        (Data::Contiguous { address, .. }, Layout::Contiguous { address: old, .. }) => {
            *address.lock().unwrap_or_else(PoisonError::into_inner) = *old;
        }
        (Data::Chunked(chunks), _) => index = stored(chunks, old)?,
        _ => {}
    }
    Ok((node, index))
}

/// Records the stored chunks; returns the extents of their index.
fn stored(chunks: &Chunks, old: &Dataset) -> Result<Vec<Extent>> {
    let (found, extents) = old.chunks_and_extents()?;
    for chunk in found {
        chunks.found(&PlacedChunk {
            object: NodeId::ROOT,
            scaled: chunk.scaled.into_boxed_slice(),
            address: chunk.address,
            size: chunk.size,
            mask: chunk.filter_mask,
            digest: 0,
        });
    }
    Ok(extents)
}
