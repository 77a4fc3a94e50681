//! Commits: encode all structure of a file into one region, to which the superblock points.

use super::auxiliary::Auxiliary;
use super::chunks::Data;
use super::embedded_format::{SecondFormat, SecondFormatLayout};
use super::group_messages::group_messages;
use super::journal::Journal;
use super::options::FileLayout;
use super::tree::{DatasetNode, Node, NodeId, NodeKind, Tree};
use super::writer::{Inner, Writer};
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::DEFAULT_CHUNK_K;
use hyperchunk_format::checksum::lookup3;
use hyperchunk_format::encode::global_heap::Builder;
use hyperchunk_format::encode::message::{self, attribute_info::AttributeInfo};
use hyperchunk_format::encode::object_header::{self, HeaderOptions, Message};
use hyperchunk_format::encode::{LibVersion, attributes, chunk_index, superblock, virtual_layout};
use hyperchunk_format::model::{
    AllocationTime, Attribute, Chunk, ChunkIndex, Chunked, Dataspace, Layout, Times,
};
use hyperchunk_format::parse::chunk_index::ChunkMap;
use hyperchunk_format::parse::message::file_space::FileSpace;
use std::collections::HashMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Maximum number of links or attributes in a header; more are stored in a heap, as in libhdf5.
pub(super) const MAX_COMPACT_ITEMS: usize = 8;
/// Maximum size of a message in a header, in bytes.
pub(super) const MAX_MESSAGE_BYTES: usize = 65_000;
/// Bytes appended to a file so that its superblock differs from earlier ones.
const PADDING: [u8; 8] = [0; 8];

/// All structure of a file.
pub(super) struct Structure {
    /// Address of the region.
    pub(super) start: u64,
    pub(super) region: Vec<u8>,
    /// Headers with fixed addresses: address and bytes.
    pub(super) pinned: Vec<(u64, Vec<u8>)>,
    /// Address of the root group.
    pub(super) root: u64,
    /// Address of the superblock extension.
    pub(super) extension: Option<u64>,
    /// Address of each object.
    pub(super) addresses: Vec<u64>,
    /// Size of the whole file.
    pub(super) end: u64,
    /// Locations of the encoded objects.
    pub(super) places: Vec<Place>,
}

/// Location of an encoded object in the region.
pub(super) struct Place {
    pub(super) id: NodeId,
    pub(super) start: u64,
    /// Offset of the header, or of its continuation block, from `start`.
    pub(super) header: u64,
    pub(super) length: u64,
}

/// An encoded object.
pub(super) struct Blob {
    pub(super) bytes: Vec<u8>,
    /// Offset of the header in `bytes`.
    header: usize,
    /// Fixed address of the header, if it has one; `bytes` then has the continuation block with its messages.
    pinned: Option<u64>,
    options: HeaderOptions,
}

/// Returns the fields of a header other than its messages.
pub(super) fn header_options(node: &Node) -> HeaderOptions {
    if let Some(base) = &node.base {
        return base.options();
    }
    HeaderOptions {
        times: node.made.map(|made| Times { access: made, modification: made, change: made, birth: made }),
        attribute_order_tracked: node.track_order,
        attribute_order_indexed: node.track_order,
    }
}

impl Writer {
    /// Commits the current state. The file then has its final name, and readers find this state until the
    /// next commit. This frees the structure of the previous commit.
    ///
    /// # Errors
    /// Invalid if the file is closed; Limit or Unsupported for content that cannot be stored; the sink's.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::write::{CreateOptions, NodeId, Writer};
    ///
    /// let path = std::env::temp_dir().join("hyperchunk-flush.h5");
    /// std::fs::copy("examples/scene.h5", &path).unwrap();
    /// let file = Writer::edit(&path, &CreateOptions::default())?;
    /// file.create_group(NodeId::ROOT, b"made", false)?;
    /// // From here on the file has the group, even if the process is killed.
    /// file.flush()?;
    /// file.close()?;
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn flush(&self) -> Result<()> {
        let _in_use = self.0.open()?;
        self.check_no_transaction("commit")?;
        self.commit(&mut self.0.commits())
    }

    /// Commits, unless nothing has changed since the last commit.
    fn commit(&self, last: &mut Option<u64>) -> Result<()> {
        let changes = self.changes();
        if *last != Some(changes) {
            if self.0.swmr().is_some() {
                self.0.flush_swmr().map_err(|error| self.0.named(error))?;
                *last = Some(changes);
                return Ok(());
            }
            let removed = self.load_removed().map_err(|error| self.0.named(error))?;
            self.0
                .commit()
                .inspect_err(|_| self.0.restore_removed(&removed))
                .map_err(|error| self.0.named(error))?;
            *last = Some(changes);
        }
        let settled = self.0.sink.settle().map_err(|error| {
            self.0.named(error).followed_by(
                "; the commit is valid nevertheless: it is in the journal beside the file, and is written to the file by \
                 the next flush, by close, or when a program opens the file",
            )
        });
        // The cache may have bytes that the commit replaced, such as a datatype of an object read later.
        self.0.edit.iter().for_each(|edit| edit.base.forget_structure());
        settled
    }

    /// Discards all uncommitted changes, and deletes a file without a commit. The writer is closed and its
    /// lock released even if this fails; the next call then tries again to delete the remaining files.
    ///
    /// # Errors
    /// The sink's; Io if the journal cannot be deleted.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::write::{CreateOptions, NodeId, Writer};
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let path = std::env::temp_dir().join("hyperchunk-discard.h5");
    /// std::fs::copy("examples/scene.h5", &path).unwrap();
    /// let file = Writer::edit(&path, &CreateOptions::default())?;
    /// file.unlink(NodeId::ROOT, b"temperature")?;
    /// file.discard()?;
    /// assert_eq!(File::open(&path, &OpenOptions::default())?.root()?.group()?.len()?, 6);
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn discard(&self) -> Result<()> {
        // A forked child must not change its parent's file.
        if self.0.gate.check_process().is_err() {
            return Ok(());
        }
        let was_closed = self.0.gate.is_closed();
        self.0.gate.close();
        let _one = self.0.commits();
        let again = self.0.discard_failed.swap(false, Ordering::AcqRel);
        if was_closed && !again {
            return self.0.journal.as_ref().map_or(Ok(()), Journal::end);
        }
        let discarded = self.0.sink.discard();
        self.0.sink.release();
        if discarded.is_err() {
            self.0.discard_failed.store(true, Ordering::Release);
            return discarded;
        }
        self.0.journal.as_ref().map_or(Ok(()), Journal::end)
    }

    /// Commits the file and closes it. Closing twice does nothing.
    ///
    /// # Errors
    /// As [`Writer::flush`]; the file then stays open. With a journal, the written data are kept: closing can
    /// be tried again, and after the end of this process [`recover`](super::recover) restores the file.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::write::{CreateOptions, MemorySink, NodeId, Writer};
    /// use std::sync::Arc;
    ///
    /// let file = Writer::create_in(Arc::new(MemorySink::default()), None, &CreateOptions::default())?;
    /// file.close()?;
    /// assert!(file.create_group(NodeId::ROOT, b"late", false).is_err());
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn close(&self) -> Result<()> {
        self.0.gate.check_process().map_err(|error| self.0.named(error))?;
        self.check_no_transaction("close the file")?;
        let was_closed = self.0.gate.is_closed();
        // A concurrent write of another thread is either in the file or fails.
        self.0.gate.close();
        let mut last = self.0.commits();
        if was_closed && !self.0.gate.is_closed() {
            // Another thread tried to close the file, and failed.
            drop(last);
            return self.close();
        }
        if was_closed {
            // The file still exists if it could not be deleted.
            let is_kept = self.0.discard_failed.load(Ordering::Acquire);
            if is_kept && self.0.edit.is_some() {
                drop(last);
                return self.discard();
            }
            let journal = self.0.journal.as_ref().filter(|_| !is_kept);
            return journal.map_or(Ok(()), Journal::end);
        }
        let mut closing = || {
            self.0.end_swmr().map_err(|error| self.0.named(error))?;
            self.commit(&mut last)
        };
        closing().inspect_err(|_| self.0.gate.reopen()).map_err(|error| match (&self.0.journal, &self.0.name) {
            // A file that another program replaced or deleted can be neither closed nor recovered.
            (Some(_), Some(name)) if error.kind() != ErrorKind::Changed => error.followed_by(&format!(
                "; the written data are kept: close it again, or run `hyperchunk recover {name}` after the end of this program"
            )),
            _ => error,
        })?;
        // Truncates the file if an earlier commit was longer.
        let ends = *self.0.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, last)) = ends.filter(|(longest, last)| longest > last) {
            let cut = self.0.sink.cut(last).inspect_err(|_| self.0.gate.reopen());
            cut.map_err(|error| self.0.named(error))?;
        }
        self.0.sink.release();
        self.0.journal.as_ref().map_or(Ok(()), Journal::end)
    }
}

impl Writer {
    /// Returns the size of a first page that can hold all current structure, chunk indexes included.
    pub(crate) fn front_size(&self) -> Result<u64> {
        let tree = self.0.tree();
        let frozen = freeze(&tree, false);
        let mut size = 0;
        self.0.structure(
            &tree,
            &tree.reachable(),
            &frozen,
            superblock::SUPERBLOCK_BYTES,
            None,
            |length| {
                size = length;
                Ok(superblock::SUPERBLOCK_BYTES)
            },
        )?;
        let front = self.0.front.lock().unwrap_or_else(PoisonError::into_inner);
        let start =
            front.as_ref().map_or(superblock::SUPERBLOCK_BYTES, |free| free.start.next_multiple_of(8));
        start.checked_add(size).ok_or_else(|| Error::limit("the structure exceeds 2^64 bytes"))
    }
}

/// Snapshot of the parts of a dataset that may change during a commit, as other threads write.
pub(super) struct FrozenDataset {
    pub(super) dataspace: Dataspace,
    pub(super) chunks: Vec<Chunk>,
}

impl Inner {
    fn commit(&self) -> Result<()> {
        self.flush_waiting()?;
        if self.edit.is_some() {
            let changed = self.take_changed();
            return self.commit_edit(&changed).inspect_err(|_| self.mark_changed(&changed));
        }
        self.commit_objects(false).map(drop)
    }

    /// Commits all objects, and sets the flags of SWMR mode in the superblock.
    pub(super) fn commit_marked(&self) -> Result<Structure> {
        self.flush_waiting()?;
        self.commit_objects(true)
    }

    /// Commits all reachable objects.
    fn commit_objects(&self, swmr: bool) -> Result<Structure> {
        let tree = self.tree();
        let unused = self.space.commit_begins();
        let frozen = freeze(&tree, true);
        let order = tree.reachable();
        // Heap objects are written before the elements that refer to them.
        self.heap.flush(&self.space, &*self.sink, self.edit.is_some())?;
        self.front_heap.flush(&self.space, &*self.sink, self.edit.is_some())?;
        self.sink.data_ended(self.space.end())?;
        let likely = self.front_start().unwrap_or_else(|| self.space.end()).next_multiple_of(8);
        let second_format = self.second_format.read().unwrap_or_else(PoisonError::into_inner).clone();
        let second_format = second_format.as_deref();
        let mut in_front = false;
        let mut structure = self.structure(&tree, &order, &frozen, likely, second_format, |length| {
            // The first page is used once, so that the structure of an earlier commit is not
            // overwritten.
            if let Some(start) = self.take_front(length, true) {
                in_front = true;
                return Ok(start);
            }
            let (start, gap) = self.space.take(length, 8);
            self.sink.skip(start - gap, gap)?;
            Ok(start)
        })?;
        let mut superblock = match second_format {
            None => self.distinct_superblock(&mut structure)?,
            Some(_) => self.superblock(&structure, self.options.user_block)?,
        };
        if swmr {
            superblock::mark_swmr(&mut superblock)?;
        }
        if second_format.is_some() {
            // The second format's end marker must not end the file before the superblock is written.
            self.sink.write_at(structure.end, &[0])?;
        }
        self.sink.write_at(structure.start, &structure.region)?;
        for (address, header) in &structure.pinned {
            self.sink.write_at(*address, header)?;
        }
        // `recover` identifies the file by this entry, which need not be synced first: a journal without it
        // has nothing that this commit lacks. In SWMR mode it does not cover structure, which changes in place.
        let fixed = if swmr { &[][..] } else { &structure.region };
        self.note_commit(&superblock, structure.start, fixed)?;
        self.sink.sync()?;
        self.sink.write_at(0, &superblock)?;
        if second_format.is_some() {
            self.sink.sync()?;
            self.sink.cut(structure.end)?;
        }
        self.sink.publish(structure.end)?;
        self.space.committed(unused);
        // Frees the structure of the previous commit, unless it is in the first page, which is reserved for
        // structure, or a second format shares the file: its pointers refer to the structure, too.
        let own = !in_front && second_format.is_none();
        let this = own.then_some((structure.start, structure.region.len() as u64));
        let mut former = self.former.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let longest = ends.map_or(0, |(longest, _)| longest).max(structure.end);
        *ends = own.then_some((longest, structure.end));
        if let Some((start, length)) = std::mem::replace(&mut *former, this) {
            self.space.give_back(start, length, false);
            self.space.trim();
        }
        Ok(structure)
    }

    /// Returns the objects that cannot be encoded, with the reason.
    pub(super) fn unencodable(&self) -> Vec<(NodeId, Error)> {
        let tree = self.tree();
        let order = tree.reachable();
        let frozen = freeze(&tree, false);
        let (addresses, uses) = (vec![0; tree.nodes.len()], tree.uses(&order));
        let fails = |id: &NodeId| {
            let blob = self.blob(&tree, (*id, None), &frozen, 0, &addresses, &uses);
            blob.err().map(|error| (*id, error))
        };
        order.iter().filter_map(fails).collect()
    }

    /// Encodes all structure. `place` returns its address for its length; `likely` is the expected address.
    pub(super) fn structure(
        &self,
        tree: &Tree,
        order: &[NodeId],
        frozen: &[Option<FrozenDataset>],
        likely: u64,
        second_format: Option<&dyn SecondFormat>,
        place: impl FnOnce(u64) -> Result<u64>,
    ) -> Result<Structure> {
        let mut layout =
            second_format.map(|format| format.plan().and_then(SecondFormatLayout::new)).transpose()?;
        let order = &*match &layout {
            Some(layout) => layout.order(order)?,
            None => order.to_vec(),
        };
        let mut addresses = vec![0; tree.nodes.len()];
        let uses = if self.edit.is_some() { tree.uses(&tree.all()) } else { tree.uses(order) };
        // Unchanged objects keep their addresses.
        for (address, node) in addresses.iter_mut().zip(&tree.nodes) {
            match node.kind {
                NodeKind::Kept { address: kept, .. } | NodeKind::Unread { address: kept } => *address = kept,
                _ => *address = node.pinned.unwrap_or(0),
            }
        }
        let kept = |id: &NodeId| {
            let stays = |node: &Node| match node.kind {
                NodeKind::Kept { .. } => node.base.is_none(),
                NodeKind::Unread { .. } => true,
                _ => false,
            };
            tree.nodes.get(id.0).is_some_and(stays)
        };
        let order: Vec<NodeId> = order.iter().copied().filter(|id| !kept(id)).collect();
        let order = &*order;
        let extension = self.extension()?;
        let front = extension.as_ref().map_or(0, Vec::len);
        // Encodes the objects first to find their sizes, which do not depend on addresses.
        let mut region = extension.unwrap_or_default();
        let mut offsets = Vec::with_capacity(order.len());
        let mut places = Vec::new();
        for id in order {
            region.resize(region.len().next_multiple_of(8), 0);
            let Some(layout) = &mut layout else {
                let blob =
                    self.blob(tree, (*id, None), frozen, likely + region.len() as u64, &addresses, &uses)?;
                // Includes the padding after the object.
                let length = blob.bytes.len().next_multiple_of(8) as u64;
                let start = region.len() as u64;
                places.push(Place { id: *id, start, header: blob.header as u64, length });
                offsets.push((region.len(), blob.header as u64));
                region.extend(blob.bytes);
                continue;
            };
            layout.before(*id, &mut region)?;
            let start = region.len();
            let make =
                |padding| self.blob(tree, (*id, padding), frozen, likely + start as u64, &addresses, &uses);
            let mut blob = make(layout.padding(*id))?;
            while let Some(padding) = layout.better(*id, start, &blob) {
                blob = make(Some(padding))?;
            }
            offsets.push((start, blob.header as u64));
            region.extend(blob.bytes);
            layout.after(*id, start, blob.header, &mut region)?;
        }
        if layout.is_none() {
            region.resize(region.len().next_multiple_of(8), 0);
        }
        let before = self.space.end();
        let start = place(region.len() as u64)?;
        for (id, (offset, header)) in order.iter().zip(&offsets) {
            let pinned = tree.nodes.get(id.0).and_then(|node| node.pinned);
            addresses[id.0] = pinned.unwrap_or(start + *offset as u64 + header);
        }
        let mut pinned = Vec::new();
        for (id, (offset, _)) in order.iter().zip(&offsets) {
            let node = tree.node(*id)?;
            // Datasets refer to no other objects, so they need not be encoded again.
            if start == likely && node.pinned.is_none() && matches!(node.kind, NodeKind::Dataset(_)) {
                continue;
            }
            let base = start + *offset as u64;
            let padding = layout.as_ref().and_then(|layout| layout.padding(*id));
            let blob = self.blob(tree, (*id, padding), frozen, base, &addresses, &uses)?;
            if let Some(address) = blob.pinned {
                let length = (blob.bytes.len() - blob.header) as u64;
                let continuation = base + blob.header as u64;
                pinned.push((address, object_header::encode_pinned(continuation, length, &blob.options)?));
            }
            let place = region.get_mut(*offset..).and_then(|rest| rest.get_mut(..blob.bytes.len()));
            let place = place.ok_or_else(|| Error::invalid("an object's size depends on addresses"))?;
            place.copy_from_slice(&blob.bytes);
        }
        if let (Some(layout), Some(second_format)) = (&layout, second_format) {
            layout.fill(second_format, self.options.user_block + start, &mut region)?;
        }
        // Data that other threads write after this region in the meantime are not in this commit.
        let end = if start < before { before } else { start + region.len() as u64 };
        let root = addresses.first().copied().unwrap_or(0);
        let extension = (front > 0).then_some(start);
        Ok(Structure { start, region, pinned, root, extension, addresses, end, places })
    }

    /// Returns the superblock of a commit. With a journal it differs from all earlier ones, as readers
    /// distinguish commits by it: if the structure has the address of an earlier commit's, the file is extended
    /// by eight bytes.
    fn distinct_superblock(&self, structure: &mut Structure) -> Result<Vec<u8>> {
        let mut superblock = self.superblock(structure, self.options.user_block)?;
        if self.journal.is_none() {
            return Ok(superblock);
        }
        let mut earlier = self.superblocks.lock().unwrap_or_else(PoisonError::into_inner);
        while !earlier.insert(lookup3(&superblock)) {
            let start = self.space.take_at_end(PADDING.len() as u64);
            self.sink.write_at(start, &PADDING)?;
            self.space.give_back(start, PADDING.len() as u64, true);
            structure.end = start + PADDING.len() as u64;
            superblock = self.superblock(structure, self.options.user_block)?;
        }
        Ok(superblock)
    }

    /// Encodes the superblock for a structure. `base` is the base address: the size of the user block.
    pub(super) fn superblock(&self, structure: &Structure, base: u64) -> Result<Vec<u8>> {
        if let Some(edit) = &self.edit {
            return Ok(edit.superblock(structure.end, base));
        }
        let version = if self.options.oldest >= LibVersion::V110 { 3 } else { 2 };
        superblock::encode(version, structure.root, structure.end, structure.extension, base)
    }

    /// Encodes the superblock extension, if one is needed.
    fn extension(&self) -> Result<Option<Vec<u8>>> {
        if self.edit.is_some() {
            // An edit keeps the file's extension.
            return Ok(None);
        }
        let (reused, usual) = (!self.options.lasting, 4096);
        let (space, flags) = match self.options.layout {
            FileLayout::InFront { page } if reused => (
                FileSpace { paged: true, reused, persists: false, page_size: page },
                message::file_space::FLAGS,
            ),
            _ if reused => return Ok(None),
            _ => (
                FileSpace { paged: false, reused, persists: false, page_size: usual },
                message::file_space::STRICT,
            ),
        };
        let data = message::file_space::encode(&space)?;
        let space = Message { kind: message::FILE_SPACE, flags, creation_order: None, data };
        object_header::encode(&[space], &HeaderOptions::default()).map(Some)
    }

    /// Encodes an object, to be stored at `base`.
    fn blob(
        &self,
        tree: &Tree,
        (id, padding): (NodeId, Option<usize>),
        frozen: &[Option<FrozenDataset>],
        base: u64,
        addresses: &[u64],
        uses: &HashMap<u64, i64>,
    ) -> Result<Blob> {
        let node = tree.node(id)?;
        let mut beside = Auxiliary::Joined { base, bytes: Vec::new() };
        let messages = self.messages(node, (id, padding), frozen, &mut beside, addresses, uses)?;
        let options = header_options(node);
        let mut bytes = beside.into_joined();
        let header = bytes.len();
        bytes.extend(match node.pinned {
            Some(_) => object_header::encode_continuation(&messages, &options)?,
            None => object_header::encode(&messages, &options)?,
        });
        Ok(Blob { bytes, header, pinned: node.pinned, options })
    }

    /// Encodes the messages of an object's header, and its structures outside of the header.
    pub(super) fn messages(
        &self,
        node: &Node,
        (id, padding): (NodeId, Option<usize>),
        frozen: &[Option<FrozenDataset>],
        beside: &mut Auxiliary<'_>,
        addresses: &[u64],
        uses: &HashMap<u64, i64>,
    ) -> Result<Vec<Message>> {
        let touched = matches!(&node.kind, NodeKind::Dataset(data) if data.touched.load(Ordering::Acquire));
        let replaced = node.base.as_ref().map(|base| base.replaced(touched));
        let stays = replaced.is_some_and(|replaced| !replaced.content);
        let mut messages = match &node.kind {
            _ if stays => Vec::new(),
            NodeKind::Group(group) => group_messages(node, group, addresses, beside, padding.is_some())?,
            NodeKind::Dataset(dataset) => {
                let frozen = frozen.get(id.0).and_then(Option::as_ref);
                let frozen = frozen.ok_or_else(|| Error::invalid("the dataset is newer than the commit"))?;
                let mut messages = self.dataset_messages(dataset, frozen, beside)?;
                if replaced.is_some() {
                    messages.retain(|message| matches!(message.kind, message::DATASPACE | message::LAYOUT));
                }
                messages
            }
            NodeKind::Datatype(datatype) => {
                let encode = |age| message::datatype::encode(datatype, age);
                vec![plain(message::DATATYPE, self.able(encode)?.1)]
            }
            NodeKind::Kept { .. } | NodeKind::Unread { .. } => {
                return Err(Error::invalid("an unchanged object is not encoded"));
            }
        };
        if let Some((base, replaced)) = node.base.as_ref().zip(replaced) {
            base.check_attributes(replaced)?;
            messages.extend(base.messages(replaced));
        }
        if replaced.is_none_or(|replaced| replaced.attributes) {
            self.attribute_messages(node, &mut messages, beside)?;
        }
        let comment = node.comment.as_ref().filter(|_| replaced.is_none_or(|replaced| replaced.comment));
        if let Some(comment) = comment {
            messages.push(plain(message::COMMENT, message::comment::encode(comment)?));
        }
        let links = node.stored_links(uses);
        if links != 1 {
            messages.push(plain(message::REFERENCE_COUNT, message::reference_count::encode(links)));
        }
        // Padding by which the header gets the checksum that the second format requires.
        messages.extend(padding.map(|padding| plain(message::NULL, vec![0; padding])));
        Ok(messages)
    }

    fn attribute_messages(
        &self,
        node: &Node,
        messages: &mut Vec<Message>,
        beside: &mut Auxiliary<'_>,
    ) -> Result<()> {
        let encode = |attribute: &Attribute| {
            self.able(|age| message::attribute::encode(attribute, age)).map(|(_, bytes)| bytes)
        };
        let mut encoded = Vec::with_capacity(node.attributes.len());
        for attribute in node.attributes.values() {
            encoded.push((attribute.name.clone(), attribute.creation_order, encode(attribute)?));
        }
        let dense = encoded.len() > MAX_COMPACT_ITEMS
            || encoded.iter().any(|(_, _, bytes)| bytes.len() > MAX_MESSAGE_BYTES);
        let options = header_options(node);
        let (tracked, indexed) = (options.attribute_order_tracked, options.attribute_order_indexed);
        let next = u16::try_from(node.next_attribute).ok().filter(|_| tracked);
        if tracked && next.is_none() {
            return Err(Error::limit("more than 65,535 attributes with tracked creation order"));
        }
        let mut info = AttributeInfo { next_order: next, indexed, ..AttributeInfo::default() };
        if dense {
            encoded.iter_mut().filter(|_| !tracked).for_each(|(_, order, _)| *order = None);
            let dense = beside.add_blocks(|allocate| {
                let mut dense = attributes::dense(&encoded, indexed, allocate)?;
                let blocks = std::mem::take(&mut dense.blocks);
                Ok((dense, blocks))
            })?;
            (info.heap, info.by_name, info.by_order) =
                (Some(dense.heap), Some(dense.by_name), dense.by_order);
        }
        // Without this message, libhdf5 finds no attributes.
        if !encoded.is_empty() || tracked {
            messages.push(plain(message::ATTRIBUTE_INFO, message::attribute_info::encode(&info)?));
        }
        if !dense {
            if tracked {
                encoded.sort_by_key(|(_, order, _)| *order);
            }
            for (_, order, data) in encoded {
                let creation_order = order.filter(|_| tracked);
                let creation_order = creation_order.and_then(|order| u16::try_from(order).ok());
                let flags = 0;
                messages.push(Message { kind: message::ATTRIBUTE, flags, creation_order, data });
            }
        }
        Ok(())
    }

    fn dataset_messages(
        &self,
        node: &DatasetNode,
        frozen: &FrozenDataset,
        beside: &mut Auxiliary<'_>,
    ) -> Result<Vec<Message>> {
        let oldest = node.oldest(self.options.oldest);
        let mut messages = vec![plain(message::DATASPACE, message::dataspace::encode(&frozen.dataspace)?)];
        messages.push(match node.committed {
            Some(address) => Message {
                kind: message::DATATYPE,
                flags: message::CONSTANT | SHARED_FLAG,
                creation_order: None,
                data: message::shared::committed(address),
            },
            None => constant(message::DATATYPE, message::datatype::encode(&node.datatype, oldest)?),
        });
        let layout = self.layout(node, frozen, beside)?;
        let mut fill = node.fill.clone();
        if matches!(&layout, Layout::Chunked(chunked) if matches!(chunked.index, ChunkIndex::Implicit { .. }))
        {
            // The index has all chunks in advance, so writers must find them allocated.
            fill.allocation = AllocationTime::Early;
        }
        messages.push(constant(message::FILL_VALUE, message::fill_value::encode(&fill)?));
        messages.push(plain(message::LAYOUT, message::layout::encode(&layout, oldest)?));
        if !node.pipeline.is_empty() {
            messages.push(plain(message::PIPELINE, message::pipeline::encode(&node.pipeline)?));
        }
        if let Data::External(files) = &node.data {
            let list = beside.add(|address| {
                let external = message::external_files::encode(files, address)?;
                Ok((external.message, external.heap))
            })?;
            messages.push(plain(message::EXTERNAL_FILES, list));
        }
        Ok(messages)
    }

    /// Returns the layout of a dataset without structures outside of its header.
    pub(super) fn layout_in_header(&self, node: &DatasetNode, frozen: &FrozenDataset) -> Result<Layout> {
        self.layout(node, frozen, &mut Auxiliary::Joined { base: 0, bytes: Vec::new() })
    }

    fn layout(
        &self,
        node: &DatasetNode,
        frozen: &FrozenDataset,
        beside: &mut Auxiliary<'_>,
    ) -> Result<Layout> {
        Ok(match &node.data {
            Data::Compact(bytes) => {
                Layout::Compact { data: bytes.read().unwrap_or_else(PoisonError::into_inner).clone() }
            }
            Data::Contiguous { address, size } => {
                let address = *address.lock().unwrap_or_else(PoisonError::into_inner);
                Layout::Contiguous { address, size: Some(*size) }
            }
            Data::External(_) => {
                let size =
                    frozen.dataspace.elements().and_then(|count| count.checked_mul(node.datatype.size));
                Layout::Contiguous { address: None, size }
            }
            Data::Virtual(mappings) => {
                let oldest = node.oldest(self.options.oldest);
                let encoded = virtual_layout::encode(mappings, oldest)?;
                let heap = beside.add(|address| {
                    let mut collection = Builder::new(Builder::size_for(encoded.len()));
                    let number = collection.add(&encoded);
                    let number =
                        number.ok_or_else(|| Error::limit("the mappings are too large for a heap"))?;
                    Ok(((address, u32::from(number)), collection.encode()))
                })?;
                Layout::Virtual { heap: Some(heap) }
            }
            Data::Chunked(chunks) => {
                let Dataspace::Simple { dims, max } = &frozen.dataspace else {
                    return Err(Error::invalid("a chunked dataset has no dimensions"));
                };
                let oldest = node.oldest(self.options.oldest);
                let filtered = !node.pipeline.is_empty();
                let mut chunked = Chunked {
                    dims: chunks.dims.clone(),
                    element_size: node.datatype.size,
                    edge_chunks_unfiltered: false,
                    version: 4,
                    index: ChunkIndex::BTreeV1 { address: None },
                };
                let map = ChunkMap { chunked: &chunked, dims, max, filtered };
                let side_by_side = oldest > LibVersion::V18
                    && !node.is_edited
                    && !self.space.is_kept()
                    && chunk_index::side_by_side(&map, &frozen.chunks);
                let kind = chunk_index::choose(dims, max, &chunks.dims, filtered, side_by_side, oldest);
                chunked.version = match kind {
                    chunk_index::Kind::BTreeV1 => 3,
                    _ if u32::try_from(chunks.bytes).is_err() => 5,
                    _ => 4,
                };
                let map = ChunkMap { chunked: &chunked, dims, max, filtered };
                chunked.index = beside.add_blocks(|allocate| {
                    let k = self.edit.as_ref().map_or(DEFAULT_CHUNK_K, |edit| edit.base.superblock().chunk_k);
                    let encoded = chunk_index::encode_for(kind, &map, &frozen.chunks, k, allocate)?;
                    Ok((encoded.index, encoded.blocks))
                })?;
                Layout::Chunked(chunked)
            }
        })
    }
}

/// Captures the current state of all datasets. With `commit`, their stored chunks are no longer overwritten
/// from now on.
pub(super) fn freeze(tree: &Tree, commit: bool) -> Vec<Option<FrozenDataset>> {
    let frozen = |node: &Node| {
        let NodeKind::Dataset(dataset) = &node.kind else { return None };
        let chunks = match &dataset.data {
            Data::Chunked(chunks) => chunks.stored(commit),
            _ => Vec::new(),
        };
        Some(FrozenDataset { dataspace: dataset.dataspace(), chunks })
    };
    tree.nodes.iter().map(frozen).collect()
}

/// Flag of a message whose body is stored elsewhere.
const SHARED_FLAG: u8 = 0x02;

pub(super) fn plain(kind: u16, data: Vec<u8>) -> Message {
    Message { kind, flags: 0, creation_order: None, data }
}

pub(super) fn constant(kind: u16, data: Vec<u8>) -> Message {
    Message { kind, flags: message::CONSTANT, creation_order: None, data }
}
