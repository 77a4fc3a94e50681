//! Other files that a file names: in external links, as sources of virtual datasets, for raw data.

mod place;
#[cfg(all(test, unix))]
mod tests;

use crate::companion;
use crate::file::{ExternalPolicy, File};
use crate::io::local::cannot;
use crate::io::{LocalFile, Source, rounds, unlinked};
use crate::live;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::model::Name;
use place::Home;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Maximum number of other files that one file keeps open.
const KEPT: usize = 64;

/// The other files of one file.
#[derive(Debug)]
pub(crate) struct ExternalFiles {
    /// The folder of the file that names them.
    home: Home,
    policy: ExternalPolicy,
    hdf5: Kept<File>,
    raw: Kept<Arc<dyn Source>>,
    /// Where all of them were found that were ever opened, also by those files themselves.
    read: OnceLock<Arc<Mutex<HashSet<PathBuf>>>>,
}

type Kept<T> = Mutex<HashMap<Key, T>>;

/// Identity of an open file. One that was opened without rules is not used where there are some: a link may
/// have led it anywhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// The path by which it was opened.
    Named(PathBuf),
    /// The path without links that was checked before the file was opened by it.
    Checked(PathBuf),
}

/// What is kept of another file.
trait Opened: Clone {
    /// Returns the file on disk.
    fn on_disk(&self) -> Option<&std::fs::File>;
}

impl Opened for File {
    fn on_disk(&self) -> Option<&std::fs::File> {
        Self::on_disk(self)
    }
}

impl Opened for Arc<dyn Source> {
    fn on_disk(&self) -> Option<&std::fs::File> {
        self.file()
    }
}

impl ExternalFiles {
    pub(crate) fn new(path: Option<&Path>, policy: ExternalPolicy) -> Self {
        let home = Home::new(path);
        Self { home, policy, hdf5: Mutex::default(), raw: Mutex::default(), read: OnceLock::new() }
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
            // What it reads in turn is read through this one, too.
            drop(file.0.external.read.set(Arc::clone(self.found())));
        }
        found.map_err(|error| from.name(error))
    }

    /// Opens the file of raw data of that name.
    pub(crate) fn open_raw(&self, from: &File, name: &Name) -> Result<Arc<dyn Source>> {
        let open = |path: &Path, checked: Option<std::fs::File>| {
            // The logs of a store are companions of its file, also if they are named as raw data.
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
        found.map_err(|error| from.name(error))
    }

    /// Opens the file of that name beside a file over a network, which may never name local files. `None`
    /// if `from` is itself a local file.
    fn sibling<T: Clone>(
        &self,
        from: &File,
        name: &Name,
        kept: &Kept<T>,
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
        // A name on a server cannot become a link to another place.
        let key = Key::Named(PathBuf::from(text));
        if let Some(file) = kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Some(Ok(file.clone()));
        }
        let found = rounds::alone(|| match remote.sibling(text) {
            Some(source) => source.and_then(|source| open(source, &self.home.join(text))),
            None => {
                let message = format!("it leads to the file `{name}`, and this source knows no others");
                Err(Error::unsupported(message))
            }
        });
        Some(found.inspect(|file| keep(kept, key, file)))
    }

    /// Searches for a name as libhdf5 does. An absolute name is tried as it is, then its last part beside
    /// the file; a relative one beside the file, then in the working folder. The first place at which there
    /// is a file decides: if the rules forbid that file, there is no other.
    fn find<T: Opened>(
        &self,
        from: &File,
        name: &Name,
        kept: &Kept<T>,
        open: impl Fn(&Path, Option<std::fs::File>) -> Result<T>,
    ) -> Result<T> {
        let given = to_path(name)?;
        if matches!(self.policy(), ExternalPolicy::Never | ExternalPolicy::Own) {
            return Err(refused(name));
        }
        let is_free = live::inputs_policy().is_none() && self.policy == ExternalPolicy::Anywhere;
        let mut forbidden = None;
        for path in self.home.candidates(&given) {
            let real = if is_free { None } else { place::resolve(&path) };
            let key = match real {
                _ if is_free => Key::Named(path.clone()),
                Some(real) => {
                    self.check_place(from, name, &real)?;
                    Key::Checked(real)
                }
                None => {
                    if self.policy() != ExternalPolicy::Anywhere && !self.home.names(&path) {
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
                    // Usually the same as without rules: then both see one version of it.
                    let before = kept.lock().unwrap_or_else(PoisonError::into_inner).get(&named).cloned();
                    let same = before.filter(|it| it.on_disk().is_some_and(|it| place::is_same(it, &file)));
                    same.map_or_else(|| open(&path, Some(file)), Ok)
                }),
            };
            match opened {
                Ok(file) => {
                    self.found().lock().unwrap_or_else(PoisonError::into_inner).insert(path);
                    keep(kept, key, &file);
                    keep_new(kept, named, &file);
                    return Ok(file);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(forbidden.unwrap_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("it leads to the file `{name}`, which is not there"))
        }))
    }

    /// Refuses a file by its path without links.
    fn check_place(&self, from: &File, name: &Name, real: &Path) -> Result<()> {
        if live::inputs_policy().is_some() && place::is_of_the_system(real) {
            return Err(no_input(name));
        }
        let policy = self.policy();
        if policy == ExternalPolicy::Anywhere {
            return Ok(());
        }
        let below = self.home.below(from.0.source.file(), name, real)?;
        let may = |below: &Path| policy != ExternalPolicy::Listed || !place::is_hidden(below);
        if below.is_some_and(may) { Ok(()) } else { Err(self.outside(name)) }
    }

    /// Opens a file whose place was checked; an error if it is another place by now.
    fn open_checked(&self, from: &File, name: &Name, real: &Path) -> Result<std::fs::File> {
        let opened = match self.policy() {
            ExternalPolicy::Anywhere => unlinked::open(real).map_err(|error| not_opened(name, &error)),
            _ => self.home.open(from.0.source.file(), name, real),
        };
        let is_file = |file: &std::fs::File| file.metadata().is_ok_and(|metadata| metadata.is_file());
        match opened {
            Ok(file) if live::inputs_policy().is_some() && !is_file(&file) => Err(no_input(name)),
            opened => opened,
        }
    }

    /// Returns the error for a file outside of the folder.
    fn outside(&self, name: &Name) -> Error {
        if live::inputs_policy().is_some() && self.policy == ExternalPolicy::Anywhere {
            let message = format!(
                "it leads to the file `{name}`, outside this file's folder, from where functions get no inputs (profile, `inputs`)"
            );
            return Error::new(ErrorKind::Refused, message);
        }
        outside(name)
    }
}

fn no_input(name: &Name) -> Error {
    let message =
        format!("it leads to `{name}`, which is no regular file, or one of the system's, and so no input");
    Error::new(ErrorKind::Refused, message)
}

/// Returns the error for a file that could not be opened after its place had been checked.
fn not_opened(name: &Name, error: &std::io::Error) -> Error {
    if !unlinked::is_link(error) {
        return cannot("open", error);
    }
    let message = format!(
        "cannot open the file `{name}`: expected it where it was a moment ago, got a link there; keep it in a folder that \
         you alone may write to"
    );
    Error::new(ErrorKind::Refused, message)
}

fn outside(name: &Name) -> Error {
    Error::invalid(format!("it leads to the file `{name}`, outside this file's folder (option `external`)"))
}

/// Returns the error for a file that must not be opened.
pub fn refused(name: &Name) -> Error {
    let message =
        format!("it leads to the file `{name}`, and other files must not be opened (option `external`)");
    Error::new(ErrorKind::Invalid, message)
}

fn keep<T: Clone>(kept: &Kept<T>, key: Key, file: &T) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= KEPT {
        kept.clear();
    }
    kept.insert(key, file.clone());
}

/// Keeps a file for reads without rules, too, unless they have one of that name.
fn keep_new<T: Clone>(kept: &Kept<T>, key: Key, file: &T) {
    kept.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert_with(|| file.clone());
}

pub(crate) fn to_path(name: &Name) -> Result<PathBuf> {
    crate::os::path_from_bytes(name.as_bytes())
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
