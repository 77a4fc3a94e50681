//! The links or attributes of one object in a fractal heap.

use super::fractal_heap::FractalHeap;
use crate::{Error, Image, Result};
use std::cell::Cell;

/// The objects of a fractal heap, each wanted once: together they are not larger than the file, or than metadata may be
/// where filters made them small. An index that names one object again and again is refused.
#[derive(Debug)]
pub(crate) struct DenseObjects<'i> {
    image: Image<'i>,
    heap: FractalHeap<'i>,
    /// How many bytes are left of that.
    left: Cell<u64>,
}

impl<'i> DenseObjects<'i> {
    /// The objects of the heap at an address.
    ///
    /// # Errors
    /// Those of the heap.
    pub(crate) fn open(image: Image<'i>, address: u64) -> Result<Self> {
        Ok(Self::new(image, FractalHeap::open(image, address)?))
    }

    /// The objects of a heap.
    pub(crate) fn new(image: Image<'i>, heap: FractalHeap<'i>) -> Self {
        let left = if heap.filtered() { image.limits.metadata_bytes } else { image.left(0) };
        Self { image, heap, left: Cell::new(left) }
    }

    /// An object.
    ///
    /// # Errors
    /// Those of the heap; Corrupt if the objects are larger than their file.
    pub(crate) fn get(&self, id: &[u8]) -> Result<Vec<u8>> {
        let object = self.heap.object(self.image, id)?;
        let left = self.left.get().checked_sub(object.len() as u64);
        self.left.set(left.ok_or_else(|| {
            Error::corrupt("the objects that an index names are larger than the file").within("fractal heap")
        })?);
        Ok(object)
    }
}
