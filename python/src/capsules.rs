//! PyCapsules of Arrow's C interface: exchange of schemas, arrays and streams with other libraries.

use crate::errors::to_python;
use hyperchunk::Error;
use hyperchunk_arrow::arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use hyperchunk_arrow::arrow_array::ffi_stream::FFI_ArrowArrayStream;
use hyperchunk_arrow::arrow_array::{Array, BooleanArray, RecordBatch, RecordBatchReader, StructArray};
use hyperchunk_arrow::arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use pyo3::exceptions::{PyBaseException, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::cell::RefCell;
use std::ffi::CStr;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
pub(crate) const STREAM: &CStr = c"arrow_array_stream";

/// A capsule with a schema and one with an array.
pub(crate) type Capsules<'py> = (Bound<'py, PyCapsule>, Bound<'py, PyCapsule>);

thread_local! {
    /// The last error of a stream that this thread has read: Arrow's C interface passes only a number and a text on.
    static STREAM_ERROR: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Returns the last error of a stream that this thread has read, once.
#[pyfunction]
pub(crate) fn take_stream_error<'py>(py: Python<'py>) -> Option<Bound<'py, PyBaseException>> {
    let error = STREAM_ERROR.with(RefCell::take)?;
    Some(to_python(py, &error).into_value(py).into_bound(py))
}

/// Exports record batches as a capsule with an Arrow stream.
pub(crate) fn export_stream<B: BatchIterator + 'static>(
    py: Python<'_>,
    reader: Reader<B>,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
}

pub(crate) fn export_schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let exported = FFI_ArrowSchema::try_from(schema).map_err(|e| PyValueError::new_err(e.to_string()))?;
    PyCapsule::new_with_value(py, exported, SCHEMA)
}

pub(crate) fn export<'py>(py: Python<'py>, schema: &Schema, batch: RecordBatch) -> PyResult<Capsules<'py>> {
    let array = FFI_ArrowArray::new(&StructArray::from(batch).to_data());
    Ok((export_schema(py, schema)?, PyCapsule::new_with_value(py, array, ARRAY)?))
}

/// Returns the schema in a capsule.
pub(crate) fn import_schema(capsule: &Bound<'_, PyCapsule>) -> PyResult<Schema> {
    let pointer = capsule.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    // SAFETY: a capsule of this name holds a valid schema of Arrow's C interface for its whole
    // lifetime.
    let schema = unsafe { pointer.as_ref() };
    Schema::try_from(schema).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// Takes the boolean array out of a pair of capsules.
pub(crate) fn truths(schema: &Bound<'_, PyCapsule>, array: &Bound<'_, PyCapsule>) -> PyResult<BooleanArray> {
    let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: a capsule of this name holds an array of Arrow's C interface; `from_raw` takes it and
    // leaves an empty one.
    let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) };
    // SAFETY: as above, for a schema, which is only borrowed.
    let schema = unsafe { schema.as_ref() };
    // SAFETY: the schema describes the array: the producer of the two capsules guarantees it.
    let data = unsafe { from_ffi(array, schema) }.map_err(|e| PyValueError::new_err(e.to_string()))?;
    if *data.data_type() != DataType::Boolean {
        return Err(PyValueError::new_err(format!("expected booleans, got {}", data.data_type())));
    }
    Ok(BooleanArray::from(data))
}

/// Reader of batches for a library that may call it, or drop it, with or without the GIL; the
/// iterator may need the GIL.
pub(crate) struct Reader<B: BatchIterator>(pub(crate) Option<B>, pub(crate) SchemaRef);

/// Iterator that produces record batches.
pub(crate) trait BatchIterator: Iterator<Item = Result<RecordBatch, ArrowError>> + Send {}

impl<B: Iterator<Item = Result<RecordBatch, ArrowError>> + Send> BatchIterator for B {}

impl<B: BatchIterator> Iterator for Reader<B> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batches = self.0.as_mut()?;
        let next = detached(move || batches.next()).flatten();
        let cause = match &next {
            Some(Err(ArrowError::ExternalError(error))) => error.downcast_ref::<Error>(),
            Some(Err(ArrowError::IoError(_, error))) => {
                error.get_ref().and_then(|error| error.downcast_ref())
            }
            _ => None,
        };
        if let Some(error) = cause {
            STREAM_ERROR.with(|last| last.replace(Some(error.clone())));
        }
        next
    }
}

impl<B: BatchIterator> RecordBatchReader for Reader<B> {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.1)
    }
}

impl<B: BatchIterator> Drop for Reader<B> {
    fn drop(&mut self) {
        let batches = self.0.take();
        detached(move || drop(batches));
    }
}

/// Runs `work` without the GIL.
pub(crate) fn detached<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    let (mut work, mut done) = (Some(work), None);
    // SAFETY: reads a variable of this thread.
    let known = !unsafe { ffi::PyGILState_GetThisThreadState() }.is_null();
    if known {
        Python::try_attach(|py| done = work.take().map(|work| py.detach(work)));
    }
    // The interpreter does not know this thread, or is shutting down.
    done.or_else(|| work.map(|work| work()))
}
