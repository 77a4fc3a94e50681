//! Memory mappings of local files as Arrow's buffers; the only place that maps them.
//!
//! A mapping shows the *present* contents of the file: if another process changes it in place, as h5py's mode
//! `r+` does, existing arrays change. If another process truncates the file while it is mapped, access past
//! its new end causes SIGBUS, as with any mapping. Callers that must be safe from this read the data
//! (`mapped: false`). The length is checked when a file is mapped and when a reader of batches is made.

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
pub(super) struct Maps(Mutex<Vec<MappedFile>>);

#[derive(Debug)]
struct MappedFile {
    source: Arc<dyn Source>,
    /// `None` if the system refuses, for example for lack of address space: then data are read.
    map: Option<Arc<Map>>,
}

impl Maps {
    /// Returns the mapping of a file, which is created once; `None` if it cannot be mapped.
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
        let map = shared_map(source, file);
        maps.push(MappedFile { source: Arc::clone(source), map: map.clone() });
        Ok(map)
    }

    /// Returns the address ranges of the mappings.
    pub(super) fn ranges(&self) -> Vec<Range<usize>> {
        let maps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let maps = maps.iter().filter_map(|mapped| mapped.map.as_ref());
        maps.map(|map| map.start.addr().get()..map.start.addr().get() + map.length).collect()
    }
}

/// Mappings that are in use, to be shared by all users of a file.
static SHARED_MAPS: Mutex<Vec<SharedMap>> = Mutex::new(Vec::new());

/// A file and its mapping, while they are in use.
type SharedMap = (Weak<dyn Source>, Weak<Map>);

fn shared_map(source: &Arc<dyn Source>, file: &File) -> Option<Arc<Map>> {
    let new =
        || usize::try_from(source.size()).ok().and_then(|length| Map::new(file, length).ok()).map(Arc::new);
    // Do not wait for the lock: in a forked child, its holder may not exist.
    let Ok(mut mapped) = SHARED_MAPS.try_lock() else { return new() };
    mapped.retain(|(_, map)| map.strong_count() > 0);
    let this = Arc::downgrade(source);
    let known = mapped.iter().find(|(known, _)| known.ptr_eq(&this)).and_then(|(_, map)| map.upgrade());
    let map = known.or_else(new)?;
    if !mapped.iter().any(|(known, _)| known.ptr_eq(&this)) {
        mapped.push((this, Arc::downgrade(&map)));
    }
    Some(map)
}

/// Checks that a file is not shorter than when it was opened.
fn check(file: &File, size: u64) -> Result<()> {
    let found = file.metadata().map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?.len();
    if found < size {
        let message = format!("the file had {size} bytes when it was opened, and has {found} now");
        return Err(Error::new(ErrorKind::Changed, message));
    }
    Ok(())
}

/// A mapping of a whole file.
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

    /// Returns the address of a byte of the file.
    pub(super) fn address(&self, offset: u64) -> usize {
        self.start.addr().get().wrapping_add(usize::try_from(offset).unwrap_or(0))
    }

    /// Returns a part of the file as a buffer, which keeps the mapping; `None` if it is not inside.
    pub(super) fn buffer(self: &Arc<Self>, range: Range<u64>) -> Option<Buffer> {
        let (start, end) = (usize::try_from(range.start).ok()?, usize::try_from(range.end).ok()?);
        if start > end || end > self.length {
            return None;
        }
        // SAFETY: inside the mapping, as has just been checked.
        let first = unsafe { self.start.add(start) };
        let keeper: Arc<Self> = Arc::clone(self);
        // SAFETY: the bytes exist as long as the mapping, which the buffer keeps. Another process may change
        // them, as in any mapping: nothing here relies on their values.
        Some(unsafe { Buffer::from_custom_allocation(first, end - start, keeper) })
    }
}

#[cfg(unix)]
impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: made by `mmap`, of this length, and not used any more.
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
