//! Positioned reads and writes.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};

/// Writes all bytes at an offset.
///
/// # Errors
/// Errors of the system.
#[cfg(unix)]
pub fn write_all_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Fills a buffer with the bytes at an offset.
///
/// # Errors
/// Errors of the system; UnexpectedEof if the file is shorter.
#[cfg(unix)]
pub fn read_exact_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

/// Writes all bytes at an offset.
///
/// # Errors
/// Errors of the system.
#[cfg(windows)]
pub fn write_all_at(file: &File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        offset += count as u64;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Fills a buffer with the bytes at an offset.
///
/// # Errors
/// Errors of the system; UnexpectedEof if the file is shorter.
#[cfg(windows)]
pub fn read_exact_at(file: &File, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                offset += count as u64;
                buffer = &mut buffer[count..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A read that begins at or past the end.
            Err(error) if error.raw_os_error() == Some(ERROR_HANDLE_EOF) => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Windows' code for a read that begins at or past the end of a file.
#[cfg(windows)]
const ERROR_HANDLE_EOF: i32 = 38;

/// Fails: there are no local files.
///
/// # Errors
/// Unsupported.
#[cfg(not(any(unix, windows)))]
pub fn write_all_at(_: &File, _: u64, _: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails: there are no local files.
///
/// # Errors
/// Unsupported.
#[cfg(not(any(unix, windows)))]
pub fn read_exact_at(_: &File, _: u64, _: &mut [u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Reads all parts, one after another.
///
/// # Errors
/// As [`read_exact_at`].
#[cfg(not(target_os = "linux"))]
pub fn read_exact_parts_at(file: &File, mut offset: u64, parts: &mut [IoSliceMut<'_>]) -> io::Result<()> {
    for part in parts {
        read_exact_at(file, offset, part)?;
        offset += part.len() as u64;
    }
    Ok(())
}

/// Reads all parts with as few calls as the system allows.
///
/// # Errors
/// As [`read_exact_at`].
#[cfg(target_os = "linux")]
pub fn read_exact_parts_at(file: &File, mut offset: u64, mut parts: &mut [IoSliceMut<'_>]) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    while !parts.is_empty() {
        let count = libc::c_int::try_from(parts.len()).unwrap_or(libc::c_int::MAX).min(libc::UIO_MAXIOV);
        let at = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: an `IoSliceMut` is an `iovec` of a buffer that is ours to write; there are at least
        // `count` of them.
        let read = unsafe { libc::preadv(file.as_raw_fd(), parts.as_mut_ptr().cast(), count, at) };
        match usize::try_from(read) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                offset += read as u64;
                IoSliceMut::advance_slices(&mut parts, read);
            }
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    Ok(())
}

/// Returns whether an error means that the kernel cannot copy between these two files.
#[cfg(target_os = "linux")]
pub fn cannot_copy(error: &io::Error) -> bool {
    const CODES: [i32; 5] = [libc::EXDEV, libc::EINVAL, libc::ENOSYS, libc::EOPNOTSUPP, libc::EPERM];
    error.raw_os_error().is_some_and(|code| CODES.contains(&code))
}

/// Returns whether an error means that the kernel cannot copy between these two files.
#[cfg(not(target_os = "linux"))]
pub fn cannot_copy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}

/// Fails: copies within the kernel are supported on Linux only.
///
/// # Errors
/// Unsupported.
#[cfg(not(target_os = "linux"))]
pub fn copy_range(_: &File, _: u64, _: &File, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Copies bytes between two files within the kernel.
///
/// # Errors
/// Errors of the system, [`cannot_copy`] among them; UnexpectedEof if the source is shorter.
#[cfg(target_os = "linux")]
pub fn copy_range(file: &File, offset: u64, source: &File, from: u64, length: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let narrow = |value: u64| libc::off64_t::try_from(value).map_err(|_| io::ErrorKind::InvalidInput);
    let (mut to, mut from) = (narrow(offset)?, narrow(from)?);
    let mut left = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    while left > 0 {
        // SAFETY: both descriptors are open, and the call changes nothing but the two offsets.
        let copied = unsafe {
            libc::copy_file_range(source.as_raw_fd(), &raw mut from, file.as_raw_fd(), &raw mut to, left, 0)
        };
        match usize::try_from(copied) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(copied) => left = left.saturating_sub(copied),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    Ok(())
}

/// Extends a file, and never shrinks it if another process extends it further at the same time.
///
/// # Errors
/// Errors of the system.
#[cfg(target_os = "linux")]
pub fn extend(file: &File, size: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let last = libc::off_t::try_from(size.saturating_sub(1)).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: a call on a descriptor that is open.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, last, 1) } == 0 {
        return Ok(());
    }
    // File systems without `fallocate`.
    if file.metadata()?.len() < size { file.set_len(size) } else { Ok(()) }
}

/// Extends a file, unless it has that size or more. Two processes must not do so at the same time.
///
/// # Errors
/// Errors of the system.
#[cfg(not(target_os = "linux"))]
pub fn extend(file: &File, size: u64) -> io::Result<()> {
    if file.metadata()?.len() < size { file.set_len(size) } else { Ok(()) }
}

/// Writes all parts, one after another.
///
/// # Errors
/// As [`write_all_at`].
#[cfg(not(target_os = "linux"))]
pub fn write_all_parts_at(file: &File, mut offset: u64, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    for part in parts {
        write_all_at(file, offset, part)?;
        offset += part.len() as u64;
    }
    Ok(())
}

/// Writes all parts with as few calls as the system allows.
///
/// # Errors
/// As [`write_all_at`].
#[cfg(target_os = "linux")]
pub fn write_all_parts_at(file: &File, mut offset: u64, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    while !parts.is_empty() {
        let count = libc::c_int::try_from(parts.len()).unwrap_or(libc::c_int::MAX).min(libc::UIO_MAXIOV);
        let at = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: an `IoSlice` is an `iovec` of bytes that live as long as it; there are at least `count`
        // of them.
        let written = unsafe { libc::pwritev(file.as_raw_fd(), parts.as_ptr().cast(), count, at) };
        match usize::try_from(written) {
            Ok(0) if parts.iter().any(|part| !part.is_empty()) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                offset += written as u64;
                IoSlice::advance_slices(&mut parts, written);
                while parts.first().is_some_and(|part| part.is_empty()) {
                    IoSlice::advance_slices(&mut parts, 0);
                }
            }
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    Ok(())
}
