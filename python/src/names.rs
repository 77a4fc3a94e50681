//! Names: bytes in files, text in Python.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// Decodes a name; bytes that are not UTF-8 become lone surrogates, as in file names.
pub(crate) fn decode<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(name) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => PyBytes::new(py, name).call_method1("decode", ("utf-8", "surrogateescape")),
    }
}
