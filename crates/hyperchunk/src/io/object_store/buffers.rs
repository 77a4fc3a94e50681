//! Memory for the bodies of one fetch: the kernel clears it once, not for each body anew.

use crate::{Error, Result};
use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Bodies from this size on share memory; smaller ones have what the allocator has at hand.
const WORTH: usize = 128 << 10;

/// The buffers of a fetch that no body is in.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    free: Mutex<Vec<Vec<u8>>>,
    /// How many bytes the longest body has.
    longest: usize,
}

/// A buffer; whoever lets go of it gives it back.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
    home: Weak<Buffers>,
}

impl Buffers {
    /// For bodies of that many bytes at most.
    pub(super) fn new(longest: u64) -> Self {
        Self { free: Mutex::default(), longest: usize::try_from(longest).unwrap_or(usize::MAX) }
    }

    /// An empty buffer with room for so many bytes.
    ///
    /// # Errors
    /// Limit if there is no memory.
    pub(super) fn take(self: &Arc<Self>, length: usize) -> Result<Buffer> {
        let shared = length >= WORTH && length <= self.longest;
        let mut buffer = Buffer { bytes: Vec::new(), home: Weak::new() };
        if shared {
            buffer.home = Arc::downgrade(self);
            if let Some(bytes) = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop() {
                buffer.bytes = bytes;
                return Ok(buffer);
            }
        }
        // What is not written to costs nothing.
        let room = if shared { self.longest } else { length };
        let found = buffer.bytes.try_reserve_exact(room);
        let found = found.or_else(|_| buffer.bytes.try_reserve_exact(length));
        found.map_err(|_| Error::limit(format!("there is no memory for a request of {length} bytes")))?;
        Ok(buffer)
    }
}

impl Buffer {
    /// As bytes that are shared.
    pub(super) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(home) = self.home.upgrade().filter(|home| self.bytes.capacity() >= home.longest) else {
            return;
        };
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        home.free.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again() {
        let buffers = Arc::new(Buffers::new(1 << 20));
        let free = || buffers.free.lock().unwrap().len();
        let mut first = buffers.take(WORTH).unwrap();
        first.bytes.extend_from_slice(&[1; 5]);
        let place = first.bytes.as_ptr();
        let body = first.freeze();
        let part = body.slice(1..3);
        drop(body);
        assert_eq!((free(), &part[..]), (0, &[1, 1][..]), "a part of it is in use");
        drop(part);
        assert_eq!(free(), 1);
        let again = buffers.take(1 << 20).unwrap();
        assert_eq!((again.bytes.as_ptr(), again.bytes.len(), free()), (place, 0, 0));
        // Small ones, and those that are larger than any should be, are not kept.
        drop((buffers.take(10).unwrap(), buffers.take(2 << 20).unwrap()));
        assert_eq!(free(), 0);
        drop(buffers);
        assert_eq!(again.freeze().len(), 0, "it outlives its fetch");
    }
}
