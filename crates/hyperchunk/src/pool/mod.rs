//! A pool of shared memory: objects that processes of one machine hand to each other without copying, in recycled segments.
//!
//! A pool is a folder on tmpfs with an *index*, a table in shared memory, and *segments*, files of 2^k bytes. Who makes an object
//! gets a segment, fills it and *seals* it; from then on it never changes, and anybody maps it for reading. Deleted objects leave
//! their segments behind for the next one: memory that is there already is written 2.7 to 5 times as fast as new memory.
//!
//! There is no server. The index changes by atomic steps. Who uses a segment holds the system's lock of its file (`flock`),
//! shared to read it and alone to fill it; the system takes it away when the last process that has the file open is gone, killed
//! or not, forked or not. So nothing that somebody reads is ever recycled, nothing of a dead process stays behind, and what its
//! writer did not seal can be read by nobody.
//!
//! Whoever may use a pool is trusted as far as the user is: folder and files are its own alone. Still, nothing of an index is
//! believed before it is checked.

mod index;
mod memory;
mod object;
mod segment;

pub use object::{PoolObject, PoolWriter};

use crate::{Error, ErrorKind, Result};
use index::{Index, State};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Where pools are.
const BASE: &str = "/dev/shm";
/// What their folders begin with.
const PREFIX: &str = "hyperchunk-";
/// The smallest segment, as a power of two.
const SMALLEST: u32 = 16;
/// The largest.
const LARGEST: u32 = 44;
/// Names of objects are no longer.
pub const LONGEST_NAME: usize = 160;

/// How a pool is made.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PoolOptions {
    /// How much memory its segments may take; half of what there is, if nothing is said.
    pub quota: Option<u64>,
    /// Where objects go that nobody used for the longest time, when the quota is reached; without it, that is an error.
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
    /// How many bytes it has.
    pub length: u64,
    /// Whether it is in a file, not in memory.
    pub spilled: bool,
}

/// What a pool has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PoolStats {
    /// How much memory its segments may take.
    pub quota: u64,
    /// How much they take.
    pub memory: u64,
    /// How much of it waits to be used again.
    pub free: u64,
    /// How many objects are in memory, and how many bytes they have.
    pub objects: usize,
    /// How many bytes they have.
    pub bytes: u64,
    /// How many objects are being made.
    pub unsealed: usize,
    /// How many are deleted and still read.
    pub deleted: usize,
    /// How many objects were spilled, and how many bytes they have.
    pub spilled: usize,
    /// How many bytes they have.
    pub spilled_bytes: u64,
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    let kind = if error.kind() == io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Io };
    Error::new(kind, format!("cannot {what} {}: {error}", path.display()))
}

/// Where a pool is: its name, or the path of a folder on tmpfs.
fn folder_of(name: &str) -> Result<PathBuf> {
    if name.contains('/') {
        return std::path::absolute(name).map_err(|error| failed("find", Path::new(name), &error));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.starts_with('.') || name.len() > 100 || !name.bytes().all(plain) {
        return Err(Error::invalid(format!("a pool cannot be called {name:?}: letters, digits, - _ .")));
    }
    Ok(Path::new(BASE).join(format!("{PREFIX}{name}")))
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
        return Err(Error::invalid(format!(
            "an object has a name of 1 to {LONGEST_NAME} bytes, not {}",
            name.len()
        )));
    }
    Ok(())
}

/// A folder of another user, or one that others may write to, is not trusted.
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
    /// Makes a pool.
    ///
    /// # Errors
    /// Invalid for a name that is none; Io, also if there is one of that name.
    pub fn create(name: &str, options: &PoolOptions) -> Result<Self> {
        let folder = folder_of(name)?;
        let spill = match &options.spill {
            Some(spill) => {
                let spill = std::path::absolute(spill).map_err(|error| failed("find", spill, &error))?;
                fs::create_dir_all(&spill).map_err(|error| failed("make", &spill, &error))?;
                Some(spill)
            }
            None => None,
        };
        // Made under another name: whoever sees the pool sees all of it.
        let new = folder.with_extension(format!("{}.new", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&new).map_err(|error| failed("make", &new, &error))?;
        let made = Index::create(&new, options.quota.unwrap_or_else(|| half(&new)), spill.as_deref());
        let named = made.and_then(|()| {
            // Does not replace a folder that has anything in it.
            fs::rename(&new, &folder).map_err(|error| failed("make the pool", &folder, &error))
        });
        if named.is_err() {
            drop(fs::remove_dir_all(&new));
        }
        named?;
        Self::open(name)
    }

    /// Opens a pool that is there.
    ///
    /// # Errors
    /// NotFound; Corrupt for an index that is none; Io.
    pub fn open(name: &str) -> Result<Self> {
        let folder = folder_of(name)?;
        check_folder(&folder)?;
        let (index, spill) = Index::open(&folder)?;
        Ok(Self(Arc::new(Inner { folder, index, spill })))
    }

    /// As [`Pool::open`]; it is made if it is not there.
    ///
    /// # Errors
    /// As [`Pool::create`].
    pub fn open_or_create(name: &str, options: &PoolOptions) -> Result<Self> {
        match Self::open(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => match Self::create(name, options) {
                // Somebody was faster.
                Err(first) => Self::open(name).map_err(|_| first),
                made => made,
            },
            opened => opened,
        }
    }

    /// Takes a pool away, with all objects in memory. Who reads one goes on.
    ///
    /// # Errors
    /// NotFound; Io.
    pub fn remove(name: &str) -> Result<()> {
        let folder = folder_of(name)?;
        check_folder(&folder)?;
        if !folder.join(index::NAME).is_file() {
            return Err(Error::invalid("this is no pool").file(folder.display()));
        }
        fs::remove_dir_all(&folder).map_err(|error| failed("remove", &folder, &error))
    }

    /// The pools of this user.
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

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// Begins an object of up to so many bytes.
    ///
    /// # Errors
    /// Invalid for a name that is none; Limit if the quota is reached, with what to do about it; Io.
    pub fn begin(&self, name: &str, size: u64) -> Result<PoolWriter> {
        check_name(name)?;
        PoolWriter::begin(self, name, size)
    }

    /// Makes an object of these bytes.
    ///
    /// # Errors
    /// As [`Pool::begin`]; Io if there is an object of that name.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut writer = self.begin(name, bytes.len() as u64)?;
        writer.memory()[..bytes.len()].copy_from_slice(bytes);
        writer.seal(bytes.len() as u64)
    }

    /// An object, mapped.
    ///
    /// # Errors
    /// NotFound; Corrupt or Truncated if the index does not fit the segment; Io.
    pub fn get(&self, name: &str) -> Result<PoolObject> {
        check_name(name)?;
        PoolObject::open(self, name)
    }

    /// Deletes an object; false if there is none of that name. Who reads it goes on; its memory is used again afterwards.
    ///
    /// # Errors
    /// Io.
    pub fn delete(&self, name: &str) -> Result<bool> {
        check_name(name)?;
        let mut found = false;
        for (number, word) in self.0.index.sealed(name) {
            if self.0.index.change(number, word, State::Deleted) {
                found = true;
                segment::reclaim(self, number)?;
            }
        }
        if let Some(file) = self.spilled(name) {
            match fs::remove_file(&file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("delete", &file, &error)),
                Ok(()) => found = true,
            }
        }
        Ok(found)
    }

    /// Its objects, by their names.
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

    /// What it has.
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

    /// Where an object would be, were it spilled.
    fn spilled(&self, name: &str) -> Option<PathBuf> {
        let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
        // A name of a file has 255 bytes at most.
        let digits = match digits.len() {
            0..=200 => digits,
            _ => {
                let hash = twox_hash::XxHash3_128::oneshot(name.as_bytes());
                format!("{}-{hash:032x}", &digits[..160])
            }
        };
        self.0.spill.as_ref().map(|folder| folder.join(format!("{digits}.object")))
    }

    fn all_spilled(&self) -> Result<Vec<(String, u64)>> {
        let Some(folder) = &self.0.spill else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for entry in fs::read_dir(folder).map_err(|error| failed("read", folder, &error))?.flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|kind| kind != "object") {
                continue;
            }
            if let Ok(mut file) = File::open(&path)
                && let Ok(Some(found)) = object::read_head(&mut file)
            {
                all.push(found);
            }
        }
        Ok(all)
    }

    /// A number that grows with every use of an object.
    fn tick(&self) -> u64 {
        self.0.index.clock().fetch_add(1, Ordering::Relaxed)
    }
}

/// Half of the memory that a file system may take.
fn half(folder: &Path) -> u64 {
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

/// Opens a file of a pool; others may not.
fn open_file(path: &Path, new: bool) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
    if new { options.create_new(true).open(path) } else { options.open(path) }
}

#[cfg(test)]
mod tests;
