//! Recovery of journalled objects that cannot be stored in HDF5. They are omitted and reported, so that the
//! rest of the file can be recovered.

use super::tree::{NewLink, Node, NodeId, NodeKind, Tree};
use super::writer::Writer;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::model::Name;
use std::collections::HashMap;

/// Maximum number of attempts to encode the file; each omits the objects that fail.
const MAX_ROUNDS: usize = 4;

/// Omitted parts of a file, with the reasons.
#[derive(Debug, Default)]
pub(super) struct OmittedParts {
    objects: HashMap<NodeId, String>,
    links: Vec<(NodeId, Name, String)>,
    attributes: Vec<(NodeId, Name, String)>,
}

impl OmittedParts {
    pub(super) fn object(&mut self, id: NodeId, why: &Error) {
        self.objects.insert(id, why.message().to_owned());
    }

    pub(super) fn has(&self, id: NodeId) -> bool {
        self.objects.contains_key(&id)
    }

    /// Returns an error with the reason if the object was omitted.
    pub(super) fn check(&self, id: NodeId) -> Result<()> {
        self.objects.get(&id).map_or(Ok(()), |why| Err(Error::limit(why)))
    }

    pub(super) fn link(&mut self, group: NodeId, name: Name, why: &Error) {
        self.links.push((group, name, why.message().to_owned()));
    }

    /// Removes a link from the omitted ones; returns whether it was among them. Called when the link is
    /// removed.
    pub(super) fn unlink(&mut self, group: NodeId, name: &Name) -> bool {
        let before = self.links.len();
        self.links.retain(|(of, known, _)| (*of, known) != (group, name));
        self.links.len() < before
    }

    pub(super) fn attribute(&mut self, object: NodeId, name: Name, why: &Error) {
        self.replace(object, &name);
        self.attributes.push((object, name, why.message().to_owned()));
    }

    /// Removes an attribute from the omitted ones. Called when the attribute is removed or replaced.
    pub(super) fn replace(&mut self, object: NodeId, name: &Name) {
        self.attributes.retain(|(of, known, _)| (*of, known) != (object, name));
    }

    /// Lists the omitted parts, for messages.
    pub(super) fn describe(&self, names: &HashMap<NodeId, String>) -> Vec<String> {
        let path = |id: &NodeId| names.get(id).map_or("an object without a link", String::as_str);
        let links = self.links.iter().map(|(group, name, why)| format!("{}/{name}: {why}", path(group)));
        let attributes = self.attributes.iter().map(|(object, name, why)| {
            let path = Some(path(object)).filter(|path| !path.is_empty()).unwrap_or("/");
            format!("attribute {name} of {path}: {why}")
        });
        links.chain(attributes).collect()
    }
}

/// Omits the objects that cannot be encoded; returns a description of each.
///
/// # Errors
/// The error of the root group, if it cannot be encoded.
pub(super) fn unencodable(writer: &Writer) -> Result<Vec<String>> {
    let mut told = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let failing = writer.0.unencodable();
        if failing.is_empty() {
            break;
        }
        for (id, error) in failing {
            let name = super::recover::names(&writer.0.tree()).remove(&id).filter(|name| !name.is_empty());
            let name = name.unwrap_or_else(|| "/".into());
            told.push(leave_out(writer, id, &name, error)?);
        }
    }
    Ok(told)
}

/// Omits the attributes whose strings or sequences are missing in the file; returns a description of each.
/// The journal has no digests of heap collections, which may have been lost in a power failure, or when a
/// program truncated the file after its last commit.
///
/// # Errors
/// The errors of reading the file.
pub(super) fn unreadable(writer: &Writer) -> Result<Vec<String>> {
    let with_heap = |node: &Node| {
        let found = node.attributes.values().filter(|attribute| attribute.datatype.has_vlen());
        found.cloned().collect::<Vec<_>>()
    };
    let attributes: Vec<_> = {
        let tree = writer.0.tree();
        let nodes = tree.nodes.iter().enumerate();
        nodes
            .map(|(number, node)| (NodeId(number), with_heap(node)))
            .filter(|(_, all)| !all.is_empty())
            .collect()
    };
    if attributes.is_empty() {
        return Ok(Vec::new());
    }
    let file = writer.snapshot()?;
    let names = super::recover::names(&writer.0.tree());
    let mut told = Vec::new();
    for (id, attribute) in
        attributes.into_iter().flat_map(|(id, all)| all.into_iter().map(move |one| (id, one)))
    {
        let error = match crate::digest::check_elements(&file, &attribute.datatype, &attribute.data) {
            Err(error) if error.kind() != ErrorKind::Unsupported => error,
            _ => continue,
        };
        let owner = names.get(&id).filter(|name| !name.is_empty()).map_or("/", String::as_str);
        told.push(format!("attribute {} of {owner}: {}", attribute.name, error.message()));
        writer.0.tree_mut().node_mut(id)?.attributes.remove(&attribute.name);
    }
    Ok(told)
}

/// Removes the parts of an object that cannot be encoded; if it still cannot be, removes the object from the
/// file.
fn leave_out(writer: &Writer, id: NodeId, name: &str, error: Error) -> Result<String> {
    let fails = || writer.0.unencodable().into_iter().any(|(failing, _)| failing == id);
    let why = error.message().to_owned();
    let tracked = std::mem::replace(&mut writer.0.tree_mut().node_mut(id)?.track_order, false);
    if tracked && !fails() {
        return Ok(format!("the order of links and attributes of {name}: {why}"));
    }
    writer.0.tree_mut().node_mut(id)?.track_order = tracked;
    let attributes = std::mem::take(&mut writer.0.tree_mut().node_mut(id)?.attributes);
    if !attributes.is_empty() && !fails() {
        return Ok(format!("{} attributes of {name}: {why}", attributes.len()));
    }
    writer.0.tree_mut().node_mut(id)?.attributes = attributes;
    if id == NodeId::ROOT {
        return Err(error);
    }
    let mut tree = writer.0.tree_mut();
    for (group, link) in links_to(&tree, id) {
        tree.unlink(group, link.as_bytes())?;
    }
    Ok(format!("{name}: {why}"))
}

/// Returns all hard links to an object.
fn links_to(tree: &Tree, id: NodeId) -> Vec<(NodeId, Name)> {
    let mut links = Vec::new();
    for (number, node) in tree.nodes.iter().enumerate() {
        let NodeKind::Group(group) = &node.kind else { continue };
        let leading = group.links.iter().filter(|(_, link)| link.target == NewLink::Hard(id));
        links.extend(leading.map(|(name, _)| (NodeId(number), name.clone())));
    }
    links
}
