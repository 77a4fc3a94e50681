//! Writers of dual files, which are valid as HDF5 and as Arrow.

use crate::datatype::Datatype;
use crate::errors::{opening, to_python};
use crate::memory::look_all;
use crate::writer::{Writer, options, target};
use hyperchunk_arrow::arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use hyperchunk_arrow::arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use hyperchunk_arrow::arrow_array::{RecordBatch, RecordBatchReader, StructArray};
use hyperchunk_arrow::arrow_schema::{ArrowError, Schema};
use hyperchunk_arrow::dual::{self, DualOptions, NewColumn};
use hyperchunk_arrow::{Error, Result};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::path::PathBuf;
use std::sync::Mutex;

/// Writer of a dual file.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct DualWriter(dual::DualWriter);

type Batches = Box<dyn Iterator<Item = std::result::Result<RecordBatch, ArrowError>> + Send>;

/// Stream of record batches from another library.
#[pyclass(frozen, module = "hyperchunk._core")]
pub(crate) struct ArrowStream {
    reader: Mutex<Option<Batches>>,
    schema: Schema,
}

#[pymethods]
impl ArrowStream {
    /// Takes the stream out of a capsule.
    #[new]
    fn new(capsule: &Bound<'_, PyCapsule>) -> PyResult<Self> {
        let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
        // SAFETY: a capsule of this name holds a stream, by Arrow's PyCapsule interface. `from_raw`
        // moves it out and leaves it empty.
        let reader =
            unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr().cast::<FFI_ArrowArrayStream>()) };
        let reader = reader.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let schema = (*reader.schema()).clone();
        Ok(Self { reader: Mutex::new(Some(Box::new(reader))), schema })
    }

    /// Creates a stream of the one batch in a pair of capsules.
    #[staticmethod]
    fn from_array(schema: &Bound<'_, PyCapsule>, array: &Bound<'_, PyCapsule>) -> PyResult<Self> {
        let wrong = |error: ArrowError| PyValueError::new_err(error.to_string());
        let schema = schema.pointer_checked(Some(c"arrow_schema"))?;
        let array = array.pointer_checked(Some(c"arrow_array"))?;
        // SAFETY: capsules of these names hold such structures, by Arrow's PyCapsule interface.
        // `from_raw` moves the array out and leaves it empty.
        let data = unsafe {
            let array = FFI_ArrowArray::from_raw(array.as_ptr().cast());
            from_ffi(array, schema.cast::<FFI_ArrowSchema>().as_ref())
        };
        let batch = RecordBatch::from(StructArray::from(data.map_err(wrong)?));
        // SAFETY: as above.
        let schema = unsafe { Schema::try_from(schema.cast::<FFI_ArrowSchema>().as_ref()) }.map_err(wrong)?;
        let batches: Batches = Box::new(std::iter::once(Ok(batch)));
        Ok(Self { reader: Mutex::new(Some(batches)), schema })
    }

    /// Creates a stream with the columns of a capsule and no batches.
    #[staticmethod]
    fn from_schema(schema: &Bound<'_, PyCapsule>) -> PyResult<Self> {
        let pointer = schema.pointer_checked(Some(c"arrow_schema"))?;
        // SAFETY: a capsule of this name holds a schema, by Arrow's PyCapsule interface.
        let schema = unsafe { Schema::try_from(pointer.cast::<FFI_ArrowSchema>().as_ref()) };
        let schema = schema.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { reader: Mutex::new(None), schema })
    }
}

impl DualWriter {
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&dual::DualWriter) -> Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| work(&self.0)).map_err(|e| to_python(py, &e))
    }
}

fn dual_options(
    group: String,
    row_group: Option<u64>,
    growable: bool,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<DualOptions> {
    let file = options(keywords)?;
    let mut made = DualOptions::default();
    made.user_block = Some(file.user_block).filter(|size| *size > 0);
    (made.group, made.row_group, made.growable, made.file) = (group, row_group, growable, file);
    Ok(made)
}

#[pymethods]
impl DualWriter {
    /// Creates a file with the columns of a stream.
    #[staticmethod]
    #[pyo3(signature = (path, stream, group, row_group, growable, **keywords))]
    fn from_stream(
        py: Python<'_>,
        #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
        stream: &ArrowStream,
        group: String,
        row_group: Option<u64>,
        growable: bool,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = dual_options(group, row_group, growable, keywords)?;
        let made =
            py.detach(|| dual::DualWriter::create(target(path, &options.file)?, &stream.schema, &options));
        made.map(Self).map_err(|e| opening(py, &e))
    }

    /// Creates a file with columns of HDF5 types: name, type and cell extent of each.
    #[staticmethod]
    #[pyo3(signature = (path, columns, group, row_group, growable, **keywords))]
    fn from_columns(
        py: Python<'_>,
        #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
        columns: Vec<(String, PyRef<'_, Datatype>, Vec<u64>)>,
        group: String,
        row_group: Option<u64>,
        growable: bool,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = dual_options(group, row_group, growable, keywords)?;
        let columns: Vec<NewColumn> = columns
            .into_iter()
            .map(|(name, datatype, cell)| NewColumn { name, datatype: datatype.0.clone(), cell })
            .collect();
        let made =
            py.detach(|| dual::DualWriter::create_columns(target(path, &options.file)?, &columns, &options));
        made.map(Self).map_err(|e| opening(py, &e))
    }

    /// Appends all rows of a stream; `rows` is their number, if known.
    #[pyo3(signature = (stream, rows=None))]
    fn append_stream(&self, py: Python<'_>, stream: &ArrowStream, rows: Option<u64>) -> PyResult<u64> {
        let reader = stream.reader.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let reader = reader.ok_or_else(|| PyValueError::new_err("the stream was read before"))?;
        // The GIL is released: the other library may need it.
        self.run(py, |file| {
            let mut added = 0;
            for batch in reader {
                let batch = batch
                    .map_err(|error| Error::invalid(format!("cannot read the Arrow stream: {error}")))?;
                file.append_first(&batch, rows)?;
                added += batch.num_rows() as u64;
            }
            Ok(added)
        })
    }

    /// Appends rows: each column is an object whose memory has its values in stored form.
    fn append_arrays(&self, py: Python<'_>, arrays: Vec<Bound<'_, PyAny>>, rows: usize) -> PyResult<()> {
        look_all(&arrays, |columns| {
            self.run(py, |file| file.append_stored(&columns, rows, Some(rows as u64)))
        })
    }

    /// Columns: name, type and cell extent of each.
    fn columns(&self) -> Vec<(String, Datatype, Vec<u64>)> {
        let columns = self.0.columns();
        columns.into_iter().map(|column| (column.name, Datatype(column.datatype), column.cell)).collect()
    }

    /// Number of rows written.
    #[getter]
    fn rows(&self) -> u64 {
        self.0.rows()
    }

    /// Sets an entry in the metadata of the schema.
    fn set_metadata(&self, key: &str, value: &str) {
        self.0.set_metadata(key, value);
    }

    /// Returns the writer of the file as HDF5.
    fn writer(&self) -> Writer {
        Writer { file: self.0.writer().clone(), memory: None }
    }

    /// Commits the rows written until now.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, dual::DualWriter::flush)
    }

    /// Commits and closes the file.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, dual::DualWriter::close)
    }

    /// Discards the file.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, dual::DualWriter::discard)
    }
}
