//! Opening files for the command, with error messages that name them.

use crate::errors::ErrorStackGuard;
use crate::handles::{Handle, c_name};
use crate::library::Library;
use crate::symbols::ACC_RDWR;
use crate::{Error, ErrorKind, Result};
use std::path::Path;

/// An open file; HDF5's own error printing is off while it exists.
pub(super) struct OpenFile {
    pub(super) handle: Handle,
    _quiet: ErrorStackGuard,
}

/// Opens `path` for reading, or for editing when `write`.
pub(super) fn open(library: &'static Library, path: &Path, write: bool) -> Result<OpenFile> {
    let about = |e: Error| e.about(path.display().to_string());
    let quiet = ErrorStackGuard::new(library);
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() => {}
        Ok(_) => return Err(about(Error::new(ErrorKind::Io, "is not a file"))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(about(Error::new(ErrorKind::NotFound, "there is no such file")));
        }
        Err(e) => return Err(about(Error::io("cannot open the file", &e))),
    }
    let Some(text) = path.to_str() else {
        return Err(about(Error::new(ErrorKind::Unsupported, "file names must be UTF-8")));
    };
    if write {
        hyperchunk::output::target(path).map_err(|e| Error::new(ErrorKind::Refused, e.to_string()))?;
    }
    let flags = if write { ACC_RDWR } else { 0 };
    let handle = library.open_file(&c_name(text)?, flags).map_err(|e| about(in_words(e)))?;
    Ok(OpenFile { handle, _quiet: quiet })
}

/// Rewords common HDF5 errors for users.
fn in_words(error: Error) -> Error {
    let said = error.to_string();
    let errno = |number: i32| said.contains(&format!("errno = {number},"));
    let words = if said.contains("unable to lock file") && (errno(libc::EAGAIN) || errno(libc::EACCES)) {
        "another program has it open: close it there, or wait, then try again"
    } else if said.contains("already open for") || said.contains("file close degree") {
        "this program has it open already: close it first, then try again"
    } else if errno(libc::EROFS) {
        "it is on a file system that can only be read: copy the file to where it can be changed"
    } else if errno(libc::EACCES) || errno(libc::EPERM) {
        "you may not open it so: look at who owns it, and at its permissions"
    } else if said.contains("truncated file") {
        "it is cut short: parts of it are missing; copy it again from where it came from"
    } else if said.contains("file signature not found") {
        "it is no HDF5 file"
    } else {
        return error;
    };
    Error::new(error.kind(), format!("cannot open the file: {words}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons() {
        let check = |said: &str, expected: &str| {
            let error = in_words(Error::new(ErrorKind::Io, format!("cannot open the file: {said}")));
            assert!(error.to_string().contains(expected), "{error}");
        };
        check(
            "unable to lock file, errno = 11, error message = 'Resource temporarily unavailable'",
            "another program",
        );
        check(
            "unable to open file: name = 'a.h5', errno = 30, error message = 'Read-only file system'",
            "can only be read",
        );
        check(
            "unable to open file: name = 'a.h5', errno = 13, error message = 'Permission denied'",
            "permissions",
        );
        check("truncated file: eof = 1000, sblock->base_addr = 0, stored_eof = 2048", "cut short");
        check("file signature not found", "no HDF5 file");
        check("something else", "something else");
    }
}
