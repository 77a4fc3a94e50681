//! Objects of a file that is being written: the Python interface of [`crate::object::Object`] plus
//! writing.

use crate::dataset_writer::DatasetWriter;
use crate::datatype::Datatype;
use crate::errors::to_python;
use crate::names;
use crate::object::{Value, value};
use crate::selection;
use crate::writer::warn;
use hyperchunk::codec;
use hyperchunk::model::{
    AllocationTime, Attribute, CharacterSet, Dataspace, ExternalFile, FillTime, FillValue, FillWhen, Name,
    ObjectKind, SourceName, VirtualMapping,
};
use hyperchunk::write::{self, DatasetOptions, NewLayout, NewLink, NodeId, Target};
use hyperchunk::{Error, ErrorKind, Result};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

/// An object of a file that is being written.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) file: write::Writer,
    pub(crate) id: NodeId,
}

/// Flag of a provisional address: objects get their real addresses only at the commit.
const NUMBERED: u64 = 1 << 63;

/// Keyword arguments for creating a dataset.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options<'py> {
    datatype: PyRef<'py, Datatype>,
    committed: Option<PyRef<'py, Node>>,
    /// None for a null dataspace.
    shape: Option<Vec<u64>>,
    max_shape: Option<Vec<Option<u64>>>,
    /// `compact`, `contiguous`, `chunked`, `external` or `virtual`.
    layout: String,
    chunks: Vec<u64>,
    /// Name, offset and size of each external file; the size is None if unlimited.
    external: Vec<(Vec<u8>, u64, Option<u64>)>,
    /// For each source of a virtual dataset: file name and dataset name, each split where block
    /// numbers go, the selection in the source, and the selection in the virtual dataset.
    #[pyo3(default)]
    mappings: Vec<NewMapping<'py>>,
    /// Either a preset of filters by name, or each filter's number with its options.
    preset: Option<String>,
    filters: Vec<(u16, Vec<u32>)>,
    /// An element as stored.
    fill: Option<Vec<u8>>,
    fill_time: String,
    track_order: bool,
}

impl Options<'_> {
    pub(crate) fn dataset(self, py: Python<'_>) -> PyResult<DatasetOptions> {
        let dataspace = dataspace(self.shape, self.max_shape);
        let mut options = DatasetOptions::new(self.datatype.0.clone(), dataspace);
        options.committed = match &self.committed {
            Some(node) => Some(node.file.address(node.id).map_err(|e| to_python(py, &e))?),
            None => None,
        };
        options.layout = match self.layout.as_str() {
            "compact" => NewLayout::Compact,
            "contiguous" => NewLayout::Contiguous,
            "chunked" => NewLayout::Chunked(self.chunks),
            "external" => {
                let file = |(name, offset, size): (Vec<u8>, u64, Option<u64>)| ExternalFile {
                    name: Name::from(&name[..]),
                    offset,
                    size,
                };
                NewLayout::External(self.external.into_iter().map(file).collect())
            }
            "virtual" => NewLayout::Virtual(self.mappings.iter().map(mapping).collect::<PyResult<_>>()?),
            other => return Err(PyValueError::new_err(format!("unknown layout: {other}"))),
        };
        options.fill = FillValue {
            value: self.fill.map_or(FillWhen::Default, FillWhen::User),
            allocation: AllocationTime::Default,
            time: match self.fill_time.as_str() {
                "alloc" => FillTime::Allocation,
                "never" => FillTime::Never,
                "ifset" => FillTime::IfSet,
                other => return Err(PyValueError::new_err(format!("unknown fill time: {other}"))),
            },
        };
        options.track_order = self.track_order;
        let chunk = if let NewLayout::Chunked(chunk) = &options.layout { &chunk[..] } else { &[] };
        let target = codec::Target { datatype: &options.datatype, chunk, fill: &options.fill.value };
        let pipeline = match &self.preset {
            Some(preset) => codec::preset(preset, &target),
            None => self.filters.iter().map(|(id, given)| codec::filter(*id, given, &target)).collect(),
        };
        options.pipeline = pipeline.map_err(|e| to_python(py, &e))?;
        Ok(options)
    }
}

type NewMapping<'py> = (Vec<Vec<u8>>, Vec<Vec<u8>>, Bound<'py, PyTuple>, Bound<'py, PyTuple>);

fn mapping((file, dataset, source, target): &NewMapping<'_>) -> PyResult<VirtualMapping> {
    let name =
        |parts: &[Vec<u8>]| SourceName { parts: parts.iter().map(|part| Name::from(&part[..])).collect() };
    Ok(VirtualMapping {
        file: name(file),
        dataset: name(dataset),
        source: selection::parse(source)?,
        target: selection::parse(target)?,
    })
}

fn dataspace(shape: Option<Vec<u64>>, max: Option<Vec<Option<u64>>>) -> Dataspace {
    match shape {
        None => Dataspace::Null,
        Some(dims) if dims.is_empty() => Dataspace::Scalar,
        Some(dims) => {
            let max = max.unwrap_or_else(|| dims.iter().copied().map(Some).collect());
            Dataspace::Simple { dims, max }
        }
    }
}

impl Node {
    /// Returns the object of a provisional address.
    pub(crate) fn node_id(address: u64) -> Option<NodeId> {
        if address & NUMBERED == 0 { None } else { NodeId::from_number(address & !NUMBERED) }
    }

    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&write::Writer, NodeId) -> Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| work(&self.file, self.id)).map_err(|e| to_python(py, &e))
    }

    fn other(&self, id: NodeId) -> Self {
        Self { file: self.file.clone(), id }
    }

    /// Returns the link at a path; None if it does not exist, or for the path of a group itself.
    fn link_at(&self, path: &[u8]) -> Result<Option<NewLink>> {
        let mut parts = path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
        let Some(name) = parts.next_back() else { return Ok(None) };
        let parts: Vec<&[u8]> = parts.collect();
        let start = if path.starts_with(b"/") { &b"/"[..] } else { b"" };
        match self.file.resolve(self.id, &[start, &parts.join(&b"/"[..])].concat())? {
            Target::Here(group) => self.file.find(group, name),
            Target::Elsewhere { file, .. } => {
                let message = format!("the path leads to another file, {file}");
                Err(Error::new(ErrorKind::NotFound, message))
            }
        }
    }
}

fn target<'py>(py: Python<'py>, target: &NewLink) -> PyResult<Bound<'py, PyTuple>> {
    match target {
        NewLink::Hard(id) => (0, id.number() | NUMBERED).into_pyobject(py),
        NewLink::Soft(path) => (1, names::decode(py, path.as_bytes())?).into_pyobject(py),
        NewLink::External { file, path } => {
            (2, names::decode(py, file.as_bytes())?, names::decode(py, path.as_bytes())?).into_pyobject(py)
        }
        NewLink::User { class, data } => (3, *class, PyBytes::new(py, data)).into_pyobject(py),
    }
}

#[pymethods]
impl Node {
    /// Kind: 0 for groups, 1 for datasets, 2 for committed datatypes.
    #[getter]
    fn kind(&self, py: Python<'_>) -> PyResult<u8> {
        let kind = self.file.kind(self.id).map_err(|e| to_python(py, &e))?;
        Ok(match kind {
            ObjectKind::Group => 0,
            ObjectKind::Dataset => 1,
            ObjectKind::Datatype => 2,
        })
    }

    /// Provisional address.
    #[getter]
    fn address(&self) -> u64 {
        self.id.number() | NUMBERED
    }

    /// Fixes the object's final address, for references, and returns it.
    fn pin(&self, py: Python<'_>) -> PyResult<u64> {
        self.run(py, |file, id| file.address(id))
    }

    /// Always false: the object is in this file.
    #[getter]
    fn elsewhere(&self) -> bool {
        false
    }

    /// A path to the object.
    #[getter]
    fn path(&self) -> Option<String> {
        let path = self.file.find_path(self.id).ok().flatten()?;
        Some(String::from_utf8_lossy(&path).into_owned())
    }

    /// Comment of the object.
    #[getter]
    fn comment<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let comment = self.run(py, |file, id| file.comment(id))?;
        comment.map(|comment| names::decode(py, comment.as_bytes())).transpose()
    }

    /// Sets the comment.
    fn set_comment(&self, py: Python<'_>, comment: Option<&[u8]>) -> PyResult<()> {
        self.run(py, |file, id| file.set_comment(id, comment.map(Name::from)))
    }

    /// Stores the creation time.
    fn track_times(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |file, id| file.track_times(id))
    }

    /// True if the creation order of attributes and links is tracked.
    #[getter]
    fn attribute_order_tracked(&self, py: Python<'_>) -> PyResult<bool> {
        self.run(py, |file, id| file.tracks_order(id))
    }

    // --- Attributes ---

    /// Returns the type, shape and stored elements of an attribute; None if it does not exist.
    fn attribute<'py>(&self, py: Python<'py>, name: &[u8]) -> PyResult<Option<Value<'py>>> {
        let found = self.run(py, |file, id| file.attribute(id, name))?;
        found.map(|attribute| value(py, attribute)).transpose()
    }

    /// Returns the address of the committed datatype that an attribute uses.
    fn attribute_committed(&self, py: Python<'_>, name: &[u8]) -> PyResult<Option<u64>> {
        self.run(py, |file, id| Ok(file.attribute(id, name)?.and_then(|attribute| attribute.committed)))
    }

    /// Returns all attributes.
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyAny>, Option<Value<'py>>)>> {
        let found = self.run(py, |file, id| {
            let names = file.attribute_names(id)?.into_iter();
            names.map(|name| Ok((file.attribute(id, name.as_bytes())?, name))).collect::<Result<Vec<_>>>()
        })?;
        let pairs = found.into_iter().map(|(found, name)| {
            Ok((names::decode(py, name.as_bytes())?, found.map(|found| value(py, found)).transpose()?))
        });
        pairs.collect()
    }

    /// Returns the names of all attributes.
    fn attribute_names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all = self.run(py, |file, id| file.attribute_names(id))?;
        let all = all.iter().map(|name| names::decode(py, name.as_bytes()));
        PyList::new(py, all.collect::<PyResult<Vec<_>>>()?)
    }

    /// Returns the number of attributes.
    fn attribute_count(&self, py: Python<'_>) -> PyResult<usize> {
        self.run(py, |file, id| file.attribute_names(id)).map(|names| names.len())
    }

    /// Sets an attribute: `shape` is None for a null dataspace; `data` are the elements as stored. With
    /// `last`, the attribute becomes the last in creation order, even if one with its name exists.
    #[pyo3(signature = (name, datatype, shape, data, *, utf8, committed=None, last=false))]
    #[expect(clippy::too_many_arguments, reason = "what an attribute is made of")]
    fn set_attribute(
        &self,
        py: Python<'_>,
        name: &[u8],
        datatype: &Datatype,
        shape: Option<Vec<u64>>,
        data: &[u8],
        utf8: bool,
        committed: Option<&Self>,
        last: bool,
    ) -> PyResult<()> {
        self.run(py, |file, id| {
            let committed = committed.map(|node| node.file.address(node.id)).transpose()?;
            let attribute = Attribute {
                name: name.into(),
                charset: if utf8 { CharacterSet::Utf8 } else { CharacterSet::Ascii },
                datatype: datatype.0.clone(),
                committed,
                dataspace: dataspace(shape, None),
                data: data.to_vec(),
                creation_order: None,
            };
            if last { file.replace_attribute(id, attribute) } else { file.set_attribute(id, attribute) }
        })?;
        warn(py, &self.file)
    }

    /// Renames an attribute.
    fn rename_attribute(&self, py: Python<'_>, name: &[u8], new: &[u8]) -> PyResult<()> {
        self.run(py, |file, id| file.rename_attribute(id, name, new.into()))
    }

    /// Removes an attribute.
    fn delete_attribute(&self, py: Python<'_>, name: &[u8]) -> PyResult<()> {
        self.run(py, |file, id| file.delete_attribute(id, name))
    }

    // --- Groups ---

    /// Returns the number of links.
    fn link_count(&self, py: Python<'_>) -> PyResult<usize> {
        self.run(py, |file, id| file.names(id)).map(|names| names.len())
    }

    /// Returns the names of the links.
    fn link_names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all = self.run(py, |file, id| file.names(id))?;
        let all = all.iter().map(|name| names::decode(py, name.as_bytes()));
        PyList::new(py, all.collect::<PyResult<Vec<_>>>()?)
    }

    /// Returns the links: names and targets.
    #[pyo3(signature = (*, by_name=false))]
    fn links<'py>(
        &self,
        py: Python<'py>,
        by_name: bool,
    ) -> PyResult<Vec<(Bound<'py, PyAny>, Bound<'py, PyTuple>)>> {
        let mut names = self.run(py, |file, id| file.names(id))?;
        if by_name {
            names.sort_unstable();
        }
        let links = names.into_iter().filter_map(|name| {
            let found = self.file.find(self.id, name.as_bytes()).transpose()?;
            Some(found.map(|found| (name, found)))
        });
        let links = links.collect::<Result<Vec<_>>>().map_err(|e| to_python(py, &e))?;
        let links = links.iter();
        links.map(|(name, found)| Ok((names::decode(py, name.as_bytes())?, target(py, found)?))).collect()
    }

    /// Returns the target of the link at a path; None if it does not exist, or for the path of a group itself.
    fn link<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let found = self.link_at(path).map_err(|e| to_python(py, &e))?;
        found.map(|found| target(py, &found)).transpose()
    }

    /// True if the link at a path exists, even if it dangles.
    fn has_link(&self, py: Python<'_>, path: &[u8]) -> PyResult<bool> {
        if path.is_empty() {
            return Ok(false);
        }
        if path.split(|byte| *byte == b'/').all(|name| matches!(name, b"" | b".")) {
            return Ok(true);
        }
        match self.link_at(path) {
            Ok(link) => Ok(link.is_some()),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid) => Ok(false),
            Err(error) => Err(to_python(py, &error)),
        }
    }

    /// Returns the object at a path; for an object in another file, that file's name and the path
    /// in it.
    fn get<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        match self.run(py, |file, id| file.resolve(id, path))? {
            Target::Here(id) => Ok(Bound::new(py, self.other(id))?.into_any()),
            Target::Elsewhere { file, path } => {
                let file = names::decode(py, file.as_bytes())?;
                Ok((file, names::decode(py, path.as_bytes())?).into_pyobject(py)?.into_any())
            }
        }
    }

    /// Creates a group; with an empty name, an anonymous one.
    fn create_group(&self, py: Python<'_>, name: &[u8], track_order: bool) -> PyResult<Self> {
        self.run(py, |file, id| file.create_group(id, name, track_order)).map(|id| self.other(id))
    }

    /// Commits a datatype; with an empty name, an anonymous one.
    fn commit_datatype(&self, py: Python<'_>, name: &[u8], datatype: &Datatype) -> PyResult<Self> {
        let made = self.run(py, |file, id| file.commit_datatype(id, name, datatype.0.clone()))?;
        warn(py, &self.file)?;
        Ok(self.other(made))
    }

    /// Creates a dataset; with an empty name, an anonymous one.
    #[pyo3(signature = (name, **keywords))]
    fn create_dataset(
        &self,
        py: Python<'_>,
        name: &[u8],
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let missing = || PyValueError::new_err("the options are missing");
        let options = keywords.ok_or_else(missing)?.extract::<Options<'_>>()?.dataset(py)?;
        let made = self.run(py, |file, id| file.create_dataset(id, name, options))?;
        warn(py, &self.file)?;
        Ok(self.other(made.id()))
    }

    /// Creates a hard link.
    fn link_hard(&self, py: Python<'_>, name: &[u8], to: &Self) -> PyResult<()> {
        self.run(py, |file, id| file.link(id, name, NewLink::Hard(to.id)))
    }

    /// Creates a soft link.
    fn link_soft(&self, py: Python<'_>, name: &[u8], path: &[u8]) -> PyResult<()> {
        self.run(py, |file, id| file.link(id, name, NewLink::Soft(path.into())))
    }

    /// Creates an external link.
    fn link_external(&self, py: Python<'_>, name: &[u8], other: &[u8], path: &[u8]) -> PyResult<()> {
        let link = NewLink::External { file: other.into(), path: path.into() };
        self.run(py, |file, id| file.link(id, name, link))
    }

    /// Removes a link.
    fn unlink(&self, py: Python<'_>, name: &[u8]) -> PyResult<()> {
        self.run(py, |file, id| file.unlink(id, name))
    }

    // --- Datasets and datatypes ---

    /// Returns the object as a dataset.
    fn dataset(&self, py: Python<'_>) -> PyResult<DatasetWriter> {
        self.run(py, |file, id| file.dataset(id))
            .map(|dataset| DatasetWriter::new(self.file.clone(), dataset))
    }

    /// Returns the object as a committed datatype.
    fn datatype(&self, py: Python<'_>) -> PyResult<Datatype> {
        self.run(py, |file, id| file.datatype(id)).map(Datatype)
    }

    fn __repr__(&self) -> String {
        format!("{:?} {}", self.file.kind(self.id).ok(), self.id.number())
    }
}
