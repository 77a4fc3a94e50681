//! DLPack: exchange of memory between array libraries. Source: DLPack 1.1, its header and its
//! Python specification.

use hyperchunk_cuda::DeviceMemory;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{CStr, c_void};
use std::sync::Arc;

/// `kDLCUDA`.
const CUDA: i32 = 2;
/// Version of the versioned tensor.
const VERSION: Version = Version { major: 1, minor: 1 };
/// `DLPACK_FLAG_BITMASK_IS_COPIED`.
const IS_COPIED: u64 = 2;

const NAME: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

/// Type of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    code: u8,
    bits: u8,
}

impl Element {
    /// Returns the element type for a NumPy kind and a size in bytes, if DLPack has it.
    pub(super) fn new(kind: char, size: usize) -> Option<Self> {
        let (code, sizes): (u8, &[usize]) = match kind {
            'i' => (0, &[1, 2, 4, 8]),
            'u' => (1, &[1, 2, 4, 8]),
            'f' => (2, &[2, 4, 8]),
            'c' => (5, &[8, 16]),
            'b' => (6, &[1]),
            _ => return None,
        };
        let bits = u8::try_from(size.checked_mul(8)?).ok().filter(|_| sizes.contains(&size))?;
        Some(Self { code, bits })
    }

    /// Returns whether this is the type of a NumPy kind and size in bytes.
    pub(super) fn is(self, kind: char, size: u64) -> bool {
        usize::try_from(size).ok().and_then(|size| Self::new(kind, size)) == Some(self)
    }
}

#[repr(C)]
struct Device {
    kind: i32,
    number: i32,
}

#[repr(C)]
struct Type {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
struct Plain {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: Type,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct ManagedTensor {
    tensor: Plain,
    owner: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
}

#[repr(C)]
struct Version {
    major: u32,
    minor: u32,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct ManagedVersioned {
    version: Version,
    owner: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: Plain,
}

/// A tensor owned by a capsule.
#[derive(Debug)]
pub(super) struct Tensor {
    memory: Arc<DeviceMemory>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    element: Element,
}

impl Tensor {
    /// Creates a tensor of an array's elements in row-major order.
    pub(super) fn new(memory: Arc<DeviceMemory>, shape: &[i64], element: Element) -> Self {
        let mut stride = 1_i64;
        let mut strides: Vec<i64> = shape
            .iter()
            .rev()
            .map(|extent| {
                let this = stride;
                stride = stride.saturating_mul((*extent).max(1));
                this
            })
            .collect();
        strides.reverse();
        Self { memory, shape: shape.to_vec(), strides, element }
    }

    /// Returns the C structure. Its pointers point to heap memory of this value.
    fn plain(&mut self) -> Plain {
        let address = if self.memory.bytes() == 0 { 0 } else { self.memory.address() };
        Plain {
            data: address as *mut c_void,
            device: Device { kind: CUDA, number: self.memory.context().ordinal().cast_signed() },
            ndim: i32::try_from(self.shape.len()).unwrap_or(i32::MAX),
            dtype: Type { code: self.element.code, bits: self.element.bits, lanes: 1 },
            shape: self.shape.as_mut_ptr(),
            strides: self.strides.as_mut_ptr(),
            byte_offset: 0,
        }
    }
}

/// Creates a capsule with a tensor, in the versioned or the older form. The consumer renames it and calls the
/// tensor's deleter when done; otherwise the capsule's destructor deletes the tensor.
pub(super) fn capsule(
    py: Python<'_>,
    tensor: Tensor,
    versioned: bool,
    copied: bool,
) -> PyResult<Bound<'_, PyCapsule>> {
    // The shape and strides stay in place on the heap when their owner moves into the box.
    let mut owner = Box::new(tensor);
    let plain = owner.plain();
    let owner = Box::into_raw(owner).cast::<c_void>();
    let (pointer, name, destructor): (*mut c_void, &CStr, ffi::PyCapsule_Destructor) = if versioned {
        let flags = if copied { IS_COPIED } else { 0 };
        let managed = ManagedVersioned {
            version: VERSION,
            owner,
            deleter: Some(delete_versioned),
            flags,
            tensor: plain,
        };
        (Box::into_raw(Box::new(managed)).cast(), VERSIONED, unused_versioned)
    } else {
        let managed = ManagedTensor { tensor: plain, owner, deleter: Some(delete) };
        (Box::into_raw(Box::new(managed)).cast(), NAME, unused)
    };
    // SAFETY: the pointer is not null and the name is constant. The interpreter is attached.
    let made = unsafe { ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destructor)) };
    if made.is_null() {
        // SAFETY: made above, and not shared.
        unsafe { if versioned { delete_versioned(pointer.cast()) } else { delete(pointer.cast()) } }
        return Err(PyErr::take(py).unwrap_or_else(|| PyBufferError::new_err("cannot create a capsule")));
    }
    // SAFETY: a new reference, owned here.
    let made = unsafe { Bound::from_owned_ptr(py, made) };
    Ok(made.cast_into::<PyCapsule>()?)
}

/// # Safety
/// DLPack's contract: called once, with a tensor from [`capsule`], by any thread, with or without
/// the GIL.
unsafe extern "C" fn delete(managed: *mut ManagedTensor) {
    if managed.is_null() {
        return;
    }
    // SAFETY: made by `capsule`, and no longer used.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(managed.owner.cast::<Tensor>()) });
}

/// # Safety
/// As [`delete`].
unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    if managed.is_null() {
        return;
    }
    // SAFETY: made by `capsule`, and no longer used.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(managed.owner.cast::<Tensor>()) });
}

/// Frees a tensor that was never consumed.
///
/// # Safety
/// CPython's contract for destructors of capsules.
unsafe extern "C" fn unused(capsule: *mut ffi::PyObject) {
    // SAFETY: a live capsule; a consumed one has another name.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}

/// # Safety
/// As [`unused`].
unsafe extern "C" fn unused_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as in `unused`.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}
