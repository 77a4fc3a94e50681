//! Memory: on the GPU, and page-locked in the process, from which copies are fastest.

use crate::error::fail;
use crate::shared::Mapping;
use crate::{Context, Result};
use std::sync::Arc;

/// Memory on a GPU, freed on drop.
#[derive(Debug)]
pub struct DeviceMemory {
    context: Arc<Context>,
    address: u64,
    bytes: usize,
    /// The mapping to release, if it was not allocated by cuMemAlloc.
    mapping: Option<Mapping>,
}

impl DeviceMemory {
    /// Creates memory of a mapping.
    pub(crate) fn mapped(context: &Arc<Context>, mapping: Mapping) -> DeviceMemory {
        let (address, bytes) = (mapping.address(), mapping.bytes());
        DeviceMemory { context: Arc::clone(context), address, bytes, mapping: Some(mapping) }
    }

    /// Allocates `bytes`, uninitialised. Zero bytes have an address, too.
    ///
    /// # Errors
    /// Limit if the GPU has too little left.
    pub fn alloc(context: &Arc<Context>, bytes: usize) -> Result<DeviceMemory> {
        context.make_current()?;
        let driver = context.driver;
        let mut address = 0;
        // SAFETY: writes one address.
        let code = unsafe { (driver.f.memory_alloc)(&raw mut address, bytes.max(1)) };
        driver
            .check("cuMemAlloc", code)
            .map_err(|error| error.within(format_args!("{bytes} bytes on the GPU")))?;
        Ok(DeviceMemory { context: Arc::clone(context), address, bytes, mapping: None })
    }

    /// Returns the address, for kernels and for other libraries.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the context of the memory.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Returns the address of `length` bytes from `offset` on.
    pub(crate) fn place(&self, offset: usize, length: usize) -> Result<u64> {
        match offset.checked_add(length) {
            Some(end) if end <= self.bytes => Ok(self.address + offset as u64),
            _ => fail!(
                Invalid,
                "{length} bytes at {offset} are not within the {} bytes of memory on the GPU",
                self.bytes
            ),
        }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // In a forked process there is no GPU on which to free anything. If a kernel broke the context, all
        // is freed when the process ends. A mapping releases itself.
        if self.mapping.is_none() && self.context.make_current().is_ok() {
            // SAFETY: the address is from cuMemAlloc, freed only here. The driver waits for its users.
            let _ = unsafe { (self.context.driver.f.memory_free)(self.address) };
        }
    }
}

/// Page-locked memory of the process, zeroed, and freed on drop.
#[derive(Debug)]
pub struct PinnedMemory {
    context: Arc<Context>,
    start: *mut u8,
    bytes: usize,
}

// SAFETY: it owns its memory, which every thread may reach.
unsafe impl Send for PinnedMemory {}
// SAFETY: when shared, it is only read.
unsafe impl Sync for PinnedMemory {}

/// `CU_MEMHOSTALLOC_PORTABLE`: page-locked for every context.
const PORTABLE: u32 = 1;

impl PinnedMemory {
    /// Allocates `bytes`.
    ///
    /// # Errors
    /// Limit if they cannot be locked.
    pub fn alloc(context: &Arc<Context>, bytes: usize) -> Result<PinnedMemory> {
        context.make_current()?;
        let driver = context.driver;
        let mut start = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        let code = unsafe { (driver.f.host_alloc)(&raw mut start, bytes.max(1), PORTABLE) };
        driver
            .check("cuMemHostAlloc", code)
            .map_err(|error| error.within(format_args!("{bytes} page-locked bytes")))?;
        let start: *mut u8 = start.cast();
        if start.is_null() {
            fail!(Failed, "cuMemHostAlloc returned no memory")
        }
        // SAFETY: fresh memory of that many bytes.
        unsafe { start.write_bytes(0, bytes) };
        Ok(PinnedMemory { context: Arc::clone(context), start, bytes })
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `self.bytes` initialised bytes that this value owns.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }

    /// Returns the bytes for writing.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if self.context.make_current().is_ok() {
            // SAFETY: the pointer is from cuMemHostAlloc, freed only here. The driver waits for copies that
            // use it.
            let _ = unsafe { (self.context.driver.f.host_free)(self.start.cast()) };
        }
    }
}
