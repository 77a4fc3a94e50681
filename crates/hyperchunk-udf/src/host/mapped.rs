//! Inputs of expressions that are used where they lie in a file, as long as it is as it was when the plan was made.
//!
//! Kept from chunk to chunk, since mapping anew costs more than reading. The file is looked at whenever somebody begins to read, and
//! each piece before it is used: only a file that is made shorter in the very moment ends the process (SIGBUS).

use super::pool::{SessionKey, cache};
use super::session::Source;
use crate::memory::Map;
use crate::record::{Slot, bytes_of};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Files whose inputs stay mapped.
const MAX_MAPPED: usize = 4;
/// So long at most: looked at whenever an expression is computed.
const MAPPED_FOR: Duration = Duration::from_secs(30);
/// After so long without a read, the file is looked at again.
const FRESH: Duration = Duration::from_millis(20);

/// A mapped input.
#[derive(Debug)]
pub struct Window(Map);

// SAFETY: the map is for reading, and nobody writes through it.
unsafe impl Sync for Window {}

impl Window {
    /// The elements of a block, which is one piece of the array.
    pub fn part(&self, slot: &Slot, offset: &[u64], shape: &[u64]) -> Option<&[u8]> {
        let bytes = bytes_of(shape, &slot.datatype);
        let at = slot.first_byte(offset);
        let first = self.0.at(at, bytes).filter(|_| self.0.populate(at, bytes))?;
        // SAFETY: at() checked that these bytes are inside the map, which lives as long as self.
        Some(unsafe { std::slice::from_raw_parts(first, usize::try_from(bytes).ok()?) })
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
    known.retain(|m| now.duration_since(m.used) < MAPPED_FOR);
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
    // The first slot is the output.
    let windows = key.slots.iter().skip(1).map(|slot| match slot.source {
        Source::Mapped { offset, bytes, .. } => Map::window(file.as_fd(), offset, bytes).ok().map(Window),
        _ => None,
    });
    let windows = Arc::new(windows.collect::<Vec<_>>());
    if known.len() >= MAX_MAPPED {
        known.remove(0);
    }
    known.push(Mapped { key: Arc::clone(key), windows: Arc::clone(&windows), used: now });
    Some(windows)
}
