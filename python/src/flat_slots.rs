//! Element access to flat buffers without the overhead of PyO3's method wrappers, in which loops
//! would spend most of their time.
//!
//! Defines a type with the layout of [`FlatBuffer`]. Its two element slots handle plain integers
//! and floats themselves and pass everything else to the slots of [`FlatBuffer`].

use crate::flat_buffer::FlatBuffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

static FAST: PyOnceLock<Py<PyType>> = PyOnceLock::new();
/// Element slots of [`FlatBuffer`].
static GET: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static SET: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the type with the fast slots.
pub(crate) fn fast_type(py: Python<'_>) -> PyResult<&Py<PyType>> {
    FAST.get_or_try_init(py, || {
        let base = py.get_type::<FlatBuffer>();
        let slot_of = |slot: c_int| {
            // SAFETY: `PyType_GetSlot` accepts a heap type, and this is one.
            unsafe { ffi::PyType_GetSlot(base.as_type_ptr(), slot) }
        };
        GET.store(slot_of(ffi::Py_mp_subscript), Ordering::Release);
        SET.store(slot_of(ffi::Py_mp_ass_subscript), Ordering::Release);
        let slot = |slot: c_int, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
        let mut slots = [
            slot(ffi::Py_mp_subscript, get as *mut c_void),
            slot(ffi::Py_mp_ass_subscript, set as *mut c_void),
            // The deallocator must be the same, or CPython refuses to change an object's type.
            slot(ffi::Py_tp_dealloc, slot_of(ffi::Py_tp_dealloc)),
            slot(0, std::ptr::null_mut()),
        ];
        let mut spec = ffi::PyType_Spec {
            name: c"hyperchunk._core.FlatBuffer".as_ptr(),
            basicsize: 0,
            itemsize: 0,
            flags: c_uint::try_from(ffi::Py_TPFLAGS_DEFAULT).unwrap_or_default(),
            slots: slots.as_mut_ptr(),
        };
        // SAFETY: the specification ends with a zero, and CPython copies it; a size of 0 inherits
        // the base's; the result is a new reference.
        let made = unsafe {
            let made = ffi::PyType_FromSpecWithBases(&raw mut spec, base.as_ptr());
            Bound::from_owned_ptr_or_err(py, made)?
        };
        Ok(made.cast_into::<PyType>()?.unbind())
    })
}

/// Returns the value of an index that is a plain integer and fits.
///
/// # Safety
/// Called by CPython with a live object.
unsafe fn plain_index(index: *mut ffi::PyObject) -> Option<isize> {
    // SAFETY: a live object, checked to be an integer before its value is read. -1 is treated as no
    // index, since it also signals an error.
    unsafe {
        if ffi::PyLong_CheckExact(index) == 0 {
            return None;
        }
        match ffi::PyLong_AsSsize_t(index) {
            -1 => {
                ffi::PyErr_Clear();
                None
            }
            index => Some(index),
        }
    }
}

/// # Safety
/// Called by CPython with an object of the type, in a thread that is attached.
unsafe fn buffer<'a>(slf: *mut ffi::PyObject) -> (Python<'a>, &'a FlatBuffer) {
    // SAFETY: as above; the object outlives the call.
    unsafe {
        let py = Python::assume_attached();
        let object = Borrowed::from_ptr(py, slf).cast_unchecked::<FlatBuffer>();
        (py, &*std::ptr::from_ref(object.get()))
    }
}

/// # Safety
/// Called by CPython.
unsafe extern "C" fn get(slf: *mut ffi::PyObject, index: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: CPython's contract for this slot; the base's slot has this signature.
    unsafe {
        if let Some(at) = plain_index(index) {
            let (py, buffer) = buffer(slf);
            if let Some(number) = buffer.number(py, at) {
                return number;
            }
        }
        let slow: ffi::binaryfunc = std::mem::transmute(GET.load(Ordering::Acquire));
        slow(slf, index)
    }
}

/// # Safety
/// Called by CPython; `value` is null when an element is deleted.
unsafe extern "C" fn set(
    slf: *mut ffi::PyObject,
    index: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
) -> c_int {
    // SAFETY: CPython's contract for this slot; the base's slot has this signature.
    unsafe {
        if !value.is_null()
            && ffi::PyFloat_CheckExact(value) != 0
            && let Some(at) = plain_index(index)
            && buffer(slf).1.store(at, ffi::PyFloat_AsDouble(value))
        {
            return 0;
        }
        let slow: ffi::objobjargproc = std::mem::transmute(SET.load(Ordering::Acquire));
        slow(slf, index, value)
    }
}
