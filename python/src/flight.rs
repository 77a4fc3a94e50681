//! Tables on Flight servers.

use crate::capsules::{Reader, export_schema, export_stream};
use crate::errors::to_python;
use hyperchunk_arrow::flight::{self, Query};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

/// Table on a Flight server.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct RemoteTable(flight::RemoteTable);

#[pymethods]
impl RemoteTable {
    /// Opens the table that a URL and a query (JSON) name.
    #[staticmethod]
    fn open(py: Python<'_>, url: &str, query: &str, network: &Bound<'_, PyDict>) -> PyResult<Self> {
        let options = crate::network::options(network)?;
        let opened = py.detach(|| {
            let query = Query::parse(query.as_bytes())?;
            flight::RemoteTable::open(url, query, &options)
        });
        opened.map(Self).map_err(|e| to_python(py, &e))
    }

    /// Number of rows before filtering by values.
    #[getter]
    fn num_rows(&self) -> u64 {
        self.0.rows()
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// True if the columns are mapped directly from the server's file on this machine.
    #[getter]
    fn is_local(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.is_local())
    }

    /// Query as JSON.
    #[getter]
    fn query(&self) -> String {
        self.0.query().to_json().to_string()
    }

    /// Returns the table with the given columns.
    fn select(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<Self> {
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        self.0.select(&columns).map(Self).map_err(|e| to_python(py, &e))
    }

    /// Returns the table with a range of rows.
    fn slice(&self, py: Python<'_>, start: u64, end: u64) -> PyResult<Self> {
        self.0.slice(start..end).map(Self).map_err(|e| to_python(py, &e))
    }

    /// Exports the schema as an Arrow capsule.
    fn schema_capsule<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export_schema(py, &self.0.schema())
    }

    /// Exports the rows as an Arrow capsule.
    fn stream_capsule<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let batches = py.detach(|| self.0.batches()).map_err(|e| to_python(py, &e))?;
        export_stream(py, Reader(Some(batches), self.0.schema()))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}
