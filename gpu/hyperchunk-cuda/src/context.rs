//! The primary context of a GPU, which all CUDA libraries of a process share.

use crate::driver::{Driver, Handle};
use crate::error::fail;
use crate::{DeviceMemory, Launch, Module, PinnedMemory, Result, Stream};
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

/// A GPU's primary context, kept until the process ends.
pub struct Context {
    pub(crate) driver: &'static Driver,
    handle: Handle,
    ordinal: u32,
}

// SAFETY: a context may be current in many threads; the driver has its own locks.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("ordinal", &self.ordinal).finish_non_exhaustive()
    }
}

static CONTEXTS: Mutex<Vec<Arc<Context>>> = Mutex::new(Vec::new());

/// A kernel that does nothing, in PTX that every driver for CUDA 11 accepts.
const NOTHING: &str =
    ".version 6.0\n.target sm_60\n.address_size 64\n.visible .entry nothing()\n{\n\tret;\n}\n";

impl Context {
    /// Returns the context of a GPU, created at the first call.
    ///
    /// # Errors
    /// As [`Driver::load`]; Missing if there is no GPU with that number; Unsupported in a fork.
    pub fn for_device(ordinal: u32) -> Result<Arc<Context>> {
        let driver = Driver::load()?;
        let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = contexts.iter().find(|context| context.ordinal == ordinal) {
            return Ok(Arc::clone(context));
        }
        let count = driver.devices()?.len();
        if count == 0 {
            fail!(Missing, "NVIDIA's driver is installed, but it finds no GPU that this process may use")
        }
        let Some(number) = c_int::try_from(ordinal).ok().filter(|_| (ordinal as usize) < count) else {
            fail!(Missing, "there is no GPU {ordinal}: this process may use {count}, numbered from 0")
        };
        let device = driver.device_handle(number)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        driver.check("cuDevicePrimaryCtxRetain", unsafe {
            (driver.f.primary_retain)(&raw mut handle, device)
        })?;
        let context = Arc::new(Context { driver, handle, ordinal });
        contexts.push(Arc::clone(&context));
        Ok(context)
    }

    /// Makes this the context of the calling thread. Every function of this crate that needs a context does
    /// this.
    ///
    /// # Errors
    /// Unsupported in a fork; errors of the driver.
    pub fn make_current(&self) -> Result<()> {
        self.driver.check_process()?;
        // SAFETY: the handle of a context that is never released.
        self.driver.check("cuCtxSetCurrent", unsafe { (self.driver.f.context_set)(self.handle) })
    }

    /// Returns the number of the context's GPU.
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Returns the context's driver.
    #[must_use]
    pub fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// Returns the free and the total memory of the GPU, in bytes.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn memory(&self) -> Result<(u64, u64)> {
        self.make_current()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two sizes.
        let code = unsafe { (self.driver.f.memory_info)(&raw mut free, &raw mut total) };
        self.driver.check("cuMemGetInfo", code)?;
        Ok((free as u64, total as u64))
    }

    /// Waits until all work in this context is done, including work started by other code.
    ///
    /// # Errors
    /// Errors of the driver, including errors of kernels.
    pub fn synchronize(&self) -> Result<()> {
        self.make_current()?;
        // SAFETY: takes nothing.
        self.driver.check("cuCtxSynchronize", unsafe { (self.driver.f.context_synchronize)() })
    }

    /// Triggers the driver's lazy initialisation: its PTX compiler is a library that it loads with the first
    /// module, and memory, streams and launches open files. A process that will not be allowed to open files
    /// later calls this first.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn prepare(self: &Arc<Self>) -> Result<()> {
        let module = Module::load(self, NOTHING)?;
        let stream = Stream::new(self)?;
        let memory = DeviceMemory::alloc(self, 1 << 16)?;
        let pinned = PinnedMemory::alloc(self, 1 << 12)?;
        stream.upload(&memory, 0, pinned.as_slice())?;
        module.function("nothing")?.launch(&stream, &Launch::linear(1, 32), &[])?;
        let mut back = vec![0; 1 << 12];
        stream.download(&memory, 0, &mut back)?;
        stream.synchronize()
    }
}
