//! The folder of a file that names other files: the paths at which a name is searched for, and the check that
//! a path is inside the folder. A *resolved* path is absolute and has no symbolic links.

use super::not_opened;
use crate::io::without_symlinks;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::model::Name;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// The folder of a file that names others.
#[derive(Debug)]
pub(super) struct Home {
    folder: Option<PathBuf>,
    /// The name of the file in it.
    name: OsString,
    /// The folder's resolved path, set once the file was seen in it. It stays the same if a symbolic link
    /// replaces the folder later.
    real: OnceLock<PathBuf>,
}

impl Home {
    pub(super) fn new(path: Option<&Path>) -> Self {
        let folder = path.map(|path| path.parent().unwrap_or(Path::new("")).to_owned());
        let name = path.and_then(Path::file_name).unwrap_or_default().to_owned();
        Self { folder, name, real: OnceLock::new() }
    }

    /// Returns the path of a name in the folder.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.folder.as_ref().map_or_else(|| PathBuf::from(name), |folder| folder.join(name))
    }

    /// Returns the paths at which a name is searched for, in order.
    pub(super) fn candidates(&self, given: &Path) -> Vec<PathBuf> {
        let mut candidates = Vec::new();
        if given.is_absolute() {
            candidates.push(given.to_owned());
        }
        if let Some(folder) = &self.folder {
            let beside = if given.is_absolute() { given.file_name().map(Path::new) } else { Some(given) };
            candidates.extend(beside.map(|beside| folder.join(beside)));
        }
        if !given.is_absolute() {
            candidates.push(given.to_owned());
        }
        candidates
    }

    /// Returns whether a path, which does not exist, would be in the folder or below it. Only its name decides; one
    /// with `..` would not.
    pub(super) fn names(&self, path: &Path) -> bool {
        let (Some(folder), Some(path)) = (self.folder.as_deref().and_then(absolute), absolute(path)) else {
            return false;
        };
        path.strip_prefix(folder).is_ok_and(|path| {
            path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        })
    }

    /// Returns whether a candidate is in the working folder, and that is outside of the folder.
    pub(super) fn is_elsewhere(&self, path: &Path) -> bool {
        let folder = self.folder.as_deref().and_then(absolute);
        let working = path.is_relative().then(|| absolute(Path::new(""))).flatten();
        folder.zip(working).is_some_and(|(folder, working)| !working.starts_with(folder))
    }

    /// Returns the part of a resolved path below the folder; `None` if the path is outside of it. `own` is
    /// the file itself, if it is on disk.
    ///
    /// # Errors
    /// Refused if the folder no longer contains the file.
    pub(super) fn below<'a>(
        &self,
        own: Option<&File>,
        name: &Name,
        real: &'a Path,
    ) -> Result<Option<&'a Path>> {
        let Some(given) = &self.folder else { return Ok(None) };
        if let Some(folder) = self.real.get() {
            return Ok(real.strip_prefix(folder).ok());
        }
        let folder = resolve(given).ok_or_else(|| elsewhere(name, given))?;
        self.hold(own, name, &folder)?;
        let folder = self.real.get_or_init(|| folder);
        Ok(real.strip_prefix(folder).ok())
    }

    /// Opens a file that is in the folder or below it, by its resolved path.
    ///
    /// # Errors
    /// As [`Home::below`]; Refused if there is a symbolic link on the path; the system's errors.
    pub(super) fn open(&self, own: Option<&File>, name: &Name, real: &Path) -> Result<File> {
        let below = self.below(own, name, real)?;
        let (Some(below), Some(folder)) = (below, self.real.get()) else { return Err(elsewhere(name, real)) };
        let held = self.hold(own, name, folder)?;
        held.file(below).map_err(|error| not_opened(name, &error))
    }

    /// Opens the folder, and checks that it contains the file.
    fn hold(&self, own: Option<&File>, name: &Name, folder: &Path) -> Result<without_symlinks::Folder> {
        let held = without_symlinks::Folder::open(folder).map_err(|error| not_opened(name, &error))?;
        match own.is_none_or(|own| held.has(folder, &self.name, own)) {
            true => Ok(held),
            false => Err(elsewhere(name, folder)),
        }
    }
}

fn elsewhere(name: &Name, folder: &Path) -> Error {
    let message = format!(
        "cannot search for the file `{name}` beside this one: the folder {} no longer contains this file; open \
         this file again",
        folder.display()
    );
    Error::new(ErrorKind::Refused, message)
}

/// Returns a path from the root, without looking at files; symbolic links and `..` stay.
fn absolute(path: &Path) -> Option<PathBuf> {
    std::path::absolute(if path.as_os_str().is_empty() { Path::new(".") } else { path }).ok()
}

/// Returns the resolved path of a file or folder; `None` if it does not exist or cannot be reached.
pub(super) fn resolve(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(if path.as_os_str().is_empty() { Path::new(".") } else { path }).ok()
}

/// Returns whether two open files are the same one.
pub(super) fn is_same(one: &File, other: &File) -> bool {
    one.metadata().is_ok_and(|one| other.metadata().is_ok_and(|other| crate::os::is_same(&one, &other)))
}

/// Returns whether a resolved path is in one of the kernel's file systems.
pub(super) fn is_of_the_system(real: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|folder| real.starts_with(folder))
}

/// Returns whether a part of a path begins with a dot.
pub(super) fn is_hidden(below: &Path) -> bool {
    below.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."))
}
