//! Paths that come from Python. PyO3 panics where a text is no name of a file (a lone surrogate); here that is Python's own
//! error.

use pyo3::prelude::*;
use std::path::PathBuf;

/// A path: a text, bytes, or an object with a path.
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

/// A path, or none.
pub(crate) fn optional(value: &Bound<'_, PyAny>) -> PyResult<Option<PathBuf>> {
    if value.is_none() { Ok(None) } else { path(value).map(Some) }
}
