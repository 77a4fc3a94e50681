//! Salvage of damaged files.

use crate::errors::opening;
use hyperchunk::salvage::SalvageOptions;
use pyo3::prelude::*;
use std::path::PathBuf;

/// Copies the intact parts of a damaged file to a new one; returns the report as JSON.
#[pyfunction]
#[pyo3(signature = (path, output, partial, overwrite, threads))]
pub(crate) fn salvage(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
    #[pyo3(from_py_with = crate::paths::path)] output: PathBuf,
    partial: bool,
    overwrite: bool,
    threads: usize,
) -> PyResult<String> {
    let mut options = SalvageOptions::default();
    (options.partial, options.replace, options.threads) = (partial, overwrite, threads);
    let report = py.detach(|| hyperchunk::salvage::salvage(&path, &output, &options, &|_, _| {}));
    report.map(|report| report.to_json().to_string()).map_err(|error| opening(py, &error))
}
