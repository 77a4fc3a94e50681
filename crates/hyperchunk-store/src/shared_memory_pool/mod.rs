//! Shared-memory pool: objects that processes of one machine pass to each other without copies, in
//! recycled segments.
//!
//! A pool is a folder on tmpfs with an *index*, a table in shared memory, and *segments*, files of
//! 2^k bytes. A process that creates an object takes a segment, fills it and *seals* it; after that
//! it never changes, and any process can map it for reading. The segments of deleted objects are
//! reused: writing to memory that is already allocated is 2.7 to 5 times as fast as writing to new
//! memory.
//!
//! There is no server. The index is changed by atomic operations. A process that uses a segment
//! holds a file lock (`flock`) on it, shared for reading and exclusive for filling; the system
//! releases the lock when the last process that has the file open exits or is killed, including
//! forked ones. So no object is recycled while it is read, nothing of a dead process is left over,
//! and objects that were not sealed are never visible.
//!
//! Sealing ends the exclusive lock explicitly, since a forked process has the same open file: it
//! must not write to the object from then on. An object that moves to a file is copied under a
//! shared lock, so that it can be read all the time. All other exclusive locks are short, and readers
//! wait for them.
//!
//! Users of a pool are trusted as far as the user's account: only its owner can access folder and
//! files. Nevertheless, values of an index are checked before use. The folder of spilled objects is the
//! owner's, too, and others cannot write to it.

mod index;
mod memory;
mod object;
mod segment;
mod spill;

pub use object::{PoolObject, PoolWriter};

use hyperchunk::{Error, ErrorKind, Result};
use index::{Index, State};
use spill::SpillFolder;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Folder of the pools.
const BASE: &str = "/dev/shm";
/// Prefix of their folder names.
const PREFIX: &str = "hyperchunk-";
/// Size of the smallest segment, as a power of two.
const MIN_SEGMENT_LOG2: u32 = 16;
/// Size of the largest segment, as a power of two.
const MAX_SEGMENT_LOG2: u32 = 44;
/// Maximum length of an object's name in bytes.
pub const MAX_NAME_BYTES: usize = 160;

/// Options of a new pool.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PoolOptions {
    /// Maximum total size of its segments in bytes; by default half of the memory.
    pub quota: Option<u64>,
    /// Folder for the least recently used objects when the quota is reached; without it, reaching
    /// the quota is an error. It is created if it does not exist. An existing one must be the user's, and
    /// others must not be able to write to it.
    pub spill: Option<PathBuf>,
}

/// A pool of shared memory. Cheap to clone; all clones may be used from many threads.
#[derive(Debug, Clone)]
pub struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    index: Index,
    spill: Option<PathBuf>,
}

/// An object of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolEntry {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub length: u64,
    /// True if it is in a file, not in memory.
    pub spilled: bool,
}

/// Usage of a pool. Sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PoolStats {
    /// Maximum total size of its segments.
    pub quota: u64,
    /// Total size of its segments.
    pub memory: u64,
    /// Total size of the segments that can be reused.
    pub free: u64,
    /// Number of objects in memory.
    pub objects: usize,
    /// Total size of the objects in memory.
    pub bytes: u64,
    /// Number of objects that are being written.
    pub unsealed: usize,
    /// Number of deleted objects that are still in use.
    pub deleted: usize,
    /// Number of spilled objects.
    pub spilled: usize,
    /// Total size of the spilled objects.
    pub spilled_bytes: u64,
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    let kind = if error.kind() == io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Io };
    Error::new(kind, format!("cannot {what} {}: {error}", path.display()))
}

/// Returns the folder of a pool, given by its name or by the path of a folder on tmpfs.
fn pool_folder(name: &str) -> Result<PathBuf> {
    if name.contains('/') {
        return std::path::absolute(name).map_err(|error| failed("find", Path::new(name), &error));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.starts_with('.') || name.len() > 100 || !name.bytes().all(plain) {
        return Err(Error::invalid(format!(
            "invalid name of a pool {name:?}: expected letters, digits, - _ ."
        )));
    }
    Ok(Path::new(BASE).join(format!("{PREFIX}{name}")))
}

/// Returns a path beside a pool's folder that no other process or thread uses.
fn temporary_beside(folder: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    folder.with_file_name(name)
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') {
        return Err(Error::invalid(format!(
            "the name of an object must have 1 to {MAX_NAME_BYTES} bytes, got {}",
            name.len()
        )));
    }
    Ok(())
}

/// Refuses a folder of another user, or one that other users can access.
fn check_folder(folder: &Path) -> Result<()> {
    let found = fs::symlink_metadata(folder).map_err(|error| failed("open the pool", folder, &error))?;
    // SAFETY: no pointers.
    let own = unsafe { libc::geteuid() };
    if !found.is_dir() || found.uid() != own || found.mode() & 0o077 != 0 {
        let message = "the pool's folder is another user's, or open to others: it is not used";
        return Err(Error::new(ErrorKind::Io, message).file(folder.display()));
    }
    Ok(())
}

impl Pool {
    /// Creates a pool.
    ///
    /// # Errors
    /// Invalid for an invalid name, or a folder for spilled objects that is another user's or that others can
    /// write to; Io, also if a pool of that name exists.
    pub fn create(name: &str, options: &PoolOptions) -> Result<Self> {
        let folder = pool_folder(name)?;
        let spill = match &options.spill {
            Some(spill) => {
                let spill = std::path::absolute(spill).map_err(|error| failed("find", spill, &error))?;
                SpillFolder::make(&spill)?;
                Some(spill)
            }
            None => None,
        };
        // Created under a temporary name, so that no process sees an incomplete pool.
        let new = temporary_beside(&folder);
        let created = fs::DirBuilder::new().mode(0o700).create(&new);
        created.map_err(|error| failed("create the pool's folder", &folder, &error))?;
        let made =
            Index::create(&new, options.quota.unwrap_or_else(|| half_of_memory(&new)), spill.as_deref());
        let named = made.and_then(|()| {
            // Fails if the target is a folder that is not empty.
            fs::rename(&new, &folder).map_err(|error| failed("create the pool", &folder, &error))
        });
        if named.is_err() {
            drop(fs::remove_dir_all(&new));
        }
        named?;
        Self::open(name)
    }

    /// Opens an existing pool.
    ///
    /// # Errors
    /// NotFound; Corrupt for an invalid index; Io.
    pub fn open(name: &str) -> Result<Self> {
        let folder = pool_folder(name)?;
        check_folder(&folder)?;
        let (index, spill) = Index::open(&folder)?;
        Ok(Self(Arc::new(Inner { folder, index, spill })))
    }

    /// As [`Pool::open`], but creates the pool if it does not exist.
    ///
    /// # Errors
    /// As [`Pool::create`].
    pub fn open_or_create(name: &str, options: &PoolOptions) -> Result<Self> {
        match Self::open(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => match Self::create(name, options) {
                // Another process created it in the meantime.
                Err(first) => Self::open(name).map_err(|_| first),
                made => made,
            },
            opened => opened,
        }
    }

    /// Deletes a pool, with all objects in memory. Readers that have an object open can still use
    /// it.
    ///
    /// # Errors
    /// NotFound; Io.
    pub fn remove(name: &str) -> Result<()> {
        let folder = pool_folder(name)?;
        check_folder(&folder)?;
        if !folder.join(index::NAME).is_file() {
            return Err(Error::invalid("this is not a pool").file(folder.display()));
        }
        // Under another name, no process adds a segment to it meanwhile.
        let removed = temporary_beside(&folder);
        fs::rename(&folder, &removed).map_err(|error| failed("remove", &folder, &error))?;
        fs::remove_dir_all(&removed).map_err(|error| failed("remove", &removed, &error))
    }

    /// Returns the names of this user's pools.
    ///
    /// # Errors
    /// Io.
    pub fn all() -> Result<Vec<String>> {
        let entries = fs::read_dir(BASE).map_err(|error| failed("read", Path::new(BASE), &error))?;
        let mut names: Vec<String> = entries
            .flatten()
            .filter(|entry| check_folder(&entry.path()).is_ok() && entry.path().join(index::NAME).is_file())
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_prefix(PREFIX)?.to_owned()))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the folder of the pool.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// Begins an object of up to `size` bytes.
    ///
    /// # Errors
    /// Invalid for an invalid name; Limit if the quota is reached, with advice; Io.
    pub fn begin(&self, name: &str, size: u64) -> Result<PoolWriter> {
        check_name(name)?;
        PoolWriter::begin(self, name, size)
    }

    /// Creates an object with the given bytes.
    ///
    /// # Errors
    /// As [`Pool::begin`]; Io if there is an object of that name.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut writer = self.begin(name, bytes.len() as u64)?;
        writer.memory()[..bytes.len()].copy_from_slice(bytes);
        writer.seal(bytes.len() as u64)
    }

    /// Maps an object.
    ///
    /// # Errors
    /// NotFound; Corrupt or Truncated if the index does not fit the segment; Io, also if another
    /// process has it locked for 2 s.
    pub fn get(&self, name: &str) -> Result<PoolObject> {
        check_name(name)?;
        PoolObject::open(self, name)
    }

    /// Deletes an object; returns false if it does not exist. Its readers can still use it; the
    /// memory is reused after the last one is done.
    ///
    /// # Errors
    /// Io.
    pub fn delete(&self, name: &str) -> Result<bool> {
        check_name(name)?;
        let names = self.lock_names()?;
        let mut found = false;
        // The file first: an object that is in memory, too, is then deleted as a whole.
        if let Some(folder) = self.spill_folder()? {
            found = folder.delete(name)?;
        }
        let deleted = self.0.index.sealed(name);
        for (number, word) in &deleted {
            found |= self.0.index.change(*number, *word, State::Deleted);
        }
        drop(names);
        for (number, _) in deleted {
            segment::reclaim(self, number)?;
        }
        Ok(found)
    }

    /// Lists the objects by name.
    ///
    /// # Errors
    /// Io.
    pub fn list(&self) -> Result<Vec<PoolEntry>> {
        let mut all: Vec<PoolEntry> = (0..self.0.index.slots())
            .filter_map(|number| self.0.index.entry(number))
            .map(|(name, length)| PoolEntry { name, length, spilled: false })
            .collect();
        for (name, length) in self.all_spilled()? {
            if all.iter().all(|entry| entry.name != name) {
                all.push(PoolEntry { name, length, spilled: true });
            }
        }
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    /// Returns the usage of the pool.
    ///
    /// # Errors
    /// Io.
    pub fn stats(&self) -> Result<PoolStats> {
        segment::sweep(self)?;
        let index = &self.0.index;
        let mut stats = PoolStats { quota: index.quota(), ..PoolStats::default() };
        for number in 0..index.slots() {
            let Some(order) = index.order(number) else { continue };
            stats.memory = stats.memory.saturating_add(1 << order);
            match index.word(number).0 {
                State::Free => stats.free += 1 << order,
                State::Creating => stats.unsealed += 1,
                State::Deleted => stats.deleted += 1,
                State::Sealed => {
                    stats.objects += 1;
                    stats.bytes = stats.bytes.saturating_add(index.length(number));
                }
                State::Empty => {}
            }
        }
        for (_, length) in self.all_spilled()? {
            stats.spilled += 1;
            stats.spilled_bytes = stats.spilled_bytes.saturating_add(length);
        }
        Ok(stats)
    }

    /// Waits for the lock of the objects' names, if objects are also in files: sealing, deleting and
    /// spilling change both places. `None` without a folder for files.
    fn lock_names(&self) -> Result<Option<memory::Lock>> {
        if self.0.spill.is_none() {
            return Ok(None);
        }
        let path = self.0.folder.join(index::NAME);
        let named = |error: io::Error| failed("lock", &path, &error);
        let file = open_file(&path, false).map_err(named)?;
        memory::Lock::wait(file).map(Some).map_err(named)
    }

    fn all_spilled(&self) -> Result<Vec<(String, u64)>> {
        self.0.spill.as_deref().map_or(Ok(Vec::new()), |path| SpillFolder::open(path)?.list())
    }

    /// Returns the next value of the logical clock that orders uses of objects.
    fn tick(&self) -> u64 {
        self.0.index.clock().fetch_add(1, Ordering::Relaxed)
    }
}

/// Returns half of the memory, limited by the free space of a file system.
fn half_of_memory(folder: &Path) -> u64 {
    let total = File::open("/proc/meminfo").and_then(|mut file| {
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(text)
    });
    let total = total.ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    });
    let memory = total.map_or(1 << 30, |kib| kib.saturating_mul(512));
    memory.min(memory::room(folder).unwrap_or(memory))
}

/// Opens a file of a pool, accessible only to its owner.
fn open_file(path: &Path, new: bool) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
    if new { options.create_new(true).open(path) } else { options.open(path) }
}

#[cfg(test)]
mod tests;
