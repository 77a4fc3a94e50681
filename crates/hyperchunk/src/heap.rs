//! Objects of the global heap: the contents of variable-length sequences and strings.

use crate::file::File;
use crate::{Error, Result};
use hyperchunk_format::model::{Class, Datatype};
use hyperchunk_format::parse::global_heap::Collection;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of bytes of collections that a file caches; less for smaller and remote files.
const MAX_CACHED_BYTES: usize = 16 << 20;
/// Cost of looking up a sequence, in bytes of the budget [`crate::Limits::sequence_bytes`].
const LOOK_UP_BYTES: u64 = 16;

/// Cache of a file's heap collections.
#[derive(Default)]
pub(crate) struct GlobalHeaps {
    kept: Mutex<CachedCollections>,
}

#[derive(Default)]
struct CachedCollections {
    collections: HashMap<u64, Arc<Collection<'static>>>,
    bytes: usize,
}

impl File {
    /// Returns the collection of the global heap at `address`.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn heap_collection(&self, address: u64) -> Result<Arc<Collection<'static>>> {
        self.collection(address).map(|(collection, _)| collection)
    }

    /// Does the same as [`File::heap_collection`], and also returns the number of bytes that were read.
    fn collection(&self, address: u64) -> Result<(Arc<Collection<'static>>, usize)> {
        let lock = || self.0.heaps.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = lock().collections.get(&address) {
            return Ok((Arc::clone(found), 0));
        }
        let collection =
            Arc::new(self.parse(|image| Collection::open(image, address).map(Collection::into_owned))?);
        let mut kept = lock();
        // In a damaged file, collections may overlap, so the sum is bounded by the file's size. The bound is
        // lower for a file over a network, whose blocks the process caches.
        let most = if self.is_remote() { MAX_CACHED_BYTES / 16 } else { MAX_CACHED_BYTES };
        let most = usize::try_from(self.size()).unwrap_or(most).min(most);
        if kept.bytes.saturating_add(collection.size()) > most {
            *kept = CachedCollections::default();
        }
        kept.bytes += collection.size();
        kept.collections.insert(address, Arc::clone(&collection));
        let read = collection.size();
        Ok((collection, read))
    }

    /// Returns the size of a stored variable-length element in this file: count, address and index.
    #[must_use]
    pub fn handle_size(&self) -> usize {
        8 + usize::from(self.superblock().sizes.address)
    }

    /// Creates a reader for variable-length sequences and strings.
    #[must_use]
    pub fn sequences(&self) -> Sequences<'_> {
        let left = self.options().limits.sequence_bytes.max(self.size().saturating_mul(16));
        Sequences { file: self, last: None, left }
    }
}

/// Reader of the parts of elements that are in the global heap. Caches the last collection.
#[derive(Debug)]
pub struct Sequences<'a> {
    file: &'a File,
    last: Option<(u64, Arc<Collection<'static>>)>,
    /// Remaining bytes of the budget.
    left: u64,
}

impl Sequences<'_> {
    /// Returns the number of elements and the bytes of the sequence that a stored element (count,
    /// collection's address, index) refers to; `None` for a null one. An element of count 0 that points to an
    /// object is empty, not null: libhdf5 stores the string `""` in this way. `base` is the type of the
    /// sequence's elements.
    ///
    /// # Errors
    /// If the heap has no such object, or it is shorter than the count says; Limit if all lookups together
    /// exceed the budget ([`crate::Limits::sequence_bytes`], or 16 times the file's size if that is more).
    pub fn get(&mut self, element: &[u8], base: &Datatype) -> Result<Option<(u64, &[u8])>> {
        let sizes = self.file.superblock().sizes;
        let mut cursor = hyperchunk_format::Cursor::new(element, "sequence", 0);
        let count = u64::from(cursor.u32()?);
        let address = cursor.address(sizes)?;
        let index = cursor.u32()?;
        let Some(address) = address.filter(|address| *address != 0) else {
            return Ok(None);
        };
        if count == 0 {
            return Ok(Some((0, &[])));
        }
        let needed = count.checked_mul(base.size);
        let found = self.object(address, index)?.len();
        let Some(needed) =
            needed.and_then(|needed| usize::try_from(needed).ok()).filter(|needed| *needed <= found)
        else {
            let message =
                format!("a sequence of {count} elements of {} bytes has only {found} bytes", base.size);
            return Err(Error::corrupt(message).within("global heap").at(address));
        };
        self.spend((needed as u64).saturating_add(LOOK_UP_BYTES))?;
        Ok(self.object(address, index)?.get(..needed).map(|bytes| (count, bytes)))
    }

    /// Returns the bytes of a variable-length string, up to the first NUL; empty for a null one.
    ///
    /// # Errors
    /// As [`Sequences::get`].
    pub fn string(&mut self, element: &[u8]) -> Result<&[u8]> {
        let byte = Datatype { size: 1, class: Class::Opaque { tag: Default::default() } };
        let bytes = self.get(element, &byte)?.map_or(&[][..], |(_, bytes)| bytes);
        Ok(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
    }

    /// Returns whether a stored element is null, as defined at [`Sequences::get`], without reading the
    /// heap.
    ///
    /// # Errors
    /// If the element is truncated.
    pub fn is_null(&self, element: &[u8]) -> Result<bool> {
        let mut cursor = hyperchunk_format::Cursor::new(element, "sequence", 0);
        cursor.u32()?;
        Ok(cursor.address(self.file.superblock().sizes)?.is_none_or(|address| address == 0))
    }

    /// Subtracts the cost of a lookup from the budget.
    fn spend(&mut self, bytes: u64) -> Result<()> {
        let left = self.left.checked_sub(bytes).ok_or_else(|| {
            let most = self.file.options().limits.sequence_bytes;
            let message = format!(
                "sequences and strings of more than {most} bytes in one read (limit `sequence_bytes`)"
            );
            self.file.with_context(Error::limit(message))
        })?;
        self.left = left;
        Ok(())
    }

    /// Returns an object of a collection.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn object(&mut self, address: u64, index: u32) -> Result<&[u8]> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != address) {
            let (collection, read) = self.file.collection(address)?;
            self.spend(read as u64 / LOOK_UP_BYTES)?;
            self.last = Some((address, collection));
        }
        let found = self.last.as_ref().and_then(|(_, collection)| collection.object(index));
        found.ok_or_else(|| {
            let message = format!("the global heap has no object {index}");
            self.file.with_context(Error::corrupt(message).within("global heap").at(address))
        })
    }
}
