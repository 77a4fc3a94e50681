//! Opening files for the command, with messages that name them.

use crate::errors::Quiet;
use crate::handles::{Handle, c_name};
use crate::library::Library;
use crate::symbols::ACC_RDWR;
use crate::{Error, ErrorKind, Result};
use std::path::Path;

/// An open file whose errors we report ourselves.
pub(super) struct OpenFile {
    pub(super) handle: Handle,
    _quiet: Quiet,
}

/// Opens `path` for reading, or for editing when `write`.
pub(super) fn open(library: &'static Library, path: &Path, write: bool) -> Result<OpenFile> {
    let about = |e: Error| e.about(path.display().to_string());
    let quiet = Quiet::new(library);
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
    let flags = if write { ACC_RDWR } else { 0 };
    let handle = library.open_file(&c_name(text)?, flags).map_err(about)?;
    Ok(OpenFile { handle, _quiet: quiet })
}
