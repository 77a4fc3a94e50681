//! Names, which are bytes in files and text in Python.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// The text of a name; bytes that are not UTF-8 become lone surrogates, as in names of files.
pub(crate) fn decode<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(name) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => PyBytes::new(py, name).call_method1("decode", ("utf-8", "surrogateescape")),
    }
}
