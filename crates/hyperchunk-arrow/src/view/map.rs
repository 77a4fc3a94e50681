//! Files of this machine in memory, as Arrow's buffers: the one place where that is done.
//!
//! A mapping shows what the file has *now*: what another process changes in place, as h5py's mode `r+` does, is seen in arrays
//! that are there already. A file that another process makes shorter while it is mapped takes the memory behind its new end
//! away: whoever looks there gets SIGBUS from the system, as with any mapping. What must be safe from that is read
//! (`mapped: false`). The length is checked whenever a file is mapped and whenever batches are begun.

use arrow_buffer::Buffer;
use hyperchunk::io::Source;
use hyperchunk::{Error, ErrorKind, Result};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The mapped files of a table.
#[derive(Debug, Default)]
pub(super) struct Maps(Mutex<Vec<Mapped>>);

#[derive(Debug)]
struct Mapped {
    source: Arc<dyn Source>,
    /// `None` if the system refuses, as where there are few addresses: what it has is read.
    map: Option<Arc<Map>>,
}

impl Maps {
    /// A file in memory, mapped once; `None` if it cannot be.
    ///
    /// # Errors
    /// Changed if it is shorter than it was when it was opened.
    pub(super) fn get(&self, source: &Arc<dyn Source>) -> Result<Option<Arc<Map>>> {
        let Some(file) = source.file() else { return Ok(None) };
        check(file, source.size())?;
        let mut maps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mapped) = maps.iter().find(|mapped| Arc::ptr_eq(&mapped.source, source)) {
            return Ok(mapped.map.clone());
        }
        let map = shared(source, file);
        maps.push(Mapped { source: Arc::clone(source), map: map.clone() });
        Ok(map)
    }

    /// The memory that is mapped: the address of its first byte, and how many there are.
    pub(super) fn ranges(&self) -> Vec<Range<usize>> {
        let maps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let maps = maps.iter().filter_map(|mapped| mapped.map.as_ref());
        maps.map(|map| map.start.addr().get()..map.start.addr().get() + map.length).collect()
    }
}

/// Files that are mapped at present: who maps one again gets the same memory.
static MAPPED: Mutex<Vec<SharedMap>> = Mutex::new(Vec::new());

/// A file, and the memory that it is mapped to, as long as somebody has them.
type SharedMap = (Weak<dyn Source>, Weak<Map>);

fn shared(source: &Arc<dyn Source>, file: &File) -> Option<Arc<Map>> {
    let new =
        || usize::try_from(source.size()).ok().and_then(|length| Map::new(file, length).ok()).map(Arc::new);
    // Never waited for: in a copy of the process, who has it may not be there.
    let Ok(mut mapped) = MAPPED.try_lock() else { return new() };
    mapped.retain(|(_, map)| map.strong_count() > 0);
    let this = Arc::downgrade(source);
    let known = mapped.iter().find(|(known, _)| known.ptr_eq(&this)).and_then(|(_, map)| map.upgrade());
    let map = known.or_else(new)?;
    if !mapped.iter().any(|(known, _)| known.ptr_eq(&this)) {
        mapped.push((this, Arc::downgrade(&map)));
    }
    Some(map)
}

/// Checks that a file still has as many bytes as when it was opened.
fn check(file: &File, size: u64) -> Result<()> {
    let found = file.metadata().map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?.len();
    if found < size {
        let message = format!("the file had {size} bytes when it was opened, and has {found} now");
        return Err(Error::new(ErrorKind::Changed, message));
    }
    Ok(())
}

/// A file in memory, from its first byte on.
#[derive(Debug)]
pub(super) struct Map {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: memory that is only read, of the process and not of a thread.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    #[cfg(unix)]
    fn new(file: &File, length: usize) -> io::Result<Self> {
        use std::os::fd::AsRawFd;
        // SAFETY: a new mapping at a place that the system chooses.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    #[cfg(not(unix))]
    fn new(_: &File, _: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The address of a byte of the file.
    pub(super) fn address(&self, offset: u64) -> usize {
        self.start.addr().get().wrapping_add(usize::try_from(offset).unwrap_or(0))
    }

    /// A part of the file as a buffer, which keeps the mapping; `None` if it is not inside.
    pub(super) fn buffer(self: &Arc<Self>, range: Range<u64>) -> Option<Buffer> {
        let (start, end) = (usize::try_from(range.start).ok()?, usize::try_from(range.end).ok()?);
        if start > end || end > self.length {
            return None;
        }
        // SAFETY: inside the mapping, as has just been checked.
        let first = unsafe { self.start.add(start) };
        let keeper: Arc<Self> = Arc::clone(self);
        // SAFETY: the bytes are there as long as the mapping, which the buffer keeps. That another process may change them
        // is what a mapping is for: nothing here relies on what they are.
        Some(unsafe { Buffer::from_custom_allocation(first, end - start, keeper) })
    }
}

#[cfg(unix)]
impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: made by `mmap`, of this length, and nobody has it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use hyperchunk::io::LocalFile;
    use std::io::Write as _;

    #[test]
    fn what_a_file_has_now() {
        let path = std::env::temp_dir().join(format!("hyperchunk-map-{}", std::process::id()));
        std::fs::write(&path, [7_u8; 10_000]).unwrap();
        let source: Arc<dyn Source> = Arc::new(LocalFile::open(&path).unwrap());
        let maps = Maps::default();
        let map = maps.get(&source).unwrap().unwrap();
        assert!(Arc::ptr_eq(&map, &maps.get(&source).unwrap().unwrap()));
        assert!(map.buffer(0..10_001).is_none());
        assert!(map.buffer(u64::MAX..u64::MAX).is_none());
        let buffer = map.buffer(5_000..6_000).unwrap();
        assert_eq!(buffer.as_slice(), [7; 1000]);
        assert_eq!(buffer.as_ptr().addr(), maps.ranges()[0].start + 5_000);
        let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all(&[8; 6_000]).unwrap();
        // The buffer keeps the mapping.
        drop((maps, map, source));
        assert_eq!(buffer.as_slice(), [8; 1000]);
        drop(buffer);
        let source: Arc<dyn Source> = Arc::new(LocalFile::open(&path).unwrap());
        file.set_len(9_999).unwrap();
        assert_eq!(Maps::default().get(&source).unwrap_err().kind(), ErrorKind::Changed);
        std::fs::remove_file(path).unwrap();
    }
}
