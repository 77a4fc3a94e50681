//! Stores in an object store: the file is an object, and so is each file of its folder.
//!
//! An object is complete or absent, and cannot be extended. Therefore a log is sent while it is
//! written and becomes visible when its writer flushes; later data go to another object
//! ([`parts`]). A manifest is written with a condition that it does not exist.

mod deferred_upload;
pub(crate) mod log;
pub(crate) mod parts;

use super::file_identity::FileIdentity;
use super::site::{Folder, log_name};
use crate::WriterId;
use hyperchunk::index::IndexOption;
use hyperchunk::internal::upload::{CreateOutcome, ListedObject};
use hyperchunk::io::{self, RemoteOptions, Source};
use hyperchunk::write::Sync;
use hyperchunk::{Error, ErrorKind, File, OpenOptions, Result};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Folder of the notes about unfinished uploads, in the store's folder.
const UPLOADS: &str = "uploads";
/// Object in every store that serves to test for support of conditional writes.
const CONDITION: &str = "put-if-absent";
/// Maximum number of attempts to read an object that is being replaced.
const MAX_ATTEMPTS: u32 = 60;
/// First pause between the attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum size of a skeleton in bytes.
const MAX_SKELETON_BYTES: u64 = 1 << 32;

/// Folders that are known to support conditional writes.
static CHECKED_FOLDERS: Mutex<Option<HashSet<String>>> = Mutex::new(None);

/// A store in an object store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Bucket(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    url: String,
    shown: PathBuf,
    options: RemoteOptions,
}

/// An upload that was started and, as far as is known, not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingUpload {
    /// Writer of the upload.
    pub writer: WriterId,
    /// Offset in the writer's log.
    pub from: u64,
    /// Approximate time since it was started.
    pub age: Duration,
}

impl Bucket {
    pub(crate) fn new(url: &str, options: &RemoteOptions) -> Self {
        let shown = PathBuf::from(io::without_secrets(url));
        Self(Arc::new(Inner { url: url.to_owned(), shown, options: options.clone() }))
    }

    fn object_url(&self, name: &str) -> String {
        format!("{}.d/{name}", self.0.url)
    }

    fn options(&self) -> &RemoteOptions {
        &self.0.options
    }

    /// Lists the objects of the folder.
    pub(crate) fn list_objects(&self) -> Result<Vec<ListedObject>> {
        io::list(&format!("{}.d", self.0.url), self.options())
    }

    /// Deletes a file of the folder.
    pub(crate) fn delete(&self, name: &str) -> Result<()> {
        io::delete(&self.object_url(name), self.options())
    }

    /// Opens the file at an epoch.
    pub(crate) fn epoch(&self, epoch: u64) -> Result<File> {
        let mut options = OpenOptions::default();
        options.remote = self.options().clone();
        options.index = IndexOption::Never;
        options.epoch = Some(epoch);
        crate::register();
        retry_if_replaced(|| File::open_url(&self.0.url, &options))
    }

    /// Opens a writer's log, with all its objects until now.
    pub(crate) fn log(&self, writer: WriterId) -> Result<Arc<dyn Source>> {
        parts::join(self.open(&log_name(writer))?, writer, None, &|name| self.open(name))
    }

    /// Returns the unfinished uploads: their writers are at work, or were stopped.
    ///
    /// # Errors
    /// Io.
    pub fn uploads(&self) -> Result<Vec<PendingUpload>> {
        let listed = io::list(&self.object_url(UPLOADS), self.options())?;
        let mut found: Vec<PendingUpload> = listed
            .iter()
            .filter_map(|listed| {
                let (writer, from) = listed.name.split_once('.')?;
                let age = listed.modified.elapsed().unwrap_or_default();
                Some(PendingUpload { writer: WriterId::from_hex(writer)?, from: from.parse().ok()?, age })
            })
            .collect();
        found.sort_by_key(|begun| (begun.writer, begun.from));
        Ok(found)
    }

    /// Aborts a writer's upload; completed objects are kept.
    ///
    /// # Errors
    /// Io.
    pub(crate) fn abort(&self, begun: &PendingUpload) -> Result<()> {
        let note = note_name(begun.writer, begun.from);
        let id = self.read(&note, 1 << 16)?;
        let id = String::from_utf8(id).map_err(|_| {
            Error::corrupt("the ID of an upload is not UTF-8").file(self.place(&note).display())
        })?;
        io::abort_upload(&self.object_url(&parts::part_name(begun.writer, begun.from)), self.options(), &id)?;
        self.delete(&note)
    }

    /// Checks that the object store honours conditional writes. Otherwise, of two epochs with one
    /// number, the later would replace the earlier one.
    fn check(&self) -> Result<()> {
        let key = format!("{} {:?}", self.0.url, self.options().store);
        let known = |checked: &Mutex<Option<HashSet<String>>>, new: bool| {
            let mut checked = checked.lock().unwrap_or_else(PoisonError::into_inner);
            let all = checked.get_or_insert_default();
            if new {
                all.insert(key.clone());
            }
            all.contains(&key)
        };
        if known(&CHECKED_FOLDERS, false) {
            return Ok(());
        }
        let text = b"Writing this object on condition that there is none must fail.\n";
        for _ in 0..2 {
            if io::put_new(&self.object_url(CONDITION), self.options(), text.to_vec())? != CreateOutcome::New
            {
                known(&CHECKED_FOLDERS, true);
                return Ok(());
            }
        }
        let message = "the object store replaces existing objects in spite of the condition `If-None-Match`: \
                       epochs could be lost, so commits there are refused";
        Err(Error::unsupported(message).file(self.place(CONDITION).display()))
    }

    fn read_all(source: &dyn Source, largest: u64) -> Result<Vec<u8>> {
        let size = source.size();
        if size > largest {
            return Err(Error::limit(format!("an object of {size} bytes, more than {largest}")));
        }
        let size = usize::try_from(size).map_err(|_| Error::limit("larger than memory"))?;
        let mut bytes = hyperchunk::room::zeros(size)?;
        source.read_at(0, &mut bytes)?;
        Ok(bytes)
    }
}

/// Calls `read`, which reads the file itself, the only object that commits replace. Calls it again if
/// the object was replaced in the meantime.
fn retry_if_replaced<T>(read: impl Fn() -> Result<T>) -> Result<T> {
    let mut pause = RETRY_INTERVAL;
    for _ in 1..MAX_ATTEMPTS {
        match read() {
            Err(error) if error.kind() == ErrorKind::Changed => std::thread::sleep(pause),
            done => return done,
        }
        pause = (pause * 2).min(RETRY_INTERVAL * 64);
    }
    read()
}

/// Returns the name of the note about an upload.
fn note_name(writer: WriterId, from: u64) -> String {
    format!("{UPLOADS}/{writer}.{from}")
}

impl Folder for Bucket {
    fn path(&self) -> &Path {
        &self.0.shown
    }

    fn place(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("{}.d/{name}", self.0.shown.display()))
    }

    fn make(&self) -> Result<()> {
        self.check()
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.list_objects()?.into_iter().map(|listed| listed.name).collect())
    }

    fn size(&self, name: &str) -> Result<u64> {
        Ok(self.open(name)?.size())
    }

    fn age(&self, _: &str) -> Option<Duration> {
        // Existing objects are complete.
        None
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Source>> {
        io::open(&self.object_url(name), self.options())
    }

    fn read(&self, name: &str, largest: u64) -> Result<Vec<u8>> {
        let named = |error: Error| error.file(self.place(name).display());
        Self::read_all(&*self.open(name)?, largest).map_err(named)
    }

    fn create(&self, name: &str, bytes: &[u8], _: bool) -> Result<bool> {
        self.check()?;
        match io::put_new(&self.object_url(name), self.options(), bytes.to_vec())? {
            CreateOutcome::New => Ok(true),
            CreateOutcome::There => Ok(false),
            // If the bytes are equal, it is the same epoch, whichever request created it.
            CreateOutcome::Unsure => Ok(self.read(name, u64::MAX)? == bytes),
        }
    }

    fn has_file(&self) -> Result<bool> {
        match io::open(&self.0.url, self.options()) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn file(&self) -> Result<Vec<u8>> {
        let named = |error: Error| error.file(self.0.shown.display());
        retry_if_replaced(|| Self::read_all(&*io::open(&self.0.url, self.options())?, MAX_SKELETON_BYTES))
            .map_err(named)
    }

    fn replace(&self, bytes: &[u8], _: Option<&FileIdentity>, _: Sync) -> Result<()> {
        io::put(&self.0.url, self.options(), bytes.to_vec())
    }
}
