//! File of a redo journal beside a local file, and completion of a commit that was interrupted.

use super::super::abandoned_journal::check_made_by;
use super::super::options::Sync;
use super::super::sink::LocalSink;
use super::super::snapshot::narrow;
use super::redo::{Content, JournalFile, LeftRedo};
use super::waiting::{MAX_WAITING_BYTES, WaitingCommit};
use crate::companion::Trust;
use crate::io::Locking;
use crate::io::local::EXISTS;
use crate::io::with_suffix;
use crate::os::{self, read_exact_at, write_all_at};
use crate::output::Folder;
use crate::{Error, ErrorKind, Result};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// Returns the path of a file's redo journal.
pub(crate) fn redo_path(file: &Path) -> PathBuf {
    with_suffix(file, ".redo")
}

/// Maximum number of bytes of a journal that are kept in memory until the commit.
const BUFFER_BYTES: usize = 64 << 10;

/// A redo journal beside a local file. Its file is created when it is synced, or too large for the buffer.
#[derive(Debug)]
pub(super) struct LocalJournal {
    path: PathBuf,
    /// Folder of the edited file. It is open from the start: by a path, another folder could be found later.
    folder: Folder,
    name: OsString,
    /// Metadata of the edited file.
    edited: Metadata,
    sync: Sync,
    open: Option<File>,
    /// All bytes of the journal, until they are written to its file.
    buffer: Option<Vec<u8>>,
    /// Maximum size of the buffer.
    buffer_bytes: usize,
}

fn cannot(verb: &str, path: &Path, error: &io::Error) -> Error {
    let kind = if error.kind() == io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Io };
    let advice = match error.kind() {
        io::ErrorKind::AlreadyExists => "; move the other file of that name away",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem if verb == "create" => {
            "; commits need a folder in which you can create files: change its permissions and commit again, or give up \
             the changes (discard)"
        }
        _ => "",
    };
    Error::new(kind, format!("cannot {verb} the journal: {error}{advice}"))
        .caused_by(error)
        .file(path.display())
}

impl LocalJournal {
    /// Returns the journal of a file, which is not created yet.
    ///
    /// # Errors
    /// Io if the file's folder cannot be opened.
    pub(super) fn new(file: &Path, edited: Metadata, sync: Sync) -> Result<Self> {
        let path = redo_path(file);
        let (folder, name) = Folder::open_parent(&path).map_err(|error| cannot("create", &path, &error))?;
        let buffer = Some(Vec::new());
        Ok(Self { path, folder, name, edited, sync, open: None, buffer, buffer_bytes: BUFFER_BYTES })
    }

    /// Creates the file at the first write, so that other editors detect it even if files are not locked.
    pub(super) fn created_early(self) -> Self {
        Self { buffer_bytes: 0, ..self }
    }

    /// Writes the buffer to the file. After a failure, the file is empty.
    fn write_buffer(&mut self) -> Result<()> {
        let Some(buffer) = self.buffer.take() else { return Ok(()) };
        let path = self.path.clone();
        let written = self.file().and_then(|file| {
            let written = write_all_at(file, 0, &buffer);
            if written.is_err() {
                drop(file.set_len(0));
            }
            written.map_err(|error| cannot("write", &path, &error))
        });
        if written.is_err() {
            self.buffer = Some(buffer);
        }
        written
    }

    fn file(&mut self) -> Result<&File> {
        if self.open.is_none() {
            let refused = |error: io::Error| cannot("create", &self.path, &error);
            let (folder, name) = (&self.folder, &self.name);
            let file = loop {
                let file = folder.create(name, 0, 0o600).map_err(refused)?;
                admit_readers(&file, &self.edited);
                // The lock shows other programs that the editor is running, even if the edited file is not
                // locked.
                drop(file.try_lock());
                // Before it was locked, another program may have considered it abandoned, and deleted it.
                if folder.is_at(name, &file) {
                    break file;
                }
            };
            if self.sync != Sync::Never && !os::syncs_names(&file) {
                folder.sync();
            }
            self.open = Some(file);
        }
        match &self.open {
            Some(file) => Ok(file),
            None => Err(Error::invalid("the journal is not open")),
        }
    }
}

/// Gives all users who can read the edited file read access to its journal: after an interruption they need
/// it to read the file.
#[cfg(unix)]
fn admit_readers(journal: &File, edited: &Metadata) {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let Ok(own) = journal.metadata() else { return };
    let (group, others) = (edited.mode() & 0o040, edited.mode() & 0o004);
    let mode = match own.gid() == edited.gid() {
        true => group | others,
        // If the journal has another group, that gets the permissions of others.
        false if group != 0 => others,
        false => 0,
    };
    // A file system on which permissions cannot be set does not enforce them, either.
    drop(journal.set_permissions(std::fs::Permissions::from_mode(0o600 | mode)));
}

#[cfg(not(unix))]
fn admit_readers(_: &File, _: &Metadata) {}

impl JournalFile for LocalJournal {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = narrow(offset).saturating_add(bytes.len());
        if let Some(buffer) = self.buffer.as_mut().filter(|_| end <= self.buffer_bytes) {
            buffer.resize(buffer.len().max(end), 0);
            buffer[narrow(offset)..end].copy_from_slice(bytes);
            return Ok(());
        }
        self.write_buffer()?;
        let path = self.path.clone();
        write_all_at(self.file()?, offset, bytes).map_err(|error| cannot("write", &path, &error))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let missing = || Error::invalid("cannot read bytes of the journal that were not written");
        match (&self.buffer, &self.open) {
            (Some(written), _) => {
                let start = narrow(offset);
                let there = written.get(start..start.saturating_add(buffer.len())).ok_or_else(missing)?;
                buffer.copy_from_slice(there);
                Ok(())
            }
            (None, Some(file)) => {
                read_exact_at(file, offset, buffer).map_err(|error| cannot("read", &self.path, &error))
            }
            (None, None) => Err(missing()),
        }
    }

    fn sync(&mut self) -> Result<()> {
        if self.open.is_some() || self.buffer.as_ref().is_some_and(|buffer| !buffer.is_empty()) {
            self.write_buffer()?;
        }
        let Some(file) = self.open.as_ref().filter(|_| self.sync != Sync::Never) else { return Ok(()) };
        file.sync_data().map_err(|error| cannot("sync", &self.path, &error))
    }

    fn cut(&mut self, size: u64) -> Result<()> {
        if let Some(buffer) = &mut self.buffer {
            buffer.truncate(narrow(size));
            return Ok(());
        }
        let Some(file) = &self.open else { return Ok(()) };
        file.set_len(size).map_err(|error| cannot("truncate", &self.path, &error))?;
        if size == 0 {
            self.buffer = Some(Vec::new());
        }
        Ok(())
    }

    fn sync_cut(&mut self) -> Result<()> {
        let Some(file) = self.open.as_ref().filter(|_| self.sync != Sync::Never) else { return Ok(()) };
        file.sync_data().map_err(|error| cannot("sync", &self.path, &error))
    }

    fn check_place(&self) -> Result<()> {
        if self.open.is_none() && self.folder.has(&self.name) {
            let there = io::Error::from_raw_os_error(EXISTS);
            return Err(cannot("create", &self.path, &there));
        }
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        self.buffer = Some(Vec::new());
        if self.open.take().is_none() {
            return Ok(());
        }
        self.folder.remove(&self.name).map_err(|error| cannot("delete", &self.path, &error))
    }
}

/// A journal that was found beside a file.
#[derive(Debug)]
struct FoundJournal<'a>(&'a File, &'a Path);

impl JournalFile for FoundJournal<'_> {
    fn write_at(&mut self, _: u64, _: &[u8]) -> Result<()> {
        Err(Error::invalid("cannot write a journal that is open for reading"))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        read_exact_at(self.0, offset, buffer).map_err(|error| cannot("read", self.1, &error))
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn cut(&mut self, _: u64) -> Result<()> {
        Err(Error::invalid("cannot truncate a journal that is open for reading"))
    }

    fn sync_cut(&mut self) -> Result<()> {
        Ok(())
    }

    fn check_place(&self) -> Result<()> {
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Result of completing an interrupted edit.
enum SettleOutcome {
    /// There was no valid journal.
    Nothing,
    /// The commit was completed, or discarded as its journal was incomplete.
    Done,
    /// The journal is complete, but the file cannot be written: the journal, its path, and the reason.
    Waits(File, PathBuf, Error),
}

/// Completes the commit of an interrupted edit, or discards it if its journal is incomplete. Returns true if
/// there was one. A journal is ignored unless it meets the rules for companion files, and while a program
/// edits the file.
///
/// # Errors
/// Changed if another program has changed the file since; Exists if a file that is not a journal has the
/// journal's name; Io if the file cannot be written.
pub(crate) fn settle(file: &Path) -> Result<bool> {
    match attempt(file, true)? {
        SettleOutcome::Nothing => Ok(false),
        SettleOutcome::Done => Ok(true),
        SettleOutcome::Waits(_, _, error) => Err(error),
    }
}

/// Completes or discards an interrupted edit, as [`settle`], before the bytes of the file itself are read.
///
/// # Errors
/// As [`settle`].
pub(crate) fn settle_in_file(file: &Path) -> Result<()> {
    match attempt(file, false)? {
        SettleOutcome::Waits(_, _, error) => Err(error),
        SettleOutcome::Nothing | SettleOutcome::Done => Ok(()),
    }
}

/// Completes or discards an interrupted edit of a file that is about to be replaced, so that its journal is
/// not applied to the new file.
///
/// # Errors
/// As [`settle`]; Exists for a journal whose file no longer exists.
pub(crate) fn settle_to_replace(file: &Path) -> Result<()> {
    settle_in_file(file)?;
    let path = redo_path(file);
    if path.symlink_metadata().is_err() || file.exists() {
        return Ok(());
    }
    let refused = |error: io::Error| cannot("read", &path, &error);
    let (folder, name) = Folder::open_parent(&path).map_err(refused)?;
    // A journal is a regular file.
    let Ok(journal) = folder.open_to_read(&name) else { return Ok(()) };
    let metadata = journal.metadata().map_err(refused)?;
    // The journal of an untrusted user would not be applied, so it is ignored.
    let counts = check_made_by(&folder, file, &path, &metadata)
        .and_then(|()| Trust::for_writer(file).check_mode(&path, &metadata));
    if counts.is_err() || LeftRedo::read(&FoundJournal(&journal, &path), metadata.len())?.is_none() {
        return Ok(());
    }
    let message = "cannot write the file: expected no journal of an interrupted edit beside it, got one of a file that is \
                   no longer there; move it beside that file (FILE.redo), or delete it";
    Err(Error::new(ErrorKind::Exists, message).file(path.display()))
}

/// Completes or discards an interrupted edit, as [`settle`], for a reader. If the file cannot be written,
/// returns the commit, to be applied while the file is read.
///
/// # Errors
/// As [`settle`]; the reason why the file cannot be written if the commit is too large for memory.
pub(crate) fn settle_to_read(file: &Path) -> Result<Option<WaitingCommit>> {
    let SettleOutcome::Waits(journal, path, error) = attempt(file, false)? else { return Ok(None) };
    let size = journal.metadata().map_err(|error| cannot("read", &path, &error))?.len();
    let found = FoundJournal(&journal, &path);
    match LeftRedo::read(&found, size)? {
        Some(left) => left.waiting()?.map(Some).ok_or(error),
        None => Ok(None),
    }
}

/// Reads the complete journal beside a file that may be damaged. Neither of them is changed. Returns `None`
/// if there is no journal, or a program is editing the file.
///
/// # Errors
/// Truncated for an incomplete journal; Limit for a commit that is too large for memory; the reason why the
/// journal is not trusted; the errors of reading it.
pub(crate) fn read_to_salvage(file: &Path) -> Result<Option<WaitingCommit>> {
    let resolved = file.canonicalize().ok();
    let target = resolved.as_deref().unwrap_or(file);
    let path = redo_path(target);
    if path.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
        return read_waiting(target, &path).map_err(|error| error.file(path.display()));
    }
    Ok(None)
}

fn read_waiting(target: &Path, path: &Path) -> Result<Option<WaitingCommit>> {
    let refused = |error: io::Error| cannot("read", path, &error);
    let (folder, name) = Folder::open_parent(path).map_err(refused)?;
    let journal = folder.open_to_read(&name).map_err(refused)?;
    let metadata = journal.metadata().map_err(refused)?;
    let is_edited = matches!(journal.try_lock(), Err(std::fs::TryLockError::WouldBlock));
    let found = FoundJournal(&journal, path);
    if is_edited || !metadata.is_file() || Content::of(&found, metadata.len())? != Content::Journal {
        return Ok(None);
    }
    check_made_by(&folder, target, path, &metadata)?;
    Trust::for_writer(target).check_mode(path, &metadata)?;
    let Some(left) = LeftRedo::read(&found, metadata.len())? else {
        let message = "cannot complete an interrupted edit: expected a complete journal, got a part of one; the file is \
                       read without it";
        return Err(Error::new(ErrorKind::Truncated, message));
    };
    left.waiting()?.map(Some).ok_or_else(|| {
        let most = MAX_WAITING_BYTES >> 20;
        Error::limit(format!(
            "cannot complete an interrupted edit in memory: expected a journal of at most {most} MiB, got a larger one; \
             copy the file with its journal, complete the edit of the copy (`hyperchunk recover`), and salvage that"
        ))
    })
}

/// Completes or discards an interrupted edit. If `edits` is false, files that are not journals are left
/// alone.
fn attempt(file: &Path, edits: bool) -> Result<SettleOutcome> {
    attempt_unnamed(file, edits).map_err(|error| error.file(file.display()))
}

fn attempt_unnamed(file: &Path, edits: bool) -> Result<SettleOutcome> {
    // The journal is beside the file itself, and not beside links to it.
    let is_link = file.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    let resolved = if is_link { file.canonicalize().ok() } else { None };
    let target = resolved.as_deref().unwrap_or(file);
    let path = redo_path(target);
    // In the usual case, without a journal, two system calls suffice.
    let Ok(metadata) = path.symlink_metadata() else { return Ok(SettleOutcome::Nothing) };
    let refused = |error: io::Error| cannot("read", &path, &error);
    let (folder, name) = Folder::open_parent(&path).map_err(refused)?;
    let made_by = |metadata: &Metadata| {
        check_made_by(&folder, target, &path, metadata)?;
        Trust::for_writer(target).check_mode(&path, metadata)
    };
    let distrusted = |metadata: &Metadata| match made_by(metadata) {
        _ if !metadata.is_file() => true,
        Ok(()) => false,
        Err(error) => {
            crate::companion::warn("the journal of an edit", &error);
            true
        }
    };
    if distrusted(&metadata) {
        return Ok(SettleOutcome::Nothing);
    }
    let mut can_empty = true;
    let opened = folder.open_file(&name).or_else(|error| match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            can_empty = false;
            folder.open_to_read(&name)
        }
        _ => Err(error),
    });
    let journal = match opened {
        Ok(journal) => journal,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(SettleOutcome::Nothing),
        Err(error) => {
            return Err(refused(error).advise(format_args!(
                "an edit of the file may have been interrupted; a user who can write the file completes it with \
                 `hyperchunk recover {}`",
                file.display()
            )));
        }
    };
    let is_exchanged = distrusted(&journal.metadata().map_err(refused)?);
    let is_edited = matches!(journal.try_lock(), Err(std::fs::TryLockError::WouldBlock));
    if is_exchanged || is_edited {
        return Ok(SettleOutcome::Nothing);
    }
    let metadata = journal.metadata().map_err(refused)?;
    let found = FoundJournal(&journal, &path);
    match Content::of(&found, metadata.len())? {
        Content::Other if edits => {
            let message = format!(
                "cannot edit the file: expected a journal or no file at {}, got another file; move it away",
                path.display()
            );
            return Err(Error::new(ErrorKind::Exists, message));
        }
        Content::Remnant if edits => {}
        Content::Remnant | Content::Other => return Ok(SettleOutcome::Nothing),
        Content::Journal => {}
    }
    let complete =
        "an edit of the file was interrupted; a user who can write the file and its folder completes it with";
    // A journal that cannot be deleted would be applied again later.
    if !can_empty && let Err(error) = folder.check_writable(OsStr::new(".")) {
        let error = cannot("delete", &path, &error)
            .advise(format_args!("{complete} `hyperchunk recover {}`", file.display()));
        return Ok(match LeftRedo::read(&found, metadata.len())? {
            Some(_) if target.exists() => SettleOutcome::Waits(journal, path, error),
            _ => SettleOutcome::Nothing,
        });
    }
    let sink = match LocalSink::editable(target, Sync::Commit, Locking::Default) {
        Ok(sink) => sink,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(SettleOutcome::Nothing),
        // Nothing has changed in the file yet.
        Err(_) if LeftRedo::read(&found, metadata.len())?.is_none() => return Ok(SettleOutcome::Nothing),
        Err(error) => {
            let error = error.advise(format_args!("{complete} `hyperchunk recover {}`", file.display()));
            return Ok(SettleOutcome::Waits(journal, path, error));
        }
    };
    // Checked with the file locked: since the journal was opened, its editor may have ended, and another one
    // may have committed.
    if !folder.is_at(&name, &journal) {
        return Ok(SettleOutcome::Nothing);
    }
    if let Some(left) = LeftRedo::read(&found, metadata.len())? {
        use super::super::sink::Sink as _;
        left.apply(&sink, sink.length()?)?;
        sink.release();
    }
    // The journal is emptied in case it cannot be deleted, unless it has a second name (a hard link).
    let emptied = match is_linked(&metadata) {
        true => Err(io::Error::other("the journal has a second name")),
        false => journal.set_len(0).and_then(|()| journal.sync_data()),
    };
    let removed = if folder.is_at(&name, &journal) { folder.remove(&name) } else { Ok(()) };
    if let (Err(error), Err(_)) = (removed, emptied) {
        return Err(cannot("delete", &path, &error));
    }
    Ok(SettleOutcome::Done)
}

/// Returns whether a file has several names.
#[cfg(unix)]
fn is_linked(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    metadata.nlink() > 1
}

#[cfg(not(unix))]
fn is_linked(_: &Metadata) -> bool {
    false
}
