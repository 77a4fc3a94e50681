//! Open files.

use crate::external::ExternalFiles;
use crate::heap::GlobalHeaps;
use crate::index::{self, Index, IndexOption, IndexState, IndexedView};
use crate::io::{self, FilePages, FileView, LocalFile, Locking, Memory, RemoteOptions, Source, rounds};
use crate::object::Object;
use crate::os;
use crate::output::{is_input, same_file};
use crate::read::ChunkCache;
use crate::storage::{self, FileLocation, FileStorage};
use crate::torn;
use crate::walk::Paths;
use crate::write::WaitingCommit;
use crate::{Error, ErrorKind, Limits, Result};
use bytes::Bytes;
use hyperchunk_format::model::{Reference, ReferenceKind, Superblock};
use hyperchunk_format::parse::{cache_image, reference, superblock};
use hyperchunk_format::{Fuel, Image, Overlay};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Maximum number of attempts to open a file that its SWMR writer is closing, and the pause between them.
const CLOSING_ATTEMPTS: u32 = 20;
const CLOSING_WAIT: Duration = Duration::from_millis(5);

/// Options for opening and reading a file.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Limits on the resources that the file may take.
    pub limits: Limits,
    /// Number of threads that decode; 0 for the number of processors.
    pub threads: usize,
    /// Policy for opening other files that this one names: targets of external links, external raw data,
    /// sources of virtual datasets.
    pub external: ExternalPolicy,
    /// Reads files even if they are locked or marked as open for writing, for example after a crash of the
    /// writer. The data may be inconsistent.
    pub ignore_locks: bool,
    /// Locking of local files while they are open.
    pub locking: Locking,
    /// Follows a file that another program writes in SWMR mode: the file is not kept locked, and metadata
    /// that were read while they were overwritten are read again.
    pub swmr: bool,
    /// Reads files that are shorter than their superblock says. Reading data past the end is still an error.
    pub allow_truncated: bool,
    /// Options for files over a network.
    pub remote: RemoteOptions,
    /// Locations to search for an index of the file.
    pub index: IndexOption,
    /// The epoch of the file's sharded store to read, in place of the newest; the file itself need not
    /// exist.
    pub epoch: Option<u64>,
    /// Reads datasets of sharded stores as libhdf5 does: as data in external files.
    pub ignore_stores: bool,
    /// File name that functions of live datasets get instead of the path.
    pub shown_as: Option<PathBuf>,
    /// Reads datasets from this file even if another layout of them would cost less
    /// (`hyperchunk_store::restructure`).
    pub ignore_layouts: bool,
}

/// Policy for opening other files that a file names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExternalPolicy {
    /// Any file, as in libhdf5.
    #[default]
    Anywhere,
    /// Files in the file's folder and below it.
    Beside,
    /// As `Beside`, except for names, and folders below the file's, that begin with a dot: the files that a
    /// server of that folder lists.
    Listed,
    /// Only files of the file's own store. For servers of a single file.
    Own,
    /// No other files.
    Never,
}

impl OpenOptions {
    /// Returns the number of threads that decode.
    pub fn thread_count(&self) -> usize {
        match self.threads {
            _ if crate::live::is_alone() => 1,
            0 => os::processors(),
            count => count,
        }
    }
}

/// An open file. Cheap to clone; all clones, and all objects derived from them, may be used from many
/// threads at once.
#[derive(Clone)]
pub struct File(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    /// The path as the caller gave it, for messages.
    pub(crate) path: Option<PathBuf>,
    /// The absolute path, since a program may change its working folder; a URL is unchanged.
    located: Option<PathBuf>,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) options: OpenOptions,
    pub(crate) superblock: Superblock,
    pub(crate) external: ExternalFiles,
    pub(crate) heaps: GlobalHeaps,
    pub(crate) chunks: ChunkCache,
    pub(crate) index: Option<Arc<Index>>,
    storage: OnceLock<Arc<dyn FileStorage>>,
    pub(crate) paths: OnceLock<Arc<Paths>>,
    index_state: IndexState,
    /// Set while another program writes it in SWMR mode.
    followed: bool,
    view: Overlay<IndexedView<FileView>>,
}

impl File {
    /// Opens a local file. If a program that edited it was interrupted in the middle of a commit, the commit is
    /// completed first; if the file cannot be written to, the commit's changes are applied in memory.
    ///
    /// # Errors
    /// NotFound or Io from the system; NotHdf5; Locked if it is locked or marked as open for writing;
    /// Truncated if it is shorter than its superblock says; Corrupt or Unsupported from its superblock.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// assert_eq!(file.root()?.group()?.len()?, 6);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let path = path.as_ref();
        if let Some(epoch) = options.epoch {
            // The skeleton at `path` may be of another epoch, or missing.
            let here: Arc<dyn Source> = Arc::new(Memory::new(Vec::new()));
            return Self::open_epoch_from(&here, path, epoch, options);
        }
        let waiting = crate::write::settle_to_read(path)?;
        let mut attempt = 1;
        loop {
            let opened = Self::from_local_file(LocalFile::open(path), path, options, waiting.as_ref());
            // A SWMR writer may close the file after its size was read and before its flags are.
            let closing = options.swmr
                && match &opened {
                    Ok(file) => file.check_unchanged().is_err(),
                    Err(error) => matches!(error.kind(), ErrorKind::Changed | ErrorKind::Truncated),
                };
            if !closing || attempt == CLOSING_ATTEMPTS {
                return opened;
            }
            std::thread::sleep(CLOSING_WAIT);
            attempt += 1;
        }
    }

    /// Opens the HDF5 file in `opened`, the local file at `path`. `waiting` is an interrupted commit whose
    /// changes are applied in memory.
    pub(crate) fn from_local_file(
        opened: Result<LocalFile>,
        path: &Path,
        options: &OpenOptions,
        waiting: Option<&WaitingCommit>,
    ) -> Result<Self> {
        let source = opened.and_then(|file| match options.ignore_locks {
            true => Ok(file),
            false => file.locked(options.locking),
        });
        let source = source.map_err(|error| unfinished(error, path).file(path.display()))?;
        // As in libhdf5: a reader that follows a writer only needs to have obtained the lock once.
        let source = if options.swmr { source.unlocked() } else { source };
        let source: Arc<dyn Source> = match waiting {
            Some(waiting) => Arc::new(waiting.over(source).map_err(|error| error.file(path.display()))?),
            None => Arc::new(source),
        };
        let file = Self::from_source(source, Some(path.to_owned()), options)
            .map_err(|error| unfinished(error, path))?;
        storage::check_committed(&file).map_err(|error| error.file(path.display()))?;
        Ok(file)
    }

    /// Opens a file by its path or URL: local, in an object store or on a web server ([`io::open`]).
    ///
    /// # Errors
    /// As [`File::open`] and [`io::open`].
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// // Or "s3://bucket/scene.h5", "https://example.org/scene.h5".
    /// let file = File::open_url("examples/scene.h5", &OpenOptions::default())?;
    /// assert_eq!(file.root()?.group()?.len()?, 6);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn open_url(name: &str, options: &OpenOptions) -> Result<Self> {
        match io::local_path(name) {
            Some(path) => Self::open(path, options),
            None => {
                let shown = io::without_secrets(name).into();
                let (source, options) = index::open_url(name, options)?;
                let path: PathBuf = shown;
                if let Some(epoch) = options.epoch {
                    return Self::open_epoch_from(&source, &path, epoch, &options);
                }
                Self::from_source(source, Some(path), &options)
            }
        }
    }

    /// Opens a file in memory.
    ///
    /// # Errors
    /// As [`File::open`].
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let bytes = std::fs::read("examples/scene.h5").unwrap();
    /// let file = File::from_bytes(bytes, &OpenOptions::default())?;
    /// assert_eq!(file.path(), None);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn from_bytes(bytes: impl Into<Arc<[u8]>>, options: &OpenOptions) -> Result<Self> {
        Self::from_source(Arc::new(Memory::new(bytes)), None, options)
    }

    /// Opens a file in the state of an epoch of its sharded store: groups, attributes and data of that
    /// commit.
    ///
    /// # Errors
    /// NotFound if there is no such epoch; as [`File::open`].
    pub fn open_epoch(path: impl AsRef<Path>, epoch: u64) -> Result<Self> {
        Self::open(path, &OpenOptions { epoch: Some(epoch), ..OpenOptions::default() })
    }

    fn open_epoch_from(
        source: &Arc<dyn Source>,
        path: &Path,
        epoch: u64,
        options: &OpenOptions,
    ) -> Result<Self> {
        let home = FileLocation { path: Some(path), source, external: options.external };
        let storage = storage::storage().ok_or_else(storage::unregistered);
        let opened = storage.and_then(|storage| storage.open_epoch(&home, epoch));
        let opened = opened.map_err(|error| error.file(path.display()))?;
        let image: Arc<dyn Source> = Arc::new(Memory::new(opened.image));
        let options = OpenOptions { index: IndexOption::Never, ..options.clone() };
        let located = locate(&**source, path);
        let path_given = Some(path.to_owned());
        let opened = open(image, path_given, Some(located), &options, OnceLock::from(opened.storage));
        opened.map_err(|error| error.file(path.display()))
    }

    /// Opens a file by its source of bytes. `path` is for messages and for finding the files that this one
    /// names.
    ///
    /// # Errors
    /// As [`File::open`].
    pub fn from_source(
        source: Arc<dyn Source>,
        path: Option<PathBuf>,
        options: &OpenOptions,
    ) -> Result<Self> {
        let located = path.as_deref().map(|path| locate(&*source, path));
        Self::from_source_at(source, path, located, options)
    }

    /// Opens a file by its source of bytes, and by the absolute path that `path` had when the bytes were opened.
    pub(crate) fn from_source_at(
        source: Arc<dyn Source>,
        path: Option<PathBuf>,
        located: Option<PathBuf>,
        options: &OpenOptions,
    ) -> Result<Self> {
        let opened = rounds::alone(|| open(source, path.clone(), located, options, OnceLock::new()));
        opened.map_err(|error| match path {
            Some(path) => error.file(path.display()),
            None => error,
        })
    }

    /// Opens a damaged file with this superblock instead of the stored one.
    pub(crate) fn assume(
        source: Arc<dyn Source>,
        path: &Path,
        options: &OpenOptions,
        superblock: Superblock,
    ) -> Result<Self> {
        let pages = IndexedView::new(FileView::new(&source), None);
        let fuel = Fuel::new(&options.limits);
        let image = Image::new(&pages, superblock.base, superblock.sizes, &options.limits, &fuel);
        let patches = match cache_image::entries(image, &superblock) {
            Err(error) if error.is_of_reading() => return Err(error),
            patches => patches.unwrap_or_default(),
        };
        let base = superblock.base;
        let patches = patches.into_iter().map(|(address, bytes)| (base.saturating_add(address), bytes));
        let located = locate(&*source, path);
        let inner = Inner {
            external: ExternalFiles::new(Some(&located), options.external),
            path: Some(path.to_owned()),
            located: Some(located),
            view: Overlay::new(pages, patches),
            source,
            options: options.clone(),
            superblock,
            heaps: GlobalHeaps::default(),
            chunks: ChunkCache::default(),
            index: None,
            storage: OnceLock::new(),
            paths: OnceLock::new(),
            index_state: IndexState::None,
            followed: false,
        };
        Ok(Self(Arc::new(inner)))
    }

    /// Returns its path, if it has one.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// assert!(file.path().is_some_and(|path| path.ends_with("scene.h5")));
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns its absolute path, which stays valid if the program changes its working folder, or its URL.
    pub(crate) fn located(&self) -> Option<&Path> {
        self.0.located.as_deref()
    }

    /// Returns whether the file at a path is this one, or was read through it: by an external link, as a
    /// source of a virtual dataset, or as external raw data.
    #[must_use]
    pub fn has_read(&self, path: &Path) -> bool {
        let own = self.located().filter(|_| !self.is_remote()).map(Path::to_owned);
        own.into_iter().chain(self.0.external.opened_paths()).any(|read| same_file(&read, path))
    }

    /// Checks that an output is neither this file nor one that was read through it, which it would replace.
    ///
    /// # Errors
    /// Invalid if it is one of them.
    pub fn check_unread(&self, output: &Path) -> Result<()> {
        if self.has_read(output) { Err(is_input(output)) } else { Ok(()) }
    }

    /// Returns its superblock.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// assert_eq!(file.superblock().version, 2);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.0.superblock
    }

    /// Returns its size in bytes.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// assert_eq!(file.size(), std::fs::metadata("examples/scene.h5").unwrap().len());
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    #[must_use]
    pub fn size(&self) -> u64 {
        self.0.source.size()
    }

    /// Returns whether a program is writing the file, or was killed while it did: the superblock is marked as
    /// open for writing (version 3, as written by libhdf5 with `libver="latest"`), or a writer's journal is
    /// beside it.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// assert!(!file.is_written());
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    #[must_use]
    pub fn is_written(&self) -> bool {
        let journal =
            || self.on_disk().and(self.located()).is_some_and(|path| io::journal_path(path).is_file());
        superblock::is_marked(&self.0.superblock) || journal()
    }

    /// Returns whether the file is followed while another program writes it in SWMR mode.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        self.0.followed
    }

    /// Returns the source of its bytes.
    #[doc(hidden)]
    #[must_use]
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.0.source
    }

    /// Returns the stores and layouts of its datasets, if a storage is registered.
    pub(crate) fn storage(&self) -> Option<&dyn FileStorage> {
        if let Some(known) = self.0.storage.get() {
            return Some(&**known);
        }
        let storage = storage::storage()?;
        Some(&**self.0.storage.get_or_init(|| storage.file()))
    }

    /// Returns the options it was opened with.
    #[must_use]
    pub fn options(&self) -> &OpenOptions {
        &self.0.options
    }

    /// Opens the file again, with this index.
    ///
    /// # Errors
    /// Changed if the index is of another version of the file, and the errors of opening.
    pub fn with_index(&self, index: Index) -> Result<Self> {
        let options = OpenOptions { index: IndexOption::Given(Arc::new(index)), ..self.0.options.clone() };
        let (path, located) = (self.0.path.clone(), self.0.located.clone());
        Self::from_source_at(Arc::clone(&self.0.source), path, located, &options)
    }

    /// Returns the outcome of the search for its index.
    #[must_use]
    pub fn index_state(&self) -> &IndexState {
        &self.0.index_state
    }

    /// Returns the root group.
    ///
    /// # Errors
    /// If its object header cannot be read.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let names: Vec<String> = file.root()?.group()?.links()?.iter().map(|link| link.name.to_string()).collect();
    /// assert_eq!(names, ["codes", "count", "latest", "runs", "stations", "temperature"]);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn root(&self) -> Result<Object> {
        self.object(self.0.superblock.root)
    }

    /// Returns the object whose header is at `address`.
    ///
    /// # Errors
    /// If there is no object header.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let address = file.root()?.group()?.get("temperature")?.address();
    /// assert_eq!(file.object(address)?.dataset()?.dims(), [4, 6]);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn object(&self, address: u64) -> Result<Object> {
        Object::open(self, address)
    }

    /// Decodes a stored reference; `None` for a null one.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn reference(&self, kind: ReferenceKind, element: &[u8]) -> Result<Option<Reference>> {
        self.parse(|image| reference::parse(image, kind, element))
    }

    /// Returns the object that a reference points to.
    ///
    /// # Errors
    /// If it does not exist, or is in a file that cannot be opened.
    pub fn dereference(&self, reference: &Reference) -> Result<Object> {
        match &reference.file {
            Some(name) => self.0.external.open(self, name)?.object(reference.address),
            None => self.object(reference.address),
        }
    }

    /// Returns whether two handles refer to the same open file.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns its number among the files that this process has opened; numbers are never reused.
    #[must_use]
    pub fn instance(&self) -> u64 {
        self.0.chunks.file()
    }

    /// Returns the local file, if it consists of exactly this file's bytes.
    #[must_use]
    pub fn on_disk(&self) -> Option<&std::fs::File> {
        self.0.source.file()
    }

    /// Runs a parser over the file, and names the file in its errors.
    ///
    /// # Errors
    /// The errors of the parser.
    pub fn parse<T>(&self, parser: impl Fn(Image<'_>) -> Result<T>) -> Result<T> {
        let superblock = &self.0.superblock;
        let parsed = torn::again(self.0.followed, || {
            let fuel = Fuel::new(&self.0.options.limits);
            let limits = &self.0.options.limits;
            let image = Image::new(&self.0.view, superblock.base, superblock.sizes, limits, &fuel);
            parser(image.with_shared_messages(superblock.shared_messages).with_chunk_k(superblock.chunk_k))
        });
        self.0.view.under().under().forget_hints();
        self.unchanged(parsed).map_err(|error| self.with_context(error))
    }

    /// Releases the locks of the file and of the other files it opened, even if objects are still in use.
    /// Another program may then change the file; a read that follows a change is an error.
    pub fn release_locks(&self) {
        self.0.source.release();
        self.0.external.release_locks();
    }

    /// Checks that the file is unchanged since it was opened.
    ///
    /// # Errors
    /// Changed if the file was written to, or replaced by another file. Never for a file that is followed
    /// ([`OpenOptions::swmr`]), or whose locks are ignored.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// file.check_unchanged()?;
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn check_unchanged(&self) -> Result<()> {
        self.0.source.check_unchanged().map_err(|error| self.with_context(error))
    }

    /// Empties the metadata cache, after this process has replaced bytes of the file.
    pub(crate) fn forget_structure(&self) {
        self.0.view.under().under().forget();
    }

    /// Returns the result of a read if the file did not change meanwhile.
    pub(crate) fn unchanged<T>(&self, read: Result<T>) -> Result<T> {
        match &read {
            Err(error) if error.is_need() => read,
            _ => self.check_unchanged().and(read),
        }
    }

    /// Runs `work`, which parses metadata. For a file over a network, fetches `range` together with the first
    /// requests of `work`, if it makes any.
    pub(crate) fn fetch_beside<T>(&self, range: Range<u64>, work: impl FnOnce() -> T) -> (T, Option<Bytes>) {
        self.0.view.under().under().fetch_beside(range, work)
    }

    /// Adds this file's name to an error.
    pub fn with_context(&self, error: Error) -> Error {
        match &self.0.path {
            Some(path) => error.file(path.display()),
            None => error,
        }
    }
}

/// Adds advice to an error if the file is missing, or is not an HDF5 file, because its writer has not
/// finished it: how to recover the complete parts.
fn unfinished(error: Error, path: &Path) -> Error {
    let named = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let (partial, file) = match error.kind() {
        ErrorKind::NotFound if named(".partial").exists() => (named(".partial"), path.to_owned()),
        ErrorKind::NotHdf5 if path.extension().is_some_and(|extension| extension == "partial") => {
            (path.to_owned(), path.with_extension(""))
        }
        ErrorKind::NotFound => {
            let schemes = ["az:/", "gs:/", "http:/", "https:/", "s3:/"];
            return match path
                .to_str()
                .and_then(|name| schemes.iter().find_map(|scheme| Some((scheme, name.strip_prefix(scheme)?))))
            {
                Some((scheme, rest)) => error.advise(format_args!("did you mean {scheme}/{rest}?")),
                None => error,
            };
        }
        _ => return error,
    };
    error.advise(format_args!(
        "{} is unfinished: another program writes it, or one was killed while it did; `hyperchunk recover {}` \
         restores the complete parts",
        partial.display(),
        file.display()
    ))
}

/// Returns the absolute path of a local file; a URL is unchanged.
fn locate(source: &dyn Source, path: &Path) -> PathBuf {
    let is_url = path.to_str().is_some_and(|name| io::local_path(name).is_none());
    let is_local = source.remote().is_none() && !is_url;
    let absolute = is_local.then(|| std::path::absolute(path).ok()).flatten();
    absolute.unwrap_or_else(|| path.to_owned())
}

fn open(
    source: Arc<dyn Source>,
    path: Option<PathBuf>,
    located: Option<PathBuf>,
    options: &OpenOptions,
    storage: OnceLock<Arc<dyn FileStorage>>,
) -> Result<File> {
    let limits = &options.limits;
    let name = path.as_deref().and_then(Path::to_str);
    // A file that is being written is always newer than its index.
    let wanted = match &options.index {
        IndexOption::Auto | IndexOption::Beside if options.swmr => &IndexOption::Never,
        given => given,
    };
    let (index, index_state) = index::find(wanted, name, &*source, limits)?;
    let pages = IndexedView::new(FileView::new(&source), index.clone());
    let fuel = Fuel::new(limits);
    let superblock = torn::again(options.swmr, || {
        pages.under().forget();
        superblock::parse(&pages, limits, &fuel)
    })?;
    let followed = options.swmr && superblock::is_swmr(&superblock);
    match (options.ignore_locks, options.swmr) {
        (true, _) => {}
        (false, true) => superblock::check_swmr_flags(&superblock)?,
        (false, false) => superblock::check_flags(&superblock)?,
    }
    if followed || options.ignore_locks {
        source.follow_growth();
    }
    source.keep_superblock(superblock.base, if superblock.version < 2 { 96 } else { 48 });
    if followed {
        pages.under().keep_nothing();
    } else if !options.allow_truncated {
        superblock::check_end(&superblock, source.size())?;
    }
    let image = Image::new(&pages, superblock.base, superblock.sizes, limits, &fuel);
    if source.remote().is_some() && index.is_none() {
        let space = match superblock::file_space(image, &superblock) {
            Err(error) if error.is_of_reading() => return Err(error),
            // Damaged: reported when it is needed.
            space => space.unwrap_or(None),
        };
        if let Some(file_pages) = FilePages::new(superblock.base, space) {
            pages.under().set_pages(file_pages);
        }
    }
    let patches = cache_image::entries(image, &superblock)?;
    let patches =
        patches.into_iter().map(|(address, bytes)| (superblock.base.saturating_add(address), bytes));
    let view = Overlay::new(pages, patches);
    let inner = Inner {
        external: ExternalFiles::new(located.as_deref(), options.external),
        path,
        located,
        source,
        options: options.clone(),
        superblock,
        heaps: GlobalHeaps::default(),
        chunks: ChunkCache::default(),
        index,
        storage,
        paths: OnceLock::new(),
        index_state,
        followed,
        view,
    };
    Ok(File(Arc::new(inner)))
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("path", &self.0.path).finish_non_exhaustive()
    }
}
