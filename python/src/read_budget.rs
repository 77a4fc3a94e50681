//! Computing time that several reads of one call share.

use hyperchunk::live::{ComputeTime, within_read};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;

/// Account of the computing time of live datasets, for calls that read from several files.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct ReadBudget(Arc<ComputeTime>);

#[pymethods]
impl ReadBudget {
    /// Creates an empty account.
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    /// Calls a function; its reads on this thread count as parts of one read.
    #[pyo3(signature = (function, *arguments))]
    fn run<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        arguments: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        within_read(Some(Arc::clone(&self.0)), || function.call1(arguments))
    }
}
