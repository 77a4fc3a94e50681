//! Standing queries on a store that is being written.

use crate::errors::to_python;
use hyperchunk_store::observe::follow::Follow;
use hyperchunk_store::query::Predicate;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// A flush of a writer: its name, whether the rows are appended, indices, values.
type FlushRow<'py> = (String, bool, Bound<'py, PyBytes>, Bound<'py, PyBytes>);
/// Result of a poll: flushes, bytes read, number of writers, whether all are done, stopped writers.
type PollResult<'py> = (Vec<FlushRow<'py>>, u64, usize, bool, Vec<String>);

/// Splits a predicate into the dataset that it names and the predicate about its values.
#[pyfunction]
pub(crate) fn predicate_of_dataset(py: Python<'_>, text: &str) -> PyResult<(String, String)> {
    let found = Predicate::parse_with_dataset(text).map_err(|e| to_python(py, &e))?;
    Ok((found.0, found.1.to_string()))
}

/// A standing query.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct StoreFollow(Mutex<Follow>);

#[pymethods]
impl StoreFollow {
    /// Starts to follow a dataset.
    #[new]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
        dataset: &str,
        predicate: &str,
    ) -> PyResult<Self> {
        let predicate: Predicate = predicate.parse().map_err(|e| to_python(py, &e))?;
        let follow = py.detach(|| Follow::new(&path, dataset.as_bytes(), predicate));
        follow.map(|follow| Self(Mutex::new(follow))).map_err(|e| to_python(py, &e))
    }

    /// Returns the matches flushed since the last poll.
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<PollResult<'py>> {
        let polled = py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).poll());
        let polled = polled.map_err(|e| to_python(py, &e))?;
        let seen = polled.seen.iter().map(|seen| {
            let indices: Vec<u8> = seen.indices.iter().flat_map(|index| index.to_ne_bytes()).collect();
            let (indices, values) = (PyBytes::new(py, &indices), PyBytes::new(py, &seen.values));
            (seen.writer.to_string(), seen.appended, indices, values)
        });
        let stopped = polled.stopped.iter().map(ToString::to_string).collect();
        Ok((seen.collect(), polled.bytes_scanned, polled.writers, polled.done, stopped))
    }
}
