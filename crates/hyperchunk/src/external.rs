//! Other files that a file names: in external links, as sources of virtual datasets, for raw data.

mod place;
#[cfg(all(test, unix))]
mod tests;
mod value_datasets;

use crate::companion;
use crate::file::{ExternalPolicy, File};
use crate::io::local::cannot;
use crate::io::{LocalFile, Source, rounds, without_symlinks};
use crate::live;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::model::Name;
use place::Home;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Number of keys at which a cache of open files is emptied.
const MAX_CACHED_KEYS: usize = 64;

/// The other files that a file names: how to find them, the policy for opening them, and a cache of open
/// ones.
#[derive(Debug)]
pub(crate) struct ExternalFiles {
    /// The folder of the file that names them.
    home: Home,
    policy: ExternalPolicy,
    hdf5: Cache<File>,
    raw: Cache<Arc<dyn Source>>,
    /// The paths of all other files that were ever opened, including those that such files opened in turn.
    opened_paths: OnceLock<Arc<Mutex<HashSet<PathBuf>>>>,
}

type Cache<T> = Mutex<HashMap<Key, T>>;

/// Cache key of an open file. A file that was opened by its path alone is not used where a policy applies: a
/// symbolic link may have led anywhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// The path by which it was opened.
    Named(PathBuf),
    /// The resolved path (without symbolic links), which was checked before the file was opened by it.
    Checked(PathBuf),
}

/// A cached other file: an HDF5 file, or a source of raw data.
trait CachedFile: Clone {
    /// Returns the file on disk, if there is one.
    fn on_disk(&self) -> Option<&std::fs::File>;
}

impl CachedFile for File {
    fn on_disk(&self) -> Option<&std::fs::File> {
        Self::on_disk(self)
    }
}

impl CachedFile for Arc<dyn Source> {
    fn on_disk(&self) -> Option<&std::fs::File> {
        self.file()
    }
}

impl ExternalFiles {
    pub(crate) fn new(path: Option<&Path>, policy: ExternalPolicy) -> Self {
        let home = Home::new(path);
        Self { home, policy, hdf5: Mutex::default(), raw: Mutex::default(), opened_paths: OnceLock::new() }
    }

    /// Releases the locks of the open HDF5 files.
    pub(crate) fn release_locks(&self) {
        let files: Vec<File> =
            self.hdf5.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        files.iter().for_each(File::release_locks);
    }

    /// Returns the paths of the files that were opened through this one.
    pub(crate) fn opened_paths(&self) -> Vec<PathBuf> {
        self.opened_set().lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn opened_set(&self) -> &Arc<Mutex<HashSet<PathBuf>>> {
        self.opened_paths.get_or_init(Arc::default)
    }

    /// Returns the current policy, which may be stricter while a function's inputs are read.
    fn policy(&self) -> ExternalPolicy {
        live::inputs_policy().map_or(self.policy, |inputs| inputs.max(self.policy))
    }

    /// Opens an HDF5 file by the name that `from` contains.
    pub(crate) fn open(&self, from: &File, name: &Name) -> Result<File> {
        let found = match self.sibling(from, name, &self.hdf5, |source, path| {
            File::from_source(source, Some(path.to_owned()), from.options())
        }) {
            Some(found) => found,
            None => self.find(from, name, &self.hdf5, |path, checked| match checked {
                // An epoch is opened by the name of its store.
                Some(file) if from.options().epoch.is_none() => {
                    let waiting = crate::write::settle_to_read(path)?;
                    File::from_local_file(
                        LocalFile::opened(file, path),
                        path,
                        from.options(),
                        waiting.as_ref(),
                    )
                }
                _ => File::open(path, from.options()),
            }),
        };
        if let Ok(file) = &found {
            // Files that it opens in turn are also opened through this one.
            drop(file.0.external.opened_paths.set(Arc::clone(self.opened_set())));
        }
        found.map_err(|error| from.with_context(error))
    }

    /// Opens a file of external raw data by the name that `from` contains.
    pub(crate) fn open_raw(&self, from: &File, name: &Name) -> Result<Arc<dyn Source>> {
        let open = |path: &Path, checked: Option<std::fs::File>| {
            // The logs of a store are companions of its file and must be trusted, even if named as raw data.
            let owner = companion::owner_of_log(path).filter(|owner| owner.is_file());
            let file = match (owner, checked) {
                (Some(owner), Some(file)) => companion::check_of_store(&owner, path, &file)
                    .and_then(|()| LocalFile::opened(file, path)),
                (Some(owner), None) => companion::open_of_store(&owner, path),
                (None, Some(file)) => LocalFile::opened(file, path),
                (None, None) => LocalFile::open(path),
            };
            file.map(|file| Arc::new(file) as Arc<dyn Source>)
        };
        let found = match self.sibling(from, name, &self.raw, |source, _| Ok(source)) {
            Some(found) => found,
            None => self.find(from, name, &self.raw, open),
        };
        found.map_err(|error| from.with_context(error))
    }

    /// Opens a file beside a remote file `from`; a remote file never opens local ones. `None` if `from` is a
    /// local file.
    fn sibling<T: Clone>(
        &self,
        from: &File,
        name: &Name,
        kept: &Cache<T>,
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
        if upward && self.policy() != ExternalPolicy::Anywhere {
            return Some(Err(self.outside(name)));
        }
        // Names on a server are not symbolic links, so there is no path to resolve and check.
        let key = Key::Named(PathBuf::from(text));
        if let Some(file) = kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Some(Ok(file.clone()));
        }
        let found = rounds::alone(|| match remote.sibling(text) {
            Some(source) => source.and_then(|source| open(source, &self.home.join(text))),
            None => {
                let message = format!(
                    "cannot open the file `{name}`, which the file names: its own source has no other files"
                );
                Err(Error::unsupported(message))
            }
        });
        Some(found.inspect(|file| keep(kept, key, file)))
    }

    /// Searches for a file as libhdf5 does. An absolute name is tried as it is, then its last part beside
    /// `from`; a relative one is tried beside `from`, then in the working folder. The first existing file
    /// decides: if the policy forbids it, the search ends with an error. Under a restrictive policy, a missing
    /// file whose name leads out of `from`'s folder is reported as forbidden. From a working folder elsewhere,
    /// only files that resolve into `from`'s folder are used, and the error does not reveal what else is there.
    fn find<T: CachedFile>(
        &self,
        from: &File,
        name: &Name,
        kept: &Cache<T>,
        open: impl Fn(&Path, Option<std::fs::File>) -> Result<T>,
    ) -> Result<T> {
        let given = to_path(name)?;
        if matches!(self.policy(), ExternalPolicy::Never | ExternalPolicy::Own) {
            return Err(refused(name));
        }
        let is_unrestricted = live::inputs_policy().is_none() && self.policy == ExternalPolicy::Anywhere;
        let mut forbidden = None;
        let is_confined = self.policy() != ExternalPolicy::Anywhere;
        for path in self.home.candidates(&given) {
            let is_elsewhere = is_confined && self.home.is_elsewhere(&path);
            let resolved = if is_unrestricted { None } else { place::resolve(&path) };
            let real = match resolved {
                Some(real) if is_elsewhere && !self.is_allowed(from, name, &real)? => None,
                real => real,
            };
            let key = match real {
                _ if is_unrestricted => Key::Named(path.clone()),
                Some(real) => {
                    self.check_place(from, name, &real)?;
                    Key::Checked(real)
                }
                None => {
                    if is_confined && !is_elsewhere && !self.home.names(&path) {
                        forbidden = forbidden.or_else(|| Some(self.outside(name)));
                    }
                    continue;
                }
            };
            if let Some(file) = kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
                return Ok(file.clone());
            }
            let named = Key::Named(path.clone());
            let opened = match &key {
                Key::Named(_) => open(&path, None),
                Key::Checked(real) => self.open_checked(from, name, real).and_then(|file| {
                    // If the same file is already open by its path alone, use that one, so that reads with
                    // and without a policy see the same version.
                    let before = kept.lock().unwrap_or_else(PoisonError::into_inner).get(&named).cloned();
                    let same = before.filter(|it| it.on_disk().is_some_and(|it| place::is_same(it, &file)));
                    same.map_or_else(|| open(&path, Some(file)), Ok)
                }),
            };
            match opened {
                Ok(file) => {
                    self.opened_set().lock().unwrap_or_else(PoisonError::into_inner).insert(path);
                    keep(kept, key, &file);
                    keep_new(kept, named, &file);
                    return Ok(file);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let place = match is_confined {
            true if self.is_for_inputs() => {
                " in this file's folder, and inputs must be there (`inputs` of the profile)"
            }
            true => " in this file's folder, and others must not be opened (option `external`)",
            false => "",
        };
        Err(forbidden.unwrap_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!("cannot open the file `{name}`, which the file names: it does not exist{place}"),
            )
        }))
    }

    /// Returns whether only the rules for inputs of functions restrict the search.
    fn is_for_inputs(&self) -> bool {
        live::inputs_policy().is_some() && self.policy == ExternalPolicy::Anywhere
    }

    /// Checks the resolved path of a file against the policy.
    fn check_place(&self, from: &File, name: &Name, real: &Path) -> Result<()> {
        if live::inputs_policy().is_some() && place::is_of_the_system(real) {
            return Err(no_input(name));
        }
        if self.is_allowed(from, name, real)? { Ok(()) } else { Err(self.outside(name)) }
    }

    /// Returns whether the policy allows a resolved path.
    fn is_allowed(&self, from: &File, name: &Name, real: &Path) -> Result<bool> {
        let policy = self.policy();
        if policy == ExternalPolicy::Anywhere {
            return Ok(true);
        }
        let below = self.home.below(from.0.source.file(), name, real)?;
        Ok(below.is_some_and(|below| policy != ExternalPolicy::Listed || !place::is_hidden(below)))
    }

    /// Opens a file whose resolved path was checked; an error if there is a symbolic link on it by now.
    fn open_checked(&self, from: &File, name: &Name, real: &Path) -> Result<std::fs::File> {
        let opened = match self.policy() {
            ExternalPolicy::Anywhere => {
                without_symlinks::open(real).map_err(|error| not_opened(name, &error))
            }
            _ => self.home.open(from.0.source.file(), name, real),
        };
        let is_file = |file: &std::fs::File| file.metadata().is_ok_and(|metadata| metadata.is_file());
        match opened {
            Ok(file) if live::inputs_policy().is_some() && !is_file(&file) => Err(no_input(name)),
            opened => opened,
        }
    }

    /// Returns the error for a file outside of the folder of the file that names it.
    fn outside(&self, name: &Name) -> Error {
        if self.is_for_inputs() {
            let message = format!(
                "cannot use the file `{name}` as an input: it is outside this file's folder (`inputs` of the profile)"
            );
            return Error::new(ErrorKind::Refused, message);
        }
        outside(name)
    }
}

fn no_input(name: &Name) -> Error {
    let message =
        format!("cannot use `{name}` as an input: it is no regular file, or it is in /proc, /sys or /dev");
    Error::new(ErrorKind::Refused, message)
}

/// Returns the error for a file that could not be opened after its path was checked.
fn not_opened(name: &Name, error: &std::io::Error) -> Error {
    if !without_symlinks::is_link(error) {
        return cannot("open", error);
    }
    let message = format!(
        "cannot open the file `{name}`: a symbolic link appeared on its path while it was opened; keep it in a \
         folder that only you may write to"
    );
    Error::new(ErrorKind::Refused, message)
}

fn outside(name: &Name) -> Error {
    Error::invalid(format!(
        "cannot open the file `{name}`: it is outside this file's folder (option `external`)"
    ))
}

/// Returns the error for a file that the policy forbids to open.
pub fn refused(name: &Name) -> Error {
    let message = format!(
        "cannot open the file `{name}`, which the file names: other files must not be opened (option `external`)"
    );
    Error::new(ErrorKind::Invalid, message)
}

fn keep<T: Clone>(kept: &Cache<T>, key: Key, file: &T) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= MAX_CACHED_KEYS {
        kept.clear();
    }
    kept.insert(key, file.clone());
}

/// Caches a file for reads without a policy, too, unless they already have one of that name.
fn keep_new<T: Clone>(kept: &Cache<T>, key: Key, file: &T) {
    kept.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert_with(|| file.clone());
}

pub(crate) fn to_path(name: &Name) -> Result<PathBuf> {
    crate::os::path_from_bytes(name.as_bytes())
        .ok_or_else(|| Error::unsupported(format!("the file name `{name}` is not UTF-8")))
}

/// Fills `buffer` from `offset` of a file of raw data. Bytes past its end are 0, as in libhdf5, because
/// writers extend the file only as far as they wrote.
pub(crate) fn read_raw(file: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
    let there = usize::try_from(file.size().saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
    let (head, tail) = buffer.split_at_mut(there);
    tail.fill(0);
    if head.is_empty() { Ok(()) } else { file.read_at(offset, head) }
}
