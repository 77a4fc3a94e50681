//! Log writer: one process, one log.

use super::observer::Observer;
use super::uncommitted::OwnReader;
use crate::arrow_files;
use crate::commit::known_store::{KnownStore, OwnDataset};
use crate::commit::sessions;
use crate::format::commit_report::Report;
use crate::format::header::{HEADER_BYTES, LogHeader};
use crate::format::id::{DatasetId, Session, WriterId};
use crate::format::index::{DatasetWrites, Image};
use crate::format::manifest::Manifest;
use crate::format::piece::Hyperslab;
use crate::format::record;
use crate::format::record::{Body, MAX_BUFFERED_RECORDS, Record};
use crate::location::bucket::log::BucketLogWriter;
use crate::location::process;
use crate::location::site::{Site, SiteBuf, create_log, log_name, refused};
use crate::statistics::zones::Zones;
use crate::statistics::{NumberFormat, Pass, Statistics};
use crate::writer::shared_memory_buffer::Buffer;
use crate::{Definition, Store, Ticket};
use hyperchunk::internal::ChunkCache;
use hyperchunk::internal::positioned::{read_exact_at, write_all_at};
use hyperchunk::write::Sync;
use hyperchunk::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

mod base;
mod bucket_options;
mod failure;
mod fields;
mod flush;
mod large_payload;
mod observers;
mod pages;
mod rows;
mod selection;

use flush::Durability;

/// Minimum size in bytes of payloads that are written straight from the caller's memory; smaller
/// ones are gathered.
const MIN_DIRECT_BYTES: usize = 64 << 10;
/// Maximum number of gathered bytes.
const MAX_BUFFERED_BYTES: usize = 256 << 10;

/// Relation of a writer to the existing content of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Adds to the existing content, and sees it.
    #[default]
    Join,
    /// Truncates the file: existing content is invisible once this is committed.
    Truncate,
    /// Adds to a file that another writer truncated and that is not committed yet; does not see the
    /// content of epochs.
    JoinAnew,
}

/// Destination of a writer's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Segments {
    /// The log, as for all other data.
    #[default]
    Log,
    /// Arrow IPC files beside the log, one for each table: the datasets of one group with the same
    /// number of rows.
    Arrow,
}

/// Options of a writer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WriterOptions {
    /// Relation to the existing content: join or truncate.
    pub mode: Mode,
    /// Session of the writer.
    pub session: Session,
    /// Number of writers that form the session; 0 if unknown.
    pub writers: u32,
    /// Record a checksum of each write.
    pub checksum: bool,
    /// Record statistics (minimum, maximum, sum and others) while writing.
    pub statistics: bool,
    /// Point at which data must be on disk.
    pub sync: Sync,
    /// Priority between writers of one epoch: data of the higher one take precedence.
    pub priority: i32,
    /// State of the store, if known; otherwise it is looked up.
    pub known: Option<KnownStore>,
    /// Destination of rows.
    pub segments: Segments,
    /// The images to be stored begin as a copy of the skeleton of the base
    /// ([`LogHeader::edits_skeleton`]).
    pub edits_skeleton: bool,
    /// Size in bytes of a write buffer in shared memory. It is written to the files when it is
    /// full, when the writer flushes and when it is closed; if the writer is killed before that,
    /// its data are lost. With a buffer, writes never reach the disk at once, regardless of `sync`.
    pub memory: Option<u64>,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Join,
            session: Session::from_environment(),
            writers: 0,
            checksum: true,
            statistics: false,
            sync: Sync::Commit,
            priority: 0,
            known: None,
            segments: Segments::Log,
            edits_skeleton: false,
            memory: None,
        }
    }
}

/// A writer: one process, one log. Cheap to clone; all clones may be used from many threads at
/// once. A process that was forked from the writer's must make its own.
///
/// ```no_run
/// use hyperchunk::model::{ByteOrder, Datatype};
/// use hyperchunk_store::{Definition, LogWriter, WriterOptions};
/// use std::path::Path;
///
/// let writer = LogWriter::create(Path::new("run.h5"), &WriterOptions::default())?;
/// let data = writer.define(&Definition::new("/data", Datatype::ieee(4, ByteOrder::Little), vec![100, 10]))?;
/// writer.write_box(data, &[0, 0], &[50, 10], &[0; 2000])?;
/// let ticket = writer.close()?;
/// # Ok::<(), hyperchunk::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LogWriter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    site: SiteBuf,
    path: PathBuf,
    log: PathBuf,
    target: Target,
    buffer: Option<Mutex<Buffer>>,
    header: LogHeader,
    options: WriterOptions,
    base: Option<Arc<Manifest>>,
    process: u32,
    state: Mutex<State>,
    /// The epoch that it adds to, opened for reading.
    store: OnceLock<Arc<Store>>,
    chunks: ChunkCache,
    /// Observer of the written data.
    observer: OnceLock<Arc<dyn Observer>>,
    /// Error after which further writes are refused.
    failed: OnceLock<Error>,
    /// Length up to which the log has complete batches.
    whole: AtomicU64,
}

/// Destination of a log.
#[derive(Debug)]
enum Target {
    File(Arc<File>),
    Object(BucketLogWriter),
}

/// File of a writer that a write goes to.
#[derive(Debug, Clone, Copy)]
enum WriteTarget<'a> {
    Log,
    Segment(&'a Arc<File>, &'a Path),
}

#[derive(Debug, Default)]
struct State {
    /// Offset of the next batch.
    end: u64,
    /// Number of the next record, including the gathered ones.
    next: u64,
    /// Gathered records, to be written as one batch.
    waiting: Vec<Record>,
    payload: Vec<u8>,
    datasets: Vec<Dataset>,
    ids: HashMap<DatasetId, u32>,
    /// Number of datasets in the last index.
    indexed: usize,
    image: Option<Image>,
    hidden: Vec<WriterId>,
    trailer: u64,
    ticket: Option<Ticket>,
    /// Report for the ticket, as long as the log has one index.
    report: Option<Report>,
    /// True if there are changes since the last index.
    changed: bool,
    closed: bool,
    /// Dataset of the last operation.
    now: Option<u32>,
    /// Tables whose rows go to Arrow files.
    tables: Vec<arrow_files::Table>,
    /// Zones of large records that are waiting, by record number.
    cuts: Vec<(u64, Vec<Statistics>)>,
}

#[derive(Debug)]
struct Dataset {
    definition: Arc<Definition>,
    bytes: Vec<u8>,
    id: DatasetId,
    dims: Vec<u64>,
    format: NumberFormat,
    /// Number of rows that were appended.
    appended: u64,
    /// Writes since the last index.
    written: DatasetWrites,
    /// Writes before the last index.
    before: DatasetWrites,
    /// Everything needed to read the dataset, once it was read.
    reading: Option<OwnReader>,
    /// Table that it is a column of.
    table: Option<usize>,
    /// Zone statistics that no page has yet.
    zones: Zones,
}

impl LogWriter {
    /// Creates a log for the store of the file at `path`, and the store's folder if necessary.
    ///
    /// # Errors
    /// Io from the system; Corrupt if the store's newest epoch cannot be read.
    pub fn create<'a>(site: impl Into<Site<'a>>, options: &WriterOptions) -> Result<Self> {
        let site = site.into().absolute()?;
        let path = site.site().operations().path().to_owned();
        if site.site().bucket().is_some() {
            options.check_for_bucket().map_err(|error| error.file(path.display()))?;
        }
        let (known, base) = base::find(site.site(), options)?;
        let truncates = options.mode == Mode::Truncate;
        let floor = match options.mode {
            Mode::Join => 0,
            Mode::JoinAnew => known.epoch,
            Mode::Truncate => sessions::continued_floor(site.site(), options.session, options.writers)?
                .unwrap_or(known.epoch),
        };
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let header = LogHeader {
            writer: WriterId::with_session(options.session),
            store: known.store,
            session: options.session,
            floor,
            base: if options.mode == Mode::JoinAnew { 0 } else { known.epoch },
            priority: options.priority,
            process: std::process::id(),
            started: u64::try_from(started).unwrap_or(u64::MAX),
            place: process::place(),
            writers: options.writers,
            truncates,
            edits_skeleton: options.edits_skeleton && !truncates,
            failed: false,
        };
        // Allocate first: a writer without its buffer must not be created.
        let buffer = options.memory.map(Buffer::new).transpose()?.map(Mutex::new);
        let log = site.site().operations().place(&log_name(header.writer));
        let target = match site.site().bucket() {
            Some(bucket) => {
                let sent = BucketLogWriter::new(bucket, header.writer);
                sent.write(0, &header.encode())?;
                Target::Object(sent)
            }
            None => Target::File(Arc::new(create_file(&path, &log, &header)?)),
        };
        let state = Mutex::new(State { end: HEADER_BYTES as u64, changed: true, ..State::default() });
        let process = std::process::id();
        let options = options.clone();
        let (store, chunks) = (OnceLock::new(), ChunkCache::default());
        let observer = OnceLock::new();
        let inner = Inner {
            site,
            path,
            log,
            target,
            buffer,
            header,
            options,
            base,
            process,
            state,
            store,
            chunks,
            observer,
            failed: OnceLock::new(),
            whole: AtomicU64::new(HEADER_BYTES as u64),
        };
        Ok(Self(Arc::new(inner)))
    }

    /// Returns the location of the store.
    #[must_use]
    pub fn site(&self) -> Site<'_> {
        self.0.site.site()
    }

    /// Returns the file that the store belongs to.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns the path of the log.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.0.log
    }

    /// Returns the header of the log.
    #[must_use]
    pub fn header(&self) -> &LogHeader {
        &self.0.header
    }

    /// Returns the writer's id.
    #[must_use]
    pub fn id(&self) -> WriterId {
        self.0.header.writer
    }

    /// Returns the datasets of the base epoch with their paths; `None` if there is no base.
    ///
    /// # Errors
    /// Errors of reading that epoch's skeleton.
    pub fn base_datasets(&self) -> Result<Option<Vec<crate::NamedDefinition>>> {
        let base = self.0.base.as_ref();
        base.map(|base| super::create::named_datasets(self.site(), base)).transpose()
    }

    /// Returns the epoch that it adds to.
    #[must_use]
    pub fn base(&self) -> Option<&Arc<Manifest>> {
        self.0.base.as_ref()
    }

    /// Returns whether this is the process that created the writer.
    #[must_use]
    pub fn is_of_this_process(&self) -> bool {
        self.0.process == std::process::id()
    }

    fn state(&self) -> Result<MutexGuard<'_, State>> {
        if !self.is_of_this_process() {
            let message = format!(
                "this writer belongs to process {}: after a fork, each process must create its own",
                self.0.process
            );
            return Err(Error::invalid(message).file(self.0.log.display()));
        }
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Err(Error::invalid("the writer is closed").file(self.0.log.display()));
        }
        self.check_enabled(&state)?;
        Ok(state)
    }

    /// Defines a dataset and returns its number in this log. Defining it again has no effect.
    ///
    /// # Errors
    /// Unsupported for a datatype that cannot be stored; Invalid for one whose elements are stored
    /// elsewhere; Io.
    pub fn define(&self, definition: &Definition) -> Result<u32> {
        let id = definition.id()?;
        let mut state = self.state()?;
        if let Some(number) = state.ids.get(&id) {
            return Ok(*number);
        }
        if definition.datatype.has_vlen() || definition.datatype.has_reference() {
            let message = "a log cannot have sequences, variable-length strings and references: they belong to the writer's own file";
            return Err(Error::invalid(message).object(String::from_utf8_lossy(&definition.path)));
        }
        definition.check_fill().map_err(|e| e.object(String::from_utf8_lossy(&definition.path)))?;
        let rank = definition.dims.len();
        Hyperslab::new(vec![0; rank], definition.dims.clone()).check(rank)?;
        let bytes = definition.encode()?;
        let number = u32::try_from(state.datasets.len()).map_err(|_| Error::limit("2^32 datasets"))?;
        let record = Record {
            dataset: number,
            length: bytes.len() as u64,
            checksum: crate::statistics::checksum(&bytes),
            statistics: None,
            body: Body::Define,
        };
        let stored = self.0.base.as_ref().and_then(|base| base.dataset(&id));
        let dataset = Dataset {
            definition: Arc::new(definition.clone()),
            bytes: bytes.clone(),
            id,
            dims: stored.map_or_else(|| definition.dims.clone(), |stored| stored.extent.clone()),
            format: NumberFormat::from_datatype(&definition.datatype),
            appended: 0,
            written: DatasetWrites::nothing(rank),
            before: DatasetWrites::nothing(rank),
            reading: None,
            table: self.table(&mut state, definition, number),
            zones: Zones::default(),
        };
        state.datasets.push(dataset);
        state.ids.insert(id, number);
        self.gather(&mut state, record, &bytes)?;
        Ok(number)
    }

    /// Returns the writer's view of the dataset of that number.
    ///
    /// # Errors
    /// NotFound.
    pub fn dataset(&self, dataset: u32) -> Result<OwnDataset> {
        let state = self.state()?;
        let dataset = state.dataset(dataset)?;
        Ok(OwnDataset {
            definition: Arc::clone(&dataset.definition),
            id: dataset.id,
            dims: dataset.dims.clone(),
        })
    }

    /// Returns the number of a dataset that was defined here.
    ///
    /// # Errors
    /// Invalid after a fork, or once it is closed.
    pub fn number(&self, id: &DatasetId) -> Result<Option<u32>> {
        Ok(self.state()?.ids.get(id).copied())
    }

    /// Writes elements of a box, in C order and in the dataset's datatype.
    ///
    /// # Errors
    /// Invalid for a box outside the extent or a wrong number of bytes; Io.
    pub fn write_box(&self, dataset: u32, start: &[u64], count: &[u64], bytes: &[u8]) -> Result<()> {
        self.write_boxes(dataset, &[Hyperslab::new(start, count)], bytes)
    }

    /// Writes elements of many boxes at once, box after box, as one record with one checksum.
    ///
    /// # Errors
    /// As [`LogWriter::write_box`].
    pub fn write_boxes(&self, dataset: u32, boxes: &[Hyperslab], bytes: &[u8]) -> Result<()> {
        self.put_boxes(dataset, boxes, bytes)?;
        self.notify_observer(dataset, boxes, false, Some(bytes))
    }

    /// As [`LogWriter::write_boxes`], without calling the observer.
    pub(crate) fn put_boxes(&self, dataset: u32, boxes: &[Hyperslab], bytes: &[u8]) -> Result<()> {
        let mut state = self.state()?;
        let known = state.dataset(dataset)?;
        let boxes = known.inside(boxes, known.definition.element_size(), bytes)?;
        if boxes.is_empty() {
            return Ok(());
        }
        let format = self.0.options.statistics.then_some(known.format);
        if let ([slab], Some(table)) = (&*boxes, known.table_index(&boxes)) {
            return self.put_rows(&mut state, (dataset, table), slab, false, bytes);
        }
        self.put_record(&mut state, dataset, Body::Boxes(boxes), bytes, format)
    }

    /// Appends rows after the existing ones, at the end that the dataset has when this is
    /// committed; writers need no agreement. Rows of one writer stay in their order; rows of
    /// several writers follow each other in the order of the writers' priorities and ids.
    ///
    /// # Errors
    /// Invalid if the dataset cannot grow along its first dimension, or the bytes are not whole
    /// rows; Io.
    pub fn append(&self, dataset: u32, bytes: &[u8]) -> Result<()> {
        let mut state = self.state()?;
        let known = state.dataset(dataset)?;
        let name = |error: Error| error.object(String::from_utf8_lossy(&known.definition.path));
        let (Some(first), Some(Some(None))) = (known.dims.first(), known.definition.max.first().map(Some))
        else {
            return Err(name(Error::invalid(
                "cannot append rows: the first dimension of the dataset must be unlimited",
            )));
        };
        let row = known
            .dims
            .iter()
            .skip(1)
            .try_fold(known.definition.element_size(), |size, dim| size.checked_mul(*dim));
        let rows = row
            .filter(|row| *row > 0 && (bytes.len() as u64).is_multiple_of(*row))
            .map(|row| bytes.len() as u64 / row);
        let Some(rows) = rows else {
            let (length, row) = (bytes.len(), row.unwrap_or(0));
            return Err(name(Error::invalid(format!("{length} bytes are not whole rows of {row} bytes"))));
        };
        if rows == 0 {
            return Ok(());
        }
        let mut slab = Hyperslab::new(vec![0; known.dims.len()], known.dims.clone());
        (slab.start[0], slab.count[0]) = (known.appended, rows);
        if first.checked_add(known.appended).and_then(|end| end.checked_add(rows)).is_none() {
            return Err(name(Error::limit("more than 2^64 rows")));
        }
        let format = self.0.options.statistics.then_some(known.format);
        match known.table_index(std::slice::from_ref(&slab)) {
            Some(table) => self.put_rows(&mut state, (dataset, table), &slab, true, bytes)?,
            None => self.put_record(&mut state, dataset, Body::Append(slab.clone()), bytes, format)?,
        }
        if let Some(known) = state.datasets.get_mut(dataset as usize) {
            known.appended += rows;
        }
        drop(state);
        self.notify_observer(dataset, &[slab], true, Some(bytes))
    }

    /// Writes a chunk in its stored form, already passed through the dataset's filters except those
    /// in the mask. The bytes are not checked.
    ///
    /// # Errors
    /// Invalid if the dataset has no chunks, or no chunk inside the extent begins at the offset;
    /// Io.
    pub fn write_chunk(&self, dataset: u32, offset: &[u64], mask: u32, bytes: &[u8]) -> Result<()> {
        self.put_chunk(dataset, offset, mask, bytes)?;
        if self.0.observer.get().is_none() {
            return Ok(());
        }
        let OwnDataset { definition, dims, .. } = self.dataset(dataset)?;
        let chunk = Hyperslab::new(offset, definition.chunk.as_deref().unwrap_or_default());
        let inside: Vec<Hyperslab> = chunk.clipped(&dims).into_iter().collect();
        self.notify_observer(dataset, &inside, false, None)
    }

    /// As [`LogWriter::write_chunk`], without calling the observer.
    pub(crate) fn put_chunk(&self, dataset: u32, offset: &[u64], mask: u32, bytes: &[u8]) -> Result<()> {
        let mut state = self.state()?;
        let known = state.dataset(dataset)?;
        let name = |error: Error| error.object(String::from_utf8_lossy(&known.definition.path));
        let Some(chunk) = &known.definition.chunk else {
            return Err(name(Error::invalid("the dataset has no chunks")));
        };
        let fits = offset.len() == chunk.len()
            && offset.iter().zip(chunk).zip(&known.dims).all(|((at, size), dim)| at % size == 0 && at < dim);
        if !fits {
            let message =
                format!("no chunk begins at {offset:?}: chunks of {chunk:?}, extent {:?}", known.dims);
            return Err(name(Error::invalid(message)));
        }
        self.put_record(&mut state, dataset, Body::Chunk { offset: offset.to_vec(), mask }, bytes, None)
    }

    /// Changes the extent of a dataset. Shrinking discards the data outside, even if the dataset
    /// grows again.
    ///
    /// # Errors
    /// Invalid for an extent above the maximum; Io.
    pub fn set_extent(&self, dataset: u32, dims: &[u64]) -> Result<()> {
        let mut state = self.state()?;
        let known = state.dataset(dataset)?;
        let name = |error: Error| error.object(String::from_utf8_lossy(&known.definition.path));
        let max = &known.definition.max;
        let within = dims.iter().zip(max).all(|(dim, max)| max.is_none_or(|max| *dim <= max));
        if dims.len() != known.dims.len() || !within {
            let max: Vec<String> =
                max.iter().map(|max| max.map_or_else(|| "unlimited".into(), |max| max.to_string())).collect();
            let message = format!("cannot set the extent to {dims:?}: the maximum is [{}]", max.join(", "));
            return Err(name(Error::invalid(message)));
        }
        Hyperslab::new(vec![0; dims.len()], dims).check(dims.len()).map_err(name)?;
        // The current extent is recorded, too (once): another writer may shrink the dataset in the meantime.
        if known.dims == dims && !known.written.is_empty() {
            return Ok(());
        }
        self.put_record(&mut state, dataset, Body::Extent(dims.to_vec()), &[], None)
    }

    /// Stores the writer's image: its groups, links, attributes and small data as an HDF5 file. The
    /// last image counts.
    ///
    /// # Errors
    /// Io.
    pub fn put_image(&self, hdf5: &[u8]) -> Result<()> {
        let mut state = self.state()?;
        self.put_record(&mut state, 0, Body::Image, hdf5, None)
    }

    /// Hides finished writers that were never committed; only for a writer that truncated the file.
    ///
    /// # Errors
    /// Invalid if it did not; Io.
    pub fn hide(&self, writers: &[WriterId]) -> Result<()> {
        let mut state = self.state()?;
        if self.0.options.mode != Mode::Truncate {
            return Err(Error::invalid("only a writer that truncated the file can hide others"));
        }
        state.hidden.extend_from_slice(writers);
        let bytes: Vec<u8> = writers.iter().flat_map(|writer| writer.0).collect();
        self.put_record(&mut state, 0, Body::Hides, &bytes, None)
    }

    /// Returns this writer's writes to a dataset: a later piece covers an earlier one, and an
    /// extent clips everything before it.
    ///
    /// # Errors
    /// NotFound; Io.
    pub fn written(&self, dataset: u32) -> Result<DatasetWrites> {
        let mut state = self.state()?;
        self.settle(&mut state)?;
        let dataset = state.dataset(dataset)?;
        let mut written = dataset.before.clone();
        written.append(&dataset.written);
        Ok(written)
    }

    /// Returns everything needed to read a dataset. Writes all gathered records to the log first.
    pub(crate) fn reading(&self, number: u32) -> Result<OwnReader> {
        let mut state = self.state()?;
        self.settle(&mut state)?;
        self.spill()?;
        let dataset = state.dataset(number)?;
        if let Some(reading) = &dataset.reading {
            return Ok(reading.clone());
        }
        let base = match &self.0.base {
            Some(base) => {
                let store =
                    self.0.store.get_or_init(|| Arc::new(Store::from_manifest(self.0.site.site(), base)));
                store.dataset(&dataset.id)?.map(|known| (Arc::clone(store), known))
            }
            None => None,
        };
        let written = [&dataset.before, &dataset.written];
        let stored = self.0.base.as_ref().and_then(|base| base.dataset(&dataset.id));
        let start = stored.map_or(&dataset.definition.dims, |stored| &stored.extent);
        let reading = OwnReader::new(&dataset.definition, (start, &dataset.dims), &written, base)?;
        if let Some(dataset) = state.datasets.get_mut(number as usize) {
            dataset.reading = Some(reading.clone());
        }
        Ok(reading)
    }

    /// Reads from the log.
    pub(crate) fn read_log(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match &self.0.target {
            Target::File(file) => read_exact_at(file, offset, out)
                .map_err(|error| refused("read", &self.0.log, &error).at(offset)),
            Target::Object(sent) => sent.read(offset, out),
        }
    }

    /// Returns the cache of decoded chunks.
    pub(crate) fn chunks(&self) -> &ChunkCache {
        &self.0.chunks
    }

    /// Reads bytes of its log.
    ///
    /// # Errors
    /// Io.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut state = self.state()?;
        self.settle(&mut state)?;
        self.spill()?;
        self.read_log(offset, out)
    }

    /// Writes everything that is gathered and an index. Returns the ticket of all writes until now.
    ///
    /// # Errors
    /// Io.
    pub fn flush(&self) -> Result<Ticket> {
        self.settle_observer(false)?;
        let mut state = self.state()?;
        let ended = self.write_index(&mut state, false, Durability::Disk);
        self.check_result(ended)
    }

    /// As [`LogWriter::flush`], and ends the log.
    ///
    /// # Errors
    /// Io; Invalid if it is closed already.
    pub fn close(&self) -> Result<Ticket> {
        self.settle_observer(true)?;
        let mut state = self.state()?;
        let ended = self.write_index(&mut state, true, Durability::Disk);
        let ticket = self.check_result(ended)?;
        state.closed = true;
        self.protect(&state);
        Ok(ticket)
    }

    /// Returns an error if a file of the writer was deleted, also after it was closed.
    pub(crate) fn check_files(&self) -> Result<()> {
        self.check_linked(&self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the content that the last ticket refers to, which saves reading the log. `None` if
    /// the writer flushed more than once.
    #[must_use]
    pub fn report(&self) -> Option<Report> {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.report.clone()
    }

    /// Adds a record: straight to the log if it is large, else gathered with others.
    fn put_record(
        &self,
        state: &mut State,
        dataset: u32,
        body: Body,
        bytes: &[u8],
        format: Option<NumberFormat>,
    ) -> Result<()> {
        state.now = body.is_of_dataset().then_some(dataset);
        self.settle_rows(state, dataset, &body)?;
        self.write_full_zones(state, dataset)?;
        let checksum = self.0.options.checksum || matches!(body, Body::Image);
        let cut = format.and_then(|_| state.dataset(dataset).ok()?.zone_pattern(&body, bytes.len() as u64));
        let mut pass = Pass::new(checksum && !bytes.is_empty(), format).with_zones(cut);
        let wants = format.is_some_and(NumberFormat::is_supported);
        let statistics = wants.then_some(Statistics::NONE);
        let mut record = Record { dataset, length: bytes.len() as u64, checksum: 0, statistics, body };
        if bytes.len() < MIN_DIRECT_BYTES {
            pass.update(bytes);
            (record.checksum, record.statistics) = pass.finish();
            return self.gather(state, record, bytes);
        }
        self.put_large(state, record, bytes, pass)
    }

    fn gather(&self, state: &mut State, record: Record, bytes: &[u8]) -> Result<()> {
        if state.payload.len() + bytes.len() > MAX_BUFFERED_BYTES
            || state.waiting.len() >= MAX_BUFFERED_RECORDS
        {
            self.write_waiting(state)?;
        }
        if let Body::Extent(dims) = &record.body
            && let Some(dataset) = state.datasets.get_mut(record.dataset as usize)
        {
            dataset.dims.clone_from(dims);
        }
        state.payload.extend_from_slice(bytes);
        state.waiting.push(record);
        state.next += 1;
        state.changed = true;
        if self.0.options.sync == Sync::Write {
            self.write_waiting(state)?;
            self.sync()?;
        }
        Ok(())
    }

    fn write_waiting(&self, state: &mut State) -> Result<()> {
        if state.waiting.is_empty() {
            return Ok(());
        }
        let first = state.next - state.waiting.len() as u64;
        let mut bytes = record::encode(first, &state.waiting);
        let (batch_at, place) = (state.end, state.end + bytes.len() as u64);
        bytes.extend_from_slice(&state.payload);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        self.write_to(WriteTarget::Log, batch_at, &bytes)?;
        state.end = batch_at + bytes.len() as u64;
        self.record_end(state.end);
        let records = std::mem::take(&mut state.waiting);
        state.payload.clear();
        state.note_records(first, batch_at, place, &records);
        Ok(())
    }
}

/// Creates a log that is a file.
fn create_file(path: &Path, log: &Path, header: &LogHeader) -> Result<File> {
    let file = create_log(path, log)?;
    write_all_at(&file, 0, &header.encode()).map_err(|error| {
        // A file without a header is not a log.
        drop(std::fs::remove_file(log));
        refused("write to", log, &error)
    })?;
    Ok(file)
}

impl State {
    fn dataset(&self, number: u32) -> Result<&Dataset> {
        let found = self.datasets.get(number as usize);
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("the writer has no dataset of number {number}"))
        })
    }
}
