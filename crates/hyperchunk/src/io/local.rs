//! Files of this machine, read with positioned reads: a mapping would end the process when the file shrinks.

use super::{Source, ends_before};
use crate::{Error, ErrorKind, Result};
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// An open file of this machine.
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    size: u64,
    modified: Option<SystemTime>,
}

impl LocalFile {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// NotFound or Io, with the system's reason.
    pub fn open(path: &Path) -> Result<Self> {
        // Looked at before it is opened: opening a pipe waits for somebody who writes to it.
        let metadata = std::fs::metadata(path).map_err(|error| cannot("open", &error))?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            return Err(Error::new(ErrorKind::Io, "cannot open the file: it is a folder"));
        }
        if !kind.is_file() {
            return Err(Error::new(
                ErrorKind::Io,
                "cannot open the file: it is a pipe, a socket or a device",
            ));
        }
        let file = File::open(path).map_err(|error| cannot("open", &error))?;
        let metadata = file.metadata().map_err(|error| cannot("look at", &error))?;
        Ok(Self { file, size: metadata.len(), modified: metadata.modified().ok() })
    }

    /// The file, for its identity.
    #[must_use]
    pub fn as_file(&self) -> &File {
        &self.file
    }
}

fn cannot(what: &str, error: &io::Error) -> Error {
    let kind = if error.kind() == io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Io };
    Error::new(kind, format!("cannot {what} the file: {error}"))
}

impl Source for LocalFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn version(&self) -> Option<String> {
        let since = self.modified?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(format!("time:{}.{:09}", since.as_secs(), since.subsec_nanos()))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        read_exact_at(&self.file, offset, buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ends_before(self.size, offset, buffer.len()),
            _ => cannot("read", &error).at(offset),
        })
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                offset += count as u64;
                buffer = &mut buffer[count..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
