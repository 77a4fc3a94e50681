//! Mappings, locks and reservation of memory; all system calls of the pool are here.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// A shared mapping of the start of a file.
#[derive(Debug)]
pub(super) struct Mapping {
    start: *mut u8,
    length: usize,
}

// SAFETY: the mapping is valid in every thread; the states of the pool ensure that no bytes are
// read while they are written.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of a file, which must be at least that long.
    pub(super) fn new(file: &File, length: usize, writable: bool) -> io::Result<Self> {
        if file.metadata()?.len() < length as u64 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file is shorter than it should be",
            ));
        }
        if length == 0 {
            return Ok(Self { start: std::ptr::dangling_mut(), length });
        }
        let rights = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping of an open file; the result is checked.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), length, rights, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), length })
    }

    /// Populates the page tables of the first bytes, to avoid page faults on the first write.
    pub(super) fn prepare(&self, length: usize) {
        let length = length.min(self.length);
        if length > 0 {
            // SAFETY: inside the mapping. A system that does not know the call does nothing.
            unsafe { libc::madvise(self.start.cast(), length, libc::MADV_POPULATE_WRITE) };
        }
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: mapped by `new`, and no reference to it is left.
            unsafe { libc::munmap(self.start.cast(), self.length) };
        }
    }
}

/// Changes the lock of a file; returns `false` if another process holds a conflicting lock.
fn flock(file: &File, how: i32) -> io::Result<bool> {
    loop {
        // SAFETY: no pointers.
        if unsafe { libc::flock(file.as_raw_fd(), how) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EWOULDBLOCK) => return Ok(false),
            Some(libc::EINTR) => {}
            _ => return Err(error),
        }
    }
}

/// A lock of a file that ends with this value, also if a child process that was forked meanwhile
/// has the file open.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    /// True if dropping this value must not unlock the file.
    kept: bool,
}

impl Lock {
    /// Waits until no other process holds a lock of the file, and locks it exclusively.
    pub(super) fn wait(file: File) -> io::Result<Self> {
        flock(&file, libc::LOCK_EX)?;
        Ok(Self { file, kept: false })
    }

    /// Locks a file exclusively or shared; `None` if another process holds a conflicting lock.
    pub(super) fn attempt(file: File, alone: bool) -> io::Result<Option<Self>> {
        let how = if alone { libc::LOCK_EX } else { libc::LOCK_SH };
        Ok(flock(&file, how | libc::LOCK_NB)?.then_some(Self { file, kept: false }))
    }

    /// Turns an exclusive lock into a shared one. Returns `false`, without a lock, if another
    /// process locked the file exclusively in between.
    pub(super) fn share(&self) -> io::Result<bool> {
        flock(&self.file, libc::LOCK_SH | libc::LOCK_NB)
    }

    /// Returns the lock as one that also forked processes hold: it ends when the last of them
    /// closes the file.
    pub(super) fn kept(mut self) -> Self {
        self.kept = true;
        self
    }

    /// Ends the lock, also for forked processes.
    pub(super) fn end(mut self) {
        self.kept = false;
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if !self.kept {
            // An open file can always be unlocked.
            drop(flock(&self.file, libc::LOCK_UN));
        }
    }
}

/// Allocates memory for `length` bytes of a file, so that writes to a mapping cannot fail later.
pub(super) fn reserve(file: &File, length: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    loop {
        // SAFETY: no pointers.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
            0 => return Ok(()),
            libc::EINTR => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Returns the free space of a file system in bytes.
pub(super) fn room(folder: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::CString::new(folder.as_os_str().as_bytes()).ok()?;
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: a string that ends with NUL, and a place for the result.
    if unsafe { libc::statvfs(name.as_ptr(), found.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: filled by the call.
    let found = unsafe { found.assume_init() };
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}
