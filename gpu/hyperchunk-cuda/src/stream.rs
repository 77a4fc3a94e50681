//! Streams: sequences of operations on a GPU, with copies to and from it; and events, which mark points in
//! them and measure time.

use crate::driver::Handle;
use crate::error::fail;
use crate::{Context, DeviceMemory, PinnedMemory, Result};
use std::ffi::c_uint;
use std::sync::{Arc, Mutex, PoisonError};

/// `CU_STREAM_NON_BLOCKING`: no implicit synchronisation with the default stream.
const NON_BLOCKING: c_uint = 1;
/// Maximum size in bytes of a buffer for copies. Two of them reach the bus's speed.
const MAX_STAGING_BYTES: usize = 4 << 20;
const MIN_STAGING_BYTES: usize = 64 << 10;

/// A marker in a stream, with the time at which the GPU passed it.
#[derive(Debug)]
pub struct Event {
    context: Arc<Context>,
    handle: Handle,
}

// SAFETY: events may be used by any thread; the driver has its own locks.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Creates an event that is not recorded yet.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn new(context: &Arc<Context>) -> Result<Event> {
        context.make_current()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle; 0 is an event with a time.
        let code = unsafe { (context.driver.f.event_create)(&raw mut handle, 0) };
        context.driver.check("cuEventCreate", code)?;
        Ok(Event { context: Arc::clone(context), handle })
    }

    /// Records the event after all operations queued in a stream.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.context.make_current()?;
        // SAFETY: both handles are live.
        let code = unsafe { (self.context.driver.f.event_record)(self.handle, stream.handle) };
        self.context.driver.check("cuEventRecord", code)
    }

    /// Waits until the GPU has passed the event. An event that was never recorded counts as passed.
    ///
    /// # Errors
    /// Errors of the driver, including errors of earlier operations.
    pub fn synchronize(&self) -> Result<()> {
        self.context.make_current()?;
        // SAFETY: the handle is live.
        let code = unsafe { (self.context.driver.f.event_synchronize)(self.handle) };
        self.context.driver.check("cuEventSynchronize", code)
    }

    /// Returns the time in milliseconds on the GPU from this event to a later one; both must be passed.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn elapsed_ms(&self, end: &Event) -> Result<f32> {
        self.context.make_current()?;
        let mut time = 0.0;
        // SAFETY: both handles are live; writes one number.
        let code = unsafe { (self.context.driver.f.event_elapsed)(&raw mut time, self.handle, end.handle) };
        self.context.driver.check("cuEventElapsedTime", code)?;
        Ok(time)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.make_current().is_ok() {
            // SAFETY: the handle is live and destroyed only here.
            let _ = unsafe { (self.context.driver.f.event_destroy)(self.handle) };
        }
    }
}

/// Two page-locked buffers, each with the event after which it is free.
#[derive(Debug)]
struct StagingBuffers {
    buffers: [(PinnedMemory, Event); 2],
    next: usize,
}

impl StagingBuffers {
    fn new(context: &Arc<Context>, bytes: usize) -> Result<StagingBuffers> {
        let one = || Ok::<_, crate::Error>((PinnedMemory::alloc(context, bytes)?, Event::new(context)?));
        Ok(StagingBuffers { buffers: [one()?, one()?], next: 0 })
    }

    /// Returns the buffer that was not returned last time.
    fn next_buffer(&mut self) -> &mut (PinnedMemory, Event) {
        self.next ^= 1;
        let [first, second] = &mut self.buffers;
        if self.next == 0 { first } else { second }
    }
}

/// A sequence of operations on a GPU.
#[derive(Debug)]
pub struct Stream {
    context: Arc<Context>,
    handle: Handle,
    staging: Mutex<Option<StagingBuffers>>,
}

// SAFETY: streams may be used by any thread; the driver has its own locks.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// Creates a stream, which does not wait for others.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn new(context: &Arc<Context>) -> Result<Stream> {
        context.make_current()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        let code = unsafe { (context.driver.f.stream_create)(&raw mut handle, NON_BLOCKING) };
        context.driver.check("cuStreamCreate", code)?;
        Ok(Stream { context: Arc::clone(context), handle, staging: Mutex::new(None) })
    }

    /// Returns the stream's context.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Returns the stream's handle, for NVIDIA's other libraries: a `CUstream`, which is a `cudaStream_t`.
    #[must_use]
    pub fn address(&self) -> usize {
        self.handle as usize
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// Copies to the GPU, through page-locked buffers. When it returns, `from` may change; the copy itself
    /// may still be running, but completes before later operations of this stream.
    ///
    /// # Errors
    /// Invalid if it does not fit there; errors of the driver.
    pub fn upload(&self, to: &DeviceMemory, offset: usize, from: &[u8]) -> Result<()> {
        let mut address = to.place(offset, from.len())?;
        if from.is_empty() {
            return Ok(());
        }
        self.context.make_current()?;
        let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        let staging = self.staged(&mut staging, from.len())?;
        let size = staging.buffers[0].0.bytes();
        for block in from.chunks(size) {
            let (buffer, free) = staging.next_buffer();
            free.synchronize()?;
            buffer.as_mut_slice()[..block.len()].copy_from_slice(block);
            // SAFETY: the device memory has `block.len()` bytes there; the buffer lives in the stream and is
            // not written before `free` is passed.
            unsafe { self.copy_up(address, buffer.as_slice().as_ptr(), block.len())? };
            free.record(self)?;
            address += block.len() as u64;
        }
        Ok(())
    }

    /// Copies from the GPU, after all earlier operations of this stream, and waits for it.
    ///
    /// # Errors
    /// Invalid if the memory is too small; errors of the driver, including errors of earlier operations.
    pub fn download(&self, from: &DeviceMemory, offset: usize, to: &mut [u8]) -> Result<()> {
        let mut address = from.place(offset, to.len())?;
        if to.is_empty() {
            return self.synchronize();
        }
        self.context.make_current()?;
        let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        let staging = self.staged(&mut staging, to.len())?;
        let size = staging.buffers[0].0.bytes();
        let mut waiting: Option<&mut [u8]> = None;
        for block in to.chunks_mut(size) {
            let length = block.len();
            let (buffer, done) = staging.next_buffer();
            // An upload may still read from it.
            done.synchronize()?;
            // SAFETY: the device memory has `length` bytes there; the buffer lives in the stream and is not
            // read before `done` is passed.
            unsafe { self.copy_down(buffer.as_mut_slice().as_mut_ptr(), address, length)? };
            done.record(self)?;
            address += length as u64;
            // The other buffer is emptied while this one is filled.
            if let Some(before) = waiting.replace(block) {
                let (buffer, done) = staging.next_buffer();
                done.synchronize()?;
                before.copy_from_slice(&buffer.as_slice()[..before.len()]);
                staging.next_buffer();
            }
        }
        if let Some(last) = waiting {
            let (buffer, done) = &staging.buffers[staging.next];
            done.synchronize()?;
            last.copy_from_slice(&buffer.as_slice()[..last.len()]);
        }
        Ok(())
    }

    /// Copies within the GPU.
    ///
    /// # Errors
    /// Invalid if either place is outside its memory; errors of the driver.
    pub fn copy(
        &self,
        from: &DeviceMemory,
        from_offset: usize,
        to: &DeviceMemory,
        to_offset: usize,
        bytes: usize,
    ) -> Result<()> {
        let (source, target) = (from.place(from_offset, bytes)?, to.place(to_offset, bytes)?);
        if bytes == 0 {
            return Ok(());
        }
        self.context.make_current()?;
        // SAFETY: both places are within live memory; it is freed only after the driver waited.
        let code = unsafe { (self.context.driver.f.copy_over)(target, source, bytes, self.handle) };
        self.context.driver.check("cuMemcpyDtoDAsync", code)
    }

    /// Sets bytes on the GPU.
    ///
    /// # Errors
    /// Invalid if the place is outside the memory; errors of the driver.
    pub fn fill(&self, memory: &DeviceMemory, offset: usize, bytes: usize, value: u8) -> Result<()> {
        let address = memory.place(offset, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        self.context.make_current()?;
        // SAFETY: the place is within live memory.
        let code = unsafe { (self.context.driver.f.set_bytes)(address, value, bytes, self.handle) };
        self.context.driver.check("cuMemsetD8Async", code)
    }

    /// Makes later operations of this stream wait until `event` is passed.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.context.make_current()?;
        // SAFETY: both handles are live; 0 is the only value for the flags.
        let code = unsafe { (self.context.driver.f.stream_wait)(self.handle, event.handle, 0) };
        self.context.driver.check("cuStreamWaitEvent", code)
    }

    /// Waits until all of the stream's operations are done.
    ///
    /// # Errors
    /// Errors of the driver, including errors of kernels.
    pub fn synchronize(&self) -> Result<()> {
        self.context.make_current()?;
        // SAFETY: the handle is live.
        let code = unsafe { (self.context.driver.f.stream_synchronize)(self.handle) };
        self.context.driver.check("cuStreamSynchronize", code)
    }

    /// Starts a copy to the GPU.
    ///
    /// # Safety
    /// `address` must have `bytes` bytes. `from` must be page-locked memory of that size that is not written,
    /// nor freed without the driver, before the copy is done. The context must be current.
    pub(crate) unsafe fn copy_up(&self, address: u64, from: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.context.driver.f.copy_up)(address, from.cast(), bytes, self.handle) };
        self.context.driver.check("cuMemcpyHtoDAsync", code)
    }

    /// Starts a copy from the GPU.
    ///
    /// # Safety
    /// As [`Stream::copy_up`], and `to` must not be read before the copy is done.
    unsafe fn copy_down(&self, to: *mut u8, address: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.context.driver.f.copy_down)(to.cast(), address, bytes, self.handle) };
        self.context.driver.check("cuMemcpyDtoHAsync", code)
    }

    /// Returns the buffers for a copy of `bytes` bytes: the existing ones, or larger ones.
    fn staged<'a>(
        &self,
        staging: &'a mut Option<StagingBuffers>,
        bytes: usize,
    ) -> Result<&'a mut StagingBuffers> {
        let wanted =
            bytes.min(MAX_STAGING_BYTES).next_power_of_two().clamp(MIN_STAGING_BYTES, MAX_STAGING_BYTES);
        if staging.as_ref().is_none_or(|staging| staging.buffers[0].0.bytes() < wanted) {
            if staging.is_some() {
                self.synchronize()?;
            }
            *staging = None;
            return Ok(staging.insert(StagingBuffers::new(&self.context, wanted)?));
        }
        match staging {
            Some(staging) => Ok(staging),
            None => fail!(Failed, "no buffers for a copy"),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.context.make_current().is_ok() {
            // Wait first, since its buffers are freed after it.
            let _ = self.synchronize();
            // SAFETY: the handle is live and destroyed only here.
            let _ = unsafe { (self.context.driver.f.stream_destroy)(self.handle) };
        }
    }
}
