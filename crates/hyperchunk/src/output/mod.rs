//! Output files of commands and functions: written whole or not at all, and never through a link.
//!
//! **The rule.** An existing output is an error, unless it is to be replaced. An output that is also an
//! input, by any name or link, is always an error. A name with the suffix of another format is an error that
//! lists the known suffixes. A file appears only when it is complete: it is written under a random name in
//! its folder, synced, and renamed. The folder is accessed through a handle, and files in it are created with
//! `O_CREAT | O_EXCL | O_NOFOLLOW`, so that nothing an attacker planted there is followed or written to. A
//! symbolic link at the output's path is replaced, not written through. Devices and pipes are written to
//! directly, unless the path is another user's link. A link of another user on the path to the folder is an
//! error if it is in a folder that is sticky or world-writable.
//!
//! A process that is killed leaves a file `.NAME.32-HEXADECIMAL-DIGITS.part`, which nothing reads and which
//! may be deleted. A folder that is replaced exchanges names with the new one. Where the system cannot do
//! that, the old folder is first renamed to `.NAME.32-HEXADECIMAL-DIGITS.old`. A process that is killed at
//! this moment leaves the only copy there; rename it back.

#[cfg(target_os = "linux")]
mod extended;
mod folder;
mod suffix;
#[cfg(target_os = "linux")]
mod way;

#[cfg(target_os = "linux")]
pub(crate) use extended::copy_extended_attributes;
pub use folder::{Entry, Folder};
pub use suffix::{Kind, accept, accept_folder, choose, known};

use crate::id::random_name;
use crate::io::local::EXISTS;
use crate::io::{Lock, Locking};
use crate::os;
use crate::{Error, ErrorKind, Result, companion};
use hyperchunk_format::printable::escape;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum length of a path in a message, in characters.
const MAX_SHOWN_CHARACTERS: usize = 2000;
/// Maximum length of a chain of symbolic links.
const MAX_LINKS: usize = 40;
/// Maximum length of a file name in bytes, as on nearly all file systems.
const MAX_NAME_BYTES: usize = 255;
/// Length in bytes of a temporary name without the file's own name.
const TEMPORARY_BYTES: usize = 40;
/// Permissions of a new file, before the user's mask.
const USUAL_MODE: u32 = 0o666;
/// Permissions of a file's group.
#[cfg(unix)]
const GROUP_BITS: u32 = 0o070;

fn cannot_write(path: &Path, why: &str) -> Error {
    Error::invalid(format!("cannot write {}: {why}", shown(path)))
}

fn shown(path: &Path) -> String {
    escape(&path.to_string_lossy(), MAX_SHOWN_CHARACTERS)
}

fn io_error(path: &Path, error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot write {}: {error}", shown(path)))
}

/// Returns an unpredictable name beside `name`.
#[must_use]
pub fn temporary(name: &OsStr) -> OsString {
    beside(name, "part")
}

/// Returns an unpredictable name beside `name`, with a suffix of four characters at most.
fn beside(name: &OsStr, suffix: &str) -> OsString {
    let mut temporary = OsString::from(".");
    temporary.push(os::shortened(name, MAX_NAME_BYTES - TEMPORARY_BYTES));
    temporary.push(format!(".{}.{suffix}", random_name()));
    temporary
}

/// Returns whether two paths refer to the same file.
#[must_use]
pub fn same_file(one: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    {
        let file = |path: &Path| std::fs::metadata(path).ok().filter(Metadata::is_file);
        file(one).is_some_and(|one| file(other).is_some_and(|other| os::is_same(&one, &other)))
    }
    #[cfg(not(unix))]
    std::fs::canonicalize(one)
        .is_ok_and(|found| std::fs::canonicalize(other).is_ok_and(|other| other == found))
}

/// Checks that an output is neither in an input folder nor one of the files in it, by any name or link.
///
/// # Errors
/// Invalid if it is.
pub fn check_folder(path: &Path, folder: &Path) -> Result<()> {
    let Ok(folder) = folder.canonicalize() else { return Ok(()) };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_within = [path, parent]
        .into_iter()
        .any(|path| path.canonicalize().is_ok_and(|path| path.starts_with(&folder)));
    if is_within || path.is_file() && has(&folder, path) {
        return Err(cannot_write(
            path,
            "it is an input of this command, or is in a folder that is an input; name another output",
        ));
    }
    Ok(())
}

/// Returns whether a file is below a folder.
fn has(folder: &Path, file: &Path) -> bool {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                Ok(kind) if kind.is_file() && same_file(&entry.path(), file) => return true,
                _ => {}
            }
        }
    }
    false
}

/// Checks that an output replaces neither an input, by any name or link, nor, without `overwrite`, an
/// existing file. Devices and pipes are written to and never replaced.
///
/// # Errors
/// Invalid or Exists, with the reason; Locked if a program is writing the file; Io if the user may not write
/// to it; the errors of completing an interrupted edit.
pub fn check(path: &Path, overwrite: bool, inputs: &[&Path]) -> Result<()> {
    check_place(path, overwrite, inputs)?;
    if is_stream(path) { Ok(()) } else { check_unwritten(path, Locking::Default, false).map(drop) }
}

/// Does the checks of [`check`], except for the one that no program is writing the existing file.
fn check_place(path: &Path, overwrite: bool, inputs: &[&Path]) -> Result<()> {
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    if inputs.iter().any(|input| same_file(path, input)) {
        return Err(is_input(path));
    }
    if is_stream(path) {
        return Ok(());
    }
    if found.is_dir() {
        return Err(cannot_write(path, "it is a folder"));
    }
    if !overwrite {
        return Err(exists(path));
    }
    check_permission(path)
}

/// Checks that the user may write to the file or folder that is replaced. A symbolic link is replaced itself,
/// and has no permissions.
///
/// # Errors
/// Io, with the system's code (`EACCES`, or `EROFS` on a read-only file system).
pub(crate) fn check_permission(path: &Path) -> Result<()> {
    let what = match path.symlink_metadata() {
        Ok(found) if found.is_file() => "file",
        Ok(found) if found.is_dir() => "folder",
        _ => return Ok(()),
    };
    let permitted = Folder::open_parent(path).and_then(|(folder, name)| folder.check_writable(&name));
    match permitted {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let message = format!(
                "cannot replace the {what}: expected one that you may write to, got one that you may not ({error}); \
                 change its permissions, or name another {what}"
            );
            Err(Error::new(ErrorKind::Io, message).caused_by(&error).file(shown(path)))
        }
        _ => Ok(()),
    }
}

/// Checks that no program is writing a file that is to be replaced: its later changes would be lost. Completes
/// or discards an interrupted edit of it first. Readers keep the file that they opened. While the returned lock
/// lives, no program can begin to write the file. `has_journal`: the caller holds the journal of that name, so
/// no other writer does.
///
/// # Errors
/// Locked if a program writes it; the errors of completing an edit.
pub(crate) fn check_unwritten(path: &Path, locking: Locking, has_journal: bool) -> Result<Option<Arc<Lock>>> {
    crate::write::settle_to_replace(path)?;
    let Some(found) = path.symlink_metadata().ok().filter(Metadata::is_file) else { return Ok(None) };
    let named = |error: Error| error.file(shown(path));
    crate::write::check_not_edited(&found).map_err(named)?;
    if locking.resolved() == Locking::Never {
        return Ok(None);
    }
    let lock = Lock::to_replace(path, locking).map_err(named)?;
    if !has_journal {
        crate::write::check_unjournalled(path).map_err(named)?;
    }
    Ok(lock)
}

/// Returns the error of an output that is an input.
pub(crate) fn is_input(path: &Path) -> Error {
    cannot_write(path, "it is an input of this command; name another output")
}

/// Checks that an output does not exist, for callers that replace nothing.
///
/// # Errors
/// Exists if the name exists.
pub fn check_new(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(_) => Err(exists_error(path, "it exists; delete it, or name another output")),
        Err(_) => Ok(()),
    }
}

/// Checks, before any work is done for an output, that its folder exists and is not reached through a link
/// that another user planted.
///
/// # Errors
/// Io, with the reason.
pub fn check_folder_path(path: &Path) -> Result<()> {
    Folder::open_parent(path).map(drop).map_err(|error| io_error(path, &error))
}

/// Makes a folder and its missing parents. Links that another user planted are refused (see [`Folder::open`]).
///
/// # Errors
/// Io.
pub fn make_folders(path: &Path) -> Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    make_missing(path).map_err(|error| {
        Error::new(ErrorKind::Io, format!("cannot make the folder {}: {error}", shown(path)))
    })
}

fn make_missing(path: &Path) -> io::Result<()> {
    let missing = match Folder::open(path) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => error,
        Err(error) => return Err(error),
    };
    let above = path.parent().ok_or(missing)?;
    make_missing(if above.as_os_str().is_empty() { Path::new(".") } else { above })?;
    if path.file_name().is_some() {
        let (folder, name) = Folder::open_parent(path)?;
        match folder.make(&name, 0o777) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            // Another program may have created it meanwhile.
            _ => {}
        }
    }
    Folder::open(path).map(drop)
}

/// Gives the complete file `made` its final name in the same folder, with the permissions of the user's file
/// that it replaces.
///
/// # Errors
/// Exists if the name exists and may not be replaced; Invalid if it is a folder; Io from the system.
pub fn publish(made: &Path, path: &Path, replace: bool) -> Result<()> {
    check(path, replace, &[])?;
    let publish = || {
        let (folder, name) = Folder::open_parent(path)?;
        let made = made.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        keep_permissions(&folder, &name, &folder.open_file(made)?);
        folder.rename(made, (&folder, &name), replace)?;
        folder.sync();
        Ok(())
    };
    publish().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => io_error(path, &error),
    })
}

fn exists_error(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Exists, format!("cannot write {}: {why}", shown(path))).with_os_code(EXISTS)
}

/// Returns the error of an output that exists and may not be replaced.
#[must_use]
pub fn exists(path: &Path) -> Error {
    exists_error(path, "it exists (--overwrite replaces it; in Python, overwrite=True)")
}

/// Returns whether `path` is a device, a pipe or a socket, which is written to and never replaced. A symbolic
/// link to one counts only if the link belongs to the user or root, as `/dev/stdout` does; a pipe or socket
/// must belong to one of them, too.
#[must_use]
pub fn is_stream(path: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else { return false };
    if metadata.is_file() || metadata.is_dir() {
        return false;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
        let is_device = metadata.file_type().is_char_device() || metadata.file_type().is_block_device();
        let own = |user: u32| user == 0 || user == companion::effective_user();
        let link = path.symlink_metadata();
        link.is_ok_and(|link| !link.is_symlink() || own(link.uid())) && (is_device || own(metadata.uid()))
    }
    #[cfg(not(unix))]
    true
}

/// Resolves the symbolic links of a path, for callers that write an existing file, as `open(path, "w")`
/// does, or change one in place. The last target need not exist.
///
/// # Errors
/// Invalid for a link that belongs neither to the user nor to root nor to the owner of a folder that only
/// its owner may write to, and for another user's link on the path to it (see [`Folder::open`]).
pub fn target(path: &Path) -> Result<PathBuf> {
    let mut at = path.to_owned();
    for _ in 0..MAX_LINKS {
        #[cfg(target_os = "linux")]
        if let Err(error) = Folder::open_parent(&at)
            && way::is_refusal(&error)
        {
            return Err(cannot_write(path, &error.to_string()));
        }
        let Ok(link) = at.symlink_metadata() else { return Ok(at) };
        if !link.is_symlink() {
            return Ok(at);
        }
        let folder = at.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            let user = link.uid();
            let of_the_folder = || {
                std::fs::metadata(folder)
                    .is_ok_and(|folder| folder.uid() == user && folder.mode() & 0o022 == 0)
            };
            if user != 0 && user != companion::effective_user() && !of_the_folder() {
                let why = format!(
                    "expected a file or a link of yours, got the symbolic link {} of user {user}, who could lead it \
                     anywhere; delete the link, or name the file that it leads to",
                    shown(&at)
                );
                return Err(cannot_write(path, &why));
            }
        }
        let to = std::fs::read_link(&at).map_err(|error| io_error(path, &error))?;
        at = folder.join(to);
    }
    let message = format!("cannot write {}: too many symbolic links", shown(path));
    Err(Error::new(ErrorKind::Io, message))
}

/// An output file that gets its name when it is complete.
#[derive(Debug)]
pub struct Output {
    file: Option<File>,
    place: Option<Place>,
    path: PathBuf,
}

/// Location of an unfinished file, and its final name.
#[derive(Debug)]
struct Place {
    folder: Folder,
    temporary: OsString,
    name: OsString,
    replace: bool,
    /// Set if the caller holds the lock of the file that is replaced.
    is_locked: bool,
}

impl Output {
    /// Starts a file. A device or a pipe is written to directly.
    ///
    /// # Errors
    /// Exists if the path exists and may not be replaced; Invalid if it is a folder; Io from the system.
    pub fn create(path: &Path, replace: bool) -> Result<Self> {
        check(path, replace, &[])?;
        Self::start(path, replace, false)
    }

    fn start(path: &Path, replace: bool, is_locked: bool) -> Result<Self> {
        if is_stream(path) {
            let file = File::options().write(true).open(path).map_err(|error| io_error(path, &error))?;
            if file.metadata().map_or(true, |metadata| metadata.is_file()) {
                return Err(cannot_write(path, "another program replaced it meanwhile"));
            }
            return Ok(Self { file: Some(file), place: None, path: path.to_owned() });
        }
        let io_error = |error: io::Error| io_error(path, &error);
        let (folder, name) = Folder::open_parent(path).map_err(io_error)?;
        let temporary = temporary(&name);
        let file = create_unfinished(&folder, &temporary, &name, 0).map_err(io_error)?;
        // From here on, dropping the `Place` deletes the file.
        let place = Place { folder, temporary, name, replace, is_locked };
        Ok(Self { file: Some(file), place: Some(place), path: path.to_owned() })
    }

    /// Removes write permission from users who may not write to the file at `of`: see
    /// [`companion::tighten`].
    pub fn tighten(&self, of: &Path) {
        if let (Some(file), Some(_)) = (&self.file, &self.place) {
            companion::tighten_file(file, of);
        }
    }

    /// Returns the file's size in bytes.
    ///
    /// # Errors
    /// Io.
    pub fn size(&self) -> Result<u64> {
        let metadata =
            self.file.as_ref().map_or_else(|| Err(io::Error::other("it is closed")), File::metadata);
        metadata.map(|metadata| metadata.len()).map_err(|error| io_error(&self.path, &error))
    }

    /// Syncs the file and gives it its name.
    ///
    /// # Errors
    /// Io; Exists if the name has appeared meanwhile; Invalid if another program deleted or replaced the
    /// unfinished file; Locked if a program is writing the file that is replaced. After an error the unfinished
    /// file is deleted.
    pub fn finish(mut self) -> Result<()> {
        let (Some(file), Some(place)) = (self.file.take(), &self.place) else { return Ok(()) };
        file.sync_all().map_err(|error| io_error(&self.path, &error))?;
        if !place.folder.is_at(&place.temporary, &file) {
            return Err(cannot_write(
                &self.path,
                "another program deleted the unfinished file, or put its own in its place",
            ));
        }
        if place.replace && !place.is_locked {
            check_unwritten(&self.path, Locking::Default, false)?;
        }
        let renamed = place.folder.rename(&place.temporary, (&place.folder, &place.name), place.replace);
        renamed.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&self.path),
            _ => io_error(&self.path, &error),
        })?;
        place.folder.sync();
        self.place = None;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(place) = &self.place {
            // The file was not finished, and an earlier error is the one to report.
            drop(place.folder.remove(&place.temporary));
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().map_or(Ok(0), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}

/// Creates an unfinished file that is to replace `name`. It never has more permissions than an existing file
/// `name`.
///
/// # Errors
/// As [`Folder::create`].
pub(crate) fn create_unfinished(
    folder: &Folder,
    temporary: &OsStr,
    name: &OsStr,
    flags: i32,
) -> io::Result<File> {
    #[cfg(unix)]
    let mode = folder.look(name).map_or(USUAL_MODE, |old| first_mode(&old));
    #[cfg(not(unix))]
    let mode = USUAL_MODE;
    let file = folder.create(temporary, flags, mode)?;
    keep_permissions(folder, name, &file);
    Ok(file)
}

/// Returns the permissions with which a file is created that is to replace another one. The group has none,
/// because it may differ from the other file's group.
#[cfg(unix)]
fn first_mode(old: &Entry) -> u32 {
    if old.is_file() { old.mode & USUAL_MODE & !GROUP_BITS } else { USUAL_MODE }
}

/// Copies the group and the permissions of the replaced file, if it is the user's, so that the same users may
/// access the new one. If it is another user's, the new file gets no permissions that the old one lacked.
pub(crate) fn keep_permissions(folder: &Folder, name: &OsStr, file: &File) {
    #[cfg(unix)]
    if let Ok(old) = folder.look(name)
        && old.is_file()
        && let Ok(new) = file.metadata()
    {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
        let everybody = |mode: u32| (mode & 0o007) << 3;
        let mut mode = old.mode & 0o777;
        if old.user != companion::effective_user() {
            mode &= new.mode() | everybody(new.mode());
        }
        if new.gid() != old.group && fchown(file, None, Some(old.group)).is_err() {
            mode &= !GROUP_BITS | everybody(mode);
        }
        // File systems on which permissions cannot be set do not check them, either.
        drop(file.set_permissions(Permissions::from_mode(mode)));
    }
    #[cfg(not(unix))]
    let _ = (folder, name, file, None::<Permissions>);
}

/// Writes a whole file.
///
/// # Errors
/// As [`Output::create`] and [`Output::finish`].
pub fn write(path: &Path, bytes: &[u8], replace: bool) -> Result<()> {
    let mut output = Output::create(path, replace)?;
    output.write_all(bytes).map_err(|error| io_error(path, &error))?;
    output.finish()
}

/// Writes a whole file that replaces one whose lock the caller holds.
///
/// # Errors
/// As [`write`].
pub fn write_over_locked(path: &Path, bytes: &[u8]) -> Result<()> {
    check_place(path, true, &[])?;
    let mut output = Output::start(path, true, true)?;
    output.write_all(bytes).map_err(|error| io_error(path, &error))?;
    output.finish()
}

/// Creates a new file directly under its name, for callers that fill a new folder.
///
/// # Errors
/// Io, also if the name exists.
pub fn create_new(path: &Path) -> io::Result<File> {
    let (folder, name) = Folder::open_parent(path)?;
    folder.create(&name, 0, 0o666)
}

/// A new folder that gets its name when all its files are complete.
#[derive(Debug)]
pub struct NewFolder {
    place: Option<Place>,
    path: PathBuf,
    unfinished: PathBuf,
    /// The final permissions.
    permissions: Permissions,
}

impl NewFolder {
    /// Starts a folder. Until it is finished, only the user may access it.
    ///
    /// # Errors
    /// Exists if the path exists and may not be replaced; Io if the user may not write to the existing file
    /// or folder; Locked if it is a file that a program is writing; Io from the system.
    pub fn create(path: &Path, replace: bool) -> Result<Self> {
        if !replace && path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        check_permission(path)?;
        check_unwritten(path, Locking::Default, false)?;
        let io_error = |error: io::Error| io_error(path, &error);
        let (folder, name) = Folder::open_parent(path).map_err(io_error)?;
        let temporary = temporary(&name);
        let unfinished = folder.path().join(&temporary);
        folder.make(&temporary, 0o777).map_err(io_error)?;
        let permissions = std::fs::symlink_metadata(&unfinished).map_err(io_error)?.permissions();
        let place = Place { folder, temporary, name, replace, is_locked: false };
        let made = Self { place: Some(place), path: path.to_owned(), unfinished, permissions };
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(&made.unfinished, Permissions::from_mode(0o700)).map_err(io_error)?;
        }
        Ok(made)
    }

    /// Returns its path until it is finished.
    #[must_use]
    #[allow(clippy::misnamed_getters, reason = "what is written goes there; the other path is for messages")]
    pub fn path(&self) -> &Path {
        &self.unfinished
    }

    /// Gives the folder its name. A replaced folder is deleted after that.
    ///
    /// # Errors
    /// As [`Output::finish`].
    pub fn finish(mut self) -> Result<()> {
        let Some(place) = self.place.take() else { return Ok(()) };
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&self.path),
            _ => io_error(&self.path, &error),
        };
        let Place { folder, temporary: unfinished, name, replace, .. } = &place;
        let has_old = *replace && folder.has(name);
        if has_old {
            check_unwritten(&self.path, Locking::Default, false).inspect_err(|_| delete(&self.unfinished))?;
        }
        let finish = || {
            std::fs::set_permissions(&self.unfinished, self.permissions.clone())?;
            if has_old {
                match folder.exchange(unfinished, name) {
                    Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                        exchange_by_renaming(folder, unfinished, name)?;
                    }
                    exchanged => exchanged?,
                }
                folder.sync();
                // The previous folder has this name now.
                delete(&self.unfinished);
                return Ok(());
            }
            folder.rename(unfinished, (folder, name), false)?;
            folder.sync();
            Ok(())
        };
        finish().map_err(|error| {
            delete(&self.unfinished);
            failed(error)
        })
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if self.place.is_some() {
            delete(&self.unfinished);
        }
    }
}

/// Exchanges the names of a new folder and the one that it replaces, in three steps.
fn exchange_by_renaming(folder: &Folder, unfinished: &OsStr, name: &OsStr) -> io::Result<()> {
    // Not the temporary name, which users may delete: until the second step this is the only copy.
    let old = beside(name, "old");
    folder.rename(name, (folder, &old), false)?;
    if let Err(error) = folder.rename(unfinished, (folder, name), false) {
        // Restores the previous folder.
        return Err(match folder.rename(&old, (folder, name), false) {
            Ok(()) => error,
            Err(_) => {
                let old = shown(&folder.path().join(&old));
                io::Error::new(error.kind(), format!("{error}; the previous folder is {old}: rename it back"))
            }
        });
    }
    folder.rename(&old, (folder, unfinished), false)
}

/// Deletes what is left of a folder, or a link in its place.
fn delete(path: &Path) {
    // If this fails, an earlier error is the one to report.
    drop(std::fs::remove_dir_all(path).or_else(|_| std::fs::remove_file(path)));
}

#[cfg(all(test, unix))]
mod tests;
