//! Cache of open files, valid while they do not change.

use crate::flight::names::{Roots, version};
use hyperchunk::index::IndexOption;
use hyperchunk::io::Locking;
use hyperchunk::{Error, ErrorKind, ExternalPolicy, File, OpenOptions, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of cached files.
const MAX_CACHED_FILES: usize = 128;

/// The file's name, the epoch of its store, and whether it is growing.
type Key = (String, Option<u64>, bool);

/// The cache of files by name.
#[derive(Debug)]
pub(super) struct OpenFiles {
    pub(super) roots: Roots,
    cached: Mutex<HashMap<Key, (String, File)>>,
}

/// Checks that a file still has the version that the client knows.
pub(super) fn check_version(now: &str, known: Option<&str>) -> Result<()> {
    match known {
        Some(known) if known != now => {
            Err(Error::new(ErrorKind::Changed, "the file has changed: open it again"))
        }
        _ => Ok(()),
    }
}

impl OpenFiles {
    pub(super) fn new(roots: Roots) -> Self {
        Self { roots, cached: Mutex::default() }
    }

    fn cached(&self) -> MutexGuard<'_, HashMap<Key, (String, File)>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the file with a name in its present state, and its version. `growing`: the file may be open
    /// for writing.
    pub(super) fn open(&self, name: &str, epoch: Option<u64>, growing: bool) -> Result<(File, String)> {
        let found = self.roots.open(name)?;
        let version = version(&found.file);
        let key = (name.to_owned(), epoch, growing);
        if let Some((known, file)) = self.cached().get(&key)
            && *known == version
        {
            return Ok((file.clone(), version));
        }
        let mut options = OpenOptions::default();
        // A file that is served by itself may refer only to its own companions; a file of a served folder, to
        // other served files.
        options.external = if found.alone { ExternalPolicy::Own } else { ExternalPolicy::Listed };
        options.shown_as = Some(name.into());
        options.index = IndexOption::Never;
        options.epoch = epoch;
        options.ignore_locks = growing;
        let file = match epoch {
            Some(_) => File::open(&found.path, &options)?,
            None => {
                // Served files stay open for long: they are not locked against writers, but changes are
                // detected.
                let file = if growing { found.file } else { found.file.locked(Locking::Default)?.unlocked() };
                File::from_source(Arc::new(file), Some(found.path), &options)?
            }
        };
        let mut cached = self.cached();
        if cached.len() >= MAX_CACHED_FILES {
            cached.clear();
        }
        cached.insert(key, (version.clone(), file.clone()));
        Ok((file, version))
    }

    /// Removes all cached files with a name: the next request opens it again.
    pub(super) fn forget(&self, name: &str) {
        self.cached().retain(|(cached, _, _), _| cached != name);
    }

    /// Returns the error without the paths of this machine.
    pub(super) fn without_paths(&self, error: &Error) -> Error {
        Error::new(error.kind(), self.roots.without_paths(&error.to_string()))
    }
}
