//! Opening files for the command, with error messages that name them.

use crate::to_udf_error;
use hyperchunk::index::IndexOption;
use hyperchunk::os::Obstacle;
use hyperchunk::write::{CreateOptions, NodeId, Writer};
use hyperchunk::{ErrorKind as EngineKind, File, OpenOptions};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use std::path::Path;

/// A snapshot of a file from when it was opened, and its edit, if it is edited.
pub(super) struct OpenFile {
    pub(super) file: File,
    writer: Option<Writer>,
}

impl OpenFile {
    /// Returns the edit.
    pub(super) fn writer(&self) -> Result<&Writer> {
        self.writer.as_ref().ok_or_else(|| Error::new(ErrorKind::Io, "the file is not open for writing"))
    }

    /// Returns the object of the edit at an address of the file.
    pub(super) fn node(&self, address: u64) -> Result<NodeId> {
        let node = self.writer()?.edited_object(address);
        node.ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no such object in the file"))
    }

    /// Commits the edit, and closes the file.
    pub(super) fn commit(mut self) -> Result<()> {
        let Some(writer) = &self.writer else { return Ok(()) };
        writer.close().map_err(|error| to_udf_error(&error))?;
        self.writer = None;
        Ok(())
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if let Some(writer) = &self.writer {
            // It was not committed; the earlier error is the one to report.
            drop(writer.discard());
        }
    }
}

/// Opens `path` for reading, or for editing when `write`.
pub(super) fn open(path: &Path, write: bool) -> Result<OpenFile> {
    let about = |e: Error| e.about(path.display().to_string());
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() => {}
        Ok(_) => return Err(about(Error::new(ErrorKind::Io, "is not a regular file"))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(about(Error::new(ErrorKind::NotFound, "there is no such file")));
        }
        Err(e) => return Err(about(Error::io("cannot open the file", &e))),
    }
    open_file(path, write).map_err(|error| about(in_words(&error)))
}

fn open_file(path: &Path, write: bool) -> hyperchunk::Result<OpenFile> {
    if write {
        let writer = Writer::edit(path, &CreateOptions::default())?;
        let file = writer.snapshot().inspect_err(|_| drop(writer.discard()))?;
        return Ok(OpenFile { file, writer: Some(writer) });
    }
    let mut options = OpenOptions::default();
    options.index = IndexOption::Never;
    Ok(OpenFile { file: File::open(path, &options)?, writer: None })
}

/// Rewords common errors for users.
fn in_words(error: &hyperchunk::Error) -> Error {
    let words = match (error.kind(), error.os_code().and_then(hyperchunk::os::obstacle)) {
        (EngineKind::Locked, _) if error.message().contains("this program") => {
            "this program has it open already: close it first, then try again"
        }
        (EngineKind::Locked, _) => "another program has it open: close it there, or wait, then try again",
        (_, Some(Obstacle::ReadOnlyFileSystem)) => {
            "it is on a read-only file system: copy the file to a writable one"
        }
        (_, Some(Obstacle::Permission)) => {
            "you have no permission to open it like this: check its owner and its permissions"
        }
        (EngineKind::Truncated, _) => {
            "it is cut short: parts of it are missing; copy it again from its source"
        }
        (EngineKind::NotHdf5, _) => "it is not an HDF5 file",
        _ => {
            let error = to_udf_error(error);
            return Error::new(error.kind(), error.message().to_owned());
        }
    };
    let kind = if error.kind() == EngineKind::Refused { ErrorKind::Refused } else { ErrorKind::Io };
    Error::new(kind, format!("cannot open the file: {words}"))
}
