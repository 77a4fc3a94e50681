//! A layout in progress: request, source, plan and state.

use super::boxes::Grid;
use super::marks;
use super::marks::Mark;
use super::names;
use super::order::Slots;
use super::plan::{Geometry, Plan};
use super::source;
use super::source::Source;
use super::task::{ENTRY_BYTES, Scratch};
use super::{FOLDER, LAYOUT, Request};
use crate::store_folder;
use hyperchunk::companion::{self, Trust, owner_of_log};
use hyperchunk::internal::spread;
use hyperchunk::io::is_interrupted;
use hyperchunk::output::{self, Folder};
use hyperchunk::{Dataset, Error, ErrorKind, OpenOptions, Result};
use hyperchunk_format::model::{Layout, Pipeline};
use serde_json::{Value, json};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use twox_hash::XxHash3_64;

/// Offset of the first chunk in a file of chunks; the space before it is for the superblock.
pub(super) const DATA_OFFSET: u64 = 4096;
/// Memory per chunk, in bytes, while a layout is made and its file is finished.
const MEMORY_BYTES_PER_CHUNK: u64 = 320;
/// Fixed memory of a process, in bytes.
const FIXED_MEMORY_BYTES: u64 = 1 << 20;
/// Cost of a network request, expressed in bytes that could be read meanwhile.
const REQUEST_COST_BYTES: u64 = 1 << 20;
/// Name of the file with the request, in the layout's folder.
const REQUEST_FILE: &str = "request.json";

/// A layout in progress.
#[derive(Debug)]
pub struct Job {
    pub(super) source: Source,
    pub(super) request: Request,
    pub(super) id: String,
    pub(super) folder: PathBuf,
    pub(super) output: Option<PathBuf>,
    pub(super) plan: Plan,
    pub(super) chunks: Grid,
    pub(super) slots: Slots,
    pub(super) pipeline: Pipeline,
    pub(super) element: u64,
    pub(super) chunk_bytes: u64,
}

/// Open files of a layout in progress.
#[derive(Debug, Default)]
pub(super) struct Files {
    raw: Option<File>,
    encoded: Option<File>,
    sizes: Option<File>,
    marks: Option<File>,
    /// Seed of the hashes of marks.
    pub(super) seed: u64,
}

/// Result of a call of [`Job::work`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkReport {
    /// Number of tasks done by this call.
    pub done: u64,
    /// Number of tasks that were done before.
    pub skipped: u64,
}

/// Progress of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// True if it is complete and can be read.
    pub committed: bool,
    /// Number of tasks done.
    pub done: u64,
    /// Total number of tasks.
    pub tasks: u64,
}

impl Job {
    /// Prepares the layout that a request describes, for a file given by its path or URL. Nothing
    /// is written yet. With `output`, the layout becomes a file of that name instead of one in the
    /// file's folder.
    ///
    /// # Errors
    /// NotFound, or errors of opening the file; Unsupported for datasets whose layout cannot be
    /// changed; Invalid if the request does not suit the dataset; Limit if the memory is
    /// insufficient, with the required amount.
    pub fn new(name: &str, request: Request, output: Option<&Path>, options: &OpenOptions) -> Result<Self> {
        if output.is_some() && !request.keep {
            let message =
                "cannot replace other layouts (keep) by a separate file (output): use one of the options";
            return Err(Error::invalid(message));
        }
        let source = Source::open(name, &request, options)?;
        let folder = match output {
            Some(output) => {
                let mut folder = output.as_os_str().to_owned();
                folder.push(".restructuring");
                Some(PathBuf::from(folder))
            }
            None => None,
        };
        let id = request.id(&source.identity);
        let folder = match folder {
            Some(folder) => folder,
            None => store_folder(&source::beside(name)?).join(FOLDER).join(&id),
        };
        Self::with_parts(source, request, id, folder, output.map(Path::to_owned))
    }

    /// Opens a job that was started, by its id or a prefix of it.
    ///
    /// # Errors
    /// NotFound if no layout, or more than one, has an id with this prefix; Changed if the file was
    /// replaced or changed since; as [`Job::new`].
    pub fn open(name: &str, id: &str, options: &OpenOptions) -> Result<Self> {
        let path = source::beside(name)?;
        let id = super::catalogue::find(&path, id)?;
        let folder = store_folder(&path).join(FOLDER).join(&id);
        let (request, identity) = read_request(&folder)?;
        let source = Source::open(name, &request, options)?;
        if source.identity != identity || request.id(&identity) != id {
            let message = "the layout is of another version of the file: start again";
            return Err(Error::new(ErrorKind::Changed, message).file(folder.display()));
        }
        Self::with_parts(source, request, id, folder, None)
    }

    fn with_parts(
        source: Source,
        request: Request,
        id: String,
        folder: PathBuf,
        output: Option<PathBuf>,
    ) -> Result<Self> {
        let named = |error: Error| source.dataset.with_context(error);
        let dataset = &source.dataset;
        let (dims, element) = (dataset.dims(), dataset.datatype().size);
        let chunk = request.shape(dims, element).map_err(named)?;
        let pipeline = request.pipeline(dataset.datatype(), &chunk, &dataset.fill().value).map_err(named)?;
        let chunks = Grid::new(dims, &chunk).map_err(named)?;
        let fixed = chunks
            .len()
            .saturating_mul(MEMORY_BYTES_PER_CHUNK)
            .saturating_add(Slots::bytes(&request.order, chunks.len()));
        let geometry = Geometry {
            extent: dims.to_vec(),
            element,
            source: chunk_shape(dataset),
            decoded: !dataset.pipeline().is_empty() || source.file.is_remote() && dataset.chunked().is_some(),
            operation: if source.file.is_remote() { REQUEST_COST_BYTES } else { 0 },
            target: chunk.clone(),
            encoded: !pipeline.is_empty(),
            memory: request.memory,
            fixed: fixed.saturating_add(FIXED_MEMORY_BYTES),
        };
        let plan = Plan::new(&geometry).map_err(named)?;
        let slots = Slots::new(&request.order, &chunks).map_err(named)?;
        let chunk_bytes = chunk.iter().fold(element, |size, dim| size.saturating_mul(*dim));
        Ok(Self { source, request, id, folder, output, plan, chunks, slots, pipeline, element, chunk_bytes })
    }

    /// Returns its id: 32 hexadecimal digits, derived from the request and the source.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the request.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Returns the plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the shape of its chunks.
    #[must_use]
    pub fn chunk(&self) -> &[u64] {
        self.chunks.cell()
    }

    /// Returns the size of the dataset in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.source.dataset.dims().iter().fold(self.element, |size, dim| size.saturating_mul(*dim))
    }

    /// Removes the write permission of users who may not write to the file, from the given path and
    /// its parents up to the file's folder.
    pub(super) fn tighten(&self, path: &Path) {
        let Some(of) = self.beside() else { return companion::tighten(path, Path::new("")) };
        let folder = store_folder(&of);
        path.ancestors()
            .take_while(|path| path.starts_with(&folder))
            .for_each(|path| companion::tighten(path, &of));
    }

    /// Returns the path that the complete layout has, or will have.
    #[must_use]
    pub fn result(&self) -> PathBuf {
        let output = self.output.clone().or_else(|| names::whole(&self.folder));
        output.unwrap_or_else(|| self.folder.join(LAYOUT))
    }

    /// Returns whether it is complete.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        self.result().exists() || names::whole(&self.folder).is_some()
    }

    /// Returns the job and its plan as JSON; `threads` as for [`Job::work`].
    #[must_use]
    pub fn to_json(&self, threads: usize) -> Value {
        let passes: Vec<Value> = self
            .plan
            .passes
            .iter()
            .map(|pass| {
                let cost = pass.cost;
                json!({
                    "way": format!("{:?}", pass.way).to_lowercase(), "tile": pass.tiles.cell(),
                    "tasks": pass.tiles.len(), "read": cost.read, "written": cost.written,
                    "reads": cost.reads, "writes": cost.writes, "threads": self.plan.threads(pass, threads),
                })
            })
            .collect();
        json!({
            "id": self.id, "request": self.request.to_json(), "source": self.source.identity, "chunk": self.chunk(),
            "bytes": self.bytes(), "tasks": self.plan.tasks(), "passes": passes, "memory": self.plan.needs(threads),
            "result": self.result(),
        })
    }

    /// Creates the folder and the files that tasks write to. Concurrent and repeated calls are
    /// harmless.
    ///
    /// # Errors
    /// Io; Corrupt if the folder has another request; Invalid if the output exists.
    pub fn start(&self) -> Result<()> {
        if let Some(output) = &self.output {
            output::check_new(output)?;
        } else if self.is_committed() {
            return Ok(());
        }
        let path = self.folder.join(REQUEST_FILE);
        self.make_folders()?;
        let folder = self.opened()?;
        match read_request(&self.folder) {
            Ok(found) if found == (self.request.clone(), self.source.identity.clone()) => {}
            Ok(_) if self.output.is_some() => {
                let message =
                    "an unfinished job for this output has another request: delete the folder to start again";
                return Err(Error::invalid(message).file(self.folder.display()));
            }
            Ok(_) => {
                return Err(
                    Error::corrupt("the folder has the request of another layout").file(path.display())
                );
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let fields = format!(
                    "{{\"request\":{},\"source\":{}}}\n",
                    self.request.to_json(),
                    json!(self.source.identity)
                );
                output::write(&path, fields.as_bytes(), true)?;
                self.tighten(&path);
            }
            Err(error) => return Err(error),
        }
        let chunks = self.chunks.len();
        let sizes = [
            (self.raw_path(), Some(DATA_OFFSET + chunks * self.chunk_bytes).filter(|_| self.has_raw())),
            (self.folder.join("encoded"), Some(chunks * self.chunk_bytes).filter(|_| self.is_encoded())),
            (self.folder.join("sizes"), Some(chunks * ENTRY_BYTES).filter(|_| self.is_encoded())),
            (self.folder.join("marks"), Some(self.plan.tasks() * marks::MARK_BYTES as u64)),
        ];
        for (path, size) in sizes {
            let Some(size) = size else { continue };
            let made = folder
                .open_or_create(path.file_name().unwrap_or_default())
                .and_then(|file| if file.metadata()?.len() < size { file.set_len(size) } else { Ok(()) });
            made.map_err(|error| self.refused("create", &path, &error))?;
            self.tighten(&path);
        }
        Ok(())
    }

    /// Creates the folders of the layout, from the source's folder down. Folders of other users are
    /// refused, since their content would become the values that are read, and be written to.
    fn make_folders(&self) -> Result<()> {
        let (trust, of) = self.trust();
        let top = self.beside().map_or_else(|| self.folder.clone(), |of| store_folder(&of));
        let mut folders: Vec<&Path> =
            self.folder.ancestors().take_while(|folder| folder.starts_with(&top)).collect();
        folders.reverse();
        folders.into_iter().try_for_each(|folder| trust.make_folder(folder, &of))
    }

    /// Returns the file that the layout belongs to, unless it has an output of its own.
    fn beside(&self) -> Option<PathBuf> {
        self.folder.parent().filter(|_| self.output.is_none()).and_then(owner_of_log)
    }

    /// Returns the trust rules for folders, and the file next to which they are.
    fn trust(&self) -> (Trust, PathBuf) {
        match self.beside() {
            Some(of) => (Trust::for_writer(&of), of),
            None => (Trust::for_reader(), PathBuf::new()),
        }
    }

    /// Opens its folder and checks its permissions.
    fn opened(&self) -> Result<Folder> {
        let folder =
            Folder::open(&self.folder).map_err(|error| self.refused("open", &self.folder, &error))?;
        let metadata =
            folder.metadata().map_err(|error| self.refused("read the metadata of", &self.folder, &error))?;
        self.trust().0.check(&self.folder, &metadata)?;
        Ok(folder)
    }

    pub(super) fn is_encoded(&self) -> bool {
        !self.pipeline.is_empty()
    }

    /// Returns whether unfiltered chunks are stored, at least temporarily.
    fn has_raw(&self) -> bool {
        !self.is_encoded() || self.plan.passes.len() > 1
    }

    fn raw_path(&self) -> PathBuf {
        self.folder.join(if self.is_encoded() { "between" } else { super::PARTIAL })
    }

    pub(super) fn refused(&self, what: &str, path: &Path, error: &io::Error) -> Error {
        let kind = if error.kind() == io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Io };
        Error::new(kind, format!("cannot {what} it: {error}")).file(path.display())
    }

    /// Opens its files; `None` if it was committed in the meantime.
    pub(super) fn files(&self) -> Result<Option<Files>> {
        let folder = match self.opened() {
            Err(_) if self.is_committed() => return Ok(None),
            folder => folder?,
        };
        let open = |path: PathBuf, wanted: bool| -> Result<Option<File>> {
            let name = path.file_name().unwrap_or_default();
            let file = wanted.then(|| folder.open_file(name)).transpose();
            file.map_err(|error| self.refused("open", &path, &error))
        };
        let encoded = self.is_encoded();
        let opened = (|| {
            Ok(Files {
                seed: 0,
                raw: open(self.raw_path(), self.has_raw())?,
                encoded: open(self.folder.join("encoded"), encoded)?,
                sizes: open(self.folder.join("sizes"), encoded)?,
                marks: open(self.folder.join("marks"), true)?,
            })
        })();
        match opened {
            Ok(mut files) => {
                files.seed = self.seed(&files)?;
                Ok(Some(files))
            }
            Err(_) if self.is_committed() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the seed of the marks' hashes. It invalidates marks of tasks that were split
    /// differently, or of deleted files.
    fn seed(&self, files: &Files) -> Result<u64> {
        let mut text = self.id.clone();
        for pass in &self.plan.passes {
            text += &format!("\n{:?}{:?}", pass.way, pass.tiles.cell());
        }
        for file in [&files.raw, &files.encoded, &files.sizes].into_iter().flatten() {
            let number = file_number(file)
                .map_err(|error| self.refused("read the metadata of", &self.folder, &error))?;
            text += &format!("\n{number}");
        }
        Ok(XxHash3_64::oneshot(text.as_bytes()))
    }

    /// Executes those tasks of a range of a pass that are not done yet, on as many threads as the
    /// memory allows. `each` is called with the number of bytes of the dataset just completed.
    ///
    /// # Errors
    /// NotFound before [`Job::start`]; Invalid if the previous pass is not done; Changed if the
    /// source was written to; errors of reading it and of writing.
    pub fn work(
        &self,
        pass: usize,
        tasks: Range<u64>,
        threads: usize,
        each: &(dyn Fn(u64) + Sync),
    ) -> Result<WorkReport> {
        let Some(about) = self.plan.passes.get(pass) else {
            return Err(Error::invalid(format!(
                "there is no pass {pass}: the plan has {} passes",
                self.plan.passes.len()
            )));
        };
        let tasks = tasks.start.min(about.tiles.len())..tasks.end.min(about.tiles.len());
        let count = tasks.end.saturating_sub(tasks.start);
        let Some(files) = self.files()? else { return Ok(WorkReport { done: 0, skipped: count }) };
        if pass > 0 {
            let before = self.missing(&files, pass - 1)?;
            if before > 0 {
                return Err(Error::invalid(format!("{before} tasks of the previous pass are not done")));
            }
        }
        let threads = self.plan.threads(about, super::thread_count(threads));
        let (done, skipped) = (AtomicU64::new(0), AtomicU64::new(0));
        let first = self.plan.first(pass);
        spread(threads, tasks, Scratch::default, |scratch, number| {
            if is_interrupted() {
                return Err(Error::new(ErrorKind::Io, "interrupted: completed tasks stay completed"));
            }
            let slab = Self::tile(&about.tiles, number);
            if self.is_done(&files, pass, number, scratch)? {
                skipped.fetch_add(1, Ordering::Relaxed);
            } else {
                let hash = self.task(about.way, &slab, &files, scratch)?;
                self.source.check_unchanged()?;
                marks::write(files.marks()?, files.seed, first + number, Mark::new(hash))?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            each(slab.elements()?.saturating_mul(self.element));
            Ok(())
        })?;
        Ok(WorkReport { done: done.into_inner(), skipped: skipped.into_inner() })
    }

    /// Returns whether a task is done: it has a mark, and its output is intact. Output that
    /// this machine wrote since its last boot is not checked: it is in the page cache or on disk.
    fn is_done(&self, files: &Files, pass: usize, number: u64, scratch: &mut Scratch) -> Result<bool> {
        let about = &self.plan.passes[pass];
        let Some(mark) = marks::read(files.marks()?, files.seed, self.plan.first(pass) + number)? else {
            return Ok(false);
        };
        if mark.is_current_boot() {
            return Ok(true);
        }
        let slab = Self::tile(&about.tiles, number);
        Ok(self.written(about.way, &slab, files, scratch).is_ok_and(|hash| hash == mark.hash))
    }

    /// Returns the number of tasks of a pass that are not done.
    pub(super) fn missing(&self, files: &Files, pass: usize) -> Result<u64> {
        let mut scratch = Scratch::default();
        let mut missing = 0;
        for number in 0..self.plan.passes[pass].tiles.len() {
            missing += u64::from(!self.is_done(files, pass, number, &mut scratch)?);
        }
        Ok(missing)
    }

    /// Returns the progress.
    ///
    /// # Errors
    /// Io.
    pub fn progress(&self) -> Result<Progress> {
        let tasks = self.plan.tasks();
        let files = if self.is_committed() { None } else { self.files()? };
        let Some(files) = files else { return Ok(Progress { committed: true, done: tasks, tasks }) };
        let mut done = 0;
        for task in 0..tasks {
            done += u64::from(marks::read(files.marks()?, files.seed, task)?.is_some());
        }
        Ok(Progress { committed: false, done, tasks })
    }
}

/// Returns a number that distinguishes a file from a later one of the same name.
#[cfg(unix)]
fn file_number(file: &File) -> io::Result<u64> {
    Ok(std::os::unix::fs::MetadataExt::ino(&file.metadata()?))
}

/// Returns a number that distinguishes a file from a later one of the same name. Not the time of its creation: Windows
/// gives a new file that of the file it replaces.
#[cfg(windows)]
fn file_number(file: &File) -> io::Result<u64> {
    Ok(winapi_util::file::information(file)?.file_index())
}

/// Returns the chunk shape of a source; its extent if it is contiguous.
pub(super) fn chunk_shape(dataset: &Dataset) -> Vec<u64> {
    match dataset.layout() {
        Layout::Chunked(chunked) => chunked.dims.clone(),
        _ => dataset.dims().iter().map(|dim| (*dim).max(1)).collect(),
    }
}

/// Reads the request in a layout's folder, and the identity of its source.
pub(super) fn read_request(folder: &Path) -> Result<(Request, String)> {
    let owner =
        folder.parent().and_then(Path::parent).and_then(|logs| owner_of_log(&logs.join(REQUEST_FILE)));
    request_in(folder, &owner.map_or_else(Trust::for_reader, |owner| Trust::for_path(&owner)))
}

/// As [`read_request`], with known trust rules.
pub(super) fn request_in(folder: &Path, trust: &Trust) -> Result<(Request, String)> {
    let path = folder.join(REQUEST_FILE);
    let named = |error: Error| error.file(path.display());
    let refused = |error: io::Error| {
        let kind = if error.kind() == io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Io };
        named(Error::new(kind, format!("cannot read the request: {error}")))
    };
    let mut text = String::new();
    // Bounded, since the file may be anything.
    let opened = trust.open(&path, 0)?.ok_or_else(|| refused(io::ErrorKind::NotFound.into()))?;
    io::Read::read_to_string(&mut io::Read::take(opened.as_file(), 128 << 10), &mut text).map_err(refused)?;
    let wrong = || named(Error::corrupt("the file is not a request for a layout"));
    let value: Value = serde_json::from_str(&text).map_err(|_| wrong())?;
    let request = value.get("request").ok_or_else(wrong)?;
    let identity = value.get("source").and_then(Value::as_str).ok_or_else(wrong)?;
    Ok((Request::parse(&request.to_string()).map_err(named)?, identity.to_owned()))
}

impl Files {
    fn have(file: Option<&File>) -> Result<&File> {
        file.ok_or_else(|| Error::invalid("a file that this layout does not need"))
    }

    pub(super) fn raw(&self) -> Result<&File> {
        Self::have(self.raw.as_ref())
    }

    pub(super) fn encoded(&self) -> Result<&File> {
        Self::have(self.encoded.as_ref())
    }

    pub(super) fn sizes(&self) -> Result<&File> {
        Self::have(self.sizes.as_ref())
    }

    pub(super) fn marks(&self) -> Result<&File> {
        Self::have(self.marks.as_ref())
    }
}
