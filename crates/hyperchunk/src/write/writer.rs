//! Writer of a file.

use super::chunks::{Data, NewChunk};
use super::commit_mark::{CommitMark, ReplacedMark};
use super::dataset::DatasetWriter;
use super::edit::Edit;
use super::embedded_format::SecondFormat;
use super::gate::{Gate, InUse};
use super::heap::Heap;
use super::journal::{Entry, Journal, NewDataset, delete_unstarted};
use super::message_limits;
use super::new_dataset::{check_encodable, dataset_node};
use super::offset_sink::OffsetSink;
use super::options::{CreateOptions, DatasetOptions, FileLayout, NewLayout, Sync};
use super::sink::{LocalSink, Sink, may_create};
use super::snapshot::Snapshot;
use super::space::{Space, Use};
use super::stream::StreamSink;
use super::swmr::Swmr;
use super::tree::{NewLink, Node, NodeId, NodeKind, Tree};
use super::{notice, oldest_able};
use crate::io::RemoteOptions;
use crate::io::upload::StoredObject;
use crate::{Error, Result, output};
use hyperchunk_format::encode::{self, LibVersion, object_header, superblock};
use hyperchunk_format::model::{AllocationTime, Datatype, Name};
use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Offset at which data begin; the bytes before are reserved for the superblock.
const DATA_OFFSET: u64 = 2048;
/// Number of bytes reserved in a streamed file for object headers with fixed addresses.
const RESERVED_HEADER_BYTES: u64 = 64 << 10;
/// Maximum size of data in a file, in bytes.
pub(super) const MAX_DATA_BYTES: u64 = 1 << 62;

/// A file that is open for writing. Cheap to clone; all clones may be used by several threads at once.
///
/// ```no_run
/// use hyperchunk::model::{ByteOrder, Dataspace, Datatype};
/// use hyperchunk::select::Selection;
/// use hyperchunk::write::{CreateOptions, DatasetOptions, NewLayout, NodeId, Writer};
///
/// let file = Writer::create("a.h5", &CreateOptions::default())?;
/// let dataspace = Dataspace::Simple { dims: vec![100, 10], max: vec![Some(100), Some(10)] };
/// let options = DatasetOptions::new(Datatype::ieee(4, ByteOrder::Little), dataspace)
///     .with_layout(NewLayout::Chunked(vec![10, 10]));
/// let data = file.create_dataset(NodeId::ROOT, b"data", options)?;
/// data.write(&Selection::All, &[0; 4000])?;
/// file.close()?;
/// # Ok::<(), hyperchunk::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Writer(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    /// Sink whose offset 0 is the superblock: it adds the size of the user block.
    pub(super) sink: Arc<dyn Sink>,
    /// Sink of the whole file, user block included.
    pub(super) file: Arc<dyn Sink>,
    /// Second format of the file, if it has one.
    pub(super) second_format: RwLock<Option<Arc<dyn SecondFormat>>>,
    pub(super) options: CreateOptions,
    pub(super) threads: usize,
    pub(super) space: Space,
    pub(super) tree: RwLock<Tree>,
    pub(super) heap: Heap,
    /// Remaining range reserved for object headers with fixed addresses; `None` if they may be anywhere.
    pub(super) promised: Mutex<Option<Range<u64>>>,
    /// Size in bytes of the partially written chunks in memory.
    pub(super) waiting_bytes: AtomicUsize,
    pub(super) gate: Gate,
    /// True if discarding the sink failed and must be repeated.
    pub(super) discard_failed: AtomicBool,
    /// Number of changes since the file was opened.
    pub(super) changes: AtomicU64,
    /// Number of times that an object's address was fixed.
    pub(super) pins: AtomicU64,
    /// Last snapshot of the file, and the number of changes and of fixed addresses at that time.
    pub(super) snapshot: Mutex<Option<Snapshot>>,
    /// Free range of the first page, if structure is stored there.
    pub(super) front: Mutex<Option<Range<u64>>>,
    /// Heap for sequences and strings of attributes, if they are stored in the first page.
    pub(super) front_heap: Heap,
    /// Start and length of the last commit's structure; freed once another commit is durable.
    pub(super) former: Mutex<Option<(u64, u64)>>,
    /// Ends of the longest and of the last commit, if freed space is reused.
    pub(super) ends: Mutex<Option<(u64, u64)>>,
    /// Checksums of the superblocks of all commits, if readers distinguish commits by them.
    pub(super) superblocks: Mutex<HashSet<u32>>,
    /// Lock held during a commit, with the number of changes at the last commit.
    pub(super) committing: Mutex<Option<u64>>,
    pub(super) journal: Option<Journal>,
    /// State of SWMR mode, in which structure keeps its addresses.
    pub(super) swmr: Mutex<Option<Swmr>>,
    /// State of an edit, if an existing file is edited.
    pub(super) edit: Option<Edit>,
    /// Notices about content that needed a newer format than requested.
    pub(super) notices: Mutex<Vec<String>>,
    /// Name of the file in messages.
    pub(super) name: Option<String>,
}

/// Function that undoes a change of the tree.
pub(super) type Undo = Box<dyn FnOnce(&mut Tree)>;

pub(super) fn on_node(id: NodeId, undo: impl FnOnce(&mut Node) + 'static) -> Undo {
    Box::new(move |tree| drop(tree.node_mut(id).map(undo)))
}

impl Inner {
    /// Allocates space for data.
    pub(super) fn take(&self, length: u64) -> Result<u64> {
        let large = length >= self.options.alignment_threshold;
        self.take_aligned(length, if large { self.options.alignment } else { 1 })
    }

    /// Allocates space at a file offset that is a multiple of `alignment`.
    pub(super) fn take_aligned(&self, length: u64, alignment: u64) -> Result<u64> {
        if length > MAX_DATA_BYTES || self.space.end() > MAX_DATA_BYTES {
            return Err(Error::limit(format!("cannot allocate {length} bytes: the limit is 2^62 in all")));
        }
        let (start, gap) = self.space.take(length, alignment);
        if gap > 0 {
            self.sink.skip(start - gap, gap)?;
        }
        Ok(start)
    }

    /// Returns the start of the free space in the first page, if there is any.
    pub(super) fn front_start(&self) -> Option<u64> {
        self.front.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|free| free.start)
    }

    /// Allocates space in the first page; returns `None` if there is not enough. With `last`, the rest of the
    /// page becomes unavailable.
    pub(super) fn take_front(&self, length: u64, last: bool) -> Option<u64> {
        let mut front = self.front.lock().unwrap_or_else(PoisonError::into_inner);
        let free = front.as_mut()?;
        let start = free.start.next_multiple_of(8);
        let end = start.checked_add(length).filter(|end| *end <= free.end);
        if let Some(end) = end {
            free.start = end;
        }
        if last {
            *front = None;
        }
        end.map(|_| start)
    }

    /// Adds operations to the journal. Call this after their data are written.
    pub(super) fn note(&self, entries: &[Entry]) -> Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        if entries.is_empty() {
            return Ok(());
        }
        journal.add(entries, self.options.sync == Sync::Write)
    }

    /// Adds a commit to the journal. Call this before its superblock is written.
    pub(super) fn note_commit(&self, superblock: &[u8], start: u64, structure: &[u8]) -> Result<()> {
        if self.journal.is_none() {
            return Ok(());
        }
        self.note(&[Entry::Commit(CommitMark::new(superblock, start, structure))])
    }

    /// Adds to the journal that chunks were stored contiguously from `address` on.
    pub(super) fn note_chunks(&self, object: NodeId, chunks: &[NewChunk<'_>], address: u64) -> Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        journal.add_chunks(object, chunks, address, self.options.sync == Sync::Write)
    }

    /// Encodes for the oldest release that supports the content, from [`CreateOptions::oldest`] to
    /// [`CreateOptions::newest`].
    pub(super) fn able<T>(&self, encode: impl Fn(LibVersion) -> Result<T>) -> Result<(LibVersion, T)> {
        oldest_able(self.options.oldest, self.options.newest, encode)
    }

    /// Adds a notice if the content `what` needs a newer release than requested.
    pub(super) fn notice(&self, age: LibVersion, what: impl FnOnce() -> String) {
        if age > self.options.oldest {
            let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
            notices.push(notice(&what(), age));
        }
    }

    /// Begins an operation; it ends when the returned guard is dropped.
    pub(super) fn open(&self) -> Result<InUse<'_>> {
        self.gate.enter().map_err(|error| self.named(error))
    }

    pub(super) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Fixes the address of an object. Earlier snapshots have it elsewhere.
    pub(super) fn pin(&self, node: &mut Node, address: u64) {
        if node.pinned.replace(address) != Some(address) {
            self.pins.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub(super) fn tree(&self) -> std::sync::RwLockReadGuard<'_, Tree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tree_mut(&self) -> std::sync::RwLockWriteGuard<'_, Tree> {
        self.tree.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn named(&self, error: Error) -> Error {
        match &self.name {
            Some(name) => error.file(name),
            None => error,
        }
    }

    pub(super) fn commits(&self) -> MutexGuard<'_, Option<u64>> {
        self.committing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    /// Creates a local file. It gets its final name at the first commit.
    ///
    /// # Errors
    /// As [`LocalSink::create`].
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::write::{CreateOptions, Writer};
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let path = std::env::temp_dir().join("hyperchunk-create.h5");
    /// let file = Writer::create(&path, &CreateOptions::default())?;
    /// file.close()?;
    /// assert!(File::open(&path, &OpenOptions::default())?.root()?.group()?.is_empty()?);
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn create(path: impl AsRef<Path>, options: &CreateOptions) -> Result<Self> {
        let path = path.as_ref();
        data_start(options)?;
        may_create(path, options.replace)?;
        // The journal is created first: it also locks the file against other writers.
        let journal = options.journal.then(|| Journal::create(path)).transpose()?;
        let start = if options.journal { LocalSink::recoverable } else { LocalSink::create };
        let replaces = Entry::Replaces(ReplacedMark::of(path));
        let noted = journal.as_ref().map_or(Ok(()), |journal| journal.add(&[replaces], false));
        let sink = match noted.and_then(|()| start(path, options.sync, options.replace, options.locking)) {
            Ok(sink) => sink,
            Err(error) => return Err(delete_unstarted(error, journal.as_ref())),
        };
        Self::start(Arc::new(sink), Some(&path.to_string_lossy()), options, journal)
    }

    /// Creates a file as an object of an object store. It is sent by multipart upload while it is written,
    /// without a local copy. The object exists after the commit. Data that were sent cannot be changed or
    /// read back; rewritten chunks are stored again. A `file` URL or a path creates a local file.
    ///
    /// # Errors
    /// Invalid for an invalid URL or invalid options; NotFound or Io from the network or the store;
    /// Unsupported for web servers, and if this build has no object stores (feature `cloud`).
    pub fn create_url(url: &str, options: &CreateOptions, remote: &RemoteOptions) -> Result<Self> {
        if let Some(path) = crate::io::local_path(url) {
            let path = if options.replace { output::target(&path)? } else { path };
            return Self::create(path, options);
        }
        let kept = match options.layout {
            FileLayout::InFront { page } => page.saturating_add(RESERVED_HEADER_BYTES),
            FileLayout::AtEnd => DATA_OFFSET,
        };
        let kept = kept.saturating_add(options.user_block);
        let upload = crate::io::start_upload(url, remote, options.replace)?;
        let name = crate::io::without_secrets(url);
        let sink = StreamSink::new(upload, &name, remote.part, remote.parts_at_once, kept);
        Self::create_in(Arc::new(sink), Some(&name), options)
    }

    /// Returns the object store's description of the written object; `None` for local files, and before the
    /// object exists.
    #[must_use]
    pub fn stored(&self) -> Option<StoredObject> {
        self.0.sink.stored()
    }

    /// Creates a file in a sink. `name` is used in messages.
    ///
    /// # Errors
    /// Invalid for invalid options; the sink's.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::write::{CreateOptions, MemorySink, Writer};
    /// use hyperchunk::{File, OpenOptions};
    /// use std::sync::Arc;
    ///
    /// let sink = Arc::new(MemorySink::default());
    /// let file = Writer::create_in(Arc::clone(&sink) as _, None, &CreateOptions::default())?;
    /// file.close()?;
    /// let file = File::from_bytes(sink.bytes(), &OpenOptions::default())?;
    /// assert!(file.root()?.group()?.is_empty()?);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn create_in(sink: Arc<dyn Sink>, name: Option<&str>, options: &CreateOptions) -> Result<Self> {
        Self::start(sink, name, options, None)
    }

    pub(super) fn start(
        sink: Arc<dyn Sink>,
        name: Option<&str>,
        options: &CreateOptions,
        journal: Option<Journal>,
    ) -> Result<Self> {
        let (first, base) = (data_start(options)?, options.user_block);
        let writer = Self::over(sink, name, options, journal, first);
        let started = writer.0.file.write_at(base, writer.0.file.unfinished()).and_then(|()| match base {
            0 => Ok(()),
            _ => writer.0.note(&[Entry::UserBlock(base)]),
        });
        if let Err(error) = started {
            // The file has no content to recover.
            return Err(match writer.0.file.discard() {
                Ok(()) => delete_unstarted(error, writer.0.journal.as_ref()),
                Err(left) => error.advise(left),
            });
        }
        if let FileLayout::InFront { page } = options.layout {
            *writer.0.front.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(superblock::SUPERBLOCK_BYTES..page);
        }
        Ok(writer)
    }

    /// Creates a writer whose data begin at `first`.
    pub(super) fn over(
        sink: Arc<dyn Sink>,
        name: Option<&str>,
        options: &CreateOptions,
        journal: Option<Journal>,
        first: u64,
    ) -> Self {
        Self::of(sink, name, options, (journal, None), first)
    }

    /// Creates a writer of an edited file, whose new data begin at `first`.
    pub(super) fn editing(
        sink: Arc<dyn Sink>,
        name: &str,
        options: &CreateOptions,
        (first, page): (u64, Option<u64>),
        edit: Edit,
    ) -> Self {
        let mut writer = Self::of(sink, Some(name), options, (None, Some(edit)), first);
        if let (Some(page), Some(inner)) = (page, Arc::get_mut(&mut writer.0)) {
            let space = std::mem::replace(&mut inner.space, Space::new(first, false, 0));
            inner.space = space.in_pages(page);
        }
        writer
    }

    fn of(
        sink: Arc<dyn Sink>,
        name: Option<&str>,
        options: &CreateOptions,
        (journal, edit): (Option<Journal>, Option<Edit>),
        first: u64,
    ) -> Self {
        let file = Arc::clone(&sink);
        let sink = OffsetSink::over(sink, options.user_block);
        // Object headers with fixed addresses are written last. If the sink accepts late writes only at the
        // start of the file, space for them is reserved there.
        let promised = sink.kept().map(|_| first..first + RESERVED_HEADER_BYTES);
        let first = promised.as_ref().map_or(first, |promised| promised.end);
        let threads = match options.threads {
            0 => crate::os::processors(),
            threads => threads,
        };
        let inner = Inner {
            sink,
            file,
            second_format: RwLock::default(),
            options: options.clone(),
            threads,
            space: Space::new(first, promised.is_none() && !options.lasting, options.user_block),
            promised: Mutex::new(promised),
            tree: RwLock::new(Tree::new(false)),
            heap: Heap::default(),
            waiting_bytes: AtomicUsize::new(0),
            gate: Gate::new(),
            discard_failed: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            pins: AtomicU64::new(0),
            snapshot: Mutex::default(),
            front: Mutex::new(None),
            front_heap: Heap::default(),
            former: Mutex::new(None),
            swmr: Mutex::new(None),
            ends: Mutex::new(None),
            superblocks: Mutex::default(),
            committing: Mutex::new(None),
            journal,
            edit,
            notices: Mutex::default(),
            name: name.map(str::to_owned),
        };
        Self(Arc::new(inner))
    }

    /// Returns the options of the file.
    #[must_use]
    pub fn options(&self) -> &CreateOptions {
        &self.0.options
    }

    /// Changes the tree. `with` makes the change, lists its journal entries, and returns a function that
    /// undoes it in case the journal cannot be written.
    pub(super) fn change<T>(
        &self,
        with: impl FnOnce(&mut Tree, &mut Vec<Entry>) -> Result<(T, Undo)>,
    ) -> Result<T> {
        let _in_use = self.0.open()?;
        let mut done = Vec::new();
        let mut tree = self.0.tree_mut();
        let changed = with(&mut tree, &mut done).and_then(|(changed, undo)| match self.0.note(&done) {
            Ok(()) => Ok(changed),
            Err(error) => {
                undo(&mut tree);
                Err(error)
            }
        });
        drop(tree);
        self.0.changed();
        changed.map_err(|error| self.0.named(error))
    }

    /// Adds a new object to the tree.
    fn add(
        &self,
        (parent, name): (NodeId, &[u8]),
        node: Node,
        made: Entry,
        then: impl FnOnce(NodeId),
    ) -> Result<NodeId> {
        self.load_content(parent)?;
        if !name.is_empty() {
            self.load_for_change(parent)?;
        }
        self.change(|tree, done| {
            if !name.is_empty() {
                tree.check_new_name(parent, name)?;
            }
            if let NodeKind::Dataset(dataset) = &node.kind {
                tree.use_datatype(dataset.committed.filter(|_| self.0.edit.is_some()));
            }
            let id = tree.add(node);
            then(id);
            done.push(made);
            let name = Name::from(name);
            if !name.as_bytes().is_empty() {
                tree.link(parent, name.as_bytes(), NewLink::Hard(id))?;
                done.push(Entry::Link { group: parent, name: name.clone(), target: NewLink::Hard(id) });
            }
            let undo = move |tree: &mut Tree| {
                // The object is still the last one, as the tree has been locked since it was added.
                drop(tree.unlink_last(parent, name.as_bytes()));
                tree.nodes.truncate(id.0);
            };
            Ok((id, Box::new(undo) as Undo))
        })
    }

    /// Creates a group. With an empty name, it has no link yet.
    ///
    /// # Errors
    /// Exists if the name exists; Invalid for an invalid name.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::write::{CreateOptions, MemorySink, NodeId, Writer};
    /// use std::sync::Arc;
    ///
    /// let file = Writer::create_in(Arc::new(MemorySink::default()), None, &CreateOptions::default())?;
    /// let runs = file.create_group(NodeId::ROOT, b"runs", false)?;
    /// file.create_group(runs, b"first", false)?;
    /// assert_eq!(file.names(runs)?.len(), 1);
    /// # file.discard()?;
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn create_group(&self, parent: NodeId, name: &[u8], track_order: bool) -> Result<NodeId> {
        let node = Node::new(NodeKind::Group(super::tree::GroupNode::default()), track_order);
        self.add((parent, name), node, Entry::Group { track_order }, |_| ())
    }

    /// Sets whether the creation order of the root group's links and attributes is tracked.
    ///
    /// # Errors
    /// Invalid if the file is closed; Unsupported for an edited file, and to track it once the root group has
    /// an address ([`Writer::address`]).
    pub fn track_root_order(&self, track: bool) -> Result<()> {
        if self.0.edit.is_some() {
            let message = "cannot change whether order is tracked: that is fixed when a file is created";
            return Err(self.0.named(Error::unsupported(message)));
        }
        self.change(|tree, done| {
            let root = tree.node_mut(NodeId::ROOT)?;
            if root.pinned.is_some() && track && !root.track_order {
                // The header would be larger than the space reserved for it.
                return Err(Error::unsupported(
                    "cannot track the order of the root group: its address is used, by a reference for example; call \
                     this before",
                ));
            }
            let old = std::mem::replace(&mut root.track_order, track);
            done.push(Entry::RootOrder(track));
            Ok(((), on_node(NodeId::ROOT, move |node| node.track_order = old)))
        })
    }

    /// Creates a committed datatype. With an empty name, it has no link yet.
    ///
    /// # Errors
    /// Exists if the name exists; Invalid for an invalid name.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::model::{ByteOrder, Datatype};
    /// use hyperchunk::write::{CreateOptions, MemorySink, NodeId, Writer};
    /// use std::sync::Arc;
    ///
    /// let file = Writer::create_in(Arc::new(MemorySink::default()), None, &CreateOptions::default())?;
    /// let kelvin = file.commit_datatype(NodeId::ROOT, b"kelvin", Datatype::ieee(8, ByteOrder::Little))?;
    /// assert_eq!(file.datatype(kelvin)?.size, 8);
    /// file.close()?;
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn commit_datatype(&self, parent: NodeId, name: &[u8], datatype: Datatype) -> Result<NodeId> {
        let (age, encoded) = self.0.able(|age| encode::message::datatype::encode(&datatype, age))?;
        message_limits::datatype(&encoded).map_err(|error| self.0.named(error.object(Name::from(name))))?;
        self.0.notice(age, || format!("the datatype {}", Name::from(name)));
        let node = Node::new(NodeKind::Datatype(datatype.clone()), false);
        self.add((parent, name), node, Entry::Datatype(datatype), |_| ())
    }

    /// Creates a dataset. With an empty name, it has no link yet.
    ///
    /// # Errors
    /// Exists if the name exists; Invalid for an invalid name or inconsistent options; Unsupported or Limit
    /// for content that the formats from [`CreateOptions::oldest`] to [`CreateOptions::newest`] do not
    /// support.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::model::{ByteOrder, Dataspace, Datatype};
    /// use hyperchunk::select::Selection;
    /// use hyperchunk::write::{CreateOptions, DatasetOptions, MemorySink, NewLayout, NodeId, Writer};
    /// use std::sync::Arc;
    ///
    /// let file = Writer::create_in(Arc::new(MemorySink::default()), None, &CreateOptions::default())?;
    /// let dataspace = Dataspace::Simple { dims: vec![4, 6], max: vec![None, Some(6)] };
    /// let options = DatasetOptions::new(Datatype::ieee(4, ByteOrder::Little), dataspace)
    ///     .with_layout(NewLayout::Chunked(vec![2, 3]));
    /// let data = file.create_dataset(NodeId::ROOT, b"data", options)?;
    /// data.write(&Selection::All, &[0; 4 * 24])?;
    /// assert_eq!(data.dims(), [4, 6]);
    /// file.close()?;
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn create_dataset(
        &self,
        parent: NodeId,
        name: &[u8],
        mut options: DatasetOptions,
    ) -> Result<DatasetWriter> {
        if options.fill.allocation == AllocationTime::Default {
            options.fill.allocation = match &options.layout {
                NewLayout::Compact => AllocationTime::Early,
                NewLayout::Contiguous | NewLayout::External(_) => AllocationTime::Late,
                NewLayout::Chunked(_) | NewLayout::Virtual(_) => AllocationTime::Incremental,
            };
        }
        let named = |error: Error| self.0.named(error.object(Name::from(name).to_string()));
        let made = NewDataset {
            datatype: options.datatype.clone(),
            committed: options.committed,
            dataspace: options.dataspace.clone(),
            layout: options.layout.clone(),
            pipeline: options.pipeline.clone(),
            fill: options.fill.clone(),
            track_order: options.track_order,
        };
        let CreateOptions { oldest, newest, .. } = self.0.options;
        let node = Arc::new(dataset_node(options, oldest, newest).map_err(named)?);
        check_encodable(&node, oldest).map_err(named)?;
        self.load_datatypes(made.committed)?;
        let in_tree = Node::new(NodeKind::Dataset(Arc::clone(&node)), made.track_order);
        let id = self.add((parent, name), in_tree, Entry::Dataset(Box::new(made)), |id| {
            node.id.get_or_init(|| id);
        })?;
        if !matches!(node.data, Data::Virtual(_)) {
            let why = if node.large() { "chunks of 4 GiB and more" } else { "its datatype" };
            self.0.notice(node.needs, || format!("{why}, of the dataset {}", Name::from(name)));
        }
        Ok(DatasetWriter { file: self.clone(), id, node })
    }

    /// Returns the dataset with an object number.
    ///
    /// # Errors
    /// Invalid if the object is not a dataset.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::select::Selection;
    /// use hyperchunk::write::{CreateOptions, Writer};
    ///
    /// let path = std::env::temp_dir().join("hyperchunk-dataset.h5");
    /// std::fs::copy("examples/scene.h5", &path).unwrap();
    /// let file = Writer::edit(&path, &CreateOptions::default())?;
    /// let id = file.object(b"/count")?;
    /// file.dataset(id)?.write(&Selection::All, &25_i32.to_le_bytes())?;
    /// file.close()?;
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn dataset(&self, id: NodeId) -> Result<DatasetWriter> {
        self.load_content(id).map_err(|error| self.0.named(error))?;
        let node = Arc::clone(self.0.tree().dataset(id)?);
        Ok(DatasetWriter { file: self.clone(), id, node })
    }

    /// Returns the address that an object will have, for references to it. This fixes the address.
    ///
    /// # Errors
    /// Invalid if the object is of another file.
    pub fn address(&self, object: NodeId) -> Result<u64> {
        let _in_use = self.0.open()?;
        self.load(object)?;
        // Not during a commit of an edit, which fixes addresses, too.
        let _one = self.0.edit.as_ref().map(|_| self.0.commits());
        let mut tree = self.0.tree_mut();
        let node = tree.node_mut(object)?;
        if let Some(address) = node.pinned {
            return Ok(address);
        }
        let size = object_header::pinned_size(&super::commit::header_options(node));
        if let Some(address) = self.0.take_front(size, false) {
            self.0.note(&[Entry::Pinned { object, address }])?;
            self.0.pin(node, address);
            return Ok(address);
        }
        let mut promised = self.0.promised.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(range) = promised.as_mut() {
            if range.end - range.start < size {
                let message = "too many objects with references or dimension scales in a streamed file";
                return Err(self.0.named(Error::unsupported(message)));
            }
            let address = range.start;
            range.start += size.next_multiple_of(8).min(range.end - range.start);
            self.0.pin(node, address);
            return Ok(address);
        }
        let (address, gap) = self.0.space.take_for(Use::Structure, size, 8);
        self.0.sink.skip(address - gap, gap)?;
        // The header is written at each commit. Zeros are written now, for sinks that need complete parts.
        self.0.sink.write_at(address, &vec![0; usize::try_from(size).unwrap_or(0)])?;
        self.0.note(&[Entry::Pinned { object, address }])?;
        self.0.pin(node, address);
        Ok(address)
    }

    /// Takes the notices about content that needed a newer format than [`CreateOptions::oldest`].
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the current size of the file.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.0.space.end()
    }

    /// Returns the number of changes since the file was opened. While it stays the same, so does the result
    /// of [`Writer::snapshot`].
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Acquire)
    }
}

/// Checks options; returns the offset of the data from the superblock.
fn data_start(options: &CreateOptions) -> Result<u64> {
    let first = match options.layout {
        FileLayout::AtEnd => DATA_OFFSET,
        FileLayout::InFront { page } if page.is_power_of_two() && (512..=1 << 30).contains(&page) => {
            page.max(DATA_OFFSET)
        }
        FileLayout::InFront { page } => {
            let message = format!("invalid page size: expected a power of two from 512 to 2^30, got {page}");
            return Err(Error::invalid(message));
        }
    };
    if options.alignment == 0 || options.alignment > 1 << 30 {
        let message = format!("invalid alignment: expected 1 to 2^30 bytes, got {}", options.alignment);
        return Err(Error::invalid(message));
    }
    let base = options.user_block;
    if base != 0 && !(base.is_power_of_two() && (512..=1 << 40).contains(&base)) {
        let message = format!("invalid user block size {base}: expected a power of two from 512 to 2^40");
        return Err(Error::invalid(message));
    }
    Ok(first)
}
