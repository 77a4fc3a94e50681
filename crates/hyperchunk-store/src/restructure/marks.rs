//! Marks of completed tasks, each written after all output of its task. Each has an
//! offset of its own, so no locks are needed.

use hyperchunk::internal::positioned::{read_exact_at, write_all_at};
use hyperchunk::{Error, ErrorKind, Result};
use std::fs::File;
use std::io;
use std::sync::OnceLock;
use twox_hash::XxHash3_64;

/// Size of a mark in bytes.
pub(super) const MARK_BYTES: usize = 32;

/// Mark of a completed task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// xxh3 of its output.
    pub(super) hash: u64,
    /// Hash of the machine's boot id at that time; 0 if unknown.
    pub(super) boot: u64,
}

impl Mark {
    /// Makes the mark of a task that was just completed.
    pub(super) fn new(hash: u64) -> Self {
        Self { hash, boot: boot() }
    }

    /// Returns whether it is from the current boot of this machine, so that its output is still in
    /// the page cache or on disk.
    pub(super) fn is_current_boot(&self) -> bool {
        self.boot != 0 && self.boot == boot()
    }
}

/// Reads the mark of a task; `None` if it is not done, or its mark is torn.
pub(super) fn read(file: &File, seed: u64, task: u64) -> Result<Option<Mark>> {
    let mut bytes = [0; MARK_BYTES];
    match read_exact_at(file, task.saturating_mul(MARK_BYTES as u64), &mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read.map_err(|error| refused("read", &error))?,
    }
    let number = |at: usize| {
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(number)
    };
    let whole = number(16) == task && number(24) == XxHash3_64::oneshot_with_seed(seed, &bytes[..24]);
    Ok(whole.then(|| Mark { hash: number(0), boot: number(8) }))
}

/// Writes the mark of a task.
pub(super) fn write(file: &File, seed: u64, task: u64, mark: Mark) -> Result<()> {
    let mut bytes = [0; MARK_BYTES];
    bytes[..8].copy_from_slice(&mark.hash.to_le_bytes());
    bytes[8..16].copy_from_slice(&mark.boot.to_le_bytes());
    bytes[16..24].copy_from_slice(&task.to_le_bytes());
    let check = XxHash3_64::oneshot_with_seed(seed, &bytes[..24]);
    bytes[24..].copy_from_slice(&check.to_le_bytes());
    write_all_at(file, task.saturating_mul(MARK_BYTES as u64), &bytes)
        .map_err(|error| refused("write", &error))
}

fn refused(what: &str, error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {what} the marks of tasks: {error}"))
}

/// Returns a hash of this machine's boot id; 0 if unknown.
pub(super) fn boot() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        if id.is_empty() { 0 } else { XxHash3_64::oneshot(&id) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_marks_are_none() {
        let path = std::env::temp_dir().join(format!("hyperchunk-marks-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(&file, 1, 3).unwrap(), None);
        write(&file, 1, 3, Mark::new(77)).unwrap();
        assert_eq!(read(&file, 1, 3).unwrap().map(|mark| mark.hash), Some(77));
        assert_eq!(read(&file, 1, 2).unwrap(), None, "a hole");
        assert_eq!(read(&file, 2, 3).unwrap(), None, "of another layout");
        for at in [0, 9, 17, 31] {
            let mut byte = [0];
            read_exact_at(&file, 3 * MARK_BYTES as u64 + at, &mut byte).unwrap();
            write_all_at(&file, 3 * MARK_BYTES as u64 + at, &[!byte[0]]).unwrap();
            assert_eq!(read(&file, 1, 3).unwrap(), None);
            write(&file, 1, 3, Mark::new(77)).unwrap();
        }
    }
}
