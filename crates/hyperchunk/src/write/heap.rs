//! Heap objects of sequences and strings of variable length. Source: specification §III.E, "Global Heap".

use super::sink::Sink;
use super::space::Space;
use crate::{Error, Result};
use hyperchunk_format::encode::global_heap::Builder;
use std::sync::{Mutex, PoisonError};

/// Usual size of a collection in bytes; one with a single larger object has the size that it needs.
pub(super) const COLLECTION_BYTES: usize = 64 << 10;

/// Allocator of heap objects, collection by collection.
#[derive(Debug, Default)]
pub(super) struct Heap {
    open: Mutex<Option<OpenCollection>>,
}

/// The collection to which objects are added.
#[derive(Debug)]
struct OpenCollection {
    address: u64,
    collection: Builder,
}

impl Heap {
    /// Stores an object; returns the collection's address and the object's number in it. New collections
    /// have `usual` bytes, at the address that `take` returns.
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
            return Ok((open.address, number.into()));
        }
        let needed = Builder::size_for(bytes.len());
        let mut collection = Builder::new(needed.max(usual));
        let size = collection.size();
        let address = take(size as u64)?;
        let number =
            collection.add(bytes).ok_or_else(|| Error::limit("an object larger than its collection"))?;
        let fresh = OpenCollection { address, collection };
        if needed > usual {
            // It is full; the previous collection stays open.
            sink.write_at(address, &fresh.collection.encode())?;
        } else if let Some(full) = open.replace(fresh) {
            sink.write_at(full.address, &full.collection.encode())?;
        }
        Ok((address, number.into()))
    }

    /// Writes the open collection. Written collections never change: they may be all that is left of this
    /// process.
    pub(super) fn flush(&self, space: &Space, sink: &dyn Sink) -> Result<()> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut open) = open else { return Ok(()) };
        let before = open.collection.size();
        open.collection.shrink();
        let size = open.collection.size();
        sink.write_at(open.address, &open.collection.encode())?;
        let left = (open.address + size as u64, (before - size) as u64);
        if !space.undo(left.0, left.1) {
            sink.skip(left.0, left.1)?;
            space.give_back(left.0, left.1, false);
        }
        Ok(())
    }
}
