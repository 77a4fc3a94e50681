//! Operating system interface: positioned reads and writes, identities and times of files, error codes.
//!
//! Linux is fully supported. Other Unix systems lack some calls, which have slower substitutes here. On
//! Windows a file has no identity that can be compared (`None`), one name, and no change time besides the
//! modification time. A browser has no local files.

mod file_system;
mod positioned;

pub(crate) use file_system::syncs_names;
pub use positioned::{
    cannot_copy, copy_range, extend, read_exact_at, read_exact_parts_at, write_all_at, write_all_parts_at,
};

use std::ffi::OsStr;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// Returns the number of processors. Cached, since asking the system takes longer than a small read.
pub(crate) fn processors() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Open flag: writes return when the data are stored (`O_SYNC`); 0 where the system has no such flag.
#[cfg(unix)]
pub const SYNC: i32 = libc::O_SYNC;
/// Open flag: writes return when the data are stored (`O_SYNC`); 0 where the system has no such flag.
#[cfg(not(unix))]
pub const SYNC: i32 = 0;

/// Open flag: writes append to the file (`O_APPEND`); 0 where the system has no such flag.
#[cfg(unix)]
pub const APPEND: i32 = libc::O_APPEND;
/// Open flag: writes append to the file (`O_APPEND`); 0 where the system has no such flag.
#[cfg(not(unix))]
pub const APPEND: i32 = 0;

/// Returns the device and the inode of a file; `None` on systems that do not number files.
#[must_use]
pub fn identity(found: &Metadata) -> Option<(u64, u64)> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        Some((found.dev(), found.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = found;
        None
    }
}

/// Returns whether two files are known to be the same; false on systems that do not number files.
#[must_use]
pub fn is_same(one: &Metadata, other: &Metadata) -> bool {
    identity(one).is_some_and(|found| identity(other) == Some(found))
}

/// Returns the number of names (hard links) of a file; 1 where it is not known.
#[must_use]
pub fn names(found: &Metadata) -> u64 {
    #[cfg(unix)]
    {
        std::os::unix::fs::MetadataExt::nlink(found)
    }
    #[cfg(not(unix))]
    {
        let _ = found;
        1
    }
}

/// Returns the time of a file's last status change (`ctime`) in seconds since 1970 and nanoseconds. Programs
/// cannot set it. `None` where files have none.
#[must_use]
pub fn change_time(found: &Metadata) -> Option<(i64, i64)> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        Some((found.ctime(), found.ctime_nsec()))
    }
    #[cfg(not(unix))]
    {
        let _ = found;
        None
    }
}

/// Returns the time of a file's last status change, or its modification time where files have no such time.
#[must_use]
pub fn last_change(found: &Metadata) -> Option<SystemTime> {
    match change_time(found) {
        Some((seconds, nanoseconds)) => {
            let seconds = u64::try_from(seconds).unwrap_or(0);
            Some(SystemTime::UNIX_EPOCH + Duration::new(seconds, u32::try_from(nanoseconds).unwrap_or(0)))
        }
        None => found.modified().ok(),
    }
}

/// Identity (device, inode) and version of a file: its size, and its modification time in seconds and
/// nanoseconds.
pub type Version = ((u64, u64), (u64, i64, i64));

/// Returns the identity and the version of a file. The identity is 0 on systems that do not number files.
#[must_use]
pub fn version(found: &Metadata) -> Version {
    #[cfg(unix)]
    let (seconds, nanoseconds) = {
        use std::os::unix::fs::MetadataExt as _;
        (found.mtime(), found.mtime_nsec())
    };
    #[cfg(not(unix))]
    let (seconds, nanoseconds) = {
        let since = found.modified().ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let since = since.unwrap_or_default();
        (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), i64::from(since.subsec_nanos()))
    };
    (identity(found).unwrap_or_default(), (found.len(), seconds, nanoseconds))
}

/// Converts bytes stored in a file to a path; `None` if the system cannot have such a name.
#[must_use]
pub fn path_from_bytes(bytes: &[u8]) -> Option<PathBuf> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        Some(PathBuf::from(OsStr::from_bytes(bytes)))
    }
    #[cfg(not(unix))]
    {
        std::str::from_utf8(bytes).ok().map(PathBuf::from)
    }
}

/// Converts a path to bytes to be stored in a file: unchanged on Unix, UTF-8 elsewhere (with U+FFFD for
/// invalid parts).
#[must_use]
pub fn path_to_bytes(path: &Path) -> Vec<u8> {
    #[cfg(unix)]
    {
        std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec()
    }
    #[cfg(not(unix))]
    {
        path.to_string_lossy().into_owned().into_bytes()
    }
}

/// Truncates a name to at most `bytes` bytes; on systems other than Unix, to whole characters.
#[must_use]
pub fn shortened(name: &OsStr, bytes: usize) -> std::ffi::OsString {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        let all = name.as_bytes();
        OsStr::from_bytes(&all[..all.len().min(bytes)]).to_owned()
    }
    #[cfg(not(unix))]
    {
        let text = name.to_string_lossy();
        text[..text.floor_char_boundary(bytes)].into()
    }
}

/// Obstacle to opening a file that its user can remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The file system is read-only.
    ReadOnlyFileSystem,
    /// The user has no permission.
    Permission,
}

/// Returns the obstacle that an error code of the system names.
#[must_use]
pub fn obstacle(code: i32) -> Option<Obstacle> {
    match std::io::Error::from_raw_os_error(code).kind() {
        std::io::ErrorKind::ReadOnlyFilesystem => Some(Obstacle::ReadOnlyFileSystem),
        std::io::ErrorKind::PermissionDenied => Some(Obstacle::Permission),
        _ => None,
    }
}

/// Returns the id of this process; 0 in WebAssembly, where there is none and asking for it panics.
#[must_use]
pub fn process_id() -> u32 {
    if cfg!(target_family = "wasm") { 0 } else { std::process::id() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positioned_reads_and_writes() {
        let path = std::env::temp_dir().join(format!("hyperchunk-os-{}", std::process::id()));
        let file =
            std::fs::File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        write_all_at(&file, 3, b"abcdef").unwrap();
        let mut parts =
            [std::io::IoSlice::new(b"gh"), std::io::IoSlice::new(b""), std::io::IoSlice::new(b"i")];
        write_all_parts_at(&file, 9, &mut parts).unwrap();
        let (mut one, mut other) = ([9; 5], [9; 4]);
        let mut parts = [std::io::IoSliceMut::new(&mut one), std::io::IoSliceMut::new(&mut other)];
        read_exact_parts_at(&file, 2, &mut parts).unwrap();
        assert_eq!((&one, &other), (b"\0abcd", b"efgh"));
        for at in [11, 12, 50] {
            let error = read_exact_at(&file, at, &mut [0; 2]).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "at {at}: {error}");
        }
        extend(&file, 100).unwrap();
        extend(&file, 50).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 100);
        drop(file);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn names_are_kept_as_bytes() {
        let path = path_from_bytes("a/ä.h5".as_bytes()).unwrap();
        assert_eq!(path_to_bytes(&path), "a/ä.h5".as_bytes());
        assert_eq!(path_from_bytes(b"\xff").is_some(), cfg!(unix));
        assert_eq!(shortened(OsStr::new("abc"), 2), "ab");
        assert_eq!(shortened(OsStr::new("abc"), 9), "abc");
    }
}
