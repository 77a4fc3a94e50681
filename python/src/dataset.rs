//! Datasets opened for reading.

use crate::datatype::{Conversion, Datatype};
use crate::errors::to_python;
use crate::memory::{fill, fill_all};
use crate::names;
use crate::selection::{self, Selection};
use hyperchunk::model::{Dataspace, FillWhen, Layout, SourceName, VirtualMapping};
use hyperchunk::{Error, Result};
use hyperchunk::{codec, select};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

/// Handle of a dataset.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct Dataset(pub(crate) hyperchunk::Dataset);

/// A filter: its number, name and parameters.
pub(crate) type Filter<'py> = (u16, Bound<'py, PyAny>, Vec<u32>);

/// A source of a virtual dataset: file, dataset, selection in the virtual dataset, selection in the
/// source.
pub(crate) type Mapping<'py> =
    (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyTuple>, Bound<'py, PyTuple>);

impl Dataset {
    fn read_into(
        &self,
        py: Python<'_>,
        out: &Bound<'_, PyAny>,
        read: impl FnOnce(&hyperchunk::Dataset, &mut [u8]) -> Result<()> + Send,
    ) -> PyResult<()> {
        fill(out, |out| py.detach(|| read(&self.0, out)).map_err(|e| to_python(py, &e)))
    }
}

/// Coordinates of a chunk's first element, filter mask, offset and size in bytes.
type StoredChunk<'py> = (Bound<'py, PyTuple>, u32, u64, u64);

#[pymethods]
impl Dataset {
    /// Current extent; None for a null dataspace.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        match self.0.dataspace() {
            Dataspace::Null => Ok(None),
            _ => PyTuple::new(py, self.0.dims()).map(Some),
        }
    }

    /// Maximum extent; None in an unlimited dimension.
    #[getter]
    fn max_shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        match self.0.dataspace() {
            Dataspace::Null => Ok(None),
            Dataspace::Scalar => Ok(Some(PyTuple::empty(py))),
            Dataspace::Simple { max, .. } => PyTuple::new(py, max).map(Some),
        }
    }

    /// Datatype of the elements.
    #[getter]
    fn datatype(&self) -> Datatype {
        Datatype(self.0.datatype().clone())
    }

    /// Address of the committed datatype that the dataset uses.
    #[getter]
    fn committed(&self) -> Option<u64> {
        self.0.committed()
    }

    /// Storage layout.
    #[getter]
    fn layout(&self) -> &'static str {
        match self.0.layout() {
            Layout::Compact { .. } => "compact",
            Layout::Contiguous { .. } => "contiguous",
            Layout::Chunked(_) => "chunked",
            Layout::Virtual { .. } => "virtual",
        }
    }

    /// Extent of a chunk.
    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.0.chunked().map(|chunked| PyTuple::new(py, &chunked.dims)).transpose()
    }

    /// Stored chunks in the order of their coordinates: indices of the first element, mask of
    /// skipped filters, file offset and size.
    fn stored_chunks<'py>(&self, py: Python<'py>) -> PyResult<Vec<StoredChunk<'py>>> {
        let Some(chunked) = self.0.chunked() else { return Ok(Vec::new()) };
        let mut chunks = py.detach(|| self.0.chunks()).map_err(|e| to_python(py, &e))?;
        chunks.sort_by(|one, other| one.scaled.cmp(&other.scaled));
        let base = self.0.object().file().superblock().base;
        let chunks = chunks.into_iter().map(|chunk| {
            let first = chunk.scaled.iter().zip(&chunked.dims).map(|(place, dim)| place.saturating_mul(*dim));
            let first = PyTuple::new(py, first.collect::<Vec<_>>())?;
            Ok((first, chunk.filter_mask, chunk.address.saturating_add(base), chunk.size))
        });
        chunks.collect()
    }

    /// Returns where the elements from `start` to `stop` on an axis are stored: for each index of chunks on
    /// the axis, that index and a digest of the locations of its chunks. Contiguous data: 0 and their
    /// address.
    fn placement(&self, py: Python<'_>, axis: usize, start: u64, stop: u64) -> PyResult<Vec<(u64, u64)>> {
        py.detach(|| self.0.placement(axis, &(start..stop))).map_err(|e| to_python(py, &e))
    }

    /// Filters, in the order in which a writer applies them.
    #[getter]
    fn filters<'py>(&self, py: Python<'py>) -> PyResult<Vec<Filter<'py>>> {
        let filters = self.0.pipeline().iter().map(|filter| {
            // If the message has no name, use the filter's own name, as libhdf5 does.
            let stored = filter.name.as_ref().map(|name| name.as_bytes()).filter(|name| !name.is_empty());
            let name = match stored {
                Some(name) => names::decode(py, name)?,
                None => PyString::new(py, codec::filter_name(filter.id).unwrap_or_default()).into_any(),
            };
            Ok((filter.id, name, filter.parameters.clone()))
        });
        filters.collect()
    }

    /// External files with the data: name, offset and size.
    #[getter]
    fn external<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyAny>, i64, u64)>> {
        let files = self.0.external().iter();
        files
            .map(|file| {
                Ok((
                    names::decode(py, file.name.as_bytes())?,
                    file.offset.cast_signed(),
                    file.size.unwrap_or(u64::MAX),
                ))
            })
            .collect()
    }

    /// User-defined fill value, as stored.
    #[getter]
    fn fill<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        match &self.0.fill().value {
            FillWhen::User(fill) if !fill.is_empty() => Some(PyBytes::new(py, fill)),
            _ => None,
        }
    }

    /// Sources of a virtual dataset.
    fn mappings<'py>(&self, py: Python<'py>) -> PyResult<Vec<Mapping<'py>>> {
        describe_mappings(py, self.0.mappings())
    }

    /// Checks that the sources of a virtual dataset exist, before its values are copied.
    fn check_sources(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.check_sources()).map_err(|e| to_python(py, &e))
    }

    /// Reads a selection into a buffer of exactly its size.
    pub(crate) fn read(
        &self,
        py: Python<'_>,
        selection: &Selection,
        conversion: Option<&Conversion>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.read_into(py, out, |dataset, out| {
            let selection = selection.within(dataset.dims())?;
            read(dataset, &selection, conversion, out)
        })
    }

    /// Like `read`, with `start, step, count` for each dimension: `count` indices, every `step`th
    /// from `start`.
    pub(crate) fn read_slab(
        &self,
        py: Python<'_>,
        slab: Vec<u64>,
        conversion: Option<&Conversion>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.read_into(py, out, |dataset, out| {
            let selection = if slab.is_empty() { select::Selection::All } else { selection::slab(&slab) };
            read(dataset, &selection, conversion, out)
        })
    }

    /// Returns a stored chunk and its filter mask; None if it was never written.
    fn read_chunk<'py>(
        &self,
        py: Python<'py>,
        offset: Vec<u64>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, u32)>> {
        let found = py.detach(|| {
            let Some(dims) = self.0.chunked().map(|chunked| &chunked.dims) else {
                return Err(Error::invalid("the dataset is not stored in chunks"));
            };
            let on_boundary = dims.len() == offset.len()
                && dims
                    .iter()
                    .zip(&offset)
                    .zip(self.0.dims())
                    .all(|((chunk, at), dim)| at % chunk == 0 && at < dim);
            if !on_boundary {
                return Err(Error::invalid(format!("no chunk begins at {offset:?}")));
            }
            let scaled: Vec<u64> = dims.iter().zip(&offset).map(|(chunk, at)| at / chunk).collect();
            let chunks = self.0.chunks()?;
            let Some(chunk) = chunks.iter().find(|chunk| chunk.scaled == scaled) else { return Ok(None) };
            Ok(Some((self.0.read_chunk_raw(chunk)?, chunk.filter_mask)))
        });
        let found = found.map_err(|e| to_python(py, &e))?;
        Ok(found.map(|(bytes, mask)| (PyBytes::new(py, &bytes), mask)))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

fn read(
    dataset: &hyperchunk::Dataset,
    selection: &select::Selection,
    conversion: Option<&Conversion>,
    out: &mut [u8],
) -> Result<()> {
    match conversion {
        Some(conversion) => dataset.read_converted(selection, &conversion.steps, conversion.to, out),
        None => dataset.read(selection, out),
    }
}

/// A read of `read_many`: dataset, selection, conversion, buffer.
type Read<'py> =
    (PyRef<'py, Dataset>, PyRef<'py, Selection>, Option<PyRef<'py, Conversion>>, Bound<'py, PyAny>);

/// Performs several reads in one batch, each like `Dataset.read`.
#[pyfunction]
pub(crate) fn read_many(py: Python<'_>, reads: Vec<Read<'_>>) -> PyResult<()> {
    let choices = reads.iter().map(|(dataset, selection, ..)| selection.within(dataset.0.dims()));
    let choices = choices.collect::<Result<Vec<_>>>().map_err(|e| to_python(py, &e))?;
    let outs: Vec<Bound<'_, PyAny>> = reads.iter().map(|(.., out)| out.clone()).collect();
    fill_all(&outs, |outs| {
        let reads =
            reads.iter().zip(&choices).zip(outs).map(|(((dataset, _, conversion, _), selection), out)| {
                let conversion = conversion.as_ref().map(|conversion| (&conversion.steps, conversion.to));
                hyperchunk::Read { dataset: &dataset.0, selection, conversion, out }
            });
        let reads: Vec<_> = reads.collect();
        py.detach(|| hyperchunk::read_many(reads)).map_err(|e| to_python(py, &e))
    })
}

/// Converts the sources of a virtual dataset for Python.
pub(crate) fn describe_mappings<'py>(
    py: Python<'py>,
    mappings: &[VirtualMapping],
) -> PyResult<Vec<Mapping<'py>>> {
    let mappings = mappings.iter().map(|mapping| {
        Ok((
            source_name(py, &mapping.file)?,
            source_name(py, &mapping.dataset)?,
            selection::describe(py, &mapping.target)?,
            selection::describe(py, &mapping.source)?,
        ))
    });
    mappings.collect()
}

/// Converts a name to Python. In a name with blocks, `%b` stands for the block's number, and `%%` for a
/// percent sign.
fn source_name<'py>(py: Python<'py>, name: &SourceName) -> PyResult<Bound<'py, PyAny>> {
    let parts: Vec<&[u8]> = name.parts.iter().map(|part| part.as_bytes()).collect();
    names::decode(py, &parts.join(&b"%b"[..]))
}
