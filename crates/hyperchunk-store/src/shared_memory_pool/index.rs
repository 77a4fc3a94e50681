//! Index of a pool: a table in shared memory whose values are checked before use.

use super::memory;
use super::memory::Mapping;
use super::{MAX_NAME_BYTES, MAX_SEGMENT_LOG2, MIN_SEGMENT_LOG2, failed, open_file};
use hyperchunk::{Error, ErrorKind, Result};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Name of its file.
pub(super) const NAME: &str = "index";
const MAGIC: u64 = u64::from_le_bytes(*b"HCPOOL\x0d\x01");
/// Maximum number of objects in memory.
const SLOT_COUNT: usize = 4096;
const HEAD_BYTES: usize = 4096;
const SLOT_BYTES: usize = 256;
const INDEX_BYTES: usize = HEAD_BYTES + SLOT_COUNT * SLOT_BYTES;
/// Maximum length in bytes of the path of the folder for spilled objects.
const MAX_PATH_BYTES: usize = 2048;

/// State of a slot and its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The slot has no segment.
    Empty = 0,
    /// The segment can be reused.
    Free = 1,
    /// An object is being written.
    Creating = 2,
    /// The segment holds a finished object.
    Sealed = 3,
    /// The object was deleted, and may still be in use by readers.
    Deleted = 4,
}

/// Encoded state (the lowest byte) and generation of a slot, which increases with every change.
pub(super) type Word = u64;

/// Header of the index.
#[repr(C)]
struct Head {
    magic: AtomicU64,
    slots: AtomicU64,
    quota: AtomicU64,
    /// Logical clock that orders uses of objects.
    clock: AtomicU64,
    /// Length of the path of the folder for spilled objects; 0 for none.
    spill: AtomicU32,
    _pad: AtomicU32,
    path: [AtomicU8; MAX_PATH_BYTES],
}

/// A segment, and the object in it.
#[repr(C, align(256))]
struct Slot {
    word: AtomicU64,
    length: AtomicU64,
    /// Value of the clock at the last use of the object.
    used: AtomicU64,
    /// Size of the segment as a power of two; 0 without a segment.
    order: AtomicU32,
    name_length: AtomicU32,
    name: [AtomicU8; MAX_NAME_BYTES],
}

const _: () = assert!(size_of::<Slot>() == SLOT_BYTES && size_of::<Head>() <= HEAD_BYTES);

#[derive(Debug)]
pub(super) struct Index {
    mapping: Mapping,
}

fn state(word: Word) -> Option<State> {
    Some(match word & 0xff {
        0 => State::Empty,
        1 => State::Free,
        2 => State::Creating,
        3 => State::Sealed,
        4 => State::Deleted,
        _ => return None,
    })
}

/// Returns the word of a slot after a change of its state.
pub(super) fn next(word: Word, state: State) -> Word {
    (word & !0xff).wrapping_add(0x100) | state as u64
}

impl Index {
    /// Creates the index of a new pool.
    pub(super) fn create(folder: &Path, quota: u64, spill: Option<&Path>) -> Result<()> {
        let path = folder.join(NAME);
        let named = |error: std::io::Error| failed("create", &path, &error);
        let spill = spill.map(|spill| spill.as_os_str().as_bytes().to_vec()).unwrap_or_default();
        if spill.len() > MAX_PATH_BYTES {
            return Err(Error::invalid(format!(
                "a path of {} bytes, more than {MAX_PATH_BYTES}",
                spill.len()
            )));
        }
        let file = open_file(&path, true).map_err(named)?;
        memory::reserve(&file, INDEX_BYTES as u64).map_err(named)?;
        let index = Self { mapping: Mapping::new(&file, INDEX_BYTES, true).map_err(named)? };
        let head = index.head();
        head.quota.store(quota, Ordering::Relaxed);
        head.slots.store(SLOT_COUNT as u64, Ordering::Relaxed);
        head.clock.store(1, Ordering::Relaxed);
        for (place, byte) in head.path.iter().zip(&spill) {
            place.store(*byte, Ordering::Relaxed);
        }
        head.spill.store(u32::try_from(spill.len()).unwrap_or(0), Ordering::Relaxed);
        head.magic.store(MAGIC, Ordering::SeqCst);
        Ok(())
    }

    /// Opens the index of a pool; also returns the folder for spilled objects.
    pub(super) fn open(folder: &Path) -> Result<(Self, Option<PathBuf>)> {
        let path = folder.join(NAME);
        let file = open_file(&path, false).map_err(|error| failed("open the pool", &path, &error))?;
        let corrupt = |message: &str| Error::new(ErrorKind::Corrupt, message).file(path.display());
        let size = file.metadata().map_err(|error| failed("read the metadata of", &path, &error))?.len();
        if size != INDEX_BYTES as u64 {
            return Err(corrupt("the index of the pool has a wrong size, or is of another version"));
        }
        let mapping = Mapping::new(&file, INDEX_BYTES, true).map_err(|error| failed("map", &path, &error))?;
        let index = Self { mapping };
        let head = index.head();
        if head.magic.load(Ordering::SeqCst) != MAGIC
            || head.slots.load(Ordering::Relaxed) != SLOT_COUNT as u64
        {
            return Err(corrupt("this is not an index of a pool, or one of another version"));
        }
        let length = head.spill.load(Ordering::Relaxed) as usize;
        let bytes = head.path.get(..length).ok_or_else(|| corrupt("a path that is too long"))?;
        let bytes: Vec<u8> = bytes.iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
        let spill = (!bytes.is_empty()).then(|| PathBuf::from(std::ffi::OsString::from_vec(bytes)));
        Ok((index, spill))
    }

    fn head(&self) -> &Head {
        debug_assert!(self.mapping.length() >= HEAD_BYTES);
        // SAFETY: the mapping has at least this size, is aligned to pages, and consists of atomics
        // only: any bytes are valid values of them.
        unsafe { &*self.mapping.start().cast::<Head>() }
    }

    fn slot(&self, number: usize) -> &Slot {
        let number = number.min(SLOT_COUNT - 1);
        // SAFETY: inside the mapping.
        let place = unsafe { self.mapping.start().add(HEAD_BYTES + number * SLOT_BYTES) };
        // SAFETY: as for the head; slots are aligned to 256 bytes.
        unsafe { &*place.cast::<Slot>() }
    }

    #[expect(clippy::unused_self, reason = "a property of the index")]
    pub(super) fn slots(&self) -> usize {
        SLOT_COUNT
    }

    pub(super) fn quota(&self) -> u64 {
        self.head().quota.load(Ordering::Relaxed)
    }

    pub(super) fn clock(&self) -> &AtomicU64 {
        &self.head().clock
    }

    /// Returns the state of a slot; a slot with an invalid state counts as deleted, so that it is
    /// never used.
    pub(super) fn word(&self, number: usize) -> (State, Word) {
        let word = self.slot(number).word.load(Ordering::SeqCst);
        (state(word).unwrap_or(State::Deleted), word)
    }

    /// Changes the state of a slot, unless it changed since `from` was read.
    pub(super) fn change(&self, number: usize, from: Word, to: State) -> bool {
        let slot = self.slot(number);
        slot.word.compare_exchange(from, next(from, to), Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Returns the size of a slot's segment as a power of two; `None` without a segment, or if the
    /// value is invalid.
    pub(super) fn order(&self, number: usize) -> Option<u32> {
        let order = self.slot(number).order.load(Ordering::SeqCst);
        (MIN_SEGMENT_LOG2..=MAX_SEGMENT_LOG2).contains(&order).then_some(order)
    }

    pub(super) fn set_order(&self, number: usize, order: u32) {
        self.slot(number).order.store(order, Ordering::SeqCst);
    }

    /// Returns the size of an object in bytes, limited to the size of its segment.
    pub(super) fn length(&self, number: usize) -> u64 {
        let most = self.order(number).map_or(0, |order| 1 << order);
        self.slot(number).length.load(Ordering::SeqCst).min(most)
    }

    pub(super) fn used(&self, number: usize) -> u64 {
        self.slot(number).used.load(Ordering::Relaxed)
    }

    pub(super) fn touch(&self, number: usize, now: u64) {
        self.slot(number).used.store(now, Ordering::Relaxed);
    }

    /// Sets name and length of the object in a slot. Only the owner of the slot may do this.
    pub(super) fn describe(&self, number: usize, name: &str, length: u64) {
        let slot = self.slot(number);
        for (place, byte) in slot.name.iter().zip(name.bytes()) {
            place.store(byte, Ordering::Relaxed);
        }
        slot.name_length.store(u32::try_from(name.len()).unwrap_or(0), Ordering::Relaxed);
        slot.length.store(length, Ordering::SeqCst);
    }

    fn name(&self, number: usize) -> Option<String> {
        let slot = self.slot(number);
        let length = slot.name_length.load(Ordering::SeqCst) as usize;
        let bytes = slot.name.get(..length)?.iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
        String::from_utf8(bytes).ok().filter(|name| !name.is_empty())
    }

    fn is_called(&self, number: usize, name: &str) -> bool {
        let slot = self.slot(number);
        slot.name_length.load(Ordering::SeqCst) as usize == name.len()
            && slot.name.iter().zip(name.bytes()).all(|(place, byte)| place.load(Ordering::Relaxed) == byte)
    }

    /// Returns name and length of the object in a slot, if there is one.
    pub(super) fn entry(&self, number: usize) -> Option<(String, u64)> {
        let (found, word) = self.word(number);
        let entry = (found == State::Sealed).then(|| Some((self.name(number)?, self.length(number))))??;
        (self.word(number).1 == word).then_some(entry)
    }

    /// Returns the slots of objects of a name: at most one, except briefly when two are sealed
    /// concurrently.
    pub(super) fn sealed(&self, name: &str) -> Vec<(usize, Word)> {
        let one = |number: usize| {
            let (found, word) = self.word(number);
            let is = found == State::Sealed && self.is_called(number, name) && self.word(number).1 == word;
            is.then_some((number, word))
        };
        (0..SLOT_COUNT).filter_map(one).collect()
    }
}
