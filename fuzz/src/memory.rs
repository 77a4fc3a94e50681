//! An allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static LARGEST: AtomicUsize = AtomicUsize::new(0);
static SHOWN: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The system's allocator, with a count of the bytes that are allocated.
#[derive(Debug)]
pub struct CountingAllocator;

fn grow(size: usize) {
    let now = NOW.fetch_add(size, Relaxed) + size;
    PEAK.fetch_max(now, Relaxed);
    LARGEST.fetch_max(size, Relaxed);
    let shown = SHOWN.load(Relaxed);
    if size >= shown {
        // What is allocated in here is not shown.
        SHOWN.store(usize::MAX, Relaxed);
        eprintln!("{size} bytes are allocated by\n{}", Backtrace::force_capture());
        SHOWN.store(shown, Relaxed);
    }
}

/// Prints from now on where pieces of this size or larger are allocated.
pub fn show_from(size: usize) {
    SHOWN.store(size, Relaxed);
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let place = unsafe { System.alloc(layout) };
        if !place.is_null() {
            grow(layout.size());
        }
        place
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let place = unsafe { System.alloc_zeroed(layout) };
        if !place.is_null() {
            grow(layout.size());
        }
        place
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) };
        NOW.fetch_sub(layout.size(), Relaxed);
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        let new = unsafe { System.realloc(place, layout, size) };
        if !new.is_null() {
            NOW.fetch_sub(layout.size(), Relaxed);
            grow(size);
        }
        new
    }
}

/// Forgets the peaks; returns how many bytes are allocated now.
pub fn reset() -> usize {
    let now = NOW.load(Relaxed);
    PEAK.store(now, Relaxed);
    LARGEST.store(0, Relaxed);
    now
}

/// The most bytes that were allocated since [`reset`], and the largest piece.
#[must_use]
pub fn peaks() -> (usize, usize) {
    (PEAK.load(Relaxed), LARGEST.load(Relaxed))
}
