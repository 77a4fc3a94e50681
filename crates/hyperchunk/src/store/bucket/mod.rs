//! Stores in an object store: the file is an object, and so is each file of the folder beside it.
//!
//! An object is there whole or not at all, and is never added to. So a log is sent while it is written and is there when its
//! writer flushes; what comes after is another object ([`parts`]). A manifest is written on condition that there is none of
//! its name.

mod late;
pub(super) mod log;
pub(super) mod parts;

use super::create::Stamp;
use super::site::{Folder, log_name};
use super::{Segments, WriterId, WriterOptions};
use crate::index::IndexOption;
use crate::io::upload::{Listed, Made};
use crate::io::{self, RemoteOptions, Source};
use crate::write::Sync;
use crate::{Error, ErrorKind, File, OpenOptions, Result};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Uploads that were begun and not ended are noted below this, in the folder.
const UPLOADS: &str = "uploads";
/// An object that is there in every store, by which it is found out whether conditions count.
const CONDITION: &str = "put-if-absent";
/// So often what others replace is read again, and so long is waited for the first time.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_millis(2);
/// No skeleton is larger.
const LARGEST: u64 = 1 << 32;

/// Folders of which it is known that conditions count.
static CHECKED: Mutex<Option<HashSet<String>>> = Mutex::new(None);

/// A store in an object store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Bucket(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    url: String,
    shown: PathBuf,
    options: RemoteOptions,
}

/// An upload that was begun and, as far as can be told, not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Begun {
    /// Who sends it, or did.
    pub writer: WriterId,
    /// Where in the writer's log it begins.
    pub from: u64,
    /// How long ago it was begun, about.
    pub age: Duration,
}

impl Bucket {
    pub(super) fn new(url: &str, options: &RemoteOptions) -> Self {
        let shown = PathBuf::from(io::without_secrets(url));
        Self(Arc::new(Inner { url: url.to_owned(), shown, options: options.clone() }))
    }

    fn url_of(&self, name: &str) -> String {
        format!("{}.d/{name}", self.0.url)
    }

    fn options(&self) -> &RemoteOptions {
        &self.0.options
    }

    /// Whether a writer can write so to an object store.
    pub(super) fn allows(&self, options: &WriterOptions) -> Result<()> {
        let refused = |what: &str| Err(Error::unsupported(format!("{what}: not in an object store")));
        if options.segments == Segments::Arrow {
            return refused("rows that go to Arrow files");
        }
        if options.memory.is_some() {
            return refused(
                "keeping what is written in shared memory (parts of objects are in memory anyway)",
            );
        }
        if options.sync == Sync::Write {
            return refused("each write on the disk at once (what was flushed is there)");
        }
        Ok(())
    }

    /// The objects of the folder.
    pub(super) fn listed(&self) -> Result<Vec<Listed>> {
        io::list(&format!("{}.d", self.0.url), self.options())
    }

    /// A file of the folder is deleted.
    pub(super) fn delete(&self, name: &str) -> Result<()> {
        io::delete(&self.url_of(name), self.options())
    }

    /// The file as an epoch has it.
    pub(super) fn epoch(&self, epoch: u64) -> Result<File> {
        let options = OpenOptions {
            remote: self.options().clone(),
            index: IndexOption::Never,
            epoch: Some(epoch),
            ..OpenOptions::default()
        };
        again(|| File::open_url(&self.0.url, &options))
    }

    /// A writer's log, with all objects that it has until now.
    pub(super) fn log(&self, writer: WriterId) -> Result<Arc<dyn Source>> {
        parts::join(self.open(&log_name(writer))?, writer, None, &|name| self.open(name))
    }

    /// Uploads that were begun and not ended: their writers are at work, or were stopped.
    ///
    /// # Errors
    /// Io.
    pub fn uploads(&self) -> Result<Vec<Begun>> {
        let listed = io::list(&self.url_of(UPLOADS), self.options())?;
        let mut found: Vec<Begun> = listed
            .iter()
            .filter_map(|listed| {
                let (writer, from) = listed.name.split_once('.')?;
                let age = listed.modified.elapsed().unwrap_or_default();
                Some(Begun { writer: WriterId::from_hex(writer)?, from: from.parse().ok()?, age })
            })
            .collect();
        found.sort_by_key(|begun| (begun.writer, begun.from));
        Ok(found)
    }

    /// Gives up what a writer sent: what it sent to its end stays.
    ///
    /// # Errors
    /// Io.
    pub(super) fn abort(&self, begun: &Begun) -> Result<()> {
        let note = note_of(begun.writer, begun.from);
        let id = self.read(&note, 1 << 16)?;
        let id = String::from_utf8(id)
            .map_err(|_| Error::corrupt("the name of an upload").file(self.place(&note).display()))?;
        io::abort_upload(&self.url_of(&parts::name_of(begun.writer, begun.from)), self.options(), &id)?;
        self.delete(&note)
    }

    /// Finds out whether the store writes objects on condition that there is none: on one that does not, the later of two
    /// epochs of one number would take the place of the earlier one.
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
        if known(&CHECKED, false) {
            return Ok(());
        }
        let text = b"Writing this object on condition that there is none must fail.\n";
        for _ in 0..2 {
            if io::put_new(&self.url_of(CONDITION), self.options(), text.to_vec())? != Made::New {
                known(&CHECKED, true);
                return Ok(());
            }
        }
        let message = "the store writes an object again that was to be written only if there is none (If-None-Match): \
                       epochs could be lost, so nobody can commit there";
        Err(Error::unsupported(message).file(self.place(CONDITION).display()))
    }

    fn read_all(source: &dyn Source, largest: u64) -> Result<Vec<u8>> {
        let size = source.size();
        if size > largest {
            return Err(Error::limit(format!("an object of {size} bytes")));
        }
        let mut bytes = vec![0; usize::try_from(size).map_err(|_| Error::limit("larger than memory"))?];
        source.read_at(0, &mut bytes)?;
        Ok(bytes)
    }
}

/// Reads the file itself, the one object that is ever replaced: by every commit. If that happens in the middle of a read, it begins
/// again with what is there then.
fn again<T>(read: impl Fn() -> Result<T>) -> Result<T> {
    let mut pause = PAUSE;
    for _ in 1..TRIES {
        match read() {
            Err(error) if error.kind() == ErrorKind::Changed => std::thread::sleep(pause),
            done => return done,
        }
        pause = (pause * 2).min(PAUSE * 64);
    }
    read()
}

/// What tells of an upload of a writer.
fn note_of(writer: WriterId, from: u64) -> String {
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
        Ok(self.listed()?.into_iter().map(|listed| listed.name).collect())
    }

    fn size(&self, name: &str) -> Result<u64> {
        Ok(self.open(name)?.size())
    }

    fn age(&self, _: &str) -> Option<Duration> {
        // What is there is whole.
        None
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Source>> {
        io::open(&self.url_of(name), self.options())
    }

    fn read(&self, name: &str, largest: u64) -> Result<Vec<u8>> {
        let named = |error: Error| error.file(self.place(name).display());
        Self::read_all(&*self.open(name)?, largest).map_err(named)
    }

    fn create(&self, name: &str, bytes: &[u8], _: bool) -> Result<bool> {
        self.check()?;
        match io::put_new(&self.url_of(name), self.options(), bytes.to_vec())? {
            Made::New => Ok(true),
            Made::There => Ok(false),
            // If it has these bytes, it is what was to be made, whoever did.
            Made::Unsure => Ok(self.read(name, u64::MAX)? == bytes),
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
        again(|| Self::read_all(&*io::open(&self.0.url, self.options())?, LARGEST)).map_err(named)
    }

    fn replace(&self, bytes: &[u8], _: Option<&Stamp>, _: Sync) -> Result<()> {
        io::put(&self.0.url, self.options(), bytes.to_vec())
    }
}
