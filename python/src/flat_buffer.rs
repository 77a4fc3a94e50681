//! Flat buffer through which a Python function accesses a dataset.
//!
//! Elements are returned as Python numbers, so that scalar code computes as it did under HDF5-UDF. Slices,
//! arithmetic and `numpy.asarray` see the same memory as NumPy arrays.

use crate::flat_slots;
use hyperchunk_udf::datatype::ElementType;
use hyperchunk_udf::worker::CallSlot;
use pyo3::exceptions::{PyBufferError, PyIndexError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyTuple};
use std::ffi::{CStr, c_int, c_void};

/// Elements of a dataset in row-major order.
#[pyclass(module = "hyperchunk._core", frozen, subclass)]
pub(crate) struct FlatBuffer {
    data: *mut u8,
    count: usize,
    datatype: ElementType,
    writable: bool,
    /// Shape and strides that an exported buffer points to.
    shape: [ffi::Py_ssize_t; 1],
    strides: [ffi::Py_ssize_t; 1],
    /// Shape of the block.
    #[pyo3(get)]
    dims: Py<PyTuple>,
}

// SAFETY: the memory stays mapped until the process ends, and this type accesses it with the GIL
// held. Threads that race on views of it race only in the function's own process, over its own
// data.
unsafe impl Send for FlatBuffer {}
// SAFETY: as above.
unsafe impl Sync for FlatBuffer {}

macro_rules! read {
    ($py:expr, $pointer:expr, $type:ty, $python:ty, $wide:ty) => {{
        // SAFETY: the caller has checked the position; slots are aligned to their type.
        let value = unsafe { *$pointer.cast::<$type>() };
        <$python>::new($py, <$wide>::from(value)).into_any()
    }};
}

impl FlatBuffer {
    /// Creates the buffer of a slot: numbers in row-major order, or the bytes of elements that are not
    /// numbers.
    pub(crate) fn new(slot: &CallSlot<'_>, dims: Py<PyTuple>) -> Self {
        let datatype = slot.datatype.flat_number().unwrap_or(ElementType::UInt8);
        let elements = usize::try_from(slot.count).unwrap_or(0);
        let count = elements.saturating_mul(slot.datatype.size() / datatype.size());
        FlatBuffer {
            data: slot.data,
            count,
            datatype,
            writable: slot.output,
            shape: [ffi::Py_ssize_t::try_from(count).unwrap_or(0)],
            strides: [ffi::Py_ssize_t::try_from(datatype.size()).unwrap_or(1)],
            dims,
        }
    }

    /// Returns the object passed to a function, of the type with fast [slots](super::flat_slots).
    pub(crate) fn into_object<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let object = Bound::new(py, self)?.into_any();
        object.setattr("__class__", flat_slots::fast_type(py)?)?;
        Ok(object)
    }

    /// Returns the element at an index in bounds, or None if the general method must handle or
    /// refuse the index.
    pub(crate) fn number(&self, py: Python<'_>, index: isize) -> Option<*mut ffi::PyObject> {
        let at = usize::try_from(index).ok().filter(|&at| at < self.count)?;
        Some(self.element(py, at).into_ptr())
    }

    /// Stores a float in a writable dataset of floats; returns `false` if the general method must
    /// do it.
    pub(crate) fn store(&self, index: isize, value: f64) -> bool {
        let Some(at) = usize::try_from(index).ok().filter(|&at| at < self.count && self.writable) else {
            return false;
        };
        // SAFETY: inside the buffer.
        let p = unsafe { self.data.add(at * self.datatype.size()) };
        // SAFETY: slots are aligned to their type, and each arm writes exactly one element.
        unsafe {
            match self.datatype {
                #[expect(clippy::cast_possible_truncation, reason = "as in __setitem__")]
                ElementType::Float32 => *p.cast::<f32>() = value as f32,
                ElementType::Float64 => *p.cast::<f64>() = value,
                _ => return false,
            }
        }
        true
    }

    #[inline]
    fn element<'py>(&self, py: Python<'py>, at: usize) -> Bound<'py, PyAny> {
        // SAFETY: the caller has checked the position.
        let p = unsafe { self.data.add(at * self.datatype.size()) };
        match self.datatype {
            ElementType::Int8 => read!(py, p, i8, PyInt, i64),
            ElementType::Int16 => read!(py, p, i16, PyInt, i64),
            ElementType::Int32 => read!(py, p, i32, PyInt, i64),
            ElementType::Int64 => read!(py, p, i64, PyInt, i64),
            ElementType::UInt8 => read!(py, p, u8, PyInt, u64),
            ElementType::UInt16 => read!(py, p, u16, PyInt, u64),
            ElementType::UInt32 => read!(py, p, u32, PyInt, u64),
            ElementType::UInt64 => read!(py, p, u64, PyInt, u64),
            ElementType::Float32 => read!(py, p, f32, PyFloat, f64),
            ElementType::Float64 => read!(py, p, f64, PyFloat, f64),
        }
    }

    fn position(&self, index: isize) -> PyResult<usize> {
        let at = if index < 0 { index.checked_add_unsigned(self.count) } else { Some(index) };
        match at.and_then(|n| usize::try_from(n).ok()).filter(|&n| n < self.count) {
            Some(at) => Ok(at),
            None => Err(PyIndexError::new_err(format!(
                "index {index} is outside the dataset's {} elements",
                self.count
            ))),
        }
    }

    fn array<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("numpy")?.getattr("asarray")?.call1((slf,))
    }
}

fn format(datatype: ElementType) -> &'static CStr {
    match datatype {
        ElementType::Int8 => c"b",
        ElementType::Int16 => c"h",
        ElementType::Int32 => c"i",
        ElementType::Int64 => c"q",
        ElementType::UInt8 => c"B",
        ElementType::UInt16 => c"H",
        ElementType::UInt32 => c"I",
        ElementType::UInt64 => c"Q",
        ElementType::Float32 => c"f",
        ElementType::Float64 => c"d",
    }
}

/// Converts an index. Loops spend most of their time here, so plain integers take the shortest
/// path.
fn whole(index: &Bound<'_, PyAny>) -> Option<isize> {
    // SAFETY: the objects are live; `PyLong_CheckExact` has checked the type before the integer is
    // read.
    let n = unsafe {
        if ffi::PyLong_CheckExact(index.as_ptr()) == 0 {
            return index.extract().ok();
        }
        ffi::PyLong_AsSsize_t(index.as_ptr())
    };
    // -1 is a valid index and also signals an error.
    if n == -1 && PyErr::take(index.py()).is_some() { None } else { Some(n) }
}

/// Converts a number for a dataset of floats.
fn float(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    // SAFETY: a live object.
    let number = unsafe { ffi::PyFloat_AsDouble(value.as_ptr()) };
    match (number == -1.0).then(|| PyErr::take(value.py())).flatten() {
        Some(error) => Err(error),
        None => Ok(number),
    }
}

/// Converts an integer; refuses a float, as cffi does, because its fraction would be lost.
fn integer<T: TryFrom<i128>>(value: &Bound<'_, PyAny>, datatype: ElementType) -> PyResult<T> {
    let wrong =
        || PyTypeError::new_err(format!("an {} dataset takes integers; write int(…)", datatype.name()));
    let number = match value.extract::<i64>() {
        Ok(n) => i128::from(n),
        Err(_) => match value.extract::<u64>() {
            Ok(n) => i128::from(n),
            Err(e) if e.is_instance_of::<PyOverflowError>(value.py()) => return Err(e),
            Err(_) => return Err(wrong()),
        },
    };
    T::try_from(number)
        .map_err(|_| PyOverflowError::new_err(format!("{number} does not fit into {}", datatype.name())))
}

#[pymethods]
impl FlatBuffer {
    fn __len__(&self) -> usize {
        self.count
    }

    /// Shape of the flat buffer: its number of elements.
    #[getter]
    fn shape(&self) -> (usize,) {
        (self.count,)
    }

    /// Name of the element type.
    #[getter]
    fn datatype(&self) -> &'static str {
        self.datatype.name()
    }

    /// Address of the first element.
    #[getter]
    fn address(&self) -> usize {
        self.data as usize
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let Some(index) = whole(index) else { return Self::array(slf)?.get_item(index) };
        let me = slf.get();
        let at = me.position(index)?;
        Ok(me.element(py, at))
    }

    fn __setitem__(
        slf: &Bound<'_, Self>,
        index: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let Some(index) = whole(index) else { return Self::array(slf)?.set_item(index, value) };
        let me = slf.get();
        if !me.writable {
            return Err(PyValueError::new_err("this dataset is an input and cannot be written"));
        }
        let at = me.position(index)?;
        // SAFETY: inside the buffer.
        let p = unsafe { me.data.add(at * me.datatype.size()) };
        // SAFETY: slots are aligned to their type, and each arm writes exactly one element.
        unsafe {
            match me.datatype {
                ElementType::Int8 => *p.cast::<i8>() = integer(value, me.datatype)?,
                ElementType::Int16 => *p.cast::<i16>() = integer(value, me.datatype)?,
                ElementType::Int32 => *p.cast::<i32>() = integer(value, me.datatype)?,
                ElementType::Int64 => *p.cast::<i64>() = integer(value, me.datatype)?,
                ElementType::UInt8 => *p = integer(value, me.datatype)?,
                ElementType::UInt16 => *p.cast::<u16>() = integer(value, me.datatype)?,
                ElementType::UInt32 => *p.cast::<u32>() = integer(value, me.datatype)?,
                ElementType::UInt64 => *p.cast::<u64>() = integer(value, me.datatype)?,
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "rounding to the dataset's type is what a store does"
                )]
                ElementType::Float32 => *p.cast::<f32>() = float(value)? as f32,
                ElementType::Float64 => *p.cast::<f64>() = float(value)?,
            }
        }
        Ok(())
    }

    /// Returns the string whose address the eight bytes at `at` hold, or an empty one for null.
    fn text_at<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyBytes>> {
        let inside = at.checked_add(size_of::<usize>()).is_some_and(|end| end <= self.count);
        if self.datatype != ElementType::UInt8 || self.writable || !inside {
            return Err(PyIndexError::new_err("no string has its address here"));
        }
        // SAFETY: inside the buffer. The host has put addresses of terminated strings into inputs, which are
        // never written; if an address is wrong, only this sandboxed process crashes.
        let text = unsafe {
            let pointer = self.data.add(at).cast::<*const std::ffi::c_char>().read_unaligned();
            if pointer.is_null() { c"" } else { CStr::from_ptr(pointer) }
        };
        Ok(PyBytes::new(py, text.to_bytes()))
    }

    fn __repr__(&self) -> String {
        format!("<dataset buffer: {} x {}>", self.count, self.datatype.name())
    }

    fn __add__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Self::array(slf)?.add(other)
    }

    fn __radd__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        other.add(Self::array(slf)?)
    }

    fn __sub__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Self::array(slf)?.sub(other)
    }

    fn __rsub__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        other.sub(Self::array(slf)?)
    }

    fn __mul__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Self::array(slf)?.mul(other)
    }

    fn __rmul__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        other.mul(Self::array(slf)?)
    }

    fn __truediv__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Self::array(slf)?.div(other)
    }

    fn __rtruediv__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        other.div(Self::array(slf)?)
    }

    fn __neg__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::array(slf)?.neg()
    }

    /// # Safety
    /// Called by CPython with a live view.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let me = slf.get();
        if view.is_null() {
            return Err(PyBufferError::new_err("no view"));
        }
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE && !me.writable {
            return Err(PyBufferError::new_err("this dataset is an input and cannot be written"));
        }
        let wants = |flag: c_int| flags & flag == flag;
        let total = me.count * me.datatype.size();
        // SAFETY: the view is live. It points into the object, which it keeps alive, and to memory
        // that stays mapped until the process ends.
        unsafe {
            (*view).buf = me.data.cast::<c_void>();
            (*view).len = ffi::Py_ssize_t::try_from(total).unwrap_or(0);
            (*view).itemsize = me.strides[0];
            (*view).readonly = c_int::from(!me.writable);
            (*view).ndim = 1;
            (*view).format = if wants(ffi::PyBUF_FORMAT) {
                format(me.datatype).as_ptr().cast_mut()
            } else {
                std::ptr::null_mut()
            };
            (*view).shape =
                if wants(ffi::PyBUF_ND) { me.shape.as_ptr().cast_mut() } else { std::ptr::null_mut() };
            (*view).strides =
                if wants(ffi::PyBUF_STRIDES) { me.strides.as_ptr().cast_mut() } else { std::ptr::null_mut() };
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.into_ptr();
        }
        Ok(())
    }
}
