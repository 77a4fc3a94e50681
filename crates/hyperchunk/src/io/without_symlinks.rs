//! Opening of files whose resolved path was checked. A path that `canonicalize` returned has no symbolic
//! links. On Unix, the file is opened only if this is still true, and is then the file at the path that was
//! checked; elsewhere nothing is checked.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;

/// Returns whether an error may mean that a part of a path became a symbolic link.
#[cfg(unix)]
pub(crate) fn is_link(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENOTDIR))
}

#[cfg(not(unix))]
pub(crate) fn is_link(_: &io::Error) -> bool {
    false
}

/// Opens a file for reading, by its resolved absolute path. Never blocks, even for a pipe without a writer.
///
/// # Errors
/// The system's errors; see [`is_link`].
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_below(None, path)
}

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder {
    #[cfg(unix)]
    handle: File,
    #[cfg(not(unix))]
    handle: std::path::PathBuf,
}

#[cfg(unix)]
pub(crate) use unix::open_at;
#[cfg(unix)]
use unix::open_below;

#[cfg(unix)]
mod unix {
    use super::{File, Folder, OsStr, Path, io};
    use std::ffi::{CString, OsString};
    use std::os::fd::{AsRawFd as _, FromRawFd as _};
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

    /// Flags for opening a file to read. Opening a pipe does not block, and a terminal does not become the
    /// controlling terminal.
    const READ: libc::c_int = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
    /// Flags for a folder that is only a step of a path.
    #[cfg(target_os = "linux")]
    const PASS: libc::c_int = libc::O_PATH | libc::O_DIRECTORY;
    #[cfg(not(target_os = "linux"))]
    const PASS: libc::c_int = libc::O_RDONLY | libc::O_DIRECTORY;

    impl Folder {
        /// Opens a folder by its resolved absolute path.
        ///
        /// # Errors
        /// The system's errors.
        pub(crate) fn open(path: &Path) -> io::Result<Self> {
            Ok(Self { handle: walk(None, path, PASS)? })
        }

        /// Returns whether an open file is the one of that name in the folder, or is in the folder under
        /// another name, or was there until it was replaced or deleted.
        pub(crate) fn has(&self, path: &Path, name: &OsStr, file: &File) -> bool {
            let Ok(own) = file.metadata() else { return false };
            let Ok(text) = CString::new(name.as_bytes()) else { return false };
            let mut found = std::mem::MaybeUninit::<libc::stat>::zeroed();
            // SAFETY: an open descriptor, a string that ends with NUL, and room for the result; the call keeps
            // none of them.
            let done =
                unsafe { libc::fstatat(self.handle.as_raw_fd(), text.as_ptr(), found.as_mut_ptr(), 0) };
            // SAFETY: the call wrote it, or it is zeroed.
            let found = unsafe { found.assume_init() };
            #[allow(
                clippy::unnecessary_cast,
                clippy::cast_lossless,
                reason = "the widths differ between systems"
            )]
            let is_same = (found.st_dev as u64, found.st_ino as u64) == (own.dev(), own.ino());
            (done == 0 && is_same) || present_path(file).is_some_and(|place| place.parent() == Some(path))
        }

        /// Opens a file in it or below it, by a relative path without symbolic links.
        ///
        /// # Errors
        /// As [`super::open`].
        pub(crate) fn file(&self, below: &Path) -> io::Result<File> {
            open_below(Some(&self.handle), below)
        }
    }

    /// Returns the current path of an open file, or the last one if it was deleted; `None` on other systems
    /// than Linux.
    fn present_path(file: &File) -> Option<std::path::PathBuf> {
        cfg!(target_os = "linux")
            .then(|| std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok())
            .flatten()
    }

    pub(super) fn open_below(folder: Option<&File>, path: &Path) -> io::Result<File> {
        walk(folder, path, READ)
    }

    fn walk(folder: Option<&File>, path: &Path, flags: libc::c_int) -> io::Result<File> {
        #[cfg(target_os = "linux")]
        match at_once(folder, path, flags) {
            // An old kernel, or a seccomp filter that does not know the call.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {}
            opened => return opened,
        }
        by_parts(folder, path, flags)
    }

    /// Opens a path in one call, which fails at a symbolic link.
    #[cfg(target_os = "linux")]
    fn at_once(folder: Option<&File>, path: &Path, flags: libc::c_int) -> io::Result<File> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let folder = folder.map_or(libc::AT_FDCWD, |folder| folder.as_raw_fd());
        // The words of an `open_how`: flags, mode, restrictions.
        let how = [u64::from((flags | libc::O_CLOEXEC).cast_unsigned()), 0, libc::RESOLVE_NO_SYMLINKS];
        loop {
            // SAFETY: an open descriptor, a string that ends with NUL, and an `open_how` of that size; the
            // call keeps none of them.
            let opened = unsafe {
                libc::syscall(libc::SYS_openat2, folder, name.as_ptr(), how.as_ptr(), size_of_val(&how))
            };
            match libc::c_int::try_from(opened) {
                // SAFETY: a new descriptor that nothing else owns.
                Ok(opened) if opened >= 0 => return Ok(unsafe { File::from_raw_fd(opened) }),
                _ => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
    }

    /// Opens a path one component after another.
    pub(super) fn by_parts(folder: Option<&File>, path: &Path, flags: libc::c_int) -> io::Result<File> {
        let mut at = match folder {
            Some(folder) => folder.try_clone()?,
            None => std::fs::OpenOptions::new().read(true).custom_flags(PASS).open("/")?,
        };
        let names: Vec<OsString> = path
            .as_os_str()
            .as_bytes()
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty() && *name != b".".as_slice())
            .map(|name| OsStr::from_bytes(name).to_owned())
            .collect();
        let Some((last, above)) = names.split_last() else {
            return open_at(&at, OsStr::new("."), flags | libc::O_NOFOLLOW);
        };
        for name in above {
            at = open_at(&at, name, PASS | libc::O_NOFOLLOW)?;
        }
        open_at(&at, last, flags | libc::O_NOFOLLOW)
    }

    /// Opens a name in a folder.
    ///
    /// # Errors
    /// The system's errors.
    pub(crate) fn open_at(folder: &File, name: &OsStr, flags: libc::c_int) -> io::Result<File> {
        let name = CString::new(name.as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        loop {
            // SAFETY: an open descriptor and a string that ends with NUL; the call keeps neither.
            let file = unsafe { libc::openat(folder.as_raw_fd(), name.as_ptr(), flags | libc::O_CLOEXEC) };
            if file >= 0 {
                // SAFETY: a new descriptor that nothing else owns.
                return Ok(unsafe { File::from_raw_fd(file) });
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

#[cfg(not(unix))]
fn open_below(folder: Option<&Path>, path: &Path) -> io::Result<File> {
    File::open(folder.map_or_else(|| path.to_owned(), |folder| folder.join(path)))
}

#[cfg(not(unix))]
impl Folder {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { handle: path.to_owned() })
    }

    pub(crate) fn has(&self, _: &Path, _: &OsStr, _: &File) -> bool {
        true
    }

    pub(crate) fn file(&self, below: &Path) -> io::Result<File> {
        open_below(Some(&self.handle), below)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    fn scratch(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("hyperchunk-without-symlinks-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir_all(&folder).unwrap();
        folder.canonicalize().unwrap()
    }

    fn content(opened: io::Result<File>) -> Result<String, bool> {
        let mut text = String::new();
        match opened {
            Ok(mut file) => file.read_to_string(&mut text).map(|_| text).map_err(|_| false),
            Err(error) => Err(is_link(&error)),
        }
    }

    #[test]
    fn links_are_not_followed_anywhere_on_a_path() {
        let folder = scratch("links");
        std::fs::create_dir_all(folder.join("a/b")).unwrap();
        std::fs::write(folder.join("a/b/file"), "here").unwrap();
        symlink("a", folder.join("link")).unwrap();
        symlink("file", folder.join("a/b/to_file")).unwrap();
        symlink("nowhere", folder.join("dangling")).unwrap();
        let held = Folder::open(&folder).unwrap();
        let right = Ok("here".to_owned());
        for (name, expected) in [
            ("a/b/file", right.clone()),
            ("a//b/./file", right),
            ("link/b/file", Err(true)),
            ("a/b/to_file", Err(true)),
            ("dangling", Err(true)),
            ("a/none", Err(false)),
        ] {
            let path = folder.join(name);
            assert_eq!(content(open(&path)), expected, "{name}");
            assert_eq!(content(held.file(Path::new(name))), expected, "{name}");
            // As where the call is missing.
            let read = libc::O_RDONLY | libc::O_NONBLOCK;
            assert_eq!(content(unix::by_parts(None, &path, read)), expected, "{name}");
            let parts = unix::by_parts(Some(&File::open(&folder).unwrap()), Path::new(name), read);
            assert_eq!(content(parts), expected, "{name}");
        }
        assert!(is_link(&Folder::open(&folder.join("link")).unwrap_err()));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_knows_its_file() {
        let folder = scratch("has");
        let (one, other) = (folder.join("one"), folder.join("other"));
        for folder in [&one, &other] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("file"), "").unwrap();
        }
        symlink("file", one.join("link")).unwrap();
        let file = File::open(one.join("file")).unwrap();
        let has =
            |folder: &Path, name: &str| Folder::open(folder).unwrap().has(folder, OsStr::new(name), &file);
        assert!(has(&one, "file") && has(&one, "link") && !has(&other, "file") && !has(&other, "link"));
        // A commit of a store replaces its file.
        std::fs::write(one.join("new"), "").unwrap();
        std::fs::rename(one.join("new"), one.join("file")).unwrap();
        assert_eq!((has(&one, "file"), has(&other, "file")), (cfg!(target_os = "linux"), false));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
