//! Results of functions, kept on disk from one process to the next. Off unless the user switches it on.
//!
//! A result is found by what it was computed from: the record, the block, and every byte of the inputs that the function was
//! given. So no result is ever out of date; one that nobody asks for goes when the room is needed.
//!
//! **Invariant:** what is damaged, or could have been written by somebody else, is never believed: it is computed again.
//!
//! **Invariant:** reading a dataset never fails because of this.

use super::session::Session;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::keys;
use crate::profile::Profile;
use crate::record::{Block, Record};
use crate::stub::RecordDigest;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

const VARIABLE: &str = "HYPERCHUNK_RESULT_CACHE";
/// Bytes of all results, unless the user says otherwise.
const MAX_BYTES: u64 = 1 << 30;
const MAGIC: &[u8; 8] = b"HCRESLT1";
/// Of a file: the mark, the key, and behind the bytes their checksum.
const AROUND: usize = MAGIC.len() + 32 + 32;
/// A file that a process began and did not finish is old after this.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Where results are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Results {
    /// The folder, the user's alone.
    pub folder: PathBuf,
    /// Bytes of all files in it.
    pub max_bytes: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    enabled: bool,
    folder: Option<PathBuf>,
    max_mib: Option<u64>,
}

/// Bytes that this process has written since it last looked how many there are.
static WRITTEN: AtomicU64 = AtomicU64::new(u64::MAX / 2);

impl Results {
    /// The setting of this user; `None` when nothing is kept.
    ///
    /// # Errors
    /// `Key` when `cache.toml` or the variable is malformed, or the file could have been written by somebody else.
    pub fn setting() -> Result<Option<Self>> {
        // In a set-uid program, environment and home are somebody else's.
        let Ok(config) = keys::config_dir() else { return Ok(None) };
        let path = config.join("cache.toml");
        let setting = match keys::read_own(&path, 0o022)? {
            Some(text) => read_setting(&text).map_err(|e| e.about(path.display().to_string()))?,
            None => None,
        };
        let Some(word) = std::env::var_os(VARIABLE) else { return Ok(setting) };
        match word.to_str() {
            Some("" | "0") => Ok(None),
            Some("1") if setting.is_some() => Ok(setting),
            Some("1") => Ok(Some(Results { folder: default_folder()?, max_bytes: MAX_BYTES })),
            _ if Path::new(&word).is_absolute() => {
                let max_bytes = setting.map_or(MAX_BYTES, |s| s.max_bytes);
                Ok(Some(Results { folder: word.into(), max_bytes }))
            }
            _ => fail!(Key, "{VARIABLE} is neither 0, 1 nor an absolute path"),
        }
    }

    /// Where the results of a record are kept in a profile, if they are: what it computes must depend on its inputs alone, not
    /// on files, servers or the version of a granted module, and these must have no addresses in them.
    pub fn of(record: &Record, profile: &Profile) -> Option<Self> {
        let grants = &profile.grants;
        let alone = !grants.has_files() && grants.connect.is_empty() && grants.imports.is_empty();
        let plain = record.backend.has_worker() && record.slots().all(|slot| !slot.datatype.has_pointers());
        if !alone || !plain || record.source.is_empty() || record.needs.clock {
            return None;
        }
        Self::setting().ok().flatten().filter(|results| results.make_folder().is_ok())
    }

    /// Makes the folder, or checks that it is the user's alone.
    fn make_folder(&self) -> Result<()> {
        let about = |e: &std::io::Error| Error::io(self.folder.display(), e);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(|e| about(&e))?;
        let meta = fs::symlink_metadata(&self.folder).map_err(|e| about(&e))?;
        // SAFETY: geteuid has no preconditions.
        if !meta.is_dir() || meta.uid() != unsafe { libc::geteuid() } || meta.mode() & 0o077 != 0 {
            let text = "others can write or read this folder, or it is not yours: no results are kept there; chmod 700, or name another";
            return Err(Error::new(ErrorKind::Key, text).about(self.folder.display().to_string()));
        }
        Ok(())
    }

    /// How many results there are, and their bytes.
    ///
    /// # Errors
    /// `Key` when the folder is not the user's alone, `Io`.
    pub fn contents(&self) -> Result<(u64, u64)> {
        if !self.folder.exists() {
            return Ok((0, 0));
        }
        self.make_folder()?;
        let files = self.files()?;
        Ok((files.len() as u64, files.iter().map(|f| f.bytes).sum()))
    }

    /// Removes all results; returns how many there were.
    ///
    /// # Errors
    /// As of [`Results::contents`].
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

    fn files(&self) -> Result<Vec<Kept>> {
        let about = |e: std::io::Error| Error::io(self.folder.display(), &e);
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(about)? {
            let entry = entry.map_err(about)?;
            let ours = entry.path().extension().is_some_and(|e| e == "result" || e == "new");
            // One that another process has just removed is gone.
            let Ok(meta) = entry.metadata() else { continue };
            if ours && meta.is_file() {
                let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push(Kept { path: entry.path(), bytes: meta.len(), used });
            }
        }
        Ok(files)
    }

    fn path(&self, key: &Key) -> PathBuf {
        let name: String = key.0.iter().map(|b| format!("{b:02x}")).collect();
        self.folder.join(name + ".result")
    }

    /// The result of `bytes` bytes that is kept under `key`, if there is one and it is whole.
    fn get(&self, key: &Key, bytes: usize) -> Option<Vec<u8>> {
        let path = self.path(key);
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(&path).ok()?;
        let meta = file.metadata().ok()?;
        let length = bytes.checked_add(AROUND)?;
        // SAFETY: geteuid has no preconditions.
        let own = meta.is_file() && meta.uid() == unsafe { libc::geteuid() } && meta.mode() & 0o022 == 0;
        if !own || meta.len() != length as u64 {
            return None;
        }
        let mut data = Vec::new();
        data.try_reserve_exact(length).ok()?;
        (&file).take(length as u64).read_to_end(&mut data).ok()?;
        let (rest, sum) = data.split_last_chunk::<32>()?;
        let (mark, result) = rest.split_at_checked(MAGIC.len() + 32)?;
        let whole = mark.starts_with(MAGIC) && mark.ends_with(&key.0) && result.len() == bytes;
        if !whole || Sha256::digest(rest)[..] != sum[..] {
            // Damaged: computed again, and written anew.
            let _ = fs::remove_file(&path);
            return None;
        }
        // It was used: what was not goes first.
        let _ = file.set_modified(SystemTime::now());
        Some(result.to_vec())
    }

    /// Keeps a result. Where that is not possible, it is not kept.
    fn put(&self, key: &Key, result: &[u8]) {
        let length = (result.len() + AROUND) as u64;
        if length > self.max_bytes / 4 || self.make_folder().is_err() {
            return;
        }
        let mut sum = Sha256::new();
        for part in [&MAGIC[..], &key.0, result] {
            sum.update(part);
        }
        let sum = sum.finalize();
        let path = self.path(key);
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let new = path.with_extension(format!("{}-{number}.new", std::process::id()));
        let write = || {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            for part in [&MAGIC[..], &key.0, result, &sum[..]] {
                file.write_all(part)?;
            }
            fs::rename(&new, &path)
        };
        if write().is_err() {
            let _ = fs::remove_file(&new);
            return;
        }
        let before = WRITTEN.fetch_add(length, Ordering::Relaxed);
        if before.saturating_add(length) > self.max_bytes / 16 {
            WRITTEN.store(0, Ordering::Relaxed);
            let _ = self.make_room();
        }
    }

    /// Removes what was not used for longest, until there is room.
    fn make_room(&self) -> Result<()> {
        let mut files = self.files()?;
        let now = SystemTime::now();
        let abandoned = |f: &Kept| {
            let old = now.duration_since(f.used).is_ok_and(|age| age > ABANDONED);
            old && f.path.extension().is_some_and(|e| e == "new")
        };
        for file in files.iter().filter(|f| abandoned(f)) {
            let _ = fs::remove_file(&file.path);
        }
        let mut total: u64 = files.iter().map(|f| f.bytes).sum();
        files.sort_by_key(|f| f.used);
        // What is written until the next look has room, too.
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

struct Kept {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// What a result was computed from.
struct Key([u8; 32]);

/// Runs the function of `session`, or takes its result from `results`. What the function would have printed is not printed
/// then.
///
/// # Errors
/// Those of [`Session::call`].
pub fn call(
    session: &mut Session,
    results: Option<&Results>,
    record: &Record,
    (digest, file_path): (RecordDigest, &str),
    blocks: Vec<(u64, Block)>,
) -> Result<()> {
    let Some(results) = results else { return session.call(blocks) };
    let bytes = blocks.first().and_then(|(_, (_, shape))| {
        usize::try_from(crate::record::bytes_of(shape, &record.output.datatype)).ok()
    });
    let (Some(bytes), Some(key)) = (bytes, key(session, record, (digest, file_path), &blocks)) else {
        return session.call(blocks);
    };
    if let Some(result) = results.get(&key, bytes) {
        return session.give_output(0, &result);
    }
    session.call(blocks)?;
    if let Some(result) = session.output(0, bytes) {
        results.put(&key, &result);
    }
    Ok(())
}

/// Everything that the function can see. `None` when not all of it is in the memory of this process.
fn key(
    session: &mut Session,
    record: &Record,
    (digest, file_path): (RecordDigest, &str),
    blocks: &[(u64, Block)],
) -> Option<Key> {
    let mut hash = Sha256::new();
    let mut field = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    field(concat!("hyperchunk-result ", env!("CARGO_PKG_VERSION")).as_bytes());
    field(&digest.0);
    field(&Sha256::digest(record.source.as_bytes()));
    field(file_path.as_bytes());
    for (n, (slot, (_, (start, shape)))) in record.slots().zip(blocks).enumerate() {
        for number in start.iter().chain(shape) {
            field(&number.to_le_bytes());
        }
        if (1..=record.inputs.len()).contains(&n) {
            let bytes = usize::try_from(crate::record::bytes_of(shape, &slot.datatype)).ok()?;
            field(session.input(n)?.get(..bytes)?);
        }
    }
    Some(Key(hash.finalize().into()))
}

fn read_setting(text: &str) -> Result<Option<Results>> {
    let file: File = match toml::from_str(text) {
        Ok(file) => file,
        Err(error) => fail!(Key, "{}", error.to_string().trim_end()),
    };
    if file.version != 1 {
        fail!(Key, "version {} is not one that this version of hyperchunk reads", file.version)
    }
    let folder = match file.folder {
        Some(path) if !path.is_absolute() => fail!(Key, "`folder` is not an absolute path"),
        Some(path) => path,
        None => default_folder()?,
    };
    let max_bytes = file.max_mib.map_or(MAX_BYTES, |n| n.clamp(1, 1 << 20) << 20);
    Ok(file.enabled.then_some(Results { folder, max_bytes }))
}

/// `$XDG_CACHE_HOME/hyperchunk/results`, or the same in `~/.cache`.
fn default_folder() -> Result<PathBuf> {
    Ok(cache_folder()?.join("results"))
}

/// `$XDG_CACHE_HOME/hyperchunk`, or the same in `~/.cache`.
pub(super) fn cache_folder() -> Result<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    match absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache"))) {
        Some(dir) => Ok(dir.join("hyperchunk")),
        None => fail!(Key, "no home folder to keep things in: set XDG_CACHE_HOME"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(name: &str, max_bytes: u64) -> Results {
        let folder = std::env::temp_dir().join(format!("hyperchunk-results-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let results = Results { folder, max_bytes };
        results.make_folder().unwrap();
        results
    }

    #[test]
    fn what_was_kept_is_there_and_damage_is_not_believed() {
        let results = results("damage", 1 << 20);
        let (key, other) = (Key([1; 32]), Key([2; 32]));
        results.put(&key, b"result");
        assert_eq!(results.get(&key, 6).as_deref(), Some(&b"result"[..]));
        assert_eq!(results.get(&key, 5), None);
        assert_eq!(results.get(&other, 6), None);
        let path = results.path(&key);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            assert_eq!(results.get(&key, 6), None, "byte {at}");
            assert!(!path.exists());
        }
        // Another's result, under this name.
        results.put(&other, b"poison");
        fs::rename(results.path(&other), &path).unwrap();
        assert_eq!(results.get(&key, 6), None);
        let elsewhere = results.folder.join("elsewhere");
        fs::write(&elsewhere, &whole).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert_eq!(results.get(&key, 6), None);
        fs::remove_dir_all(&results.folder).unwrap();
    }

    #[test]
    fn what_was_not_used_goes() {
        let results = results("room", 10_000);
        for n in 0..30 {
            results.put(&Key([n; 32]), &[n; 1000]);
            let file = fs::File::open(results.path(&Key([n; 32])));
            if let Ok(file) = file {
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(n))).unwrap();
            }
            results.get(&Key([0; 32]), 1000);
        }
        results.make_room().unwrap();
        let (_, bytes) = results.contents().unwrap();
        assert!(bytes <= 10_000 && bytes > 4_000, "{bytes}");
        assert!(results.get(&Key([0; 32]), 1000).is_some(), "the one that was used");
        assert!(results.get(&Key([1; 32]), 1000).is_none());
        results.put(&Key([99; 32]), &[0; 5000]);
        assert!(results.get(&Key([99; 32]), 5000).is_none(), "too large");
        assert!(results.clear().unwrap() > 0);
        assert_eq!(results.contents().unwrap(), (0, 0));
        fs::remove_dir_all(&results.folder).unwrap();
    }

    #[test]
    fn a_folder_of_others_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let results = results("others", 1 << 20);
        results.put(&Key([1; 32]), b"result");
        fs::set_permissions(&results.folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(results.make_folder().is_err() && results.contents().is_err() && results.clear().is_err());
        fs::remove_dir_all(&results.folder).unwrap();
    }
}
