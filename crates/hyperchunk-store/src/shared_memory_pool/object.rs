//! Objects of a pool: writing, sealing, reading, spilling.

use super::index::{State, Word};
use super::memory::{Lock, Mapping};
use super::segment::{OwnedSegment, patiently, reclaim, segment_path, take};
use super::spill::SpillFolder;
use super::{MAX_NAME_BYTES, Pool, failed};
use hyperchunk::{Error, ErrorKind, Result};
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// Time for which reading waits for an object that another process has locked.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// Signature of a spilled object. It is followed by the object's length, the length of its name,
/// the name, and zeros up to [`HEAD_BYTES`].
const MAGIC: [u8; 8] = *b"HCSPILL\x01";
const HEAD_BYTES: usize = 4096;

/// An object that is being written: invisible until it is sealed, and discarded if it never is.
#[derive(Debug)]
pub struct PoolWriter {
    pool: Pool,
    name: String,
    taken: Option<OwnedSegment>,
    mapping: Mapping,
    process: u32,
}

/// An object of a pool: immutable bytes, valid as long as this value lives.
#[derive(Debug, Clone)]
pub struct PoolObject(Arc<MappedObject>);

#[derive(Debug)]
struct MappedObject {
    mapping: Mapping,
    from: usize,
    length: usize,
    /// The lock of an object in memory. Forked processes may use the object, too, so the lock ends
    /// when the last of them exits.
    _lock: Option<Lock>,
}

/// Result of an attempt to map an object in memory.
enum Attempt {
    Mapped(PoolObject),
    /// The object was deleted or moved.
    Gone,
    /// Another process has an exclusive lock of it.
    Locked,
}

impl PoolWriter {
    pub(super) fn begin(pool: &Pool, name: &str, size: u64) -> Result<Self> {
        let taken = take(pool, size)?;
        let length = usize::try_from(1_u64 << taken.order)
            .map_err(|_| Error::limit("larger than the address space"))?;
        let mapping = Mapping::new(taken.lock.file(), length, true)
            .map_err(|error| failed("map", &segment_path(pool, taken.number), &error))?;
        mapping.prepare(usize::try_from(size).unwrap_or(usize::MAX));
        let process = std::process::id();
        Ok(Self { pool: pool.clone(), name: name.to_owned(), taken: Some(taken), mapping, process })
    }

    /// Returns its memory, at least as large as requested. It still has the content of its previous
    /// use.
    pub fn memory(&mut self) -> &mut [u8] {
        // SAFETY: these bytes are mapped, and no other process uses them until it is sealed: this
        // one holds the lock of the segment.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.start(), self.mapping.length()) }
    }

    /// Returns the start of its memory.
    #[must_use]
    pub fn start(&self) -> *mut u8 {
        self.mapping.start()
    }

    /// Returns the size of its memory in bytes.
    #[must_use]
    pub fn room(&self) -> usize {
        self.mapping.length()
    }

    /// Makes the first `length` bytes a visible object.
    ///
    /// # Errors
    /// Invalid for more bytes than there are, or after a fork; Io if there is an object of its
    /// name.
    pub fn seal(mut self, length: u64) -> Result<()> {
        if self.process != std::process::id() {
            return Err(Error::invalid(
                "cannot seal the object: it belongs to the process that this one was forked from",
            ));
        }
        if length > self.mapping.length() as u64 {
            return Err(Error::invalid(format!(
                "cannot seal {length} bytes: the object has only {}",
                self.mapping.length()
            )));
        }
        let Some(taken) = self.taken.as_ref() else {
            return Err(Error::invalid("the object is already sealed"));
        };
        let (number, word) = (taken.number, taken.word);
        let index = &self.pool.0.index;
        let exists = || {
            let message = format!("the pool has an object {:?}: delete it first", self.name);
            Error::new(ErrorKind::Io, message)
        };
        let _names = self.pool.lock_names()?;
        if !index.sealed(&self.name).is_empty()
            || self.pool.spill_folder()?.is_some_and(|folder| folder.has(&self.name))
        {
            return Err(exists());
        }
        let changed =
            || Error::corrupt("another process changed the slot of an object that is being written");
        if index.word(number).1 != word {
            return Err(changed());
        }
        index.describe(number, &self.name, length);
        index.touch(number, self.pool.tick());
        if !index.change(number, word, State::Sealed) {
            return Err(changed());
        }
        // Of two that are sealed concurrently, the first one in the index counts.
        let sealed = index.sealed(&self.name);
        if sealed.first().is_some_and(|(first, _)| *first != number) {
            if let Some((_, word)) = sealed.iter().find(|(found, _)| *found == number) {
                index.change(number, *word, State::Deleted);
            }
            return Err(exists());
        }
        // Forked processes have the same open file, and must not keep the readers away.
        if let Some(taken) = self.taken.take() {
            taken.lock.end();
        }
        Ok(())
    }
}

#[cfg(test)]
impl PoolWriter {
    /// Returns its locked file as a forked process would have it.
    pub(super) fn forked_file(&self) -> File {
        self.taken.as_ref().unwrap().lock.file().try_clone().unwrap()
    }
}

impl Drop for PoolWriter {
    fn drop(&mut self) {
        let Some(taken) = self.taken.take() else { return };
        if self.process != std::process::id() {
            return;
        }
        // Release the lock first, because `reclaim` takes it. A forked process that fills the
        // object still holds it.
        drop(taken.lock);
        drop(reclaim(&self.pool, taken.number));
    }
}

impl PoolObject {
    pub(super) fn open(pool: &Pool, name: &str) -> Result<Self> {
        let find = || {
            // In memory first: objects move to files, but never back.
            let sealed = pool.0.index.sealed(name);
            let mut changing = false;
            for (number, word) in sealed {
                match Self::mapped(pool, number, word)? {
                    Attempt::Mapped(object) => return Ok(Some(object)),
                    Attempt::Gone => changing |= pool.0.index.word(number).1 != word,
                    Attempt::Locked => changing = true,
                }
            }
            match Self::map_spilled(pool, name)? {
                None if changing => Ok(None),
                None => Err(Error::new(ErrorKind::NotFound, format!("the pool has no object {name:?}"))),
                found => Ok(found),
            }
        };
        patiently(LOCK_WAIT, find)?.ok_or_else(|| {
            let message = format!(
                "cannot read the object {name:?} of the pool: for {} s, it was locked by another process, or replaced again and again; try again when that process is done",
                LOCK_WAIT.as_secs()
            );
            Error::new(ErrorKind::Io, message).file(pool.folder().display())
        })
    }

    fn mapped(pool: &Pool, number: usize, word: Word) -> Result<Attempt> {
        let path = segment_path(pool, number);
        let named = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                Error::new(ErrorKind::Truncated, "a segment that is shorter than its object")
                    .file(path.display())
            }
            _ => failed("map", &path, &error),
        };
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Attempt::Gone),
            file => file.map_err(named)?,
        };
        let Some(lock) = Lock::attempt(file, false).map_err(named)? else { return Ok(Attempt::Locked) };
        // While the lock is held, the object cannot change.
        let index = &pool.0.index;
        let length = index.length(number);
        if index.word(number).1 != word {
            return Ok(Attempt::Gone);
        }
        let length = usize::try_from(length).map_err(|_| Error::limit("larger than the address space"))?;
        let mapping = Mapping::new(lock.file(), length, false).map_err(named)?;
        index.touch(number, pool.tick());
        let object = MappedObject { mapping, from: 0, length, _lock: Some(lock.kept()) };
        Ok(Attempt::Mapped(Self(Arc::new(object))))
    }

    /// Maps a spilled object. Only a process of the owner can shorten its file meanwhile.
    fn map_spilled(pool: &Pool, name: &str) -> Result<Option<Self>> {
        let Some(folder) = pool.spill_folder()? else { return Ok(None) };
        let Some((mut file, path)) = folder.open_object(name)? else { return Ok(None) };
        let named = |error: io::Error| failed("read", &path, &error);
        let corrupt =
            || Error::corrupt("the file is not a spilled object, or is incomplete").file(path.display());
        let (found, length) = read_head(&mut file).map_err(named)?.ok_or_else(corrupt)?;
        if found != name {
            return Err(corrupt());
        }
        let length = usize::try_from(length).map_err(|_| Error::limit("larger than the address space"))?;
        let all = length.checked_add(HEAD_BYTES).ok_or_else(corrupt)?;
        let mapping = Mapping::new(&file, all, false).map_err(|_| corrupt())?;
        Ok(Some(Self(Arc::new(MappedObject { mapping, from: HEAD_BYTES, length, _lock: None }))))
    }
}

impl Deref for PoolObject {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `from + length` bytes are mapped.
        let start = unsafe { self.0.mapping.start().add(self.0.from) };
        // SAFETY: as above; a sealed object is never written to while its lock is held here.
        unsafe { std::slice::from_raw_parts(start, self.0.length) }
    }
}

/// Reads name and length of a spilled object; `None` if it is invalid or incomplete.
pub(super) fn read_head(file: &mut File) -> io::Result<Option<(String, u64)>> {
    let mut head = [0; HEAD_BYTES];
    match file.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let size = file.metadata()?.len();
    let number = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let (length, name) = (number(8), usize::try_from(number(16)).unwrap_or(usize::MAX));
    if head[..8] != MAGIC || name > MAX_NAME_BYTES || length.checked_add(HEAD_BYTES as u64) != Some(size) {
        return Ok(None);
    }
    Ok(String::from_utf8(head[24..24 + name].to_vec()).ok().map(|name| (name, length)))
}

/// Copies an object to a file and deletes it from memory; the caller holds a lock of it, shared or
/// exclusive. Returns false if it was deleted meanwhile.
pub(super) fn spill(pool: &Pool, number: usize, word: Word) -> Result<bool> {
    let index = &pool.0.index;
    let Some((name, length)) = index.entry(number) else { return Ok(false) };
    let Some(folder) = &pool.0.spill else {
        return Err(Error::invalid("the pool has no folder to spill to"));
    };
    let segment = segment_path(pool, number);
    let mut to = SpillFolder::open(folder)?.create(&name)?;
    let written = (|| {
        let mut from = File::open(&segment)?;
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&MAGIC);
        head[8..16].copy_from_slice(&length.to_le_bytes());
        head[16..24].copy_from_slice(&(name.len() as u64).to_le_bytes());
        head[24..24 + name.len()].copy_from_slice(name.as_bytes());
        to.file.write_all(&head)?;
        let copied = io::copy(&mut (&mut from).take(length), &mut to.file)?;
        if copied != length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        Ok(())
    })();
    written.map_err(|error| failed("spill to", &to.path(), &error))?;
    let _names = pool.lock_names()?;
    if index.word(number).1 != word {
        return Ok(false);
    }
    // It is in the file before it leaves memory, so that it is always available.
    to.finish()?;
    Ok(index.change(number, word, State::Deleted))
}
