//! Sharded stores: definitions, writers and commits.

use crate::analysis;
use crate::datatype::Datatype;
use crate::errors::{opening, to_python};
use crate::memory::look;
use crate::node::Options;
use crate::selection::{self, Selection};
use hyperchunk::Result;
use hyperchunk::model::Dataspace;
use hyperchunk::select::Axis;
use hyperchunk::write::{NewLayout, Sync};
use hyperchunk_live::observe::{self, Analyses};
use hyperchunk_store::admin::status;
use hyperchunk_store::commit::external_links::Linking;
use hyperchunk_store::commit::{CommitOptions, PendingLog, commit_all};
use hyperchunk_store::{
    self, Definition, FileStamp, Hyperslab, KnownStore, LogWriter, Manifest, Marker, Mode, NewStore,
    PendingStore, Report, Segments, Session, Site, SiteBuf, StoreId, Ticket, WriterOptions,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Identity of a store: its id, its newest epoch, and the inode, size and modification time of its
/// file.
type StoreKnown = (String, u64, Option<(u64, u64, u64)>);

fn known_store(known: &KnownStore) -> StoreKnown {
    let seen = known.seen.map(|seen| (seen.inode, seen.size, seen.modified));
    (known.store.to_string(), known.epoch, seen)
}

/// Returns the location of a store: the path of the file itself (`store_real_file`), or a URL with its
/// network options.
fn site(path: &Path, network: Option<&Bound<'_, PyDict>>) -> PyResult<SiteBuf> {
    let remote = network.map(crate::network::options).transpose()?.unwrap_or_default();
    Ok(SiteBuf::new(path, &remote))
}

/// Resolves symbolic links in a path; a store's folder is beside the resulting file. If the file is
/// about to be created or changed, a link owned by another user is an error.
#[pyfunction]
#[pyo3(signature = (path, made = false))]
pub(crate) fn store_real_file(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
    made: bool,
) -> PyResult<PathBuf> {
    if made {
        return hyperchunk::output::target(&path).map_err(|e| opening(py, &e));
    }
    Ok(hyperchunk_store::real_file(&path))
}

/// Definition of a dataset in a store, and its path.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct StoreDefinition {
    pub(crate) definition: Definition,
    /// Current path: the dataset may have been moved since it was defined.
    path: Vec<u8>,
}

#[pymethods]
impl StoreDefinition {
    /// Creates a definition from the keywords of `Node.create_dataset`.
    #[new]
    #[pyo3(signature = (path, incarnation, **keywords))]
    fn new(
        py: Python<'_>,
        path: Vec<u8>,
        incarnation: u32,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let missing = || PyValueError::new_err("the options are missing");
        let options = keywords.ok_or_else(missing)?.extract::<Options<'_>>()?.dataset(py)?;
        let Dataspace::Simple { dims, max } = options.dataspace else {
            return Err(PyValueError::new_err("a dataset of a store must have dimensions"));
        };
        let chunk = if let NewLayout::Chunked(chunk) = options.layout { Some(chunk) } else { None };
        let definition = Definition {
            max,
            chunk,
            pipeline: options.pipeline,
            fill: options.fill,
            incarnation,
            ..Definition::new(path.clone(), options.datatype, dims)
        };
        Ok(Self { definition, path })
    }

    /// Decodes a definition, for a dataset at a path.
    #[staticmethod]
    fn decode(py: Python<'_>, path: Vec<u8>, bytes: &[u8]) -> PyResult<Self> {
        let definition = Definition::decode(bytes).map_err(|e| to_python(py, &e))?;
        Ok(Self { definition, path })
    }

    /// Encodes the definition.
    fn encode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.definition.encode().map(|bytes| PyBytes::new(py, &bytes)).map_err(|e| to_python(py, &e))
    }

    /// Returns the name of the external file that marks the dataset in a skeleton.
    fn marker(&self, py: Python<'_>) -> PyResult<String> {
        let dataset = self.definition.id().map_err(|e| to_python(py, &e))?;
        Ok(Marker { dataset, epoch: 0 }.to_external_file(false).name.to_string())
    }

    /// Path of the dataset.
    #[getter]
    fn path(&self) -> &[u8] {
        &self.path
    }

    /// Initial extent.
    #[getter]
    fn shape(&self) -> Vec<u64> {
        self.definition.dims.clone()
    }

    /// Maximum extent of each dimension.
    #[getter]
    fn max_shape(&self) -> Vec<Option<u64>> {
        self.definition.max.clone()
    }

    /// Extent of a chunk.
    #[getter]
    fn chunks(&self) -> Option<Vec<u64>> {
        self.definition.chunk.clone()
    }

    /// Datatype of the elements.
    #[getter]
    fn datatype(&self) -> Datatype {
        Datatype(self.definition.datatype.clone())
    }

    fn __repr__(&self) -> String {
        format!("<definition of {}>", String::from_utf8_lossy(&self.path))
    }
}

/// Keyword arguments of a writer.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct WriterArguments {
    truncates: bool,
    session: Option<String>,
    checksum: bool,
    statistics: bool,
    sync: String,
    codec: String,
    priority: i32,
    segments: String,
    memory: Option<u64>,
    /// Records of analyses; None if none are to run.
    analyses: Option<Vec<Vec<u8>>>,
    /// If set, the store's own analyses do not run.
    alone: bool,
    /// Identity of the store, with its newest epoch.
    known: Option<StoreKnown>,
}

pub(crate) fn sync(name: &str) -> PyResult<Sync> {
    match name {
        "never" => Ok(Sync::Never),
        "epoch" => Ok(Sync::Commit),
        "record" => Ok(Sync::Write),
        other => {
            Err(PyValueError::new_err(format!("sync must be 'never', 'epoch' or 'record', not {other:?}")))
        }
    }
}

/// A writer: one process, one log.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct StoreWriter {
    log: LogWriter,
    /// If set, whole chunks are filtered as they are written.
    filtered: bool,
    /// Analyses that run on the written data.
    analyses: Option<Arc<Analyses>>,
}

impl StoreWriter {
    fn run<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&LogWriter) -> Result<T> + Send) -> PyResult<T> {
        py.detach(|| work(&self.log)).map_err(|e| to_python(py, &e))
    }

    fn put(
        writer: &LogWriter,
        filtered: bool,
        dataset: u32,
        selection: &hyperchunk::select::Selection,
        bytes: &[u8],
    ) -> Result<()> {
        if filtered {
            writer.write_filtered(dataset, selection, bytes, 0)
        } else {
            writer.write(dataset, selection, bytes)
        }
    }
}

#[pymethods]
impl StoreWriter {
    /// Creates a log for the store of a file.
    #[staticmethod]
    #[pyo3(signature = (path, *, network = None, **keywords))]
    fn create(
        py: Python<'_>,
        #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
        network: Option<&Bound<'_, PyDict>>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let site = site(&path, network)?;
        let missing = || PyValueError::new_err("the options are missing");
        let given = keywords.ok_or_else(missing)?.extract::<WriterArguments>()?;
        let mut options = WriterOptions::default();
        options.mode = if given.truncates { Mode::Truncate } else { Mode::Join };
        if let Some(session) = &given.session {
            options.session = Session::named(session);
        }
        options.checksum = given.checksum;
        options.statistics = given.statistics;
        options.sync = sync(&given.sync)?;
        options.priority = given.priority;
        options.memory = given.memory;
        options.segments = match given.segments.as_str() {
            "log" => Segments::Log,
            "arrow" => Segments::Arrow,
            other => {
                let message = format!("segments must be 'log' or 'arrow', not {other:?}");
                return Err(PyValueError::new_err(message));
            }
        };
        options.known = match given.known {
            Some((store, epoch, seen)) => {
                let store = StoreId::from_hex(&store)
                    .ok_or_else(|| PyValueError::new_err("invalid id of a store"))?;
                let seen = seen.map(|(inode, size, modified)| FileStamp { inode, size, modified });
                Some(KnownStore { store, epoch, seen })
            }
            None => None,
        };
        let filtered = match given.codec.as_str() {
            "raw" => false,
            "filters" => true,
            other => {
                return Err(PyValueError::new_err(format!(
                    "codec must be 'raw' or 'filters', not {other:?}"
                )));
            }
        };
        let analyses = given.analyses.as_deref();
        // Checked before the log is created.
        let known = py.detach(|| analysis::check(analyses.unwrap_or_default()));
        known.map_err(|e| crate::edit::to_python(py, &e))?;
        let log = py.detach(|| LogWriter::create(&site, &options)).map_err(|e| opening(py, &e))?;
        let analyses = match analyses {
            Some(analyses) => py
                .detach(|| observe::attach(&log, analyses, !given.alone))
                .map_err(|e| crate::edit::to_python(py, &e))?,
            None => None,
        };
        Ok(Self { log, filtered, analyses })
    }

    /// Id of the writer.
    #[getter]
    fn id(&self) -> String {
        self.log.id().to_string()
    }

    /// Path of the writer's log.
    #[getter]
    fn log(&self) -> PathBuf {
        self.log.log().to_owned()
    }

    /// Arrow files that the writer has written.
    #[getter]
    fn fragments(&self) -> Vec<PathBuf> {
        self.log.fragments()
    }

    /// Returns the datasets of the epoch that the writer extends; None if there is no such epoch.
    fn base_datasets(&self, py: Python<'_>) -> PyResult<Option<Vec<StoreDefinition>>> {
        let found = self.run(py, LogWriter::base_datasets)?;
        let defined = |(path, definition)| StoreDefinition { definition, path };
        Ok(found.map(|datasets| datasets.into_iter().map(defined).collect()))
    }

    /// Defines a dataset; returns its number.
    fn define(&self, py: Python<'_>, definition: &StoreDefinition) -> PyResult<u32> {
        self.run(py, |writer| writer.define(&definition.definition))
    }

    /// Returns the extent of a dataset.
    fn shape(&self, py: Python<'_>, dataset: u32) -> PyResult<Vec<u64>> {
        self.run(py, |writer| writer.dataset(dataset).map(|own| own.dims))
    }

    /// Writes a box, from contiguous memory and in the dataset's datatype.
    fn write_box(
        &self,
        py: Python<'_>,
        dataset: u32,
        start: Vec<u64>,
        count: Vec<u64>,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        look(data, |bytes| {
            self.run(py, |writer| {
                if !self.filtered {
                    return writer.write_box(dataset, &start, &count, bytes);
                }
                let axes = start.iter().zip(&count);
                let axes = axes.map(|(start, count)| Axis::range(*start..start.saturating_add(*count)));
                let selection = hyperchunk::select::Selection::Axes(axes.collect());
                writer.write_filtered(dataset, &selection, bytes, 0)
            })
        })
    }

    /// Writes the elements of a selection.
    fn write(
        &self,
        py: Python<'_>,
        dataset: u32,
        selection: &Selection,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        look(data, |bytes| {
            self.run(py, |writer| {
                let dims = writer.dataset(dataset)?.dims;
                Self::put(writer, self.filtered, dataset, &*selection.within(&dims)?, bytes)
            })
        })
    }

    /// Writes to `start, step, count` for each dimension: `count` indices, every `step`th from `start`.
    fn write_slab(
        &self,
        py: Python<'_>,
        dataset: u32,
        slab: Vec<u64>,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let selection = selection::slab(&slab);
        look(data, |bytes| {
            self.run(py, |writer| Self::put(writer, self.filtered, dataset, &selection, bytes))
        })
    }

    /// Appends rows; the commit puts them after the existing ones.
    fn append(&self, py: Python<'_>, dataset: u32, data: &Bound<'_, PyAny>) -> PyResult<()> {
        look(data, |bytes| self.run(py, |writer| writer.append(dataset, bytes)))
    }

    /// Writes a chunk in its stored form.
    fn write_chunk(
        &self,
        py: Python<'_>,
        dataset: u32,
        offset: Vec<u64>,
        mask: u32,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        look(data, |bytes| self.run(py, |writer| writer.write_chunk(dataset, &offset, mask, bytes)))
    }

    /// Attaches an analysis to a dataset, or detaches it.
    fn announce(&self, py: Python<'_>, dataset: u32, record: &[u8], runs: bool) -> PyResult<String> {
        analysis::announce(py, &self.log, dataset, record, runs).map(|id| id.to_string())
    }

    /// Runs the analyses on elements that were written earlier.
    fn replay(
        &self,
        py: Python<'_>,
        dataset: u32,
        start: Vec<u64>,
        count: Vec<u64>,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let slab = Hyperslab::new(start, count);
        look(data, |bytes| self.run(py, |writer| writer.replay(dataset, &slab, bytes)))
    }

    /// Reports of the analyses until now.
    #[getter]
    fn analyses(&self, py: Python<'_>) -> Vec<analysis::Report> {
        let analyses = self.analyses.as_ref();
        analyses.map(|analyses| py.detach(|| analysis::reports(analyses))).unwrap_or_default()
    }

    /// Changes the extent of a dataset.
    fn resize(&self, py: Python<'_>, dataset: u32, shape: Vec<u64>) -> PyResult<()> {
        self.run(py, |writer| writer.set_extent(dataset, &shape))
    }

    /// Stores an HDF5 file image with groups, links, attributes and small data.
    fn put_image(&self, py: Python<'_>, hdf5: &[u8]) -> PyResult<()> {
        self.run(py, |writer| writer.put_image(hdf5))
    }

    /// Writes all pending data; returns the ticket.
    fn flush<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let ticket = self.run(py, LogWriter::flush)?;
        Ok(PyBytes::new(py, &reported(&self.log, &ticket)))
    }

    /// Like `flush`; ends the log.
    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let ticket = self.run(py, LogWriter::close)?;
        Ok(PyBytes::new(py, &reported(&self.log, &ticket)))
    }

    fn __repr__(&self) -> String {
        format!("<writer {}>", self.log.id())
    }
}

/// Returns a ticket, followed by the report if there is one and it is short enough.
fn reported(writer: &LogWriter, ticket: &Ticket) -> Vec<u8> {
    let report = writer.report().filter(|report| report.ticket == *ticket).map(|report| report.to_bytes());
    report.filter(|bytes| bytes.len() <= LONGEST_REPORT).unwrap_or_else(|| ticket.to_bytes().to_vec())
}

/// Maximum size of a report in bytes, since tickets are sent to the committing process.
const LONGEST_REPORT: usize = 64 << 10;

/// A store just created, held by its creator.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct FreshStore(NewStore);

/// Creates a store; returns its identity for the writers, and a handle that makes the first commit
/// in this process quick.
#[pyfunction]
#[pyo3(signature = (path, definitions, image, replaces, sync, network = None))]
pub(crate) fn store_create(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
    definitions: Vec<PyRef<'_, StoreDefinition>>,
    image: Option<Vec<u8>>,
    replaces: bool,
    sync: &str,
    network: Option<&Bound<'_, PyDict>>,
) -> PyResult<(StoreKnown, FreshStore)> {
    let (sync, site) = (self::sync(sync)?, site(&path, network)?);
    let definitions: Vec<Definition> = definitions.iter().map(|one| one.definition.clone()).collect();
    let made = py.detach(|| hyperchunk_store::create(&site, &definitions, image.as_deref(), replaces, sync));
    let fresh = made.map_err(|e| opening(py, &e))?;
    Ok((known_store(&fresh.known), FreshStore(fresh)))
}

/// A store whose creation has begun: its writers may start.
#[pyclass(module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct StoreBegun {
    begun: Option<PendingStore>,
    known: StoreKnown,
}

#[pymethods]
impl StoreBegun {
    /// Checks that a store may be created; returns None if it replaces an earlier one.
    #[staticmethod]
    #[pyo3(signature = (path, replaces, network = None))]
    fn begin(
        py: Python<'_>,
        #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
        replaces: bool,
        network: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Option<Self>> {
        let site = site(&path, network)?;
        let begun = py.detach(|| hyperchunk_store::begin(&site, replaces)).map_err(|e| opening(py, &e))?;
        Ok(begun.map(|begun| Self { known: known_store(&begun.known), begun: Some(begun) }))
    }

    /// Identity of the store for its writers.
    #[getter]
    fn known(&self) -> StoreKnown {
        self.known.clone()
    }

    /// Creates the store, as `store_create` does.
    fn create(
        &mut self,
        py: Python<'_>,
        definitions: Vec<PyRef<'_, StoreDefinition>>,
        image: Option<Vec<u8>>,
        sync: &str,
    ) -> PyResult<(StoreKnown, FreshStore)> {
        let sync = self::sync(sync)?;
        let begun =
            self.begun.take().ok_or_else(|| PyValueError::new_err("the store was already created"))?;
        let definitions: Vec<Definition> = definitions.iter().map(|one| one.definition.clone()).collect();
        let made = py.detach(|| begun.create(&definitions, image.as_deref(), sync));
        let fresh = made.map_err(|e| opening(py, &e))?;
        Ok((known_store(&fresh.known), FreshStore(fresh)))
    }
}

/// A conflict: path, subject, first element, extent, writer whose data are visible, writer whose
/// data are hidden.
type ConflictRow = (String, String, Vec<u64>, Vec<u64>, String, String);
/// An epoch: number, writers, conflicts, writers left uncommitted, linked datasets, datasets not
/// linked with the reasons.
type EpochRow = (u64, Vec<String>, Vec<ConflictRow>, Vec<String>, Vec<String>, Vec<(String, String)>);
/// The new epoch, if any; the logs that were set aside, with the reasons; uncommitted writers whose writes
/// failed; and uncommitted writers that have ended without closing.
type Outcome = (Option<EpochRow>, Vec<(String, String)>, Vec<String>, Vec<String>);

/// Keyword arguments of a commit.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct CommitArguments<'py> {
    tickets: Option<Vec<Vec<u8>>>,
    fresh: Option<PyRef<'py, FreshStore>>,
    conflicts_are_errors: bool,
    data_only: bool,
    salvage: bool,
    flushed: bool,
    link: String,
    sync: String,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the writers of those logs with uncommitted data that `is` selects.
fn left_writers(left: &[PendingLog], is: impl Fn(&PendingLog) -> bool) -> Vec<String> {
    let chosen = left.iter().filter(|left| left.committed < left.size && is(left));
    chosen.map(|left| left.header.writer.to_string()).collect()
}

/// Returns the logs with content that the newest epoch does not include.
fn left_by_all(site: Site<'_>) -> Result<Vec<PendingLog>> {
    hyperchunk_store::commit::waiting(site, Manifest::newest(site)?.as_deref())
}

/// Commits an epoch, if there is anything new.
#[pyfunction]
#[pyo3(signature = (path, *, network = None, **keywords))]
pub(crate) fn store_commit(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
    network: Option<&Bound<'_, PyDict>>,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<Outcome> {
    let missing = || PyValueError::new_err("the options are missing");
    let given = keywords.ok_or_else(missing)?.extract::<CommitArguments<'_>>()?;
    let mut options = CommitOptions::default();
    if let Some(bytes) = &given.tickets {
        for bytes in bytes {
            let report = Report::from_bytes(bytes).map_err(|e| to_python(py, &e))?;
            let ticket =
                Ticket::from_bytes(&bytes[..Ticket::ENCODED_BYTES]).map_err(|e| to_python(py, &e))?;
            options.tickets.push(ticket);
            options.reports.extend(report);
        }
        options.fresh = given.fresh.as_ref().map(|fresh| fresh.0.clone());
        if options.tickets.is_empty() {
            return Ok((None, Vec::new(), Vec::new(), Vec::new()));
        }
    }
    options.data_only = given.data_only;
    options.conflicts_are_errors = given.conflicts_are_errors;
    options.salvage = given.salvage;
    options.flushed = given.flushed;
    options.sync = sync(&given.sync)?;
    options.link = match given.link.as_str() {
        "absolute" => Linking::Absolute,
        "relative" => Linking::Relative,
        "none" => Linking::Never,
        other => {
            let message = format!("link must be 'absolute', 'relative' or 'none', not {other:?}");
            return Err(PyValueError::new_err(message));
        }
    };
    let site = site(&path, network)?;
    let outcome = py.detach(|| commit_all(&site, &options)).map_err(|e| opening(py, &e))?;
    let aside = outcome.set_aside.iter().map(|aside| (aside.writer.to_string(), aside.error().to_string()));
    let aside = aside.collect();
    let left = match &outcome.made {
        Some(made) => made.left.clone(),
        None => py.detach(|| left_by_all(site.site())).map_err(|e| opening(py, &e))?,
    };
    let failed = left_writers(&left, |left| left.header.failed);
    let stopped = left_writers(&left, |left| !left.header.failed && status::has_stopped(left));
    let made = outcome.made.map(|made| {
        let conflicts = made.manifest.conflicts.iter().map(|conflict| {
            let (start, count) = (conflict.slab.start.clone(), conflict.slab.count.clone());
            let (kept, other) = (conflict.kept.to_string(), conflict.other.to_string());
            (text(&conflict.path), conflict.what.clone(), start, count, kept, other)
        });
        let (mut linked, mut unlinked) = (Vec::new(), Vec::new());
        for (path, link) in &made.links {
            match link {
                Ok(_) => linked.push(text(path)),
                Err(reason) => unlinked.push((text(path), reason.to_string())),
            }
        }
        (
            made.manifest.number,
            made.writers.iter().map(ToString::to_string).collect(),
            conflicts.collect(),
            made.left.iter().map(|left| left.header.writer.to_string()).collect(),
            linked,
            unlinked,
        )
    });
    Ok((made, aside, failed, stopped))
}

/// Identity of a store with its newest epoch, if any; paths and definitions of its datasets.
type LookedUp = (Option<StoreKnown>, Vec<(Py<PyBytes>, Py<PyBytes>)>);

/// Returns the identity and the datasets of a store, for a writer.
#[pyfunction]
#[pyo3(signature = (path, network = None))]
pub(crate) fn store_look_up(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
    network: Option<&Bound<'_, PyDict>>,
) -> PyResult<LookedUp> {
    let site = site(&path, network)?;
    let (known, found) = py.detach(|| hyperchunk_store::attach(&site)).map_err(|e| opening(py, &e))?;
    let mut definitions = Vec::new();
    for (path, definition) in &found {
        let bytes = definition.encode().map_err(|e| to_python(py, &e))?;
        definitions.push((PyBytes::new(py, path).unbind(), PyBytes::new(py, &bytes).unbind()));
    }
    Ok((known.as_ref().map(known_store), definitions))
}

/// A batch: its first row, its number of rows, its offset, and the lengths of its metadata and
/// body.
type Batch = (u64, u64, u64, u64, u64);
/// A table in Arrow files: epoch, group, columns, number of rows, and the files with their batches.
type Table = (u64, String, Vec<String>, u64, Vec<(PathBuf, Vec<Batch>)>);

/// Returns the Arrow files that form a table of a store.
#[pyfunction]
pub(crate) fn store_fragments(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
    table: String,
    epoch: Option<u64>,
) -> PyResult<Table> {
    let found =
        py.detach(|| hyperchunk_store::fragments(&path, &table, epoch)).map_err(|e| opening(py, &e))?;
    let files = found.files.into_iter().map(|file| {
        let batches = file.batches.iter();
        let batches = batches.map(|batch| (batch.row, batch.rows, batch.at, batch.metadata, batch.body));
        (file.path, batches.collect())
    });
    Ok((found.epoch, found.group, found.columns, found.rows, files.collect()))
}
