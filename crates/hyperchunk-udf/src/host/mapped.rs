//! Inputs of expressions that are used where they lie in a file, as long as it is as it was when the plan was made.
//!
//! Kept from chunk to chunk, since mapping anew costs more than reading. The file is looked at whenever somebody begins to read, and
//! each piece before it is used: only a file that is made shorter in the very moment ends the process (SIGBUS).

use super::idle;
use super::pool::{SessionKey, cache};
use super::session::Source;
use crate::memory::{Map, tells_residency};
use crate::protocol::IDLE;
use crate::record::{Slot, bytes_of};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Files whose inputs stay mapped.
const MAX_MAPPED: usize = 4;
/// After so long without a read, the file is looked at again.
const FRESH: Duration = Duration::from_millis(20);

/// Parts of an input are brought into memory in whole multiples of this, in bytes.
const UNIT: u64 = 256 << 10;

/// A mapped input.
#[derive(Debug)]
pub struct Window {
    file: Arc<File>,
    /// Its first byte in the file.
    offset: u64,
    map: Map,
    /// Which units were brought into memory once; empty where the kernel does not tell whether they are still there.
    brought: Vec<AtomicU64>,
}

// SAFETY: the map is for reading, and nobody writes through it.
unsafe impl Sync for Window {}

impl Window {
    /// `bytes` bytes at `offset` of a file. `told` is whether the kernel [tells](tells_residency) which pages of it are in memory.
    fn new(file: &Arc<File>, offset: u64, bytes: u64, told: bool) -> Option<Self> {
        let map = Map::window(file.as_fd(), offset, bytes).ok()?;
        let words = if told { bytes.div_ceil(UNIT).div_ceil(64) } else { 0 };
        let brought = (0..words).map(|_| AtomicU64::new(0)).collect();
        Some(Self { file: Arc::clone(file), offset, map, brought })
    }

    /// The elements of a block, which is one piece of the array.
    pub fn part(&self, slot: &Slot, offset: &[u64], shape: &[u64]) -> Option<&[u8]> {
        let bytes = bytes_of(shape, &slot.datatype);
        let at = slot.first_byte(offset);
        let first = self.map.at(at, bytes).filter(|_| self.bring(at, bytes))?;
        // SAFETY: at() checked that these bytes are inside the map, which lives as long as self.
        Some(unsafe { std::slice::from_raw_parts(first, usize::try_from(bytes).ok()?) })
    }

    /// Makes sure that `bytes` bytes from `at` on can be looked at; `false` where there is no file behind them any more.
    fn bring(&self, at: u64, bytes: u64) -> bool {
        let units = at / UNIT..at.saturating_add(bytes).div_ceil(UNIT);
        let bit = |unit: u64| {
            let word = usize::try_from(unit / 64).ok().and_then(|word| self.brought.get(word))?;
            Some((word, 1_u64 << (unit % 64)))
        };
        let brought =
            units.clone().all(|unit| bit(unit).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0));
        // Cheaper than to bring them again. A page behind the end of a file that was made shorter may still be in memory.
        if brought && self.reaches(at, bytes) && self.map.is_resident(at, bytes) == Some(true) {
            return true;
        }
        let from = units.start * UNIT;
        let end = units.end.saturating_mul(UNIT).min(self.map.region().1 as u64);
        // Of the whole units that it touches: a neighbour finds its own there.
        if self.map.populate(from, end.saturating_sub(from)) {
            units.filter_map(bit).for_each(|(word, bit)| {
                word.fetch_or(bit, Relaxed);
            });
            return true;
        }
        // What lies beside it may be gone, and it still there.
        self.map.populate(at, bytes)
    }

    /// Whether the file has these bytes now.
    fn reaches(&self, at: u64, bytes: u64) -> bool {
        let end = self.offset.checked_add(at).and_then(|first| first.checked_add(bytes));
        self.file.metadata().is_ok_and(|now| end.is_some_and(|end| end <= now.len()))
    }
}

/// The inputs of a plan, each mapped if it can be.
pub type Windows = Arc<Vec<Option<Window>>>;

struct Mapped {
    key: Arc<SessionKey>,
    windows: Windows,
    used: Instant,
}

static MAPPED: Mutex<Vec<Mapped>> = Mutex::new(Vec::new());

/// What a file on disk is: device and inode, and what tells that it was changed.
pub type State = ((u64, u64), (u64, i64, i64));

/// The inputs of the plan with this key. `look` gives the file, opened for reading only, and its state now.
pub fn mapped<F: AsFd>(key: &Arc<SessionKey>, look: impl FnOnce() -> Option<(F, State)>) -> Option<Windows> {
    if !key.slots.iter().any(|s| matches!(s.source, Source::Mapped { .. })) {
        return None;
    }
    let now = Instant::now();
    let mut known = cache(&MAPPED)?;
    known.retain(|m| now.duration_since(m.used) < IDLE);
    let found = known.iter().position(|m| Arc::ptr_eq(&m.key, key) || m.key == *key);
    if let Some(entry) = found.and_then(|at| known.get_mut(at))
        && now.duration_since(entry.used) < FRESH
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
    let told = tells_residency(file.as_fd(), state.1.0);
    // The first slot is the output.
    let windows = key.slots.iter().skip(1).map(|slot| match slot.source {
        Source::Mapped { offset, bytes, .. } => Window::new(&file, offset, bytes, told),
        _ => None,
    });
    let windows = Arc::new(windows.collect::<Vec<_>>());
    if known.len() >= MAX_MAPPED {
        known.remove(0);
    }
    known.push(Mapped { key: Arc::clone(key), windows: Arc::clone(&windows), used: now });
    drop(known);
    idle::watch();
    Some(windows)
}

/// Unmaps what nobody has used for a while; returns when the next file is due.
pub(super) fn end_idle() -> Option<Instant> {
    let now = Instant::now();
    let Some(mut known) = cache(&MAPPED) else { return now.checked_add(idle::BUSY) };
    known.retain(|m| now.duration_since(m.used) < IDLE);
    known.iter().filter_map(|m| m.used.checked_add(IDLE)).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Datatype;
    use std::fs::{self, OpenOptions};

    fn check(name: &str, told: bool) {
        let path = std::env::temp_dir().join(format!("hyperchunk-window-{}-{name}", std::process::id()));
        let rows = 3 * UNIT / 1000 + 7;
        let file: Vec<u8> = (0..17 + rows * 1000).map(|n| (n % 251) as u8).collect();
        fs::write(&path, &file).unwrap();
        let size = file.len() as u64;
        let slot =
            Slot { name: "a".into(), datatype: Datatype::parse("uint8").unwrap(), dims: vec![rows, 1000] };
        let opened = Arc::new(File::open(&path).unwrap());
        assert!(tells_residency(opened.as_fd(), size));
        let window = Window::new(&opened, 17, size - 17, told).unwrap();
        for _ in 0..3 {
            for row in [0, 1, 200, 300, rows - 7] {
                let at = 17 + usize::try_from(row).unwrap() * 1000;
                let part = window.part(&slot, &[row, 0], &[7, 1000]).unwrap();
                assert_eq!(part, &file[at..at + 7000], "{row}");
            }
        }
        assert!(window.part(&slot, &[rows - 6, 0], &[7, 1000]).is_none());
        // Shortened to what begins with the last rows: what is before them is there.
        let cut = OpenOptions::new().write(true).open(&path).unwrap();
        cut.set_len(UNIT).unwrap();
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
