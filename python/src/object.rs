//! Objects: groups, datasets and committed datatypes.

use crate::dataset::Dataset;
use crate::datatype::Datatype;
use crate::errors::to_python;
use crate::file::File;
use crate::names;
use hyperchunk::model::{Attribute, Dataspace, Link, LinkTarget, ObjectKind};
use hyperchunk::{ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::collections::HashMap;

/// An object of a file.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) object: hyperchunk::Object,
    elsewhere: bool,
}

impl Object {
    pub(crate) fn new(found: Result<hyperchunk::Object>, elsewhere: bool) -> Result<Self> {
        found.map(|object| Self { object, elsewhere })
    }

    /// Works on the object with the interpreter detached.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&hyperchunk::Object) -> Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| work(&self.object)).map_err(|e| to_python(py, &e))
    }

    /// All links, in the order of their creation where that is tracked and wanted, else by name.
    fn sorted(&self, py: Python<'_>, by_name: bool) -> PyResult<Vec<Link>> {
        self.run(py, |object| {
            let group = object.group()?;
            let mut links = group.links()?;
            if !by_name && group.tracks_order()? {
                links.sort_by_key(|link| link.creation_order);
            }
            Ok(links)
        })
    }
}

/// The type, the shape and the stored elements of an attribute.
pub(crate) type Value<'py> = (Datatype, Option<Bound<'py, PyTuple>>, Bound<'py, PyBytes>);

#[pymethods]
impl Object {
    /// 0 for groups, 1 for datasets, 2 for committed datatypes.
    #[getter]
    fn kind(&self) -> u8 {
        match self.object.kind() {
            ObjectKind::Group => 0,
            ObjectKind::Dataset => 1,
            ObjectKind::Datatype => 2,
        }
    }

    /// Where its header lies, from the file's base.
    #[getter]
    fn address(&self) -> u64 {
        self.object.address()
    }

    /// Whether a link led to it from another file.
    #[getter]
    fn elsewhere(&self) -> bool {
        self.elsewhere
    }

    /// The file that it lies in.
    #[getter]
    fn file(&self) -> File {
        File(self.object.file().clone())
    }

    /// The path it was reached by, if it was.
    #[getter]
    fn path(&self) -> Option<&str> {
        self.object.path()
    }

    /// Its comment.
    #[getter]
    fn comment<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let comment = self.run(py, hyperchunk::Object::comment)?;
        comment.map(|comment| names::decode(py, comment.as_bytes())).transpose()
    }

    /// Whether the order in which its attributes were made is tracked.
    #[getter]
    fn attribute_order_tracked(&self) -> bool {
        self.object.header().attribute_order_tracked
    }

    // --- Attributes ---

    /// An attribute's type, shape and stored elements; None if there is none of that name.
    fn attribute<'py>(&self, py: Python<'py>, name: &[u8]) -> PyResult<Option<Value<'py>>> {
        let found = self.run(py, |object| object.attribute(name))?;
        found.map(|attribute| value(py, attribute)).transpose()
    }

    /// All attributes, in the order of their creation where that is tracked, else by name; None for those that cannot be
    /// read.
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyAny>, Option<Value<'py>>)>> {
        let (names, all) =
            self.run(py, |object| Ok((object.attribute_names()?, object.each_attribute()?)))?;
        let mut all: HashMap<_, _> = all.into_iter().collect();
        let pairs = names.into_iter().map(|name| {
            let found = all.remove(&name).and_then(Result::ok);
            Ok((names::decode(py, name.as_bytes())?, found.map(|found| value(py, found)).transpose()?))
        });
        pairs.collect()
    }

    /// The names of all attributes, in the same order.
    fn attribute_names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all = self.run(py, hyperchunk::Object::attribute_names)?;
        let all = all.iter().map(|name| names::decode(py, name.as_bytes()));
        PyList::new(py, all.collect::<PyResult<Vec<_>>>()?)
    }

    /// How many attributes it has.
    fn attribute_count(&self, py: Python<'_>) -> PyResult<u64> {
        self.run(py, hyperchunk::Object::attribute_count)
    }

    // --- Of groups ---

    /// How many links it has.
    fn link_count(&self, py: Python<'_>) -> PyResult<u64> {
        self.run(py, |object| object.group()?.len())
    }

    /// The names of its links, in the order of their creation where that is tracked, else by name.
    fn link_names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let links = self.sorted(py, false)?;
        let all = links.iter().map(|link| names::decode(py, link.name.as_bytes()));
        PyList::new(py, all.collect::<PyResult<Vec<_>>>()?)
    }

    /// Its links: names and targets.
    #[pyo3(signature = (*, by_name=false))]
    fn links<'py>(
        &self,
        py: Python<'py>,
        by_name: bool,
    ) -> PyResult<Vec<(Bound<'py, PyAny>, Bound<'py, PyTuple>)>> {
        let links = self.sorted(py, by_name)?;
        links
            .iter()
            .map(|link| Ok((names::decode(py, link.name.as_bytes())?, target(py, &link.target)?)))
            .collect()
    }

    /// The target of the link that a path ends with; None if there is none, or the path is that of a group itself.
    fn link<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let found = self.run(py, |object| object.group()?.link_at(path))?;
        found.map(|link| target(py, &link.target)).transpose()
    }

    /// Whether a path ends with a link that is there, whether or not that leads anywhere.
    fn has_link(&self, py: Python<'_>, path: &[u8]) -> PyResult<bool> {
        self.run(py, |object| {
            if path.is_empty() {
                return Ok(false);
            }
            if path.split(|byte| *byte == b'/').all(|name| name.is_empty() || name == b".") {
                return Ok(true);
            }
            match object.group()?.link_at(path) {
                Ok(link) => Ok(link.is_some()),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// The object that a path leads to.
    fn get(&self, py: Python<'_>, path: &[u8]) -> PyResult<Self> {
        self.run(py, |object| {
            let found = object.group()?.get(path)?;
            let elsewhere = !found.file().same(object.file());
            Self::new(Ok(found), elsewhere)
        })
    }

    // --- Of others ---

    /// It as a dataset.
    fn dataset(&self, py: Python<'_>) -> PyResult<Dataset> {
        self.run(py, hyperchunk::Object::dataset).map(Dataset)
    }

    /// It as a committed datatype.
    fn datatype(&self, py: Python<'_>) -> PyResult<Datatype> {
        self.run(py, hyperchunk::Object::datatype).map(Datatype)
    }

    fn __repr__(&self) -> String {
        format!("{:?} at {:#x}", self.object.kind(), self.object.address())
    }
}

pub(crate) fn value(py: Python<'_>, attribute: Attribute) -> PyResult<Value<'_>> {
    let shape = match &attribute.dataspace {
        Dataspace::Null => None,
        other => Some(PyTuple::new(py, other.dims())?),
    };
    Ok((Datatype(attribute.datatype), shape, PyBytes::new(py, &attribute.data)))
}

/// What a link leads to, for Python: a number for its kind, and what belongs to that.
fn target<'py>(py: Python<'py>, target: &LinkTarget) -> PyResult<Bound<'py, PyTuple>> {
    match target {
        LinkTarget::Hard(address) => (0, *address).into_pyobject(py),
        LinkTarget::Soft(path) => (1, names::decode(py, path.as_bytes())?).into_pyobject(py),
        LinkTarget::External { file, path } => {
            (2, names::decode(py, file.as_bytes())?, names::decode(py, path.as_bytes())?).into_pyobject(py)
        }
        LinkTarget::User { class, data } => (3, *class, PyBytes::new(py, data)).into_pyobject(py),
    }
}
