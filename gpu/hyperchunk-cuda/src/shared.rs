//! Memory on a GPU that two processes share: one allocates it and passes its descriptor to the other over a
//! socket.
//!
//! The process that allocated it controls its lifetime, as with a memfd: the other process cannot free it,
//! not even by ending.

use crate::driver::Driver;
use crate::error::fail;
use crate::{Context, DeviceMemory, Error, ErrorKind, Result, Stream};
use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::sync::Arc;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Location {
    kind: c_int,
    device: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
pub(crate) struct Properties {
    kind: c_int,
    handles: c_int,
    location: Location,
    windows: *mut c_void,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
pub(crate) struct Access {
    location: Location,
    flags: c_int,
}

const _: () = assert!(size_of::<Properties>() == 32 && size_of::<Access>() == 12);

/// `CU_MEM_ALLOCATION_TYPE_PINNED`, `CU_MEM_LOCATION_TYPE_DEVICE`, `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
const PINNED: c_int = 1;
const ON_DEVICE: c_int = 1;
const READ_AND_WRITE: c_int = 3;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const DESCRIPTOR: c_int = 1;
/// `CU_MEM_ALLOC_GRANULARITY_MINIMUM`.
const GRANULARITY_MINIMUM: c_int = 0;
/// `CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED`, `…_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED`.
const MANAGES: c_int = 102;
const EXPORTS: c_int = 103;

/// Returns the optional functions, or fails if one is missing.
macro_rules! functions_of {
    ($driver:expr; $($name:ident),*) => {
        match ($($driver.f.$name,)*) {
            ($(Some($name),)*) => ($($name,)*),
            _ => fail!(Unsupported, "NVIDIA's driver is too old to share memory between processes"),
        }
    };
}

/// A mapping of memory at addresses of this process; memory and addresses are released on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    context: Arc<Context>,
    address: u64,
    bytes: usize,
    mapped: bool,
}

impl Mapping {
    /// Maps the memory of a handle for this GPU.
    fn new(context: &Arc<Context>, handle: &Handle, bytes: usize) -> Result<Mapping> {
        let driver = context.driver();
        let (reserve, map, set_access) = functions_of!(driver; reserve, map, set_access);
        let mut address = 0;
        // SAFETY: writes one address; 0 lets the driver choose the alignment and the place.
        let code = unsafe { reserve(&raw mut address, bytes, 0, 0, 0) };
        driver.check("cuMemAddressReserve", code).map_err(|error| about(error, bytes))?;
        let mut mapping = Mapping { context: Arc::clone(context), address, bytes, mapped: false };
        // SAFETY: the addresses were reserved above, and nothing is there; the handle is live.
        driver.check("cuMemMap", unsafe { map(address, bytes, 0, handle.value, 0) })?;
        mapping.mapped = true;
        let access = Access { location: place(context)?, flags: READ_AND_WRITE };
        // SAFETY: the addresses were mapped above; one description.
        driver.check("cuMemSetAccess", unsafe { set_access(address, bytes, &raw const access, 1) })?;
        Ok(mapping)
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // Unmapping does not wait.
        if self.context.synchronize().is_err() {
            return;
        }
        let f = &self.context.driver().f;
        if let (true, Some(unmap)) = (self.mapped, f.unmap) {
            // SAFETY: mapped in `new`, unmapped only here; its users are done.
            let _ = unsafe { unmap(self.address, self.bytes) };
        }
        if let Some(unreserve) = f.unreserve {
            // SAFETY: reserved in `new`, released only here.
            let _ = unsafe { unreserve(self.address, self.bytes) };
        }
    }
}

/// The driver's handle of memory, which exists as long as a handle, a mapping or a descriptor of it.
struct Handle {
    driver: &'static Driver,
    value: u64,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(release) = self.driver.f.release.filter(|_| self.driver.is_ours()) {
            // SAFETY: a live handle, released only here.
            let _ = unsafe { release(self.value) };
        }
    }
}

fn about(error: Error, bytes: usize) -> Error {
    error.within(format_args!("{bytes} bytes on the GPU"))
}

fn place(context: &Context) -> Result<Location> {
    let ordinal = c_int::try_from(context.ordinal()).unwrap_or(c_int::MAX);
    Ok(Location { kind: ON_DEVICE, device: context.driver().device_handle(ordinal)? })
}

impl Context {
    /// Checks that memory of this GPU can be shared with another process.
    ///
    /// # Errors
    /// Unsupported, with the missing feature.
    pub fn check_sharing(&self) -> Result<()> {
        let driver = self.driver();
        let _ = functions_of!(
            driver; granularity, create, release, export, import, reserve, unreserve, map, unmap, set_access
        );
        let device = place(self)?.device;
        for attribute in [MANAGES, EXPORTS] {
            if driver.attribute(device, attribute)? == 0 {
                fail!(
                    Unsupported,
                    "this GPU's memory cannot be shared between processes, according to its driver"
                )
            }
        }
        Ok(())
    }

    /// Shares a little memory within this process, so that the driver opens the files that it needs. A
    /// process that will not be allowed to open files later calls this first.
    ///
    /// # Errors
    /// Errors of [`DeviceMemory::shareable`] and [`DeviceMemory::import`].
    pub fn prepare_sharing(self: &Arc<Self>) -> Result<()> {
        let (memory, descriptor) = DeviceMemory::shareable(self, 1)?;
        let other = DeviceMemory::import(self, descriptor.as_fd(), memory.bytes())?;
        let stream = Stream::new(self)?;
        stream.fill(&other, 0, other.bytes(), 0)?;
        stream.synchronize()
    }
}

impl DeviceMemory {
    /// Allocates at least `bytes`, zeroed, that can be shared: another process passes the descriptor to
    /// [`DeviceMemory::import`]. Its writes are visible here after it has reported that they are complete.
    ///
    /// # Errors
    /// Errors of [`Context::check_sharing`]; Limit if the GPU has too little left.
    pub fn shareable(context: &Arc<Context>, bytes: usize) -> Result<(DeviceMemory, OwnedFd)> {
        context.check_sharing()?;
        context.make_current()?;
        let driver = context.driver();
        let (granularity, create, export) = functions_of!(driver; granularity, create, export);
        let properties = Properties {
            kind: PINNED,
            handles: DESCRIPTOR,
            location: place(context)?,
            windows: std::ptr::null_mut(),
            flags: [0; 8],
        };
        let mut unit = 0;
        // SAFETY: writes one size; the properties are live.
        let code = unsafe { granularity(&raw mut unit, &raw const properties, GRANULARITY_MINIMUM) };
        driver.check("cuMemGetAllocationGranularity", code)?;
        let Some(bytes) = bytes.max(1).checked_next_multiple_of(unit.max(1)) else {
            fail!(Limit, "{bytes} bytes on the GPU")
        };
        let mut value = 0;
        // SAFETY: writes one handle; the properties are live, and the size is a multiple of their granularity.
        let code = unsafe { create(&raw mut value, bytes, &raw const properties, 0) };
        driver.check("cuMemCreate", code).map_err(|error| about(error, bytes))?;
        let handle = Handle { driver, value };
        let mut raw: c_int = -1;
        // SAFETY: for this kind of handle, writes one descriptor.
        let code = unsafe { export((&raw mut raw).cast(), handle.value, DESCRIPTOR, 0) };
        driver.check("cuMemExportToShareableHandle", code)?;
        if raw < 0 {
            fail!(Failed, "cuMemExportToShareableHandle returned no descriptor")
        }
        // SAFETY: the driver made it for the caller.
        let descriptor = unsafe { OwnedFd::from_raw_fd(raw) };
        // SAFETY: sets a flag of a live descriptor: programs that this process starts must not inherit it.
        unsafe { libc::fcntl(raw, libc::F_SETFD, libc::FD_CLOEXEC) };
        let memory = DeviceMemory::mapped(context, Mapping::new(context, &handle, bytes)?);
        // The memory may contain data that this process freed.
        let stream = Stream::new(context)?;
        stream.fill(&memory, 0, bytes, 0)?;
        stream.synchronize()?;
        Ok((memory, descriptor))
    }

    /// Imports the memory of a descriptor that another process made, with a size of `bytes`.
    ///
    /// # Errors
    /// Errors of [`Context::check_sharing`]; errors of the driver.
    pub fn import(context: &Arc<Context>, descriptor: BorrowedFd<'_>, bytes: usize) -> Result<DeviceMemory> {
        context.make_current()?;
        let driver = context.driver();
        let (import,) = functions_of!(driver; import);
        let number = usize::try_from(descriptor.as_raw_fd())
            .map_err(|_| Error::new(ErrorKind::Invalid, "the descriptor is invalid"))?;
        let mut value = 0;
        // SAFETY: writes one handle; of this kind, the pointer is the number of a live descriptor.
        let code = unsafe { import(&raw mut value, std::ptr::without_provenance_mut(number), DESCRIPTOR) };
        driver.check("cuMemImportFromShareableHandle", code)?;
        let handle = Handle { driver, value };
        Ok(DeviceMemory::mapped(context, Mapping::new(context, &handle, bytes)?))
    }
}
