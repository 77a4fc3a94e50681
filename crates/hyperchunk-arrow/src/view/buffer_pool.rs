//! Pool of memory for the columns of filtered rows: allocating new memory costs more than filling it.

use arrow_buffer::{Buffer, MutableBuffer};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Maximum number of free buffers in the pool.
const MAX_FREE_BUFFERS: usize = 64;

/// The free buffers.
#[derive(Debug, Default)]
pub(super) struct BufferPool(Mutex<Vec<MutableBuffer>>);

/// A buffer that is being filled.
#[derive(Debug)]
pub(super) struct PooledBuffer {
    /// Its length is the size of the filled part.
    memory: MutableBuffer,
    pool: Weak<BufferPool>,
}

/// A buffer that arrays use.
struct LentBuffer {
    memory: MutableBuffer,
    pool: Weak<BufferPool>,
}

impl BufferPool {
    /// Returns a buffer for at least this number of bytes.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> PooledBuffer {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The last used buffer is probably still in the processor's cache.
        let place = free.iter().rposition(|memory| memory.capacity() >= bytes);
        let memory = place.map(|place| free.remove(place));
        drop(free);
        let memory = memory.unwrap_or_else(|| MutableBuffer::with_capacity(bytes));
        PooledBuffer { memory, pool: Arc::downgrade(self) }
    }
}

impl PooledBuffer {
    /// Returns the unfilled part.
    pub(super) fn spare_capacity<T>(&mut self) -> &mut [MaybeUninit<T>] {
        let (length, capacity) = (self.memory.len(), self.memory.capacity());
        let (first, bytes) = (self.memory.as_mut_ptr().wrapping_add(length), capacity - length);
        let aligned = first.cast::<T>().is_aligned();
        let count = if aligned { bytes / size_of::<T>().max(1) } else { 0 };
        // SAFETY: inside this allocation, aligned, and exclusively borrowed. It may be uninitialised.
        unsafe { std::slice::from_raw_parts_mut(first.cast(), count) }
    }

    /// Extends the filled part.
    ///
    /// # Safety
    /// These bytes were written to the unfilled part.
    pub(super) unsafe fn advance(&mut self, bytes: usize) {
        let length = self.memory.len() + bytes;
        debug_assert!(length <= self.memory.capacity());
        // SAFETY: the caller wrote them to `spare_capacity`.
        unsafe { self.memory.set_len(length) };
    }

    /// Returns the filled part.
    pub(super) fn finish(self) -> Buffer {
        let length = self.memory.len();
        let Some(first) = NonNull::new(self.memory.as_ptr().cast_mut()).filter(|_| length > 0) else {
            return Buffer::default();
        };
        let lent = Arc::new(LentBuffer { memory: self.memory, pool: self.pool });
        // SAFETY: the bytes exist as long as the owner, which the buffer keeps, and nothing writes to them
        // until it is returned to the pool.
        unsafe { Buffer::from_custom_allocation(first, length, lent) }
    }
}

impl Drop for LentBuffer {
    fn drop(&mut self) {
        let Some(pool) = self.pool.upgrade() else { return };
        let mut free = pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < MAX_FREE_BUFFERS {
            let mut memory = std::mem::take(&mut self.memory);
            memory.clear();
            free.push(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_when_it_is_free() {
        let pool: Arc<BufferPool> = Arc::default();
        let filled = |value: u32| {
            let mut buffer = pool.take(4096);
            buffer.spare_capacity::<u32>()[0].write(value);
            // SAFETY: they were, just now.
            unsafe { buffer.advance(4) };
            buffer.finish()
        };
        let first = filled(1);
        let place = first.as_ptr();
        let second = filled(2);
        assert_ne!(second.as_ptr(), place);
        assert_eq!(first.typed_data::<u32>(), [1]);
        let part = first.slice(0);
        drop(first);
        assert_ne!(filled(3).as_ptr(), place);
        drop(part);
        let third = filled(4);
        assert_eq!(third.as_ptr(), place);
        assert_eq!((third.typed_data::<u32>(), second.typed_data::<u32>()), (&[4][..], &[2][..]));
        assert!(pool.take(8192).memory.capacity() >= 8192);
        drop(pool);
        assert_eq!(third.typed_data::<u32>(), [4]);
    }
}
