//! Files that are being written: the Python interface of [`crate::file::File`] plus writing.

use crate::datatype::{Datatype, reference_kind};
use crate::errors::{opening, to_python};
use crate::file::File;
use crate::memory::look;
use crate::names;
use crate::node::Node;
use crate::selection::{self, Selection};
use hyperchunk::encode::LibVersion;
use hyperchunk::model::RegionSelection;
use hyperchunk::write::{self, CreateOptions, FileLayout, MemorySink, NodeId, Sync};
use hyperchunk::{Error, Result};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyString, PyTuple};
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;

/// A file that is being written.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) file: write::Writer,
    /// The bytes of the file, if it is in memory.
    pub(crate) memory: Option<Arc<MemorySink>>,
}

/// Result of [`crate::file::File::dereference`].
type ReferencedNode<'py> = (Node, Option<Bound<'py, PyTuple>>, Option<Bound<'py, PyAny>>);

/// Keyword arguments for creating a file.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    oldest: String,
    #[pyo3(default)]
    newest: Option<String>,
    threads: usize,
    sync: String,
    page: Option<u64>,
    alignment: u64,
    #[pyo3(default)]
    alignment_threshold: u64,
    replace: bool,
    journal: bool,
    waiting_bytes: usize,
    #[pyo3(default)]
    user_block: u64,
    #[pyo3(default)]
    locking: Option<String>,
    #[pyo3(default)]
    guard: bool,
}

fn unknown(what: &str, name: &str) -> PyErr {
    PyValueError::new_err(format!("unknown {what}: {name}"))
}

pub(crate) fn options(keywords: Option<&Bound<'_, PyDict>>) -> PyResult<CreateOptions> {
    let keywords = keywords.ok_or_else(|| PyTypeError::new_err("the options are missing"))?;
    let given: Options = keywords.extract()?;
    let mut options = CreateOptions::default();
    let release = |name: &str| match name {
        "v18" => Ok(LibVersion::V18),
        "v110" => Ok(LibVersion::V110),
        "v200" => Ok(LibVersion::V200),
        other => Err(unknown("release of HDF5", other)),
    };
    options.oldest = release(&given.oldest)?;
    options.newest = given.newest.as_deref().map_or(Ok(options.oldest), release)?;
    options.sync = match given.sync.as_str() {
        "never" => Sync::Never,
        "commit" => Sync::Commit,
        "write" => Sync::Write,
        other => return Err(unknown("policy of sync", other)),
    };
    options.layout = given.page.map_or(FileLayout::AtEnd, |page| FileLayout::InFront { page });
    options.threads = given.threads;
    options.alignment = given.alignment;
    options.alignment_threshold = given.alignment_threshold;
    options.replace = given.replace;
    options.journal = given.journal;
    options.waiting_bytes = given.waiting_bytes;
    options.user_block = given.user_block;
    options.guard = given.guard;
    if let Some(locking) = given.locking {
        options.locking = crate::file::parse_locking(&locking)?;
    }
    Ok(options)
}

/// Warns about features that needed a newer format than requested.
pub(crate) fn warn(py: Python<'_>, file: &write::Writer) -> PyResult<()> {
    for notice in file.notices() {
        let category = py.import("hyperchunk.exceptions")?.getattr("NewerFormatWarning")?;
        PyErr::warn(py, &category, &CString::new(notice)?, 2)?;
    }
    Ok(())
}

/// Resolves the path of a new file: as in h5py, replacing a symbolic link replaces its target.
pub(crate) fn target(path: PathBuf, options: &CreateOptions) -> Result<PathBuf> {
    if options.replace { hyperchunk::output::target(&path) } else { Ok(path) }
}

impl Writer {
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&write::Writer) -> Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| work(&self.file)).map_err(|e| to_python(py, &e))
    }

    fn node(&self, id: NodeId) -> Node {
        Node { file: self.file.clone(), id }
    }
}

#[pymethods]
impl Writer {
    /// Creates a file, which gets its name at the first flush or close.
    #[staticmethod]
    #[pyo3(signature = (path, **keywords))]
    fn create(
        py: Python<'_>,
        #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = options(keywords)?;
        let made = py.detach(|| write::Writer::create(target(path, &options)?, &options));
        made.map(|file| Self { file, memory: None }).map_err(|e| opening(py, &e))
    }

    /// Opens an existing file for changes.
    #[staticmethod]
    #[pyo3(signature = (path, **keywords))]
    fn edit(
        py: Python<'_>,
        #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = options(keywords)?;
        let opened = py.detach(|| write::Writer::edit(&path, &options));
        opened.map(|file| Self { file, memory: None }).map_err(|e| opening(py, &e))
    }

    /// Creates a file in memory; `name` is for messages.
    #[staticmethod]
    #[pyo3(signature = (name, **keywords))]
    fn in_memory(py: Python<'_>, name: &str, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = options(keywords)?;
        let memory = Arc::new(MemorySink::default());
        let made = write::Writer::create_in(Arc::<MemorySink>::clone(&memory), Some(name), &options);
        made.map(|file| Self { file, memory: Some(memory) }).map_err(|e| to_python(py, &e))
    }

    /// Creates a file that is streamed to an object store, with network options.
    #[staticmethod]
    #[pyo3(signature = (url, network, **keywords))]
    fn create_url(
        py: Python<'_>,
        url: &str,
        network: &Bound<'_, PyDict>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let (options, remote) = (options(keywords)?, crate::network::options(network)?);
        let made = py.detach(|| write::Writer::create_url(url, &options, &remote));
        made.map(|file| Self { file, memory: None }).map_err(|e| opening(py, &e))
    }

    /// Returns the size and ETag of the object made of a streamed file.
    fn stored(&self) -> Option<(u64, Option<String>)> {
        self.file.stored().map(|stored| (stored.size, stored.etag))
    }

    /// Discards the file, with all uncommitted data.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, write::Writer::discard)
    }

    /// Returns the bytes of a file in memory.
    fn bytes<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.memory.as_ref().map(|memory| PyBytes::new(py, &memory.bytes()))
    }

    /// Commits the data written until now.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, write::Writer::flush)
    }

    /// Begins SWMR mode.
    fn begin_swmr(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, write::Writer::begin_swmr)
    }

    /// True if the file is in SWMR mode.
    #[getter]
    fn is_swmr(&self) -> bool {
        self.file.is_swmr()
    }

    /// Commits and closes the file.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, write::Writer::close)
    }

    /// Begins a transaction: the changes until its end are one commit, or undone.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, write::Writer::begin)
    }

    /// Commits the transaction.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, write::Writer::end)
    }

    /// Returns whether a transaction is open.
    fn is_in_transaction(&self) -> bool {
        self.file.is_in_transaction()
    }

    /// Undoes the transaction.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, write::Writer::rollback)
    }

    /// Sets whether the root group tracks the creation order of links and attributes.
    fn track_root_order(&self, py: Python<'_>, track: bool) -> PyResult<()> {
        self.run(py, |file| file.track_root_order(track))
    }

    /// Returns a reader of the file's current state.
    fn snapshot(&self, py: Python<'_>) -> PyResult<File> {
        self.run(py, write::Writer::snapshot).map(File)
    }

    /// Stores strings or sequences and returns the elements that point to them: `counts` holds the number of
    /// elements of each, `size` the bytes of an element. With `empty_is_null`, an empty one is stored as
    /// null, as libhdf5 does for sequences but not for strings.
    fn store<'py>(
        &self,
        py: Python<'py>,
        counts: Vec<usize>,
        size: usize,
        data: &Bound<'_, PyAny>,
        empty_is_null: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let handles = look(data, |data| {
            self.run(py, |file| {
                let mut rest = data;
                let mut handles = Vec::with_capacity(counts.len().saturating_mul(16));
                for count in &counts {
                    let cut = count.checked_mul(size).and_then(|bytes| rest.split_at_checked(bytes));
                    let (bytes, after) =
                        cut.ok_or_else(|| Error::invalid("the data end before the last sequence"))?;
                    rest = after;
                    handles.extend_from_slice(&if *count == 0 && empty_is_null {
                        [0; 16]
                    } else {
                        file.store_sequence(*count, bytes)?
                    });
                }
                Ok(handles)
            })
        })?;
        Ok(PyBytes::new(py, &handles))
    }

    /// Returns a region reference to a selection of the dataset at a pinned address.
    fn store_region<'py>(
        &self,
        py: Python<'py>,
        address: u64,
        dims: Vec<u64>,
        selection: &Selection,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let element = self.run(py, |file| {
            let selection = selection.stored(&dims)?;
            file.store_region(address, RegionSelection { dims: Some(dims), selection })
        })?;
        warn(py, &self.file)?;
        Ok(PyBytes::new(py, &element))
    }

    // --- Interface of a file opened for reading ---

    /// Always false: changes are in memory.
    #[getter]
    fn is_remote(&self) -> bool {
        false
    }

    /// Root group.
    #[getter]
    fn root(&self) -> Node {
        self.node(NodeId::ROOT)
    }

    /// Returns the object at an address.
    #[pyo3(signature = (address, path=None))]
    fn object(&self, py: Python<'_>, address: u64, path: Option<&Bound<'_, PyString>>) -> PyResult<Node> {
        let _ = path;
        let found = Node::node_id(address).or_else(|| self.file.edited_object(address));
        let id = found.ok_or_else(|| Error::invalid("no object is at this address"));
        id.and_then(|id| self.file.kind(id).map(|_| self.node(id))).map_err(|e| to_python(py, &e))
    }

    /// File offset of the superblock.
    #[getter]
    fn base(&self) -> u64 {
        0
    }

    /// Size of an address in bytes.
    #[getter]
    fn address_size(&self) -> u8 {
        8
    }

    /// Does nothing: no object needs a network.
    #[pyo3(signature = (start, *, attributes, depth))]
    fn prefetch(&self, start: &Node, attributes: bool, depth: Option<u32>) {
        let _ = (start, attributes, depth);
    }

    /// Returns a path to the object at an address.
    fn find_path<'py>(&self, py: Python<'py>, address: u64) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let id = self.object(py, address, None)?.id;
        let path = self.run(py, |file| file.find_path(id))?;
        Ok(path.map(|path| PyBytes::new(py, &path)))
    }

    /// Resolves a stored reference.
    fn dereference<'py>(&self, py: Python<'py>, kind: usize, raw: &[u8]) -> PyResult<ReferencedNode<'py>> {
        let kind = reference_kind(kind)?;
        let found = self.run(py, |file| {
            let snapshot = file.snapshot()?;
            let Some(reference) = snapshot.reference(kind, raw)? else { return Ok(None) };
            let object = snapshot.dereference(&reference)?;
            let id = file.snapshot_node(object.address())?;
            let id = id.ok_or_else(|| Error::invalid("the reference is not to an object of this file"))?;
            Ok(Some((id, reference)))
        });
        let Some((id, reference)) = found? else {
            return Err(PyValueError::new_err("cannot dereference a null reference"));
        };
        let region = reference.region.map(|region| selection::describe(py, &region.selection)).transpose()?;
        let attribute = reference.attribute.map(|name| names::decode(py, name.as_bytes())).transpose()?;
        Ok((self.node(id), region, attribute))
    }

    /// Returns the variable-length strings of stored elements.
    fn strings<'py>(&self, py: Python<'py>, elements: &[u8]) -> PyResult<Bound<'py, PyList>> {
        self.snapshot(py)?.strings(py, elements)
    }

    /// Returns the sequences of stored elements.
    fn sequences<'py>(
        &self,
        py: Python<'py>,
        elements: &[u8],
        base: &Datatype,
    ) -> PyResult<(Vec<u64>, Bound<'py, PyByteArray>)> {
        self.snapshot(py)?.sequences(py, elements, base)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.file.options())
    }
}
