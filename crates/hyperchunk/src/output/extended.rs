//! Extended attributes of files.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Maximum size in bytes of a list of names or of a value, on Linux.
const MAX_BYTES: usize = 64 << 10;

/// Copies the extended attributes of a file to another, including access control lists. Returns a message for
/// each attribute that could not be copied.
pub(crate) fn copy_extended_attributes(from: &Path, to: &File) -> Vec<String> {
    let Ok(path) = CString::new(from.as_os_str().as_bytes()) else { return Vec::new() };
    let mut buffer = vec![0_u8; MAX_BYTES];
    // SAFETY: a string that ends with NUL, and a buffer of that length.
    let length = unsafe { libc::listxattr(path.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
    let length = match usize::try_from(length) {
        Ok(length) => length.min(buffer.len()),
        Err(_) => {
            let error = io::Error::last_os_error();
            // The file system has no extended attributes.
            return match error.raw_os_error() {
                Some(libc::ENOTSUP | libc::ENOSYS) => Vec::new(),
                _ => vec![format!("extended attributes are not kept: {error}")],
            };
        }
    };
    let names = buffer.get(..length).unwrap_or_default().split_inclusive(|byte| *byte == 0);
    let names = names.filter_map(|name| CStr::from_bytes_with_nul(name).ok());
    let copied = names.map(|name| (name, copy(&path, name, to)));
    copied
        .filter_map(|(name, copied)| {
            let error = copied.err()?;
            Some(format!("the extended attribute {} is not kept: {error}", name.to_string_lossy()))
        })
        .collect()
}

fn copy(path: &CStr, name: &CStr, to: &File) -> io::Result<()> {
    let mut value = vec![0_u8; MAX_BYTES];
    // SAFETY: strings that end with NUL, and a buffer of that length.
    let length =
        unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    value.truncate(length);
    // SAFETY: an open descriptor, a string that ends with NUL, and a value of that length.
    let set =
        unsafe { libc::fsetxattr(to.as_raw_fd(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
