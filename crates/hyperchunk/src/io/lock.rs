//! Locks of local files, as libhdf5 takes them (`flock`): readers share a file's lock, a writer holds it
//! exclusively.
//!
//! The system attaches a lock to each open file description, not to the process, so a process can lock
//! itself out. Here all handles of one file in a process share one lock: a reader joins the existing lock,
//! and a writer of the same process makes it exclusive while it needs to.

use super::PerProcess;
use crate::os;
use crate::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// File locking policy. `HDF5_USE_FILE_LOCKING` (`TRUE`, `FALSE`, `BEST_EFFORT`, 1, 0) overrides it, as in
/// libhdf5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locking {
    /// libhdf5's default: [`Locking::BestEffort`].
    #[default]
    Default,
    /// Locks; a file system without locks is an error.
    Always,
    /// Locks where the file system supports it.
    BestEffort,
    /// Takes no locks and ignores other locks.
    Never,
}

impl Locking {
    /// Returns the policy after applying the environment.
    #[must_use]
    pub fn resolved(self) -> Self {
        let value = std::env::var_os("HDF5_USE_FILE_LOCKING").unwrap_or_default();
        let is = |name: &str, number: &str| value.eq_ignore_ascii_case(name) || value == number;
        match self {
            _ if is("FALSE", "0") => Self::Never,
            _ if is("TRUE", "1") => Self::Always,
            _ if value.eq_ignore_ascii_case("BEST_EFFORT") => Self::BestEffort,
            Self::Default => Self::BestEffort,
            other => other,
        }
    }
}

/// A local file's device and inode.
type Key = (u64, u64);

/// The locks that this process holds, by file.
type HeldLocks = Mutex<HashMap<Key, Weak<Lock>>>;

static HELD: PerProcess<HeldLocks> = PerProcess::new();

/// A file's lock, shared by all its handles in this process and released with the last of them.
#[derive(Debug)]
pub(crate) struct Lock {
    file: Arc<File>,
    key: Key,
    /// The process that took the lock. A forked child drops it without unlocking.
    process: u32,
}

/// A writer's share in the lock. Readers of this process may join it; other processes' readers are refused
/// until it is made shared.
#[derive(Debug)]
pub(crate) struct ExclusiveLock(Arc<Lock>);

impl Lock {
    /// Joins or takes a file's lock for a reader; `None` if the policy is not to lock or this file cannot
    /// be locked.
    ///
    /// # Errors
    /// Locked if another program, or libhdf5 in this one, writes the file; Io if the file system has no
    /// locks and there must be one.
    pub(crate) fn shared(file: &Arc<File>, locking: Locking) -> Result<Option<Arc<Self>>> {
        Self::take(file, locking, File::try_lock_shared, false).map_err(|error| match error {
            Refusal::Taken => Error::new(
                ErrorKind::Locked,
                "cannot open the file for reading: expected that no program writes it, got one that has it locked \
                 (unable to lock file); wait until its writer closes it, have it write in SWMR mode and open it with \
                 swmr=True, or open it with locking=False (HDF5_USE_FILE_LOCKING=FALSE) and accept inconsistent data",
            ),
            Refusal::System(error) => cannot_lock(&error),
        })
    }

    /// Joins or takes the lock of a file that is about to be replaced; `None` also if the file cannot be opened.
    ///
    /// # Errors
    /// Locked if another program, or libhdf5 in this one, writes the file.
    pub(crate) fn to_replace(path: &Path, locking: Locking) -> Result<Option<Arc<Self>>> {
        let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
        let Some(file) = is_file.then(|| File::open(path).ok()).flatten() else { return Ok(None) };
        match Self::take(&Arc::new(file), locking, File::try_lock_shared, false) {
            Err(Refusal::Taken) => Err(Error::new(
                ErrorKind::Locked,
                "cannot replace the file: expected that no program writes it, got one that has it locked (unable to lock \
                 file), whose changes would be lost; close it there",
            )),
            Ok(lock) => Ok(lock),
            Err(Refusal::System(_)) => Ok(None),
        }
    }

    fn take(
        file: &Arc<File>,
        locking: Locking,
        lock: fn(&File) -> std::result::Result<(), TryLockError>,
        again: bool,
    ) -> std::result::Result<Option<Arc<Self>>, Refusal> {
        let locking = locking.resolved();
        let Some(key) = file_key(file).filter(|_| locking != Locking::Never) else { return Ok(None) };
        let Ok(held) = HELD.get(|| Ok(HeldLocks::default()), drop) else { return Ok(None) };
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = held.get(&key).and_then(Weak::upgrade) {
            // Dropping `there` locks the table, so the table's lock is released first.
            drop(held);
            if again {
                there.change(lock)?;
            }
            return Ok(Some(there));
        }
        match lock(file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Refusal::Taken),
            Err(TryLockError::Error(error)) if locking == Locking::BestEffort && has_no_locks(&error) => {
                return Ok(None);
            }
            Err(TryLockError::Error(error)) => return Err(Refusal::System(error)),
        }
        let lock = Arc::new(Self { file: Arc::clone(file), key, process: std::process::id() });
        held.insert(key, Arc::downgrade(&lock));
        Ok(Some(lock))
    }

    /// Changes a held lock to exclusive or shared.
    fn change(
        &self,
        lock: fn(&File) -> std::result::Result<(), TryLockError>,
    ) -> std::result::Result<(), Refusal> {
        lock(&self.file).map_err(|error| {
            // The system releases the old lock before it tries for the new one, so the shared lock is
            // taken back.
            drop(self.file.try_lock_shared());
            match error {
                TryLockError::WouldBlock => Refusal::Taken,
                TryLockError::Error(error) => Refusal::System(error),
            }
        })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let process = std::process::id();
        if self.process != process {
            return;
        }
        if let Ok(held) = HELD.get(|| Ok(HeldLocks::default()), drop) {
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            if held.get(&self.key).is_some_and(|lock| lock.strong_count() == 0) {
                held.remove(&self.key);
            }
        }
        // Unlocked explicitly: closing does not unlock while a forked process or a worker has another
        // descriptor.
        drop(self.file.unlock());
    }
}

impl ExclusiveLock {
    /// Takes the lock of a file that is about to be written; `None` as for [`Lock::shared`].
    ///
    /// # Errors
    /// As [`Lock::shared`]; Locked also if another program reads the file.
    pub(crate) fn take(file: &Arc<File>, locking: Locking) -> Result<Option<Self>> {
        let taken = Lock::take(file, locking, File::try_lock, true);
        taken.map(|lock| lock.map(Self)).map_err(|error| match error {
            Refusal::Taken => Error::new(
                ErrorKind::Locked,
                "cannot write the file: expected that no other program has the file open, got one that has it locked \
                 (unable to lock file); close it there",
            ),
            Refusal::System(error) => cannot_lock(&error),
        })
    }

    /// Makes the lock shared: readers may open the file, writers may not.
    pub(crate) fn share(&self) {
        drop(self.0.file.try_lock_shared());
    }
}

impl Drop for ExclusiveLock {
    fn drop(&mut self) {
        // Readers of this process still use the lock.
        if self.0.process == std::process::id() && Arc::strong_count(&self.0) > 1 {
            self.share();
        }
    }
}

/// Reason why a lock was not taken.
enum Refusal {
    Taken,
    System(io::Error),
}

fn cannot_lock(error: &io::Error) -> Error {
    let message = format!(
        "cannot lock the file: {error}; locking=\"best-effort\" or HDF5_USE_FILE_LOCKING=BEST_EFFORT opens it \
         without a lock"
    );
    Error::new(ErrorKind::Io, message)
}

/// Returns whether an error means that files of this kind cannot be locked, or that the lock server is
/// unavailable.
fn has_no_locks(error: &io::Error) -> bool {
    #[cfg(unix)]
    let known = matches!(
        error.raw_os_error(),
        Some(code) if code == libc::ENOSYS || code == libc::ENOTSUP || code == libc::EOPNOTSUPP || code == libc::ENOLCK
    );
    #[cfg(not(unix))]
    let known = false;
    known || error.kind() == io::ErrorKind::Unsupported
}

/// Returns the file's key; `None` where locks are mandatory (not Unix), since they would also lock out
/// programs that take no lock. libhdf5 takes none there either.
fn file_key(file: &File) -> Option<Key> {
    os::identity(&file.metadata().ok()?)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn open(path: &Path) -> Arc<File> {
        Arc::new(File::options().read(true).write(true).open(path).unwrap())
    }

    #[test]
    fn a_process_does_not_lock_itself_out() {
        let path = std::env::temp_dir().join(format!("hyperchunk-lock-{}", std::process::id()));
        std::fs::write(&path, b"x").unwrap();
        // A second open file description acts as another program.
        let other = open(&path);
        let one = Lock::shared(&open(&path), Locking::Always).unwrap().unwrap();
        let two = Lock::shared(&open(&path), Locking::Always).unwrap().unwrap();
        assert!(Arc::ptr_eq(&one, &two));
        assert!(other.try_lock().is_err());
        other.try_lock_shared().unwrap();
        assert_eq!(ExclusiveLock::take(&open(&path), Locking::Always).unwrap_err().kind(), ErrorKind::Locked);
        // The shared lock is still held.
        other.unlock().unwrap();
        assert!(other.try_lock().is_err());
        let writer = ExclusiveLock::take(&open(&path), Locking::Always).unwrap().unwrap();
        assert!(other.try_lock_shared().is_err());
        let three = Lock::shared(&open(&path), Locking::Always).unwrap().unwrap();
        assert!(other.try_lock_shared().is_err());
        writer.share();
        other.try_lock_shared().unwrap();
        other.unlock().unwrap();
        drop((one, two, writer));
        assert!(other.try_lock().is_err());
        drop(three);
        other.try_lock().unwrap();
        assert_eq!(Lock::shared(&open(&path), Locking::Default).unwrap_err().kind(), ErrorKind::Locked);
        assert!(Lock::shared(&open(&path), Locking::Never).unwrap().is_none());
        assert_eq!(Lock::to_replace(&path, Locking::Default).unwrap_err().kind(), ErrorKind::Locked);
        other.unlock().unwrap();
        Lock::to_replace(&path, Locking::Default).unwrap();
        std::fs::remove_file(path).unwrap();
    }
}
