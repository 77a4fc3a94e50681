//! Datasets of a file that is being written: the Python interface of [`crate::dataset::Dataset`]
//! plus writing.

use crate::dataset::{Dataset, Filter, Mapping, describe_mappings};
use crate::datatype::{Conversion, Datatype};
use crate::errors::to_python;
use crate::memory::{look, look_all};
use crate::names;
use crate::selection::{self, Selection};
use hyperchunk::model::{Dataspace, FillWhen};
use hyperchunk::write::{self, ChunkRun, NewLayout};
use hyperchunk::{Error, Result, select};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::sync::{Mutex, PoisonError};

/// Dataset of a file that is being written.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct DatasetWriter {
    file: write::Writer,
    dataset: write::DatasetWriter,
    /// Cached handle for reading, and the file's change counter when the handle was opened.
    read: Mutex<Option<(u64, hyperchunk::Dataset)>>,
}

/// Appends the coordinates of an offset to `numbers`.
fn extract_offset(offset: &Bound<'_, PyAny>, numbers: &mut Vec<u64>) -> PyResult<()> {
    // Most offsets are tuples; this path is far cheaper than the one for any sequence.
    match offset.cast_exact::<PyTuple>() {
        Ok(tuple) => {
            for number in tuple {
                numbers.push(number.extract()?);
            }
        }
        Err(_) => numbers.extend(offset.extract::<Vec<u64>>()?),
    }
    Ok(())
}

/// Unpacks a chunk: its bytes, the end of its offset in `offsets`, and its optional filter mask.
fn direct<'py>(
    chunk: &Bound<'py, PyAny>,
    offsets: &mut Vec<u64>,
) -> PyResult<(Bound<'py, PyAny>, usize, u32)> {
    let parts = chunk.cast::<PyTuple>()?;
    if !(2..=3).contains(&parts.len()) {
        return Err(PyValueError::new_err(
            "a chunk must be a tuple of an offset, its bytes and, optionally, a filter mask",
        ));
    }
    extract_offset(&parts.get_item(0)?, offsets)?;
    let mask = if parts.len() > 2 { parts.get_item(2)?.extract()? } else { 0 };
    Ok((parts.get_item(1)?, offsets.len(), mask))
}

/// Reads 64-bit numbers in native byte order, as NumPy stores them.
fn wide(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|number| u64::from_ne_bytes(*number)).collect()
}

fn narrow(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|number| u32::from_ne_bytes(*number)).collect()
}

impl DatasetWriter {
    pub(crate) fn new(file: write::Writer, dataset: write::DatasetWriter) -> Self {
        Self { file, dataset, read: Mutex::default() }
    }

    /// Returns a handle that reads the current contents.
    fn now(&self, py: Python<'_>) -> PyResult<Dataset> {
        let found = py.detach(|| {
            let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            let changes = self.file.changes();
            if let Some((_, dataset)) = read.as_ref().filter(|(at, _)| *at == changes) {
                return Ok(dataset.clone());
            }
            let dataset = self.file.snapshot_object(self.dataset.id())?.dataset()?;
            *read = Some((changes, dataset.clone()));
            Ok(dataset)
        });
        found.map(Dataset).map_err(|e| to_python(py, &e))
    }

    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&write::DatasetWriter) -> Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| work(&self.dataset)).map_err(|e| to_python(py, &e))
    }
}

fn put(
    dataset: &write::DatasetWriter,
    selection: &select::Selection,
    memory: Option<&Datatype>,
    data: &[u8],
) -> Result<()> {
    match memory {
        Some(memory) => dataset.write_as(selection, &memory.0, data),
        None => dataset.write(selection, data),
    }
}

#[pymethods]
impl DatasetWriter {
    /// Current extent; None for a null dataspace.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        match self.dataset.dataspace() {
            Dataspace::Null => Ok(None),
            dataspace => PyTuple::new(py, dataspace.dims()).map(Some),
        }
    }

    /// Maximum extent; None in an unlimited dimension.
    #[getter]
    fn max_shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        match self.dataset.dataspace() {
            Dataspace::Null => Ok(None),
            Dataspace::Scalar => Ok(Some(PyTuple::empty(py))),
            Dataspace::Simple { max, .. } => PyTuple::new(py, &max).map(Some),
        }
    }

    /// Datatype of the elements.
    #[getter]
    fn datatype(&self) -> Datatype {
        Datatype(self.dataset.datatype().clone())
    }

    /// Address of the committed datatype that the dataset uses.
    #[getter]
    fn committed(&self) -> Option<u64> {
        self.dataset.committed()
    }

    /// Storage layout.
    #[getter]
    fn layout(&self) -> &'static str {
        match self.dataset.layout() {
            NewLayout::Compact => "compact",
            NewLayout::Contiguous | NewLayout::External(_) => "contiguous",
            NewLayout::Chunked(_) => "chunked",
            NewLayout::Virtual(_) => "virtual",
        }
    }

    /// Extent of a chunk.
    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        match self.dataset.layout() {
            NewLayout::Chunked(dims) => PyTuple::new(py, dims).map(Some),
            _ => Ok(None),
        }
    }

    /// Filters, in the order in which they are applied.
    #[getter]
    fn filters<'py>(&self, py: Python<'py>) -> PyResult<Vec<Filter<'py>>> {
        let filters = self.dataset.pipeline().iter().map(|filter| {
            let name = filter.name.as_ref().map_or(&[][..], |name| name.as_bytes());
            Ok((filter.id, names::decode(py, name)?, filter.parameters.clone()))
        });
        filters.collect()
    }

    /// External files with the data: name, offset and size.
    #[getter]
    fn external<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyAny>, i64, u64)>> {
        let NewLayout::External(files) = self.dataset.layout() else { return Ok(Vec::new()) };
        let files = files.iter().map(|file| {
            let name = names::decode(py, file.name.as_bytes())?;
            Ok((name, file.offset.cast_signed(), file.size.unwrap_or(u64::MAX)))
        });
        files.collect()
    }

    /// User-defined fill value, as stored.
    #[getter]
    fn fill<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        match &self.dataset.fill().value {
            FillWhen::User(fill) if !fill.is_empty() => Some(PyBytes::new(py, fill)),
            _ => None,
        }
    }

    /// Sources of a virtual dataset.
    fn mappings<'py>(&self, py: Python<'py>) -> PyResult<Vec<Mapping<'py>>> {
        match self.dataset.layout() {
            NewLayout::Virtual(mappings) => describe_mappings(py, &mappings),
            _ => Ok(Vec::new()),
        }
    }

    /// Reads a selection into a buffer of exactly its size.
    fn read(
        &self,
        py: Python<'_>,
        selection: &Selection,
        conversion: Option<&Conversion>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _reading = py.detach(|| self.file.reading());
        self.now(py)?.read(py, selection, conversion, out)
    }

    /// Like `read`, with `start, step, count` for each dimension: `count` indices, every `step`th
    /// from `start`.
    fn read_slab(
        &self,
        py: Python<'_>,
        slab: Vec<u64>,
        conversion: Option<&Conversion>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _reading = py.detach(|| self.file.reading());
        self.now(py)?.read_slab(py, slab, conversion, out)
    }

    /// Returns a reader of the current contents.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Dataset> {
        self.now(py)
    }

    // --- Writing ---

    /// Writes a selection from a buffer of exactly its size; `memory` is the type of the buffer's elements if
    /// it differs from the dataset's.
    fn write(
        &self,
        py: Python<'_>,
        selection: &Selection,
        memory: Option<&Datatype>,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        look(data, |data| {
            self.run(py, |dataset| put(dataset, &*selection.within(&dataset.dims())?, memory, data))
        })
    }

    /// Like `write`, with `start, step, count` for each dimension: `count` indices, every `step`th
    /// from `start`.
    fn write_slab(
        &self,
        py: Python<'_>,
        slab: Vec<u64>,
        memory: Option<&Datatype>,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        look(data, |data| {
            self.run(py, |dataset| {
                let selection = if slab.is_empty() { select::Selection::All } else { selection::slab(&slab) };
                put(dataset, &selection, memory, data)
            })
        })
    }

    /// Writes a chunk in its stored form.
    fn write_chunk(
        &self,
        py: Python<'_>,
        offset: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        mask: u32,
    ) -> PyResult<()> {
        let mut numbers = Vec::with_capacity(4);
        extract_offset(offset, &mut numbers)?;
        look(data, |data| self.run(py, |dataset| dataset.write_chunk(&numbers, data, mask)))
    }

    /// Writes several chunks in their stored form.
    fn write_chunks(&self, py: Python<'_>, chunks: &Bound<'_, PyList>) -> PyResult<()> {
        let mut data = Vec::with_capacity(chunks.len());
        let mut places = Vec::with_capacity(chunks.len());
        let mut offsets = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let start = offsets.len();
            let (bytes, end, mask) = direct(&chunk, &mut offsets)?;
            data.push(bytes);
            places.push((start..end, mask));
        }
        look_all(&data, |data| {
            let chunks =
                places.iter().zip(data).map(|((range, mask), data)| (&offsets[range.clone()], data, *mask));
            let chunks: Vec<_> = chunks.collect();
            self.run(py, |dataset| dataset.write_chunks(&chunks))
        })
    }

    /// Like `write_chunks`, with arrays: `offsets` of 64-bit and `masks` of 32-bit numbers.
    fn write_chunk_list(
        &self,
        py: Python<'_>,
        offsets: &Bound<'_, PyAny>,
        data: Vec<Bound<'_, PyAny>>,
        masks: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let offsets = look(offsets, |bytes| Ok(wide(bytes)))?;
        let masks = masks.map(|masks| look(masks, |bytes| Ok(narrow(bytes)))).transpose()?;
        let rank = offsets.len() / data.len().max(1);
        look_all(&data, |data| {
            let masks = masks.unwrap_or_else(|| vec![0; data.len()]);
            let chunks = offsets.chunks(rank.max(1)).zip(data).zip(masks);
            let chunks: Vec<_> = chunks.map(|((offset, data), mask)| (offset, data, mask)).collect();
            self.run(py, |dataset| dataset.write_chunks(&chunks))
        })
    }

    /// Like `write_chunks`, for chunks stored contiguously in one buffer. `sizes` has 64-bit
    /// numbers.
    fn write_chunk_run(
        &self,
        py: Python<'_>,
        offsets: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        sizes: Option<&Bound<'_, PyAny>>,
        masks: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let offsets = look(offsets, |bytes| Ok(wide(bytes)))?;
        let sizes = sizes.map(|sizes| look(sizes, |bytes| Ok(wide(bytes)))).transpose()?;
        let masks = masks.map(|masks| look(masks, |bytes| Ok(narrow(bytes)))).transpose()?;
        look(data, |data| {
            let run = ChunkRun { offsets: &offsets, data, sizes: sizes.as_deref(), masks: masks.as_deref() };
            self.run(py, |dataset| dataset.write_chunk_run(&run))
        })
    }

    /// Copies all stored chunks of a dataset of the same type, chunk shape and filters, without
    /// decoding them.
    fn copy_chunks(&self, py: Python<'_>, source: &Dataset) -> PyResult<()> {
        self.run(py, |dataset| {
            let Some(chunked) = source.0.chunked() else {
                return Err(Error::invalid("the source is not stored in chunks"));
            };
            let pipeline = source.0.pipeline();
            if chunked.edge_chunks_unfiltered && !pipeline.is_empty() {
                // The source does not filter partial edge chunks, which their masks do not show; the
                // destination would take them for filtered ones.
                return Err(Error::unsupported("the source does not filter its partial edge chunks"));
            }
            let mut chunks = source.0.chunks()?;
            chunks.sort_by_key(|chunk| chunk.address);
            for chunk in chunks {
                let starts = chunk.scaled.iter().zip(&chunked.dims).map(|(at, dim)| at.saturating_mul(*dim));
                let offset: Vec<u64> = starts.collect();
                if offset.iter().zip(source.0.dims()).any(|(start, dim)| start >= dim) {
                    continue;
                }
                dataset.write_chunk(&offset, &source.0.read_chunk_raw(&chunk)?, chunk.filter_mask)?;
            }
            Ok(())
        })
    }

    /// Returns a stored chunk and its filter mask; None if it was never written.
    fn read_chunk<'py>(
        &self,
        py: Python<'py>,
        offset: Vec<u64>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, u32)>> {
        let found = self.run(py, |dataset| dataset.read_chunk(&offset))?;
        Ok(found.map(|(bytes, mask)| (PyBytes::new(py, &bytes), mask)))
    }

    /// Changes the extent.
    fn resize(&self, py: Python<'_>, dims: Vec<u64>) -> PyResult<()> {
        self.run(py, |dataset| dataset.resize(&dims))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.dataset.dataspace())
    }
}
