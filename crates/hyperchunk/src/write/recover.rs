//! Recovery of files whose writer was killed.

use super::abandoned_journal::{self, AbandonedJournal, JournalContents};
use super::chunks::Data;
use super::commit_mark::{self, CommitMark, ReplacedMark};
use super::journal::{Entry, PlacedChunk, digest};
use super::new_dataset::{check_encodable, dataset_node};
use super::offset_sink::OffsetSink;
use super::omitted_parts::{self, OmittedParts};
use super::options::{CreateOptions, DatasetOptions, Sync};
use super::sink::{LocalSink, Sink};
use super::tree::{DatasetNode, GroupNode, NewLink, Node, NodeId, NodeKind, Tree};
use super::writer::Writer;
use super::{message_limits, oldest_able};
use crate::read::spread;
use crate::{Error, ErrorKind, Result, output};
use hyperchunk_format::encode::{LibVersion, message};
use hyperchunk_format::model::Name;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Result of a recovery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// True if an edit of the file had been interrupted; its commit is complete now, or dropped if its journal was
    /// incomplete.
    pub edit: bool,
    /// Number of datasets.
    pub datasets: u64,
    /// Number of complete chunks.
    pub chunks: u64,
    /// Lost contents: chunks and parts of contiguous data that were journalled as written but are damaged;
    /// objects, links and attributes that HDF5 cannot hold.
    pub lost: Vec<String>,
    /// Number of bytes at the end of the journal without meaning: the last entry was being written.
    pub torn: u64,
}

/// Makes an HDF5 file from the remains of a killed writer's: from `path.partial`, or from `path` and the
/// data written after the last commit. All complete data are there; incomplete chunks become unwritten
/// ones.
///
/// # Errors
/// NotFound if there is nothing to recover; Io if a program still writes the file; Changed if the file was
/// replaced or changed since, which then stays as it is; Corrupt if the journal is damaged.
pub fn recover(path: impl AsRef<Path>) -> Result<RecoveryReport> {
    let path = path.as_ref();
    recovered(path).map_err(|error| error.file(path.display()))
}

/// The journalled data of datasets.
#[derive(Default)]
struct JournalledDatasets {
    chunks: HashMap<(NodeId, Box<[u64]>), PlacedChunk>,
    begins: HashMap<NodeId, u64>,
    wrote: Vec<(NodeId, u64, u64, u64)>,
    user_block: u64,
    end: u64,
    /// Contents that HDF5 cannot hold.
    left_out: OmittedParts,
    commits: Vec<CommitMark>,
    /// The file that was to be replaced.
    replaces: Option<ReplacedMark>,
}

fn recovered(path: &Path) -> Result<RecoveryReport> {
    let path = &*output::target(path)?;
    if super::edit::settle(path)? {
        return Ok(RecoveryReport { edit: true, ..RecoveryReport::default() });
    }
    let journal = AbandonedJournal::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let message =
                format!("nothing to recover: there is no {}", crate::io::journal_path(path).display());
            Error::new(ErrorKind::NotFound, message)
        }
        _ => error,
    })?;
    let JournalContents { entries, end, torn, is_marked } = abandoned_journal::read(&journal)?;
    let partial = LocalSink::partial_path(path);
    let is_finished = partial.symlink_metadata().is_err();
    let is_begun = |entry: &Entry| !matches!(entry, Entry::Replaces(_) | Entry::UserBlock(_));
    if is_finished && !entries.iter().any(is_begun) && (is_marked || !path.exists()) {
        journal.end()?;
        return Err(Error::new(ErrorKind::NotFound, "nothing to recover: nothing had been written yet"));
    }
    // The releases for which it was written do not matter any more: all contents are kept.
    let mut options = CreateOptions { journal: false, sync: Sync::Commit, ..CreateOptions::default() };
    (options.oldest, options.newest) = (LibVersion::V18, LibVersion::V200);
    let mut tree = Tree::new(false);
    let mut found = JournalledDatasets::default();
    for entry in entries {
        replay(&mut tree, &mut found, entry)?;
    }
    let local = Arc::new(LocalSink::reopen(path)?);
    journal.check(path, &local.partial(), &local.metadata()?)?;
    options.user_block = found.user_block;
    let first = found.end.max(local.length()?.saturating_sub(found.user_block)).next_multiple_of(8);
    let sink = OffsetSink::over(Arc::<LocalSink>::clone(&local), found.user_block);
    if is_finished && is_marked {
        let length = local.length()?.saturating_sub(found.user_block);
        commit_mark::check_commit(&found.commits, &*sink, length, journal.path())?;
    }
    if let Some(replaces) = found.replaces.filter(|_| !is_finished) {
        replaces.check(path, &local.partial(), journal.path())?;
    }
    let shown = path.to_string_lossy();
    // Its commit is marked, too: this recovery may be interrupted, and repeated.
    let journal = journal.resume(end)?;
    let writer = Writer::over(local, Some(&shown), &options, Some(journal), first);
    let lost = Mutex::new(Vec::new());
    let mut recovered = RecoveryReport { torn, ..RecoveryReport::default() };
    let mut datasets = HashMap::new();
    for (number, node) in tree.nodes.iter().enumerate() {
        if let NodeKind::Dataset(dataset) = &node.kind {
            datasets.insert(NodeId(number), Arc::clone(dataset));
            recovered.datasets += 1;
        }
    }
    let names = names(&tree);
    let shown = |id: NodeId| names.get(&id).cloned().unwrap_or_else(|| "a dataset without a name".into());
    let lose = |what: String| lost.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    let whole = Mutex::new(0_u64);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    spread(threads, found.chunks.values(), Vec::new, |bytes: &mut Vec<u8>, placed: &PlacedChunk| {
        let Some(dataset) = datasets.get(&placed.object) else { return Ok(()) };
        let Data::Chunked(chunks) = &dataset.data else { return Ok(()) };
        let size = usize::try_from(placed.size).map_err(|_| Error::limit("a chunk larger than memory"))?;
        crate::room::resize(bytes, size)?;
        sink.read_at(placed.address, bytes)?;
        if digest(bytes) == placed.digest {
            chunks.found(placed);
            *whole.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        } else {
            lose(format!("chunk {:?} of {}", placed.scaled, shown(placed.object)));
        }
        Ok(())
    })?;
    for (id, dataset) in &datasets {
        contiguous(*id, dataset, &found, &*sink, &mut |what| lose(format!("{what} of {}", shown(*id))))?;
    }
    let left_out = found.left_out.describe(&names);
    lost.lock().unwrap_or_else(PoisonError::into_inner).extend(left_out);
    *writer.0.tree_mut() = tree;
    let unencodable = omitted_parts::unencodable(&writer)?;
    lost.lock().unwrap_or_else(PoisonError::into_inner).extend(unencodable);
    writer.flush()?;
    writer.close()?;
    recovered.chunks = whole.into_inner().unwrap_or_else(PoisonError::into_inner);
    recovered.lost = lost.into_inner().unwrap_or_else(PoisonError::into_inner);
    recovered.lost.sort();
    Ok(recovered)
}

/// Recovers contiguous data. Bytes that were not journalled become the fill value again, since they may be
/// half-written.
fn contiguous(
    id: NodeId,
    dataset: &DatasetNode,
    found: &JournalledDatasets,
    sink: &dyn Sink,
    lose: &mut dyn FnMut(String),
) -> Result<()> {
    let Data::Contiguous { address, size } = &dataset.data else { return Ok(()) };
    let Some(start) = found.begins.get(&id).copied() else { return Ok(()) };
    // The last write of each byte counts. Going backwards, later writes cover earlier ones.
    let mut covered: BTreeMap<u64, u64> = BTreeMap::new();
    let mut bytes = Vec::new();
    for (_, first, length, expected) in found.wrote.iter().rev().filter(|(object, ..)| *object == id) {
        let end = first.saturating_add(*length).min(*size);
        let overlaps = covered.range(..end).next_back().is_some_and(|(_, covered)| covered > first);
        if !overlaps {
            crate::room::resize(&mut bytes, usize::try_from(*length).unwrap_or(0))?;
            sink.read_at(start + first, &mut bytes)?;
            if digest(&bytes) != *expected {
                lose(format!("bytes {first} to {end}"));
                continue;
            }
        }
        add_range(&mut covered, *first, end);
    }
    let mut at = 0;
    let pattern = dataset.filled(dataset.element_size)?;
    let mut gaps = Vec::new();
    for (first, end) in &covered {
        gaps.push((at, *first));
        at = *end;
    }
    gaps.push((at, *size));
    for (first, end) in gaps.into_iter().filter(|(first, end)| first < end) {
        let mut next = first;
        while next < end {
            let length = usize::try_from((end - next).min(1 << 20)).unwrap_or(1 << 20);
            let offset = usize::try_from(next % pattern.len() as u64).unwrap_or(0);
            let filled: Vec<u8> = pattern.iter().copied().cycle().skip(offset).take(length).collect();
            sink.write_at(start + next, &filled)?;
            next += length as u64;
        }
    }
    *address.lock().unwrap_or_else(PoisonError::into_inner) = Some(start);
    Ok(())
}

/// Adds a range to disjoint ones.
fn add_range(covered: &mut BTreeMap<u64, u64>, mut first: u64, mut end: u64) {
    while let Some((start, stop)) = covered.range(..=end).next_back().map(|(start, stop)| (*start, *stop)) {
        if stop < first {
            break;
        }
        covered.remove(&start);
        first = first.min(start);
        end = end.max(stop);
    }
    covered.insert(first, end);
}

/// Returns a path of each object.
pub(super) fn names(tree: &Tree) -> HashMap<NodeId, String> {
    let mut names = HashMap::from([(NodeId::ROOT, String::new())]);
    for id in tree.reachable() {
        let Some(NodeKind::Group(group)) = tree.nodes.get(id.0).map(|node| &node.kind) else { continue };
        let path = names.get(&id).cloned().unwrap_or_default();
        for (name, link) in &group.links {
            if let NewLink::Hard(target) = link.target {
                names.entry(target).or_insert_with(|| format!("{path}/{name}"));
            }
        }
    }
    names
}

fn replay(tree: &mut Tree, found: &mut JournalledDatasets, entry: Entry) -> Result<()> {
    if entry.object().is_some_and(|object| found.left_out.has(object)) {
        return Ok(());
    }
    match entry {
        Entry::UserBlock(size) => found.user_block = size,
        Entry::Commit(mark) => found.commits.push(mark),
        Entry::Replaces(mark) => found.replaces = Some(mark),
        Entry::Group { track_order } => {
            tree.add(Node::new(NodeKind::Group(GroupNode::default()), track_order));
        }
        Entry::Datatype(datatype) => {
            let encoded = oldest_able(LibVersion::V18, LibVersion::V200, |age| {
                message::datatype::encode(&datatype, age)
            });
            let fit = encoded.and_then(|(_, encoded)| message_limits::datatype(&encoded));
            let id = tree.add(Node::new(NodeKind::Datatype(datatype), false));
            fit.unwrap_or_else(|error| found.left_out.object(id, &error));
        }
        Entry::Dataset(made) => {
            let options = DatasetOptions {
                datatype: made.datatype,
                committed: made.committed,
                dataspace: made.dataspace,
                layout: made.layout,
                pipeline: made.pipeline,
                fill: made.fill,
                track_order: made.track_order,
            };
            let made_node = dataset_node(options, LibVersion::V18, LibVersion::V200);
            match made_node.and_then(|node| check_encodable(&node, LibVersion::V18).map(|()| node)) {
                Ok(dataset) => {
                    let dataset = Arc::new(dataset);
                    let node = Node::new(NodeKind::Dataset(Arc::clone(&dataset)), made.track_order);
                    let id = tree.add(node);
                    dataset.id.get_or_init(|| id);
                }
                Err(error) => {
                    // A placeholder, so that later objects keep their numbers.
                    let id = tree.add(Node::new(NodeKind::Group(GroupNode::default()), false));
                    found.left_out.object(id, &error);
                }
            }
        }
        Entry::Link { group, name, target } => {
            let fit = match target {
                NewLink::Hard(id) => found.left_out.check(id),
                _ => Ok(()),
            };
            match fit.and_then(|()| message_limits::link(name.as_bytes(), &target)) {
                Ok(()) => tree.link(group, name.as_bytes(), target)?,
                Err(error) => found.left_out.link(group, name, &error),
            }
        }
        Entry::Unlink { group, name } => {
            if !found.left_out.unlink(group, &name) {
                tree.unlink(group, name.as_bytes())?;
            }
        }
        Entry::Attribute { object, attribute } => {
            match message_limits::attribute(&attribute, LibVersion::V18, LibVersion::V200) {
                Ok(_) => {
                    found.left_out.replace(object, &attribute.name);
                    tree.set_attribute(object, attribute)?;
                }
                Err(error) => {
                    tree.node_mut(object)?.attributes.remove(&attribute.name);
                    found.left_out.attribute(object, attribute.name, &error);
                }
            }
        }
        Entry::NoAttribute { object, name } => {
            found.left_out.replace(object, &name);
            tree.node_mut(object)?.attributes.remove(&name);
        }
        Entry::Comment { object, comment } => match message_limits::comment(comment.as_ref()) {
            Ok(()) => tree.node_mut(object)?.comment = comment,
            Err(error) => found.left_out.attribute(object, Name::from(&b"its comment"[..]), &error),
        },
        Entry::RootOrder(track) => tree.node_mut(NodeId::ROOT)?.track_order = track,
        Entry::Pinned { object, address } => {
            tree.node_mut(object)?.pinned = Some(address);
            found.end = found.end.max(address.saturating_add(4096));
        }
        Entry::Resized { object, dims } => {
            let dataset = tree.dataset(object)?;
            let mut dataspace = dataset.dataspace.write().unwrap_or_else(PoisonError::into_inner);
            if let hyperchunk_format::model::Dataspace::Simple { dims: old, .. } = &mut *dataspace {
                if let Data::Chunked(chunks) = &dataset.data {
                    found.chunks.retain(|(of, scaled), _| {
                        let within = scaled.iter().zip(&chunks.dims).zip(&dims);
                        *of != object
                            || within.into_iter().all(|((scaled, chunk), dim)| scaled * chunk < *dim)
                    });
                }
                *old = dims;
            }
        }
        Entry::Chunks(chunks) => {
            for placed in chunks {
                found.end = found.end.max(placed.address.saturating_add(placed.size));
                found.chunks.insert((placed.object, placed.scaled.clone()), placed);
            }
        }
        Entry::Begins { object, address } => {
            if let Data::Contiguous { size, .. } = &tree.dataset(object)?.data {
                found.end = found.end.max(address.saturating_add(*size));
            }
            found.begins.insert(object, address);
        }
        Entry::Wrote { object, first, length, digest } => found.wrote.push((object, first, length, digest)),
        Entry::Compact { object, data } => {
            if let Data::Compact(old) = &tree.dataset(object)?.data {
                let mut old = old.write().unwrap_or_else(PoisonError::into_inner);
                if old.len() == data.len() {
                    *old = data;
                }
            }
        }
    }
    Ok(())
}
