//! Memory-mapped inputs of expressions, used in place while the file is unchanged since the plan was made.
//!
//! Mappings are cached from chunk to chunk, since mapping again costs more than reading. The file is checked
//! at the start of a read, and each part before its use: only a file truncated in that very moment ends the
//! process (SIGBUS).

use super::idle;
use super::job::{SessionKey, Source};
use crate::cache::cache;
use crate::memory::{Map, reports_residency};
use crate::protocol::IDLE_TIMEOUT;
use crate::record::{Slot, byte_size};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Maximum number of files with cached mappings.
const MAX_MAPPED_FILES: usize = 4;
/// Time without a read after which the file is checked again.
const MAX_STAMP_AGE: Duration = Duration::from_millis(20);

/// Granularity, in bytes, at which parts of an input are brought into memory.
const UNIT_BYTES: u64 = 256 << 10;

/// Mapped input.
#[derive(Debug)]
pub struct MappedInput {
    file: Arc<File>,
    /// Offset of the first mapped byte in the file.
    offset: u64,
    map: Map,
    /// Bitmap of units that were brought into memory; empty if the kernel does not report whether they are
    /// still resident.
    brought: Vec<AtomicU64>,
}

// SAFETY: the map is read-only, and there is no writer through it.
unsafe impl Sync for MappedInput {}

impl MappedInput {
    /// Maps `bytes` bytes at `offset` of a file. `told` is set if the kernel [reports](reports_residency)
    /// which pages are resident.
    fn new(file: &Arc<File>, offset: u64, bytes: u64, told: bool) -> Option<Self> {
        let map = Map::window(file.as_fd(), offset, bytes).ok()?;
        let words = if told { bytes.div_ceil(UNIT_BYTES).div_ceil(64) } else { 0 };
        let brought = (0..words).map(|_| AtomicU64::new(0)).collect();
        Some(Self { file: Arc::clone(file), offset, map, brought })
    }

    /// Returns the elements of a block, which is contiguous in the array.
    pub fn part(&self, slot: &Slot, offset: &[u64], shape: &[u64]) -> Option<&[u8]> {
        let bytes = byte_size(shape, &slot.datatype);
        let at = slot.first_byte(offset);
        let first = self.map.at(at, bytes).filter(|_| self.bring(at, bytes))?;
        // SAFETY: at() checked that these bytes are inside the map, which lives as long as self.
        Some(unsafe { std::slice::from_raw_parts(first, usize::try_from(bytes).ok()?) })
    }

    /// Ensures that `bytes` bytes from `at` on can be read; `false` if the file no longer backs them.
    fn bring(&self, at: u64, bytes: u64) -> bool {
        let units = at / UNIT_BYTES..at.saturating_add(bytes).div_ceil(UNIT_BYTES);
        let bit = |unit: u64| {
            let word = usize::try_from(unit / 64).ok().and_then(|word| self.brought.get(word))?;
            Some((word, 1_u64 << (unit % 64)))
        };
        let brought =
            units.clone().all(|unit| bit(unit).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0));
        // Cheaper than populating again. A page past the end of a truncated file may still be resident.
        if brought && self.reaches(at, bytes) && self.map.is_resident(at, bytes) == Some(true) {
            return true;
        }
        let from = units.start * UNIT_BYTES;
        let end = units.end.saturating_mul(UNIT_BYTES).min(self.map.region().1 as u64);
        // Populates whole units, so that an adjacent part is already resident.
        if self.map.populate(from, end.saturating_sub(from)) {
            units.filter_map(bit).for_each(|(word, bit)| {
                word.fetch_or(bit, Relaxed);
            });
            return true;
        }
        // The rest of the unit may be past the end of the file while this part is not.
        self.map.populate(at, bytes)
    }

    /// Returns whether the file still contains these bytes.
    fn reaches(&self, at: u64, bytes: u64) -> bool {
        let end = self.offset.checked_add(at).and_then(|first| first.checked_add(bytes));
        self.file.metadata().is_ok_and(|now| end.is_some_and(|end| end <= now.len()))
    }
}

/// Inputs of a plan, each mapped if possible.
pub type MappedInputs = Arc<Vec<Option<MappedInput>>>;

struct CacheEntry {
    key: Arc<SessionKey>,
    windows: MappedInputs,
    used: Instant,
}

static MAPPED: Mutex<Vec<CacheEntry>> = Mutex::new(Vec::new());

/// Identity of a file on disk (device, inode), and its version (size, time of change).
pub type State = ((u64, u64), (u64, i64, i64));

/// Returns the mapped inputs of the plan with this key. `look` returns the file, opened read-only, and its
/// current state.
pub fn mapped<F: AsFd>(
    key: &Arc<SessionKey>,
    look: impl FnOnce() -> Option<(F, State)>,
) -> Option<MappedInputs> {
    if !key.slots.iter().any(|s| matches!(s.source, Source::Mapped { .. })) {
        return None;
    }
    let now = Instant::now();
    let mut known = cache(&MAPPED)?;
    known.retain(|m| now.duration_since(m.used) < IDLE_TIMEOUT);
    let found = known.iter().position(|m| Arc::ptr_eq(&m.key, key) || m.key == *key);
    if let Some(entry) = found.and_then(|at| known.get_mut(at))
        && now.duration_since(entry.used) < MAX_STAMP_AGE
    {
        entry.used = now;
        return Some(Arc::clone(&entry.windows));
    }
    let (file, state) = look()?;
    let same = state == (key.file, key.version);
    match found {
        Some(at) if same => {
            let entry = known.get_mut(at)?;
            entry.used = now;
            return Some(Arc::clone(&entry.windows));
        }
        Some(at) => drop(known.remove(at)),
        None => {}
    }
    if !same {
        return None;
    }
    let file = Arc::new(File::from(file.as_fd().try_clone_to_owned().ok()?));
    let told = reports_residency(file.as_fd(), state.1.0);
    // The first slot is the output.
    let windows = key.slots.iter().skip(1).map(|slot| match slot.source {
        Source::Mapped { offset, bytes, .. } => MappedInput::new(&file, offset, bytes, told),
        _ => None,
    });
    let windows = Arc::new(windows.collect::<Vec<_>>());
    if known.len() >= MAX_MAPPED_FILES {
        known.remove(0);
    }
    known.push(CacheEntry { key: Arc::clone(key), windows: Arc::clone(&windows), used: now });
    drop(known);
    idle::watch();
    Some(windows)
}

/// Unmaps inputs that were not used for a while. Returns the time at which the next file is due.
pub(super) fn end_idle() -> Option<Instant> {
    let now = Instant::now();
    let Some(mut known) = cache(&MAPPED) else { return now.checked_add(idle::RETRY_INTERVAL) };
    known.retain(|m| now.duration_since(m.used) < IDLE_TIMEOUT);
    known.iter().filter_map(|m| m.used.checked_add(IDLE_TIMEOUT)).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Datatype;
    use std::fs::{self, OpenOptions};

    fn check(name: &str, told: bool) {
        let path = std::env::temp_dir().join(format!("hyperchunk-window-{}-{name}", std::process::id()));
        let rows = 3 * UNIT_BYTES / 1000 + 7;
        let file: Vec<u8> = (0..17 + rows * 1000).map(|n| (n % 251) as u8).collect();
        fs::write(&path, &file).unwrap();
        let size = file.len() as u64;
        let slot =
            Slot { name: "a".into(), datatype: Datatype::parse("uint8").unwrap(), dims: vec![rows, 1000] };
        let opened = Arc::new(File::open(&path).unwrap());
        assert!(reports_residency(opened.as_fd(), size));
        let window = MappedInput::new(&opened, 17, size - 17, told).unwrap();
        for _ in 0..3 {
            for row in [0, 1, 200, 300, rows - 7] {
                let at = 17 + usize::try_from(row).unwrap() * 1000;
                let part = window.part(&slot, &[row, 0], &[7, 1000]).unwrap();
                assert_eq!(part, &file[at..at + 7000], "{row}");
            }
        }
        assert!(window.part(&slot, &[rows - 6, 0], &[7, 1000]).is_none());
        // Truncated to a part that starts with the last rows: the preceding bytes are still there.
        let cut = OpenOptions::new().write(true).open(&path).unwrap();
        cut.set_len(UNIT_BYTES).unwrap();
        assert!(window.part(&slot, &[rows - 7, 0], &[7, 1000]).is_none());
        assert_eq!(window.part(&slot, &[0, 0], &[7, 1000]).unwrap(), &file[17..7017]);
        cut.set_len(20_000).unwrap();
        assert!(window.part(&slot, &[30, 0], &[7, 1000]).is_none());
        assert_eq!(window.part(&slot, &[0, 0], &[7, 1000]).unwrap(), &file[17..7017]);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn parts_are_there_or_none() {
        check("told", true);
        check("untold", false);
    }
}
