//! Addresses of the data in a committed file, for recovery.

use super::journal::PlacedChunk;
use super::recover::ChunkKey;
use super::sink::Sink;
use super::snapshot::SnapshotSource;
use super::tree::{NewLink, NodeId, NodeKind, Tree};
use crate::index::IndexOption;
use crate::{ErrorKind, File, OpenOptions, Result};
use hyperchunk_format::model::Layout;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Addresses of the data in a committed file. The journal is not sufficient to find them: other threads store
/// chunks during a commit, which it lists before the commit's mark though they are not in the commit.
#[derive(Debug, Default)]
pub(super) struct CommittedPlaces {
    chunks: HashMap<ChunkKey, u64>,
    /// Addresses of contiguous data.
    begins: HashMap<NodeId, u64>,
}

impl CommittedPlaces {
    /// Reads the addresses from the structure of a file of `size` bytes in a sink. `tree` is the tree at its
    /// commit; only `datasets` are read.
    ///
    /// # Errors
    /// If the structure cannot be read.
    pub(super) fn read(
        sink: Arc<dyn Sink>,
        size: u64,
        tree: &Tree,
        datasets: &HashSet<NodeId>,
    ) -> Result<Self> {
        let mut places = Self::default();
        let options =
            OpenOptions { index: IndexOption::Never, ignore_layouts: true, ..OpenOptions::default() };
        let source = SnapshotSource { sink, pieces: Vec::new(), size };
        let root = File::from_source(Arc::new(source), None, &options)?.root()?.group()?;
        for (id, path) in paths(tree) {
            if !datasets.contains(&id) {
                continue;
            }
            let dataset = match root.get(&path).and_then(|object| object.dataset()) {
                Ok(dataset) => dataset,
                // At the commit, the dataset had another name or none yet.
                Err(error) if [ErrorKind::NotFound, ErrorKind::Invalid].contains(&error.kind()) => continue,
                Err(error) => return Err(error),
            };
            match dataset.layout() {
                Layout::Contiguous { address: Some(address), .. } => drop(places.begins.insert(id, *address)),
                Layout::Chunked(_) => {
                    let chunks = dataset.chunks()?.into_iter();
                    places.chunks.extend(chunks.map(|chunk| ((id, chunk.scaled.into()), chunk.address)));
                }
                _ => {}
            }
        }
        Ok(places)
    }

    /// Returns the version of a chunk that is in the commit.
    pub(super) fn chunk(&self, key: &ChunkKey, versions: Vec<PlacedChunk>) -> Option<PlacedChunk> {
        let address = self.chunks.get(key)?;
        versions.into_iter().rev().find(|version| version.address == *address)
    }

    /// Returns whether contiguous data that begin at an address are committed.
    pub(super) fn has_contiguous(&self, dataset: NodeId, address: u64) -> bool {
        self.begins.get(&dataset) == Some(&address)
    }
}

/// Returns a path of each object of a tree.
pub(super) fn paths(tree: &Tree) -> HashMap<NodeId, Vec<u8>> {
    let mut paths = HashMap::from([(NodeId::ROOT, Vec::new())]);
    for id in tree.reachable() {
        let Some(NodeKind::Group(group)) = tree.nodes.get(id.0).map(|node| &node.kind) else { continue };
        let path = paths.get(&id).cloned().unwrap_or_default();
        for (name, link) in &group.links {
            if let NewLink::Hard(target) = link.target {
                paths.entry(target).or_insert_with(|| [&path[..], b"/", name.as_bytes()].concat());
            }
        }
    }
    paths
}
