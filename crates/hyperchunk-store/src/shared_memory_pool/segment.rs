//! Segments of a pool: allocation, reuse, spilling.

use super::index::{State, Word, next};
use super::memory::Lock;
use super::{MAX_SEGMENT_LOG2, MIN_SEGMENT_LOG2, Pool, failed, memory, object, open_file};
use hyperchunk::{Error, ErrorKind, Result};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Maximum number of attempts to allocate a segment when other processes interfere.
const MAX_ATTEMPTS: usize = 64;
/// Time for which allocation waits for readers when every object is being read.
const READERS_WAIT: Duration = Duration::from_millis(200);
/// Time for which allocation waits for readers that came while an object was moved to a file.
const LAST_READERS_WAIT: Duration = Duration::from_millis(20);

/// A segment owned by this process: its slot, the slot's state word, and its locked file.
#[derive(Debug)]
pub(super) struct OwnedSegment {
    pub(super) number: usize,
    pub(super) word: Word,
    pub(super) lock: Lock,
    pub(super) order: u32,
}

pub(super) fn segment_path(pool: &Pool, number: usize) -> PathBuf {
    pool.0.folder.join(format!("segment-{number:04}"))
}

/// Repeats an attempt until it returns a value; `None` if it has none after `limit`.
pub(super) fn patiently<T>(
    limit: Duration,
    mut attempt: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let start = Instant::now();
    loop {
        let found = attempt()?;
        if found.is_some() || start.elapsed() >= limit {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Takes the exclusive lock of a slot's segment; `None` if another process holds a lock, or there
/// is no segment.
pub(super) fn lock_exclusive(pool: &Pool, number: usize) -> Result<Option<Lock>> {
    let path = segment_path(pool, number);
    match open_file(&path, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("open", &path, &error)),
        Ok(file) => lock_linked(file).map_err(|error| failed("lock", &path, &error)),
    }
}

/// Takes the exclusive lock of an open segment; `None` if another process holds a lock, or deleted
/// the file after it was opened: the lock of a deleted file gives no right to the slot.
fn lock_linked(file: File) -> io::Result<Option<Lock>> {
    let Some(lock) = Lock::attempt(file, true)? else { return Ok(None) };
    let linked = lock.file().metadata()?.nlink() > 0;
    Ok(linked.then_some(lock))
}

/// Allocates a segment of at least `size` bytes: a free one, or a new one if the quota allows it.
pub(super) fn take(pool: &Pool, size: u64) -> Result<OwnedSegment> {
    let order =
        size.max(1).checked_next_power_of_two().map_or(u32::MAX, u64::trailing_zeros).max(MIN_SEGMENT_LOG2);
    if order > MAX_SEGMENT_LOG2 {
        return Err(Error::limit(format!("an object of {size} bytes is too large for a pool")));
    }
    sweep(pool)?;
    let index = &pool.0.index;
    for _ in 0..MAX_ATTEMPTS {
        for number in 0..index.slots() {
            if let (State::Free, word) = index.word(number)
                && index.order(number) == Some(order)
                && let Some(taken) = recycle(pool, number, word, order)?
            {
                return Ok(taken);
            }
        }
        let most = index.quota();
        let used: u64 =
            (0..index.slots()).filter_map(|number| index.order(number)).map(|order| 1 << order).sum();
        if used.saturating_add(1 << order) > most {
            if 1 << order > most {
                return Err(Error::limit(format!(
                    "an object of {size} bytes needs a segment of {}, and the pool's quota is {most}: make the pool with a larger quota",
                    1_u64 << order
                )));
            }
            make_room(pool, used.saturating_add(1 << order) - most)?;
            continue;
        }
        let Some((number, word)) = (0..index.slots())
            .map(|number| (number, index.word(number)))
            .find_map(|(number, (state, word))| (state == State::Empty).then_some((number, word)))
        else {
            // All slots are in use: release a free segment of another size.
            make_room(pool, 1)?;
            continue;
        };
        if !index.change(number, word, State::Creating) {
            continue;
        }
        let word = next(word, State::Creating);
        let created = create_segment(pool, number, word, order);
        if let Ok(Some(lock)) = created {
            return Ok(OwnedSegment { number, word, lock: lock.kept(), order });
        }
        // Without effect if another process took the slot for a leftover of a dead process.
        index.change(number, word, State::Empty);
        created?;
        std::thread::yield_now();
    }
    Err(Error::new(ErrorKind::Io, "other processes were faster in every attempt to take a segment"))
}

/// Takes a free segment for reuse; `None` if another process was faster, or the segment is unusable.
fn recycle(pool: &Pool, number: usize, word: Word, order: u32) -> Result<Option<OwnedSegment>> {
    let index = &pool.0.index;
    let Some(lock) = lock_exclusive(pool, number)? else { return Ok(None) };
    // Changing the slot requires the lock; it may have been changed before the lock was taken.
    if !index.change(number, word, State::Creating) {
        return Ok(None);
    }
    let word = next(word, State::Creating);
    let size = lock.file().metadata().map_or(0, |metadata| metadata.len());
    if size != 1 << order {
        // The size is wrong, so the file was tampered with.
        index.set_order(number, 0);
        drop(fs::remove_file(segment_path(pool, number)));
        index.change(number, word, State::Empty);
        return Ok(None);
    }
    Ok(Some(OwnedSegment { number, word, lock: lock.kept(), order }))
}

/// Creates the file of a segment, locked, for a slot in state `word`; `None` if another process
/// locked it first.
fn create_segment(pool: &Pool, number: usize, word: Word, order: u32) -> Result<Option<Lock>> {
    let path = segment_path(pool, number);
    if let Some(_leftover) = lock_exclusive(pool, number)? {
        // Left by a process that was killed at this point.
        if pool.0.index.word(number).1 != word {
            return Ok(None);
        }
        drop(fs::remove_file(&path));
    }
    match open_file(&path, true) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(failed("create", &path, &error)),
        Ok(file) => claim(pool, number, word, order, file),
    }
}

/// Locks the new file of a segment and reserves its memory. Until it is locked, another process may
/// take it for a leftover, delete it and release the slot.
pub(super) fn claim(pool: &Pool, number: usize, word: Word, order: u32, file: File) -> Result<Option<Lock>> {
    let path = segment_path(pool, number);
    let Some(lock) = lock_linked(file).map_err(|error| failed("lock", &path, &error))? else {
        return Ok(None);
    };
    let index = &pool.0.index;
    if index.word(number).1 != word {
        return Ok(None);
    }
    index.set_order(number, order);
    if let Err(error) = memory::reserve(lock.file(), 1 << order) {
        // While the lock is held, so that no other process has the slot.
        index.set_order(number, 0);
        drop(fs::remove_file(&path));
        index.change(number, word, State::Empty);
        return Err(match error.raw_os_error() {
            Some(libc::ENOSPC) => Error::limit(format!(
                "there is no memory for a segment of {} bytes: delete objects, or make the pool with a smaller quota and a folder to spill to",
                1_u64 << order
            )),
            _ => failed("create", &path, &error),
        });
    }
    Ok(Some(lock))
}

/// Releases unsealed objects of dead processes, and deleted objects without readers.
pub(super) fn sweep(pool: &Pool) -> Result<()> {
    for number in 0..pool.0.index.slots() {
        if matches!(pool.0.index.word(number).0, State::Creating | State::Deleted) {
            reclaim(pool, number)?;
        }
    }
    Ok(())
}

/// Releases the segment of an object that is deleted, or whose writer is gone, unless it is in use.
pub(super) fn reclaim(pool: &Pool, number: usize) -> Result<()> {
    let index = &pool.0.index;
    let (state, word) = index.word(number);
    if !matches!(state, State::Creating | State::Deleted) {
        return Ok(());
    }
    // A new segment has no file at first, and its creator no lock: it is released only if there is
    // an unlocked file.
    let Some(_lock) = lock_exclusive(pool, number)? else { return Ok(()) };
    if index.order(number).is_some() {
        index.change(number, word, State::Free);
    } else {
        // The process that released or created it was stopped at that point.
        if index.word(number).1 == word {
            drop(fs::remove_file(segment_path(pool, number)));
        }
        index.change(number, word, State::Empty);
    }
    Ok(())
}

/// Frees memory: first free segments, then, if there is a folder to spill to, the least recently
/// used objects. Objects that are read at this moment are waited for.
fn make_room(pool: &Pool, mut needed: u64) -> Result<()> {
    patiently(READERS_WAIT, || Ok(free_some(pool, &mut needed)?.then_some(())))?.ok_or_else(|| {
        Error::limit(format!(
            "the pool's quota of {} bytes is reached, and all objects are being read or made: close some, or make the pool with a larger quota",
            pool.0.index.quota()
        ))
    })
}

/// Frees memory as far as that is possible without waiting for readers; returns true if it is
/// enough.
fn free_some(pool: &Pool, needed: &mut u64) -> Result<bool> {
    let index = &pool.0.index;
    let mut freed = |number: usize| -> Result<bool> {
        let (state, word) = index.word(number);
        let Some(_lock) = lock_exclusive(pool, number)?.filter(|_| state == State::Free) else {
            return Ok(false);
        };
        // The lock gives exclusive use. The file is deleted first, so that the slot never has two.
        if !index.change(number, word, State::Creating) {
            return Ok(false);
        }
        let word = next(word, State::Creating);
        let order = index.order(number).unwrap_or(0);
        index.set_order(number, 0);
        drop(fs::remove_file(segment_path(pool, number)));
        index.change(number, word, State::Empty);
        *needed = needed.saturating_sub(1 << order);
        Ok(*needed == 0)
    };
    sweep(pool)?;
    for number in 0..index.slots() {
        if index.word(number).0 == State::Free && freed(number)? {
            return Ok(true);
        }
    }
    if pool.0.spill.is_none() {
        return Err(Error::limit(format!(
            "the pool's quota of {} bytes is reached: delete objects, or make the pool with a larger quota or a folder to spill to",
            index.quota()
        )));
    }
    let mut oldest: Vec<(u64, usize, Word)> = (0..index.slots())
        .map(|number| (number, index.word(number)))
        .filter(|(_, (state, _))| *state == State::Sealed)
        .map(|(number, (_, word))| (index.used(number), number, word))
        .collect();
    oldest.sort_unstable();
    for (_, number, word) in oldest {
        if move_to_file(pool, number, word)? && freed(number)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Moves an object to a file, unless it is being read. Returns false if its segment is not free
/// afterwards.
fn move_to_file(pool: &Pool, number: usize, word: Word) -> Result<bool> {
    let index = &pool.0.index;
    // The exclusive lock shows that no other process reads or moves the object. While it is copied,
    // it can be read.
    let Some(lock) = lock_exclusive(pool, number)? else { return Ok(false) };
    let shared = lock.share().map_err(|error| failed("lock", &segment_path(pool, number), &error))?;
    if !shared || index.word(number).1 != word || !object::spill(pool, number, word)? {
        return Ok(false);
    }
    drop(lock);
    let deleted = next(word, State::Deleted);
    let released = patiently(LAST_READERS_WAIT, || {
        reclaim(pool, number)?;
        Ok((index.word(number).1 != deleted).then_some(()))
    });
    Ok(released?.is_some())
}
