//! A fake cuFile: it reads into the GPU's memory at once, independent of streams, as cuFile does.

use crate::Knob;
use crate::machine::machine;
use crate::ptx::Memory as _;
use std::ffi::{c_int, c_uint, c_void};

const SUCCESS: Status = Status { code: 0, cuda: 0 };
/// `CU_FILE_HANDLE_NOT_REGISTERED` and `CU_FILE_INVALID_FILE_TYPE`.
const NOT_REGISTERED: isize = 5027;
const INVALID_TYPE: c_int = 5018;
/// `CU_FILE_CUDA_POINTER_RANGE_ERROR`.
const POINTER_RANGE: isize = 5014;

/// `CUfileError_t`.
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
    _gap: c_int,
    descriptor: c_int,
    _rest: c_int,
    _operations: *const c_void,
}

/// The start of `CUfileDrvProps_t`.
#[repr(C)]
pub(crate) struct Properties {
    major: c_uint,
    minor: c_uint,
    poll_threshold: usize,
    max_direct: usize,
    status: c_uint,
    control: c_uint,
}

/// Opens the driver.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuFileDriverOpen() -> Status {
    SUCCESS
}

/// Returns its properties.
///
/// # Safety
/// `to` may be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuFileDriverGetProperties(to: *mut Properties) -> Status {
    let there = machine().knob(Knob::Nvfs) as c_uint;
    // SAFETY: the caller's promise.
    unsafe {
        to.write(Properties {
            major: 2 * there,
            minor: 0,
            poll_threshold: 4,
            max_direct: 16384,
            status: 0,
            control: 2,
        });
    }
    SUCCESS
}

/// Returns the version: 1.14.
///
/// # Safety
/// `to` may be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuFileGetVersion(to: *mut c_int) -> Status {
    // SAFETY: the caller's promise.
    unsafe { to.write(1140) };
    SUCCESS
}

/// Registers a file: its handle is its descriptor, plus one.
///
/// # Safety
/// `to` may be written, `description` read.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuFileHandleRegister(
    to: *mut *mut c_void,
    description: *const Description,
) -> Status {
    // SAFETY: the caller's promise.
    let (kind, descriptor) = unsafe { ((*description).kind, (*description).descriptor) };
    match usize::try_from(descriptor) {
        Ok(descriptor) if kind == 1 => {
            // SAFETY: the caller's promise.
            unsafe { to.write(std::ptr::without_provenance_mut(descriptor + 1)) };
            SUCCESS
        }
        _ => Status { code: INVALID_TYPE, cuda: 0 },
    }
}

/// Deregisters a file.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuFileHandleDeregister(_handle: *mut c_void) {}

/// Reads from a file.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuFileRead(
    handle: *mut c_void,
    base: u64,
    bytes: usize,
    offset: i64,
    at: i64,
) -> isize {
    let mut machine = machine();
    let Some(descriptor) = (handle as usize).checked_sub(1) else { return -NOT_REGISTERED };
    let place = base.wrapping_add_signed(at);
    let Some(to) = machine.memory.write(place, bytes) else {
        machine.report_mistake(&format!(
            "cuFileRead: {bytes} bytes at {place:#x} are not within one allocation of device memory"
        ));
        return -POINTER_RANGE;
    };
    // SAFETY: `bytes` bytes may be written there.
    let read = unsafe { libc::pread(descriptor as c_int, to.as_mut_ptr().cast(), bytes, offset) };
    machine.counted.direct += u64::try_from(read).unwrap_or(0);
    read
}
