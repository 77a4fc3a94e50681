//! Record batches that a Python iterator yields, one table after another, as one stream.

use crate::capsules::{Capsules, Reader, export, export_stream, import_schema};
use crate::errors::to_python;
use crate::table::Batch;
use hyperchunk_arrow::arrow_array::{RecordBatch, RecordBatchOptions};
use hyperchunk_arrow::arrow_schema::{ArrowError, SchemaRef};
use hyperchunk_arrow::view;
use pyo3::exceptions::{PyStopIteration, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::{Arc, Mutex, PoisonError};

/// Batches of several tables, each with the schema of the first one.
#[pyclass(frozen, module = "hyperchunk._core")]
pub(crate) struct JoinedBatches {
    schema: SchemaRef,
    batches: Mutex<Option<PythonBatches>>,
}

/// Iterator over the batches that a Python iterator yields.
struct PythonBatches {
    schema: SchemaRef,
    next: Py<PyAny>,
}

impl PythonBatches {
    fn pull(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        match self.next.bind(py).call_method0("__next__") {
            Ok(found) => {
                let batch = found.extract::<PyRef<'_, Batch>>()?.0.clone();
                let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                // The files' metadata about datasets may differ, but not the types.
                let schema = SchemaRef::clone(&self.schema);
                let batch = RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &options);
                batch.map(Some).map_err(|error| PyValueError::new_err(error.to_string()))
            }
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Iterator for PythonBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let pulled = Python::try_attach(|py| self.pull(py).map_err(|error| error.value(py).to_string()));
        let ended = || Err("the interpreter has ended".to_owned());
        pulled.unwrap_or_else(ended).map_err(ArrowError::ComputeError).transpose()
    }
}

impl JoinedBatches {
    fn take(&self) -> PyResult<PythonBatches> {
        let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner).take();
        batches.ok_or_else(|| PyValueError::new_err("these rows were already consumed"))
    }
}

#[pymethods]
impl JoinedBatches {
    /// Creates a stream of a schema in a capsule and an iterator over batches.
    #[new]
    fn new(schema: &Bound<'_, PyCapsule>, batches: Py<PyAny>) -> PyResult<Self> {
        let schema = Arc::new(import_schema(schema)?);
        let batches = PythonBatches { schema: SchemaRef::clone(&schema), next: batches };
        Ok(Self { schema, batches: Mutex::new(Some(batches)) })
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        // The iterator is called without the lock: it may release the GIL.
        let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(batches) = batches else { return Ok(None) };
        let found = batches.pull(py)?;
        *self.batches.lock().unwrap_or_else(PoisonError::into_inner) = Some(batches);
        Ok(found.map(Batch))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol allows ignoring the request: rows have the types of their tables.
        drop(requested_schema);
        let batches = self.take()?;
        export_stream(py, Reader(Some(batches), SchemaRef::clone(&self.schema)))
    }

    /// Exports all rows at once, as a pair of Arrow capsules.
    fn array_capsules<'py>(&self, py: Python<'py>) -> PyResult<Capsules<'py>> {
        let batches = self.take()?;
        let mut all = Vec::new();
        while let Some(batch) = batches.pull(py)? {
            all.push(batch);
        }
        let joined = py.detach(|| view::joined(&self.schema, &all)).map_err(|e| to_python(py, &e))?;
        export(py, &self.schema, joined)
    }
}
