//! Companion files: a file's index, its statistics, other layouts of its datasets, the logs of its store.
//! They change the data that a reader sees, so each is opened here and is trusted only if the user who made
//! it could have changed the file itself.
//!
//! A trusted companion is a regular file, not a symbolic link. It belongs to root, to the reader or to the
//! file's owner, and others cannot write to it. The same holds for each folder between it and the file's
//! folder, which may be a symbolic link of one of these users. In a world-writable folder such as `/tmp`,
//! this distinguishes your own index of your file from another user's.
//!
//! **Invariant:** opening a companion never blocks (as for a pipe without a writer) and never follows a
//! symbolic link to a file.

use crate::io::{LocalFile, Source};
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::printable::Printable;
use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

/// Maximum number of paths that a process warns about.
const MAX_WARNINGS: usize = 1000;
/// User id that file systems report for unknown users: two such files may belong to different users.
#[cfg(unix)]
const UNKNOWN_USER: u32 = 65534;

/// Returns the folder of a file's store. `path` must be the file itself and not a symbolic link to
/// it.
#[must_use]
pub fn store_folder(path: &Path) -> PathBuf {
    crate::io::with_suffix(path, ".d")
}

/// Name of the folder with second layouts of datasets, in the folder beside a file.
pub const LAYOUTS: &str = "layouts";

/// Returns whether the folder beside a file is a sharded store's: not if it has nothing but second layouts of the
/// datasets of an ordinary file. `path` must be the file itself and not a symbolic link to it.
#[must_use]
pub fn has_store(path: &Path) -> bool {
    let folder = store_folder(path);
    let Ok(entries) = std::fs::read_dir(&folder) else { return folder.is_dir() };
    let mut has_layouts = false;
    for entry in entries {
        match entry {
            Ok(entry) if entry.file_name() == LAYOUTS => has_layouts = true,
            _ => return true,
        }
    }
    !has_layouts
}

/// Rules that decide which companions of a file are trusted.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    file: Option<Permissions>,
    /// The folder of the file.
    folder: Option<PathBuf>,
}

/// Owner, group and mode of a file, which determine who may change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Permissions {
    user: u32,
    group: u32,
    mode: u32,
}

impl Permissions {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self { user: metadata.uid(), group: metadata.gid(), mode: metadata.mode() }
    }

    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Self {
        Self { user: 0, group: 0, mode: 0 }
    }
}

/// Returns whether an open file belongs to this process's user, who may then replace it.
pub fn is_own(opened: &LocalFile) -> bool {
    opened.as_file().metadata().is_ok_and(|metadata| Permissions::of(&metadata).user == effective_user())
}

/// Returns the effective user id of this process.
#[cfg(unix)]
pub(crate) fn effective_user() -> u32 {
    // SAFETY: geteuid cannot fail and has no memory effects.
    unsafe { libc::geteuid() }
}

#[cfg(not(unix))]
pub(crate) fn effective_user() -> u32 {
    0
}

impl Trust {
    /// Creates the rules for companions of an open file, which is at `path`.
    #[must_use]
    pub fn of(source: &dyn Source, path: &Path) -> Self {
        let metadata = source.file().and_then(|file| file.metadata().ok());
        Self::new(metadata.as_ref(), path)
    }

    /// Creates the rules for companions of the file at a path. If the file does not exist, the owner and
    /// permissions of its store's folder are used instead.
    #[must_use]
    pub fn for_path(path: &Path) -> Self {
        let metadata = std::fs::metadata(path);
        let metadata = metadata.or_else(|_| std::fs::symlink_metadata(store_folder(path)));
        Self::new(metadata.ok().as_ref(), path)
    }

    /// Creates the rules for companions to be written beside the file at a path, which need not exist yet:
    /// an existing folder is trusted only if it belongs to the writer or to the file's owner.
    #[must_use]
    pub fn for_writer(path: &Path) -> Self {
        Self::new(std::fs::metadata(path).ok().as_ref(), path)
    }

    /// Returns whether the rules include a file's owner and permissions.
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Creates the rules for a cache: only files of the reader or root are trusted.
    #[must_use]
    pub fn for_reader() -> Self {
        Self::default()
    }

    fn new(metadata: Option<&Metadata>, path: &Path) -> Self {
        let folder = path.parent().map(|folder| match folder.as_os_str().is_empty() {
            true => PathBuf::from("."),
            false => folder.to_owned(),
        });
        Self { file: metadata.map(Permissions::of), folder }
    }

    /// Opens the file at `path` for reading; `None` if it does not exist. The `folders` innermost folders
    /// above it, between it and the file's folder, are checked, too.
    ///
    /// # Errors
    /// Invalid if it is not trusted, with the reason; Io from the system.
    pub fn open(&self, path: &Path, folders: usize) -> Result<Option<LocalFile>> {
        let mut above: Vec<&Path> = path.ancestors().skip(1).take(folders).collect();
        above.reverse();
        for folder in above {
            if !self.folder(folder)? {
                return Ok(None);
            }
        }
        let file = match open(path) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) if is_link(&error) => return Err(unfit(path, "a regular file", "a symbolic link")),
            Err(error) => {
                let message = format!("cannot open the file: {error}");
                return Err(Error::new(ErrorKind::Io, message).file(path.display()));
            }
        };
        let looked = file.metadata().map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot look at the file: {error}")).file(path.display())
        });
        let metadata = looked?;
        if !metadata.is_file() {
            return Err(unfit(path, "a regular file", "a folder, a pipe, a socket or a device"));
        }
        self.check(path, &metadata)?;
        Ok(Some(LocalFile::of(file, &metadata)))
    }

    /// Returns whether there is a trusted folder at `path`. It may be reached through a trusted user's
    /// symbolic link.
    ///
    /// # Errors
    /// As [`Trust::open`].
    pub fn folder(&self, path: &Path) -> Result<bool> {
        self.look(path)
            .and_then(|found| found.map_or(Ok(false), |found| self.check(path, &found).map(|()| true)))
    }

    /// Does the same as [`Trust::folder`], but also trusts a folder that others may write to.
    ///
    /// # Errors
    /// As [`Trust::open`].
    pub fn folder_of_owner(&self, path: &Path) -> Result<bool> {
        let found = self.look(path)?;
        found.map_or(Ok(false), |found| self.check_file_owner(path, &found).map(|()| true))
    }

    fn look(&self, path: &Path) -> Result<Option<Metadata>> {
        let metadata = match std::fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => {
                let message = format!("cannot look at the folder: {error}");
                return Err(Error::new(ErrorKind::Io, message).file(path.display()));
            }
        };
        let metadata = match metadata.is_symlink() {
            true => {
                self.check_owner(path, Permissions::of(&metadata))?;
                std::fs::metadata(path).map_err(|_| unfit(path, "a folder", "a link that leads nowhere"))?
            }
            false => metadata,
        };
        if !metadata.is_dir() {
            return Err(unfit(path, "a folder", "something else"));
        }
        Ok(Some(metadata))
    }

    /// Creates a folder beside the file at `of`, unless there is a trusted one.
    ///
    /// # Errors
    /// Invalid if there is one that is not trusted, with the reason; NotFound or Io from the system.
    pub fn make_folder(&self, path: &Path, of: &Path) -> Result<()> {
        if self.folder(path)? {
            return Ok(());
        }
        // `Folder::open_parent` refuses a path through a symbolic link that another user planted.
        let made =
            crate::output::Folder::open_parent(path).and_then(|(folder, name)| folder.make(&name, 0o777));
        match made {
            Ok(()) => tighten(path, of),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                let kind = if is_absent(&error) { ErrorKind::NotFound } else { ErrorKind::Io };
                return Err(
                    Error::new(kind, format!("cannot create the folder: {error}")).file(path.display())
                );
            }
        }
        // Another program may have created it at the same time, or put its own there.
        self.folder(path).map(drop)
    }

    /// Checks the folder of a cache. A link to it is followed, since only users who may write to the link's
    /// folder can have made it.
    ///
    /// # Errors
    /// As [`Trust::open`].
    pub fn cache(path: &Path) -> Result<bool> {
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => Self::for_reader().check(path, &metadata).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Checks that an open file is trusted. `path` is for messages.
    ///
    /// # Errors
    /// Invalid if it is not, with the reason.
    pub fn check(&self, path: &Path, metadata: &Metadata) -> Result<()> {
        self.check_owner(path, Permissions::of(metadata))?;
        self.check_mode(path, metadata)
    }

    /// Checks that others cannot write to an open file. `path` is for messages.
    ///
    /// # Errors
    /// As [`Trust::check`].
    pub(crate) fn check_mode(&self, path: &Path, metadata: &Metadata) -> Result<()> {
        let found = Permissions::of(metadata);
        if found.mode & 0o022 & !self.may_write(found.group) != 0 {
            let expected = "a file or folder that others cannot write to";
            return Err(unfit(path, expected, &format!("permissions {:03o}", found.mode & 0o777)));
        }
        Ok(())
    }

    /// Checks that the owner of an open file is trusted. `path` is for messages.
    ///
    /// # Errors
    /// As [`Trust::check`].
    pub fn check_file_owner(&self, path: &Path, metadata: &Metadata) -> Result<()> {
        self.check_owner(path, Permissions::of(metadata))
    }

    fn check_owner(&self, path: &Path, found: Permissions) -> Result<()> {
        if !self.is_known(found.user) && !self.is_of_the_group(found) {
            let expected = "that it belongs to you, to root or to the owner of the file beside it";
            return Err(unfit(path, expected, &format!("that it belongs to user {}", found.user)));
        }
        Ok(())
    }

    #[cfg(unix)]
    fn is_known(&self, user: u32) -> bool {
        let owner = self.file.map(|file| file.user).filter(|owner| *owner != UNKNOWN_USER);
        user == 0 || user == effective_user() || Some(user) == owner
    }

    #[cfg(not(unix))]
    fn is_known(&self, user: u32) -> bool {
        user == effective_user()
    }

    /// Returns the write permissions that a companion may grant, because these users may write to the file
    /// itself.
    fn may_write(&self, group: u32) -> u32 {
        match self.file {
            Some(file) if file.mode & 0o002 != 0 => 0o022,
            Some(file) if file.mode & 0o020 != 0 && file.group == group => 0o020,
            _ => 0,
        }
    }

    /// Returns whether a companion was made by a member of the group that may write to the file. In a folder
    /// that others may write to, a file may get that group even if its maker is not a member, so such folders
    /// do not count.
    fn is_of_the_group(&self, found: Permissions) -> bool {
        let shared = self.file.is_some_and(|file| file.mode & 0o020 != 0 && file.group == found.group);
        shared
            && self.folder.as_deref().is_some_and(|folder| {
                let metadata = std::fs::metadata(folder);
                metadata.is_ok_and(|metadata| Permissions::of(&metadata).mode & 0o002 == 0)
            })
    }
}

/// Removes write permission on a companion of the file at `path` from users who may not write to the file.
/// Otherwise it would not be trusted after a permissive `umask`.
pub fn tighten(companion: &Path, path: &Path) {
    #[cfg(unix)]
    if let Ok(opened) = open(companion) {
        tighten_file(&opened, path);
    }
    #[cfg(not(unix))]
    let _ = (companion, path);
}

/// Does the same as [`tighten`] for an open file.
pub fn tighten_file(companion: &File, path: &Path) {
    #[cfg(unix)]
    if let Ok(metadata) = companion.metadata() {
        use std::os::unix::fs::PermissionsExt as _;
        let found = Permissions::of(&metadata);
        let mode = found.mode & !(0o022 & !Trust::for_writer(path).may_write(found.group));
        if found.user == effective_user() && mode != found.mode {
            // If this fails, the companion's users are warned.
            drop(companion.set_permissions(std::fs::Permissions::from_mode(mode & 0o7777)));
        }
    }
    #[cfg(not(unix))]
    let _ = (companion, path);
}

/// Opens a file of the store of the file at `path`: one in its folder, or in a subfolder.
///
/// # Errors
/// NotFound; Invalid if it is not trusted.
pub fn open_of_store(path: &Path, name: &Path) -> Result<LocalFile> {
    let folder = store_folder(path);
    let depth = name.strip_prefix(&folder).map_or(1, |rest| rest.components().count());
    let found = Trust::for_path(path).open(name, depth)?;
    found.ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "cannot open the file: it does not exist").file(name.display())
    })
}

/// Does the same as [`open_of_store`] for a file that is already open.
///
/// # Errors
/// As [`open_of_store`].
pub(crate) fn check_of_store(path: &Path, name: &Path, file: &File) -> Result<()> {
    let depth = name.strip_prefix(store_folder(path)).map_or(1, |rest| rest.components().count());
    let trust = Trust::for_path(path);
    for folder in name.ancestors().skip(1).take(depth) {
        trust.folder(folder)?;
    }
    if name.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
        return Err(unfit(name, "a regular file", "a symbolic link"));
    }
    let metadata = file.metadata().map_err(|error| crate::io::local::cannot("look at", &error))?;
    trust.check(name, &metadata)
}

/// Returns the file whose store a log belongs to, by the log's path.
pub fn owner_of_log(log: &Path) -> Option<PathBuf> {
    let folder = log.parent()?;
    let name = folder.file_name()?.to_str()?.strip_suffix(".d").filter(|name| !name.is_empty())?;
    Some(folder.with_file_name(name))
}

/// Checks that a companion may be written at `path`: that there is no file, or one that begins with
/// `signature`. A symbolic link is accepted, since it is replaced and not followed.
///
/// # Errors
/// Exists for another file. In the message, `one` names such a companion, with its article, and `way` says
/// what the user can do.
pub fn check_replaced(path: &Path, signature: &[u8], one: &str, way: &str) -> Result<()> {
    use std::io::Read as _;
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if found.is_symlink() {
        return Ok(());
    }
    let mut start = Vec::new();
    let read = open(path).and_then(|file| file.take(signature.len() as u64).read_to_end(&mut start));
    let got = match read {
        _ if !found.is_file() => "a folder, a pipe, a socket or a device".to_owned(),
        Ok(_) if start == signature => return Ok(()),
        Ok(_) => "a file that is something else".to_owned(),
        Err(error) => format!("a file that cannot be read ({error})"),
    };
    let message =
        format!("cannot write {}: expected {one} to replace, or no file, got {got}; {way}", path.display());
    Err(Error::new(ErrorKind::Exists, message).with_os_code(crate::io::local::EXISTS))
}

/// Start of the messages about companions that are not trusted.
const DISTRUST: &str = "cannot use the companion of the file: ";

/// Returns whether a message is about a companion that is not trusted, of which the user was warned.
#[must_use]
pub fn is_distrust(message: &str) -> bool {
    message.contains(DISTRUST)
}

fn unfit(path: &Path, expected: &str, got: &str) -> Error {
    let message = format!(
        "{DISTRUST}expected {expected}, got {got}; create it again, or change its owner or permissions (chown, chmod)"
    );
    Error::new(ErrorKind::Invalid, message).file(path.display())
}

#[cfg(unix)]
fn open(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
    std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> std::io::Result<File> {
    File::open(path)
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

#[cfg(unix)]
fn is_link(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

#[cfg(not(unix))]
fn is_link(_: &std::io::Error) -> bool {
    false
}

static WARNING_CALLBACK: RwLock<Say> = RwLock::new(|text| {
    // If this fails, there is no way to report it.
    let _ = writeln!(std::io::stderr(), "hyperchunk: warning: {text}");
});
static SHOWN_WARNINGS: Mutex<Option<HashSet<String>>> = Mutex::new(None);

/// Callback that shows a warning to the user.
pub type Say = fn(&str);

/// Sets the callback for warnings about unused companions, and returns the previous one. It is called on
/// any thread, with locks held: it must not read a file, nor wait for a thread that does. By default, a
/// line goes to standard error.
pub fn set_warning(say: Say) -> Say {
    std::mem::replace(&mut *WARNING_CALLBACK.write().unwrap_or_else(PoisonError::into_inner), say)
}

/// Warns the user that a companion is not used, once for each.
pub(crate) fn warn(what: &str, error: &Error) {
    let text = format!("{what} is not used: {error}");
    let mut said = SHOWN_WARNINGS.lock().unwrap_or_else(PoisonError::into_inner);
    let said = said.get_or_insert_with(HashSet::new);
    let quiet = std::env::var_os("HYPERCHUNK_ERRORS").is_some_and(|value| value == "quiet");
    if quiet || said.len() >= MAX_WARNINGS || !said.insert(text.clone()) {
        return;
    }
    let say = *WARNING_CALLBACK.read().unwrap_or_else(PoisonError::into_inner);
    say(&Printable::new(&text).to_string());
}

/// Returns an optional companion. If it is not trusted, the user is warned, and it is treated as missing.
pub fn counted<T>(what: &str, found: Result<Option<T>>) -> Option<T> {
    found.unwrap_or_else(|error| {
        warn(what, &error);
        None
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder =
                std::env::temp_dir().join(format!("hyperchunk-companion-{name}-{}", std::process::id()));
            drop(std::fs::remove_dir_all(&folder));
            std::fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn make(&self, name: &str, mode: u32) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, name).unwrap();
            chmod(&path, mode);
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[track_caller]
    fn check(trust: &Trust, path: &Path, folders: usize, expected: Result<bool, &str>) {
        let found = trust.open(path, folders);
        match expected {
            Ok(there) => assert_eq!(found.unwrap().is_some(), there),
            Err(part) => {
                let error = found.unwrap_err();
                assert!(error.to_string().contains(part), "{error}");
            }
        }
    }

    #[test]
    fn what_others_could_have_made_does_not_count() {
        let folder = Folder::new("kinds");
        let file = folder.make("a.h5", 0o644);
        let trust = Trust::for_path(&file);
        check(&trust, &folder.make("good", 0o644), 0, Ok(true));
        check(&trust, &folder.0.join("none"), 0, Ok(false));
        check(&trust, &folder.0.join("none/x"), 1, Ok(false));
        check(&trust, &folder.make("everybody", 0o646), 0, Err("permissions 646"));
        check(&trust, &folder.make("group", 0o664), 0, Err("permissions 664"));
        symlink(folder.0.join("good"), folder.0.join("link")).unwrap();
        check(&trust, &folder.0.join("link"), 0, Err("a symbolic link"));
        check(&trust, &folder.0, 0, Err("a folder, a pipe"));
        let pipe = folder.0.join("pipe");
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: the name ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        check(&trust, &pipe, 0, Err("a folder, a pipe"));
        std::fs::create_dir(folder.0.join("a.h5.d")).unwrap();
        let log = folder.make("a.h5.d/log", 0o644);
        chmod(&folder.0.join("a.h5.d"), 0o755);
        check(&trust, &log, 1, Ok(true));
        chmod(&folder.0.join("a.h5.d"), 0o1777);
        check(&trust, &log, 1, Err("permissions 777"));
        chmod(&folder.0.join("a.h5.d"), 0o755);
        symlink(folder.0.join("a.h5.d"), folder.0.join("b.h5.d")).unwrap();
        check(&trust, &folder.0.join("b.h5.d/log"), 1, Ok(true));
        symlink(folder.0.join("none"), folder.0.join("c.h5.d")).unwrap();
        check(&trust, &folder.0.join("c.h5.d/log"), 1, Err("a link that leads nowhere"));
    }

    #[test]
    fn who_may_write_to_the_file_may_write_to_what_lies_beside_it() {
        let folder = Folder::new("group");
        let file = folder.make("a.h5", 0o664);
        check(&Trust::for_path(&file), &folder.make("group", 0o664), 0, Ok(true));
        check(&Trust::for_path(&file), &folder.make("everybody", 0o666), 0, Err("permissions 666"));
        chmod(&file, 0o666);
        check(&Trust::for_path(&file), &folder.0.join("everybody"), 0, Ok(true));
    }

    #[test]
    fn others_are_told_apart() {
        let of = |user, group, mode| Permissions { user, group, mode };
        let me = effective_user();
        let (owner, stranger) = (me + 1001, me + 1002);
        let trust = Trust { file: Some(of(owner, 50, 0o100_664)), folder: None };
        for (user, expected) in [(0, true), (me, true), (owner, true), (stranger, false)] {
            assert_eq!(trust.is_known(user), expected, "{user}");
        }
        // Without a known folder, the group proves nothing.
        assert!(!trust.is_of_the_group(of(stranger, 50, 0o644)));
        let folder = Folder::new("whose");
        let trust = Trust { folder: Some(folder.0.clone()), ..trust };
        chmod(&folder.0, 0o775);
        assert!(trust.is_of_the_group(of(stranger, 50, 0o644)));
        assert!(!trust.is_of_the_group(of(stranger, 51, 0o644)));
        chmod(&folder.0, 0o1777);
        assert!(!trust.is_of_the_group(of(stranger, 50, 0o644)));
        let nobody = Trust { file: Some(of(UNKNOWN_USER, 50, 0o644)), folder: None };
        assert_eq!(nobody.is_known(UNKNOWN_USER), me == UNKNOWN_USER);
    }
}
