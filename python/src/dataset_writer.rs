//! Datasets of files that are being written: to Python they have what [`crate::dataset::Dataset`] has, and more.

use crate::choice::{self, Choice};
use crate::dataset::{Dataset, Filter, Mapping, describe_mappings};
use crate::datatype::{Conversion, Datatype};
use crate::errors::to_python;
use crate::memory::{look, look_all};
use crate::names;
use hyperchunk::model::{Dataspace, FillWhen};
use hyperchunk::write::{self, ChunkRun, NewLayout};
use hyperchunk::{Error, Result, select};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::sync::{Mutex, PoisonError};

/// A dataset of a file that is being written.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct DatasetWriter {
    file: write::Writer,
    dataset: write::DatasetWriter,
    /// It as it can be read, and after how many changes of its file.
    read: Mutex<Option<(u64, hyperchunk::Dataset)>>,
}

/// Appends the numbers of an offset.
fn offset_of(offset: &Bound<'_, PyAny>, numbers: &mut Vec<u64>) -> PyResult<()> {
    // Most are tuples, for which this is far cheaper than for any sequence.
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

/// A chunk's bytes, where its offset ends in `offsets`, and its mask, which may be missing.
fn direct<'py>(
    chunk: &Bound<'py, PyAny>,
    offsets: &mut Vec<u64>,
) -> PyResult<(Bound<'py, PyAny>, usize, u32)> {
    let parts = chunk.cast::<PyTuple>()?;
    if !(2..=3).contains(&parts.len()) {
        return Err(PyValueError::new_err("a chunk is an offset, its bytes and, maybe, a filter mask"));
    }
    offset_of(&parts.get_item(0)?, offsets)?;
    let mask = if parts.len() > 2 { parts.get_item(2)?.extract()? } else { 0 };
    Ok((parts.get_item(1)?, offsets.len(), mask))
}

/// Numbers as NumPy has them in memory.
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

    /// It as it is now, to be read.
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
    choice: &select::Choice,
    memory: Option<&Datatype>,
    data: &[u8],
) -> Result<()> {
    match memory {
        Some(memory) => dataset.write_as(choice, &memory.0, data),
        None => dataset.write(choice, data),
    }
}

#[pymethods]
impl DatasetWriter {
    /// Its extent; None without a dataspace.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        match self.dataset.dataspace() {
            Dataspace::Null => Ok(None),
            dataspace => PyTuple::new(py, dataspace.dims()).map(Some),
        }
    }

    /// How far it may be extended; None in a dimension without a bound.
    #[getter]
    fn max_shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        match self.dataset.dataspace() {
            Dataspace::Null => Ok(None),
            Dataspace::Scalar => Ok(Some(PyTuple::empty(py))),
            Dataspace::Simple { max, .. } => PyTuple::new(py, &max).map(Some),
        }
    }

    /// The type of its elements.
    #[getter]
    fn datatype(&self) -> Datatype {
        Datatype(self.dataset.datatype().clone())
    }

    /// The address of the committed datatype that it uses.
    #[getter]
    fn committed(&self) -> Option<u64> {
        self.dataset.committed()
    }

    /// Where its data lie.
    #[getter]
    fn layout(&self) -> &'static str {
        match self.dataset.layout() {
            NewLayout::Compact => "compact",
            NewLayout::Contiguous | NewLayout::External(_) => "contiguous",
            NewLayout::Chunked(_) => "chunked",
            NewLayout::Virtual(_) => "virtual",
        }
    }

    /// The extent of a chunk.
    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        match self.dataset.layout() {
            NewLayout::Chunked(dims) => PyTuple::new(py, dims).map(Some),
            _ => Ok(None),
        }
    }

    /// Its filters, in the order in which they are applied.
    #[getter]
    fn filters<'py>(&self, py: Python<'py>) -> PyResult<Vec<Filter<'py>>> {
        let filters = self.dataset.pipeline().iter().map(|filter| {
            let name = filter.name.as_ref().map_or(&[][..], |name| name.as_bytes());
            Ok((filter.id, names::decode(py, name)?, filter.parameters.clone()))
        });
        filters.collect()
    }

    /// The files that hold its data: name, offset and size.
    #[getter]
    fn external<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyAny>, i64, u64)>> {
        let NewLayout::External(files) = self.dataset.layout() else { return Ok(Vec::new()) };
        let files = files.iter().map(|file| {
            let name = names::decode(py, file.name.as_bytes())?;
            Ok((name, file.offset.cast_signed(), file.size.unwrap_or(u64::MAX)))
        });
        files.collect()
    }

    /// What never-written elements are, as stored.
    #[getter]
    fn fill<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        match &self.dataset.fill().value {
            FillWhen::User(fill) if !fill.is_empty() => Some(PyBytes::new(py, fill)),
            _ => None,
        }
    }

    /// The sources of a virtual dataset.
    fn mappings<'py>(&self, py: Python<'py>) -> PyResult<Vec<Mapping<'py>>> {
        match self.dataset.layout() {
            NewLayout::Virtual(mappings) => describe_mappings(py, &mappings),
            _ => Ok(Vec::new()),
        }
    }

    /// Reads a selection into memory that has exactly its size.
    fn read(
        &self,
        py: Python<'_>,
        choice: &Choice,
        conversion: Option<&Conversion>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.now(py)?.read(py, choice, conversion, out)
    }

    /// As `read`, of every `step`th index from `start` on, `count` of them: these three for each dimension.
    fn read_slab(
        &self,
        py: Python<'_>,
        slab: Vec<u64>,
        conversion: Option<&Conversion>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.now(py)?.read_slab(py, slab, conversion, out)
    }

    /// It as it is now.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Dataset> {
        self.now(py)
    }

    // --- Writing ---

    /// Writes a selection from memory that has exactly its size, with elements of another type if `memory` is given.
    fn write(
        &self,
        py: Python<'_>,
        choice: &Choice,
        memory: Option<&Datatype>,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        look(data, |data| {
            self.run(py, |dataset| put(dataset, &*choice.within(&dataset.dims())?, memory, data))
        })
    }

    /// As `write`, of every `step`th index from `start` on, `count` of them: these three for each dimension.
    fn write_slab(
        &self,
        py: Python<'_>,
        slab: Vec<u64>,
        memory: Option<&Datatype>,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        look(data, |data| {
            self.run(py, |dataset| {
                let choice = if slab.is_empty() { select::Choice::All } else { choice::slab(&slab) };
                put(dataset, &choice, memory, data)
            })
        })
    }

    /// Writes a chunk as it is stored.
    fn write_chunk(
        &self,
        py: Python<'_>,
        offset: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        mask: u32,
    ) -> PyResult<()> {
        let mut numbers = Vec::with_capacity(4);
        offset_of(offset, &mut numbers)?;
        look(data, |data| self.run(py, |dataset| dataset.write_chunk(&numbers, data, mask)))
    }

    /// Writes many chunks as they are stored.
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

    /// The same. `offsets` has 64-bit numbers, `masks` 32-bit ones.
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

    /// The same, of chunks that lie one behind the other. `sizes` has 64-bit numbers.
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

    /// Copies all stored chunks of a dataset of the same type, chunks and filters, as they are.
    fn copy_chunks(&self, py: Python<'_>, source: &Dataset) -> PyResult<()> {
        self.run(py, |dataset| {
            let Some(chunked) = source.0.chunked() else { return Err(Error::invalid("no chunks")) };
            let pipeline = source.0.pipeline();
            if chunked.edge_chunks_unfiltered && !pipeline.is_empty() {
                // Which chunks are at the edge is known there; what is written here has no such chunks.
                return Err(Error::unsupported("chunks whose filters depend on where they lie"));
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

    /// A chunk as it is stored, and its mask; None if it was never written.
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
