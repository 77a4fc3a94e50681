//! Paths passed from Python. PyO3 panics if a text is not a valid file name (a lone surrogate);
//! these functions raise Python's own error.

use pyo3::prelude::*;
use std::path::PathBuf;

/// Converts a path: text, bytes, or an object with `__fspath__`.
pub(crate) fn path(value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStringExt as _;
        let bytes = value.py().import("os")?.getattr("fsencode")?.call1((value,))?;
        Ok(PathBuf::from(std::ffi::OsString::from_vec(bytes.extract()?)))
    }
    #[cfg(not(unix))]
    value.extract()
}

/// Converts an optional path.
pub(crate) fn optional(value: &Bound<'_, PyAny>) -> PyResult<Option<PathBuf>> {
    if value.is_none() { Ok(None) } else { path(value).map(Some) }
}
