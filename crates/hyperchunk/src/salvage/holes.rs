//! Holes of sparse files: ranges that were never written, and take no space.

use crate::io::Source;
use std::ops::Range;

/// Returns the next range that is no hole, from an offset on; empty ranges at the end of the file are possible. All of
/// a file is such a range where the system does not tell.
#[cfg(any(target_os = "linux", target_vendor = "apple", target_os = "freebsd"))]
pub(super) fn next_data(source: &dyn Source, at: u64) -> Range<u64> {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;
    let all = at..u64::MAX;
    let Some(file) = source.file() else { return all };
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) if start >= at => start,
        // A hole up to the end.
        Err(Errno::NXIO) if at < source.size() => return u64::MAX..u64::MAX,
        _ => return all,
    };
    match seek(file, SeekFrom::Hole(start)) {
        Ok(end) if end > start => start..end,
        _ => start..u64::MAX,
    }
}

/// Does the same on other systems.
#[cfg(not(any(target_os = "linux", target_vendor = "apple", target_os = "freebsd")))]
pub(super) fn next_data(_source: &dyn Source, at: u64) -> Range<u64> {
    at..u64::MAX
}

/// Returns whether there is a hole in a range.
pub(super) fn begins_in(source: &dyn Source, start: u64, end: u64) -> bool {
    let data = next_data(source, start);
    data.start > start || data.end < end
}
