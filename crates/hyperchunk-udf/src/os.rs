//! Owners, permissions and links of a user's own files: keys, settings, the audit log.
//!
//! Outside Unix a file has no owner and no permissions in this sense: there the access control of the user's
//! home folder protects keys and settings.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// Variable with the path of the user's home folder.
pub(crate) const HOME: &str = if cfg!(windows) { "USERPROFILE" } else { "HOME" };

/// Returns a builder for folders that only the user may access.
pub(crate) fn private_folders() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Opens a file with `options`, unless the last component of `path` is a symbolic link. Opening a pipe does
/// not block.
///
/// # Errors
/// Errors of the system; see [`is_link`] for a link.
pub(crate) fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)
    }
    #[cfg(not(unix))]
    {
        if path.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
            return Err(io::Error::from(io::ErrorKind::InvalidFilename));
        }
        options.open(path)
    }
}

/// Sets the permissions of a file that `options` create.
pub(crate) fn set_mode(options: &mut OpenOptions, mode: u32) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    options
}

/// Returns whether [`open`] failed because of a symbolic link.
pub(crate) fn is_link(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        error.raw_os_error() == Some(libc::ELOOP)
    }
    #[cfg(not(unix))]
    {
        error.kind() == io::ErrorKind::InvalidFilename
    }
}

/// Returns whether a file or folder belongs to the user who runs this program.
pub(crate) fn is_own(found: &Metadata) -> bool {
    #[cfg(unix)]
    {
        // SAFETY: geteuid has no preconditions.
        std::os::unix::fs::MetadataExt::uid(found) == unsafe { libc::geteuid() }
    }
    #[cfg(not(unix))]
    {
        let _ = found;
        true
    }
}

/// Returns whether a file or folder belongs to the administrator.
pub(crate) fn is_administrators(found: &Metadata) -> bool {
    #[cfg(unix)]
    {
        std::os::unix::fs::MetadataExt::uid(found) == 0
    }
    #[cfg(not(unix))]
    {
        let _ = found;
        false
    }
}

/// Returns the permission bits; none elsewhere than on Unix.
pub(crate) fn mode(found: &Metadata) -> u32 {
    #[cfg(unix)]
    {
        std::os::unix::fs::MetadataExt::mode(found)
    }
    #[cfg(not(unix))]
    {
        let _ = found;
        0
    }
}

/// Returns whether `path` still leads to the open file `file`.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), path.symlink_metadata()) else { return false };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        (open.dev(), open.ino()) == (named.dev(), named.ino())
    }
    #[cfg(not(unix))]
    {
        (open.len(), open.modified().ok()) == (named.len(), named.modified().ok())
    }
}

/// Returns the identity of a version of a file: equal values mean equal contents.
#[cfg(unix)]
pub(crate) fn version(found: &Metadata) -> impl std::hash::Hash + use<> {
    use std::os::unix::fs::MetadataExt as _;
    (
        found.dev(),
        found.ino(),
        found.size(),
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec(),
    )
}

/// Returns the identity of a version of a file: equal values mean equal contents.
#[cfg(not(unix))]
pub(crate) fn version(found: &Metadata) -> impl std::hash::Hash + use<> {
    (found.len(), found.modified().ok(), found.created().ok())
}

/// Returns whether this is a set-uid or set-gid program, whose environment and home belong to another user.
pub(crate) fn is_set_uid() -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: getauxval reads a value that the kernel gave this process.
        unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
    }
    #[cfg(all(unix, not(target_os = "linux")))]
    {
        // SAFETY: issetugid has no preconditions.
        unsafe { libc::issetugid() != 0 }
    }
    #[cfg(not(unix))]
    {
        false
    }
}

/// Resource of which the process or the system has used all that its limit allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExhaustedResource {
    /// Open files of the process.
    ProcessFiles,
    /// Open files of the system.
    SystemFiles,
    /// Memory.
    Memory,
}

/// Returns the exhausted resource that an error reports.
pub(crate) fn exhausted(error: &io::Error) -> Option<ExhaustedResource> {
    #[cfg(unix)]
    {
        match error.raw_os_error() {
            Some(libc::EMFILE) => Some(ExhaustedResource::ProcessFiles),
            Some(libc::ENFILE) => Some(ExhaustedResource::SystemFiles),
            Some(libc::ENOMEM) => Some(ExhaustedResource::Memory),
            _ => None,
        }
    }
    #[cfg(not(unix))]
    {
        (error.kind() == io::ErrorKind::OutOfMemory).then_some(ExhaustedResource::Memory)
    }
}
