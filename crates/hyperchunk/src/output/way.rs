//! Resolution of a folder's path through handles, which does not follow symbolic links that other users
//! planted.

use crate::companion;
use crate::io::without_symlinks::open_at;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Maximum number of symbolic links on a path.
const MAX_LINKS: usize = 40;
/// Maximum length in bytes of the target of a link.
const MAX_TARGET_BYTES: usize = 4096;
/// Mode bits of a folder in which other users can plant links: sticky, or world-writable.
const SHARED_MODE_BITS: u32 = 0o1002;

/// Opens a folder. A symbolic link on its path that is in a shared folder must belong to the user or to root,
/// as the kernel demands with `fs.protected_symlinks`.
///
/// # Errors
/// PermissionDenied for another user's link; the system's errors.
pub(super) fn open(path: &Path) -> io::Result<File> {
    if path.as_os_str().is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut at = start(path)?;
    let mut shown = PathBuf::from(if path.is_absolute() { "/" } else { "" });
    let mut left = names(path.as_os_str());
    let mut links = 0;
    while let Some(name) = left.pop() {
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        // `O_DIRECTORY` is tried first, because it makes the kernel mount file systems on demand.
        let found = match open_at(&at, &name, flags | libc::O_DIRECTORY) {
            Err(error) if error.raw_os_error() == Some(libc::ENOTDIR) => open_at(&at, &name, flags)?,
            opened => opened?,
        };
        let metadata = found.metadata()?;
        if metadata.is_dir() {
            (at, shown) = (found, shown.join(&name));
            continue;
        }
        if !metadata.is_symlink() {
            return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        check(&shown.join(&name), &metadata, &at.metadata()?)?;
        if is_of_proc(&found) {
            // A link of `/proc` refers to an open file, and its text need not be a path.
            at = open_at(&at, &name, libc::O_PATH | libc::O_DIRECTORY)?;
            shown.push(&name);
            continue;
        }
        let target = PathBuf::from(target(&found)?);
        if target.is_absolute() {
            (at, shown) = (start(&target)?, PathBuf::from("/"));
        }
        left.extend(names(target.as_os_str()));
    }
    Ok(at)
}

/// Returns whether an error is about a link of another user.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

fn check(path: &Path, link: &Metadata, folder: &Metadata) -> io::Result<()> {
    let user = link.uid();
    if user == 0 || user == companion::effective_user() || folder.mode() & SHARED_MODE_BITS == 0 {
        return Ok(());
    }
    let why = format!(
        "expected a folder, or a link of yours to one, got the symbolic link {} of user {user}, who could lead it \
         anywhere; name the folder that it leads to, or another one",
        super::shown(path)
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Returns the components of a path, the last one first.
fn names(path: &OsStr) -> Vec<OsString> {
    let names = path
        .as_bytes()
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".".as_slice());
    names.rev().map(|name| OsStr::from_bytes(name).to_owned()).collect()
}

fn start(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let first = if path.is_absolute() { "/" } else { "." };
    std::fs::OpenOptions::new().read(true).custom_flags(flags).open(first)
}

fn target(link: &File) -> io::Result<OsString> {
    let mut bytes = vec![0_u8; MAX_TARGET_BYTES];
    // SAFETY: an open descriptor, an empty string that ends with NUL, and a live buffer of that length.
    let length =
        unsafe { libc::readlinkat(link.as_raw_fd(), c"".as_ptr(), bytes.as_mut_ptr().cast(), bytes.len()) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    if length == 0 || length == bytes.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    bytes.truncate(length);
    Ok(OsString::from_vec(bytes))
}

/// Returns whether a link is one of `/proc`.
fn is_of_proc(link: &File) -> bool {
    let mut found = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: an open descriptor; `found` has room for the result.
    let done = unsafe { libc::fstatfs(link.as_raw_fd(), found.as_mut_ptr()) };
    // SAFETY: the call wrote it, or it is zeroed.
    let kind = unsafe { found.assume_init() }.f_type;
    // C libraries differ in whether these types are signed.
    done == 0 && i128::from(kind) == i128::from(libc::PROC_SUPER_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn ways_are_those_of_the_kernel() {
        let folder = std::env::temp_dir().join(format!("hyperchunk-way-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir_all(folder.join("a/b")).unwrap();
        std::fs::write(folder.join("a/file"), "").unwrap();
        symlink("a/b", folder.join("relative")).unwrap();
        symlink(folder.join("relative"), folder.join("a/absolute")).unwrap();
        symlink("../a/./b/..//b/", folder.join("a/winding")).unwrap();
        symlink("loop", folder.join("loop")).unwrap();
        symlink("nowhere", folder.join("dangling")).unwrap();
        let open_file = File::open(folder.join("a")).unwrap();
        let magic = format!("/proc/self/fd/{}/b", open_file.as_raw_fd());
        let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
        for name in ["a/b", "relative", "a/absolute", "a/winding", "a/../relative/.", "a//b//", "relative/.."]
        {
            let found = open(&folder.join(name)).unwrap().metadata().unwrap();
            assert_eq!(identity(found), identity(std::fs::metadata(folder.join(name)).unwrap()), "{name}");
        }
        for path in [".", "/", "..", "../", &magic] {
            let found = open(Path::new(path)).unwrap().metadata().unwrap();
            assert_eq!(identity(found), identity(std::fs::metadata(path).unwrap()), "{path}");
        }
        for (name, expected) in [
            ("a/file", libc::ENOTDIR),
            ("loop", libc::ELOOP),
            ("dangling", libc::ENOENT),
            ("x/y", libc::ENOENT),
        ] {
            let error = open(&folder.join(name)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(expected), "{name}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
