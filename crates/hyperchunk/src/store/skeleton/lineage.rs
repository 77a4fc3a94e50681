//! Which objects of a writer's image are objects of its base, whatever their names are now.
//!
//! HDF5 never moves an object header: in a copy that was edited in place, an object of the base has its address still. So objects that
//! were moved, or that got further names, are known, and references to them hold.

use super::tree::Target;
use super::{Author, Merge};
use crate::Result;
use hyperchunk_format::model::LinkTarget;
use std::collections::{HashMap, HashSet};

/// The lineage of the objects of one image.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    /// By objects of the image, those of the base that they are.
    base_of: HashMap<usize, usize>,
    /// Objects of the base that the image has, under whatever name.
    living: HashSet<usize>,
    /// By objects of the new file, those of the image that they are.
    claimed: HashMap<usize, usize>,
    visited: HashSet<usize>,
}

impl Lineage {
    /// The object of the base that an object of the image is.
    pub(super) fn base_of(&self, item: usize) -> Option<usize> {
        self.base_of.get(&item).copied()
    }

    /// Whether the image has an object of the base, under whatever name: then no other object of the image is that one.
    pub(super) fn has(&self, old: usize) -> bool {
        self.living.contains(&old)
    }

    /// Whether no other object of the image is that object of the new file; it is from now on.
    pub(super) fn claim(&mut self, node: usize, item: usize) -> bool {
        *self.claimed.entry(node).or_insert(item) == item
    }

    /// Notes which object of the base an object of the image is, known by its name: it may be visited by another one first.
    pub(super) fn known(&mut self, item: usize, old: usize) {
        self.base_of.entry(item).or_insert(old);
    }

    /// Whether an object of the image is visited for the first time.
    pub(super) fn visit(&mut self, item: usize) -> bool {
        self.visited.insert(item)
    }
}

impl Merge {
    /// Finds the lineage of an image whose root is `item`.
    pub(super) fn lineage(&mut self, author: Author, base: Option<usize>, item: usize) -> Result<Lineage> {
        let mut lineage = Lineage::default();
        let Some(base) = base else { return Ok(lineage) };
        self.find_by_name(base, 0)?;
        let (from, of) = (self.packing.contents.items[base].input, self.packing.contents.items[item].input);
        if author.in_place && from != of {
            let objects: Vec<_> = self.packing.contents.of_input(of).collect();
            for (address, item) in objects {
                let Some(old) = self.packing.contents.find(from, address) else { continue };
                if !self.alike(self.thing(old), self.thing(item))? {
                    continue;
                }
                lineage.base_of.insert(item, old);
                lineage.living.insert(old);
                if let Some(node) = self.node_of[old]
                    && self.alike(self.nodes[node].thing, self.thing(item))?
                    && lineage.claim(node, item)
                {
                    self.node_of[item] = Some(node);
                }
            }
        }
        // Of an image that is no such copy, names are all that tells.
        if !author.in_place {
            self.find_by_name(item, 0)?;
        }
        Ok(lineage)
    }

    /// Finds which objects of the new file the objects of a file are, by their paths; `item` is the file's root.
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
                    && self.alike(self.nodes[*there].thing, self.thing(to))?
                {
                    open.push((to, *there));
                }
            }
        }
        Ok(())
    }
}
