//! Sealed shared memory and memory maps.

use crate::error::{Error, Result, fail};
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::ptr::NonNull;

/// Memory map, unmapped on drop.
#[derive(Debug)]
pub struct Map {
    base: NonNull<u8>,
    bytes: usize,
    /// Offset of the first requested byte in the map.
    skip: usize,
}

// SAFETY: a map is plain memory that any thread may use; its owner synchronises writes.
unsafe impl Send for Map {}

/// Returns the page size of this machine in bytes.
pub(crate) fn page() -> usize {
    // SAFETY: no preconditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

impl Map {
    /// Maps the first `bytes` bytes of `fd`, shared.
    ///
    /// # Errors
    /// `Io`, or `Limit` when the size does not fit.
    pub fn new(fd: BorrowedFd<'_>, bytes: u64, writable: bool) -> Result<Self> {
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: the address is null, so that the kernel chooses unused pages.
        unsafe { Map::any(std::ptr::null_mut(), fd, 0, bytes, protection, libc::MAP_SHARED) }
    }

    /// Maps `bytes` bytes of `fd`, starting with the page at `offset`, shared, and replaces the mapping at
    /// the page `at`.
    ///
    /// # Safety
    /// The pages from `at` on, as many as the map has, must be unused.
    ///
    /// # Errors
    /// The errors of [`new`](Map::new).
    pub unsafe fn shared_at(
        at: *mut u8,
        fd: BorrowedFd<'_>,
        offset: u64,
        bytes: u64,
        writable: bool,
    ) -> Result<Self> {
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: the caller's promise.
        unsafe { Map::any(at, fd, offset, bytes, protection, libc::MAP_SHARED) }
    }

    /// Maps `bytes` bytes of a file from any `offset` on, for reading. A map has whole pages: those that also
    /// contain other bytes of the file are replaced by copies of only the requested bytes.
    ///
    /// # Errors
    /// The errors of [`new`](Map::new).
    pub fn piece(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<Self> {
        // SAFETY: the address is null, so that the kernel chooses unused pages.
        unsafe { Map::piece_at(std::ptr::null_mut(), fd, offset, bytes) }
    }

    /// Like [`piece`](Map::piece), replacing the mapping at the page `at`, unless that is null.
    ///
    /// # Safety
    /// The pages from `at` on, as many as the map has, must be unused.
    ///
    /// # Errors
    /// The errors of [`new`](Map::new).
    pub unsafe fn piece_at(at: *mut u8, fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<Self> {
        let page = page();
        let skip = usize::try_from(offset % page as u64).unwrap_or(0);
        let length = usize::try_from(bytes).ok().and_then(|bytes| bytes.checked_add(skip));
        let Some(length) = length else { fail!(Limit, "{bytes} bytes cannot be mapped") };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the caller's promise.
        let mut map = unsafe { Map::pages_at(at, -1, 0, length, protection, flags) }?;
        (map.bytes, map.skip) = (length, skip);
        // Pages with only requested bytes.
        let first = skip.next_multiple_of(page);
        let last = length - length % page;
        let inner = first < last;
        if inner {
            let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
            let from = offset - skip as u64 + first as u64;
            // SAFETY: pages of the map that was just made, without other users; dropping it unmaps them.
            unsafe {
                let over = map.base.as_ptr().add(first);
                std::mem::forget(Map::pages_at(
                    over,
                    fd.as_raw_fd(),
                    from,
                    last - first,
                    libc::PROT_READ,
                    flags,
                )?);
            }
        }
        let edges = if inner { vec![(skip, first), (last, length)] } else { vec![(skip, length)] };
        for (from, to) in edges.into_iter().filter(|(from, to)| from < to) {
            // SAFETY: inside the map, in pages that are not the file's, without other users.
            let edge = unsafe { std::slice::from_raw_parts_mut(map.base.as_ptr().add(from), to - from) };
            read_at(fd, offset - skip as u64 + from as u64, edge)?;
        }
        // SAFETY: the pages of this map.
        if unsafe { libc::mprotect(map.base.as_ptr().cast(), length.max(1), libc::PROT_READ) } != 0 {
            return Err(Error::last_os("cannot protect memory"));
        }
        Ok(map)
    }

    /// Maps `bytes` bytes of a file from any `offset` on, for reading, with the rest of their pages.
    ///
    /// # Errors
    /// The errors of [`new`](Map::new).
    pub fn window(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: the address is null, so that the kernel chooses unused pages.
        unsafe { Map::any(std::ptr::null_mut(), fd, offset, bytes, libc::PROT_READ, flags) }
    }

    /// # Safety
    /// Unless `at` is null, the pages there must be unused.
    unsafe fn any(
        at: *mut u8,
        fd: BorrowedFd<'_>,
        offset: u64,
        bytes: u64,
        protection: i32,
        flags: i32,
    ) -> Result<Self> {
        let skip = offset % page() as u64;
        let Some(Ok(length)) = bytes.checked_add(skip).map(usize::try_from) else {
            fail!(Limit, "{bytes} bytes cannot be mapped")
        };
        // SAFETY: the caller's promise.
        let mut map = unsafe { Map::pages_at(at, fd.as_raw_fd(), offset - skip, length, protection, flags) }?;
        map.skip = usize::try_from(skip).unwrap_or(0);
        Ok(map)
    }

    /// Maps `length` bytes of a file from a page on, or of anonymous memory.
    ///
    /// # Safety
    /// Unless `at` is null, the pages there must be unused.
    unsafe fn pages_at(
        at: *mut u8,
        fd: RawFd,
        start: u64,
        length: usize,
        protection: i32,
        flags: i32,
    ) -> Result<Self> {
        let flags = flags | if at.is_null() { 0 } else { libc::MAP_FIXED };
        let Ok(start) = libc::off_t::try_from(start) else {
            fail!(Limit, "{start} is not a valid offset in a file")
        };
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory of ours; for another,
        // the caller promises it.
        let base = unsafe { libc::mmap(at.cast(), length.max(1), protection, flags, fd, start) };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Map { base, bytes: length.max(1), skip: 0 })
            }
            _ => Err(Error::last_os(format_args!("cannot map {length} bytes of memory"))),
        }
    }

    /// Returns the requested bytes: their address and number.
    pub fn region(&self) -> (*mut u8, usize) {
        // SAFETY: skip is inside the map.
        (unsafe { self.base.as_ptr().add(self.skip) }, self.bytes - self.skip)
    }

    /// Returns a pointer to `bytes` bytes from `offset` on, or `None` when they are not all inside.
    pub fn at(&self, offset: u64, bytes: u64) -> Option<*mut u8> {
        let (first, length) = self.region();
        let (offset, bytes) = (usize::try_from(offset).ok()?, usize::try_from(bytes).ok()?);
        if offset.checked_add(bytes)? > length {
            return None;
        }
        // SAFETY: offset is inside the map.
        Some(unsafe { first.add(offset) })
    }
}

impl Map {
    /// Faults in `bytes` bytes from `offset` on at once, which is cheaper than page by page. Fails if the
    /// file no longer backs the map, where an access would raise a signal.
    pub fn populate(&self, offset: u64, bytes: u64) -> bool {
        let Some((start, length)) = self.pages(offset, bytes) else { return false };
        // SAFETY: pages of this map; the advice changes no content.
        let rc = unsafe { libc::madvise(start, length, libc::MADV_POPULATE_READ) };
        // Linux before 5.14 does not support this advice.
        rc == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
    }

    /// Returns whether `bytes` bytes from `offset` on are resident in memory, as reported by the kernel;
    /// `None` if it does not report. The query costs a thirtieth of [`populate`](Map::populate).
    ///
    /// For a file that this process may not write the kernel always says yes (see [`reports_residency`]), and
    /// possibly also for pages past the end of the file.
    pub fn is_resident(&self, offset: u64, bytes: u64) -> Option<bool> {
        /// Number of pages queried at a time.
        const BATCH_PAGES: usize = 1024;
        let (mut start, mut left) = self.pages(offset, bytes)?;
        let mut told = [0_u8; BATCH_PAGES];
        while left > 0 {
            let length = left.min(BATCH_PAGES * page());
            let told = told.get_mut(..length.div_ceil(page()))?;
            // SAFETY: pages of this map, and a byte for each of them.
            if unsafe { libc::mincore(start, length, told.as_mut_ptr()) } != 0 {
                return None;
            }
            if told.iter().any(|page| page & 1 == 0) {
                return Some(false);
            }
            start = start.wrapping_byte_add(length);
            left -= length;
        }
        Some(true)
    }

    /// Returns the pages that contain these bytes: their start, and the length up to the last byte.
    fn pages(&self, offset: u64, bytes: u64) -> Option<(*mut libc::c_void, usize)> {
        let first = self.at(offset, bytes)?;
        let before = first as usize % page();
        Some((first.wrapping_byte_sub(before).cast(), before.checked_add(usize::try_from(bytes).ok()?)?))
    }
}

/// Reads from a file until the buffer is full.
fn read_at(fd: BorrowedFd<'_>, offset: u64, mut to: &mut [u8]) -> Result<()> {
    let mut at = libc::off_t::try_from(offset).unwrap_or(libc::off_t::MAX);
    while !to.is_empty() {
        // SAFETY: the buffer is live and of that size.
        let n = unsafe { libc::pread(fd.as_raw_fd(), to.as_mut_ptr().cast(), to.len(), at) };
        match usize::try_from(n) {
            Ok(0) => fail!(Io, "the file ends before byte {at}: it was cut short"),
            Ok(n) => {
                to = to.get_mut(n..).unwrap_or_default();
                at = at.saturating_add(libc::off_t::try_from(n).unwrap_or(0));
            }
            Err(_) => {
                let error = Error::last_os("cannot read an input");
                if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Returns whether the kernel reports to this process correctly which pages of a file of `size` bytes are
/// resident. Otherwise it reports all as resident, even far past the end of the file.
pub fn reports_residency(fd: BorrowedFd<'_>, size: u64) -> bool {
    const FAR_BYTES: u64 = 1 << 30;
    let past_end = size.checked_next_multiple_of(FAR_BYTES).and_then(|end| end.checked_add(FAR_BYTES));
    past_end
        .and_then(|offset| Map::window(fd, offset, page() as u64).ok())
        .is_some_and(|map| map.is_resident(0, page() as u64) == Some(false))
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that pages_at() created.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

fn memfd(executable: bool) -> Result<OwnedFd> {
    const MFD_NOEXEC_SEAL: libc::c_uint = 8;
    const MFD_EXEC: libc::c_uint = 16;
    let base = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    for flags in [base | if executable { MFD_EXEC } else { MFD_NOEXEC_SEAL }, base] {
        // SAFETY: a constant NUL-terminated name.
        let fd = unsafe { libc::memfd_create(c"hyperchunk".as_ptr(), flags) };
        if fd >= 0 {
            // SAFETY: the kernel just gave us this descriptor.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
    Err(Error::last_os("cannot create shared memory"))
}

fn seal(fd: &OwnedFd, seals: libc::c_int) -> Result<()> {
    // SAFETY: plain system call on a descriptor that we own.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
        return Err(Error::last_os("cannot seal shared memory"));
    }
    Ok(())
}

/// Memory shared by this process and a worker. Its size is sealed, so that the worker cannot make an access
/// of ours fault.
#[derive(Debug)]
pub struct SharedMemory {
    /// Descriptor for the worker.
    pub fd: OwnedFd,
    /// Our mapping.
    pub map: Map,
}

impl SharedMemory {
    /// Creates `bytes` zero bytes. The worker may write them only if `worker_writes` is set.
    ///
    /// # Errors
    /// `Io`.
    pub fn new(bytes: u64, worker_writes: bool) -> Result<Self> {
        const F_SEAL_FUTURE_WRITE: libc::c_int = 0x10;
        let fd = memfd(false)?;
        let Ok(length) = libc::off_t::try_from(bytes) else { fail!(Limit, "{bytes} bytes cannot be shared") };
        // SAFETY: plain system call on a descriptor that we own.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), length) } != 0 {
            return Err(Error::last_os(format_args!("cannot allocate {bytes} bytes of shared memory")));
        }
        let map = Map::new(as_fd(&fd), bytes, true)?;
        let future = if worker_writes { 0 } else { F_SEAL_FUTURE_WRITE };
        seal(&fd, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | future)?;
        seal(&fd, libc::F_SEAL_SEAL)?;
        Ok(SharedMemory { fd, map })
    }

    /// Fills `to` with the bytes from `offset` on, and clears these; `None` if they are not inside. They are
    /// read only once. What the worker writes there meanwhile is taken or lost.
    pub fn take(&self, offset: u64, to: &mut [MaybeUninit<u8>]) -> Option<()> {
        /// Bytes that are cleared while they are in the nearest cache.
        const BATCH_BYTES: usize = 32 << 10;
        let mut from = self.map.at(offset, to.len() as u64)?;
        for part in to.chunks_mut(BATCH_BYTES) {
            // SAFETY: at() has checked the range, which is this mapping's and not the caller's memory.
            unsafe {
                std::ptr::copy_nonoverlapping(from.cast_const().cast(), part.as_mut_ptr(), part.len());
                std::ptr::write_bytes(from, 0, part.len());
                from = from.add(part.len());
            }
        }
        Some(())
    }

    /// Clears bytes; none if they are not inside.
    pub fn clear(&self, offset: u64, bytes: u64) {
        if let (Some(start), Ok(bytes)) = (self.map.at(offset, bytes), usize::try_from(bytes)) {
            // SAFETY: at() has checked the range.
            unsafe { std::ptr::write_bytes(start, 0, bytes) };
        }
    }
}

fn as_fd(fd: &OwnedFd) -> BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(fd)
}

/// Creates a sealed, immutable descriptor with the content `bytes`.
///
/// # Errors
/// `Io`.
pub fn constant(bytes: &[u8], executable: bool) -> Result<OwnedFd> {
    let mut file = std::fs::File::from(memfd(executable)?);
    file.write_all(bytes).map_err(|e| Error::io("cannot write to shared memory", &e))?;
    let fd = OwnedFd::from(file);
    seal(&fd, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    #[test]
    fn the_other_side_can_neither_resize_nor_write() {
        let shared = SharedMemory::new(8192, false).unwrap();
        assert!(Map::new(shared.fd.as_fd(), 8192, true).is_err());
        assert!(Map::new(shared.fd.as_fd(), 8192, false).is_ok());
        let shared = SharedMemory::new(8192, true).unwrap();
        assert!(Map::new(shared.fd.as_fd(), 8192, true).is_ok());
        for size in [0, 4096, 1 << 40] {
            // SAFETY: the descriptor is ours.
            assert_eq!(unsafe { libc::ftruncate(shared.fd.as_raw_fd(), size) }, -1);
        }
        assert!(shared.map.at(8192, 1).is_none());
        assert!(shared.map.at(u64::MAX, 2).is_none());
        assert!(shared.map.at(8191, 1).is_some());
    }

    #[test]
    fn test_taken_bytes_are_cleared_and_no_others() {
        let bytes = 3 * (32 << 10) + 500;
        let shared = SharedMemory::new(bytes, true).unwrap();
        let worker = Map::new(shared.fd.as_fd(), bytes, true).unwrap();
        let place = worker.at(0, bytes).unwrap();
        let all = || {
            // SAFETY: all of the map, without another user.
            unsafe { std::slice::from_raw_parts_mut(place, usize::try_from(bytes).unwrap()) }
        };
        for (offset, length) in [(0, 0), (0, 1), (1, 70), (4095, 2), (500, 3 * (32 << 10)), (0, all().len())]
        {
            let full: Vec<u8> = (1..=250).cycle().take(all().len()).collect();
            all().copy_from_slice(&full);
            let mut to = vec![MaybeUninit::new(0); length];
            shared.take(offset as u64, &mut to).unwrap();
            // SAFETY: initialised above.
            let to: Vec<u8> = to.into_iter().map(|byte| unsafe { byte.assume_init() }).collect();
            assert_eq!(to, full[offset..offset + length]);
            assert!(all()[offset..offset + length].iter().all(|byte| *byte == 0));
            assert_eq!(all()[..offset], full[..offset]);
            assert_eq!(all()[offset + length..], full[offset + length..]);
        }
        all().fill(1);
        for (offset, length) in [(bytes, 1), (0, bytes + 1), (u64::MAX, 2)] {
            let mut to = vec![MaybeUninit::new(0); usize::try_from(length).unwrap()];
            assert!(shared.take(offset, &mut to).is_none());
            shared.clear(offset, length);
        }
        assert!(all().iter().all(|byte| *byte == 1));
        shared.clear(5, 100);
        assert_eq!(all().iter().filter(|byte| **byte == 0).count(), 100);
        assert_eq!((all()[4], all()[5], all()[104], all()[105]), (1, 0, 0, 1));
    }

    #[test]
    fn a_piece_of_a_file_shows_nothing_else() {
        let text = constant(&[7u8; 10_000], false).unwrap();
        for (offset, bytes) in
            [(4097u64, 100u64), (0, 10), (4095, 2), (5000, 5000), (8192, 1808), (4096, 4096)]
        {
            let map = Map::piece(text.as_fd(), offset, bytes).unwrap();
            assert!(map.at(bytes, 1).is_none());
            let first = map.base.as_ptr();
            let pages = map.bytes.next_multiple_of(page());
            // SAFETY: whole pages of the map.
            let seen = unsafe { std::slice::from_raw_parts(first, pages) };
            assert_eq!(seen.iter().filter(|&&b| b == 7).count() as u64, bytes, "{offset} {bytes}");
            // SAFETY: at() checked the range.
            assert_eq!(unsafe { *map.at(bytes - 1, 1).unwrap() }, 7);
            // Discarding the memory, as a worker may, does not reveal the file either.
            // SAFETY: whole pages of a map without other users.
            assert_eq!(unsafe { libc::madvise(first.cast(), pages, libc::MADV_DONTNEED) }, 0);
            // SAFETY: as above.
            let seen = unsafe { std::slice::from_raw_parts(first, pages) };
            let wanted = map.skip..map.bytes;
            assert!(seen.iter().enumerate().all(|(at, byte)| *byte != 7 || wanted.contains(&at)));
        }
        for (offset, bytes) in [(9_999, 2), (20_000, 1), (4096, 6000)] {
            assert!(Map::piece(text.as_fd(), offset, bytes).is_err());
        }
    }

    #[test]
    fn what_is_in_memory_is_told_of_ones_own_files_alone() {
        let bytes = (4 << 20) + 5;
        let path = std::env::temp_dir().join(format!("hyperchunk-resident-{}", std::process::id()));
        std::fs::write(&path, vec![7; usize::try_from(bytes).unwrap()]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        assert!(reports_residency(file.as_fd(), bytes));
        let map = Map::window(file.as_fd(), 3, bytes - 3).unwrap();
        assert!(map.populate(0, bytes - 3));
        assert_eq!(map.is_resident(0, bytes - 3), Some(true));
        assert_eq!(map.is_resident(1, bytes - 3), None);
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(page() as u64).unwrap();
        assert_eq!(map.is_resident(0, 10), Some(true));
        assert!(!map.populate(0, bytes - 3));
        std::fs::remove_file(&path).unwrap();
        // Only if the process is not root and may not write the file.
        // SAFETY: no preconditions.
        if unsafe { libc::geteuid() } != 0
            && let Ok(file) = std::fs::File::open("/etc/passwd")
        {
            assert!(!reports_residency(file.as_fd(), file.metadata().unwrap().len()));
        }
    }
}
