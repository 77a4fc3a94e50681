//! Links or attributes of one object in a fractal heap.

use super::fractal_heap::FractalHeap;
use crate::{Error, Image, Result};
use std::cell::Cell;

/// Objects of a fractal heap, each expected to be read once. Their total size may not exceed the file's or,
/// where filters compress them, the limit for metadata. An index with many references to one object is
/// therefore refused.
#[derive(Debug)]
pub(crate) struct DenseObjects<'i> {
    image: Image<'i>,
    heap: FractalHeap<'i>,
    /// Remaining bytes.
    left: Cell<u64>,
}

impl<'i> DenseObjects<'i> {
    /// Opens the heap at an address.
    ///
    /// # Errors
    /// The errors of the heap.
    pub(crate) fn open(image: Image<'i>, address: u64) -> Result<Self> {
        Ok(Self::new(image, FractalHeap::open(image, address)?))
    }

    /// Uses a heap that is already open.
    pub(crate) fn new(image: Image<'i>, heap: FractalHeap<'i>) -> Self {
        let left = if heap.filtered() { image.limits.metadata_bytes } else { image.left(0) };
        Self { image, heap, left: Cell::new(left) }
    }

    /// Reads an object.
    ///
    /// # Errors
    /// The errors of the heap; Corrupt if the objects together exceed the file.
    pub(crate) fn get(&self, id: &[u8]) -> Result<Vec<u8>> {
        let object = self.heap.object(self.image, id)?;
        let left = self.left.get().checked_sub(object.len() as u64);
        self.left.set(left.ok_or_else(|| {
            Error::corrupt("the objects in an index are together larger than the file").within("fractal heap")
        })?);
        Ok(object)
    }
}
