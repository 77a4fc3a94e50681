//! The structure of a store: what many writers made of it becomes one HDF5 file.
//!
//! Each writer has a file of its own, its *image*: a copy of the skeleton that it saw, its *base*, with its changes, or a new
//! one. A merge starts from the current skeleton and takes up what each writer changed, in the order of the writers' ids:
//! what differs from its base it changed, and what is only in its image it made. An image that began as a copy of its base
//! also deletes: what the base has and the image lacks. Other images hold additions alone. The same thing made by many is
//! one. Where two disagree, the later one counts, and a conflict names both.
//!
//! The result is a new file (`build`): groups in their order of creation, attributes, links, committed datatypes, native
//! datasets with their data; references lead to where their objects are now. Datasets of the store are made anew.

mod build;
mod compare;
mod elements;
mod lineage;
mod tree;

use super::{DatasetId, Definition, NAMELESS, WriterId};
use crate::pack::list::Contents;
use crate::pack::{Input, PackOptions, Packing};
use crate::{File, Result};
use hyperchunk_format::encode::Oldest;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

pub use build::Shown;

/// What one writer made of the structure.
#[derive(Debug, Clone)]
pub struct Change {
    /// The writer.
    pub writer: WriterId,
    /// The skeleton that it started with, if it started with one.
    pub base: Option<File>,
    /// Its file.
    pub image: File,
    /// Whether the image began as a copy of the base: objects, links and attributes that it lacks were deleted.
    pub deletes: bool,
    /// Whether HDF5 edited the base in place: then an object has the address that it has in the base.
    pub in_place: bool,
    /// The datasets of the store that it wrote elements to.
    pub written: HashSet<DatasetId>,
}

/// The author of a file that is merged.
#[derive(Debug, Clone, Copy)]
struct Author {
    /// The writer; `None` for the current skeleton.
    writer: Option<WriterId>,
    /// Whether what its base has and its image lacks was deleted.
    deletes: bool,
    /// Whether objects have the addresses that they have in the base.
    in_place: bool,
}

/// Two writers who do not agree about the structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    /// The path of the object.
    pub path: Vec<u8>,
    /// The attribute, if it is about one.
    pub attribute: Option<Vec<u8>>,
    /// What is different.
    pub what: Cow<'static, str>,
    /// Who came first; `None` for the epochs before.
    pub first: Option<WriterId>,
    /// Whose version counts.
    pub last: WriterId,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", String::from_utf8_lossy(&self.path))?;
        if let Some(attribute) = &self.attribute {
            write!(f, ", attribute {}", String::from_utf8_lossy(attribute))?;
        }
        write!(f, ": {} (", self.what)?;
        match self.first {
            Some(first) => write!(f, "writer {first}")?,
            None => f.write_str("an earlier epoch")?,
        }
        write!(f, " and writer {}, whose version counts)", self.last)
    }
}

/// A merge of what many writers made.
#[derive(Debug)]
pub struct Merge {
    packing: Packing,
    nodes: Vec<tree::Node>,
    /// For each object of each file, what it is of the new one.
    node_of: Vec<Option<usize>>,
    disagreements: Vec<Disagreement>,
    /// What is known of the datasets of the store.
    identities: HashMap<DatasetId, Identity>,
    /// Who wrote elements to a dataset and did not delete it.
    written: HashMap<DatasetId, Vec<WriterId>>,
    /// The datasets that each image has, under whatever name.
    has: HashMap<usize, HashSet<DatasetId>>,
    /// Datasets that are the same as others: those that were made without a name, by the datasets that they became.
    aliases: HashMap<DatasetId, DatasetId>,
}

/// What tells whether two datasets of a store may be one, made by two writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The identity that its definition would have without a path.
    pub pathless: DatasetId,
    /// Whether it was made without a name, and linked later: then its own identity is random.
    pub nameless: bool,
}

impl Identity {
    /// That of a definition.
    ///
    /// # Errors
    /// As [`Definition::encode`].
    pub fn new(definition: &Definition) -> Result<Self> {
        let pathless = Definition { path: Vec::new(), incarnation: 0, ..definition.clone() };
        Ok(Self { pathless: pathless.id()?, nameless: definition.path.starts_with(NAMELESS) })
    }
}

impl Merge {
    /// Merges changes into the current skeleton; without one, into an empty file.
    ///
    /// # Errors
    /// Those of reading the files.
    pub fn new(current: Option<&File>, changes: &[Change]) -> Result<Self> {
        Self::with_identities(current, changes, HashMap::new())
    }

    /// As [`Merge::new`], and datasets that were made without a name, alike and linked under one name, are one.
    ///
    /// # Errors
    /// Those of reading the files.
    pub fn with_identities(
        current: Option<&File>,
        changes: &[Change],
        identities: HashMap<DatasetId, Identity>,
    ) -> Result<Self> {
        let mut files: Vec<File> = Vec::new();
        let mut number = |file: &File| match files.iter().position(|other| other.same(file)) {
            Some(number) => number,
            None => {
                files.push(file.clone());
                files.len() - 1
            }
        };
        let current = current.map(&mut number);
        let numbered: Vec<_> = changes
            .iter()
            .map(|change| {
                let author = Author {
                    writer: Some(change.writer),
                    deletes: change.deletes,
                    in_place: change.in_place,
                };
                (author, change.base.as_ref().map(&mut number), number(&change.image))
            })
            .collect();
        let inputs = files.into_iter().map(|file| Input { file, into: String::new() }).collect();
        let contents = Contents::list(inputs)?;
        let plans = contents.items.iter().map(|_| None).collect();
        let node_of = vec![None; contents.items.len()];
        let options = PackOptions { threads: 1, ..PackOptions::default() };
        let packing = Packing { contents, plans, options, oldest: Oldest::default() };
        let nodes = vec![tree::Node::group(b"/".to_vec(), false)];
        let mut merge = Self {
            packing,
            nodes,
            node_of,
            disagreements: Vec::new(),
            identities,
            written: HashMap::new(),
            has: HashMap::new(),
            aliases: HashMap::new(),
        };
        let root = |merge: &Self, input: usize| merge.packing.contents.roots[input];
        if let Some(current) = current {
            let root = root(&merge, current);
            merge.object(Author { writer: None, deletes: false, in_place: false }, None, root, 0)?;
        }
        for (change, (.., image)) in changes.iter().zip(&numbered) {
            merge.note_written(change, *image);
        }
        for (author, base, image) in numbered {
            let base = base.map(|base| root(&merge, base));
            let image = root(&merge, image);
            merge.object(author, base, image, 0)?;
        }
        merge.settle_paths();
        Ok(merge)
    }

    /// Notes which datasets an image has, and which of those that its writer wrote elements to it did not delete.
    fn note_written(&mut self, change: &Change, input: usize) {
        let items = self.packing.contents.items.iter().enumerate();
        let own = items.filter(|(_, item)| item.input == input);
        let stored = |(item, _)| match self.thing(item) {
            tree::Thing::Stored { id, .. } => Some(id),
            _ => None,
        };
        let has: HashSet<DatasetId> = own.filter_map(stored).collect();
        for id in &change.written {
            // What an image of additions lacks was not deleted.
            if !change.deletes || has.contains(id) {
                self.written.entry(*id).or_default().push(change.writer);
            }
        }
        self.has.insert(input, has);
    }

    /// Datasets that were made without a name, by the datasets that they became.
    #[must_use]
    pub fn aliases(&self) -> &HashMap<DatasetId, DatasetId> {
        &self.aliases
    }

    /// What writers did not agree about.
    #[must_use]
    pub fn disagreements(&self) -> &[Disagreement] {
        &self.disagreements
    }

    /// The datasets of the store that the new skeleton leads to, each with a path that leads there.
    #[must_use]
    pub fn datasets(&self) -> Vec<(DatasetId, Vec<u8>)> {
        let reached = self.reached().into_iter().filter_map(|node| self.nodes.get(node));
        let mut found: Vec<_> = reached
            .filter_map(|node| match node.thing {
                tree::Thing::Stored { id, .. } => Some((id, node.path.clone())),
                _ => None,
            })
            .collect();
        found.sort();
        found.dedup_by_key(|(id, _)| *id);
        found
    }
}

#[cfg(test)]
mod tests;
