//! Files that are open, as long as they stay what they are.

use crate::flight::names::{Roots, version};
use hyperchunk::index::IndexOption;
use hyperchunk::io::Locking;
use hyperchunk::{Error, ErrorKind, ExternalPolicy, File, OpenOptions, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many are kept.
const KEPT: usize = 128;

/// Which file, and as of which epoch of its store.
type Key = (String, Option<u64>, bool);

/// Files by their names.
#[derive(Debug)]
pub(super) struct OpenFiles {
    pub(super) roots: Roots,
    kept: Mutex<HashMap<Key, (String, File)>>,
}

/// Checks that a file is still the version that somebody knows.
pub(super) fn check_version(now: &str, known: Option<&str>) -> Result<()> {
    match known {
        Some(known) if known != now => {
            Err(Error::new(ErrorKind::Changed, "the file is not the one that it was: open it again"))
        }
        _ => Ok(()),
    }
}

impl OpenFiles {
    pub(super) fn new(roots: Roots) -> Self {
        Self { roots, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Key, (String, File)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of a name, as it is now, and its version. `growing` for one that somebody writes.
    pub(super) fn open(&self, name: &str, epoch: Option<u64>, growing: bool) -> Result<(File, String)> {
        let found = self.roots.open(name)?;
        let version = version(&found.file);
        let key = (name.to_owned(), epoch, growing);
        if let Some((known, file)) = self.kept().get(&key)
            && *known == version
        {
            return Ok((file.clone(), version));
        }
        let mut options = OpenOptions::default();
        // A file that was named by itself leads nowhere else, one in a folder to what is served from there.
        options.external = if found.alone { ExternalPolicy::Own } else { ExternalPolicy::Listed };
        options.shown_as = Some(name.into());
        options.index = IndexOption::Never;
        options.epoch = epoch;
        options.ignore_locks = growing;
        let file = match epoch {
            Some(_) => File::open(&found.path, &options)?,
            None => {
                // What is served is kept open for long: its writers are not kept out, but noticed.
                let file = if growing { found.file } else { found.file.locked(Locking::Default)?.unlocked() };
                File::from_source(Arc::new(file), Some(found.path), &options)?
            }
        };
        let mut kept = self.kept();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key, (version.clone(), file.clone()));
        Ok((file, version))
    }

    /// Forgets all files of a name: the next request opens it anew.
    pub(super) fn forget(&self, name: &str) {
        self.kept().retain(|(kept, _, _), _| kept != name);
    }

    /// Its message without the paths of this machine.
    pub(super) fn without_paths(&self, error: &Error) -> Error {
        Error::new(error.kind(), self.roots.without_paths(&error.to_string()))
    }
}
