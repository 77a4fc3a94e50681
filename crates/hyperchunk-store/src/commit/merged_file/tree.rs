//! Tree of the merged file, and the three-way merge.

use super::elements::{Elements, MergeOutcome};
use super::lineage::Lineage;
use super::{Author, Merge, StructureConflict};
use crate::{DatasetId, Marker, WriterId};
use hyperchunk::Result;
use hyperchunk_format::model::{Attribute, LinkTarget, Name, ObjectKind};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Attribute of a dimension scale that lists the datasets which use it: a set, to which all writers
/// may add.
const REFERENCE_LIST: &[u8] = b"REFERENCE_LIST";

/// Conflict in which the changed version is kept.
const DELETED_AND_CHANGED: &str = "one deleted it, the other changed it";

/// An object of the new file.
#[derive(Debug)]
pub(super) struct Node {
    /// A path that leads to it.
    pub(super) path: Vec<u8>,
    pub(super) kind: NodeKind,
    pub(super) attributes: Vec<Attr>,
    links: Vec<Option<Link>>,
    /// Position of a link by name.
    places: HashMap<Name, usize>,
    /// Writer that deleted a link, by name.
    deleted: HashMap<Name, WriterId>,
    /// True if links and attributes have a creation order.
    pub(super) tracked: bool,
    pub(super) comment: Option<Name>,
    /// Its elements, if they come from several datasets.
    pub(super) elements: Option<Elements>,
    /// Writer that created it or changed its content, if any.
    by: Option<WriterId>,
}

/// Kind of an object; for objects that are copied, their index in `packing.contents.items`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeKind {
    Group,
    Native(usize),
    Datatype(usize),
    /// A dataset of the store, with its marker if an image has one.
    Stored {
        id: DatasetId,
        item: Option<usize>,
    },
}

/// An attribute, and the object that it comes from.
#[derive(Debug)]
pub(super) struct Attr {
    pub(super) item: usize,
    pub(super) attribute: Attribute,
    /// Further attributes whose elements are merged into it.
    pub(super) also: Vec<(usize, Attribute)>,
    by: Option<WriterId>,
}

/// A link.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) name: Name,
    pub(super) target: Target,
    by: Option<WriterId>,
}

/// Target of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Node(usize),
    Elsewhere(LinkTarget),
}

impl Node {
    pub(super) fn group(path: Vec<u8>, tracked: bool) -> Self {
        Self::new(path, NodeKind::Group, tracked, None)
    }

    fn new(path: Vec<u8>, kind: NodeKind, tracked: bool, by: Option<WriterId>) -> Self {
        Self {
            path,
            kind,
            attributes: Vec::new(),
            links: Vec::new(),
            places: HashMap::new(),
            deleted: HashMap::new(),
            tracked,
            comment: None,
            elements: None,
            by,
        }
    }

    fn link(&self, name: &Name) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// Iterates over its links in creation order.
    pub(super) fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().flatten()
    }

    /// Returns the target of a link by name.
    pub(super) fn target(&self, name: &Name) -> Option<&Target> {
        self.link(name).and_then(|place| self.link_at(place)).map(|link| &link.target)
    }

    fn link_at(&self, place: usize) -> Option<&Link> {
        self.links.get(place)?.as_ref()
    }

    fn remove(&mut self, name: &Name) {
        if let Some(link) = self.places.remove(name).and_then(|place| self.links.get_mut(place)) {
            *link = None;
        }
    }

    /// Sorts the links in the order of the given names, followed by all others.
    fn order_links(&mut self, names: &[&Name]) {
        let order: HashMap<&Name, usize> =
            names.iter().zip(0..).map(|(name, place)| (*name, place)).collect();
        let mut links: Vec<Link> = self.links.drain(..).flatten().collect();
        links.sort_by_key(|link| order.get(&link.name).copied().unwrap_or(usize::MAX));
        self.places = links.iter().zip(0..).map(|(link, place)| (link.name.clone(), place)).collect();
        self.links = links.into_iter().map(Some).collect();
    }

    fn push(&mut self, link: Link) {
        self.deleted.remove(&link.name);
        self.places.insert(link.name.clone(), self.links.len());
        self.links.push(Some(link));
    }
}

impl Merge {
    /// Returns the kind of an object of a source file.
    pub(super) fn node_kind(&self, item: usize) -> NodeKind {
        let listed = &self.packing.contents.items[item];
        match (listed.object.kind(), &listed.dataset) {
            (ObjectKind::Group, _) => NodeKind::Group,
            (ObjectKind::Datatype, _) => NodeKind::Datatype(item),
            (ObjectKind::Dataset, dataset) => match dataset.as_ref().and_then(Marker::from_dataset) {
                Some(marker) => NodeKind::Stored { id: marker.dataset, item: Some(item) },
                None => NodeKind::Native(item),
            },
        }
    }

    /// Returns whether two objects can be the same, regardless of their content.
    pub(super) fn may_match(&self, one: NodeKind, other: NodeKind) -> Result<bool> {
        Ok(match (one, other) {
            (NodeKind::Group, NodeKind::Group) | (NodeKind::Native(_), NodeKind::Native(_)) => true,
            (NodeKind::Datatype(one), NodeKind::Datatype(other)) => self.same_datatype(one, other)?,
            (NodeKind::Stored { id: one, .. }, NodeKind::Stored { id: other, .. }) => {
                one == other || self.is_same_dataset(one, other)
            }
            _ => false,
        })
    }

    /// Returns whether two datasets with different ids can be the same: their definitions are equal
    /// apart from the path, and at least one was created without a name.
    fn is_same_dataset(&self, one: DatasetId, other: DatasetId) -> bool {
        let (first, second) = (self.identities.get(&one), self.identities.get(&other));
        first.zip(second).is_some_and(|(first, second)| {
            first.pathless == second.pathless && (first.nameless || second.nameless)
        })
    }

    /// Merges an author's version of an object into `node` of the new file.
    pub(super) fn merge_object(
        &mut self,
        author: Author,
        base: Option<usize>,
        item: usize,
        node: usize,
    ) -> Result<()> {
        // An explicit stack of groups, since trees may be deep.
        let mut lineage = self.lineage(author, base, item)?;
        let mut open = vec![(base, item, node)];
        self.node_of[item] = Some(node);
        lineage.claim(node, item);
        while let Some((base, item, node)) = open.pop() {
            if !lineage.visit(item) {
                continue;
            }
            self.merge_contents(author, base, item, node)?;
            self.merge_attributes(author, base, item, node)?;
            if self.nodes[node].kind == NodeKind::Group {
                let below = self.merge_links(author, &mut lineage, (base, item, node))?;
                open.extend(below.into_iter().rev());
            }
        }
        Ok(())
    }

    fn add_conflict(
        &mut self,
        node: usize,
        attribute: Option<&Name>,
        name: Option<&Name>,
        what: impl Into<Cow<'static, str>>,
        who: (Option<WriterId>, Option<WriterId>),
    ) {
        let (first, Some(last)) = who else { return };
        if first == Some(last) {
            return;
        }
        let mut path = self.nodes[node].path.clone();
        if let Some(name) = name {
            path = child_path(&path, name);
        }
        let attribute = attribute.map(|name| name.as_bytes().to_vec());
        let what = what.into();
        self.conflicts.push(StructureConflict { path, attribute, what, first, last });
    }

    /// Merges the content of a dataset or committed datatype, and its comment.
    fn merge_contents(
        &mut self,
        Author { writer, deletes, .. }: Author,
        base: Option<usize>,
        item: usize,
        node: usize,
    ) -> Result<()> {
        let object = &self.packing.contents.items[item].object;
        let comment = object.comment()?;
        let before = match base {
            Some(base) => self.packing.contents.items[base].object.comment()?,
            None => None,
        };
        if comment != before && (deletes || comment.is_some()) {
            self.nodes[node].comment = comment;
        }
        match (self.nodes[node].kind, self.node_kind(item)) {
            (NodeKind::Native(now), NodeKind::Native(_)) if now != item => {
                if let Some(base) = base
                    && self.same_data(base, item)?
                {
                    return Ok(());
                }
                if self.nodes[node].elements.is_none() && self.same_data(now, item)? {
                    return Ok(());
                }
                let by = self.nodes[node].by;
                if base.is_none() || by.is_some() {
                    match self.merge_elements(base, item, node)? {
                        MergeOutcome::Merged => {
                            self.nodes[node].by = writer;
                            return Ok(());
                        }
                        MergeOutcome::Conflicts(count, first) => {
                            let elements = if count == 1 { "element" } else { "elements" };
                            let what =
                                format!("different values of {count} {elements}, the first at {first:?}");
                            if by.is_some() {
                                self.add_conflict(node, None, None, what, (by, writer));
                            }
                            self.nodes[node].by = writer;
                            return Ok(());
                        }
                        MergeOutcome::NotComparable => {}
                    }
                    self.add_conflict(node, None, None, "two datasets with different contents", (by, writer));
                    self.nodes[node].elements = None;
                }
                self.nodes[node].kind = NodeKind::Native(item);
                self.nodes[node].by = writer;
            }
            (NodeKind::Stored { id, .. }, NodeKind::Stored { id: other, .. }) if id != other => {
                self.aliases.insert(other, id);
            }
            (NodeKind::Stored { id, item: None }, NodeKind::Stored { .. }) => {
                self.nodes[node].kind = NodeKind::Stored { id, item: Some(item) };
            }
            _ => {}
        }
        Ok(())
    }

    fn merge_attributes(
        &mut self,
        Author { writer, deletes, .. }: Author,
        base: Option<usize>,
        item: usize,
        node: usize,
    ) -> Result<()> {
        let mut theirs = self.packing.contents.items[item].object.attributes()?;
        theirs.sort_by_key(|attribute| attribute.creation_order);
        let before: HashMap<Name, Attribute> = match base {
            Some(base) => {
                let all = self.packing.contents.items[base].object.attributes()?;
                all.into_iter().map(|attribute| (attribute.name.clone(), attribute)).collect()
            }
            None => HashMap::new(),
        };
        let lost: Vec<Name> =
            before.keys().filter(|name| !theirs.iter().any(|own| own.name == **name)).cloned().collect();
        for name in lost.into_iter().filter(|_| deletes) {
            let Some(at) = self.nodes[node].attributes.iter().position(|own| own.attribute.name == name)
            else {
                continue;
            };
            let by = self.nodes[node].attributes[at].by;
            if by.is_some() && by != writer {
                // The changed version is kept.
                self.add_conflict(node, Some(&name), None, DELETED_AND_CHANGED, (writer, by));
                continue;
            }
            self.nodes[node].attributes.remove(at);
        }
        let order: Vec<Name> = theirs.iter().map(|attribute| attribute.name.clone()).collect();
        for attribute in theirs {
            let now = self.nodes[node].attributes.iter().position(|own| own.attribute.name == attribute.name);
            let old = base.zip(before.get(&attribute.name));
            if let Some((base, old)) = old
                && self.same_attribute((base, old), (item, &attribute))?
            {
                continue;
            }
            let new = Attr { item, attribute, also: Vec::new(), by: writer };
            let Some(now) = now else {
                self.nodes[node].attributes.push(new);
                continue;
            };
            let current = &self.nodes[node].attributes[now];
            // If only this writer changed it, its version is taken, even if the only difference is
            // a reference to another object of the same path.
            if (old.is_none() || current.by.is_some())
                && self.same_attribute((current.item, &current.attribute), (item, &new.attribute))?
            {
                continue;
            }
            let is_set = new.attribute.name.as_bytes() == REFERENCE_LIST
                && current.attribute.datatype == new.attribute.datatype;
            if is_set {
                self.nodes[node].attributes[now].also.push((item, new.attribute));
                continue;
            }
            let by = current.by;
            // Without `by`, the present value is from an earlier epoch: no conflict.
            if by.is_some() {
                let name = new.attribute.name.clone();
                self.add_conflict(node, Some(&name), None, "different values", (by, writer));
            }
            self.nodes[node].attributes[now] = new;
        }
        // An attribute that was deleted and created again comes last.
        let places: HashMap<&Name, usize> = order.iter().zip(0..).collect();
        let own = |attr: &Attr| {
            places.contains_key(&attr.attribute.name) && (attr.by.is_none() || attr.by == writer)
        };
        if deletes && self.nodes[node].tracked && self.nodes[node].attributes.iter().all(own) {
            self.nodes[node].attributes.sort_by_key(|attr| places.get(&attr.attribute.name).copied());
        }
        Ok(())
    }

    /// Merges a group's links; returns the objects to visit next.
    fn merge_links(
        &mut self,
        author: Author,
        lineage: &mut Lineage,
        (base, item, node): (Option<usize>, usize, usize),
    ) -> Result<Vec<(Option<usize>, usize, usize)>> {
        let Author { writer, deletes, .. } = author;
        let listed = &self.packing.contents.items[item];
        let tracked = hyperchunk::internal::pack::tracked(listed) || listed.object.group()?.tracks_order()?;
        let (theirs, input) = (listed.links.clone(), listed.input);
        self.nodes[node].tracked |= tracked;
        let (before, base_input) = match base.map(|base| &self.packing.contents.items[base]) {
            Some(base) => (base.links.clone(), base.input),
            None => (Vec::new(), 0),
        };
        let kept: HashSet<&Name> = theirs.iter().map(|link| &link.name).collect();
        let known: HashMap<&Name, _> = before.iter().map(|link| (&link.name, link)).collect();
        for old in before.iter().filter(|_| deletes) {
            if kept.contains(&old.name) {
                continue;
            }
            if let Some(at) = self.nodes[node].link(&old.name) {
                let by = self.changed_by(node, at, writer, input);
                if by.is_some() {
                    self.add_conflict(node, None, Some(&old.name), DELETED_AND_CHANGED, (writer, by));
                    continue;
                }
                self.nodes[node].remove(&old.name);
                if let Some(writer) = writer {
                    self.nodes[node].deleted.insert(old.name.clone(), writer);
                }
            }
        }
        let mut next = Vec::new();
        for link in &theirs {
            let old = known.get(&link.name).copied();
            let now = self.nodes[node].link(&link.name);
            let found = match &link.target {
                LinkTarget::Hard(address) => match self.packing.contents.find(input, *address) {
                    Some(to) => Some(to),
                    None => continue,
                },
                _ => None,
            };
            let old_item = match old.map(|old| &old.target) {
                Some(LinkTarget::Hard(address)) => self.packing.contents.find(base_input, *address),
                _ => None,
            };
            let Some(to) = found else {
                if old.is_none_or(|old| old.target != link.target) {
                    let target = Target::Elsewhere(link.target.clone());
                    // An image that only adds (`deletes` is false) replaces no object.
                    let is_object = old.is_some_and(|old| matches!(old.target, LinkTarget::Hard(_)));
                    let replaces = old.is_some() && (deletes || !is_object);
                    let by = self.replaced_by(node, now, writer, input, replaces);
                    self.set_link(writer, node, &link.name, now, target, (replaces, by));
                }
                continue;
            };
            let kept = match (old_item, lineage.base_item(to)) {
                (old, Some(same)) => old == Some(same),
                (Some(old), None) => {
                    !lineage.is_kept(old) && self.may_match(self.node_kind(old), self.node_kind(to))?
                }
                (None, None) => false,
            };
            // Its version in the base, under any name.
            let was = lineage.base_item(to).or(old_item.filter(|_| kept));
            // The new file's object under that name, if it can be the same one.
            let there =
                match now.and_then(|now| self.nodes[node].link_at(now)).map(|link| link.target.clone()) {
                    Some(Target::Node(there))
                        if self.may_match(self.nodes[there].kind, self.node_kind(to))? =>
                    {
                        Some(there)
                    }
                    _ => None,
                };
            match (self.node_of[to], there) {
                (Some(own), Some(there)) if own == there => next.push((was, to, there)),
                (None, Some(there)) if lineage.claim(there, to) => {
                    self.node_of[to] = Some(there);
                    if let Some(was) = was {
                        lineage.record_match(to, was);
                    }
                    next.push((was, to, there));
                }
                // Another author deleted or replaced it, and this one did not change it.
                (own, _) if kept && self.is_at(own, old_item) && !self.differs(author, old_item, to)? => {}
                (own, _) => {
                    if kept && now.is_none() {
                        let by = self.nodes[node].deleted.get(&link.name).copied();
                        self.add_conflict(node, None, Some(&link.name), DELETED_AND_CHANGED, (by, writer));
                    }
                    let target = match own {
                        Some(own) => {
                            // In an image that only adds, an object is visited under the name that it
                            // has in the base.
                            if deletes {
                                next.push((was, to, own));
                            }
                            own
                        }
                        None => {
                            let path = child_path(&self.nodes[node].path, &link.name);
                            let made = Node::new(path, self.node_kind(to), self.is_tracked(to), writer);
                            self.nodes.push(made);
                            self.node_of[to] = Some(self.nodes.len() - 1);
                            lineage.claim(self.nodes.len() - 1, to);
                            // All of it is new, regardless of the base.
                            next.push((None, to, self.nodes.len() - 1));
                            self.nodes.len() - 1
                        }
                    };
                    // An image that only adds replaces nothing: two kinds of objects under one name are
                    // a conflict.
                    let replaces = old.is_some() && deletes;
                    let by = self.replaced_by(node, now, writer, input, replaces);
                    self.set_link(writer, node, &link.name, now, Target::Node(target), (replaces, by));
                }
            }
        }
        // A link that was moved away and back comes last.
        let names: Vec<&Name> = theirs.iter().map(|link| &link.name).collect();
        let known: HashSet<&Name> = names.iter().copied().collect();
        let alone = |link: &Link| known.contains(&link.name) && (link.by.is_none() || link.by == writer);
        if deletes && self.nodes[node].links().all(alone) {
            self.nodes[node].order_links(&names);
        }
        Ok(next)
    }

    fn is_tracked(&self, item: usize) -> bool {
        hyperchunk::internal::pack::tracked(&self.packing.contents.items[item])
    }

    /// Returns a writer, other than `except`, that changed a link or anything reachable through it.
    /// Elements of a dataset that the image `input` still has under another name are not lost with
    /// the link.
    fn changed_by(
        &self,
        node: usize,
        link: usize,
        except: Option<WriterId>,
        input: usize,
    ) -> Option<WriterId> {
        let moved = self.has.get(&input);
        let other = |by: Option<WriterId>| by.filter(|by| Some(*by) != except);
        let link = self.nodes[node].link_at(link)?;
        let mut found = other(link.by);
        let mut open = vec![&link.target];
        let mut seen = HashSet::new();
        while let (None, Some(target)) = (found, open.pop()) {
            let Target::Node(to) = target else { continue };
            if !seen.insert(*to) {
                continue;
            }
            let node = &self.nodes[*to];
            let attributes = node.attributes.iter().map(|attribute| attribute.by);
            let by = std::iter::once(node.by).chain(attributes).chain(node.links().map(|link| link.by));
            let moved = matches!(node.kind, NodeKind::Stored { id, .. } if moved.is_some_and(|has| has.contains(&id)));
            let elements = self.element_writers(node.kind).iter().filter(|_| !moved).copied().map(Some);
            found = by.chain(elements).filter_map(other).next();
            open.extend(node.links().map(|link| &link.target));
        }
        found
    }

    /// Returns the other writer whose changes are lost if `writer` replaces a link that it knew.
    fn replaced_by(
        &self,
        node: usize,
        link: Option<usize>,
        writer: Option<WriterId>,
        input: usize,
        is_known: bool,
    ) -> Option<WriterId> {
        link.filter(|_| is_known).and_then(|link| self.changed_by(node, link, writer, input))
    }

    /// Returns whether an object of the new file, if there is one yet, is that of the base.
    fn is_at(&self, own: Option<usize>, old: Option<usize>) -> bool {
        own.is_none() || own == old.and_then(|old| self.node_of[old])
    }

    /// Returns the writers that wrote elements to a dataset of the store.
    pub(super) fn element_writers(&self, kind: NodeKind) -> &[WriterId] {
        match kind {
            NodeKind::Stored { id, .. } => self.written.get(&id).map_or(&[], Vec::as_slice),
            _ => &[],
        }
    }

    /// Sets a link. `is_known` is true if the writer knew of the existing one, and `changed_by` is
    /// the writer whose changes are lost with it.
    fn set_link(
        &mut self,
        writer: Option<WriterId>,
        node: usize,
        name: &Name,
        now: Option<usize>,
        target: Target,
        (is_known, changed_by): (bool, Option<WriterId>),
    ) {
        if let Some(now) = now {
            let known = self.nodes[node].link_at(now);
            if known.is_some_and(|known| known.target == target) {
                return;
            }
            let by = known.and_then(|known| known.by).or(changed_by);
            if !is_known || by.is_some() {
                self.add_conflict(
                    node,
                    None,
                    Some(name),
                    "different objects or links of the same name",
                    (by, writer),
                );
            }
            self.nodes[node].remove(name);
        }
        self.nodes[node].push(Link { name: name.clone(), target, by: writer });
    }

    /// Adds a dataset of the store that no image contains, with the groups on its path.
    pub fn add_dataset(&mut self, id: DatasetId, path: &[u8], writer: WriterId) {
        let mut node = 0;
        let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).peekable();
        while let Some(name) = names.next() {
            let name = Name::from(name);
            let last = names.peek().is_none();
            let now = self.nodes[node].link(&name);
            let there = match now.and_then(|now| self.nodes[node].link_at(now)).map(|link| &link.target) {
                Some(Target::Node(there)) => Some(*there),
                _ => None,
            };
            let fits = there.is_some_and(|there| match self.nodes[there].kind {
                NodeKind::Group => !last,
                NodeKind::Stored { id: other, .. } => last && other == id,
                _ => false,
            });
            node = match there.filter(|_| fits) {
                Some(there) => there,
                None => {
                    let path = child_path(&self.nodes[node].path, &name);
                    let kind = if last { NodeKind::Stored { id, item: None } } else { NodeKind::Group };
                    let tracked = self.nodes[node].tracked && !last;
                    self.nodes.push(Node::new(path, kind, tracked, Some(writer)));
                    let made = self.nodes.len() - 1;
                    self.set_link(Some(writer), node, &name, now, Target::Node(made), (false, None));
                    made
                }
            };
        }
    }

    /// Keeps a dataset of the store that a writer wrote elements to and another deleted; records a
    /// conflict that names both.
    pub fn keep_written(&mut self, id: DatasetId, path: &[u8], writer: WriterId) {
        let first = self.deleter(path);
        self.add_dataset(id, path, writer);
        let what = Cow::Borrowed(DELETED_AND_CHANGED);
        self.conflicts.push(StructureConflict {
            path: path.to_vec(),
            attribute: None,
            what,
            first,
            last: writer,
        });
    }

    /// Returns the writer that deleted the first missing link of a path.
    fn deleter(&self, path: &[u8]) -> Option<WriterId> {
        let mut node = &self.nodes[0];
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            let name = Name::from(name);
            match node.target(&name) {
                Some(Target::Node(next)) => node = &self.nodes[*next],
                Some(Target::Elsewhere(_)) => return None,
                None => return node.deleted.get(&name).copied(),
            }
        }
        None
    }

    /// Assigns each object a current path, since objects may have been moved.
    pub(super) fn settle_paths(&mut self) {
        let mut seen = vec![false; self.nodes.len()];
        let mut open = std::collections::VecDeque::from([0]);
        seen[0] = true;
        while let Some(node) = open.pop_front() {
            let found: Vec<_> = self.nodes[node]
                .links()
                .filter_map(|link| match link.target {
                    Target::Node(to) => Some((to, child_path(&self.nodes[node].path, &link.name))),
                    Target::Elsewhere(_) => None,
                })
                .collect();
            for (to, path) in found {
                if !std::mem::replace(&mut seen[to], true) {
                    self.nodes[to].path = path;
                    open.push_back(to);
                }
            }
        }
    }

    /// Returns the objects reachable from the root through hard links, groups before their members.
    pub(super) fn reachable_nodes(&self) -> Vec<usize> {
        let mut seen = vec![false; self.nodes.len()];
        let mut reached = vec![0];
        seen[0] = true;
        let mut at = 0;
        while let Some(node) = reached.get(at).copied() {
            at += 1;
            for link in self.nodes[node].links() {
                if let Target::Node(to) = link.target
                    && !std::mem::replace(&mut seen[to], true)
                {
                    reached.push(to);
                }
            }
        }
        reached
    }
}

fn child_path(path: &[u8], name: &Name) -> Vec<u8> {
    let slash: &[u8] = if path.ends_with(b"/") { b"" } else { b"/" };
    [path, slash, name.as_bytes()].concat()
}
