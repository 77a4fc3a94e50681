//! Lineage: matches objects of a writer's image to objects of its base, independent of their names.
//!
//! HDF5 never moves an object header: in a copy that was edited in place, an object of the base
//! keeps its address. So objects that were moved or linked under further names are recognized, and
//! references to them stay valid.

use super::tree::{NodeKind, Target};
use super::{Author, Merge};
use hyperchunk::Result;
use hyperchunk_format::model::LinkTarget;
use std::collections::{HashMap, HashSet};

/// Lineage of the objects of one image.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    /// Object of the base for objects of the image.
    base_of: HashMap<usize, usize>,
    /// Objects of the base that the image still has, under any name.
    living: HashSet<usize>,
    /// Object of the image for objects of the new file.
    claimed: HashMap<usize, usize>,
    visited: HashSet<usize>,
}

impl Lineage {
    /// Returns the base's object of an object of the image.
    pub(super) fn base_item(&self, item: usize) -> Option<usize> {
        self.base_of.get(&item).copied()
    }

    /// Returns whether the image still has an object of the base under any name; if so, no other
    /// object of the image can match it.
    pub(super) fn is_kept(&self, old: usize) -> bool {
        self.living.contains(&old)
    }

    /// Assigns an object of the new file to an object of the image; returns false if it is assigned
    /// to another one.
    pub(super) fn claim(&mut self, node: usize, item: usize) -> bool {
        *self.claimed.entry(node).or_insert(item) == item
    }

    /// Records a match by name, since the object may first be visited through another name.
    pub(super) fn record_match(&mut self, item: usize, old: usize) {
        self.base_of.entry(item).or_insert(old);
    }

    /// Returns whether an object of the image is visited for the first time.
    pub(super) fn visit(&mut self, item: usize) -> bool {
        self.visited.insert(item)
    }
}

impl Merge {
    /// Determines the lineage of an image whose root is `item`.
    pub(super) fn lineage(&mut self, author: Author, base: Option<usize>, item: usize) -> Result<Lineage> {
        let mut lineage = Lineage::default();
        let Some(base) = base else { return Ok(lineage) };
        self.find_by_name(base, 0)?;
        let (from, of) = (self.packing.contents.items[base].input, self.packing.contents.items[item].input);
        if author.in_place && from != of {
            let objects: Vec<_> = self.packing.contents.input_objects(of).collect();
            for (address, item) in objects {
                let Some(old) = self.packing.contents.find(from, address) else { continue };
                if !self.may_match(self.node_kind(old), self.node_kind(item))? {
                    continue;
                }
                lineage.base_of.insert(item, old);
                lineage.living.insert(old);
                if let Some(node) = self.node_of[old]
                    && self.may_match(self.nodes[node].kind, self.node_kind(item))?
                    && lineage.claim(node, item)
                {
                    self.node_of[item] = Some(node);
                }
            }
        }
        // An image that is not a copy edited in place is matched by names only.
        if !author.in_place {
            self.find_by_name(item, 0)?;
            self.split(author, &mut lineage, (from, of));
        }
        Ok(lineage)
    }

    /// Separates objects of the image `of` that share an object of the new file: their names lead to
    /// one object in the base `from`, but to different ones in the image. The first object keeps
    /// the shared one, and the others become new ones. An image of additions has an object for each name
    /// that its writer used, so two groups, or two stubs of a dataset, still are one object.
    fn split(&mut self, author: Author, lineage: &mut Lineage, (from, of): (usize, usize)) {
        let mut first = HashMap::new();
        let items: Vec<usize> = self.packing.contents.input_objects(of).map(|(_, item)| item).collect();
        for item in items {
            let Some(node) = self.node_of[item] else { continue };
            let is_stub = matches!(self.node_kind(item), NodeKind::Group | NodeKind::Stored { .. });
            if !author.deletes && is_stub {
                continue;
            }
            if *first.entry(node).or_insert(item) == item {
                continue;
            }
            self.node_of[item] = None;
            let kept = first[&node];
            lineage.claim(node, kept);
            let old =
                self.packing.contents.input_objects(from).find(|(_, old)| self.node_of[*old] == Some(node));
            if let Some((_, old)) = old {
                lineage.base_of.insert(kept, old);
                lineage.living.insert(old);
            }
        }
    }

    /// Matches the objects of a file to objects of the new file by their paths; `item` is the
    /// file's root.
    fn find_by_name(&mut self, item: usize, node: usize) -> Result<()> {
        let mut open = vec![(item, node)];
        let mut seen = HashSet::new();
        while let Some((item, node)) = open.pop() {
            if !seen.insert(item) {
                continue;
            }
            self.node_of[item].get_or_insert(node);
            let listed = &self.packing.contents.items[item];
            for link in &listed.links {
                let LinkTarget::Hard(address) = &link.target else { continue };
                let Some(to) = self.packing.contents.find(listed.input, *address) else { continue };
                if let Some(Target::Node(there)) = self.nodes[node].target(&link.name)
                    && self.may_match(self.nodes[*there].kind, self.node_kind(to))?
                {
                    open.push((to, *there));
                }
            }
        }
        Ok(())
    }
}
