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

    /// Runs `work` on the object with the GIL released.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&hyperchunk::Object) -> Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| work(&self.object)).map_err(|e| to_python(py, &e))
    }

    /// Returns all links, in creation order if it is tracked and `by_name` is false, else by name.
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

/// Type, shape and stored elements of an attribute.
pub(crate) type Value<'py> = (Datatype, Option<Bound<'py, PyTuple>>, Bound<'py, PyBytes>);

#[pymethods]
impl Object {
    /// Kind: 0 for groups, 1 for datasets, 2 for committed datatypes.
    #[getter]
    fn kind(&self) -> u8 {
        match self.object.kind() {
            ObjectKind::Group => 0,
            ObjectKind::Dataset => 1,
            ObjectKind::Datatype => 2,
        }
    }

    /// Address of the object header, relative to the file's base.
    #[getter]
    fn address(&self) -> u64 {
        self.object.address()
    }

    /// True if the object was reached through an external link.
    #[getter]
    fn elsewhere(&self) -> bool {
        self.elsewhere
    }

    /// File of the object.
    #[getter]
    fn file(&self) -> File {
        File(self.object.file().clone())
    }

    /// Path by which the object was reached, if any.
    #[getter]
    fn path(&self) -> Option<&str> {
        self.object.path()
    }

    /// Comment of the object.
    #[getter]
    fn comment<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let comment = self.run(py, hyperchunk::Object::comment)?;
        comment.map(|comment| names::decode(py, comment.as_bytes())).transpose()
    }

    /// True if the creation order of attributes is tracked.
    #[getter]
    fn attribute_order_tracked(&self) -> bool {
        self.object.header().attribute_order_tracked
    }

    // --- Attributes ---

    /// Returns the type, shape and stored elements of an attribute; None if it does not exist.
    fn attribute<'py>(&self, py: Python<'py>, name: &[u8]) -> PyResult<Option<Value<'py>>> {
        let found = self.run(py, |object| object.attribute(name))?;
        found.map(|attribute| value(py, attribute)).transpose()
    }

    /// Returns the address of the committed datatype that an attribute uses.
    fn attribute_committed(&self, py: Python<'_>, name: &[u8]) -> PyResult<Option<u64>> {
        self.run(py, |object| Ok(object.attribute(name)?.and_then(|attribute| attribute.committed)))
    }

    /// Returns all attributes, in creation order if it is tracked, else by name; None for a value
    /// that cannot be read.
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

    /// Returns the names of all attributes, in the order of `attributes`.
    fn attribute_names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all = self.run(py, hyperchunk::Object::attribute_names)?;
        let all = all.iter().map(|name| names::decode(py, name.as_bytes()));
        PyList::new(py, all.collect::<PyResult<Vec<_>>>()?)
    }

    /// Returns the number of attributes.
    fn attribute_count(&self, py: Python<'_>) -> PyResult<u64> {
        self.run(py, hyperchunk::Object::attribute_count)
    }

    // --- Groups ---

    /// Returns the number of links.
    fn link_count(&self, py: Python<'_>) -> PyResult<u64> {
        self.run(py, |object| object.group()?.len())
    }

    /// Returns the names of the links, in creation order if it is tracked, else by name.
    fn link_names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let links = self.sorted(py, false)?;
        let all = links.iter().map(|link| names::decode(py, link.name.as_bytes()));
        PyList::new(py, all.collect::<PyResult<Vec<_>>>()?)
    }

    /// Returns the links: names and targets.
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

    /// Returns the target of the link at a path; None if it does not exist, or for the path of a
    /// group itself.
    fn link<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let found = self.run(py, |object| object.group()?.link_at(path))?;
        found.map(|link| target(py, &link.target)).transpose()
    }

    /// True if the link at a path exists, even if it dangles.
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

    /// Returns the object at a path.
    fn get(&self, py: Python<'_>, path: &[u8]) -> PyResult<Self> {
        self.run(py, |object| {
            let found = object.group()?.get(path)?;
            let elsewhere = !found.file().same(object.file());
            Self::new(Ok(found), elsewhere)
        })
    }

    // --- Datasets and datatypes ---

    /// Returns the object as a dataset.
    fn dataset(&self, py: Python<'_>) -> PyResult<Dataset> {
        self.run(py, hyperchunk::Object::dataset).map(Dataset)
    }

    /// Returns the object as a committed datatype.
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

/// Converts a link's target for Python: a number for its kind, and the properties of the kind.
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
