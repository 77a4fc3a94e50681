//! The bytes behind Python objects: the one place where their memory is touched.

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// Calls `work` with the memory of an object that is writable and lies in one piece, such as a NumPy array.
///
/// The object is kept alive and its memory in place. As with any array that is filled while other threads run, who writes
/// to it at the same time gets what he asked for.
pub(crate) fn fill<T>(object: &Bound<'_, PyAny>, work: impl FnOnce(&mut [u8]) -> PyResult<T>) -> PyResult<T> {
    with_buffer(object, ffi::PyBUF_WRITABLE, |start, length| {
        // SAFETY: CPython promises `length` bytes at `start`, writable, until the buffer is released.
        work(unsafe { std::slice::from_raw_parts_mut(start, length) })
    })
}

/// Calls `work` with the bytes of an object that lie in one piece.
pub(crate) fn look<T>(object: &Bound<'_, PyAny>, work: impl FnOnce(&[u8]) -> PyResult<T>) -> PyResult<T> {
    with_buffer(object, ffi::PyBUF_SIMPLE, |start, length| {
        // SAFETY: as in `fill`, for reading.
        work(unsafe { std::slice::from_raw_parts(start, length) })
    })
}

fn with_buffer<T>(
    object: &Bound<'_, PyAny>,
    flags: c_int,
    work: impl FnOnce(*mut u8, usize) -> PyResult<T>,
) -> PyResult<T> {
    /// Gives the buffer back, even if `work` panics.
    struct Held(MaybeUninit<ffi::Py_buffer>);
    impl Drop for Held {
        fn drop(&mut self) {
            // SAFETY: made only after CPython filled it; the interpreter is attached again when this frame ends.
            unsafe { ffi::PyBuffer_Release(self.0.as_mut_ptr()) };
        }
    }

    let mut view = MaybeUninit::<ffi::Py_buffer>::zeroed();
    // SAFETY: a live object and a place for the view, which is not moved while it is filled; without shape or strides in
    // the flags nothing in it points back at it.
    let status = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), view.as_mut_ptr(), flags) };
    if status != 0 {
        let fallback = || PyBufferError::new_err("no contiguous memory");
        return Err(PyErr::take(object.py()).unwrap_or_else(fallback));
    }
    let mut held = Held(view);
    // SAFETY: filled by the call above.
    let view = unsafe { held.0.assume_init_mut() };
    let start =
        if view.buf.is_null() { std::ptr::NonNull::dangling().as_ptr() } else { view.buf.cast::<u8>() };
    work(start, usize::try_from(view.len).unwrap_or(0))
}
