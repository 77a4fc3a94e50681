//! Files opened for reading.

use crate::datatype::{Datatype, reference_kind};
use crate::errors::{opening, to_python};
use crate::memory::look;
use crate::network::PythonSource;
use crate::object::Object;
use crate::{names, selection};
use hyperchunk::check::{Assumptions, check};
use hyperchunk::index::{IndexOption, IndexState};
use hyperchunk::io::Locking;
use hyperchunk::walk::{Next, VisitedItem};
use hyperchunk::{Error, ExternalPolicy, OpenOptions};
use hyperchunk_cli::{Indexing, report_json};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyString, PyTuple};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// Number of sequences per batch: their parts of the heap are fetched together.
const WINDOW: usize = 1 << 14;

/// Handle of an open file.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct File(pub(crate) hyperchunk::File);

/// An object, the selection of a region reference, and the name of an attribute reference's
/// attribute.
type ReferencedObject<'py> = (Object, Option<Bound<'py, PyTuple>>, Option<Bound<'py, PyAny>>);

/// Keyword arguments for opening a file.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    ignore_locks: bool,
    allow_truncated: bool,
    threads: usize,
    external: String,
    /// `auto`, `beside`, `never`, or a path.
    index: String,
}

pub(crate) fn options(keywords: &Bound<'_, PyDict>) -> PyResult<OpenOptions> {
    let given: Options = keywords.extract()?;
    let mut options = OpenOptions::default();
    options.external = match given.external.as_str() {
        "anywhere" => ExternalPolicy::Anywhere,
        "beside" => ExternalPolicy::Beside,
        "never" => ExternalPolicy::Never,
        other => {
            let message = format!("external must be 'anywhere', 'beside' or 'never', not {other:?}");
            return Err(PyValueError::new_err(message));
        }
    };
    options.index = match given.index.as_str() {
        "auto" => IndexOption::Auto,
        "beside" => IndexOption::Beside,
        "never" => IndexOption::Never,
        path => IndexOption::Path(path.into()),
    };
    options.ignore_locks = given.ignore_locks;
    options.allow_truncated = given.allow_truncated;
    options.threads = given.threads;
    if let Some(locking) = keywords.get_item("locking")? {
        options.locking = parse_locking(&locking.extract::<String>()?)?;
    }
    if let Some(swmr) = keywords.get_item("swmr")? {
        options.swmr = swmr.extract()?;
    }
    if let Some(epoch) = keywords.get_item("epoch")? {
        options.epoch = Some(epoch.extract()?);
    }
    if let Some(layouts) = keywords.get_item("layouts")? {
        options.ignore_layouts = !layouts.extract::<bool>()?;
    }
    if let Some(limits) = keywords.get_item("limits")? {
        for (name, value) in limits.cast::<PyDict>()? {
            let name: String = name.extract()?;
            let set = options.limits.set(&name, value.extract()?);
            set.map_err(|error| PyValueError::new_err(error.message().to_owned()))?;
        }
    }
    if let Some(network) = keywords.get_item("network")? {
        options.remote = crate::network::options(network.cast::<PyDict>()?)?;
    }
    Ok(options)
}

/// Parses the name of a locking mode.
pub(crate) fn parse_locking(name: &str) -> PyResult<Locking> {
    match name {
        "default" => Ok(Locking::Default),
        "always" => Ok(Locking::Always),
        "best-effort" => Ok(Locking::BestEffort),
        "never" => Ok(Locking::Never),
        other => Err(PyValueError::new_err(format!("unknown locking {other:?}"))),
    }
}

pub(crate) fn given<'a, 'py>(keywords: Option<&'a Bound<'py, PyDict>>) -> PyResult<&'a Bound<'py, PyDict>> {
    keywords.ok_or_else(|| PyTypeError::new_err("the options are missing"))
}

#[pymethods]
impl File {
    /// Opens a file by its path.
    #[staticmethod]
    #[pyo3(signature = (path, **keywords))]
    fn open(
        py: Python<'_>,
        #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = options(given(keywords)?)?;
        py.detach(|| hyperchunk::File::open(path, &options)).map(Self).map_err(|e| opening(py, &e))
    }

    /// Opens a file image in memory.
    #[staticmethod]
    #[pyo3(signature = (data, **keywords))]
    fn from_bytes(
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = options(given(keywords)?)?;
        let bytes = look(data, |data| Ok(data.to_vec()))?;
        py.detach(|| hyperchunk::File::from_bytes(bytes, &options)).map(Self).map_err(|e| opening(py, &e))
    }

    /// Opens a file in an object store or on a web server.
    #[staticmethod]
    #[pyo3(signature = (url, **keywords))]
    fn open_url(py: Python<'_>, url: &str, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = options(given(keywords)?)?;
        py.detach(|| hyperchunk::File::open_url(url, &options)).map(Self).map_err(|e| opening(py, &e))
    }

    /// Opens a file whose bytes a Python object fetches; `path` is for messages.
    #[staticmethod]
    #[pyo3(signature = (source, path, **keywords))]
    fn from_source(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = crate::paths::optional)] path: Option<PathBuf>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = options(given(keywords)?)?;
        let source = Arc::new(PythonSource::new(source, options.remote.clone())?);
        py.detach(|| hyperchunk::File::from_source(source, path, &options))
            .map(Self)
            .map_err(|e| opening(py, &e))
    }

    /// The sidecar index in use, and the reason why an existing one is not used.
    #[getter]
    fn index(&self) -> (Option<&str>, Option<&str>) {
        match self.0.index_state() {
            IndexState::Used(name) => (Some(name), None),
            IndexState::Ignored(reason) => (None, Some(reason)),
            _ => (None, None),
        }
    }

    /// Runs the command `index` and returns its report as JSON. `given` is the path or URL by which
    /// the file was opened.
    #[pyo3(signature = (given, *, output, cache, kerchunk, virtualizarr, name, from_kerchunk, overwrite))]
    #[expect(clippy::too_many_arguments, reason = "the options of the command")]
    fn make_index(
        &self,
        py: Python<'_>,
        given: &str,
        #[pyo3(from_py_with = crate::paths::optional)] output: Option<PathBuf>,
        cache: bool,
        #[pyo3(from_py_with = crate::paths::optional)] kerchunk: Option<PathBuf>,
        #[pyo3(from_py_with = crate::paths::optional)] virtualizarr: Option<PathBuf>,
        name: Option<String>,
        #[pyo3(from_py_with = crate::paths::optional)] from_kerchunk: Option<PathBuf>,
        overwrite: bool,
    ) -> PyResult<String> {
        let what = Indexing { output, cache, kerchunk, virtualizarr, name, from_kerchunk, overwrite };
        let made = py.detach(|| what.make(&self.0, given)).map_err(|e| to_python(py, &e))?;
        Ok(made.to_json())
    }

    /// Returns the report of the command `check` as JSON, for requests of `latency` milliseconds
    /// and `bandwidth` MB per second.
    fn check(&self, py: Python<'_>, given: &str, latency: f64, bandwidth: f64) -> PyResult<String> {
        let assumed = Assumptions::new(latency / 1000.0, bandwidth * 1e6);
        let report = py.detach(|| check(&self.0, &assumed)).map_err(|e| to_python(py, &e))?;
        Ok(report_json(&report, given, (latency, bandwidth)))
    }

    /// True if the file is read by requests over a network.
    #[getter]
    fn is_remote(&self) -> bool {
        self.0.is_remote()
    }

    /// True if a program is writing the file, according to its status flags or its journal.
    #[getter]
    fn is_written(&self) -> bool {
        self.0.is_written()
    }

    /// True if the file is followed while a program writes it in SWMR mode.
    #[getter]
    fn is_followed(&self) -> bool {
        self.0.is_followed()
    }

    /// Network counters: requests, bytes, repeated requests, sequential round trips.
    #[getter]
    fn counters(&self) -> Option<[u64; 4]> {
        self.0.counters()
    }

    /// Fetches the structure of all objects below one, with one round trip per level.
    #[pyo3(signature = (start, *, attributes, depth))]
    fn prefetch(&self, py: Python<'_>, start: &Object, attributes: bool, depth: Option<u32>) -> PyResult<()> {
        py.detach(|| self.0.prefetch(&start.object, attributes, depth)).map_err(|e| to_python(py, &e))
    }

    /// Finds the objects of several paths together; a missing one is an exception in its place. The
    /// first `whole` of them will be read whole.
    #[pyo3(signature = (start, paths, whole=0))]
    fn open_many<'py>(
        &self,
        py: Python<'py>,
        start: &Object,
        paths: Vec<Vec<u8>>,
        whole: usize,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let paths: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
        let found =
            py.detach(|| self.0.open_many(&start.object, &paths, whole)).map_err(|e| to_python(py, &e))?;
        let found = found.into_iter().map(|found| {
            let elsewhere = found.as_ref().is_ok_and(|object| !object.file().same(&self.0));
            match Object::new(found, elsewhere) {
                Ok(object) => Bound::new(py, object).map(Bound::into_any),
                Err(error) => Ok(to_python(py, &error).into_value(py).into_bound(py).into_any()),
            }
        });
        found.collect()
    }

    /// Root group.
    #[getter]
    fn root(&self, py: Python<'_>) -> PyResult<Object> {
        Object::new(py.detach(|| self.0.root()).map(|root| root.named("/")), false)
            .map_err(|e| to_python(py, &e))
    }

    /// Returns the object at an address; `path` is for messages.
    #[pyo3(signature = (address, path=None))]
    fn object(&self, py: Python<'_>, address: u64, path: Option<&Bound<'_, PyString>>) -> PyResult<Object> {
        let path = path.map(|path| path.to_string_lossy());
        let found = py.detach(|| self.0.object(address)).map(|object| match path {
            Some(path) => object.named(&path),
            None => object,
        });
        Object::new(found, false).map_err(|e| to_python(py, &e))
    }

    /// Path or URL of the file, if it has one.
    #[getter]
    fn path(&self) -> Option<OsString> {
        self.0.path().map(|path| path.as_os_str().to_owned())
    }

    /// File offset of the superblock, which is the size of the user block.
    #[getter]
    fn base(&self) -> u64 {
        self.0.superblock().base
    }

    /// Version of the superblock.
    #[getter]
    fn version(&self) -> u8 {
        self.0.superblock().version
    }

    /// Size of an address in bytes.
    #[getter]
    fn address_size(&self) -> u8 {
        self.0.superblock().sizes.address
    }

    /// Releases the file's locks. Another process may then write the file; later reads detect that.
    fn release_locks(&self) {
        self.0.release_locks();
    }

    /// True if both handles are of the same open file.
    fn same(&self, other: &Self) -> bool {
        self.0.same(&other.0)
    }

    /// Returns the first path to the object at an address.
    fn find_path<'py>(&self, py: Python<'py>, address: u64) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let search = || {
            let mut path = None;
            self.0.walk(&self.0.root()?, b"/", &mut |visit| match visit.found {
                VisitedItem::Object(object) if object.address() == address => {
                    path = Some(visit.path.to_vec());
                    Ok(Next::Stop)
                }
                _ => Ok(Next::Enter),
            })?;
            Ok(path)
        };
        let path = py.detach(search).map_err(|e: Error| to_python(py, &e))?;
        Ok(path.map(|path| PyBytes::new(py, &path)))
    }

    /// Resolves a stored reference.
    fn dereference<'py>(&self, py: Python<'py>, kind: usize, raw: &[u8]) -> PyResult<ReferencedObject<'py>> {
        let kind = reference_kind(kind)?;
        let found = py.detach(|| {
            let Some(reference) = self.0.reference(kind, raw)? else { return Ok(None) };
            Ok(Some((self.0.dereference(&reference)?, reference)))
        });
        let Some((object, reference)) = found.map_err(|e: Error| to_python(py, &e))? else {
            return Err(PyValueError::new_err("cannot dereference a null reference"));
        };
        let elsewhere = !object.file().same(&self.0);
        let object = Object::new(Ok(object), elsewhere).map_err(|e| to_python(py, &e))?;
        let region = reference.region.map(|region| selection::describe(py, &region.selection)).transpose()?;
        let attribute = reference.attribute.map(|name| names::decode(py, name.as_bytes())).transpose()?;
        Ok((object, region, attribute))
    }

    /// Returns the variable-length strings of `elements`, an array of stored elements.
    pub(crate) fn strings<'py>(&self, py: Python<'py>, elements: &[u8]) -> PyResult<Bound<'py, PyList>> {
        let size = self.0.handle_size();
        let found = py.detach(|| {
            let mut sequences = self.0.sequences();
            let mut text = Vec::new();
            let mut ends = Vec::with_capacity(elements.len().checked_div(size).unwrap_or(0));
            for window in elements.chunks(size * WINDOW) {
                self.0.load_heaps(window)?;
                for element in window.chunks_exact(size) {
                    text.extend_from_slice(sequences.string(element)?);
                    ends.push(text.len());
                }
            }
            Ok((text, ends))
        });
        let (text, ends) = found.map_err(|e: Error| to_python(py, &e))?;
        let mut start = 0;
        let strings = ends.into_iter().map(|end| {
            let string = PyBytes::new(py, text.get(start..end).unwrap_or_default());
            start = end;
            string
        });
        PyList::new(py, strings.collect::<Vec<_>>())
    }

    /// Returns the sequences of `elements`, an array of stored elements: the number of elements in
    /// each, and the bytes of all.
    pub(crate) fn sequences<'py>(
        &self,
        py: Python<'py>,
        elements: &[u8],
        base: &Datatype,
    ) -> PyResult<(Vec<u64>, Bound<'py, PyByteArray>)> {
        let found = py.detach(|| {
            let size = self.0.handle_size();
            let mut sequences = self.0.sequences();
            let (mut counts, mut bytes) = (Vec::new(), Vec::new());
            for window in elements.chunks(size * WINDOW) {
                self.0.load_heaps(window)?;
                for element in window.chunks_exact(size) {
                    let sequence = sequences.get(element, &base.0)?;
                    counts.push(sequence.map_or(0, |(count, _)| count));
                    bytes.extend_from_slice(sequence.map_or(&[][..], |(_, bytes)| bytes));
                }
            }
            Ok((counts, bytes))
        });
        let (counts, bytes) = found.map_err(|e: Error| to_python(py, &e))?;
        Ok((counts, PyByteArray::new(py, &bytes)))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Sets the size in bytes of this process's metadata cache for files over a network.
#[pyfunction]
pub(crate) fn set_metadata_cache_bytes(bytes: usize) {
    hyperchunk::io::set_metadata_cache_bytes(bytes);
}
