//! Encoding of changed objects. Their structures are written to the space of those of the last commit if they
//! fit, so that edits do not enlarge the file.

use super::super::auxiliary::{Auxiliary, Part};
use super::super::commit::{FrozenDataset, freeze, header_options, plain};
use super::super::space::Use;
use super::super::tree::{Node, NodeId, Tree};
use super::super::writer::Inner;
use super::load::check_first_block;
use super::own_space::OwnSpace;
use crate::{Error, Result};
use hyperchunk_format::encode::message;
use hyperchunk_format::encode::object_header::{self, HeaderOptions, Message};
use hyperchunk_format::parse::extents::Extent;
use std::collections::HashMap;

/// Maximum number of bytes of one padding message.
const MAX_PADDING_BYTES: u64 = 65_535;
/// Number of bytes compared at a time, to write only blocks that differ.
const COMPARED_BYTES: usize = 64;
/// Maximum number of equal bytes between two differences that are written together.
const JOINED_BYTES: usize = 256;

/// Encoded structures of an object whose header has a fixed address.
pub(in super::super) struct EncodedObject {
    pub(super) id: NodeId,
    pub(super) parts: Vec<Part>,
    /// Header, which continues in the last part.
    pub(super) header: Part,
    /// Extents of the parts.
    pub(super) extents: Vec<Extent>,
    /// Extents of the last commit that the object no longer uses.
    pub(super) unused: Vec<Extent>,
    /// Number of messages that a reader finds, and of links to the object.
    pub(super) messages: usize,
    pub(super) links: u32,
}

impl Inner {
    /// Commits changed objects of an edit.
    pub(in super::super) fn commit_edit(&self, changed: &[NodeId]) -> Result<()> {
        if self.space.page().is_some() {
            self.promise_headers(changed)?;
        }
        let tree = self.tree();
        let mut unused = self.space.commit_begins();
        let frozen = freeze(&tree, true);
        // Heap objects are written before the elements that refer to them.
        self.heap.flush(&self.space, &*self.sink, self.edit.is_some())?;
        self.sink.data_ended(self.space.end())?;
        let is_new = |id: &&NodeId| tree.nodes.get(id.0).is_some_and(|node| node.pinned.is_none());
        let (new, old): (Vec<NodeId>, Vec<NodeId>) = changed.iter().partition(is_new);
        let likely = self.space.end().next_multiple_of(8);
        let mut structure = self.structure(&tree, &new, &frozen, likely, None, |length| {
            if length == 0 {
                return Ok(likely);
            }
            Ok(self.space.take_for(Use::Structure, length, 8).0)
        })?;
        let uses = tree.uses(&tree.all());
        // Without readers, structures can be replaced in place.
        let exclusion = self.space.exclude_readers();
        let in_place = exclusion.is_some();
        let encode = |id: &NodeId| self.encoded(&tree, *id, &frozen, &structure.addresses, &uses, in_place);
        let encoded: Vec<EncodedObject> = old.iter().map(encode).collect::<Result<_>>()?;
        self.sink.write_at(structure.start, &structure.region)?;
        for object in &encoded {
            for (address, bytes) in object.parts.iter().chain([&object.header]) {
                self.write_changed(*address, bytes)?;
            }
        }
        self.check_written(&structure, &encoded)?;
        if let Some((address, extension)) = self.edit.as_ref().and_then(|edit| edit.without_managers.as_ref())
        {
            self.write_changed(*address, extension)?;
        }
        structure.end = self.space.end();
        self.write_changed(0, &self.superblock(&structure, self.options.user_block)?)?;
        self.sink.publish(structure.end)?;
        drop(tree);
        unused.extend(self.record_places(&structure, encoded));
        drop(exclusion);
        self.space.committed(unused);
        Ok(())
    }

    /// Allocates the headers of new objects. In a paged file, each structure is allocated on its own.
    fn promise_headers(&self, changed: &[NodeId]) -> Result<()> {
        let mut tree = self.tree_mut();
        for id in changed {
            let node = tree.node_mut(*id)?;
            if node.pinned.is_none() {
                let size = object_header::pinned_size(&header_options(node));
                self.pin(node, self.space.take_for(Use::Structure, size, 8).0);
            }
        }
        Ok(())
    }

    /// Encodes an object whose header has a fixed address.
    fn encoded(
        &self,
        tree: &Tree,
        id: NodeId,
        frozen: &[Option<FrozenDataset>],
        addresses: &[u64],
        uses: &HashMap<u64, i64>,
        in_place: bool,
    ) -> Result<EncodedObject> {
        let node = tree.node(id)?;
        let header = node.pinned.ok_or_else(|| Error::invalid("the object has no address"))?;
        let extents = node.blocks.iter().copied().chain(node.replaced_extents());
        let (mut own, mut unused) = match in_place {
            true => (OwnSpace::new(extents, self.space.page()), Vec::new()),
            false => (OwnSpace::default(), extents.collect()),
        };
        let mut allocate =
            |size: u64| Ok(own.take(size).unwrap_or_else(|| self.space.take_for(Use::Structure, size, 8).0));
        let mut beside = Auxiliary::Placed { allocate: &mut allocate, parts: Vec::new() };
        let mut messages = self.messages(node, (id, None), frozen, &mut beside, addresses, uses)?;
        let Auxiliary::Placed { mut parts, .. } = beside else { return Err(Error::invalid("joined parts")) };
        let options = header_options(node);
        let is_read = |kind: u16| !matches!(kind, message::NULL | message::REFERENCE_COUNT);
        let count = messages.iter().filter(|message| is_read(message.kind)).count();
        // Added before the padding, which would be used instead though it is shorter.
        messages.extend(object_header::room(&messages));
        let length = object_header::encode_continuation(&messages, &options)?.len() as u64;
        let least = padding_header_bytes(&options);
        let (address, size) = own.take_padded(length, least).unwrap_or_else(|| {
            // Leaves space to grow.
            let size = (length + length / 4 + least).next_multiple_of(8);
            (self.space.take_for(Use::Structure, size, 8).0, size)
        });
        pad(&mut messages, size - length, least);
        parts.push((address, object_header::encode_continuation(&messages, &options)?));
        let extents = parts.iter().map(|(start, bytes)| (*start, bytes.len() as u64)).collect();
        unused.extend(own.into_unused());
        let header = (header, object_header::encode_pinned(address, size, &options)?);
        check_room(node, &header.1)?;
        let links = node.stored_links(uses);
        Ok(EncodedObject { id, parts, header, extents, unused, messages: count, links })
    }

    /// Writes the bytes that differ from the file's bytes at an address.
    fn write_changed(&self, address: u64, bytes: &[u8]) -> Result<()> {
        let mut old = vec![0; bytes.len()];
        // Space past the end of the file cannot be read yet.
        if self.sink.read_at(address, &mut old).is_err() {
            return self.sink.write_at(address, bytes);
        }
        differences(&old, bytes, |start, part| self.sink.write_at(address + start as u64, part))
    }
}

/// Checks that a new header is not longer than the first block of the one before the edit.
fn check_room(node: &Node, header: &[u8]) -> Result<()> {
    let needed = header.len() as u64;
    node.base.as_ref().map_or(Ok(()), |base| check_first_block(&base.header, needed))
}

/// Returns the size of a padding message without its body, in bytes.
fn padding_header_bytes(options: &HeaderOptions) -> u64 {
    if options.attribute_order_tracked { 6 } else { 4 }
}

/// Adds padding messages of `count` bytes in total; `count` is 0 or at least `least`, the size of an empty
/// one.
fn pad(messages: &mut Vec<Message>, mut count: u64, least: u64) {
    while count > 0 {
        let mut body = (count - least).min(MAX_PADDING_BYTES);
        let left = count - least - body;
        if left > 0 && left < least {
            body -= least;
        }
        messages.push(plain(message::NULL, vec![0; super::super::snapshot::narrow(body)]));
        count -= least + body;
    }
}

/// Calls a function with offset and bytes of each part of `new` that differs from `old`.
fn differences(old: &[u8], new: &[u8], mut with: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<()> {
    let mut found: Option<(usize, usize)> = None;
    for (number, (before, after)) in old.chunks(COMPARED_BYTES).zip(new.chunks(COMPARED_BYTES)).enumerate() {
        if before == after {
            continue;
        }
        let start = number * COMPARED_BYTES;
        let end = start + after.len();
        match &mut found {
            Some((_, last)) if start - *last <= JOINED_BYTES => *last = end,
            Some((first, last)) => {
                with(*first, &new[*first..*last])?;
                found = Some((start, end));
            }
            None => found = Some((start, end)),
        }
    }
    found.map_or(Ok(()), |(first, last)| with(first, &new[first..last]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_only_differences_are_written() {
        let old = vec![7; 5000];
        for changes in [&[][..], &[0], &[4999], &[63, 64], &[10, 500, 4000], &[100, 250, 400, 4990]] {
            let mut new = old.clone();
            changes.iter().for_each(|at| new[*at] = 8);
            let (mut result, mut written) = (old.clone(), 0);
            differences(&old, &new, |start, part| {
                result[start..start + part.len()].copy_from_slice(part);
                written += part.len();
                Ok(())
            })
            .unwrap();
            assert!(result == new);
            assert!(written <= changes.len() * (COMPARED_BYTES + JOINED_BYTES), "{changes:?}: {written}");
        }
    }

    #[test]
    fn test_padding_fills_any_size() {
        for tracked in [false, true] {
            let options = HeaderOptions { attribute_order_tracked: tracked, ..HeaderOptions::default() };
            let least = padding_header_bytes(&options);
            let message = || vec![plain(message::COMMENT, vec![1; 20])];
            let length = object_header::encode_continuation(&message(), &options).unwrap().len() as u64;
            let counts = (least..200).chain(65_530..65_560).chain([0, 131_070, 131_082, 300_000]);
            for count in counts {
                let mut messages = message();
                pad(&mut messages, count, least);
                let padded = object_header::encode_continuation(&messages, &options).unwrap();
                assert_eq!(padded.len() as u64, length + count, "{count}");
            }
        }
    }
}
