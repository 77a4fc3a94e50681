//! Tables, and their exchange with Arrow's libraries as capsules.

use crate::capsules::{
    Capsules, Reader, detached, export, export_schema, export_stream, import_schema, truths,
};
use crate::dataset::Dataset;
use crate::errors::to_python;
use crate::object::Object;
use hyperchunk_arrow::arrow_array::RecordBatch;
use hyperchunk_arrow::arrow_buffer::Buffer;
use hyperchunk_arrow::predicate::{Nan, Predicate};
use hyperchunk_arrow::view::{self, Batches, TableOptions, ZonedColumn};
use hyperchunk_arrow::{Cells, Compounds, ConversionOptions, Enums, Half, Result, Strings};
use hyperchunk_store::Extreme;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A table over data of a file.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct Table(hyperchunk_arrow::Table);

/// Elements of a dataset in a mapped file.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct MappedDataset(Buffer);

/// Record batches of a table.
#[pyclass(frozen, module = "hyperchunk._core")]
pub(crate) struct RowBatches(Mutex<Reader<Batches>>);

/// A filtering scan of a table.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct Scan {
    scan: Mutex<Option<view::Scan>>,
    bytes_scanned: Arc<AtomicU64>,
}

/// Rows of a scan that satisfy a predicate; can be consumed once.
#[pyclass(frozen, module = "hyperchunk._core")]
pub(crate) struct FilteredRows(Mutex<Option<Reader<view::FilteredBatches>>>);

/// A part of a scan, before filtering.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct ScanPart(view::ScanPart);

/// A batch of rows.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct Batch(pub(crate) RecordBatch);

/// End row of each zone, statistics of the columns there, bytes of statistics read, and a mask of
/// the zones in which a predicate may be true.
pub(crate) type Zones<'py> = (Bound<'py, PyBytes>, Vec<ColumnZones<'py>>, u64, Option<Bound<'py, PyBytes>>);
/// Statistics of a column: name; for each zone, flags (1: has statistics; 2: has numbers; 4: may
/// have NaN), minimum and maximum, 8 bytes each.
pub(crate) type ColumnZones<'py> = (String, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

fn zoned<'py>(py: Python<'py>, column: &ZonedColumn) -> ColumnZones<'py> {
    let bits = |value: Extreme| match value {
        Extreme::Float(value) => value.to_ne_bytes(),
        Extreme::Signed(value) => value.to_ne_bytes(),
        Extreme::Unsigned(value) => value.to_ne_bytes(),
    };
    let (mut known, mut low, mut high) = (Vec::new(), Vec::new(), Vec::new());
    for bounds in &column.bounds {
        let numbers = bounds.and_then(|bounds| bounds.numbers);
        let nan = bounds.is_some_and(|bounds| bounds.nan);
        known.push(u8::from(bounds.is_some()) | u8::from(numbers.is_some()) << 1 | u8::from(nan) << 2);
        let (least, most) = numbers.map_or(([0; 8], [0; 8]), |(low, high)| (bits(low), bits(high)));
        low.extend_from_slice(&least);
        high.extend_from_slice(&most);
    }
    let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
    (column.name.clone(), bytes(&known), bytes(&low), bytes(&high))
}

/// Returns zones, and those in which a predicate may be true.
pub(crate) fn zones<'py>(
    py: Python<'py>,
    found: &view::Zones,
    predicate: Option<(Predicate, Nan)>,
) -> Zones<'py> {
    let ends: Vec<u8> = found.ends.iter().flat_map(|end| end.to_ne_bytes()).collect();
    let may = predicate.map(|(predicate, nan)| {
        let may: Vec<u8> = predicate.may_be_true(found, nan).into_iter().map(u8::from).collect();
        PyBytes::new(py, &may)
    });
    let columns = found.columns.iter().map(|column| zoned(py, column));
    (PyBytes::new(py, &ends), columns.collect(), found.bytes_scanned, may)
}

impl Table {
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&hyperchunk_arrow::Table) -> Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| work(&self.0)).map_err(|e| to_python(py, &e))
    }

    fn with_schema(&self, requested: Option<&Bound<'_, PyCapsule>>) -> PyResult<hyperchunk_arrow::Table> {
        Ok(match requested {
            Some(requested) => self.0.with_schema(&import_schema(requested)?),
            None => self.0.clone(),
        })
    }
}

#[pymethods]
impl Table {
    /// Creates a table of a dataset or a group.
    #[staticmethod]
    #[pyo3(signature = (object, columns, rows, conversion_options, mapped, batch_rows))]
    fn from_object(
        py: Python<'_>,
        object: &Object,
        columns: Option<Vec<String>>,
        rows: Option<(u64, u64)>,
        conversion_options: Vec<String>,
        mapped: bool,
        batch_rows: Option<u64>,
    ) -> PyResult<Self> {
        let mut options = TableOptions::default();
        options.columns = columns;
        options.rows = rows.map(|(start, end)| start..end);
        options.conversion = conversion(&conversion_options)?;
        options.mapped = mapped;
        options.batch_rows = batch_rows;
        let table = py.detach(|| hyperchunk_arrow::Table::from_object(&object.object, &options));
        table.map(Self).map_err(|e| to_python(py, &e))
    }

    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> u64 {
        self.0.rows()
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Names and types of the columns, for display.
    #[getter]
    fn types(&self) -> Vec<(String, String)> {
        let schema = self.0.schema();
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().to_string())).collect()
    }

    /// Returns the table with the given columns.
    fn select(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<Self> {
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        self.run(py, |table| table.select(&columns)).map(Self)
    }

    /// Returns the table with a range of rows.
    fn slice(&self, py: Python<'_>, start: u64, end: u64) -> PyResult<Self> {
        self.run(py, |table| table.slice(start..end)).map(Self)
    }

    /// Returns the table with another limit on the rows of a batch.
    fn with_batch_rows(&self, rows: Option<u64>) -> Self {
        Self(self.0.with_batch_rows(rows))
    }

    /// Returns the table with other conversion options.
    fn with_conversion(&self, py: Python<'_>, conversion_options: Vec<String>) -> PyResult<Self> {
        let conversion = conversion(&conversion_options)?;
        self.run(py, |table| table.with_conversion(&conversion)).map(Self)
    }

    /// Reads the rows, batch by batch.
    fn batches(&self, py: Python<'_>) -> PyResult<RowBatches> {
        let batches = self.run(py, hyperchunk_arrow::Table::batches)?;
        Ok(RowBatches(Mutex::new(Reader(Some(batches), self.0.schema()))))
    }

    /// Scans all rows, or a range, in parts: first the columns that decide which rows of the other
    /// columns are read.
    #[pyo3(signature = (first, wanted, rows=None))]
    fn scan(
        &self,
        py: Python<'_>,
        first: Vec<String>,
        wanted: Vec<String>,
        rows: Option<Vec<(u64, u64)>>,
    ) -> PyResult<Scan> {
        let first: Vec<&str> = first.iter().map(String::as_str).collect();
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let rows = rows.map(|rows| rows.into_iter().map(|(start, end)| start..end).collect::<Vec<_>>());
        let scan = self.run(py, |table| match &rows {
            Some(rows) => table.scan_rows(&first, &wanted, rows),
            None => table.scan(&first, &wanted),
        });
        scan.map(|scan| Scan { bytes_scanned: scan.counter(), scan: Mutex::new(Some(scan)) })
    }

    /// Names of the columns that are datasets of plain numbers: statistics of the dataset hold for the column.
    fn plain_numbers(&self) -> Vec<String> {
        self.0.plain_numbers().into_iter().map(str::to_owned).collect()
    }

    /// True if statistics exist for any column.
    fn keeps_zones(&self, py: Python<'_>) -> PyResult<bool> {
        self.run(py, hyperchunk_arrow::Table::keeps_zones)
    }

    /// Converts a serialized pyarrow expression to a predicate as JSON and the columns that it
    /// uses; None if it is not supported.
    fn predicate_of_expression(&self, written: &[u8]) -> Option<(String, Vec<String>)> {
        let schema = self.0.schema();
        let found = Predicate::from_expression(written, &schema)?;
        let columns = found.columns();
        let names = schema.fields().iter().map(|field| field.name());
        let names = names.filter(|name| columns.contains(name.as_str())).cloned().collect();
        Some((found.to_json().to_string(), names))
    }

    /// True if a predicate can be evaluated on the columns as they are stored: `Scan.chosen`.
    fn chooses(&self, py: Python<'_>, predicate: &str, nan: &str) -> PyResult<bool> {
        let (predicate, nan) = asked(py, predicate, nan)?;
        Ok(self.0.can_filter(&predicate, nan))
    }

    /// Returns the statistics of columns, and the zones in which a predicate may be true; None if
    /// there are no statistics.
    #[pyo3(signature = (columns, predicate=None, nan="unordered"))]
    fn zones<'py>(
        &self,
        py: Python<'py>,
        columns: Vec<String>,
        predicate: Option<&str>,
        nan: &str,
    ) -> PyResult<Option<Zones<'py>>> {
        let predicate = predicate.map(|predicate| asked(py, predicate, nan)).transpose()?;
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let Some(found) = self.run(py, |table| table.zones(&columns))? else { return Ok(None) };
        Ok(Some(zones(py, &found, predicate)))
    }

    /// Size of the columns' elements in bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Returns for each column its name, the number of rows mapped without a copy, and the number
    /// of rows read.
    fn storage(&self, py: Python<'_>) -> PyResult<Vec<(String, u64, u64)>> {
        let found = self.run(py, hyperchunk_arrow::Table::storage)?;
        Ok(found.into_iter().map(|storage| (storage.column, storage.zero_copy, storage.copied)).collect())
    }

    /// Returns the address ranges at which the table's files are mapped: first and last address.
    fn mapped_memory(&self) -> Vec<(usize, usize)> {
        self.0.mapped_memory().into_iter().map(|range| (range.start, range.end)).collect()
    }

    /// Exports the schema as an Arrow capsule.
    fn schema_capsule<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export_schema(py, &self.0.schema())
    }

    /// Exports the rows as an Arrow capsule.
    #[pyo3(signature = (requested=None))]
    fn stream_capsule<'py>(
        &self,
        py: Python<'py>,
        requested: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let table = self.with_schema(requested)?;
        let batches = py.detach(|| table.batches()).map_err(|e| to_python(py, &e))?;
        export_stream(py, Reader(Some(batches), table.schema()))
    }

    /// Exports all rows at once, as a pair of Arrow capsules.
    #[pyo3(signature = (requested=None))]
    fn array_capsules<'py>(
        &self,
        py: Python<'py>,
        requested: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<Capsules<'py>> {
        let table = self.with_schema(requested)?;
        let batch = py.detach(|| table.read()).map_err(|e| to_python(py, &e))?;
        export(py, &table.schema(), batch)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

#[pymethods]
impl RowBatches {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        py.detach(|| {
            let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            reader.0.as_mut().map(Batches::next_batch).transpose()
        })
        .map(|batch| batch.flatten().map(Batch))
        .map_err(|e| to_python(py, &e))
    }
}

#[pymethods]
impl Scan {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ScanPart>> {
        py.detach(|| {
            let mut scan = self.scan.lock().unwrap_or_else(PoisonError::into_inner);
            scan.as_mut().map(view::Scan::next_part).transpose()
        })
        .map(|part| part.flatten().map(ScanPart))
        .map_err(|e| to_python(py, &e))
    }

    /// Filters the rest of the scan by a predicate over its first columns: the wanted columns of
    /// matching rows, in batches of at most `rows` rows. Returns None, and leaves the scan as it
    /// is, if the predicate uses columns with nulls or that are not numbers.
    #[pyo3(signature = (predicate, nan, rows=None))]
    fn chosen(
        &self,
        py: Python<'_>,
        predicate: &str,
        nan: &str,
        rows: Option<usize>,
    ) -> PyResult<Option<FilteredRows>> {
        let (predicate, nan) = asked(py, predicate, nan)?;
        let chosen = py.detach(|| {
            let mut scan = self.scan.lock().unwrap_or_else(PoisonError::into_inner);
            if !scan.as_ref().is_some_and(|scan| scan.can_filter(&predicate, nan)) {
                return None;
            }
            let scan = scan.take()?;
            let schema = scan.schema();
            scan.filter(&predicate, nan, rows).map(|chosen| Reader(Some(chosen), schema))
        });
        Ok(chosen.map(|reader| FilteredRows(Mutex::new(Some(reader)))))
    }

    /// Number of bytes of elements scanned until now.
    #[getter]
    fn bytes_scanned(&self) -> u64 {
        self.bytes_scanned.load(Ordering::Relaxed)
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        let scan = self.scan.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        detached(move || drop(scan));
    }
}

#[pymethods]
impl FilteredRows {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        py.detach(|| {
            let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let rows = reader.as_mut().and_then(|reader| reader.0.as_mut());
            rows.map(view::FilteredBatches::next_batch).transpose()
        })
        .map(|batch| batch.flatten().map(Batch))
        .map_err(|e| to_python(py, &e))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol allows ignoring the request: rows have the types of their table.
        drop(requested_schema);
        let reader = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let reader = reader.ok_or_else(|| PyValueError::new_err("these rows were already consumed"))?;
        export_stream(py, reader)
    }
}

#[pymethods]
impl ScanPart {
    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.first().num_rows()
    }

    /// Returns the values of the first columns.
    fn first(&self) -> Batch {
        Batch(self.0.first().clone())
    }

    /// Returns the wanted columns of the rows for which a boolean Arrow array (two capsules) is true; without
    /// an array, of all rows.
    #[pyo3(signature = (mask=None))]
    fn chosen(&self, py: Python<'_>, mask: Option<Capsules<'_>>) -> PyResult<Batch> {
        let mask = mask.map(|(schema, array)| truths(&schema, &array)).transpose()?;
        py.detach(|| self.0.filter(mask.as_ref())).map(Batch).map_err(|e| to_python(py, &e))
    }
}

#[pymethods]
impl Batch {
    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export_schema(py, &self.0.schema())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Capsules<'py>> {
        // The protocol allows ignoring the request: a batch has the types of its table.
        drop(requested_schema);
        export(py, &self.0.schema(), self.0.clone())
    }
}

#[pymethods]
impl MappedDataset {
    /// Maps a dataset whose elements are contiguous and unfiltered in a file of this machine; None
    /// for others.
    #[staticmethod]
    fn map_dataset(py: Python<'_>, dataset: &Dataset) -> PyResult<Option<Self>> {
        let found = py.detach(|| view::map_contiguous(&dataset.0)).map_err(|e| to_python(py, &e))?;
        Ok(found.map(Self))
    }

    /// Address of the first element.
    #[getter]
    fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }

    /// Size of the elements in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.len()
    }

    fn __repr__(&self) -> String {
        format!("<{} bytes mapped at {:#x}>", self.0.len(), self.0.as_ptr().addr())
    }
}

/// Parses a predicate from JSON (`docs/formats/flight.md`), and the ordering of NaN in it.
pub(crate) fn asked(py: Python<'_>, predicate: &str, nan: &str) -> PyResult<(Predicate, Nan)> {
    let nan = match nan {
        "unordered" => Nan::Unordered,
        "largest" => Nan::Largest,
        other => {
            return Err(PyValueError::new_err(format!(
                "nan must be 'unordered' or 'largest', not {other:?}"
            )));
        }
    };
    let predicate = Predicate::parse_text(predicate).map_err(|e| to_python(py, &e))?;
    Ok((predicate, nan))
}

/// Must be called before this process forks.
#[pyfunction]
pub(crate) fn before_fork(py: Python<'_>) {
    py.detach(view::before_fork);
}

/// Must be called after a fork, in both processes.
#[pyfunction]
pub(crate) fn after_fork() {
    view::after_fork();
}

/// Parses conversion options: `cells=list` and so on.
fn conversion(given: &[String]) -> PyResult<ConversionOptions> {
    let mut conversion = ConversionOptions::default();
    for selection in given {
        match selection.as_str() {
            "cells=tensor" => conversion.cells = Cells::Tensor,
            "cells=list" => conversion.cells = Cells::List,
            "strings=text" => conversion.strings = Strings::Text,
            "strings=stored" => conversion.strings = Strings::Stored,
            "half=float16" => conversion.half = Half::Float16,
            "half=float32" => conversion.half = Half::Float32,
            "enums=values" => conversion.enums = Enums::Values,
            "enums=dictionary" => conversion.enums = Enums::Dictionary,
            "compounds=columns" => conversion.compounds = Compounds::Columns,
            "compounds=struct" => conversion.compounds = Compounds::Struct,
            other => {
                let message = format!(
                    "unknown option {other}: there are cells=tensor|list, strings=text|stored, half=float16|float32, \
                     enums=values|dictionary, compounds=columns|struct"
                );
                return Err(PyValueError::new_err(message));
            }
        }
    }
    Ok(conversion)
}
