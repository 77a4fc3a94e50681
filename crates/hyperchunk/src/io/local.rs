//! Local files, read with positioned reads. With a memory mapping, a file that shrinks would kill the
//! process.

use super::lock::{Lock, Locking};
use super::stamp::{Change, Stamp};
use super::{Source, ends_before};
use crate::os::{self, read_exact_at, read_exact_parts_at};
use crate::{Error, ErrorKind, Result};
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::SystemTime;

/// `EISDIR` on Linux and macOS.
pub(crate) const IS_A_FOLDER: i32 = 21;
/// `ENOENT` on Linux and macOS.
pub(crate) const IS_MISSING: i32 = 2;
/// `EEXIST` on Linux and macOS.
pub(crate) const EXISTS: i32 = 17;

/// Returns the path of a file's journal.
pub(crate) fn journal_path(file: &Path) -> PathBuf {
    with_suffix(file, ".journal")
}

/// Returns the path of a file with a suffix appended to its name.
pub(crate) fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// An open local file.
#[derive(Debug)]
pub struct LocalFile {
    file: Arc<File>,
    size: u64,
    version: Option<String>,
    /// The path by which it was opened, if any.
    path: Option<PathBuf>,
    stamp: RwLock<Stamp>,
    /// Released when the file is dropped.
    lock: Mutex<Option<Arc<Lock>>>,
    /// True if another program appends to the file while it is read.
    grows: AtomicBool,
    /// The superblock's offset, and its bytes at the time of opening.
    superblock: OnceLock<(u64, Vec<u8>)>,
}

impl LocalFile {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// NotFound or Io, with the system's reason.
    pub fn open(path: &Path) -> Result<Self> {
        // Checked before opening: opening a pipe blocks until a writer opens it, too.
        let metadata = std::fs::metadata(path).map_err(|error| cannot("open", &error))?;
        check_kind(&metadata)?;
        let file = File::open(path).map_err(|error| cannot("open", &error))?;
        let metadata = file.metadata().map_err(|error| cannot("look at", &error))?;
        Ok(Self { path: std::path::absolute(path).ok(), ..Self::of(file, &metadata) })
    }

    /// Wraps a file that was opened by `path`, or by its resolved path.
    ///
    /// # Errors
    /// Io if it is not a regular file.
    pub(crate) fn opened(file: File, path: &Path) -> Result<Self> {
        let metadata = file.metadata().map_err(|error| cannot("look at", &error))?;
        check_kind(&metadata)?;
        Ok(Self { path: std::path::absolute(path).ok(), ..Self::of(file, &metadata) })
    }

    /// Wraps a file that is already open, with its metadata.
    pub(crate) fn of(file: File, metadata: &Metadata) -> Self {
        Self {
            file: Arc::new(file),
            size: metadata.len(),
            version: version(metadata),
            path: None,
            stamp: RwLock::new(Stamp::at_opening(metadata)),
            lock: Mutex::new(None),
            grows: AtomicBool::new(false),
            superblock: OnceLock::new(),
        }
    }

    /// Locks the file for reading as libhdf5 does, until it is dropped.
    ///
    /// # Errors
    /// Locked if another program writes the file; Io if it must be locked and cannot.
    pub fn locked(self, locking: Locking) -> Result<Self> {
        let lock = Mutex::new(Lock::shared(&self.file, locking)?);
        // A writer may have changed the file until it released its lock, so the size and times are read
        // again here.
        let metadata = self.file.metadata().map_err(|error| cannot("look at", &error))?;
        let (size, version) = (metadata.len(), version(&metadata));
        Ok(Self { size, version, stamp: RwLock::new(Stamp::at_opening(&metadata)), lock, ..self })
    }

    /// Releases the lock. That it was obtained shows that no program was writing the file when it was opened.
    #[must_use]
    pub fn unlocked(self) -> Self {
        self.release();
        self
    }

    /// Returns the file, for other kinds of reads.
    ///
    /// # Errors
    /// Io from the system.
    pub fn into_file(self) -> Result<File> {
        let file = Arc::try_unwrap(self.file);
        file.or_else(|file| file.try_clone()).map_err(|error| cannot("open", &error))
    }

    /// Determines what has changed about the file; an error unless its contents are the same.
    #[cold]
    fn explain(&self, before: &Stamp, mut now: Stamp, metadata: &Metadata) -> Result<()> {
        match before.compare(&mut now, self.path.as_deref(), metadata) {
            Change::Replaced => Err(changed("another file in its place")),
            Change::Written if self.is_of_last_commit(metadata) => {
                self.restamp(now);
                Ok(())
            }
            Change::MetadataOnly => {
                if *before != now {
                    self.restamp(now);
                }
                Ok(())
            }
            Change::Written if metadata.len() != self.size => {
                Err(changed(&format!("{} bytes instead of {}", metadata.len(), self.size)))
            }
            Change::Written => Err(changed("one that was written to since")),
        }
    }

    fn restamp(&self, now: Stamp) {
        // Must not block: in a child that was forked while the lock was held, it is never released. Without
        // the new stamp, the comparison is done again next time.
        if let Ok(mut stamp) = self.stamp.try_write() {
            *stamp = now;
        }
    }

    /// Returns whether a Hyperchunk writer is writing the file, or was killed, and has committed nothing
    /// since the file was opened. Everything that the last commit refers to is then unchanged.
    fn is_of_last_commit(&self, metadata: &Metadata) -> bool {
        let Some(((at, before), path)) = self.superblock.get().zip(self.path.as_deref()) else {
            return false;
        };
        let mut now = vec![0; before.len()];
        metadata.len() >= self.size
            && journal_path(path).symlink_metadata().is_ok_and(|journal| journal.is_file())
            && read_exact_at(&self.file, *at, &mut now).is_ok()
            && now == *before
    }

    /// Returns the open file, by which it can be identified.
    #[must_use]
    pub fn as_file(&self) -> &File {
        &self.file
    }
}

/// Checks that a file is a regular file.
fn check_kind(metadata: &Metadata) -> Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let message = "cannot open the file: it is a folder";
    Err(match metadata.is_dir() {
        true => Error::new(ErrorKind::Io, message).with_os_code(IS_A_FOLDER),
        false => Error::new(ErrorKind::Io, "cannot open the file: it is a pipe, a socket or a device"),
    })
}

/// Returns a file's version: its modification time and its change time (`ctime`). The first can be set to any
/// value (`cp -p`, `rsync -t`, a restored backup), so it does not distinguish files of equal size; the second
/// cannot be set.
fn version(metadata: &Metadata) -> Option<String> {
    let since = metadata.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let written = format!("time:{}.{:09}", since.as_secs(), since.subsec_nanos());
    Some(match os::change_time(metadata) {
        Some((seconds, nanoseconds)) => format!("{written};changed:{seconds}.{nanoseconds:09}"),
        None => written,
    })
}

/// Returns the file's current size and version: it may have been written to since it was opened.
pub fn now(file: &File) -> Option<(u64, String)> {
    let metadata = file.metadata().ok()?;
    Some((metadata.len(), version(&metadata)?))
}

#[cold]
fn changed(got: &str) -> Error {
    let message = format!(
        "cannot read the file: expected it as it was opened, got {got}; call refresh(), or open it again"
    );
    Error::new(ErrorKind::Changed, message)
}

pub(crate) fn cannot(what: &str, error: &io::Error) -> Error {
    let kind = if error.kind() == io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Io };
    Error::new(kind, format!("cannot {what} the file: {error}")).caused_by(error)
}

impl Source for LocalFile {
    fn size(&self) -> u64 {
        match self.grows.load(Ordering::Relaxed) {
            true => self.file.metadata().map_or(self.size, |metadata| metadata.len()),
            false => self.size,
        }
    }

    fn release(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn follow_growth(&self) {
        self.grows.store(true, Ordering::Relaxed);
    }

    fn keep_superblock(&self, at: u64, length: usize) {
        let mut bytes = vec![0; length];
        if read_exact_at(&self.file, at, &mut bytes).is_ok() {
            drop(self.superblock.set((at, bytes)));
        }
    }

    fn check_unchanged(&self) -> Result<()> {
        if self.grows.load(Ordering::Relaxed) {
            return Ok(());
        }
        let metadata = self.file.metadata().map_err(|error| cannot("look at", &error))?;
        let now = Stamp::of(&metadata);
        let before = self.stamp.try_read().map_or(None, |before| Some(before.clone()));
        match before {
            Some(before) if before != now => self.explain(&before, now, &metadata),
            _ => Ok(()),
        }
    }

    fn version(&self) -> Option<String> {
        self.version.clone()
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        read_exact_at(&self.file, offset, buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ends_before(self.size(), offset, buffer.len()),
            _ => cannot("read", &error).at(offset),
        })
    }

    fn read_parts_at(&self, offset: u64, parts: &mut [io::IoSliceMut<'_>]) -> Result<()> {
        let length = parts.iter().map(|part| part.len()).sum();
        read_exact_parts_at(&self.file, offset, parts).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ends_before(self.size(), offset, length),
            _ => cannot("read", &error).at(offset),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::IoSliceMut;

    /// Checks a file that loses its name, is checked, and sees the name taken by another file.
    #[cfg(unix)]
    #[track_caller]
    fn check_name(case: &str, lose: impl Fn(&Path, &Path)) {
        let folder = std::env::temp_dir().join(format!("hyperchunk-{case}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (path, other) = (folder.join("a"), folder.join("b"));
        std::fs::write(&path, "one").unwrap();
        let file = LocalFile::open(&path).unwrap();
        // The system's clock has ticks: a file that is renamed within one has the same times.
        let wait = || std::thread::sleep(std::time::Duration::from_millis(30));
        wait();
        lose(&path, &other);
        for _ in 0..3 {
            file.check_unchanged().unwrap();
        }
        wait();
        std::fs::write(&path, "two").unwrap();
        for _ in 0..3 {
            assert_eq!(file.check_unchanged().unwrap_err().kind(), ErrorKind::Changed, "{case}");
        }
        std::fs::remove_file(&path).unwrap();
        file.check_unchanged().unwrap();
        if other.exists() {
            // Back under its own name, the file is an ordinary one again.
            wait();
            std::fs::rename(&other, &path).unwrap();
            file.check_unchanged().unwrap();
            wait();
            std::fs::write(&path, "six").unwrap();
            assert_eq!(file.check_unchanged().unwrap_err().kind(), ErrorKind::Changed, "{case}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn names_that_other_files_take() {
        check_name("removed", |path, _| std::fs::remove_file(path).unwrap());
        check_name("renamed", |path, other| std::fs::rename(path, other).unwrap());
        check_name("linked", |path, other| {
            std::fs::hard_link(path, other).unwrap();
            std::fs::remove_file(path).unwrap();
        });
    }

    #[test]
    #[cfg(unix)]
    fn files_without_a_name_at_opening() {
        let path = std::env::temp_dir().join(format!("hyperchunk-nameless-{}", std::process::id()));
        std::fs::write(&path, "one").unwrap();
        let handle = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let file = LocalFile::opened(handle, &path).unwrap();
        file.check_unchanged().unwrap();
        std::fs::write(&path, "two").unwrap();
        assert_eq!(file.check_unchanged().unwrap_err().kind(), ErrorKind::Changed);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn parts() {
        let bytes: Vec<u8> = (0..10_000_u32).flat_map(u32::to_le_bytes).collect();
        let path = std::env::temp_dir().join(format!("hyperchunk-parts-{}", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let file = LocalFile::open(&path).unwrap();
        let check = |offset: usize, size: usize, count: usize| {
            let mut read = vec![0; size * count];
            let mut parts: Vec<_> = read.chunks_exact_mut(size).map(IoSliceMut::new).collect();
            let result = file.read_parts_at(offset as u64, &mut parts);
            match bytes.get(offset..offset + size * count) {
                Some(expected) => {
                    result.unwrap();
                    assert_eq!(read, expected);
                }
                None => assert_eq!(result.unwrap_err().kind(), ErrorKind::Truncated),
            }
        };
        check(0, 1, 0);
        check(3, 700, 1);
        // More parts than the system takes in one call.
        check(17, 7, 5_000);
        check(39_999, 1, 1);
        check(39_999, 1, 2);
        check(50_000, 10, 3);
        std::fs::remove_file(path).unwrap();
    }
}
