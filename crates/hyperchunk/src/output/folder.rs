//! Folders accessed through a handle: files are created, renamed and deleted in the folder that was opened,
//! even if its path changes meanwhile.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// An open folder. Symbolic links in it are never followed.
#[derive(Debug)]
pub struct Folder {
    #[cfg(unix)]
    handle: File,
    path: PathBuf,
}

impl Folder {
    /// Opens the folder of the file at `path`, and returns the file's name in it.
    ///
    /// # Errors
    /// The system's errors; InvalidInput for a path without a name.
    pub fn open_parent(path: &Path) -> io::Result<(Self, OsString)> {
        let name = path.file_name();
        let name =
            name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Ok((Self::open(folder.unwrap_or(Path::new(".")))?, name.to_owned()))
    }

    /// Returns the path by which it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file of that name for reading and writing, and creates it if needed. An existing one must
    /// be a regular file.
    ///
    /// # Errors
    /// The system's errors.
    pub fn open_or_create(&self, name: &OsStr) -> io::Result<File> {
        for _ in 0..3 {
            match self.create(name, 0, 0o666) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made,
            }
            match self.open_file(name) {
                // The file was deleted meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return opened,
            }
        }
        Err(io::Error::other("another program keeps creating and deleting the file"))
    }

    /// Returns whether the name exists.
    #[must_use]
    pub fn has(&self, name: &OsStr) -> bool {
        self.look(name).is_ok()
    }
}

fn no_file() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "expected a regular file, got a link, a folder, a pipe or a device",
    )
}

#[cfg(unix)]
#[allow(
    clippy::useless_conversion,
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    reason = "the widths of what the system says differ between systems"
)]
mod unix {
    use super::{File, Folder, Metadata, OsStr, Path, io, no_file};
    use std::ffi::CString;
    use std::os::fd::{AsRawFd as _, FromRawFd as _};
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::MetadataExt as _;

    /// Metadata of a name, without following links.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Entry {
        /// Device and inode number of the file.
        pub identity: (u64, u64),
        /// Its owner.
        pub user: u32,
        /// Its group.
        pub group: u32,
        /// Its type and permissions.
        pub mode: u32,
    }

    impl Entry {
        /// Returns whether it is a regular file.
        pub fn is_file(&self) -> bool {
            self.mode & u32::from(libc::S_IFMT) == u32::from(libc::S_IFREG)
        }

        /// Returns whether it is a folder.
        pub fn is_folder(&self) -> bool {
            self.mode & u32::from(libc::S_IFMT) == u32::from(libc::S_IFDIR)
        }

        /// Returns whether it is a symbolic link.
        pub fn is_link(&self) -> bool {
            self.mode & u32::from(libc::S_IFMT) == u32::from(libc::S_IFLNK)
        }
    }

    fn to_c_string(name: &OsStr) -> io::Result<CString> {
        CString::new(name.as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
    }

    fn done(result: libc::c_int) -> io::Result<()> {
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    impl Folder {
        /// Opens a folder.
        ///
        /// # Errors
        /// PermissionDenied if its path contains a symbolic link that another user planted in a shared
        /// folder; the system's errors.
        pub fn open(path: &Path) -> io::Result<Self> {
            #[cfg(target_os = "linux")]
            let handle = super::super::way::open(path)?;
            #[cfg(not(target_os = "linux"))]
            let handle = {
                use std::os::unix::fs::OpenOptionsExt as _;
                let flags = libc::O_DIRECTORY | libc::O_CLOEXEC;
                std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?
            };
            Ok(Self { handle, path: path.to_owned() })
        }

        /// Returns the metadata of the folder itself.
        ///
        /// # Errors
        /// The system's errors.
        pub fn metadata(&self) -> io::Result<Metadata> {
            self.handle.metadata()
        }

        fn at(&self, name: &OsStr, flags: libc::c_int, mode: u32) -> io::Result<File> {
            let name = to_c_string(name)?;
            let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NOCTTY;
            loop {
                // SAFETY: an open descriptor and a string that ends with NUL; the call keeps neither.
                let file = unsafe {
                    libc::openat(self.handle.as_raw_fd(), name.as_ptr(), flags, libc::c_uint::from(mode))
                };
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

        /// Creates a file, for reading and writing.
        ///
        /// # Errors
        /// AlreadyExists if the name exists; the system's errors.
        pub fn create(&self, name: &OsStr, flags: libc::c_int, mode: u32) -> io::Result<File> {
            self.at(name, flags | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, mode)
        }

        /// Opens a regular file for reading and writing.
        ///
        /// # Errors
        /// InvalidInput if it is a link, a folder, a pipe or a device; the system's errors.
        pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
            let opened = self.at(name, libc::O_RDWR | libc::O_NONBLOCK, 0);
            let file = opened.map_err(|error| match error.raw_os_error() {
                Some(libc::ELOOP | libc::EISDIR | libc::ENXIO | libc::EMLINK) => no_file(),
                _ => error,
            })?;
            if file.metadata()?.is_file() { Ok(file) } else { Err(no_file()) }
        }

        /// Opens a regular file for reading.
        ///
        /// # Errors
        /// As [`Folder::open_file`].
        pub fn open_to_read(&self, name: &OsStr) -> io::Result<File> {
            let file = self.at(name, libc::O_RDONLY | libc::O_NONBLOCK, 0)?;
            if file.metadata()?.is_file() { Ok(file) } else { Err(no_file()) }
        }

        /// Checks that the process's effective user may write to a file.
        ///
        /// # Errors
        /// PermissionDenied if not; the system's errors.
        pub fn check_writable(&self, name: &OsStr) -> io::Result<()> {
            let name = to_c_string(name)?;
            // SAFETY: as in `at`.
            done(unsafe {
                libc::faccessat(self.handle.as_raw_fd(), name.as_ptr(), libc::W_OK, libc::AT_EACCESS)
            })
        }

        /// Creates a folder in it.
        ///
        /// # Errors
        /// AlreadyExists if the name exists; the system's errors.
        pub fn make(&self, name: &OsStr, mode: u32) -> io::Result<()> {
            let name = to_c_string(name)?;
            let mode = libc::mode_t::try_from(mode).unwrap_or(0o700);
            // SAFETY: as in `at`.
            done(unsafe { libc::mkdirat(self.handle.as_raw_fd(), name.as_ptr(), mode) })
        }

        /// Returns the metadata of a name.
        ///
        /// # Errors
        /// The system's errors.
        pub fn look(&self, name: &OsStr) -> io::Result<Entry> {
            let name = to_c_string(name)?;
            let mut found = std::mem::MaybeUninit::<libc::stat>::zeroed();
            // SAFETY: as in `at`; `found` has room for the result.
            done(unsafe {
                let flags = libc::AT_SYMLINK_NOFOLLOW;
                libc::fstatat(self.handle.as_raw_fd(), name.as_ptr(), found.as_mut_ptr(), flags)
            })?;
            // SAFETY: the call wrote it.
            let found = unsafe { found.assume_init() };
            Ok(Entry {
                identity: (found.st_dev as u64, found.st_ino as u64),
                user: found.st_uid,
                group: found.st_gid,
                mode: u32::from(found.st_mode),
            })
        }

        /// Returns whether the name refers to an open file.
        #[must_use]
        pub fn is_at(&self, name: &OsStr, file: &File) -> bool {
            let identity = file.metadata().map(|metadata| (metadata.dev(), metadata.ino()));
            identity
                .ok()
                .is_some_and(|identity| self.look(name).is_ok_and(|found| found.identity == identity))
        }

        /// Renames a file; `replace` tells whether to replace an existing one.
        ///
        /// # Errors
        /// AlreadyExists; the system's errors.
        pub fn rename(&self, from: &OsStr, to: (&Self, &OsStr), replace: bool) -> io::Result<()> {
            let (folder, to) = to;
            if !replace {
                return self.rename_new(from, (folder, to));
            }
            let (from, to) = (to_c_string(from)?, to_c_string(to)?);
            let (old, new) = (self.handle.as_raw_fd(), folder.handle.as_raw_fd());
            // SAFETY: as in `at`.
            done(unsafe { libc::renameat(old, from.as_ptr(), new, to.as_ptr()) })
        }

        /// Exchanges two names.
        ///
        /// # Errors
        /// Unsupported on systems, kernels and file systems without this operation; the system's errors.
        #[cfg(target_os = "linux")]
        pub fn exchange(&self, one: &OsStr, other: &OsStr) -> io::Result<()> {
            let (one, other) = (to_c_string(one)?, to_c_string(other)?);
            let folder = self.handle.as_raw_fd();
            // SAFETY: as in `at`.
            let exchanged = done(unsafe {
                libc::renameat2(folder, one.as_ptr(), folder, other.as_ptr(), libc::RENAME_EXCHANGE)
            });
            exchanged.map_err(|error| match error.raw_os_error() {
                Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => io::ErrorKind::Unsupported.into(),
                _ => error,
            })
        }

        /// Exchanges two names.
        ///
        /// # Errors
        /// Unsupported.
        #[cfg(not(target_os = "linux"))]
        pub fn exchange(&self, _: &OsStr, _: &OsStr) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        #[cfg(target_os = "linux")]
        fn rename_new(&self, from: &OsStr, to: (&Self, &OsStr)) -> io::Result<()> {
            let (folder, to) = to;
            let (old, new) = (self.handle.as_raw_fd(), folder.handle.as_raw_fd());
            let names = (to_c_string(from)?, to_c_string(to)?);
            let (one, other) = (names.0.as_ptr(), names.1.as_ptr());
            // SAFETY: as in `at`.
            let renamed = done(unsafe { libc::renameat2(old, one, new, other, libc::RENAME_NOREPLACE) });
            match renamed {
                // File systems and kernels that do not know the flag.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => {
                    self.link_new(from, (folder, to))
                }
                renamed => renamed,
            }
        }

        #[cfg(not(target_os = "linux"))]
        fn rename_new(&self, from: &OsStr, to: (&Self, &OsStr)) -> io::Result<()> {
            self.link_new(from, to)
        }

        /// Renames by creating a hard link, which fails if the name exists, and then deleting the old name.
        fn link_new(&self, from: &OsStr, to: (&Self, &OsStr)) -> io::Result<()> {
            let (folder, to) = to;
            let (old, new) = (self.handle.as_raw_fd(), folder.handle.as_raw_fd());
            let names = (to_c_string(from)?, to_c_string(to)?);
            // SAFETY: as in `at`.
            match done(unsafe { libc::linkat(old, names.0.as_ptr(), new, names.1.as_ptr(), 0) }) {
                Ok(()) => self.remove(from),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
                // File systems without hard links.
                Err(_) if folder.has(to) => Err(io::ErrorKind::AlreadyExists.into()),
                Err(_) => self.rename(from, (folder, to), true),
            }
        }

        /// Deletes a file.
        ///
        /// # Errors
        /// The system's errors.
        pub fn remove(&self, name: &OsStr) -> io::Result<()> {
            let name = to_c_string(name)?;
            // SAFETY: as in `at`.
            done(unsafe { libc::unlinkat(self.handle.as_raw_fd(), name.as_ptr(), 0) })
        }

        /// Waits until its names are on the disk, if the file system can sync folders.
        pub fn sync(&self) {
            let opened = self.at(OsStr::new("."), libc::O_RDONLY | libc::O_DIRECTORY, 0);
            drop(opened.and_then(|folder| folder.sync_all()));
        }
    }
}

#[cfg(unix)]
pub use unix::Entry;

#[cfg(not(unix))]
mod other {
    use super::{File, Folder, Metadata, OsStr, Path, io, no_file};

    type Identity = (Option<std::time::SystemTime>, (u64, i64, i64));

    fn identity(found: &Metadata) -> Identity {
        (found.created().ok(), crate::os::version(found).1)
    }

    /// Metadata of a name, without following links.
    #[derive(Debug, Clone)]
    pub struct Entry {
        found: Metadata,
        /// Creation time, size and modification time, by which the file is distinguished from another one of
        /// that name.
        pub identity: Identity,
    }

    impl Entry {
        /// Returns whether it is a regular file.
        pub fn is_file(&self) -> bool {
            self.found.is_file()
        }

        /// Returns whether it is a folder.
        pub fn is_folder(&self) -> bool {
            self.found.is_dir()
        }

        /// Returns whether it is a symbolic link.
        pub fn is_link(&self) -> bool {
            self.found.is_symlink()
        }
    }

    #[allow(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate, reason = "as on Unix")]
    impl Folder {
        pub fn open(path: &Path) -> io::Result<Self> {
            if path.is_dir() {
                Ok(Self { path: path.to_owned() })
            } else {
                Err(io::ErrorKind::NotFound.into())
            }
        }

        pub fn metadata(&self) -> io::Result<Metadata> {
            std::fs::metadata(&self.path)
        }

        pub fn create(&self, name: &OsStr, _: i32, _: u32) -> io::Result<File> {
            File::options().read(true).write(true).create_new(true).open(self.path.join(name))
        }

        pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
            if !self.look(name)?.is_file() {
                return Err(no_file());
            }
            File::options().read(true).write(true).open(self.path.join(name))
        }

        pub fn open_to_read(&self, name: &OsStr) -> io::Result<File> {
            if !self.look(name)?.is_file() {
                return Err(no_file());
            }
            File::open(self.path.join(name))
        }

        pub fn check_writable(&self, name: &OsStr) -> io::Result<()> {
            match std::fs::metadata(self.path.join(name))?.permissions().readonly() {
                true => Err(io::ErrorKind::PermissionDenied.into()),
                false => Ok(()),
            }
        }

        pub fn make(&self, name: &OsStr, _: u32) -> io::Result<()> {
            std::fs::create_dir(self.path.join(name))
        }

        pub fn look(&self, name: &OsStr) -> io::Result<Entry> {
            let found = std::fs::symlink_metadata(self.path.join(name))?;
            Ok(Entry { identity: identity(&found), found })
        }

        pub fn is_at(&self, name: &OsStr, file: &File) -> bool {
            file.metadata()
                .is_ok_and(|own| self.look(name).is_ok_and(|found| found.identity == identity(&own)))
        }

        pub fn rename(&self, from: &OsStr, to: (&Self, &OsStr), replace: bool) -> io::Result<()> {
            let to = to.0.path.join(to.1);
            if !replace && to.symlink_metadata().is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            std::fs::rename(self.path.join(from), to)
        }

        pub fn exchange(&self, _: &OsStr, _: &OsStr) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub fn remove(&self, name: &OsStr) -> io::Result<()> {
            std::fs::remove_file(self.path.join(name))
        }

        pub fn sync(&self) {}
    }
}

#[cfg(not(unix))]
pub use other::Entry;
