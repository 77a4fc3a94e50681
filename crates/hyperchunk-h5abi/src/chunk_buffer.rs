//! Buffers for decoded chunks, from HDF5's allocator.

use crate::library::Library;
use crate::{ErrorKind, Result};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Uninitialised buffer for one decoded chunk, allocated by libhdf5, which can take it over.
pub(crate) struct ChunkBuffer {
    library: &'static Library,
    pointer: *mut c_void,
    pub(crate) bytes: usize,
}

/// Minimum size in bytes at which huge pages save more than they cost.
const HUGE_ALLOCATION_BYTES: usize = 8 << 20;

impl ChunkBuffer {
    pub(crate) fn new(library: &'static Library, bytes: usize) -> Result<Self> {
        // SAFETY: no pointers; the result is checked.
        let pointer = unsafe { (library.f.allocate)(bytes, false) };
        if pointer.is_null() {
            return Err(crate::Error::new(
                ErrorKind::Limit,
                format!("no memory for a chunk of {bytes} bytes"),
            ));
        }
        if bytes < HUGE_ALLOCATION_BYTES {
            prevent_heap_trim(pointer);
        }
        if bytes >= HUGE_ALLOCATION_BYTES {
            let start = (pointer as usize).next_multiple_of(4096);
            let end = (pointer as usize + bytes) / 4096 * 4096;
            // SAFETY: whole pages inside the buffer; the advice changes no content.
            unsafe { libc::madvise(start as *mut c_void, end.saturating_sub(start), libc::MADV_HUGEPAGE) };
        }
        Ok(ChunkBuffer { library, pointer, bytes })
    }

    /// Returns the uninitialised bytes.
    pub(crate) fn uninitialised(&mut self) -> &mut [std::mem::MaybeUninit<u8>] {
        // SAFETY: the buffer is ours alone and has that many bytes.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.cast(), self.bytes) }
    }

    /// Gives up ownership and returns the pointer, for HDF5 to free.
    pub(crate) fn release(self) -> *mut c_void {
        let pointer = self.pointer;
        std::mem::forget(self);
        pointer
    }
}

/// Allocates a block above the highest chunk buffer on the heap, so that freed chunk buffers stay in the
/// process.
///
/// HDF5 frees the chunks of a dataset together when the dataset is closed. At the top of the heap, their
/// memory would be returned to the system, and the next read would cause a page fault for every page, which
/// costs as much as copying a chunk.
///
/// A small block would be taken from free memory at lower addresses, of which a Python program has plenty. Of
/// this block, only the page with its header is ever touched.
fn prevent_heap_trim(chunk: *mut c_void) {
    static HIGHEST: AtomicUsize = AtomicUsize::new(0);
    const BLOCK_BYTES: usize = 64 << 10;
    const MAX_ATTEMPTS: usize = 16;
    let before = HIGHEST.load(Ordering::Relaxed);
    if chunk as usize <= before {
        return;
    }
    // SAFETY: 0 asks where the heap ends and changes nothing.
    let end = unsafe { libc::sbrk(0) } as usize;
    // A chunk outside the main heap has its own mapping or is on the heap of a thread.
    let tries = if (chunk as usize) < end { MAX_ATTEMPTS } else { 1 };
    let mut blocks = [std::ptr::null_mut(); MAX_ATTEMPTS];
    let mut higher = std::ptr::null_mut();
    for lower in blocks.iter_mut().take(tries) {
        // SAFETY: no pointers; the result is checked.
        let block = unsafe { libc::malloc(BLOCK_BYTES) };
        if block as usize > chunk as usize {
            higher = block;
            break;
        }
        *lower = block;
    }
    let taken = !higher.is_null()
        && HIGHEST.compare_exchange(before, higher as usize, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    let unused = if taken { before as *mut c_void } else { higher };
    for block in blocks.into_iter().chain([unused]) {
        // SAFETY: null, or a block allocated and used only by this function.
        unsafe { libc::free(block) };
    }
}

impl Drop for ChunkBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated by the same library and not handed out.
        unsafe { (self.library.f.free)(self.pointer) };
    }
}
