//! Positioned reads and writes on every operating system.

use std::fs::File;
use std::io;

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
        let count = std::os::windows::fs::FileExt::seek_read(file, buffer, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        offset += count as u64;
        buffer = &mut buffer[count..];
    }
    Ok(())
}
