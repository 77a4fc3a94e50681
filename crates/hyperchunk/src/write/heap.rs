//! Heap objects of variable-length sequences and strings. Source: specification §III.E, "Global Heap".

use super::sink::Sink;
use super::space::Space;
use crate::{Error, Result};
use hyperchunk_format::encode::global_heap::Builder;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Usual size of a heap collection in bytes; a collection with a single larger object has the size of that.
pub(super) const COLLECTION_BYTES: usize = 64 << 10;
/// Minimum size of a heap collection in bytes.
const MIN_COLLECTION_BYTES: usize = 4 << 10;

/// Allocator of heap objects, collection by collection.
#[derive(Debug, Default)]
pub(super) struct Heap {
    open: Mutex<Option<OpenCollection>>,
    /// Number of collections.
    count: AtomicU32,
}

/// The collection to which objects are added.
#[derive(Debug)]
struct OpenCollection {
    address: u64,
    collection: Builder,
    /// True once all of its objects are written.
    is_written: bool,
    /// True if the file had the collection before the edit; its size then stays the same.
    is_adopted: bool,
}

impl OpenCollection {
    fn write(&self, sink: &dyn Sink) -> Result<()> {
        let new = self.collection.encode();
        if !self.is_adopted {
            return sink.write_at(self.address, &new);
        }
        let mut old = vec![0; new.len()];
        sink.read_at(self.address, &mut old)?;
        let differs = |(old, new): (&u8, &u8)| old != new;
        let Some(first) = old.iter().zip(&new).position(differs) else { return Ok(()) };
        let last = old.iter().zip(&new).rposition(differs).unwrap_or(first);
        // One write, so that readers find all changes or none.
        sink.write_at(self.address + first as u64, &new[first..=last])
    }
}

impl Heap {
    /// Returns the usual size of the next collection. In an edit the first ones are small, as the unused rest
    /// of the last one is lost.
    pub(super) fn usual_bytes(&self, is_edit: bool) -> usize {
        match self.count.load(Ordering::Relaxed) {
            count @ 0..=3 if is_edit => MIN_COLLECTION_BYTES << count,
            _ => COLLECTION_BYTES,
        }
    }

    /// Makes a collection of the edited file the one to which objects are added.
    pub(super) fn adopt(&self, address: u64, collection: Builder) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get_or_insert(OpenCollection { address, collection, is_written: true, is_adopted: true });
    }

    /// Returns whether a collection is open.
    pub(super) fn is_open(&self) -> bool {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Stores an object; returns the collection's address and the object's index in it. A new collection
    /// usually has `usual` bytes; `take` allocates it.
    pub(super) fn store(
        &self,
        bytes: &[u8],
        usual: usize,
        take: impl FnOnce(u64) -> Result<u64>,
        sink: &dyn Sink,
    ) -> Result<(u64, u32)> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = open.as_mut()
            && let Some(number) = open.collection.add(bytes)
        {
            open.is_written = false;
            return Ok((open.address, number.into()));
        }
        let needed = Builder::size_for(bytes.len());
        let mut collection = Builder::new(needed.max(usual));
        let size = collection.size();
        let address = take(size as u64)?;
        self.count.fetch_add(1, Ordering::Relaxed);
        let number = collection.add(bytes).ok_or_else(|| Error::limit("a heap object exceeds the limit"))?;
        let fresh = OpenCollection { address, collection, is_written: false, is_adopted: false };
        if needed > usual {
            // The new collection is full; the previous one stays open.
            sink.write_at(address, &fresh.collection.encode())?;
        } else {
            if let Some(full) = open.as_mut().filter(|full| !full.is_written) {
                full.write(sink)?;
            }
            *open = Some(fresh);
        }
        Ok((address, number.into()))
    }

    /// Drops the open collection, whose space has been freed.
    pub(super) fn forget(&self) {
        drop(self.open.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Writes the open collection. With `keep`, it stays open; this requires commits that replace bytes
    /// atomically. Otherwise it does not change again, so that its objects survive if this process is killed.
    pub(super) fn flush(&self, space: &Space, sink: &dyn Sink, keep: bool) -> Result<()> {
        let mut place = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut open) = place.take() else { return Ok(()) };
        if open.is_written {
            *place = Some(open).filter(|_| keep);
            return Ok(());
        }
        let before = open.collection.size();
        if !open.is_adopted {
            open.collection.shrink();
        }
        let size = open.collection.size();
        if let Err(error) = open.write(sink) {
            // The next flush must write the objects, as elements refer to them.
            *place = Some(open);
            return Err(error);
        }
        let left = (open.address + size as u64, (before - size) as u64);
        if !space.undo(left.0, left.1) {
            sink.skip(left.0, left.1)?;
            space.give_back(left.0, left.1, false);
        }
        open.is_written = true;
        *place = Some(open).filter(|_| keep);
        Ok(())
    }
}
