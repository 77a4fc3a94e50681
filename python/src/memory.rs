//! Access to the memory of Python objects through the buffer protocol; no other module touches it.

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Calls `work` with the memory of a writable, contiguous object, such as a NumPy array.
///
/// The object is kept alive and its memory in place. As with any array that is filled while other
/// threads run, a thread that writes to it at the same time corrupts only its own data.
pub(crate) fn fill<T>(object: &Bound<'_, PyAny>, work: impl FnOnce(&mut [u8]) -> PyResult<T>) -> PyResult<T> {
    with_buffer(object, ffi::PyBUF_WRITABLE, |start, length| {
        // SAFETY: CPython promises `length` bytes at `start`, writable, until the buffer is
        // released.
        work(unsafe { std::slice::from_raw_parts_mut(start, length) })
    })
}

/// Calls `work` with the bytes of a contiguous object.
pub(crate) fn look<T>(object: &Bound<'_, PyAny>, work: impl FnOnce(&[u8]) -> PyResult<T>) -> PyResult<T> {
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        return work(bytes.as_bytes());
    }
    with_buffer(object, ffi::PyBUF_SIMPLE, |start, length| {
        // SAFETY: as in `fill`, for reading.
        work(unsafe { std::slice::from_raw_parts(start, length) })
    })
}

/// Calls `work` with the memory of several objects, each as in [`fill`], in their order.
///
/// # Errors
/// As `fill`; also if two of them share memory.
pub(crate) fn fill_all<T>(
    objects: &[Bound<'_, PyAny>],
    work: impl FnOnce(Vec<&mut [u8]>) -> PyResult<T>,
) -> PyResult<T> {
    let held = objects
        .iter()
        .map(|object| HeldBuffer::new(object, ffi::PyBUF_WRITABLE))
        .collect::<PyResult<Vec<_>>>()?;
    let places: Vec<(*mut u8, usize)> = held.iter().map(HeldBuffer::place).collect();
    let mut spans: Vec<(usize, usize)> = places
        .iter()
        .filter(|(_, length)| *length > 0)
        .map(|(start, length)| (start.addr(), *length))
        .collect();
    spans.sort_unstable();
    if spans.windows(2).any(|pair| matches!(pair, [(start, length), (next, _)] if start + length > *next)) {
        return Err(PyBufferError::new_err("two of the arrays share memory"));
    }
    // SAFETY: CPython promises `length` bytes at each `start`, writable, until `held` is dropped; no two overlap.
    let slices =
        places.iter().map(|(start, length)| unsafe { std::slice::from_raw_parts_mut(*start, *length) });
    work(slices.collect())
}

/// Calls `work` with the bytes of several objects, each as in [`look`], in their order.
pub(crate) fn look_all<T>(
    objects: &[Bound<'_, PyAny>],
    work: impl FnOnce(Vec<&[u8]>) -> PyResult<T>,
) -> PyResult<T> {
    let held = objects.iter().map(|object| match object.cast_exact::<PyBytes>() {
        Ok(bytes) => Ok(BytesView::Bytes(bytes.as_bytes())),
        Err(_) => HeldBuffer::new(object, ffi::PyBUF_SIMPLE).map(BytesView::Held),
    });
    let held = held.collect::<PyResult<Vec<_>>>()?;
    let slices = held.iter().map(|seen| match seen {
        BytesView::Bytes(bytes) => bytes,
        BytesView::Held(held) => {
            let (start, length) = held.place();
            // SAFETY: CPython promises `length` bytes at `start` until `held` is dropped.
            unsafe { std::slice::from_raw_parts(start, length) }
        }
    });
    work(slices.collect())
}

/// Borrowed bytes of an object; a `bytes` object needs no buffer request, since its memory never
/// moves.
enum BytesView<'a, 'py> {
    Bytes(&'a [u8]),
    Held(HeldBuffer<'py>),
}

fn with_buffer<T>(
    object: &Bound<'_, PyAny>,
    flags: c_int,
    work: impl FnOnce(*mut u8, usize) -> PyResult<T>,
) -> PyResult<T> {
    let held = HeldBuffer::new(object, flags)?;
    let (start, length) = held.place();
    work(start, length)
}

/// Buffer of an object, held in place and released on drop, even after a panic.
struct HeldBuffer<'py>(Box<ffi::Py_buffer>, PhantomData<Bound<'py, PyAny>>);

impl<'py> HeldBuffer<'py> {
    fn new(object: &Bound<'py, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut view = Box::new(MaybeUninit::<ffi::Py_buffer>::zeroed());
        // SAFETY: a live object, and space for the view that does not move while it is held.
        let status = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), view.as_mut_ptr(), flags) };
        if status != 0 {
            let fallback = || PyBufferError::new_err("no contiguous memory");
            return Err(PyErr::take(object.py()).unwrap_or_else(fallback));
        }
        // SAFETY: filled by the call above.
        Ok(Self(unsafe { view.assume_init() }, PhantomData))
    }

    fn place(&self) -> (*mut u8, usize) {
        let start = if self.0.buf.is_null() {
            std::ptr::NonNull::dangling().as_ptr()
        } else {
            self.0.buf.cast::<u8>()
        };
        (start, usize::try_from(self.0.len).unwrap_or(0))
    }
}

impl Drop for HeldBuffer<'_> {
    fn drop(&mut self) {
        // SAFETY: constructed only after CPython filled it; the interpreter is attached as long as
        // 'py lasts.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.0) };
    }
}
