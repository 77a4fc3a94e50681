//! Buffer pool for the bodies of one fetch, so that the kernel clears the memory once instead of once for
//! each body.

use crate::{Error, Result};
use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Minimum size of a pooled body in bytes; smaller ones are allocated as usual.
const MIN_POOLED_BYTES: usize = 128 << 10;

/// A fetch's free buffers.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    free: Mutex<Vec<Vec<u8>>>,
    /// The size of the longest body, in bytes.
    longest: usize,
}

/// A buffer that returns to the pool when it is dropped.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
    home: Weak<Buffers>,
}

impl Buffers {
    /// Creates a pool for bodies of at most `longest` bytes.
    pub(super) fn new(longest: u64) -> Self {
        Self { free: Mutex::default(), longest: usize::try_from(longest).unwrap_or(usize::MAX) }
    }

    /// Returns an empty buffer with a capacity of at least `length` bytes.
    ///
    /// # Errors
    /// Limit if there is no memory.
    pub(super) fn take(self: &Arc<Self>, length: usize) -> Result<Buffer> {
        let shared = length >= MIN_POOLED_BYTES && length <= self.longest;
        let mut buffer = Buffer { bytes: Vec::new(), home: Weak::new() };
        if shared {
            buffer.home = Arc::downgrade(self);
            if let Some(bytes) = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop() {
                buffer.bytes = bytes;
                return Ok(buffer);
            }
        }
        // Memory that is reserved but not written to costs nothing.
        let room = if shared { self.longest } else { length };
        let found = buffer.bytes.try_reserve_exact(room);
        let found = found.or_else(|_| buffer.bytes.try_reserve_exact(length));
        found.map_err(|_| Error::limit(format!("not enough memory for a request of {length} bytes")))?;
        Ok(buffer)
    }
}

impl Buffer {
    /// Converts the buffer into shared bytes.
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
        let mut first = buffers.take(MIN_POOLED_BYTES).unwrap();
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
        // Small buffers, and ones larger than the longest body, are not kept.
        drop((buffers.take(10).unwrap(), buffers.take(2 << 20).unwrap()));
        assert_eq!(free(), 0);
        drop(buffers);
        assert_eq!(again.freeze().len(), 0, "it outlives its fetch");
    }
}
