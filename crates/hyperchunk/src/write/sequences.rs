//! Storing of strings, sequences and references in the heap.

use super::Writer;
use super::heap::Heap;
use super::options::FileLayout;
use crate::{Error, Result};
use hyperchunk_format::encode;
use hyperchunk_format::encode::reference::HeapObject;
use hyperchunk_format::model::{Reference, ReferenceKind, RegionSelection};

/// Size in bytes of the collections in the first page: its space is limited.
const SMALL_COLLECTION_BYTES: usize = 4096;

impl Writer {
    /// Stores the bytes of a string or sequence of `count` elements; returns the element that refers to
    /// them. One of no elements is empty; the null one is 16 zero bytes, and needs no storing.
    ///
    /// # Errors
    /// Limit if it is too long; the sink's.
    pub fn store_sequence(&self, count: usize, bytes: &[u8]) -> Result<[u8; 16]> {
        self.store(count, bytes, &self.0.heap)
    }

    /// Stores a sequence for an attribute as [`Writer::store_sequence`] does, but in the first page if
    /// structure goes there.
    ///
    /// # Errors
    /// As [`Writer::store_sequence`].
    pub fn store_attribute_sequence(&self, count: usize, bytes: &[u8]) -> Result<[u8; 16]> {
        let in_front = self.0.options.layout != FileLayout::AtEnd;
        self.store(count, bytes, if in_front { &self.0.front_heap } else { &self.0.heap })
    }

    fn store(&self, count: usize, bytes: &[u8], heap: &Heap) -> Result<[u8; 16]> {
        let mut element = [0; 16];
        let length = u32::try_from(count).map_err(|_| Error::limit("a sequence of 2^32 elements"))?;
        let (address, number) = self.store_bytes(bytes, heap)?;
        element[..4].copy_from_slice(&length.to_le_bytes());
        element[4..12].copy_from_slice(&address.to_le_bytes());
        element[12..].copy_from_slice(&number.to_le_bytes());
        Ok(element)
    }

    /// Stores a reference to a part of the dataset whose header is at an address that [`Writer::address`]
    /// gave; returns the element, of 12 bytes, that refers to it.
    ///
    /// # Errors
    /// Invalid or Unsupported if the selection cannot be stored; the sink's.
    pub fn store_region(&self, address: u64, region: RegionSelection) -> Result<Vec<u8>> {
        let reference = Reference { file: None, address, region: Some(region), attribute: None };
        self.store_reference(ReferenceKind::Region1, &reference, false)
    }

    /// Stores the heap object that a reference needs, if any; returns the reference's element. `attribute`:
    /// the element is an attribute's.
    ///
    /// # Errors
    /// Invalid or Unsupported if there is no such reference of that kind; the sink's.
    pub fn store_reference(
        &self,
        kind: ReferenceKind,
        reference: &Reference,
        attribute: bool,
    ) -> Result<Vec<u8>> {
        let (age, object) = self.0.able(|age| encode::reference::heap_object(kind, reference, age))?;
        self.0.notice(age, || "a reference".to_owned());
        let Some(object) = object else { return encode::reference::encode(kind, Some(reference), None) };
        let size = u32::try_from(object.len()).map_err(|_| Error::limit("a selection of 4 GiB"))?;
        let in_front = attribute && self.0.options.layout != FileLayout::AtEnd;
        let heap = if in_front { &self.0.front_heap } else { &self.0.heap };
        let (address, index) = self.store_bytes(&object, heap)?;
        encode::reference::encode(kind, Some(reference), Some(HeapObject { address, index, size }))
    }

    /// Stores bytes in the heap; returns the collection's address and the object's number.
    fn store_bytes(&self, bytes: &[u8], heap: &Heap) -> Result<(u64, u32)> {
        let _in_use = self.0.open()?;
        let in_front = std::ptr::eq(heap, &self.0.front_heap);
        let usual = if in_front { SMALL_COLLECTION_BYTES } else { heap.usual_bytes(self.0.edit.is_some()) };
        let take = |length| match in_front.then(|| self.0.take_front(length, false)).flatten() {
            Some(address) => Ok(address),
            None => {
                let (address, gap) = self.0.space.take(length, 8);
                self.0.sink.skip(address - gap, gap).map(|()| address)
            }
        };
        self.adopt_collection(heap, bytes.len())?;
        heap.store(bytes, usual, take, &*self.0.sink)
    }
}
