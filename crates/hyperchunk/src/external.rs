//! Other files that a file names: in external links, as sources of virtual datasets, for raw data.

use crate::companion;
use crate::file::{ExternalPolicy, File};
use crate::io::{LocalFile, Source, rounds};
use crate::live;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::model::Name;
use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Maximum number of other files that one file keeps open.
const KEPT: usize = 64;

/// The other files of one file.
#[derive(Debug)]
pub(crate) struct ExternalFiles {
    /// The folder of the file that names them.
    folder: Option<PathBuf>,
    policy: ExternalPolicy,
    hdf5: Mutex<HashMap<PathBuf, File>>,
    raw: Mutex<HashMap<PathBuf, Arc<dyn Source>>>,
    /// Where all of them were found that were ever opened, also by those files themselves.
    read: OnceLock<Arc<Mutex<HashSet<PathBuf>>>>,
}

impl ExternalFiles {
    pub(crate) fn new(path: Option<&Path>, policy: ExternalPolicy) -> Self {
        let folder = path.map(|path| path.parent().unwrap_or(Path::new("")).to_owned());
        Self { folder, policy, hdf5: Mutex::default(), raw: Mutex::default(), read: OnceLock::new() }
    }

    /// Releases the locks of the open ones.
    pub(crate) fn release_locks(&self) {
        let files: Vec<File> =
            self.hdf5.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        files.iter().for_each(File::release_locks);
    }

    /// Where the files were found that were read through this one.
    pub(crate) fn read(&self) -> Vec<PathBuf> {
        self.found().lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn found(&self) -> &Arc<Mutex<HashSet<PathBuf>>> {
        self.read.get_or_init(Arc::default)
    }

    /// Returns the current policy: stricter while a function's inputs are read.
    fn policy(&self) -> ExternalPolicy {
        live::inputs_policy().map_or(self.policy, |inputs| inputs.max(self.policy))
    }

    /// Opens the HDF5 file of that name.
    pub(crate) fn open(&self, from: &File, name: &Name) -> Result<File> {
        let found = match self.sibling(from, name, &self.hdf5, |source, path| {
            File::from_source(source, Some(path.to_owned()), from.options())
        }) {
            Some(found) => found,
            None => self.find(name, &self.hdf5, |path| File::open(path, from.options())),
        };
        if let Ok(file) = &found {
            // What it reads in turn is read through this one, too.
            drop(file.0.external.read.set(Arc::clone(self.found())));
        }
        found.map_err(|error| from.name(error))
    }

    /// Opens the file of raw data of that name.
    pub(crate) fn open_raw(&self, from: &File, name: &Name) -> Result<Arc<dyn Source>> {
        let open = |path: &Path| {
            // The logs of a store are companions of its file, also if they are named as raw data.
            let file = match companion::owner_of_log(path).filter(|owner| owner.is_file()) {
                Some(owner) => companion::open_of_store(&owner, path),
                None => LocalFile::open(path),
            };
            file.map(|file| Arc::new(file) as Arc<dyn Source>)
        };
        let found = match self.sibling(from, name, &self.raw, |source, _| Ok(source)) {
            Some(found) => found,
            None => self.find(name, &self.raw, open),
        };
        found.map_err(|error| from.name(error))
    }

    /// Opens the file of that name beside a file over a network, which may never name local files. `None`
    /// if `from` is itself a local file.
    fn sibling<T: Clone>(
        &self,
        from: &File,
        name: &Name,
        kept: &Mutex<HashMap<PathBuf, T>>,
        open: impl Fn(Arc<dyn Source>, &Path) -> Result<T>,
    ) -> Option<Result<T>> {
        let remote = from.0.source.remote()?;
        if matches!(self.policy(), ExternalPolicy::Never | ExternalPolicy::Own) {
            return Some(Err(refused(name)));
        }
        let Some(text) = name.as_str() else {
            return Some(Err(Error::unsupported(format!("the file name `{name}` is not UTF-8"))));
        };
        let upward = text.split('/').any(|part| part == "..");
        if upward && self.policy != ExternalPolicy::Anywhere {
            return Some(Err(outside(name)));
        }
        let key = PathBuf::from(text);
        if let Some(file) = kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Some(Ok(file.clone()));
        }
        let found = rounds::alone(|| match remote.sibling(text) {
            Some(source) => source.and_then(|source| {
                let path = self.folder.as_ref().map_or_else(|| key.clone(), |folder| folder.join(text));
                open(source, &path)
            }),
            None => {
                let message = format!("it leads to the file `{name}`, and this source knows no others");
                Err(Error::unsupported(message))
            }
        });
        Some(found.inspect(|file| keep(kept, key, file)))
    }

    /// Searches for a name as libhdf5 does. An absolute name is tried as it is, then its last part beside
    /// the file; a relative one beside the file, then in the working folder.
    fn find<T: Clone>(
        &self,
        name: &Name,
        kept: &Mutex<HashMap<PathBuf, T>>,
        open: impl Fn(&Path) -> Result<T>,
    ) -> Result<T> {
        let given = to_path(name)?;
        if matches!(self.policy(), ExternalPolicy::Never | ExternalPolicy::Own) {
            return Err(refused(name));
        }
        let mut candidates = Vec::new();
        if given.is_absolute() {
            candidates.push(given.clone());
        }
        if let Some(folder) = &self.folder {
            let beside =
                if given.is_absolute() { given.file_name().map(PathBuf::from) } else { Some(given.clone()) };
            candidates.extend(beside.map(|beside| folder.join(beside)));
        }
        if !given.is_absolute() {
            candidates.push(given.clone());
        }
        let mut refused = None;
        for path in candidates {
            if live::inputs_policy().is_some() && is_special(&path) {
                let message = format!(
                    "it leads to `{name}`, which is no regular file, or one of the system's, and so no input"
                );
                return Err(Error::new(ErrorKind::Refused, message));
            }
            if self.policy() != ExternalPolicy::Anywhere && !self.is_beside(&path) {
                refused.get_or_insert_with(|| {
                    if live::inputs_policy().is_some() && self.policy == ExternalPolicy::Anywhere {
                        let message = format!(
                            "it leads to the file `{name}`, outside this file's folder, from where functions get no inputs (profile, `inputs`)"
                        );
                        return Error::new(ErrorKind::Refused, message);
                    }
                    outside(name)
                });
                continue;
            }
            if let Some(file) = kept.lock().unwrap_or_else(PoisonError::into_inner).get(&path) {
                return Ok(file.clone());
            }
            match open(&path) {
                Ok(file) => {
                    self.found().lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone());
                    keep(kept, path, &file);
                    return Ok(file);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(refused.unwrap_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("it leads to the file `{name}`, which is not there"))
        }))
    }

    fn is_beside(&self, path: &Path) -> bool {
        let relative = self.folder.as_ref().and_then(|folder| path.strip_prefix(folder).ok());
        let within = relative.is_some_and(|path| {
            path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        });
        // A symbolic link may point outside again.
        let real = |path: &Path| {
            std::fs::canonicalize(if path.as_os_str().is_empty() { Path::new(".") } else { path }).ok()
        };
        // The paths of the two files may be written differently.
        match (real(path), self.folder.as_deref().and_then(real)) {
            (Some(path), Some(folder)) => path.strip_prefix(folder).is_ok_and(|below| {
                self.policy != ExternalPolicy::Listed
                    || below.components().all(|part| !part.as_os_str().as_encoded_bytes().starts_with(b"."))
            }),
            // It does not exist; opening it will report that.
            (None, _) => within,
            _ => false,
        }
    }
}

/// Returns whether an existing path is not a regular file, or is in one of the kernel's file systems.
fn is_special(path: &Path) -> bool {
    let Ok(real) = std::fs::canonicalize(path) else { return false };
    let made_up = ["/proc", "/sys", "/dev"].iter().any(|folder| real.starts_with(folder));
    made_up || !std::fs::metadata(&real).is_ok_and(|metadata| metadata.is_file())
}

fn outside(name: &Name) -> Error {
    Error::invalid(format!("it leads to the file `{name}`, outside this file's folder (option `external`)"))
}

pub(crate) fn refused(name: &Name) -> Error {
    let message =
        format!("it leads to the file `{name}`, and other files must not be opened (option `external`)");
    Error::new(ErrorKind::Invalid, message)
}

fn keep<T: Clone>(kept: &Mutex<HashMap<PathBuf, T>>, path: PathBuf, file: &T) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= KEPT {
        kept.clear();
    }
    kept.insert(path, file.clone());
}

#[cfg(unix)]
fn to_path(name: &Name) -> Result<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(name.as_bytes())))
}

#[cfg(not(unix))]
fn to_path(name: &Name) -> Result<PathBuf> {
    name.as_str()
        .map(PathBuf::from)
        .ok_or_else(|| Error::unsupported(format!("the file name `{name}` is not UTF-8")))
}

/// Fills `buffer` from `offset` of a file of raw data. Bytes past its end are 0, as in libhdf5: writers
/// extend it only as far as they wrote.
pub(crate) fn read_raw(file: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
    let there = usize::try_from(file.size().saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
    let (head, tail) = buffer.split_at_mut(there);
    tail.fill(0);
    if head.is_empty() { Ok(()) } else { file.read_at(offset, head) }
}
