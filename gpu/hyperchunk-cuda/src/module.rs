//! Kernels: loaded from PTX, which the driver compiles for the current GPU, and launched.

use crate::driver::Handle;
use crate::error::fail;
use crate::ptx::{self, Entry};
use crate::{Context, ErrorKind, Result, Stream};
use std::ffi::{CString, c_int, c_void};
use std::sync::Arc;

/// `CU_JIT_ERROR_LOG_BUFFER` and its size.
const ERROR_LOG: u32 = 5;
const ERROR_LOG_BYTES: u32 = 6;
/// `CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK` and `…_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const ATTRIBUTE_MAX_THREADS: c_int = 0;
const ATTRIBUTE_MAX_SHARED: c_int = 8;
/// Amount of shared memory that a kernel has without a request, in bytes.
const DEFAULT_SHARED_BYTES: u32 = 48 << 10;

/// A module of kernels, loaded on a GPU; unloaded when it and its functions are dropped.
#[derive(Clone, Debug)]
pub struct Module(Arc<LoadedModule>);

#[derive(Debug)]
struct LoadedModule {
    context: Arc<Context>,
    handle: Handle,
    entries: Vec<Entry>,
}

// SAFETY: modules may be used by any thread; the driver has its own locks.
unsafe impl Send for LoadedModule {}
// SAFETY: as above.
unsafe impl Sync for LoadedModule {}

/// A kernel of a module.
#[derive(Clone, Debug)]
pub struct Function {
    module: Module,
    handle: Handle,
    entry: usize,
}

// SAFETY: as modules.
unsafe impl Send for Function {}
// SAFETY: as modules.
unsafe impl Sync for Function {}

/// The dimensions of a launch: blocks in a grid, threads in a block, and bytes of dynamic shared memory for
/// each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Number of blocks, x first.
    pub grid: [u32; 3],
    /// Number of threads in a block, x first.
    pub block: [u32; 3],
    /// Size of the dynamic shared memory, in bytes.
    pub shared: u32,
}

impl Launch {
    /// Creates a one-dimensional launch.
    #[must_use]
    pub fn linear(blocks: u32, threads: u32) -> Launch {
        Launch { grid: [blocks, 1, 1], block: [threads, 1, 1], shared: 0 }
    }
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// A pointer: an address on the GPU.
    Address(u64),
    /// A scalar or a structure, in the GPU's memory layout (little-endian).
    Bytes(&'a [u8]),
}

impl Module {
    /// Loads PTX.
    ///
    /// # Errors
    /// Failed with the log of the driver's compiler; Unsupported if the PTX is too new for the driver.
    pub fn load(context: &Arc<Context>, text: &str) -> Result<Module> {
        let entries = ptx::entries(text)?;
        let Ok(image) = CString::new(text) else { fail!(Invalid, "the PTX contains a NUL byte") };
        context.make_current()?;
        let mut log = vec![0_u8; 16 << 10];
        let options = [ERROR_LOG, ERROR_LOG_BYTES];
        let values: [*mut c_void; 2] =
            [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(log.len() - 1)];
        let mut handle = std::ptr::null_mut();
        // SAFETY: the image ends with a NUL; the two options have a value each, a buffer and its size (given as a pointer).
        let code = unsafe {
            let image = image.as_ptr().cast();
            (context.driver.f.module_load)(&raw mut handle, image, 2, options.as_ptr(), values.as_ptr())
        };
        if code != 0 {
            let error = context.driver.error("cuModuleLoadDataEx", code);
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            let text = String::from_utf8_lossy(&log[..end]);
            return Err(match text.trim() {
                "" => error,
                text => {
                    crate::Error::new(error.kind(), format!("{}\n{text}", error.message())).with_code(code)
                }
            });
        }
        Ok(Module(Arc::new(LoadedModule { context: Arc::clone(context), handle, entries })))
    }

    /// Returns the module's kernels, as declared in the PTX.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.0.entries
    }

    /// Returns the kernel with that name; for languages that mangle names, the lowered one.
    ///
    /// # Errors
    /// Invalid if the module has no such kernel; the message lists its kernels.
    pub fn function(&self, name: &str) -> Result<Function> {
        let loaded = &self.0;
        let Some(entry) = loaded.entries.iter().position(|entry| entry.name == name) else {
            let names: Vec<_> = loaded.entries.iter().map(|entry| entry.name.as_str()).collect();
            fail!(Invalid, "the module has no kernel {name}; it has: {}", names.join(", "))
        };
        let Ok(symbol) = CString::new(name) else { fail!(Invalid, "a kernel's name contains a NUL byte") };
        loaded.context.make_current()?;
        let driver = loaded.context.driver;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the module is live; the name ends with a NUL.
        let code = unsafe { (driver.f.module_function)(&raw mut handle, loaded.handle, symbol.as_ptr()) };
        driver.check("cuModuleGetFunction", code).map_err(|error| error.within(name))?;
        let function = Function { module: self.clone(), handle, entry };
        function.check_parameters()?;
        Ok(function)
    }
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        // Its kernels may still run, and unloading does not wait for them.
        if self.context.synchronize().is_ok() {
            // SAFETY: the handle is live and unloaded only here.
            let _ = unsafe { (self.context.driver.f.module_unload)(self.handle) };
        }
    }
}

impl Function {
    /// Returns the kernel's declaration in the PTX.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.module.0.entries[self.entry]
    }

    /// Returns the maximum number of threads in a block on this GPU.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn max_threads(&self) -> Result<u32> {
        let context = &self.module.0.context;
        context.make_current()?;
        let mut value = 0;
        // SAFETY: the function is live; writes one integer.
        let code = unsafe {
            (context.driver.f.function_attribute)(&raw mut value, ATTRIBUTE_MAX_THREADS, self.handle)
        };
        context.driver.check("cuFuncGetAttribute", code)?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// Launches the kernel. A fault of the kernel is reported by the next wait for the stream, and breaks the
    /// context.
    ///
    /// # Errors
    /// Invalid if number or sizes of the arguments do not match the kernel's parameters, or the launch has no
    /// threads; errors of the driver.
    pub fn launch(&self, stream: &Stream, launch: &Launch, arguments: &[Argument<'_>]) -> Result<()> {
        let entry = self.entry();
        let context = &self.module.0.context;
        if !Arc::ptr_eq(context, stream.context()) {
            fail!(Invalid, "{}: the kernel was loaded on another GPU than the stream's", entry.name)
        }
        if launch.grid.contains(&0) || launch.block.contains(&0) {
            fail!(
                Invalid,
                "{}: cannot launch {:?} blocks of {:?} threads",
                entry.name,
                launch.grid,
                launch.block
            )
        }
        let buffers = self.arguments(arguments)?;
        let mut pointers: Vec<*mut c_void> =
            buffers.iter().map(|buffer| buffer.as_ptr().cast_mut().cast()).collect();
        context.make_current()?;
        let driver = context.driver;
        if launch.shared > DEFAULT_SHARED_BYTES {
            let bytes = c_int::try_from(launch.shared).unwrap_or(c_int::MAX);
            // SAFETY: the function is live.
            let code = unsafe { (driver.f.function_set_attribute)(self.handle, ATTRIBUTE_MAX_SHARED, bytes) };
            driver.check("cuFuncSetAttribute", code).map_err(|error| error.within(&entry.name))?;
        }
        let ([gx, gy, gz], [bx, by, bz]) = (launch.grid, launch.block);
        // SAFETY: function and stream are live and of the current context; there is a pointer for each parameter, to as many
        // bytes as it has, and the driver copies them before it returns.
        let code = unsafe {
            let pointers = pointers.as_mut_ptr();
            let none = std::ptr::null();
            (driver.f.launch)(
                self.handle,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                launch.shared,
                stream.handle(),
                pointers,
                none,
            )
        };
        driver.check("cuLaunchKernel", code).map_err(|error| error.within(&entry.name))
    }

    /// Returns the arguments for the driver, in words that are aligned for every type.
    fn arguments(&self, arguments: &[Argument<'_>]) -> Result<Vec<Vec<u128>>> {
        let entry = self.entry();
        if arguments.len() != entry.parameters.len() {
            let (given, takes) = (arguments.len(), entry.parameters.len());
            fail!(Invalid, "{}: {given} arguments for a kernel that takes {takes}", entry.name)
        }
        let mut buffers = Vec::with_capacity(arguments.len());
        for (number, (argument, parameter)) in arguments.iter().zip(&entry.parameters).enumerate() {
            let address;
            let bytes = match argument {
                Argument::Address(value) => {
                    address = value.to_le_bytes();
                    &address[..]
                }
                Argument::Bytes(bytes) => bytes,
            };
            if bytes.len() != parameter.bytes {
                fail!(
                    Invalid,
                    "{}: argument {number} has {} bytes; the kernel's parameter has {}",
                    entry.name,
                    bytes.len(),
                    parameter.bytes
                )
            }
            let mut words = vec![0_u128; bytes.len().div_ceil(16).max(1)];
            for (word, part) in words.iter_mut().zip(bytes.chunks(16)) {
                let mut value = [0; 16];
                value[..part.len()].copy_from_slice(part);
                *word = u128::from_le_bytes(value);
            }
            buffers.push(words);
        }
        Ok(buffers)
    }

    /// Compares the parameters declared in the PTX with the driver's, if it provides them (CUDA 12.4 on).
    fn check_parameters(&self) -> Result<()> {
        let driver = self.module.0.context.driver;
        let Some(ask) = driver.f.function_parameter else { return Ok(()) };
        let entry = self.entry();
        for number in 0..=entry.parameters.len() {
            let (mut offset, mut bytes) = (0, 0);
            // SAFETY: the function is live; writes two sizes.
            let code = unsafe { ask(self.handle, number, &raw mut offset, &raw mut bytes) };
            let declared = entry.parameters.get(number).map(|parameter| parameter.bytes);
            if (code == 0).then_some(bytes) != declared {
                let text =
                    format!("{}: parameter {number} differs from its declaration in the PTX", entry.name);
                return Err(crate::Error::new(ErrorKind::Failed, text));
            }
        }
        Ok(())
    }
}
