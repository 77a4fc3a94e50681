//! Pools of shared memory.

use crate::errors::{opening, to_python};
use crate::memory::look;
use hyperchunk_store::shared_memory_pool::{self as pool, PoolOptions};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_int, c_void};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Statistics of a pool: quota, memory, free, objects, bytes, unsealed, deleted, spilled,
/// spilled_bytes.
type Stats = (u64, u64, u64, usize, u64, usize, usize, usize, u64);

/// A pool of shared memory.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct Pool(pool::Pool);

#[pymethods]
impl Pool {
    /// Creates a pool.
    #[staticmethod]
    fn create(
        py: Python<'_>,
        name: &str,
        quota: Option<u64>,
        #[pyo3(from_py_with = crate::paths::optional)] spill: Option<PathBuf>,
    ) -> PyResult<Self> {
        let mut options = PoolOptions::default();
        (options.quota, options.spill) = (quota, spill);
        py.detach(|| pool::Pool::create(name, &options)).map(Self).map_err(|e| opening(py, &e))
    }

    /// Opens a pool.
    #[staticmethod]
    fn open(py: Python<'_>, name: &str) -> PyResult<Self> {
        py.detach(|| pool::Pool::open(name)).map(Self).map_err(|e| opening(py, &e))
    }

    /// Removes a pool.
    #[staticmethod]
    fn remove(py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| pool::Pool::remove(name)).map_err(|e| opening(py, &e))
    }

    /// Lists the pools of this user.
    #[staticmethod]
    fn all(py: Python<'_>) -> PyResult<Vec<String>> {
        py.detach(pool::Pool::all).map_err(|e| to_python(py, &e))
    }

    /// Folder of the pool.
    #[getter]
    fn folder(&self) -> PathBuf {
        self.0.folder().to_owned()
    }

    /// Creates an object of up to `size` bytes and returns its writer.
    fn begin(&self, py: Python<'_>, name: &str, size: u64) -> PyResult<PoolWriter> {
        let writer = py.detach(|| self.0.begin(name, size)).map_err(|e| to_python(py, &e))?;
        let size =
            usize::try_from(size).map_err(|_| PyValueError::new_err("the size is larger than memory"))?;
        Ok(PoolWriter { size, state: Mutex::new((Some(writer), 0)) })
    }

    /// Stores bytes as an object.
    fn put(&self, py: Python<'_>, name: &str, data: &Bound<'_, PyAny>) -> PyResult<()> {
        look(data, |bytes| py.detach(|| self.0.put(name, bytes)).map_err(|e| to_python(py, &e)))
    }

    /// Returns an object.
    fn get(&self, py: Python<'_>, name: &str) -> PyResult<PoolObject> {
        py.detach(|| self.0.get(name)).map(PoolObject).map_err(|e| to_python(py, &e))
    }

    /// Deletes an object.
    fn delete(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        py.detach(|| self.0.delete(name)).map_err(|e| to_python(py, &e))
    }

    /// Lists the objects: name, length, whether it was spilled to a file.
    fn list(&self, py: Python<'_>) -> PyResult<Vec<(String, u64, bool)>> {
        let all = py.detach(|| self.0.list()).map_err(|e| to_python(py, &e))?;
        Ok(all.into_iter().map(|entry| (entry.name, entry.length, entry.spilled)).collect())
    }

    /// Returns the pool's statistics.
    fn stats(&self, py: Python<'_>) -> PyResult<Stats> {
        let stats = py.detach(|| self.0.stats()).map_err(|e| to_python(py, &e))?;
        let objects = (stats.objects, stats.bytes, stats.unsealed, stats.deleted);
        Ok((
            stats.quota,
            stats.memory,
            stats.free,
            objects.0,
            objects.1,
            objects.2,
            objects.3,
            stats.spilled,
            stats.spilled_bytes,
        ))
    }
}

/// An object under construction: a writable buffer until it is sealed.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct PoolWriter {
    size: usize,
    /// The writer, and the number of exported buffers.
    state: Mutex<(Option<pool::PoolWriter>, usize)>,
}

impl PoolWriter {
    fn taken(&self) -> PyResult<Option<pool::PoolWriter>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.1 > 0 {
            return Err(PyBufferError::new_err(
                "its memory is still in use: delete arrays and views of it first",
            ));
        }
        Ok(state.0.take())
    }
}

#[pymethods]
impl PoolWriter {
    /// Seals the object with its first `length` bytes.
    #[pyo3(signature = (length=None))]
    fn seal(&self, py: Python<'_>, length: Option<u64>) -> PyResult<()> {
        let length = length.unwrap_or(self.size as u64);
        if length > self.size as u64 {
            return Err(PyValueError::new_err(format!(
                "cannot seal {length} bytes of an object of {} bytes",
                self.size
            )));
        }
        let writer =
            self.taken()?.ok_or_else(|| PyValueError::new_err("the object is sealed or discarded"))?;
        py.detach(|| writer.seal(length)).map_err(|e| to_python(py, &e))
    }

    /// Discards the object.
    fn abort(&self) -> PyResult<()> {
        self.taken().map(drop)
    }

    fn __len__(&self) -> usize {
        self.size
    }

    /// # Safety
    /// Called by CPython with a live view.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let me = slf.get();
        let start = {
            let mut state = me.state.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(writer) = &state.0 else {
                return Err(PyBufferError::new_err("the object is sealed or discarded"));
            };
            let start = writer.start();
            state.1 += 1;
            start
        };
        // SAFETY: a live view; the memory stays until the last view is released, since sealing
        // waits for that.
        unsafe { show(slf.clone().into_any(), view, flags, start, me.size, true) }
    }

    /// # Safety
    /// Called by CPython with a view of `__getbuffer__`.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 -= 1;
    }
}

/// An object of a pool: an immutable buffer of bytes.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct PoolObject(pool::PoolObject);

#[pymethods]
impl PoolObject {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// # Safety
    /// Called by CPython with a live view.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("an object of a pool never changes"));
        }
        let (start, length) = (slf.get().0.as_ptr().cast_mut(), slf.get().0.len());
        // SAFETY: a live view; the object keeps its memory.
        unsafe { show(slf.into_any(), view, flags, start, length, false) }
    }
}

/// Fills a view of bytes.
///
/// # Safety
/// `view` is live, or null; `owner` keeps the memory alive.
unsafe fn show(
    owner: Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
    start: *mut u8,
    length: usize,
    writable: bool,
) -> PyResult<()> {
    const BYTE: &CStr = c"B";
    if view.is_null() {
        return Err(PyBufferError::new_err("no view"));
    }
    let wants = |flag: c_int| flags & flag == flag;
    // SAFETY: the view is live; it points into itself, to static memory, or to memory of the owner.
    unsafe {
        (*view).buf = start.cast::<c_void>();
        (*view).len = ffi::Py_ssize_t::try_from(length).unwrap_or(0);
        (*view).itemsize = 1;
        (*view).readonly = c_int::from(!writable);
        (*view).ndim = 1;
        (*view).format =
            if wants(ffi::PyBUF_FORMAT) { BYTE.as_ptr().cast_mut() } else { std::ptr::null_mut() };
        (*view).shape = if wants(ffi::PyBUF_ND) { &raw mut (*view).len } else { std::ptr::null_mut() };
        (*view).strides =
            if wants(ffi::PyBUF_STRIDES) { &raw mut (*view).itemsize } else { std::ptr::null_mut() };
        (*view).suboffsets = std::ptr::null_mut();
        (*view).internal = std::ptr::null_mut();
        (*view).obj = owner.into_ptr();
    }
    Ok(())
}
