//! Memory shared by two processes: a memfd, which both map.

use crate::Knob;
use crate::driver::{entries, give_in, in_context};
use crate::machine::{Code, INVALID_DEVICE, INVALID_VALUE, Machine, NOT_SUPPORTED, OUT_OF_MEMORY, SUCCESS};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::Arc;

/// The granularity of sizes and addresses, in bytes. (Real GPUs have 2 MiB; tests have little memory.)
const GRANULARITY_BYTES: usize = 64 << 10;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const DESCRIPTOR: c_int = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
const READ_AND_WRITE: c_int = 3;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Location {
    kind: c_int,
    device: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Properties {
    kind: c_int,
    handles: c_int,
    location: Location,
    windows: *mut c_void,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Access {
    location: Location,
    flags: c_int,
}

/// Memory of the GPU with a descriptor.
pub(crate) struct PhysicalMemory {
    descriptor: OwnedFd,
    start: *mut u8,
    length: usize,
    /// True if this process allocated it, so that it counts as its memory.
    own: bool,
}

// SAFETY: a mapping of its own, only accessed while the machine is locked.
unsafe impl Send for PhysicalMemory {}
// SAFETY: as above.
unsafe impl Sync for PhysicalMemory {}

impl PhysicalMemory {
    fn new(descriptor: OwnedFd, length: usize, own: bool) -> Option<PhysicalMemory> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let fd = descriptor.as_raw_fd();
        // SAFETY: a new mapping of a file that has this size.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, rights, libc::MAP_SHARED, fd, 0) };
        (start != libc::MAP_FAILED).then(|| PhysicalMemory { descriptor, start: start.cast(), length, own })
    }

    /// Allocates memory filled with the pattern for uninitialised bytes.
    fn create(length: usize) -> Option<PhysicalMemory> {
        // SAFETY: a constant name; the kernel gives a descriptor.
        let fd = unsafe { libc::memfd_create(c"hyperchunk-cuda-fake".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return None;
        }
        // SAFETY: the kernel just returned it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(fd) };
        let size = libc::off_t::try_from(length).ok()?;
        // SAFETY: a live descriptor.
        if unsafe { libc::ftruncate(fd, size) } != 0 {
            return None;
        }
        let made = PhysicalMemory::new(descriptor, length, true)?;
        // SAFETY: mapped above, of this size.
        unsafe { made.start.write_bytes(0xa5, length) };
        Some(made)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: mapped for as long as this lives. Any bytes that another process writes are valid.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }

    #[expect(
        clippy::mut_from_ref,
        reason = "several mappings may lead to it; who holds the machine has one at a time"
    )]
    pub(crate) fn bytes_mut(&self) -> &mut [u8] {
        // SAFETY: as above; the machine is locked.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl Drop for PhysicalMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, unmapped only here.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

/// Live shared memory.
#[derive(Default)]
pub(crate) struct SharedAllocations {
    handles: HashMap<u64, Arc<PhysicalMemory>>,
    /// Reserved addresses, with their length.
    reserved: HashMap<u64, usize>,
    mapped: HashMap<u64, Arc<PhysicalMemory>>,
}

impl SharedAllocations {
    pub(crate) fn live(&self) -> u64 {
        (self.handles.len() + self.reserved.len() + self.mapped.len()) as u64
    }
}

impl Machine {
    /// Drops a reference to memory: the last one frees it.
    fn release(&mut self, memory: Arc<PhysicalMemory>) {
        if Arc::strong_count(&memory) == 1 && memory.own {
            self.memory.give_back(memory.length);
        }
    }

    fn add_handle(&mut self, memory: PhysicalMemory) -> u64 {
        let handle = self.handle() as u64;
        self.sharing.handles.insert(handle, Arc::new(memory));
        handle
    }

    /// Returns whether the properties are for exportable GPU memory.
    fn is_shareable(&self, properties: Properties) -> bool {
        let device = u64::try_from(properties.location.device).unwrap_or(u64::MAX);
        (properties.kind, properties.handles, properties.location.kind) == (1, DESCRIPTOR, 1)
            && device < self.knob(Knob::Devices)
    }
}

entries! {
    /// Returns the granularity of sizes.
    fn cuMemGetAllocationGranularity(to: *mut usize, properties: *const Properties, _which: c_int) -> Code {
        in_context(|machine| {
            // SAFETY: the caller's promise.
            if !machine.is_shareable(unsafe { *properties }) {
                return machine.refuse(INVALID_VALUE, "cuMemGetAllocationGranularity: unsupported properties");
            }
            // SAFETY: the caller's promise.
            unsafe { give_in(machine, to, GRANULARITY_BYTES) }
        })
    }

    /// Allocates memory without an address.
    fn cuMemCreate(to: *mut u64, bytes: usize, properties: *const Properties, flags: u64) -> Code {
        in_context(|machine| {
            // SAFETY: the caller's promise.
            let known = machine.is_shareable(unsafe { *properties });
            if !known || flags != 0 || bytes == 0 || !bytes.is_multiple_of(GRANULARITY_BYTES) {
                return machine.refuse(INVALID_VALUE, &format!("cuMemCreate: {bytes} bytes, or unsupported properties"));
            }
            if machine.knob(Knob::Exports) == 0 {
                return NOT_SUPPORTED;
            }
            let left = machine.knob(Knob::Memory).saturating_sub(machine.memory.used());
            if machine.is_due(Knob::OutOfMemory) || bytes as u64 > left {
                return OUT_OF_MEMORY;
            }
            let Some(memory) = PhysicalMemory::create(bytes) else { return OUT_OF_MEMORY };
            machine.memory.take(bytes);
            machine.counted.created += 1;
            let handle = machine.add_handle(memory);
            // SAFETY: the caller's promise.
            unsafe { give_in(machine, to, handle) }
        })
    }

    /// Releases a handle. Mapped memory stays.
    fn cuMemRelease(handle: u64) -> Code {
        in_context(|machine| match machine.sharing.handles.remove(&handle) {
            Some(memory) => {
                machine.release(memory);
                SUCCESS
            }
            None => machine.refuse(INVALID_VALUE, "cuMemRelease: the handle is invalid or released"),
        })
    }

    /// Exports memory as a descriptor.
    fn cuMemExportToShareableHandle(to: *mut c_void, handle: u64, kind: c_int, flags: u64) -> Code {
        in_context(|machine| {
            let Some(memory) = machine.sharing.handles.get(&handle).filter(|_| kind == DESCRIPTOR && flags == 0) else {
                return machine.refuse(INVALID_VALUE, "cuMemExportToShareableHandle: the handle is invalid, or of an unsupported kind");
            };
            // SAFETY: a live descriptor.
            let fd = unsafe { libc::fcntl(memory.descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
            if fd < 0 {
                return NOT_SUPPORTED;
            }
            // SAFETY: the caller's promise.
            unsafe { give_in(machine, to.cast::<c_int>(), fd) }
        })
    }

    /// Imports the memory of a descriptor, which stays the caller's.
    fn cuMemImportFromShareableHandle(to: *mut u64, descriptor: *mut c_void, kind: c_int) -> Code {
        in_context(|machine| {
            if kind != DESCRIPTOR {
                return machine.refuse(INVALID_VALUE, "cuMemImportFromShareableHandle: another kind of handle");
            }
            if machine.is_due(Knob::DieImport) {
                std::process::abort();
            }
            if machine.is_due(Knob::FailImport) {
                return NOT_SUPPORTED;
            }
            let fd = c_int::try_from(descriptor as usize).unwrap_or(-1);
            // SAFETY: a number that is not a descriptor is an error. (A locked-down worker may not call
            // fstat.)
            let (length, own) = unsafe { (libc::lseek(fd, 0, libc::SEEK_END), libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3)) };
            if length < 0 || own < 0 {
                return machine.refuse(INVALID_VALUE, "cuMemImportFromShareableHandle: no descriptor of memory");
            }
            // SAFETY: the kernel just returned it.
            let own = unsafe { OwnedFd::from_raw_fd(own) };
            let length = usize::try_from(length).unwrap_or(0);
            let Some(memory) = PhysicalMemory::new(own, length, false).filter(|_| length.is_multiple_of(GRANULARITY_BYTES)) else {
                return machine.refuse(INVALID_VALUE, "cuMemImportFromShareableHandle: not memory of a GPU");
            };
            machine.counted.imported += 1;
            let handle = machine.add_handle(memory);
            // SAFETY: the caller's promise.
            unsafe { give_in(machine, to, handle) }
        })
    }

    /// Reserves addresses.
    fn cuMemAddressReserve(to: *mut u64, bytes: usize, alignment: usize, address: u64, flags: u64) -> Code {
        in_context(|machine| {
            if bytes == 0 || !bytes.is_multiple_of(GRANULARITY_BYTES) || (alignment, address, flags) != (0, 0, 0) {
                return machine.refuse(INVALID_VALUE, &format!("cuMemAddressReserve: {bytes} bytes, or unsupported arguments"));
            }
            let address = machine.memory.reserve(bytes);
            machine.sharing.reserved.insert(address, bytes);
            // SAFETY: the caller's promise.
            unsafe { give_in(machine, to, address) }
        })
    }

    /// Releases addresses.
    fn cuMemAddressFree(address: u64, bytes: usize) -> Code {
        in_context(|machine| {
            if machine.sharing.reserved.get(&address) != Some(&bytes) || machine.sharing.mapped.contains_key(&address) {
                return machine.refuse(INVALID_VALUE, "cuMemAddressFree: the addresses are not reserved, or memory is mapped there");
            }
            machine.sharing.reserved.remove(&address);
            SUCCESS
        })
    }

    /// Maps memory at addresses, without access yet.
    fn cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: u64) -> Code {
        in_context(|machine| {
            let memory = machine.sharing.handles.get(&handle).map(Arc::clone);
            let fits = memory.as_ref().is_some_and(|memory| memory.length == bytes)
                && machine.sharing.reserved.get(&address) == Some(&bytes)
                && !machine.sharing.mapped.contains_key(&address);
            match memory.filter(|_| fits && offset == 0 && flags == 0) {
                Some(memory) => {
                    machine.sharing.mapped.insert(address, memory);
                    SUCCESS
                }
                None => machine.refuse(INVALID_VALUE, "cuMemMap: the handle is invalid, or the addresses are not reserved for it"),
            }
        })
    }

    /// Enables access of a GPU to mapped memory.
    fn cuMemSetAccess(address: u64, bytes: usize, access: *const Access, count: usize) -> Code {
        in_context(|machine| {
            let Some(memory) = machine.sharing.mapped.get(&address).filter(|memory| memory.length == bytes && count == 1) else {
                return machine.refuse(INVALID_VALUE, "cuMemSetAccess: no memory is mapped at the addresses");
            };
            // SAFETY: the caller's promise: there is one.
            let access = unsafe { *access };
            if (access.location.kind, access.flags) != (1, READ_AND_WRITE) {
                return INVALID_DEVICE;
            }
            let memory = Arc::clone(memory);
            machine.memory.map(address, Some(memory));
            SUCCESS
        })
    }

    /// Unmaps memory. Work that is using it fails.
    fn cuMemUnmap(address: u64, bytes: usize) -> Code {
        in_context(|machine| {
            if machine.sharing.reserved.get(&address) != Some(&bytes) {
                return machine.refuse(INVALID_VALUE, "cuMemUnmap: the addresses are not reserved");
            }
            let Some(memory) = machine.sharing.mapped.remove(&address) else {
                return machine.refuse(INVALID_VALUE, "cuMemUnmap: no memory is mapped at the addresses");
            };
            machine.memory.map(address, None);
            machine.release(memory);
            SUCCESS
        })
    }
}
