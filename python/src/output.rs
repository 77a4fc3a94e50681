//! Output files and folders of Python code: see `hyperchunk::output`.

use crate::errors::to_python;
use hyperchunk::{Error, ErrorKind, output};
use pyo3::prelude::*;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// A file that gets its name when it is complete; a context manager, which deletes the file after an exception.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    inner: Mutex<Option<BufWriter<output::Output>>>,
}

impl OutputFile {
    fn failed(&self, error: &std::io::Error) -> Error {
        Error::new(ErrorKind::Io, format!("cannot write {}: {error}", self.path.display()))
    }

    fn take(&self) -> Option<BufWriter<output::Output>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl OutputFile {
    /// Starts a file. `inputs` are files that it must not replace.
    #[new]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
        overwrite: bool,
        inputs: Vec<PathBuf>,
    ) -> PyResult<Self> {
        let inputs: Vec<_> = inputs.iter().map(PathBuf::as_path).collect();
        let made =
            output::check(&path, overwrite, &inputs).and_then(|()| output::Output::create(&path, overwrite));
        let made = made.map_err(|error| to_python(py, &error))?;
        Ok(Self { path, inner: Mutex::new(Some(BufWriter::new(made))) })
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Appends bytes.
    fn write(&self, py: Python<'_>, data: &[u8]) -> PyResult<()> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = || std::io::Error::other("the file is closed");
        let written = inner.as_mut().ok_or_else(closed).and_then(|out| out.write_all(data));
        written.map_err(|error| to_python(py, &self.failed(&error)))
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let Some(out) = self.take() else { return Ok(()) };
        if !kind.is_none() {
            // Dropping it deletes the file; unwritten data are of no use.
            drop(out.into_parts());
            return Ok(());
        }
        let finished = py.detach(|| out.into_inner().map_err(|error| self.failed(error.error()))?.finish());
        finished.map_err(|error| to_python(py, &error))
    }
}

/// A folder that gets its name when it is complete; a context manager, which returns the folder's path until then and
/// deletes it after an exception.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct OutputFolder(Mutex<Option<output::NewFolder>>);

#[pymethods]
impl OutputFolder {
    /// Starts a folder.
    #[new]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
        overwrite: bool,
    ) -> PyResult<Self> {
        let made = output::NewFolder::create(&path, overwrite).map_err(|error| to_python(py, &error))?;
        Ok(Self(Mutex::new(Some(made))))
    }

    fn __enter__(&self) -> PathBuf {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.as_ref().map(|folder| folder.path().to_owned()).unwrap_or_default()
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match taken {
            Some(folder) if kind.is_none() => {
                py.detach(|| folder.finish()).map_err(|error| to_python(py, &error))
            }
            // Dropping it deletes the folder.
            _ => Ok(()),
        }
    }
}

/// Gives a complete file its final name in the same folder.
#[pyfunction]
pub(crate) fn put_output(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] made: PathBuf,
    #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
    overwrite: bool,
) -> PyResult<()> {
    py.detach(|| output::publish(&made, &path, overwrite)).map_err(|error| to_python(py, &error))
}

/// Raises an error for an output that exists (unless it may be replaced), that is one of the inputs, or whose
/// folder is missing or reached through another user's link.
#[pyfunction]
pub(crate) fn check_output(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
    overwrite: bool,
    inputs: Vec<PathBuf>,
) -> PyResult<()> {
    let inputs: Vec<_> = inputs.iter().map(PathBuf::as_path).collect();
    let checked = output::check(&path, overwrite, &inputs).and_then(|()| output::check_folder_path(&path));
    checked.map_err(|error| to_python(py, &error))
}

/// Resolves the links of a path that is written as `open(path, "w")` does; another user's link is an error.
#[pyfunction]
pub(crate) fn output_target(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
) -> PyResult<PathBuf> {
    py.detach(|| output::target(&path)).map_err(|error| to_python(py, &error))
}
