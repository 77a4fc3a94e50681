//! Folder of spilled objects: files of the pool's owner that no other user can create, read or change.

use super::object::read_head;
use super::{Pool, failed};
use hyperchunk::output::{Folder, temporary};
use hyperchunk::{Error, ErrorKind, Result};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Extension of the files of spilled objects.
const EXTENSION: &str = "object";

/// An open folder of spilled objects. It belongs to the user, and others cannot write to it.
#[derive(Debug)]
pub(super) struct SpillFolder(Folder);

/// An unfinished file of a spilled object, which is deleted unless it gets its name.
#[derive(Debug)]
pub(super) struct SpillFile {
    folder: SpillFolder,
    temporary: OsString,
    name: OsString,
    pub(super) file: File,
    is_named: bool,
}

/// Returns the name of the file that an object is spilled to.
pub(super) fn file_name(name: &str) -> OsString {
    let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    // File names have at most 255 bytes.
    let digits = match digits.len() {
        0..=200 => digits,
        _ => {
            let hash = twox_hash::XxHash3_128::oneshot(name.as_bytes());
            format!("{}-{hash:032x}", &digits[..160])
        }
    };
    format!("{digits}.{EXTENSION}").into()
}

/// Returns whether a folder or file is this user's, and others cannot write to it.
fn is_own(user: u32, mode: u32) -> bool {
    // SAFETY: no pointers.
    user == unsafe { libc::geteuid() } && mode & 0o022 == 0
}

/// Returns whether an open file is one of the user's, and others cannot write to it.
fn is_own_file(found: &Metadata) -> bool {
    found.is_file() && is_own(found.uid(), found.mode())
}

/// Opens a folder, and makes it and those above it unless they exist.
fn open_or_make(path: &Path) -> io::Result<Folder> {
    match (Folder::open(path), path.parent(), path.file_name()) {
        (Err(error), Some(parent), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
            match open_or_make(parent)?.make(name, 0o700) {
                // Another process created it in the meantime.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
            Folder::open(path)
        }
        (opened, ..) => opened,
    }
}

impl SpillFolder {
    /// Makes the folder of a new pool, unless it exists, and checks it.
    ///
    /// # Errors
    /// As [`SpillFolder::open`].
    pub(super) fn make(path: &Path) -> Result<()> {
        let folder = open_or_make(path).map_err(|error| failed("make the folder", path, &error))?;
        Self::checked(folder).map(drop)
    }

    /// Opens the folder at an absolute path.
    ///
    /// # Errors
    /// NotFound; Invalid if it is another user's, or others can write to it; Io.
    pub(super) fn open(path: &Path) -> Result<Self> {
        Self::checked(Folder::open(path).map_err(|error| failed("open the folder", path, &error))?)
    }

    fn checked(folder: Folder) -> Result<Self> {
        let path = folder.path();
        let found =
            folder.metadata().map_err(|error| failed("read the metadata of the folder", path, &error))?;
        if !is_own(found.uid(), found.mode()) {
            let (user, mode) = (found.uid(), found.mode() & 0o7777);
            let message = format!(
                "cannot use the folder for spilled objects: expected a folder of yours that others cannot write to, got one of user {user} with permissions {mode:03o}; name a folder that does not exist, or change its owner or permissions (chown, chmod 700)"
            );
            return Err(Error::invalid(message).file(path.display()));
        }
        Ok(Self(folder))
    }

    /// Returns whether an object is spilled.
    pub(super) fn has(&self, name: &str) -> bool {
        let found = self.0.look(&file_name(name));
        found.is_ok_and(|found| found.is_file() && is_own(found.user, found.mode))
    }

    /// Opens the file of an object for reading; `None` if there is none.
    ///
    /// # Errors
    /// Invalid if it is a link, a folder, a pipe or a device, another user's, or others can write to it; Io.
    pub(super) fn open_object(&self, name: &str) -> Result<Option<(File, PathBuf)>> {
        let name = file_name(name);
        let path = self.0.path().join(&name);
        let unfit = || {
            let message = "cannot read the spilled object: expected a regular file of yours that others cannot write to, got another one; delete it, or change its owner or permissions (chown, chmod 600)";
            Err(Error::invalid(message).file(path.display()))
        };
        match self.0.open_to_read(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => unfit(),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENXIO)) => unfit(),
            Err(error) => Err(failed("read", &path, &error)),
            Ok(file) => {
                let found = file.metadata().map_err(|error| failed("read the metadata of", &path, &error))?;
                if is_own_file(&found) { Ok(Some((file, path))) } else { unfit() }
            }
        }
    }

    /// Deletes the file of an object; returns false if there is none.
    ///
    /// # Errors
    /// Io.
    pub(super) fn delete(&self, name: &str) -> Result<bool> {
        let name = file_name(name);
        match self.0.remove(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed("delete", &self.0.path().join(&name), &error)),
            Ok(()) => Ok(true),
        }
    }

    /// Returns the names and lengths of the spilled objects. Incomplete files, and files of other users,
    /// are ignored.
    ///
    /// # Errors
    /// Io.
    pub(super) fn list(&self) -> Result<Vec<(String, u64)>> {
        let path = self.0.path();
        let mut all = Vec::new();
        for entry in fs::read_dir(path).map_err(|error| failed("read", path, &error))?.flatten() {
            let file = entry.file_name();
            if Path::new(&file).extension() != Some(OsStr::new(EXTENSION)) {
                continue;
            }
            if let Ok(mut opened) = self.0.open_to_read(&file)
                && opened.metadata().is_ok_and(|found| is_own_file(&found))
                && let Ok(Some(found)) = read_head(&mut opened)
                && file_name(&found.0) == file
            {
                all.push(found);
            }
        }
        Ok(all)
    }

    /// Starts the file of an object, which only the user can access.
    ///
    /// # Errors
    /// Io.
    pub(super) fn create(self, name: &str) -> Result<SpillFile> {
        let name = file_name(name);
        let temporary = temporary(&name);
        let made = self.0.create(&temporary, 0, 0o600);
        let file = made.map_err(|error| failed("spill to", &self.0.path().join(&name), &error))?;
        Ok(SpillFile { folder: self, temporary, name, file, is_named: false })
    }
}

impl SpillFile {
    /// Returns its final path.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.0.path().join(&self.name)
    }

    /// Syncs the file and gives it its name.
    ///
    /// # Errors
    /// Io.
    pub(super) fn finish(mut self) -> Result<()> {
        let folder = &self.folder.0;
        let named =
            self.file.sync_all().and_then(|()| folder.rename(&self.temporary, (folder, &self.name), true));
        named.map_err(|error| failed("spill to", &self.path(), &error))?;
        folder.sync();
        self.is_named = true;
        Ok(())
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        if !self.is_named {
            // The earlier error is the one to report.
            drop(self.folder.0.remove(&self.temporary));
        }
    }
}

impl Pool {
    /// Opens the folder for spilled objects. `None` if the pool has none, or if it was deleted.
    pub(super) fn spill_folder(&self) -> Result<Option<SpillFolder>> {
        let Some(path) = &self.0.spill else { return Ok(None) };
        match SpillFolder::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }
}
