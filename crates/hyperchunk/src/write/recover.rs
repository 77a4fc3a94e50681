//! Recovery of files whose writer was killed.

use super::abandoned_journal::{self, AbandonedJournal, JournalContents};
use super::chunks::Data;
use super::commit_mark::{self, ReplacedMark};
use super::committed_places::{CommittedPlaces, paths};
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
    /// True if an edit of the file had been interrupted. Its commit is now complete, or discarded if its
    /// journal was incomplete.
    pub edit: bool,
    /// Number of datasets.
    pub datasets: u64,
    /// Number of complete chunks.
    pub chunks: u64,
    /// Content that was changed since its commit, and is kept in its current state: another program changed
    /// it in place, or the writer was killed while changing it.
    pub changed: Vec<String>,
    /// Lost content: chunks and parts of contiguous data that are damaged though the journal lists them as
    /// written; objects, links and attributes that cannot be stored in HDF5.
    pub lost: Vec<String>,
    /// Number of bytes of an incomplete entry at the end of the journal.
    pub torn: u64,
}

/// Completes a file whose writer was killed: makes an HDF5 file of `path.partial`, or adds the data written
/// after the last commit to `path`. All chunks that were written completely are restored. An incomplete chunk
/// is left unwritten, or keeps its committed version. Elements that another program changed in place since
/// the commit are kept.
///
/// # Errors
/// NotFound if there is nothing to recover; Io if a program still writes the file; Changed, without any
/// change of the file, if the file was replaced, or if another program changed its structure or a chunk that
/// the killed writer had rewritten or removed; Corrupt if the journal is damaged.
pub fn recover(path: impl AsRef<Path>) -> Result<RecoveryReport> {
    let path = path.as_ref();
    recover_file(path).map_err(|error| error.file(path.display()))
}

/// Dataset and scaled coordinates of a chunk.
pub(super) type ChunkKey = (NodeId, Box<[u64]>);
type PlacedChunks = HashMap<ChunkKey, PlacedChunk>;

/// Data of datasets according to the journal.
#[derive(Default)]
struct JournalledDatasets {
    /// True while entries before the file's last commit are replayed.
    is_committed: bool,
    /// Last version of each chunk.
    chunks: PlacedChunks,
    /// Chunks of the file's last commit.
    committed: PlacedChunks,
    /// All versions of chunks that were stored before that commit.
    versions: HashMap<ChunkKey, Vec<PlacedChunk>>,
    /// Address of contiguous data, and whether the last commit includes them.
    contiguous_starts: HashMap<NodeId, (u64, bool)>,
    /// Written ranges of contiguous data, in order of the writes.
    written_ranges: Vec<WrittenRange>,
    /// Chunks that an interrupted recovery declared lost.
    lost: Vec<ChunkKey>,
    end: u64,
    /// Content that cannot be stored in HDF5.
    omitted: OmittedParts,
    /// File that was to be replaced.
    replaces: Option<ReplacedMark>,
}

impl JournalledDatasets {
    /// Ends the replay of the entries before the file's last commit, and finds the data that this commit
    /// includes.
    fn end_of_commit(&mut self, tree: &Tree, sink: Arc<dyn Sink>, length: u64) -> Result<()> {
        self.is_committed = false;
        let of_chunks = self.versions.keys().map(|key| key.0);
        let datasets = of_chunks.chain(self.contiguous_starts.keys().copied()).collect();
        let places = CommittedPlaces::read(sink, length, tree, &datasets)?;
        for (key, versions) in self.versions.drain() {
            if let Some(placed) = places.chunk(&key, versions) {
                self.committed.insert(key, placed);
            }
        }
        for (id, (address, is_committed)) in &mut self.contiguous_starts {
            *is_committed = places.has_contiguous(*id, *address);
        }
        Ok(())
    }
}

/// A written range of contiguous data, in bytes.
struct WrittenRange {
    object: NodeId,
    first: u64,
    length: u64,
    digest: u64,
    is_committed: bool,
}

/// State of a journalled chunk.
enum ChunkState {
    /// The last version is undamaged.
    Whole,
    /// The committed version was changed, and there is no later one.
    Changed,
    /// The last version is damaged; the committed one is used instead.
    Restored,
    /// No version is undamaged.
    Lost,
    /// Another program changed the committed version, and the writer replaced or removed it.
    Conflict,
}

/// Returns the message for a file without a journal of a killed writer.
fn nothing_to_recover(path: &Path) -> String {
    let redo = super::edit::redo_path(path);
    if !path.exists() && redo.is_file() {
        return format!(
            "cannot complete an interrupted edit: expected the edited file beside its journal {}, got no file; move the \
             journal beside its file (FILE.redo), or delete it",
            redo.display()
        );
    }
    format!(
        "nothing to recover: there is no {}, and no {}",
        crate::io::journal_path(path).display(),
        redo.display()
    )
}

fn recover_file(path: &Path) -> Result<RecoveryReport> {
    let path = &*output::target(path)?;
    if super::edit::settle(path)? {
        return Ok(RecoveryReport { edit: true, ..RecoveryReport::default() });
    }
    let journal = AbandonedJournal::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::new(ErrorKind::NotFound, nothing_to_recover(path)),
        _ => error,
    })?;
    let JournalContents { mut entries, end, torn, is_marked } = abandoned_journal::read(&journal)?;
    let partial = LocalSink::partial_path(path);
    let is_finished = partial.symlink_metadata().is_err();
    let is_begun = |entry: &Entry| !matches!(entry, Entry::Replaces(_) | Entry::UserBlock(_));
    if is_finished && !entries.iter().any(is_begun) && (is_marked || !path.exists()) {
        journal.end()?;
        return Err(Error::new(ErrorKind::NotFound, "nothing to recover: no data had been written yet"));
    }
    // The writer's limits on the format are ignored, so that all content can be kept.
    let mut options = CreateOptions { journal: false, sync: Sync::Commit, ..CreateOptions::default() };
    (options.oldest, options.newest) = (LibVersion::V18, LibVersion::V200);
    let local = Arc::new(LocalSink::reopen(path)?);
    journal.check(path, &local.partial(), &local.metadata()?)?;
    let user_block =
        entries.iter().find_map(|entry| if let Entry::UserBlock(size) = entry { Some(*size) } else { None });
    options.user_block = user_block.unwrap_or(0);
    let length = local.length()?.saturating_sub(options.user_block);
    let sink = OffsetSink::over(Arc::<LocalSink>::clone(&local), options.user_block);
    let committed = match is_finished && is_marked {
        true => commit_mark::find_commit(&entries, &*sink, length, journal.path())?,
        false => 0,
    };
    let mut tree = Tree::new(false);
    let mut found = JournalledDatasets::default();
    let later = entries.split_off(committed);
    found.is_committed = committed > 0;
    entries.into_iter().try_for_each(|entry| replay(&mut tree, &mut found, entry))?;
    if found.is_committed {
        found.end_of_commit(&tree, Arc::clone(&sink) as Arc<dyn Sink>, length)?;
    }
    later.into_iter().try_for_each(|entry| replay(&mut tree, &mut found, entry))?;
    let first = found.end.max(length).next_multiple_of(8);
    if let Some(replaces) = found.replaces.filter(|_| !is_finished) {
        replaces.check(path, &local.partial(), journal.path())?;
    }
    let shown = path.to_string_lossy();
    let journal_path = journal.path().to_owned();
    // The recovery's own commit is journalled, too, so that an interrupted recovery can be repeated.
    let journal = journal.resume(end)?;
    let writer = Writer::over(local, Some(&shown), &options, Some(journal), first);
    let mut recovered = RecoveryReport { torn, ..RecoveryReport::default() };
    let mut datasets = HashMap::new();
    for (number, node) in tree.nodes.iter().enumerate() {
        if let NodeKind::Dataset(dataset) = &node.kind {
            datasets.insert(NodeId(number), Arc::clone(dataset));
            recovered.datasets += 1;
        }
    }
    let names = names(&tree);
    let shown = |id: NodeId| names.get(&id).cloned().unwrap_or_else(|| "a dataset without a link".into());
    let chunk = |object: NodeId, scaled: &[u64]| format!("chunk {scaled:?} of {}", shown(object));
    recovered.lost.extend(found.lost.iter().map(|(object, scaled)| chunk(*object, scaled)));
    let mut decisions = Vec::new();
    for (key, state) in chunk_states(&found, &datasets, &*sink)? {
        let (object, scaled) = key;
        match state {
            ChunkState::Whole => recovered.chunks += 1,
            ChunkState::Changed if !names.contains_key(object) => {
                let got =
                    format!("one whose {}, which the writer deleted, was changed", chunk(*object, scaled));
                return Err(commit_mark::changed(&got, &journal_path));
            }
            ChunkState::Changed => {
                recovered.chunks += 1;
                recovered.changed.push(chunk(*object, scaled));
            }
            ChunkState::Restored | ChunkState::Lost => {
                recovered.lost.push(chunk(*object, scaled));
                decisions.push(Entry::Lost { object: *object, scaled: scaled.clone() });
                decisions.extend(found.committed.get(key).map(|placed| Entry::Chunks(vec![placed.clone()])));
            }
            ChunkState::Conflict => {
                let got = format!(
                    "one whose {}, which the writer rewrote or removed, was changed",
                    chunk(*object, scaled)
                );
                return Err(commit_mark::changed(&got, &journal_path));
            }
        }
    }
    for (id, dataset) in &datasets {
        let mut kept = Vec::new();
        recover_contiguous(*id, dataset, &found, &*sink, &mut |what, is_kept| {
            let list = if is_kept { &mut kept } else { &mut recovered.lost };
            list.push(format!("{what} of {}", shown(*id)));
        })?;
        if let Some(what) = kept.first().filter(|_| !names.contains_key(id)) {
            let got = format!("one whose {what}, which the writer deleted, was changed");
            return Err(commit_mark::changed(&got, &journal_path));
        }
        recovered.changed.extend(kept);
    }
    // The decisions are journalled, since this recovery may be repeated after its commit.
    writer.0.note(&decisions)?;
    recovered.lost.extend(found.omitted.describe(&names));
    *writer.0.tree_mut() = tree;
    recovered.lost.extend(omitted_parts::unencodable(&writer)?);
    recovered.lost.extend(omitted_parts::unreadable(&writer)?);
    writer.flush()?;
    writer.close()?;
    recovered.lost.sort();
    recovered.changed.sort();
    Ok(recovered)
}

/// Compares the chunks with the checksums in the journal, and adds those that are kept to their datasets.
fn chunk_states<'a>(
    found: &'a JournalledDatasets,
    datasets: &HashMap<NodeId, Arc<DatasetNode>>,
    sink: &dyn Sink,
) -> Result<Vec<(&'a ChunkKey, ChunkState)>> {
    let states = Mutex::new(Vec::new());
    // Committed chunks that are no longer listed, for instance after the dataset shrank.
    let dropped = found.committed.keys().filter(|key| !found.chunks.contains_key(*key));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    spread(threads, found.chunks.keys().chain(dropped), Vec::new, |bytes: &mut Vec<u8>, key| {
        let Some(Data::Chunked(chunks)) = datasets.get(&key.0).map(|dataset| &dataset.data) else {
            return Ok(());
        };
        let mut is_whole = |placed: &PlacedChunk| -> Result<bool> {
            let size = usize::try_from(placed.size)
                .map_err(|_| Error::limit("a chunk exceeds the address space"))?;
            crate::room::resize(bytes, size)?;
            sink.read_at(placed.address, bytes)?;
            Ok(digest(bytes) == placed.digest)
        };
        let (last, committed) = (found.chunks.get(key), found.committed.get(key));
        let is_last =
            last.is_some_and(|last| committed.is_none_or(|committed| committed.address == last.address));
        let state = match (last, committed) {
            (_, Some(committed)) if !is_last && !is_whole(committed)? => ChunkState::Conflict,
            (None, _) => return Ok(()),
            (Some(last), _) if is_whole(last)? => {
                chunks.found(last);
                ChunkState::Whole
            }
            (Some(_), None) => ChunkState::Lost,
            (Some(_), Some(committed)) => {
                chunks.found(committed);
                if is_last { ChunkState::Changed } else { ChunkState::Restored }
            }
        };
        states.lock().unwrap_or_else(PoisonError::into_inner).push((key, state));
        Ok(())
    })?;
    Ok(states.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Recovers contiguous data. Bytes that the journal does not list are reset to the fill value, since a write
/// of them may be incomplete; in data that are committed they are kept, since another program may have
/// written them. `report` is called for each damaged range; its second argument is true for a committed
/// range, which is kept.
fn recover_contiguous(
    id: NodeId,
    dataset: &DatasetNode,
    found: &JournalledDatasets,
    sink: &dyn Sink,
    report: &mut dyn FnMut(String, bool),
) -> Result<()> {
    let Data::Contiguous { address, size } = &dataset.data else { return Ok(()) };
    let Some((start, is_committed)) = found.contiguous_starts.get(&id).copied() else { return Ok(()) };
    // Only the last write of each byte is compared: from the last write to the first, later ones hide earlier
    // ones.
    let mut covered: BTreeMap<u64, u64> = BTreeMap::new();
    let mut bytes = Vec::new();
    for range in found.written_ranges.iter().rev().filter(|range| range.object == id) {
        let WrittenRange { first, length, .. } = range;
        let end = first.saturating_add(*length).min(*size);
        let overlaps = covered.range(..end).next_back().is_some_and(|(_, covered)| covered > first);
        if !overlaps {
            crate::room::resize(&mut bytes, usize::try_from(*length).unwrap_or(0))?;
            sink.read_at(start + first, &mut bytes)?;
            if digest(&bytes) != range.digest {
                report(format!("bytes {first} to {end}"), is_committed && range.is_committed);
                if !is_committed {
                    continue;
                }
            }
        }
        add_range(&mut covered, *first, end);
    }
    *address.lock().unwrap_or_else(PoisonError::into_inner) = Some(start);
    if is_committed {
        return Ok(());
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
    Ok(())
}

/// Adds a range to a set of disjoint ranges.
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
    let shown = |(id, path): (NodeId, Vec<u8>)| (id, Name::from(&path[..]).to_string());
    paths(tree).into_iter().map(shown).collect()
}

fn replay(tree: &mut Tree, found: &mut JournalledDatasets, entry: Entry) -> Result<()> {
    if entry.object().is_some_and(|object| found.omitted.has(object)) {
        return Ok(());
    }
    match entry {
        Entry::UserBlock(_) | Entry::Commit(_) => {}
        Entry::Lost { object, scaled } => {
            let key = (object, scaled);
            found.chunks.remove(&key);
            found.versions.remove(&key);
            found.lost.push(key);
        }
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
            fit.unwrap_or_else(|error| found.omitted.object(id, &error));
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
                    // A placeholder, so that later objects keep their numbers in the journal.
                    let id = tree.add(Node::new(NodeKind::Group(GroupNode::default()), false));
                    found.omitted.object(id, &error);
                }
            }
        }
        Entry::Link { group, name, target } => {
            let fit = match target {
                NewLink::Hard(id) => found.omitted.check(id),
                _ => Ok(()),
            };
            match fit.and_then(|()| message_limits::link(name.as_bytes(), &target)) {
                Ok(()) => tree.link(group, name.as_bytes(), target)?,
                Err(error) => found.omitted.link(group, name, &error),
            }
        }
        Entry::Unlink { group, name } => {
            if !found.omitted.unlink(group, &name) {
                tree.unlink(group, name.as_bytes())?;
            }
        }
        Entry::Attribute { object, attribute } => {
            match message_limits::attribute(&attribute, LibVersion::V18, LibVersion::V200) {
                Ok(_) => {
                    found.omitted.replace(object, &attribute.name);
                    tree.set_attribute(object, attribute)?;
                }
                Err(error) => {
                    tree.node_mut(object)?.attributes.remove(&attribute.name);
                    found.omitted.attribute(object, attribute.name, &error);
                }
            }
        }
        Entry::NoAttribute { object, name } => {
            found.omitted.replace(object, &name);
            tree.node_mut(object)?.attributes.remove(&name);
        }
        Entry::Comment { object, comment } => match message_limits::comment(comment.as_ref()) {
            Ok(()) => tree.node_mut(object)?.comment = comment,
            Err(error) => found.omitted.attribute(object, Name::from(&b"its comment"[..]), &error),
        },
        Entry::RootOrder(track) => tree.node_mut(NodeId::ROOT)?.track_order = track,
        Entry::Pinned { object, address } => {
            tree.node_mut(object)?.pinned = Some(address);
            // More than `pinned_size` of any header.
            found.end = found.end.max(address.saturating_add(4096));
        }
        Entry::Resized { object, dims } => {
            let dataset = tree.dataset(object)?;
            let mut dataspace = dataset.dataspace.write().unwrap_or_else(PoisonError::into_inner);
            if let hyperchunk_format::model::Dataspace::Simple { dims: old, .. } = &mut *dataspace {
                if let Data::Chunked(chunks) = &dataset.data {
                    let within = |(of, scaled): &ChunkKey| {
                        let mut axes = scaled.iter().zip(&chunks.dims).zip(&dims);
                        *of != object || axes.all(|((scaled, chunk), dim)| scaled * chunk < *dim)
                    };
                    found.chunks.retain(|key, _| within(key));
                    found.versions.retain(|key, _| within(key));
                }
                *old = dims;
            }
        }
        Entry::Chunks(chunks) => {
            for placed in chunks {
                found.end = found.end.max(placed.address.saturating_add(placed.size));
                let key = (placed.object, placed.scaled.clone());
                if found.is_committed {
                    found.versions.entry(key.clone()).or_default().push(placed.clone());
                }
                found.chunks.insert(key, placed);
            }
        }
        Entry::Begins { object, address } => {
            if let Data::Contiguous { size, .. } = &tree.dataset(object)?.data {
                found.end = found.end.max(address.saturating_add(*size));
            }
            found.contiguous_starts.insert(object, (address, found.is_committed));
        }
        Entry::Wrote { object, first, length, digest } => {
            let is_committed = found.is_committed;
            found.written_ranges.push(WrittenRange { object, first, length, digest, is_committed });
        }
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
