//! cuFile, NVIDIA's library that reads from storage directly into the GPU's memory (GPUDirect Storage), found
//! at run time.

use crate::library::{Library, functions, path_from_environment};
use crate::{Context, DeviceMemory, Driver, Error, ErrorKind, Result};
use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// `CUfileError_t`: cuFile's code and CUDA's.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Status {
    code: c_int,
    cuda: c_int,
}

/// `CUfileDescr_t` for a file descriptor.
#[repr(C)]
pub(crate) struct Description {
    kind: c_int,
    handle: FileHandle,
    operations: *const c_void,
}

#[repr(C)]
pub(crate) union FileHandle {
    descriptor: c_int,
    _pointer: *mut c_void,
}

/// `CUfileDrvProps_t`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Properties {
    major: c_uint,
    minor: c_uint,
    poll_threshold: usize,
    max_direct: usize,
    status: c_uint,
    control: c_uint,
    features: c_uint,
    max_device_cache: c_uint,
    per_buffer_cache: c_uint,
    max_device_pinned: c_uint,
    max_batch: c_uint,
    max_batch_timeout: c_uint,
}

functions! {
    /// The functions that we call, as in cuFile 1.
    Functions:
    open = c"cuFileDriverOpen": fn() -> Status;
    properties = c"cuFileDriverGetProperties": fn(*mut Properties) -> Status;
    register = c"cuFileHandleRegister": fn(*mut *mut c_void, *mut Description) -> Status;
    deregister = c"cuFileHandleDeregister": fn(*mut c_void);
    read = c"cuFileRead": fn(*mut c_void, u64, usize, i64, i64) -> isize;
    {
        version = c"cuFileGetVersion": fn(*mut c_int) -> Status;
    }
}

/// The environment variable with the library's absolute path.
const VARIABLE: &str = "HYPERCHUNK_CUFILE";
const NAME: &str = "libcufile.so.0";
/// `CU_FILE_HANDLE_TYPE_OPAQUE_FD`.
const DESCRIPTOR: c_int = 1;
/// `CU_FILE_ALLOW_COMPAT_MODE`, as a bit.
const COMPATIBILITY: c_uint = 1 << 1;

/// cuFile's transfer mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// From storage into the GPU's memory; the kernel module `nvidia-fs` is loaded.
    Direct,
    /// Through the processor's memory, as without cuFile.
    Compatibility,
}

/// The library, with its driver opened.
#[allow(missing_debug_implementations, reason = "a table of function pointers")]
pub struct CuFile {
    f: Functions,
    library: Library,
    mode: Mode,
    version: Option<(u32, u32)>,
}

impl CuFile {
    /// Loads the library and opens its driver: the file `path`, or the library in that folder; else
    /// `HYPERCHUNK_CUFILE` (an absolute path; ignored in set-uid programs), else by the system's loader. With
    /// a driver of `HYPERCHUNK_CUDA_DRIVER`, only the library of `HYPERCHUNK_CUFILE` is used.
    ///
    /// # Errors
    /// Missing if it is not installed; Failed if its driver does not open.
    pub fn load(context: &Context, path: Option<&Path>) -> Result<CuFile> {
        let driver: &Driver = context.driver();
        let given = path_from_environment(VARIABLE)?;
        let candidates = match (path, given) {
            (_, Some(file)) if path.is_none() || driver.is_substitute() => vec![file],
            _ if driver.is_substitute() => {
                let message = format!(
                    "cuFile does not work with the driver of HYPERCHUNK_CUDA_DRIVER; set {VARIABLE}, too"
                );
                return Err(Error::new(ErrorKind::Missing, message));
            }
            (Some(folder), _) if folder.is_dir() => vec![folder.join(NAME)],
            (Some(file), _) => vec![file.to_owned()],
            (None, _) => vec![PathBuf::from(NAME)],
        };
        let what = "cuFile, which reads from storage into the GPU's memory,";
        let advice = "; files are read through page-locked memory. It comes with CUDA's toolkit and with GPUDirect Storage";
        let library = Library::require(&candidates, what, advice)?;
        let f = library.table(Functions::load, "cuFile 1.0 or newer")?;
        context.make_current()?;
        // SAFETY: takes nothing; may be called again.
        check("cuFileDriverOpen", unsafe { (f.open)() })?;
        let mut properties = Properties::default();
        // SAFETY: writes a structure of this shape.
        check("cuFileDriverGetProperties", unsafe { (f.properties)(&raw mut properties) })?;
        // Without nvidia-fs its version is zero.
        let direct = properties.major > 0;
        let mode = if direct { Mode::Direct } else { Mode::Compatibility };
        if mode == Mode::Compatibility && properties.control & COMPATIBILITY == 0 {
            let text = "cannot use cuFile: nvidia-fs is not loaded, and cufile.json does not allow its compatibility mode";
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        let version = f.version.and_then(|version| {
            let mut number = 0;
            // SAFETY: writes one integer.
            let done = unsafe { version(&raw mut number) };
            let number = u32::try_from(number).ok().filter(|_| done.code == 0)?;
            Some((number / 1000, number % 1000 / 10))
        });
        Ok(CuFile { f, library, mode, version })
    }

    /// Returns the transfer mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the library's version, as (1, 14), if available.
    #[must_use]
    pub fn version(&self) -> Option<(u32, u32)> {
        self.version
    }

    /// Returns the path of the library.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.library.path()
    }

    /// Registers a file.
    ///
    /// # Errors
    /// Failed if the kind of file is not supported.
    pub fn register<'a>(&'a self, file: &'a File) -> Result<RegisteredFile<'a>> {
        let handle = FileHandle { descriptor: file.as_raw_fd() };
        let mut description = Description { kind: DESCRIPTOR, handle, operations: std::ptr::null() };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the description has a descriptor that stays open as long as the returned value; writes one
        // handle.
        let status = unsafe { (self.f.register)(&raw mut handle, &raw mut description) };
        check("cuFileHandleRegister", status)?;
        Ok(RegisteredFile { cufile: self, _file: file, handle })
    }
}

/// A registered file.
pub struct RegisteredFile<'a> {
    cufile: &'a CuFile,
    _file: &'a File,
    handle: *mut c_void,
}

impl std::fmt::Debug for RegisteredFile<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registered").finish_non_exhaustive()
    }
}

// SAFETY: cuFile's reads of one handle may come from any thread.
unsafe impl Send for RegisteredFile<'_> {}
// SAFETY: as above.
unsafe impl Sync for RegisteredFile<'_> {}

impl RegisteredFile<'_> {
    /// Reads into the GPU's memory.
    ///
    /// # Errors
    /// Invalid if there is no room; Damaged if the file ends too early; Io if it cannot be read.
    pub fn read(&self, to: &DeviceMemory, at: usize, bytes: usize, offset: u64) -> Result<()> {
        to.place(at, bytes)?;
        self.read_at(to.context(), to.address(), at, bytes, offset)
    }

    /// Reads to `at` bytes after an address. The destination must have been checked.
    pub(crate) fn read_at(
        &self,
        context: &Context,
        to: u64,
        at: usize,
        bytes: usize,
        offset: u64,
    ) -> Result<()> {
        context.make_current()?;
        let mut done = 0;
        while done < bytes {
            let place = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            // SAFETY: the memory has `bytes` bytes there; the handle is live.
            let read = unsafe {
                let (from, into) = (place(offset + done as u64), place((at + done) as u64));
                (self.cufile.f.read)(self.handle, to, bytes - done, from, into)
            };
            match usize::try_from(read) {
                Ok(0) => {
                    let text = format!("the file ends before {bytes} bytes at byte {offset}");
                    return Err(Error::new(ErrorKind::Damaged, text));
                }
                Ok(more) if more <= bytes - done => done += more,
                Ok(_) => {
                    return Err(Error::new(ErrorKind::Failed, "cuFileRead: more bytes than requested"));
                }
                Err(_) if read == -1 => {
                    let error = std::io::Error::last_os_error();
                    return Err(Error::new(
                        ErrorKind::Io,
                        format!("{bytes} bytes at byte {offset}: {error}"),
                    ));
                }
                Err(_) => {
                    let text =
                        format!("cuFileRead: cuFile's error {}, {bytes} bytes at byte {offset}", -read);
                    return Err(Error::new(ErrorKind::Failed, text));
                }
            }
        }
        Ok(())
    }
}

impl Drop for RegisteredFile<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is live and released only here.
        unsafe { (self.cufile.f.deregister)(self.handle) };
    }
}

fn check(call: &str, status: Status) -> Result<()> {
    match (status.code, status.cuda) {
        (0, _) => Ok(()),
        // nvidia-fs is not loaded.
        (5001, _) => {
            let text = format!(
                "{call}: the kernel's module nvidia-fs is not loaded (cuFile's error 5001); cufile.json can allow the compatibility mode"
            );
            Err(Error::new(ErrorKind::Missing, text).with_code(status.code))
        }
        (code, cuda) => {
            let text = format!("{call}: cuFile's error {code} (CUDA's {cuda})");
            Err(Error::new(ErrorKind::Failed, text).with_code(code))
        }
    }
}
