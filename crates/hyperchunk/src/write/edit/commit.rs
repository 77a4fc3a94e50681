//! Commits of an edit: selection of the objects to encode, and freeing of the space that they replace.

use super::super::chunks::Data;
use super::super::commit::Structure;
use super::super::tree::{NewLink, NodeId, NodeKind, Tree};
use super::super::writer::{Inner, Writer};
use super::base::ReplacedParts;
use super::structures::EncodedObject;
use crate::Result;
use hyperchunk_format::encode::object_header;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Range of the file: address and size.
type Block = (u64, u64);

/// An object that a commit removes, and its members, which lose a link.
pub(in super::super) type RemovedObject = (NodeId, Vec<NodeId>);

impl Writer {
    /// Loads the content of objects that have lost their last link, so that the commit can free it, and marks
    /// them as removed. Members of removed groups lose a link, too. The content of an object that cannot be
    /// read is not freed.
    pub(in super::super) fn load_removed(&self) -> Result<Vec<RemovedObject>> {
        let mut all = Vec::new();
        if self.0.edit.is_none() {
            return Ok(all);
        }
        loop {
            let removed = removed(&self.0.tree());
            if removed.is_empty() {
                return Ok(all);
            }
            for id in removed {
                all.push((id, self.remove_object(id)?));
            }
        }
    }

    /// Marks an object as removed; returns its members, which lose a link.
    fn remove_object(&self, id: NodeId) -> Result<Vec<NodeId>> {
        let read = self.load_content(id).and_then(|()| self.load_attributes(id));
        let (mut children, mut types) = (Vec::new(), Vec::new());
        if read.is_ok() {
            let tree = self.0.tree();
            let node = tree.node(id)?;
            if let NodeKind::Group(group) = &node.kind {
                for link in group.links.values() {
                    if let NewLink::Hard(child) = link.target {
                        children.push(child);
                    }
                }
            }
            types.extend(node.used_types());
            types.extend(node.base.iter().flat_map(|base| base.attribute_types.iter().copied()));
        }
        children.retain(|child| self.load_for_change(*child).is_ok());
        for address in types {
            // The use count of a datatype that cannot be read is not updated.
            drop(self.load_datatypes([address]));
        }
        let mut tree = self.0.tree_mut();
        for child in &children {
            let child = tree.node_mut(*child)?;
            child.links = child.links.saturating_sub(1);
            child.dirty = true;
        }
        let node = tree.node_mut(id)?;
        (node.removed, node.dirty) = (true, false);
        Ok(children)
    }
}

/// Returns the objects of the file without links. A committed datatype is also kept while it is used.
fn removed(tree: &Tree) -> Vec<NodeId> {
    let uses = tree.uses(&tree.all());
    let all = tree.nodes.iter().enumerate();
    let gone = all.filter(|(number, node)| {
        let is_stored = node.base.is_some() || !node.blocks.is_empty();
        *number > 0 && is_stored && node.stored_links(&uses) == 0 && !node.removed
    });
    gone.map(|(number, _)| NodeId(number)).collect()
}

impl Inner {
    /// Returns the objects that a commit encodes, and marks them as unchanged. [`Inner::mark_changed`] undoes
    /// that.
    pub(in super::super) fn take_changed(&self) -> Vec<NodeId> {
        let mut tree = self.tree_mut();
        let uses = tree.uses(&tree.all());
        let mut changed = Vec::new();
        for (number, node) in tree.nodes.iter_mut().enumerate() {
            if let NodeKind::Dataset(dataset) = &node.kind
                && dataset.touched.swap(false, Ordering::AcqRel)
            {
                let base = node.base.as_mut();
                base.into_iter().for_each(|base| base.replaced.content = true);
                node.dirty = true;
            }
            if node.dirty && node.stored_links(&uses) > 0 {
                node.dirty = false;
                changed.push(NodeId(number));
            }
        }
        changed
    }

    /// Undoes the removal of objects after a failed commit.
    pub(in super::super) fn restore_removed(&self, removed: &[RemovedObject]) {
        let mut tree = self.tree_mut();
        for (id, children) in removed.iter().rev() {
            for child in children {
                if let Ok(child) = tree.node_mut(*child) {
                    child.links = child.links.saturating_add(1);
                }
            }
            if let Ok(node) = tree.node_mut(*id) {
                node.removed = false;
            }
        }
    }

    /// Marks objects as changed again after a failed commit.
    pub(in super::super) fn mark_changed(&self, changed: &[NodeId]) {
        let mut tree = self.tree_mut();
        for id in changed {
            if let Ok(node) = tree.node_mut(*id) {
                node.dirty = true;
            }
        }
    }

    /// Records the addresses of the encoded objects; returns the space of the structures that they replace,
    /// and of removed objects.
    pub(in super::super) fn record_places(
        &self,
        structure: &Structure,
        encoded: Vec<EncodedObject>,
    ) -> Vec<Block> {
        let mut free = Vec::new();
        let mut tree = self.tree_mut();
        for place in &structure.places {
            let Ok(node) = tree.node_mut(place.id) else { continue };
            let (start, header) = (structure.start + place.start, place.header);
            let fixed = object_header::pinned_size(&super::super::commit::header_options(node));
            self.pin(node, start + header);
            let rest = start + header + fixed;
            node.blocks = vec![(start, header), (rest, (start + place.length).saturating_sub(rest))];
        }
        for object in encoded {
            let Ok(node) = tree.node_mut(object.id) else { continue };
            node.blocks = object.extents;
            free.extend(object.unused);
            if let Some(base) = &mut node.base {
                base.forget_extents(base.replaced(false));
            }
        }
        for node in tree.nodes.iter_mut().filter(|node| node.removed) {
            free.append(&mut node.blocks);
            if let Some(base) = &mut node.base {
                let all = ReplacedParts { attributes: true, comment: true, content: true };
                free.extend(base.replaced_extents(all));
                base.forget_extents(all);
            }
            let NodeKind::Dataset(dataset) = &node.kind else { continue };
            match &dataset.data {
                Data::Chunked(chunks) => free.extend(chunks.take_stored()),
                Data::Contiguous { address, size } => {
                    let address = address.lock().unwrap_or_else(PoisonError::into_inner).take();
                    free.extend(address.map(|address| (address, *size)));
                }
                _ => {}
            }
        }
        free.retain(|(_, length)| *length > 0);
        free
    }
}
