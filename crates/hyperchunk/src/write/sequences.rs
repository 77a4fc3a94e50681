//! Storage of strings, sequences and references in the global heap.

use super::Writer;
use super::heap::Heap;
use super::options::FileLayout;
use crate::{Error, Result};
use hyperchunk_format::encode;
use hyperchunk_format::encode::reference::HeapObject;
use hyperchunk_format::model::{Reference, ReferenceKind, RegionSelection};

/// Size in bytes of heap collections in the first page, whose space is limited.
const SMALL_COLLECTION_BYTES: usize = 4096;

impl Writer {
    /// Stores the bytes of a string or sequence of `count` elements; returns the variable-length element that
    /// refers to them. The null sequence, 16 zero bytes, need not be stored; it differs from a sequence
    /// without elements.
    ///
    /// # Errors
    /// Limit if the sequence is too long; the sink's.
    pub fn store_sequence(&self, count: usize, bytes: &[u8]) -> Result<[u8; 16]> {
        self.store(count, bytes, &self.0.heap)
    }

    /// Stores a sequence of an attribute, as [`Writer::store_sequence`], but in the first page if structure
    /// is stored there.
    ///
    /// # Errors
    /// As [`Writer::store_sequence`].
    pub fn store_attribute_sequence(&self, count: usize, bytes: &[u8]) -> Result<[u8; 16]> {
        let in_front = self.0.options.layout != FileLayout::AtEnd;
        self.store(count, bytes, if in_front { &self.0.front_heap } else { &self.0.heap })
    }

    fn store(&self, count: usize, bytes: &[u8], heap: &Heap) -> Result<[u8; 16]> {
        let mut element = [0; 16];
        let length = u32::try_from(count).map_err(|_| Error::limit("the sequence is too long"))?;
        let (address, number) = self.store_bytes(bytes, heap)?;
        element[..4].copy_from_slice(&length.to_le_bytes());
        element[4..12].copy_from_slice(&address.to_le_bytes());
        element[12..].copy_from_slice(&number.to_le_bytes());
        Ok(element)
    }

    /// Stores a region reference to the dataset for which [`Writer::address`] returned `address`; returns its
    /// element of 12 bytes.
    ///
    /// # Errors
    /// Invalid or Unsupported if the selection cannot be stored; the sink's.
    pub fn store_region(&self, address: u64, region: RegionSelection) -> Result<Vec<u8>> {
        let reference = Reference { file: None, address, region: Some(region), attribute: None };
        self.store_reference(ReferenceKind::Region1, &reference, false)
    }

    /// Stores the heap object that a reference needs, if any; returns the reference's element. `attribute` is
    /// true if the element belongs to an attribute.
    ///
    /// # Errors
    /// Invalid or Unsupported if that kind of reference does not support the target; the sink's.
    pub fn store_reference(
        &self,
        kind: ReferenceKind,
        reference: &Reference,
        attribute: bool,
    ) -> Result<Vec<u8>> {
        let (age, object) = self.0.able(|age| encode::reference::heap_object(kind, reference, age))?;
        self.0.notice(age, || "a reference".to_owned());
        let Some(object) = object else { return encode::reference::encode(kind, Some(reference), None) };
        let size = u32::try_from(object.len()).map_err(|_| Error::limit("the reference exceeds 4 GiB"))?;
        let in_front = attribute && self.0.options.layout != FileLayout::AtEnd;
        let heap = if in_front { &self.0.front_heap } else { &self.0.heap };
        let (address, index) = self.store_bytes(&object, heap)?;
        encode::reference::encode(kind, Some(reference), Some(HeapObject { address, index, size }))
    }

    /// Stores bytes in the heap; returns the collection's address and the object's index.
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
