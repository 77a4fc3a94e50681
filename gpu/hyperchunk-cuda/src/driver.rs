//! NVIDIA's driver (`libcuda.so.1`), found at run time, and its GPUs.

use crate::error::fail;
use crate::library::{Library, functions, path_from_environment};
use crate::shared::{Access, Properties};
use crate::{Error, ErrorKind, Result};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// An opaque handle of the driver: a context, a stream, an event, a module or a function.
pub(crate) type Handle = *mut c_void;

functions! {
    /// The driver's functions that we call, as in CUDA 11.0 to 13.
    Functions:
    init = c"cuInit": fn(c_uint) -> c_int;
    version = c"cuDriverGetVersion": fn(*mut c_int) -> c_int;
    error_name = c"cuGetErrorName": fn(c_int, *mut *const c_char) -> c_int;
    error_string = c"cuGetErrorString": fn(c_int, *mut *const c_char) -> c_int;
    device_count = c"cuDeviceGetCount": fn(*mut c_int) -> c_int;
    device_get = c"cuDeviceGet": fn(*mut c_int, c_int) -> c_int;
    device_name = c"cuDeviceGetName": fn(*mut c_char, c_int, c_int) -> c_int;
    device_memory = c"cuDeviceTotalMem_v2": fn(*mut usize, c_int) -> c_int;
    device_attribute = c"cuDeviceGetAttribute": fn(*mut c_int, c_int, c_int) -> c_int;
    primary_retain = c"cuDevicePrimaryCtxRetain": fn(*mut Handle, c_int) -> c_int;
    context_set = c"cuCtxSetCurrent": fn(Handle) -> c_int;
    context_synchronize = c"cuCtxSynchronize": fn() -> c_int;
    memory_info = c"cuMemGetInfo_v2": fn(*mut usize, *mut usize) -> c_int;
    memory_alloc = c"cuMemAlloc_v2": fn(*mut u64, usize) -> c_int;
    memory_free = c"cuMemFree_v2": fn(u64) -> c_int;
    host_alloc = c"cuMemHostAlloc": fn(*mut *mut c_void, usize, c_uint) -> c_int;
    host_free = c"cuMemFreeHost": fn(*mut c_void) -> c_int;
    copy_up = c"cuMemcpyHtoDAsync_v2": fn(u64, *const c_void, usize, Handle) -> c_int;
    copy_down = c"cuMemcpyDtoHAsync_v2": fn(*mut c_void, u64, usize, Handle) -> c_int;
    copy_over = c"cuMemcpyDtoDAsync_v2": fn(u64, u64, usize, Handle) -> c_int;
    set_bytes = c"cuMemsetD8Async": fn(u64, u8, usize, Handle) -> c_int;
    stream_create = c"cuStreamCreate": fn(*mut Handle, c_uint) -> c_int;
    stream_destroy = c"cuStreamDestroy_v2": fn(Handle) -> c_int;
    stream_synchronize = c"cuStreamSynchronize": fn(Handle) -> c_int;
    stream_wait = c"cuStreamWaitEvent": fn(Handle, Handle, c_uint) -> c_int;
    event_create = c"cuEventCreate": fn(*mut Handle, c_uint) -> c_int;
    event_destroy = c"cuEventDestroy_v2": fn(Handle) -> c_int;
    event_record = c"cuEventRecord": fn(Handle, Handle) -> c_int;
    event_synchronize = c"cuEventSynchronize": fn(Handle) -> c_int;
    event_elapsed = c"cuEventElapsedTime": fn(*mut f32, Handle, Handle) -> c_int;
    module_load = c"cuModuleLoadDataEx": fn(*mut Handle, *const c_void, c_uint, *const c_uint, *const *mut c_void) -> c_int;
    module_unload = c"cuModuleUnload": fn(Handle) -> c_int;
    module_function = c"cuModuleGetFunction": fn(*mut Handle, Handle, *const c_char) -> c_int;
    function_attribute = c"cuFuncGetAttribute": fn(*mut c_int, c_int, Handle) -> c_int;
    function_set_attribute = c"cuFuncSetAttribute": fn(Handle, c_int, c_int) -> c_int;
    launch = c"cuLaunchKernel": fn(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *const *mut c_void, *const *mut c_void,
    ) -> c_int;
    {
        device_uuid = c"cuDeviceGetUuid_v2": fn(*mut [u8; 16], c_int) -> c_int;
        device_uuid_before = c"cuDeviceGetUuid": fn(*mut [u8; 16], c_int) -> c_int;
        function_parameter = c"cuFuncGetParamInfo": fn(Handle, usize, *mut usize, *mut usize) -> c_int;
        granularity = c"cuMemGetAllocationGranularity": fn(*mut usize, *const Properties, c_int) -> c_int;
        create = c"cuMemCreate": fn(*mut u64, usize, *const Properties, u64) -> c_int;
        release = c"cuMemRelease": fn(u64) -> c_int;
        export = c"cuMemExportToShareableHandle": fn(*mut c_void, u64, c_int, u64) -> c_int;
        import = c"cuMemImportFromShareableHandle": fn(*mut u64, *mut c_void, c_int) -> c_int;
        reserve = c"cuMemAddressReserve": fn(*mut u64, usize, usize, u64, u64) -> c_int;
        unreserve = c"cuMemAddressFree": fn(u64, usize) -> c_int;
        map = c"cuMemMap": fn(u64, usize, usize, u64, u64) -> c_int;
        unmap = c"cuMemUnmap": fn(u64, usize) -> c_int;
        set_access = c"cuMemSetAccess": fn(u64, usize, *const Access, usize) -> c_int;
    }
}

/// The environment variable with another driver's absolute path, for tests.
pub(crate) const VARIABLE: &str = "HYPERCHUNK_CUDA_DRIVER";

const OUT_OF_MEMORY: c_int = 2;
const NO_DEVICE: c_int = 100;
const INVALID_PTX: c_int = 218;
const UNSUPPORTED_PTX: c_int = 222;
const NOT_FOUND: c_int = 500;
const NOT_SUPPORTED: c_int = 801;
const MAJOR: c_int = 75;
const MINOR: c_int = 76;

/// NVIDIA's driver, loaded once for each process.
#[allow(missing_debug_implementations, reason = "a table of function pointers")]
pub struct Driver {
    pub(crate) f: Functions,
    library: Library,
    version: (u32, u32),
    process: u32,
    substitute: bool,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Device {
    /// Its number, from 0.
    pub ordinal: u32,
    /// Its product name.
    pub name: String,
    /// Its compute capability: (9, 0) is `sm_90`.
    pub capability: (u32, u32),
    /// Its memory, in bytes.
    pub memory: u64,
    /// A globally unique identifier; zeros if the driver does not provide it.
    pub uuid: [u8; 16],
}

static DRIVER: OnceLock<Driver> = OnceLock::new();
/// Held while the driver is loaded, so that only one thread does it.
static LOADING: Mutex<()> = Mutex::new(());

impl Driver {
    /// Loads the driver: the library in `HYPERCHUNK_CUDA_DRIVER` (an absolute path; ignored in set-uid
    /// programs), else `libcuda.so.1`.
    ///
    /// # Errors
    /// Missing if there is no driver, or it finds no GPU; Unsupported if it is too old, or the process was
    /// forked after the driver was loaded; Failed with CUDA's text.
    pub fn load() -> Result<&'static Driver> {
        let _one = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = DRIVER.get() {
            driver.check_process()?;
            return Ok(driver);
        }
        let given = path_from_environment(VARIABLE)?;
        let substitute = given.is_some();
        let candidates = given.map_or_else(|| vec![PathBuf::from("libcuda.so.1")], |path| vec![path]);
        let what = "no GPU can be used: NVIDIA's driver";
        let library = Library::require(&candidates, what, ". Install the driver for this machine's GPU")?;
        let f = library.table(Functions::load, "a driver for CUDA 11.0 or newer")?;
        let mut driver = Driver { f, library, version: (0, 0), process: std::process::id(), substitute };
        // SAFETY: the first call of the driver; 0 is the only value for its flags.
        driver.check("cuInit", unsafe { (driver.f.init)(0) })?;
        let mut version = 0;
        // SAFETY: writes one integer.
        driver.check("cuDriverGetVersion", unsafe { (driver.f.version)(&raw mut version) })?;
        let version = u32::try_from(version).unwrap_or(0);
        driver.version = (version / 1000, version % 1000 / 10);
        Ok(DRIVER.get_or_init(|| driver))
    }

    /// Returns the newest version of CUDA that it supports, as (12, 9).
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Returns the path of the library.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.library.path()
    }

    /// Returns whether it is the driver of `HYPERCHUNK_CUDA_DRIVER`, which NVIDIA's other libraries do not
    /// find.
    #[must_use]
    pub fn is_substitute(&self) -> bool {
        self.substitute
    }

    /// Returns the GPUs that this process may use.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn devices(&self) -> Result<Vec<Device>> {
        self.check_process()?;
        let mut count = 0;
        // SAFETY: writes one integer.
        self.check("cuDeviceGetCount", unsafe { (self.f.device_count)(&raw mut count) })?;
        (0..count).map(|ordinal| self.device(ordinal)).collect()
    }

    fn device(&self, ordinal: c_int) -> Result<Device> {
        let device = self.device_handle(ordinal)?;
        let mut name = [0_u8; 256];
        // SAFETY: writes at most 255 bytes and a NUL.
        self.check("cuDeviceGetName", unsafe {
            (self.f.device_name)(name.as_mut_ptr().cast(), 255, device)
        })?;
        let mut memory = 0;
        // SAFETY: writes one size.
        self.check("cuDeviceTotalMem", unsafe { (self.f.device_memory)(&raw mut memory, device) })?;
        let mut uuid = [0; 16];
        // The newer function (CUDA 11.4) distinguishes the parts of a partitioned GPU.
        if let Some(get) = self.f.device_uuid.or(self.f.device_uuid_before) {
            // SAFETY: writes 16 bytes.
            self.check("cuDeviceGetUuid", unsafe { get(&raw mut uuid, device) })?;
        }
        let name = CStr::from_bytes_until_nul(&name).map(|name| name.to_string_lossy().into_owned());
        Ok(Device {
            ordinal: u32::try_from(ordinal).unwrap_or(0),
            name: name.unwrap_or_default(),
            capability: (self.attribute(device, MAJOR)?, self.attribute(device, MINOR)?),
            memory: memory as u64,
            uuid,
        })
    }

    /// Returns a property of a GPU.
    pub(crate) fn attribute(&self, device: c_int, which: c_int) -> Result<u32> {
        let mut value = 0;
        // SAFETY: writes one integer.
        let code = unsafe { (self.f.device_attribute)(&raw mut value, which, device) };
        self.check("cuDeviceGetAttribute", code)?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// Returns the driver's number for a GPU.
    pub(crate) fn device_handle(&self, ordinal: c_int) -> Result<c_int> {
        let mut device = 0;
        // SAFETY: writes one integer.
        self.check("cuDeviceGet", unsafe { (self.f.device_get)(&raw mut device, ordinal) })?;
        Ok(device)
    }

    /// Returns whether this process is the one that loaded the driver.
    pub(crate) fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// Returns an error in a process that was forked off the one that loaded the driver: CUDA does not
    /// survive a fork.
    pub(crate) fn check_process(&self) -> Result<()> {
        if !self.is_ours() {
            fail!(
                Unsupported,
                "CUDA was started in process {} and this is a fork of it, where it cannot work: start processes that use \
                 the GPU with \"spawn\", or use the GPU in them alone",
                self.process
            )
        }
        Ok(())
    }

    /// Converts a `CUresult` to a result.
    pub(crate) fn check(&self, call: &str, code: c_int) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.error(call, code)) }
    }

    /// Converts a failing `CUresult` to an error, with CUDA's name and text for it.
    #[cold]
    pub(crate) fn error(&self, call: &str, code: c_int) -> Error {
        let describe = |function: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
            let mut text = std::ptr::null();
            // SAFETY: writes one pointer, null or to a string of the driver's that is never freed.
            unsafe {
                if function(code, &raw mut text) != 0 || text.is_null() {
                    return None;
                }
                Some(CStr::from_ptr(text).to_string_lossy().into_owned())
            }
        };
        let name = describe(self.f.error_name).unwrap_or_else(|| format!("CUDA error {code}"));
        let text = describe(self.f.error_string).unwrap_or_default();
        let (kind, advice) = match code {
            OUT_OF_MEMORY => (ErrorKind::Limit, "; the GPU has too little free memory"),
            NO_DEVICE => (
                ErrorKind::Missing,
                "; NVIDIA's driver is installed, but it finds no GPU that this process may use",
            ),
            INVALID_PTX => (ErrorKind::Failed, "; the driver's compiler rejects the kernel"),
            UNSUPPORTED_PTX => (
                ErrorKind::Unsupported,
                "; the kernel's PTX is newer than the driver: install a newer driver",
            ),
            NOT_FOUND => (ErrorKind::Invalid, ""),
            NOT_SUPPORTED => (ErrorKind::Unsupported, ""),
            _ => (ErrorKind::Failed, ""),
        };
        Error::new(kind, format!("{call}: {name} ({text}){advice}")).with_code(code)
    }
}
