//! Memory on a GPU that two processes see: one makes it and has a descriptor of it, which it passes to the other over a socket.
//!
//! Who made it decides how long it is there, as with a memfd: what the other process does, or that it ends, takes nothing away.

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
const LEAST: c_int = 0;
/// `CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED`, `…_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED`.
const MANAGES: c_int = 102;
const EXPORTS: c_int = 103;

/// The functions that all of this takes.
macro_rules! functions_of {
    ($driver:expr; $($name:ident),*) => {
        match ($($driver.f.$name,)*) {
            ($(Some($name),)*) => ($($name,)*),
            _ => fail!(Unsupported, "NVIDIA's driver is too old to share memory between processes"),
        }
    };
}

/// Memory at addresses of this process; both are given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    context: Arc<Context>,
    address: u64,
    bytes: usize,
    mapped: bool,
}

impl Mapping {
    /// Maps what is behind a handle, of so many bytes, for this GPU.
    fn new(context: &Arc<Context>, handle: &Handle, bytes: usize) -> Result<Mapping> {
        let driver = context.driver();
        let (reserve, map, set_access) = functions_of!(driver; reserve, map, set_access);
        let mut address = 0;
        // SAFETY: writes one address; 0 for the alignment and the place leaves them to the driver.
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
        // Unmapping waits for nothing.
        if self.context.synchronize().is_err() {
            return;
        }
        let f = &self.context.driver().f;
        if let (true, Some(unmap)) = (self.mapped, f.unmap) {
            // SAFETY: mapped in `new`, unmapped here alone; what used it is done.
            let _ = unsafe { unmap(self.address, self.bytes) };
        }
        if let Some(unreserve) = f.unreserve {
            // SAFETY: reserved in `new`, given back here alone.
            let _ = unsafe { unreserve(self.address, self.bytes) };
        }
    }
}

/// The driver's handle of memory. The memory is there as long as a handle, a mapping or a descriptor of it is.
struct Handle {
    driver: &'static Driver,
    value: u64,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(release) = self.driver.f.release.filter(|_| self.driver.is_ours()) {
            // SAFETY: a live handle, released here alone.
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
    /// Whether memory of this GPU can be shared with another process.
    ///
    /// # Errors
    /// Unsupported, with what lacks.
    pub fn check_sharing(&self) -> Result<()> {
        let driver = self.driver();
        let _ = functions_of!(
            driver; granularity, create, release, export, import, reserve, unreserve, map, unmap, set_access
        );
        let device = place(self)?.device;
        for attribute in [MANAGES, EXPORTS] {
            if driver.attribute(device, attribute)? == 0 {
                fail!(Unsupported, "this GPU's memory cannot be shared between processes, says its driver")
            }
        }
        Ok(())
    }

    /// Shares a little memory with this very process, so that the driver opens what it needs for that. A process that is to open nothing
    /// later calls this first.
    ///
    /// # Errors
    /// Those of [`DeviceMemory::shareable`] and [`DeviceMemory::import`].
    pub fn prepare_sharing(self: &Arc<Self>) -> Result<()> {
        let (memory, descriptor) = DeviceMemory::shareable(self, 1)?;
        let other = DeviceMemory::import(self, descriptor.as_fd(), memory.bytes())?;
        let stream = Stream::new(self)?;
        stream.fill(&other, 0, other.bytes(), 0)?;
        stream.synchronize()
    }
}

impl DeviceMemory {
    /// Takes at least `bytes`, all zeros, that another process can be given: the descriptor is for [`DeviceMemory::import`] there. What it
    /// writes is seen here once it says that it is done.
    ///
    /// # Errors
    /// Those of [`Context::check_sharing`]; Limit where the GPU has too little left.
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
        let code = unsafe { granularity(&raw mut unit, &raw const properties, LEAST) };
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
            fail!(Failed, "cuMemExportToShareableHandle gave no descriptor")
        }
        // SAFETY: the driver made it for the caller.
        let descriptor = unsafe { OwnedFd::from_raw_fd(raw) };
        // SAFETY: sets a flag of a live descriptor: programs that this process starts are not to have it.
        unsafe { libc::fcntl(raw, libc::F_SETFD, libc::FD_CLOEXEC) };
        let memory = DeviceMemory::mapped(context, Mapping::new(context, &handle, bytes)?);
        // What was freed in this process may still be in it.
        let stream = Stream::new(context)?;
        stream.fill(&memory, 0, bytes, 0)?;
        stream.synchronize()?;
        Ok((memory, descriptor))
    }

    /// The memory behind a descriptor that another process made, which has `bytes`.
    ///
    /// # Errors
    /// Those of [`Context::check_sharing`]; what the driver says.
    pub fn import(context: &Arc<Context>, descriptor: BorrowedFd<'_>, bytes: usize) -> Result<DeviceMemory> {
        context.make_current()?;
        let driver = context.driver();
        let (import,) = functions_of!(driver; import);
        let number = usize::try_from(descriptor.as_raw_fd())
            .map_err(|_| Error::new(ErrorKind::Invalid, "no descriptor"))?;
        let mut value = 0;
        // SAFETY: writes one handle; of this kind, the pointer is the number of a live descriptor.
        let code = unsafe { import(&raw mut value, std::ptr::without_provenance_mut(number), DESCRIPTOR) };
        driver.check("cuMemImportFromShareableHandle", code)?;
        let handle = Handle { driver, value };
        Ok(DeviceMemory::mapped(context, Mapping::new(context, &handle, bytes)?))
    }
}
