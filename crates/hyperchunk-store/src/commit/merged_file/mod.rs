//! Merge of the structure of a store: combines the files of many writers into one HDF5 file.
//!
//! Each writer has a file of its own, its *image*: a copy of the skeleton that it started from, its
//! *base*, with its changes, or a new file. A three-way merge starts from the current skeleton and
//! applies each writer's changes, in the order of the writers' priorities and ids: differences from the
//! base are changes, objects only in the image are additions. An image that began as a copy of its base
//! also deletes objects that the base has and the image lacks; other images only add. Identical objects
//! of several writers become one. If two writers disagree, the later one takes precedence, and a conflict
//! names both.
//!
//! The result is written as a new file (`build`): groups in their order of creation, attributes,
//! links, committed datatypes, and native datasets with their data; references are adjusted to the
//! new addresses. The store's datasets are created from their definitions.

mod build;
mod compare;
mod elements;
mod lineage;
mod tree;

use crate::{DatasetId, Definition, NAMELESS, WriterId};
use hyperchunk::internal::pack::Contents;
use hyperchunk::pack::{Input, PackOptions, PackPlan};
use hyperchunk::{File, Result};
use hyperchunk_format::encode::LibVersion;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

pub use build::SkeletonDataset;

/// Changes of one writer to the structure.
#[derive(Debug, Clone)]
pub struct Change {
    /// The writer.
    pub writer: WriterId,
    /// Skeleton that it started from, if any.
    pub base: Option<File>,
    /// Its image.
    pub image: File,
    /// True if the image began as a copy of the base: objects, links and attributes that it lacks
    /// were deleted.
    pub deletes: bool,
    /// True if HDF5 edited a copy of the base in place, so that objects keep their addresses.
    pub in_place: bool,
    /// Datasets of the store that it wrote elements to.
    pub written: HashSet<DatasetId>,
}

/// Author of a file that is merged.
#[derive(Debug, Clone, Copy)]
struct Author {
    /// The writer; `None` for the current skeleton.
    writer: Option<WriterId>,
    /// True if objects that its base has and its image lacks were deleted.
    deletes: bool,
    /// True if objects keep the addresses that they have in the base.
    in_place: bool,
}

/// A conflict between two writers about the structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructureConflict {
    /// Path of the object.
    pub path: Vec<u8>,
    /// Name of the attribute, if it concerns one.
    pub attribute: Option<Vec<u8>>,
    /// Description of the difference.
    pub what: Cow<'static, str>,
    /// The earlier writer; `None` for earlier epochs.
    pub first: Option<WriterId>,
    /// Writer whose version takes precedence.
    pub last: WriterId,
}

impl fmt::Display for StructureConflict {
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
        write!(f, " and writer {}, whose version is visible)", self.last)
    }
}

/// A merge of the files of many writers.
#[derive(Debug)]
pub struct Merge {
    packing: PackPlan,
    nodes: Vec<tree::Node>,
    /// Object of the new file for each object of each source file.
    node_of: Vec<Option<usize>>,
    conflicts: Vec<StructureConflict>,
    /// Identities of the store's datasets.
    identities: HashMap<DatasetId, Identity>,
    /// Writers that wrote elements to a dataset and did not delete it.
    written: HashMap<DatasetId, Vec<WriterId>>,
    /// Datasets of the store that each image has, under any name, by the number of the image.
    has: HashMap<usize, HashSet<DatasetId>>,
    /// Datasets that were created without a name, with the named datasets that they are identical
    /// to.
    aliases: HashMap<DatasetId, DatasetId>,
}

/// Criteria for whether two datasets of a store, made by two writers, are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Id that its definition would have without a path.
    pub pathless: DatasetId,
    /// True if it was created without a name and linked later, so that its own id is random.
    pub nameless: bool,
}

impl Identity {
    /// Determines the identity of a definition.
    ///
    /// # Errors
    /// As [`Definition::encode`].
    pub fn new(definition: &Definition) -> Result<Self> {
        let pathless = Definition { path: Vec::new(), incarnation: 0, ..definition.clone() };
        Ok(Self { pathless: pathless.id()?, nameless: definition.path.starts_with(NAMELESS) })
    }
}

impl Merge {
    /// Merges changes into the current skeleton, or into an empty file without one.
    ///
    /// # Errors
    /// Errors of reading the files.
    pub fn new(current: Option<&File>, changes: &[Change]) -> Result<Self> {
        Self::with_identities(current, changes, HashMap::new())
    }

    /// As [`Merge::new`], and unifies datasets that were created without a name, have equal
    /// definitions and are linked under one name.
    ///
    /// # Errors
    /// Errors of reading the files.
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
        let mut options = PackOptions::default();
        options.threads = 1;
        let packing = PackPlan { contents, plans, options, oldest: LibVersion::default() };
        let nodes = vec![tree::Node::group(b"/".to_vec(), false)];
        let mut merge = Self {
            packing,
            nodes,
            node_of,
            conflicts: Vec::new(),
            identities,
            written: HashMap::new(),
            has: HashMap::new(),
            aliases: HashMap::new(),
        };
        let root = |merge: &Self, input: usize| merge.packing.contents.roots[input];
        if let Some(current) = current {
            let root = root(&merge, current);
            merge.merge_object(Author { writer: None, deletes: false, in_place: false }, None, root, 0)?;
        }
        for (change, (.., image)) in changes.iter().zip(&numbered) {
            merge.note_written(change, *image);
        }
        for (author, base, image) in numbered {
            let base = base.map(|base| root(&merge, base));
            let image = root(&merge, image);
            merge.merge_object(author, base, image, 0)?;
        }
        merge.settle_paths();
        Ok(merge)
    }

    /// Records the datasets of an image, and the ones that its writer wrote elements to and did not
    /// delete.
    fn note_written(&mut self, change: &Change, input: usize) {
        let items = self.packing.contents.items.iter().enumerate();
        let own = items.filter(|(_, item)| item.input == input);
        let stored = |(item, _)| match self.node_kind(item) {
            tree::NodeKind::Stored { id, .. } => Some(id),
            _ => None,
        };
        let has: HashSet<DatasetId> = own.filter_map(stored).collect();
        for id in &change.written {
            // An image that only adds does not delete datasets that it lacks.
            if !change.deletes || has.contains(id) {
                self.written.entry(*id).or_default().push(change.writer);
            }
        }
        self.has.insert(input, has);
    }

    /// Returns the datasets that were created without a name, with the named datasets that they are
    /// identical to.
    #[must_use]
    pub fn aliases(&self) -> &HashMap<DatasetId, DatasetId> {
        &self.aliases
    }

    /// Returns the conflicts about the structure.
    #[must_use]
    pub fn conflicts(&self) -> &[StructureConflict] {
        &self.conflicts
    }

    /// Returns the datasets of the store that are reachable in the new skeleton, each with a path.
    #[must_use]
    pub fn datasets(&self) -> Vec<(DatasetId, Vec<u8>)> {
        let reached = self.reachable_nodes().into_iter().filter_map(|node| self.nodes.get(node));
        let mut found: Vec<_> = reached
            .filter_map(|node| match node.kind {
                tree::NodeKind::Stored { id, .. } => Some((id, node.path.clone())),
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
