//! Reuse of the edited file's global heap collections for new strings.
//!
//! A collection has at least 4 KiB, by which a file would grow in each session if that created a new one. So
//! the first string of a session is added to an existing collection with free space, to which a loaded object
//! refers. Its objects are not moved; the new object and the rest of the free space are written through the
//! redo journal.

use super::super::chunks::Data;
use super::super::heap::Heap;
use super::super::tree::{Node, NodeId, NodeKind};
use super::super::writer::Writer;
use crate::Result;
use hyperchunk_format::encode::global_heap::Builder;
use hyperchunk_format::model::{Class, Datatype};
use hyperchunk_format::parse::global_heap::Collection;
use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Maximum number of objects, the last loaded ones, whose strings are examined.
const MAX_OBJECTS: usize = 32;
/// Maximum number of collections that are read.
const MAX_COLLECTIONS: usize = 8;
/// Maximum size in bytes of a collection that is read, and of elements that are examined.
const MAX_BYTES: usize = 1 << 20;
/// Size of a stored variable-length sequence or string: number of elements, address, and index of the heap
/// object.
const ELEMENT_BYTES: usize = 16;

impl Writer {
    /// Opens a collection of the edited file for adding objects, if one has space for `length` bytes and none
    /// is open yet.
    pub(in super::super) fn adopt_collection(&self, heap: &Heap, length: usize) -> Result<()> {
        let Some(edit) = &self.0.edit else { return Ok(()) };
        if heap.is_open() || edit.has_looked.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // The last collection most likely has free space.
        for address in self.collections_in_use()?.into_iter().rev().take(MAX_COLLECTIONS) {
            let whole = edit.base.parse(|image| Collection::open(image, address).map(|found| found.size()));
            // A damaged collection is not used.
            let Some(size) = whole.ok().filter(|size| *size <= MAX_BYTES) else { continue };
            let mut bytes = vec![0; size];
            self.0.sink.read_at(address, &mut bytes)?;
            if let Some(collection) = Builder::from_stored(&bytes).filter(|found| found.has_room(length)) {
                heap.adopt(address, collection);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the addresses of collections to which loaded objects refer.
    fn collections_in_use(&self) -> Result<BTreeSet<u64>> {
        let in_use: Vec<NodeId> = {
            let tree = self.0.tree();
            let is_read = |node: &Node| node.base.is_some() && !node.removed;
            let read = tree.nodes.iter().enumerate().rev().filter(|(_, node)| is_read(node));
            read.map(|(number, _)| NodeId(number)).take(MAX_OBJECTS).chain([NodeId::ROOT]).collect()
        };
        let mut found = BTreeSet::new();
        for id in in_use {
            // An object that cannot be read is skipped.
            let is_read = self.load_attributes(id).is_ok();
            let tree = self.0.tree();
            let node = tree.node(id)?;
            for attribute in node.attributes.values().filter(|_| is_read) {
                if is_sequence(&attribute.datatype) {
                    add_addresses(&attribute.data, &mut found);
                }
            }
            if let NodeKind::Dataset(dataset) = &node.kind
                && is_sequence(&dataset.datatype)
            {
                let elements = self.some_elements(&dataset.data, dataset).unwrap_or_default();
                add_addresses(&elements, &mut found);
            }
        }
        Ok(found)
    }

    /// Reads the elements of a dataset that were most likely written last.
    fn some_elements(&self, data: &Data, dataset: &super::super::tree::DatasetNode) -> Result<Vec<u8>> {
        match data {
            Data::Compact(bytes) => Ok(bytes.read().unwrap_or_else(PoisonError::into_inner).clone()),
            Data::Contiguous { address, size } => {
                let address = *address.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(address) = address else { return Ok(Vec::new()) };
                let length = (*size).min(MAX_BYTES as u64);
                let mut bytes = vec![0; super::super::snapshot::narrow(length)];
                self.0.sink.read_at(address + (size - length), &mut bytes)?;
                Ok(bytes)
            }
            Data::Chunked(chunks) if chunks.bytes <= MAX_BYTES => match chunks.last_in_file() {
                Some(last) => chunks.load(&self.0, dataset, &last),
                None => Ok(Vec::new()),
            },
            Data::Chunked(_) | Data::External(_) | Data::Virtual(_) => Ok(Vec::new()),
        }
    }
}

fn is_sequence(datatype: &Datatype) -> bool {
    matches!(datatype.class, Class::Vlen { .. } | Class::VlenString { .. })
        && datatype.size == ELEMENT_BYTES as u64
}

/// Adds the collections' addresses in elements.
fn add_addresses(elements: &[u8], found: &mut BTreeSet<u64>) {
    for element in elements.as_chunks::<ELEMENT_BYTES>().0 {
        let address = element[4..].first_chunk().map(|address| u64::from_le_bytes(*address));
        if let Some(address) = address.filter(|address| *address != 0 && *address != u64::MAX) {
            found.insert(address);
            if found.len() > MAX_COLLECTIONS {
                found.pop_first();
            }
        }
    }
}
