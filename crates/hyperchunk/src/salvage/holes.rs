//! Holes of sparse files: ranges that were never written and take no disk space.

use crate::io::Source;
use std::ops::Range;

/// Returns the next range at or after an offset that is not a hole; an empty range if a hole extends to the
/// end of the file. If the system does not report holes, everything from the offset on is one range.
#[cfg(any(target_os = "linux", target_vendor = "apple", target_os = "freebsd"))]
pub(super) fn next_data(source: &dyn Source, at: u64) -> Range<u64> {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;
    let all = at..u64::MAX;
    let Some(file) = source.file() else { return all };
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) if start >= at => start,
        // A hole extends to the end of the file.
        Err(Errno::NXIO) if at < source.size() => return u64::MAX..u64::MAX,
        _ => return all,
    };
    match seek(file, SeekFrom::Hole(start)) {
        Ok(end) if end > start => start..end,
        _ => start..u64::MAX,
    }
}

/// Returns everything from an offset on: this system does not report holes.
#[cfg(not(any(target_os = "linux", target_vendor = "apple", target_os = "freebsd")))]
pub(super) fn next_data(_source: &dyn Source, at: u64) -> Range<u64> {
    at..u64::MAX
}

/// Returns whether there is a hole in the range `start..end`.
pub(super) fn begins_in(source: &dyn Source, start: u64, end: u64) -> bool {
    let data = next_data(source, start);
    data.start > start || data.end < end
}
