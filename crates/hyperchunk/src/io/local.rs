//! Files of this machine, read with positioned reads: a mapping would end the process when the file shrinks.

use super::{Source, ends_before};
use crate::{Error, ErrorKind, Result};
use std::fs::{File, Metadata};
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// An open file of this machine.
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    size: u64,
    version: Option<String>,
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
        Ok(Self::of(file, &metadata))
    }

    /// A file that was opened and looked at.
    pub(crate) fn of(file: File, metadata: &Metadata) -> Self {
        Self { file, size: metadata.len(), version: version(metadata) }
    }

    /// The file, to be read in other ways.
    #[must_use]
    pub fn into_file(self) -> File {
        self.file
    }

    /// The file, for its identity.
    #[must_use]
    pub fn as_file(&self) -> &File {
        &self.file
    }
}

/// The version of a file: when it was last written to, and when anything of it last changed. The first can be set to any time
/// (`cp -p`, `rsync -t`, a restored backup), so it tells nothing about another file of the same size; the second cannot.
fn version(metadata: &Metadata) -> Option<String> {
    let since = metadata.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let written = format!("time:{}.{:09}", since.as_secs(), since.subsec_nanos());
    #[cfg(unix)]
    let written = {
        use std::os::unix::fs::MetadataExt as _;
        format!("{written};changed:{}.{:09}", metadata.ctime(), metadata.ctime_nsec())
    };
    Some(written)
}

/// The size and the version that a file has now: it may have been written to since it was opened.
pub(crate) fn now(file: &File) -> Option<(u64, String)> {
    let metadata = file.metadata().ok()?;
    Some((metadata.len(), version(&metadata)?))
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
        self.version.clone()
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        read_exact_at(&self.file, offset, buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ends_before(self.size, offset, buffer.len()),
            _ => cannot("read", &error).at(offset),
        })
    }

    #[cfg(target_os = "linux")]
    fn read_parts_at(&self, offset: u64, parts: &mut [io::IoSliceMut<'_>]) -> Result<()> {
        let length = parts.iter().map(|part| part.len()).sum();
        read_exact_parts_at(&self.file, offset, parts).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ends_before(self.size, offset, length),
            _ => cannot("read", &error).at(offset),
        })
    }
}

/// Reads all parts with as few calls as the system allows.
#[cfg(target_os = "linux")]
fn read_exact_parts_at(file: &File, mut offset: u64, mut parts: &mut [io::IoSliceMut<'_>]) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    while !parts.is_empty() {
        let count = libc::c_int::try_from(parts.len()).unwrap_or(libc::c_int::MAX).min(libc::UIO_MAXIOV);
        let at = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: an `IoSliceMut` is an `iovec` of a buffer that is ours to write; there are at least `count` of them.
        let read = unsafe { libc::preadv(file.as_raw_fd(), parts.as_mut_ptr().cast(), count, at) };
        match usize::try_from(read) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                offset += read as u64;
                io::IoSliceMut::advance_slices(&mut parts, read);
            }
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::IoSliceMut;

    #[test]
    fn parts() {
        let bytes: Vec<u8> = (0..10_000_u32).flat_map(u32::to_le_bytes).collect();
        let path = std::env::temp_dir().join(format!("hyperchunk-parts-{}", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let file = LocalFile::open(&path).unwrap();
        let check = |offset: usize, size: usize, count: usize| {
            let mut read = vec![0; size * count];
            let mut parts: Vec<_> = read.chunks_exact_mut(size).map(IoSliceMut::new).collect();
            let result = file.read_parts_at(offset as u64, &mut parts);
            match bytes.get(offset..offset + size * count) {
                Some(expected) => {
                    result.unwrap();
                    assert_eq!(read, expected);
                }
                None => assert_eq!(result.unwrap_err().kind(), ErrorKind::Truncated),
            }
        };
        check(0, 1, 0);
        check(3, 700, 1);
        // More than the system takes at once.
        check(17, 7, 5_000);
        check(39_999, 1, 1);
        check(39_999, 1, 2);
        check(50_000, 10, 3);
        std::fs::remove_file(path).unwrap();
    }
}
