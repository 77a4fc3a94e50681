//! HDF5's file locks (`flock`): a program takes an exclusive lock on a file that it writes, and a
//! shared lock on one that it reads. A commit replaces a store's file, so changes that a program without
//! hyperchunk made to the old file after that would be lost.

use hyperchunk::io::Locking;
use hyperchunk::{Error, ErrorKind, Result};
use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time for which a commit waits for a program that has the file open to write.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Returns whether files are not locked: HDF5 is told so (`HDF5_USE_FILE_LOCKING`), or does not lock on this system.
/// On Windows, an open file cannot be replaced either.
#[must_use]
pub fn locks_are_off() -> bool {
    cfg!(not(unix)) || Locking::Default.resolved() == Locking::Never
}

/// Returns whether an open file is still the one at a path.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let same = |one: std::fs::Metadata, other: std::fs::Metadata| {
            (one.dev(), one.ino()) == (other.dev(), other.ino())
        };
        file.metadata().ok().zip(std::fs::metadata(path).ok()).is_some_and(|(one, other)| same(one, other))
    }
    #[cfg(not(unix))]
    {
        let _ = (file, path);
        true
    }
}

/// Returns whether an open file still has a name in a folder.
pub(crate) fn is_linked(file: &File) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        true
    }
}

/// Locks the file at a path until it is dropped. `Some(None)` if there is no file or the system
/// cannot lock; `None` if the lock is still held by another program after the wait.
fn locked(path: &Path, lock: fn(&File) -> std::result::Result<(), TryLockError>) -> Option<Option<File>> {
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        let Ok(file) = File::open(path) else { return Some(None) };
        match lock(&file) {
            // Otherwise the file was replaced in the meantime; try again.
            Ok(()) if is_at(&file, path) => return Some(Some(file)),
            Ok(()) => {}
            Err(TryLockError::Error(_)) => return Some(None),
            Err(TryLockError::WouldBlock) if Instant::now() > until => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(RETRY_INTERVAL),
        }
    }
}

/// Prevents programs from opening the file of a store to write, as long as the lock lives.
///
/// # Errors
/// Locked if one has it open.
pub(crate) fn hold(path: &Path) -> Result<Option<File>> {
    if locks_are_off() {
        return Ok(None);
    }
    locked(path, File::try_lock_shared).ok_or_else(|| {
        let message = "cannot replace the file of the store: expected that no other program has it open to write, got one that \
                       has it locked, whose changes would be lost; close it there, then run `hyperchunk store commit`: what was \
                       written here is kept until then (HDF5_USE_FILE_LOCKING=FALSE ignores locks)";
        Error::new(ErrorKind::Locked, message).file(path.display())
    })
}

/// Prevents all programs from opening the file of a store, as long as the lock lives, because it is
/// about to be truncated.
///
/// # Errors
/// Locked if one has it open.
pub fn hold_alone(path: &Path) -> Result<Option<File>> {
    if locks_are_off() {
        return Ok(None);
    }
    locked(path, File::try_lock).ok_or_else(|| {
        let message = "unable to truncate a file which is already open: another program reads it or writes to it (unable to lock \
                       file; HDF5_USE_FILE_LOCKING=FALSE ignores locks)";
        Error::new(ErrorKind::Locked, message).file(path.display())
    })
}
