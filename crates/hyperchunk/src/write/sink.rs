//! Sinks: destinations of a new file's bytes.

use crate::io::local::{EXISTS, IS_A_FOLDER, IS_MISSING};
use crate::io::upload::StoredObject;
use crate::io::{ExclusiveLock, Lock, Locking};
use crate::os::{self, read_exact_at, write_all_at};
use crate::output::{self, Folder};
use crate::{Error, ErrorKind, Result};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::Sync;

/// Number of bytes copied at a time.
const COPY_BYTES: u64 = 1 << 20;

/// Destination of a file's bytes. Several threads may write at once, to ranges that do not overlap.
pub trait Sink: Send + std::marker::Sync + fmt::Debug {
    /// Writes bytes at an offset.
    ///
    /// # Errors
    /// Io if the system refuses.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Writes parts contiguously.
    ///
    /// # Errors
    /// As [`Sink::write_at`].
    fn write_parts_at(&self, mut offset: u64, parts: &mut [IoSlice<'_>]) -> Result<()> {
        for part in parts {
            self.write_at(offset, part)?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    /// Copies `length` bytes of a local file, from offset `from` on.
    ///
    /// # Errors
    /// Truncated if the file is shorter; as [`Sink::write_at`].
    fn copy_at(&self, offset: u64, source: &File, from: u64, length: u64) -> Result<()> {
        copy_through_memory(self, offset, source, from, length)
    }

    /// Reads written bytes. Bytes that were never written, also past the end, are zeros.
    ///
    /// # Errors
    /// Unsupported if the bytes can no longer be read; Io.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Declares a gap: nothing will be written to this range.
    ///
    /// # Errors
    /// As [`Sink::write_at`].
    fn skip(&self, offset: u64, length: u64) -> Result<()> {
        let _ = (offset, length);
        Ok(())
    }

    /// Syncs all written bytes to disk, unless the policy is [`Sync::Never`].
    ///
    /// # Errors
    /// As [`Sink::write_at`].
    fn sync(&self) -> Result<()>;

    /// Gives the complete file its final name, unless it has it already. The file has `size` bytes; the last
    /// ones may not have been written. Other threads may already write past them.
    ///
    /// # Errors
    /// As [`Sink::write_at`].
    fn publish(&self, size: u64) -> Result<()>;

    /// Checks that a published file is still at its path.
    ///
    /// # Errors
    /// Changed if another program has replaced or deleted it.
    fn check_place(&self) -> Result<()> {
        Ok(())
    }

    /// Writes a published commit to the file, if it is still only in the journal.
    ///
    /// # Errors
    /// As [`Sink::write_at`]; the commit stays in the journal, and is valid.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Truncates the file to `size` bytes. The caller no longer uses the rest.
    ///
    /// # Errors
    /// As [`Sink::write_at`]; Unsupported if the sink cannot be truncated.
    fn cut(&self, size: u64) -> Result<()> {
        let _ = size;
        Err(Error::unsupported("cannot truncate a file that is sent while it is written"))
    }

    /// Returns whether bytes that were never written read as zeros.
    fn has_holes(&self) -> bool {
        true
    }

    /// Returns the number of bytes at the start of the file that may be rewritten at any time, if all others
    /// can be written only once; `None` if all bytes may be rewritten.
    fn kept(&self) -> Option<u64> {
        None
    }

    /// Declares that no more bytes before `end` will be written. Those that were not written are zeros.
    ///
    /// # Errors
    /// As [`Sink::write_at`].
    fn data_ended(&self, end: u64) -> Result<()> {
        let _ = end;
        Ok(())
    }

    /// Deletes a file that is not published.
    ///
    /// # Errors
    /// As [`Sink::write_at`].
    fn discard(&self) -> Result<()> {
        Ok(())
    }

    /// Releases the lock of the file after the last write.
    fn release(&self) {}

    /// Returns the object store's description of the written object.
    fn stored(&self) -> Option<StoredObject> {
        None
    }

    /// Returns the bytes at the start of the file until it is committed.
    fn unfinished(&self) -> &'static [u8] {
        b"Unfinished. `hyperchunk recover` gets back what is whole.\n"
    }
}

/// A local file, under a temporary name until it is complete.
#[derive(Debug)]
pub struct LocalSink {
    file: Arc<File>,
    lock: Mutex<Option<ExclusiveLock>>,
    /// Lock of the file that will be replaced: until then, other programs can read but not write it.
    replaced: Mutex<Option<Arc<Lock>>>,
    locking: Locking,
    path: PathBuf,
    folder: Folder,
    name: OsString,
    partial: OsString,
    sync: Sync,
    replace: bool,
    /// True to delete the file if it is not published, as it could not be recovered.
    scratch: bool,
    /// Process that created the file. A forked child has a copy of the sink, but does not own the file.
    process: u32,
    published: AtomicBool,
}

impl LocalSink {
    /// Creates a file. Until it is complete, it has a random name ([`output`]).
    ///
    /// # Errors
    /// Exists if a file of that name exists and may not be replaced; Io if the file cannot be created, or the
    /// path is a folder; Invalid if the path is a pipe, a socket or a device.
    pub fn create(path: &Path, sync: Sync, replace: bool, locking: Locking) -> Result<Self> {
        Self::start(path, sync, (replace, locking), true)
    }

    /// Creates a file that `hyperchunk recover` can find: until it is complete, its name is `path.partial`.
    ///
    /// # Errors
    /// As [`LocalSink::create`]; Io if an earlier writer of the file was killed.
    pub(super) fn recoverable(path: &Path, sync: Sync, replace: bool, locking: Locking) -> Result<Self> {
        Self::start(path, sync, (replace, locking), false)
    }

    fn start(path: &Path, sync: Sync, (replace, locking): (bool, Locking), scratch: bool) -> Result<Self> {
        let named = |error: Error| error.file(path.display());
        let refused = |error: &io::Error| named(cannot("create", error));
        may_create(path, replace)?;
        let (folder, name) = Folder::open_parent(path).map_err(|error| refused(&error))?;
        let mut replaced = None;
        if let Ok(found) = folder.look(&name) {
            if found.is_folder() {
                let error = Error::new(ErrorKind::Io, "cannot create the file: it is a folder");
                return Err(named(error.with_os_code(IS_A_FOLDER)));
            }
            if !replace {
                let error = Error::new(ErrorKind::Exists, "cannot create the file: it exists");
                return Err(named(error.with_os_code(EXISTS)));
            }
            if !found.is_file() && !found.is_link() {
                let message = "cannot create the file: expected a regular file in its place, got a pipe, a socket or a device";
                return Err(named(Error::invalid(message)));
            }
            replaced = output::check_unwritten(path, locking, !scratch)?;
        } else {
            super::settle_to_replace(path)?;
        }
        let flags = if sync == Sync::Write { os::SYNC } else { 0 };
        let partial = if scratch { output::temporary(&name) } else { partial_name(&name) };
        let file = output::create_unfinished(&folder, &partial, &name, flags).map_err(|error| match error
            .kind()
        {
            io::ErrorKind::AlreadyExists => {
                let message = format!(
                    "{} is there: another program writes this file, or one was killed while it did; \
                     `hyperchunk recover {}` gets back what is whole, and deleting it gives it up",
                    Self::partial_path(path).display(),
                    path.display()
                );
                named(Error::new(ErrorKind::Io, message).with_os_code(EXISTS))
            }
            _ => refused(&error),
        })?;
        let file = Arc::new(file);
        let lock = ExclusiveLock::take(&file, locking).map_err(|error| {
            // The empty file would make the next attempt fail.
            drop(folder.remove(&partial));
            named(error)
        })?;
        let lock = Mutex::new(lock);
        let published = AtomicBool::new(false);
        let process = std::process::id();
        Ok(Self {
            file,
            lock,
            replaced: Mutex::new(replaced),
            locking,
            path: path.into(),
            folder,
            name,
            partial,
            sync,
            replace,
            scratch,
            process,
            published,
        })
    }

    /// Returns the path of a recoverable file while it is unfinished.
    pub(super) fn partial_path(path: &Path) -> PathBuf {
        path.with_file_name(partial_name(path.file_name().unwrap_or_default()))
    }

    /// Opens the file that a killed writer has left: the unfinished one, or the committed one that it still
    /// wrote.
    pub(super) fn reopen(path: &Path) -> Result<Self> {
        let partial = Self::partial_path(path);
        if partial.symlink_metadata().is_ok() {
            Self::open(&partial, path, false, Locking::Default)
        } else {
            Self::open(path, path, true, Locking::Default)
        }
    }

    /// Opens an unfinished file with any name, which will be renamed to `path` in the same folder.
    pub(super) fn unfinished_at(partial: &Path, path: &Path) -> Result<Self> {
        Self::open(partial, path, false, Locking::Default)
    }

    /// Opens a committed file for an edit, with an exclusive lock.
    pub(super) fn editable(path: &Path, sync: Sync, locking: Locking) -> Result<Self> {
        Self::open(path, path, true, locking).map(|sink| sink.synced(sync))
    }

    fn open(there: &Path, path: &Path, published: bool, locking: Locking) -> Result<Self> {
        let refused = |error: io::Error| cannot("open", &error).file(there.display());
        if there.parent() != path.parent() {
            return Err(Error::invalid("the unfinished file is in another folder").file(there.display()));
        }
        let (folder, found) = Folder::open_parent(there).map_err(refused)?;
        let file = Arc::new(folder.open_file(&found).map_err(refused)?);
        let lock = ExclusiveLock::take(&file, locking).map_err(|error| error.file(there.display()))?;
        let lock = Mutex::new(lock);
        let name = path.file_name().unwrap_or_default().to_owned();
        let partial = if published { partial_name(&name) } else { found };
        let (sync, published) = (Sync::Commit, AtomicBool::new(published));
        let (path, process) = (path.to_owned(), std::process::id());
        Ok(Self {
            file,
            lock,
            replaced: Mutex::default(),
            locking,
            path,
            folder,
            name,
            partial,
            sync,
            replace: true,
            scratch: false,
            process,
            published,
        })
    }

    /// Sets another sync policy.
    pub(super) fn synced(mut self, sync: Sync) -> Self {
        self.sync = sync;
        self
    }

    /// Opens a committed file that no other program has open.
    pub(super) fn adopt(path: &Path) -> Result<Self> {
        let path = &*output::target(path)?;
        let sink = Self::open(path, path, true, Locking::Default)?;
        super::check_recovered(path)?;
        Ok(sink)
    }

    /// Returns the size of the file in bytes.
    pub(super) fn length(&self) -> Result<u64> {
        let metadata = self.file.metadata().map_err(|error| self.named(cannot("look at", &error)))?;
        Ok(metadata.len())
    }

    /// Returns the path of the file while it is unfinished.
    #[must_use]
    pub fn partial(&self) -> PathBuf {
        self.path.with_file_name(&self.partial)
    }

    /// Returns the metadata of the file.
    pub(super) fn metadata(&self) -> Result<std::fs::Metadata> {
        self.file.metadata().map_err(|error| self.named(cannot("look at", &error)))
    }

    fn named(&self, error: Error) -> Error {
        error.file(self.path.display())
    }
}

impl Drop for LocalSink {
    fn drop(&mut self) {
        let is_ours = self.scratch && self.process == std::process::id();
        if is_ours && !self.published.load(Ordering::Acquire) {
            drop(self.folder.remove(&self.partial));
        }
    }
}

fn partial_name(name: &OsStr) -> OsString {
    let mut partial = name.to_owned();
    partial.push(".partial");
    partial
}

fn copy_through_memory<S: Sink + ?Sized>(
    sink: &S,
    offset: u64,
    source: &File,
    from: u64,
    length: u64,
) -> Result<()> {
    let mut buffer = vec![0; usize::try_from(length.min(COPY_BYTES)).unwrap_or(0)];
    let mut done = 0;
    while done < length {
        let step = usize::try_from(length - done).unwrap_or(usize::MAX).min(buffer.len());
        let part = &mut buffer[..step];
        read_exact_at(source, from + done, part).map_err(|error| cannot_copy(&error, from + done))?;
        sink.write_at(offset + done, part)?;
        done += step as u64;
    }
    Ok(())
}

fn cannot_copy(error: &io::Error, from: u64) -> Error {
    let short = error.kind() == io::ErrorKind::UnexpectedEof;
    let kind = if short { ErrorKind::Truncated } else { ErrorKind::Io };
    Error::new(kind, format!("cannot copy from byte {from} of a file: {error}"))
}

fn cannot(what: &str, error: &io::Error) -> Error {
    let kind = if error.kind() == io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Io };
    Error::new(kind, format!("cannot {what} the file: {error}")).caused_by(error)
}

/// Checks whether a file may be created at `path`.
pub(super) fn may_create(path: &Path, replace: bool) -> Result<()> {
    let refused =
        |kind, message, code| Err(Error::new(kind, message).with_os_code(code).file(path.display()));
    if path.as_os_str().is_empty() {
        return refused(ErrorKind::NotFound, "cannot create a file without a name", IS_MISSING);
    }
    if !replace && path.exists() {
        return refused(ErrorKind::Exists, "cannot create the file: it exists", EXISTS);
    }
    if path.is_dir() {
        return refused(ErrorKind::Io, "cannot create the file: it is a folder", IS_A_FOLDER);
    }
    output::check_permission(path)
}

impl Sink for LocalSink {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        write_all_at(&self.file, offset, bytes)
            .map_err(|error| self.named(cannot("write", &error).at(offset)))
    }

    fn write_parts_at(&self, offset: u64, parts: &mut [IoSlice<'_>]) -> Result<()> {
        os::write_all_parts_at(&self.file, offset, parts)
            .map_err(|error| self.named(cannot("write", &error).at(offset)))
    }

    fn copy_at(&self, offset: u64, source: &File, from: u64, length: u64) -> Result<()> {
        match os::copy_range(&self.file, offset, source, from, length) {
            Ok(()) => Ok(()),
            // The system cannot copy between these files by itself.
            Err(error) if os::cannot_copy(&error) => copy_through_memory(self, offset, source, from, length),
            Err(error) => Err(self.named(cannot_copy(&error, from))),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let refused = |error: io::Error| self.named(cannot("read", &error).at(offset));
        match read_exact_at(&self.file, offset, buffer) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let length = self.file.metadata().map_err(refused)?.len();
                let there = usize::try_from(length.saturating_sub(offset)).unwrap_or(usize::MAX);
                let (written, beyond) = buffer.split_at_mut(there.min(buffer.len()));
                beyond.fill(0);
                read_exact_at(&self.file, offset, written).map_err(refused)
            }
            read => read.map_err(refused),
        }
    }

    fn sync(&self) -> Result<()> {
        if self.sync == Sync::Never {
            return Ok(());
        }
        self.file.sync_data().map_err(|error| self.named(cannot("sync", &error)))
    }

    fn check_place(&self) -> Result<()> {
        if self.published.load(Ordering::Acquire) && !self.folder.is_at(&self.name, &self.file) {
            let message = "cannot commit: expected the file that was opened, got another one, or none, in its place; \
                           another program replaced or deleted it, and what was not committed is lost";
            return Err(self.named(Error::new(ErrorKind::Changed, message)));
        }
        Ok(())
    }

    fn publish(&self, size: u64) -> Result<()> {
        self.check_place()?;
        let length = self.file.metadata().map_err(|error| self.named(cannot("look at", &error)))?.len();
        if length < size {
            os::extend(&self.file, size).map_err(|error| self.named(cannot("resize", &error)))?;
        }
        if self.sync != Sync::Never {
            self.file.sync_all().map_err(|error| self.named(cannot("sync", &error)))?;
        }
        if self.published.load(Ordering::Acquire) {
            return Ok(());
        }
        if !self.folder.is_at(&self.partial, &self.file) {
            let message = format!(
                "cannot rename the file: {} is not it any more; another program deleted it, or put its own in its place",
                self.partial().display()
            );
            return Err(self.named(Error::new(ErrorKind::Io, message)));
        }
        if self.replace {
            let lock = output::check_unwritten(&self.path, self.locking, !self.scratch)?;
            *self.replaced.lock().unwrap_or_else(PoisonError::into_inner) = lock;
        }
        let renamed = self.folder.rename(&self.partial, (&self.folder, &self.name), self.replace);
        renamed.map_err(|error| {
            self.named(match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    let mut message = "a file of that name appeared in the meantime".to_owned();
                    if !self.scratch {
                        message += &format!("; what was written is in {}", self.partial().display());
                    }
                    Error::new(ErrorKind::Exists, message).with_os_code(EXISTS)
                }
                _ => cannot("rename", &error),
            })
        })?;
        self.published.store(true, Ordering::Release);
        drop(self.replaced.lock().unwrap_or_else(PoisonError::into_inner).take());
        // From now on readers may open the file: they find the last commit. Other writers are still excluded.
        if let Some(lock) = &*self.lock.lock().unwrap_or_else(PoisonError::into_inner) {
            lock.share();
        }
        if self.sync != Sync::Never {
            // Some file systems cannot sync folders; then the new name is not guaranteed to survive a power
            // failure.
            self.folder.sync();
        }
        Ok(())
    }

    fn cut(&self, size: u64) -> Result<()> {
        self.file.set_len(size).map_err(|error| self.named(cannot("resize", &error)))
    }

    fn discard(&self) -> Result<()> {
        if self.published.load(Ordering::Acquire) {
            return Ok(());
        }
        match self.folder.remove(&self.partial) {
            // Discarding twice is allowed.
            Err(error) if self.scratch && error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|error| cannot("delete", &error).file(self.partial().display())),
        }
    }

    fn release(&self) {
        drop(self.replaced.lock().unwrap_or_else(PoisonError::into_inner).take());
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// A file in memory.
#[derive(Debug, Default)]
pub struct MemorySink(RwLock<Vec<u8>>);

impl MemorySink {
    /// Returns a copy of the current bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Sink for MemorySink {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let too_large = || Error::limit("the file in memory exceeds the address space");
        let start = usize::try_from(offset).map_err(|_| too_large())?;
        let end = start.checked_add(bytes.len()).ok_or_else(too_large)?;
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() < end {
            let more = end - all.len();
            all.try_reserve(more).map_err(|_| Error::limit("out of memory: cannot enlarge the file"))?;
            all.resize(end, 0);
        }
        all[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let there = usize::try_from(offset).ok().and_then(|start| all.get(start..)).unwrap_or_default();
        let (written, beyond) = buffer.split_at_mut(there.len().min(buffer.len()));
        written.copy_from_slice(&there[..written.len()]);
        beyond.fill(0);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn cut(&self, size: u64) -> Result<()> {
        let size = usize::try_from(size).map_err(|_| Error::limit("the file exceeds the address space"))?;
        self.0.write().unwrap_or_else(PoisonError::into_inner).truncate(size);
        Ok(())
    }

    fn publish(&self, size: u64) -> Result<()> {
        let size = usize::try_from(size).map_err(|_| Error::limit("the file exceeds the address space"))?;
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() < size {
            crate::room::resize(&mut all, size)?;
        }
        Ok(())
    }
}
