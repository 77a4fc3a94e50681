//! The locks by which HDF5 keeps programs apart: a program has the file that it writes to locked for itself (`flock`), and the
//! file that it reads locked with other readers. A commit puts another file in the place of a store's file, so what a program
//! without hyperchunk wrote to the old one after that would be lost.

use crate::io::Locking;
use crate::{Error, ErrorKind, Result};
use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a commit waits for a program that has the file open to write.
const PATIENCE: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(10);

/// Whether HDF5 is told to lock no files (`HDF5_USE_FILE_LOCKING`).
#[must_use]
pub fn locks_are_off() -> bool {
    Locking::Default.resolved() == Locking::Never
}

/// Whether a file is the one at a path, still.
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

/// Locks the file at a path until it is dropped; `None` if there is none, files are not to be locked, or the system cannot.
fn locked(path: &Path, lock: fn(&File) -> std::result::Result<(), TryLockError>) -> Option<Option<File>> {
    let until = Instant::now() + PATIENCE;
    loop {
        let Ok(file) = File::open(path) else { return Some(None) };
        match lock(&file) {
            // One that was replaced meanwhile is of no interest.
            Ok(()) if is_at(&file, path) => return Some(Some(file)),
            Ok(()) => {}
            Err(TryLockError::Error(_)) => return Some(None),
            Err(TryLockError::WouldBlock) if Instant::now() > until => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(STEP),
        }
    }
}

/// Keeps programs from opening the file of a store to write, while the lock lives.
///
/// # Errors
/// Locked if one has it open.
pub(super) fn hold(path: &Path) -> Result<Option<File>> {
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

/// Keeps all programs from opening the file of a store, while the lock lives: it is about to be begun anew.
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
