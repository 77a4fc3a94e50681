//! Queries about a file that is open for writing.

use super::chunks::Data;
use super::dataset::DatasetWriter;
use super::options::NewLayout;
use super::tree::{NewLink, Node, NodeId, NodeKind, Tree};
use super::writer::Writer;
use crate::{Error, ErrorKind, Object, Result};
use hyperchunk_format::model::{Dataspace, Datatype, FillValue, Name, ObjectKind, Pipeline};
use std::collections::HashSet;

/// Maximum number of soft links on a path.
const MAX_SOFT_LINKS: usize = 16;

/// Target of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// An object of the same file.
    Here(NodeId),
    /// A path in another file, to which an external link leads.
    Elsewhere {
        /// Name of the file.
        file: Name,
        /// Path in the file.
        path: Name,
    },
}

impl Writer {
    fn find_from(&self, start: NodeId, path: &[u8], budget: &mut usize) -> Result<Target> {
        let mut at = if path.starts_with(b"/") { NodeId::ROOT } else { start };
        let mut parts = path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
        while let Some(part) = parts.next() {
            self.load_content(at)?;
            let target = {
                let tree = self.0.tree();
                let NodeKind::Group(group) = &tree.node(at)?.kind else {
                    return Err(missing(part, "its parent is not a group"));
                };
                let link = group.links.get(part).ok_or_else(|| missing(part, "there is no such name"))?;
                link.target.clone()
            };
            match &target {
                NewLink::Hard(id) => at = *id,
                NewLink::Soft(to) => {
                    *budget = budget.checked_sub(1).ok_or_else(|| missing(part, "too many soft links"))?;
                    match self.find_from(at, to.as_bytes(), budget)? {
                        Target::Here(id) => at = id,
                        Target::Elsewhere { file, path } => return Ok(elsewhere(&file, &path, parts)),
                    }
                }
                NewLink::External { file, path } => return Ok(elsewhere(file, path, parts)),
                NewLink::User { .. } => {
                    return Err(missing(part, "a user-defined link can only be followed by its application"));
                }
            }
        }
        Ok(Target::Here(at))
    }
}

fn missing(part: &[u8], why: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("no object {}: {why}", Name::from(part)))
}

fn elsewhere<'a>(file: &Name, path: &Name, rest: impl Iterator<Item = &'a [u8]>) -> Target {
    let mut whole = path.as_bytes().to_vec();
    for part in rest {
        whole.push(b'/');
        whole.extend_from_slice(part);
    }
    Target::Elsewhere { file: file.clone(), path: Name::from(&whole[..]) }
}

impl Writer {
    /// Resolves a path from a group or, if it begins with `/`, from the root.
    ///
    /// # Errors
    /// NotFound if a part of the path does not exist.
    pub fn resolve(&self, start: NodeId, path: &[u8]) -> Result<Target> {
        let found = self.find_from(start, path, &mut { MAX_SOFT_LINKS });
        found.map_err(|error| self.0.named(error))
    }

    /// Returns a path to an object; `None` if it cannot be reached by hard links.
    ///
    /// # Errors
    /// Invalid if the object belongs to another file.
    pub fn find_path(&self, object: NodeId) -> Result<Option<Vec<u8>>> {
        self.0.tree().node(object)?;
        let mut seen = HashSet::from([NodeId::ROOT]);
        let mut waiting = vec![(NodeId::ROOT, Vec::new())];
        while let Some((id, path)) = waiting.pop() {
            if id == object {
                return Ok(Some(if path.is_empty() { b"/".to_vec() } else { path }));
            }
            if self.kind(id)? == ObjectKind::Group {
                self.load_content(id)?;
            }
            let tree = self.0.tree();
            let NodeKind::Group(group) = &tree.node(id)?.kind else { continue };
            for (name, link) in group.links.iter().rev() {
                if let NewLink::Hard(to) = link.target
                    && seen.insert(to)
                {
                    waiting.push((to, [&path, &b"/"[..], name.as_bytes()].concat()));
                }
            }
        }
        Ok(None)
    }

    /// Returns the names of an object's attributes: in creation order if it is tracked, otherwise sorted.
    ///
    /// # Errors
    /// Invalid if the object belongs to another file.
    pub fn attribute_names(&self, object: NodeId) -> Result<Vec<Name>> {
        self.load_attributes(object).map_err(|error| self.0.named(error))?;
        let tree = self.0.tree();
        let node = tree.node(object)?;
        let mut attributes: Vec<_> = node.attributes.iter().collect();
        if node.track_order {
            attributes.sort_by_key(|(_, attribute)| attribute.creation_order);
        }
        Ok(attributes.into_iter().map(|(name, _)| name.clone()).collect())
    }

    /// Returns whether the creation order of an object's links and attributes is tracked.
    ///
    /// # Errors
    /// Invalid if the object belongs to another file.
    pub fn tracks_order(&self, object: NodeId) -> Result<bool> {
        self.load(object).map_err(|error| self.0.named(error))?;
        Ok(self.0.tree().node(object)?.track_order)
    }

    /// Returns an object's comment.
    ///
    /// # Errors
    /// Invalid if the object belongs to another file.
    pub fn comment(&self, object: NodeId) -> Result<Option<Name>> {
        self.load(object).map_err(|error| self.0.named(error))?;
        Ok(self.0.tree().node(object)?.comment.clone())
    }

    /// Returns a committed datatype.
    ///
    /// # Errors
    /// Invalid if the object is not a committed datatype.
    pub fn datatype(&self, object: NodeId) -> Result<Datatype> {
        self.load_content(object).map_err(|error| self.0.named(error))?;
        match &self.0.tree().node(object)?.kind {
            NodeKind::Datatype(datatype) => Ok(datatype.clone()),
            _ => Err(Error::invalid("the object is not a committed datatype")),
        }
    }

    /// Returns the object for which [`Writer::address`] returned `address`.
    #[must_use]
    pub fn object_at(&self, address: u64) -> Option<NodeId> {
        let tree = self.0.tree();
        let is_there = |node: &Node| {
            node.pinned == Some(address)
                || matches!(node.kind, NodeKind::Unread { address: at } if at == address)
        };
        tree.nodes.iter().position(is_there).map(NodeId)
    }

    /// Returns the object at an address of the edited file; `None` if there is no object.
    #[must_use]
    pub fn edited_object(&self, address: u64) -> Option<NodeId> {
        let edit = self.0.edit.as_ref().filter(|edit| edit.base.object(address).is_ok());
        self.object_at(address).or_else(|| edit.map(|edit| edit.at(&mut self.0.tree_mut(), address)))
    }

    /// Returns an object in the state of [`Writer::snapshot`], even if it has no link.
    ///
    /// # Errors
    /// As [`Writer::snapshot`].
    pub fn snapshot_object(&self, object: NodeId) -> Result<Object> {
        let (file, addresses) = self.picture()?;
        self.0.check_there(object)?;
        // Objects that were loaded after the snapshot have their addresses in the edited file.
        let read_since = |tree: &Tree| match tree.node(object).ok()?.kind {
            NodeKind::Kept { address, .. } | NodeKind::Unread { address } => Some(address),
            _ => tree.node(object).ok()?.pinned,
        };
        let address = addresses.get(object.0).copied().or_else(|| read_since(&self.0.tree()));
        file.object(address.ok_or_else(|| Error::invalid("the object belongs to another file"))?)
    }

    /// Returns the object that has an address in the result of [`Writer::snapshot`].
    ///
    /// # Errors
    /// As [`Writer::snapshot`].
    pub fn snapshot_node(&self, address: u64) -> Result<Option<NodeId>> {
        let (_, addresses) = self.picture()?;
        let found = addresses.iter().position(|at| *at == address).map(NodeId);
        match &self.0.edit {
            // An object of the edited file that has not been loaded yet.
            Some(edit) if found.is_none() && edit.base.object(address).is_ok() => {
                Ok(Some(edit.at(&mut self.0.tree_mut(), address)))
            }
            _ => Ok(found),
        }
    }
}

impl NodeId {
    /// Returns the object with a number.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        usize::try_from(number).ok().map(Self)
    }

    /// Returns the object's number: 0 for the root group, then in order of creation.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0 as u64
    }
}

impl DatasetWriter {
    /// Returns the extent and maximum extent.
    #[must_use]
    pub fn dataspace(&self) -> Dataspace {
        self.node.dataspace()
    }

    /// Returns the filters of the chunks.
    #[must_use]
    pub fn pipeline(&self) -> &Pipeline {
        &self.node.pipeline
    }

    /// Returns the fill value, for elements that were never written.
    #[must_use]
    pub fn fill(&self) -> &FillValue {
        &self.node.fill
    }

    /// Returns the address of the committed datatype, if the dataset uses one.
    #[must_use]
    pub fn committed(&self) -> Option<u64> {
        self.node.committed
    }

    /// Returns the layout of the data.
    #[must_use]
    pub fn layout(&self) -> NewLayout {
        match &self.node.data {
            Data::Compact(_) => NewLayout::Compact,
            Data::Contiguous { .. } => NewLayout::Contiguous,
            Data::Chunked(chunks) => NewLayout::Chunked(chunks.dims.clone()),
            Data::External(files) => NewLayout::External(files.clone()),
            Data::Virtual(mappings) => NewLayout::Virtual(mappings.clone()),
        }
    }
}
