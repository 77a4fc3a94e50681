//! On-disk cache in a private folder of the user, for data that can be computed again: results, and machine
//! code of modules.
//!
//! Each file is named by a digest of all its inputs and holds a checksum of its own content.
//!
//! **Invariant:** a file that is damaged, or that another user could have written, is never used: its content
//! is computed again.

use crate::error::{Error, ErrorKind, Result, fail};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::io::{Read as _, Write as _};
use std::ops::RangeInclusive;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

const MAGIC_BYTES: usize = 8;
/// Overhead of a file in bytes: the mark, the key, and after the content its checksum.
const OVERHEAD_BYTES: usize = MAGIC_BYTES + 32 + 32;
/// Age from which an unfinished file counts as abandoned. Also the granularity of the time of last use.
const MAX_TEMPORARY_AGE: Duration = Duration::from_secs(3600);

/// Kind of a cache's content.
#[derive(Debug)]
pub(super) struct CacheKind {
    /// First bytes of a file.
    pub(super) mark: &'static [u8; MAGIC_BYTES],
    /// Extension of a file's name.
    pub(super) extension: &'static str,
    /// Bytes that this process has written since it last measured the folder. Large at first, to force a
    /// measurement.
    pub(super) written: AtomicU64,
}

/// Initial value of [`CacheKind::written`], larger than any folder.
pub(super) const UNKNOWN_BYTES: u64 = u64::MAX / 2;

/// Digest of everything from which an entry was computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheKey(pub(super) [u8; 32]);

/// Cache folder.
#[derive(Clone, Debug)]
pub struct DiskCache {
    /// Path; must be private to the user.
    pub folder: PathBuf,
    /// Maximum total size of its files.
    pub max_bytes: u64,
    pub(super) kind: &'static CacheKind,
}

impl DiskCache {
    /// Creates the folder, or checks that it is private to the user.
    pub(super) fn make_folder(&self) -> Result<()> {
        let about = |e: &std::io::Error| Error::io(self.folder.display(), e);
        let meta = match fs::symlink_metadata(&self.folder) {
            Ok(meta) => meta,
            Err(_) => {
                fs::DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(&self.folder)
                    .map_err(|e| about(&e))?;
                fs::symlink_metadata(&self.folder).map_err(|e| about(&e))?
            }
        };
        if !meta.is_dir() || meta.uid() != user() || meta.mode() & 0o077 != 0 {
            let text = "cannot keep a cache in this folder: others can write or read it, or it is not yours; run chmod 700, or name another";
            return Err(Error::new(ErrorKind::Key, text).about(self.folder.display().to_string()));
        }
        Ok(())
    }

    /// Returns the number of files and their total size in bytes.
    ///
    /// # Errors
    /// `Key` when the folder is not private to the user, `Io`.
    pub fn contents(&self) -> Result<(u64, u64)> {
        if !self.folder.exists() {
            return Ok((0, 0));
        }
        self.make_folder()?;
        let files = self.files()?;
        Ok((files.len() as u64, files.iter().map(|f| f.bytes).sum()))
    }

    /// Removes all files and returns their number.
    ///
    /// # Errors
    /// As of [`DiskCache::contents`].
    pub fn clear(&self) -> Result<u64> {
        if !self.folder.exists() {
            return Ok(0);
        }
        self.make_folder()?;
        let mut count = 0;
        for file in self.files()? {
            fs::remove_file(&file.path).map_err(|e| Error::io(file.path.display(), &e))?;
            count += 1;
        }
        Ok(count)
    }

    fn files(&self) -> Result<Vec<CacheFile>> {
        let about = |e: std::io::Error| Error::io(self.folder.display(), &e);
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(about)? {
            let entry = entry.map_err(about)?;
            let ours = entry.path().extension().is_some_and(|e| e == self.kind.extension || e == "new");
            // Another process may just have removed the file.
            let Ok(meta) = entry.metadata() else { continue };
            if ours && meta.is_file() {
                let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push(CacheFile { path: entry.path(), bytes: meta.len(), used });
            }
        }
        Ok(files)
    }

    pub(super) fn path(&self, key: &CacheKey) -> PathBuf {
        let name: String = key.0.iter().map(|b| format!("{b:02x}")).collect();
        self.folder.join(format!("{name}.{}", self.kind.extension))
    }

    /// Returns the entry of `key` if it exists, is undamaged and has a length in `lengths`.
    pub(super) fn get(&self, key: &CacheKey, lengths: RangeInclusive<usize>) -> Option<Vec<u8>> {
        let path = self.path(key);
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(&path).ok()?;
        let meta = file.metadata().ok()?;
        let own = meta.is_file() && meta.uid() == user() && meta.mode() & 0o022 == 0;
        let length = usize::try_from(meta.len()).ok()?;
        if !own || !lengths.contains(&length.checked_sub(OVERHEAD_BYTES)?) {
            return None;
        }
        let mut data = Vec::new();
        data.try_reserve_exact(length).ok()?;
        (&file).take(length as u64).read_to_end(&mut data).ok()?;
        let whole = data.split_last_chunk::<32>().filter(|(rest, sum)| {
            rest.strip_prefix(self.kind.mark).is_some_and(|rest| rest.starts_with(&key.0))
                && Sha256::digest(rest)[..] == sum[..]
        });
        if whole.is_none() || data.len() != length {
            // Damaged: the entry is computed and written again.
            self.remove(key);
            return None;
        }
        // Updates the time of last use; the least recently used files are removed first.
        let now = SystemTime::now();
        if meta.modified().is_ok_and(|used| now.duration_since(used).is_ok_and(|age| age > MAX_TEMPORARY_AGE))
        {
            let _ = file.set_modified(now);
        }
        data.truncate(length - 32);
        data.drain(..MAGIC_BYTES + 32);
        Some(data)
    }

    pub(super) fn remove(&self, key: &CacheKey) {
        let _ = fs::remove_file(self.path(key));
    }

    /// Adds an entry. A failure is ignored.
    pub(super) fn put(&self, key: &CacheKey, bytes: &[u8]) {
        let length = (bytes.len() + OVERHEAD_BYTES) as u64;
        if length > self.max_bytes / 4 || self.make_folder().is_err() {
            return;
        }
        let mut sum = Sha256::new();
        for part in [&self.kind.mark[..], &key.0, bytes] {
            sum.update(part);
        }
        let sum = sum.finalize();
        let path = self.path(key);
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let new = path.with_extension(format!("{}-{number}.new", std::process::id()));
        let write = || {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            for part in [&self.kind.mark[..], &key.0, bytes, &sum[..]] {
                file.write_all(part)?;
            }
            fs::rename(&new, &path)
        };
        if write().is_err() {
            let _ = fs::remove_file(&new);
            return;
        }
        let before = self.kind.written.fetch_add(length, Ordering::Relaxed);
        if before.saturating_add(length) > self.max_bytes / 16 {
            self.kind.written.store(0, Ordering::Relaxed);
            let _ = self.make_room();
        }
    }

    /// Removes the least recently used files until there is enough space.
    fn make_room(&self) -> Result<()> {
        let mut files = self.files()?;
        let now = SystemTime::now();
        let abandoned = |f: &CacheFile| {
            let old = now.duration_since(f.used).is_ok_and(|age| age > MAX_TEMPORARY_AGE);
            old && f.path.extension().is_some_and(|e| e == "new")
        };
        for file in files.iter().filter(|f| abandoned(f)) {
            let _ = fs::remove_file(&file.path);
        }
        let mut total: u64 = files.iter().map(|f| f.bytes).sum();
        files.sort_by_key(|f| f.used);
        // Leaves space for the writes until the next measurement.
        for file in files {
            if total <= self.max_bytes - self.max_bytes / 8 {
                break;
            }
            total -= file.bytes;
            let _ = fs::remove_file(&file.path);
        }
        Ok(())
    }
}

struct CacheFile {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// Returns the user whose files are trusted.
fn user() -> u32 {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() }
}

/// Returns whether the nearest existing ancestor of `path` belongs to this user: root with another user's
/// environment, as `sudo` may leave it, creates no folders there.
pub(super) fn is_at_home(path: &Path) -> bool {
    path.ancestors().find_map(|folder| fs::metadata(folder).ok()).is_some_and(|meta| meta.uid() == user())
}

/// Lists the folders of all caches.
pub(crate) fn folders() -> Vec<PathBuf> {
    let results =
        super::results::Results::setting().ok().flatten().map(|results| results.kept().folder.clone());
    let code = super::code::kept().map(|kept| kept.folder);
    cache_folder().ok().into_iter().chain(results).chain(code).collect()
}

/// Returns `$XDG_CACHE_HOME/hyperchunk`, or the same in `~/.cache`.
pub(super) fn cache_folder() -> Result<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    match absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache"))) {
        Some(dir) => Ok(dir.join("hyperchunk")),
        None => fail!(Key, "no home folder for caches: set XDG_CACHE_HOME"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(name: &str, max_bytes: u64) -> DiskCache {
        static KIND: CacheKind =
            CacheKind { mark: b"HCTESTS1", extension: "test", written: AtomicU64::new(UNKNOWN_BYTES) };
        let folder = std::env::temp_dir().join(format!("hyperchunk-kept-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let kept = DiskCache { folder, max_bytes, kind: &KIND };
        kept.make_folder().unwrap();
        kept
    }

    #[test]
    fn what_was_kept_is_there_and_damage_is_not_believed() {
        let kept = kept("damage", 1 << 20);
        let (key, other) = (CacheKey([1; 32]), CacheKey([2; 32]));
        kept.put(&key, b"result");
        assert_eq!(kept.get(&key, 6..=6).as_deref(), Some(&b"result"[..]));
        assert_eq!(kept.get(&key, 0..=100).as_deref(), Some(&b"result"[..]));
        assert_eq!(kept.get(&key, 5..=5), None);
        assert_eq!(kept.get(&other, 6..=6), None);
        let path = kept.path(&key);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            assert_eq!(kept.get(&key, 0..=100), None, "byte {at}");
            assert!(!path.exists());
        }
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(kept.get(&key, 0..=100), None, "{length} bytes");
        }
        // Another key's file under this name.
        kept.put(&other, b"poison");
        fs::rename(kept.path(&other), &path).unwrap();
        assert_eq!(kept.get(&key, 6..=6), None);
        let elsewhere = kept.folder.join("elsewhere");
        fs::write(&elsewhere, &whole).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert_eq!(kept.get(&key, 6..=6), None);
        kept.put(&key, b"");
        assert_eq!(kept.get(&key, 0..=100).as_deref(), Some(&b""[..]));
        fs::remove_dir_all(&kept.folder).unwrap();
    }

    #[test]
    fn what_was_not_used_goes() {
        let kept = kept("room", 10_000);
        for n in 0..30 {
            kept.put(&CacheKey([n; 32]), &[n; 1000]);
            let file = fs::File::open(kept.path(&CacheKey([n; 32])));
            if let Ok(file) = file {
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(n))).unwrap();
            }
            kept.get(&CacheKey([0; 32]), 1000..=1000);
        }
        kept.make_room().unwrap();
        let (_, bytes) = kept.contents().unwrap();
        assert!(bytes <= 10_000 && bytes > 4_000, "{bytes}");
        assert!(kept.get(&CacheKey([0; 32]), 1000..=1000).is_some(), "the one that was used");
        assert!(kept.get(&CacheKey([1; 32]), 1000..=1000).is_none());
        kept.put(&CacheKey([99; 32]), &[0; 5000]);
        assert!(kept.get(&CacheKey([99; 32]), 5000..=5000).is_none(), "too large");
        assert!(kept.clear().unwrap() > 0);
        assert_eq!(kept.contents().unwrap(), (0, 0));
        fs::remove_dir_all(&kept.folder).unwrap();
    }

    #[test]
    fn a_folder_of_others_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let kept = kept("others", 1 << 20);
        kept.put(&CacheKey([1; 32]), b"result");
        let file = kept.path(&CacheKey([1; 32]));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o622)).unwrap();
        assert_eq!(kept.get(&CacheKey([1; 32]), 6..=6), None);
        fs::set_permissions(&kept.folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(kept.make_folder().is_err() && kept.contents().is_err() && kept.clear().is_err());
        let link = kept.folder.with_extension("link");
        let _ = fs::remove_file(&link);
        fs::set_permissions(&kept.folder, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(&kept.folder, &link).unwrap();
        assert!(DiskCache { folder: link.clone(), ..kept.clone() }.make_folder().is_err());
        fs::remove_file(link).unwrap();
        fs::remove_dir_all(&kept.folder).unwrap();
    }

    #[test]
    fn folders_are_made_at_home_only() {
        let kept = kept("home", 1 << 20);
        assert!(is_at_home(&kept.folder.join("a").join("b")));
        assert_eq!(is_at_home(Path::new("/nothing/here")), user() == 0);
        fs::remove_dir_all(&kept.folder).unwrap();
    }
}
