//! Tree of a file's objects in memory.

use super::chunks::Data;
use super::edit::{BaseObject, ReplacedParts};
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::encode::LibVersion;
use hyperchunk_format::model::{
    Attribute, CharacterSet, Dataspace, Datatype, FillValue, Link, LinkTarget, Name, ObjectKind, Pipeline,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// Number of an object of a file that is open for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(super) usize);

impl NodeId {
    /// The root group.
    pub const ROOT: Self = Self(0);
}

/// Target of a new link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewLink {
    /// An object of this file.
    Hard(NodeId),
    /// A path in this file.
    Soft(Name),
    /// A path in another file.
    External {
        /// Name of the file.
        file: Name,
        /// Path in the file.
        path: Name,
    },
    /// A user-defined link, which only its application can follow.
    User {
        /// Class of the link, 65 to 255, which the application has registered.
        class: u8,
        /// Data for the application.
        data: Vec<u8>,
    },
}

#[derive(Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: NodeKind,
    pub(super) attributes: BTreeMap<Name, Attribute>,
    /// Creation order of the next attribute.
    pub(super) next_attribute: u32,
    pub(super) track_order: bool,
    pub(super) comment: Option<Name>,
    /// Creation time in seconds since 1970, if times are stored.
    pub(super) made: Option<u32>,
    /// Fixed address of the header.
    pub(super) pinned: Option<u64>,
    /// Number of hard links to the object.
    pub(super) links: u32,
    /// True if the next commit of an edit must encode the object.
    pub(super) dirty: bool,
    /// State of the object before the edit; `None` for new objects.
    pub(super) base: Option<BaseObject>,
    /// Address and size in bytes of the structures that are replaced when the object is encoded again, in an
    /// edit.
    pub(super) blocks: Vec<(u64, u64)>,
    /// True once a commit of an edit has removed the object.
    pub(super) removed: bool,
}

#[derive(Debug)]
pub(super) enum NodeKind {
    Group(GroupNode),
    Dataset(Arc<DatasetNode>),
    Datatype(Datatype),
    /// An object of the edited file that has not been loaded yet.
    Unread {
        address: u64,
    },
    /// An object of an existing file, whose header stays in place.
    Kept {
        kind: ObjectKind,
        address: u64,
    },
}

#[derive(Debug, Default)]
pub(super) struct GroupNode {
    pub(super) links: BTreeMap<Name, GroupLink>,
    /// Creation order of the next link.
    pub(super) next: i64,
}

#[derive(Debug, Clone)]
pub(super) struct GroupLink {
    pub(super) order: i64,
    pub(super) target: NewLink,
}

/// A dataset. Everything except data and extent is fixed at its creation.
#[derive(Debug)]
pub(super) struct DatasetNode {
    /// Object number, set when the dataset is added to the tree.
    pub(super) id: OnceLock<NodeId>,
    pub(super) datatype: Datatype,
    pub(super) committed: Option<u64>,
    pub(super) element_size: usize,
    pub(super) has_vlen: bool,
    pub(super) dataspace: RwLock<Dataspace>,
    pub(super) pipeline: Pipeline,
    pub(super) fill: FillValue,
    pub(super) data: Data,
    /// Oldest release of HDF5 that can read the dataset.
    pub(super) needs: LibVersion,
    /// True if chunks that extend past the dataset's extent are not filtered.
    pub(super) edge_chunks_unfiltered: bool,
    /// True if the dataset is in an edited file, where its fill value message is kept.
    pub(super) is_edited: bool,
    /// True if layout or extent have changed since the last commit of an edit.
    pub(super) touched: AtomicBool,
    /// Held while members of compounds are changed, so that threads may change different ones.
    pub(super) members: Mutex<()>,
}

impl DatasetNode {
    pub(super) fn dataspace(&self) -> Dataspace {
        self.dataspace.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the oldest release for whose format the dataset is written; `asked` is the requested one.
    pub(super) fn oldest(&self, asked: LibVersion) -> LibVersion {
        asked.max(self.needs)
    }

    /// Returns whether the chunks are so large that releases before 2.0 cannot read them.
    pub(super) fn large(&self) -> bool {
        matches!(&self.data, Data::Chunked(chunks) if u32::try_from(chunks.bytes).is_err())
    }

    pub(super) fn id(&self) -> NodeId {
        self.id.get().copied().unwrap_or(NodeId::ROOT)
    }

    /// Records a change of layout or extent.
    pub(super) fn touch(&self) {
        self.touched.store(true, Ordering::Release);
    }

    /// Checks that elements can be written: unfiltered edge chunks are not supported.
    pub(super) fn check_writable(&self) -> Result<()> {
        if self.edge_chunks_unfiltered {
            return Err(Error::unsupported(
                "cannot write to the dataset: its edge chunks are not filtered; `hyperchunk pack` makes a file that can \
                 be edited",
            ));
        }
        Ok(())
    }

    pub(super) fn dims(&self) -> Vec<u64> {
        self.dataspace.read().unwrap_or_else(PoisonError::into_inner).dims().to_vec()
    }
}

impl Node {
    pub(super) fn new(kind: NodeKind, track_order: bool) -> Self {
        Self {
            kind,
            attributes: BTreeMap::new(),
            next_attribute: 0,
            track_order,
            comment: None,
            made: None,
            pinned: None,
            links: 0,
            dirty: true,
            base: None,
            blocks: Vec::new(),
            removed: false,
        }
    }
}

impl Node {
    /// Returns address and size of the structures that the next commit of an edit replaces.
    pub(super) fn replaced_extents(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let touched =
            matches!(&self.kind, NodeKind::Dataset(dataset) if dataset.touched.load(Ordering::Acquire));
        self.base.iter().flat_map(move |base| base.replaced_extents(base.replaced(touched)))
    }

    /// Marks a part of the object that the next commit must encode again.
    pub(super) fn replace(&mut self, mark: impl FnOnce(&mut ReplacedParts)) {
        self.dirty = true;
        if let Some(base) = &mut self.base {
            mark(&mut base.replaced);
        }
    }
}

impl Node {
    /// Returns the address of the committed datatype of a dataset.
    fn dataset_type(&self) -> Option<u64> {
        match &self.kind {
            NodeKind::Dataset(dataset) => dataset.committed,
            _ => None,
        }
    }

    /// Returns the addresses of the attributes' committed datatypes.
    fn attribute_types(&self) -> impl Iterator<Item = u64> + '_ {
        self.attributes.values().filter_map(|attribute| attribute.committed)
    }

    pub(super) fn used_types(&self) -> impl Iterator<Item = u64> + '_ {
        self.attribute_types().chain(self.dataset_type())
    }

    /// Returns the link count of the header. It includes the uses of a committed datatype, which
    /// [`Tree::uses`] counts.
    pub(super) fn stored_links(&self, uses: &HashMap<u64, i64>) -> u32 {
        let uses = self.pinned.and_then(|address| uses.get(&address)).copied().unwrap_or(0);
        let links = i64::from(self.links).saturating_add(uses).clamp(0, u32::MAX.into());
        u32::try_from(links).unwrap_or(u32::MAX)
    }
}

impl Tree {
    pub(super) fn new(track_order: bool) -> Self {
        let mut root = Node::new(NodeKind::Group(GroupNode::default()), track_order);
        root.links = 1;
        Self { nodes: vec![root] }
    }

    pub(super) fn node(&self, id: NodeId) -> Result<&Node> {
        self.nodes.get(id.0).ok_or_else(|| Error::invalid("the object belongs to another file"))
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> Result<&mut Node> {
        self.nodes.get_mut(id.0).ok_or_else(|| Error::invalid("the object belongs to another file"))
    }

    pub(super) fn group(&self, id: NodeId) -> Result<&GroupNode> {
        match &self.node(id)?.kind {
            NodeKind::Group(group) => Ok(group),
            _ => Err(Error::invalid("the object is not a group")),
        }
    }

    /// Returns a group to be changed, and marks it as changed.
    fn group_mut(&mut self, id: NodeId) -> Result<&mut GroupNode> {
        let node = self.node_mut(id)?;
        node.replace(|replaced| replaced.content = true);
        match &mut node.kind {
            NodeKind::Group(group) => Ok(group),
            _ => Err(Error::invalid("the object is not a group")),
        }
    }

    pub(super) fn dataset(&self, id: NodeId) -> Result<&Arc<DatasetNode>> {
        match &self.node(id)?.kind {
            NodeKind::Dataset(dataset) => Ok(dataset),
            _ => Err(Error::invalid("the object is not a dataset")),
        }
    }

    /// Adds an object without a link.
    pub(super) fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() - 1)
    }

    pub(super) fn check_new_name(&self, parent: NodeId, name: &[u8]) -> Result<()> {
        check_link_name(name)?;
        if self.group(parent)?.links.contains_key(name) {
            let message = format!("{} exists", Name::from(name));
            return Err(Error::new(ErrorKind::Exists, message));
        }
        Ok(())
    }

    pub(super) fn link(&mut self, parent: NodeId, name: &[u8], target: NewLink) -> Result<()> {
        self.check_new_name(parent, name)?;
        if let NewLink::Hard(id) = target {
            let node = self.node_mut(id)?;
            let too_many = || Error::limit("too many links to one object");
            node.links = node.links.checked_add(1).ok_or_else(too_many)?;
            node.dirty = true;
        }
        let group = self.group_mut(parent)?;
        let order = group.next;
        group.next += 1;
        group.links.insert(name.into(), GroupLink { order, target });
        Ok(())
    }

    pub(super) fn unlink(&mut self, parent: NodeId, name: &[u8]) -> Result<()> {
        let removed = self.group_mut(parent)?.links.remove(name);
        let removed = removed.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("no link {} in the group", Name::from(name)))
        })?;
        if let NewLink::Hard(id) = removed.target {
            let node = self.node_mut(id)?;
            node.links = node.links.saturating_sub(1);
            node.dirty = true;
        }
        Ok(())
    }

    /// Removes the link that was created last, and restores the creation order.
    pub(super) fn unlink_last(&mut self, parent: NodeId, name: &[u8]) -> Result<()> {
        self.unlink(parent, name)?;
        self.group_mut(parent)?.next -= 1;
        Ok(())
    }

    /// Restores a removed link with its creation order.
    pub(super) fn link_again(&mut self, parent: NodeId, name: Name, link: GroupLink) -> Result<()> {
        if let NewLink::Hard(id) = link.target {
            let node = self.node_mut(id)?;
            node.links = node.links.saturating_add(1);
            node.dirty = true;
        }
        self.group_mut(parent)?.links.insert(name, link);
        Ok(())
    }

    /// Redirects all links from one object to another, and moves its attributes to that.
    pub(super) fn supplant(&mut self, old: NodeId, new: NodeId) -> Result<()> {
        let node = self.node_mut(old)?;
        let attributes = std::mem::take(&mut node.attributes);
        let (next, comment, pinned) = (node.next_attribute, node.comment.take(), node.pinned.take());
        let links = std::mem::take(&mut node.links);
        let node = self.node_mut(new)?;
        (node.attributes, node.next_attribute, node.comment, node.pinned) =
            (attributes, next, comment, pinned);
        node.links = links;
        for node in &mut self.nodes {
            let NodeKind::Group(group) = &mut node.kind else { continue };
            for link in group.links.values_mut().filter(|link| link.target == NewLink::Hard(old)) {
                link.target = NewLink::Hard(new);
            }
        }
        Ok(())
    }

    /// Sets an attribute. The creation order of an existing one stays the same.
    pub(super) fn set_attribute(&mut self, id: NodeId, mut attribute: Attribute) -> Result<()> {
        if attribute.name.as_bytes().is_empty() {
            return Err(Error::invalid("the attribute has no name"));
        }
        check_name(attribute.name.as_bytes())?;
        let size =
            attribute.dataspace.elements().and_then(|count| count.checked_mul(attribute.datatype.size));
        if size != Some(attribute.data.len() as u64) {
            let got = attribute.data.len();
            let message = format!("{got} bytes for attribute {} do not match its datatype", attribute.name);
            return Err(Error::invalid(message));
        }
        let node = self.node_mut(id)?;
        attribute.creation_order = match node.attributes.get(&attribute.name) {
            Some(old) => old.creation_order,
            None => {
                let order = node.next_attribute;
                node.next_attribute = order.saturating_add(1);
                Some(order)
            }
        };
        node.replace(|replaced| replaced.attributes = true);
        node.attributes.insert(attribute.name.clone(), attribute);
        Ok(())
    }

    /// Returns all objects, including those without links.
    pub(super) fn all(&self) -> Vec<NodeId> {
        (0..self.nodes.len()).map(NodeId).collect()
    }

    /// Returns the objects that have changed since the last commit of an edit.
    pub(super) fn changed(&self) -> Vec<NodeId> {
        let differs = |node: &Node| {
            let touched =
                matches!(&node.kind, NodeKind::Dataset(data) if data.touched.load(Ordering::Acquire));
            (node.dirty || touched) && !node.removed
        };
        let all = self.nodes.iter().enumerate();
        all.filter(|(_, node)| differs(node)).map(|(number, _)| NodeId(number)).collect()
    }

    /// Records another use of the committed datatype at an address, as its header counts the uses.
    pub(super) fn use_datatype(&mut self, address: Option<u64>) {
        let used = |node: &&mut Node| address.is_some() && node.pinned == address;
        self.nodes.iter_mut().filter(used).for_each(|node| node.dirty = true);
    }

    /// Counts the uses of each committed datatype, by its address, in objects and their attributes. In an
    /// edit, the counts are changes since its start, and may be negative; the headers in the file have the
    /// original counts.
    pub(super) fn uses(&self, order: &[NodeId]) -> HashMap<u64, i64> {
        let mut uses: HashMap<u64, i64> = HashMap::new();
        let mut count = |address: u64, change: i64| *uses.entry(address).or_default() += change;
        for node in order.iter().filter_map(|id| self.nodes.get(id.0)) {
            match &node.base {
                None if node.removed || node.links == 0 => {}
                None => node.used_types().for_each(|address| count(address, 1)),
                Some(base) if node.removed => {
                    let types = base.attribute_types.iter().copied().chain(node.dataset_type());
                    types.for_each(|address| count(address, -1));
                }
                Some(base) => {
                    node.attribute_types().for_each(|address| count(address, 1));
                    base.attribute_types.iter().for_each(|address| count(*address, -1));
                }
            }
        }
        uses
    }

    /// Returns a path to an object for messages.
    pub(super) fn node_path(&self, wanted: NodeId) -> String {
        for id in self.reachable() {
            let Some(Node { kind: NodeKind::Group(group), .. }) = self.nodes.get(id.0) else { continue };
            let link =
                group.links.iter().find(|(_, link)| matches!(link.target, NewLink::Hard(to) if to == wanted));
            if let Some((name, _)) = link {
                let here = if id == NodeId::ROOT { String::new() } else { self.node_path(id) };
                return format!("{here}/{name}");
            }
        }
        "/".to_owned()
    }

    /// Returns all objects that are reachable from the root by hard links, in breadth-first order; then the
    /// committed datatypes without links that these objects use.
    pub(super) fn reachable(&self) -> Vec<NodeId> {
        let mut seen = vec![false; self.nodes.len()];
        let mut order = vec![NodeId::ROOT];
        seen[0] = true;
        let mut at = 0;
        while let Some(NodeKind::Group(group)) = order.get(at).map(|id| &self.nodes[id.0].kind).or(None) {
            for link in group.links.values() {
                if let NewLink::Hard(id) = link.target
                    && !std::mem::replace(&mut seen[id.0], true)
                {
                    order.push(id);
                }
            }
            at = (at + 1..order.len())
                .find(|at| matches!(self.nodes[order[*at].0].kind, NodeKind::Group(_)))
                .unwrap_or(order.len());
        }
        let types = order.iter().flat_map(|id| self.nodes[id.0].used_types());
        let types: BTreeSet<u64> = types.collect();
        if !types.is_empty() {
            let is_used = |node: &Node| node.pinned.is_some_and(|address| types.contains(&address));
            let nodes = self.nodes.iter().enumerate();
            let unlinked = nodes.filter(|(number, node)| !seen[*number] && is_used(node));
            order.extend(unlinked.map(|(number, _)| NodeId(number)));
        }
        order
    }
}

impl GroupNode {
    /// Returns the links in their stored form, sorted by name.
    pub(super) fn stored(&self, track_order: bool, address: impl Fn(NodeId) -> u64) -> Vec<Link> {
        let link = |(name, link): (&Name, &GroupLink)| Link {
            name: name.clone(),
            charset: charset(name),
            creation_order: track_order.then_some(link.order),
            target: match &link.target {
                NewLink::Hard(id) => LinkTarget::Hard(address(*id)),
                NewLink::Soft(path) => LinkTarget::Soft(path.clone()),
                NewLink::External { file, path } => {
                    LinkTarget::External { file: file.clone(), path: path.clone() }
                }
                NewLink::User { class, data } => LinkTarget::User { class: *class, data: data.clone() },
            },
        };
        self.links.iter().map(link).collect()
    }
}

/// Returns the character set of a name: ASCII if possible, since old programs support no other.
fn charset(name: &Name) -> CharacterSet {
    if name.as_bytes().is_ascii() { CharacterSet::Ascii } else { CharacterSet::Utf8 }
}

fn check_name(name: &[u8]) -> Result<()> {
    if name.contains(&0) {
        return Err(Error::invalid("the name has a NUL in it"));
    }
    if name.len() > usize::from(u16::MAX) - 1024 {
        return Err(Error::limit(format!("the name is too long: {} bytes", name.len())));
    }
    Ok(())
}

fn check_link_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name == b"." || name.contains(&b'/') {
        return Err(Error::invalid(format!("invalid name of a link: {:?}", Name::from(name))));
    }
    check_name(name)
}
