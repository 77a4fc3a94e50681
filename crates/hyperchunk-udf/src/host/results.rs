//! On-disk cache of functions' results. Off unless the user enables it.
//!
//! The key of a result covers everything that it was computed from: the record, the block, and every byte of
//! the inputs. A result is therefore never out of date; unused ones are removed when space is needed.
//!
//! **Invariant:** a result that is damaged, or that another user could have written, is never used: it is
//! computed again.
//!
//! **Invariant:** a failure of this cache never fails a read.

use super::disk_cache::{CacheKey, CacheKind, DiskCache, UNKNOWN_BYTES, cache_folder};
use super::session::Session;
use crate::error::{Result, fail};
use crate::keys;
use crate::profile::Profile;
use crate::record::{Block, Record};
use crate::settings;
use crate::stub::RecordDigest;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

const VARIABLE: &str = "HYPERCHUNK_RESULT_CACHE";
/// Default maximum size of all results.
const DEFAULT_MAX_BYTES: u64 = 1 << 30;
static KIND: CacheKind =
    CacheKind { mark: b"HCRESLT1", extension: "result", written: AtomicU64::new(UNKNOWN_BYTES) };

/// Cache of results.
#[derive(Clone, Debug)]
pub struct Results(DiskCache);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    enabled: bool,
    folder: Option<PathBuf>,
    max_mib: Option<u64>,
    /// Switch for the cache of machine code, on by default.
    code: Option<bool>,
}

impl Results {
    /// Returns this user's setting, or `None` if the cache is off.
    ///
    /// # Errors
    /// `Key` when `cache.toml` or the variable is malformed, or another user could have written the file.
    pub fn setting() -> Result<Option<Self>> {
        // In a set-uid program, environment and home belong to another user.
        let Ok(config) = keys::config_dir() else { return Ok(None) };
        let setting = read_setting(&config)?.0;
        let Some(word) = std::env::var_os(VARIABLE) else { return Ok(setting) };
        match word.to_str() {
            Some("" | "0") => Ok(None),
            Some("1") if setting.is_some() => Ok(setting),
            Some("1") => Ok(Some(Results::new(default_folder()?, DEFAULT_MAX_BYTES))),
            _ if Path::new(&word).is_absolute() => {
                let max_bytes = setting.map_or(DEFAULT_MAX_BYTES, |s| s.0.max_bytes);
                Ok(Some(Results::new(word.into(), max_bytes)))
            }
            _ => fail!(Key, "{VARIABLE} is neither 0, 1 nor an absolute path"),
        }
    }

    /// Returns the cache for the results of a record in a profile, if they are cacheable: the function must
    /// depend on its inputs alone, not on files, servers or the version of a granted module, and the inputs
    /// must not contain addresses.
    pub fn for_record(record: &Record, profile: &Profile) -> Option<Self> {
        let grants = &profile.grants;
        let alone = !grants.has_files() && grants.connect.is_empty() && grants.imports.is_empty();
        let plain = record.backend.has_worker() && record.slots().all(|slot| !slot.datatype.has_pointers());
        if !alone || !plain || record.source.is_empty() || record.needs.clock {
            return None;
        }
        Self::setting().ok().flatten().filter(|results| results.0.make_folder().is_ok())
    }

    fn new(folder: PathBuf, max_bytes: u64) -> Self {
        Results(DiskCache { folder, max_bytes, kind: &KIND })
    }

    /// Returns the folder of the cache.
    pub fn kept(&self) -> &DiskCache {
        &self.0
    }
}

/// Runs the function of `session`, or takes its result from `results`, in which case nothing is printed.
///
/// # Errors
/// The errors of [`Session::call`].
pub fn call(
    session: &mut Session,
    results: Option<&Results>,
    record: &Record,
    (digest, file_path): (RecordDigest, &str),
    blocks: Vec<(u64, Block)>,
) -> Result<()> {
    let Some(results) = results else { return session.call(blocks) };
    let bytes = blocks.first().and_then(|(_, (_, shape))| {
        usize::try_from(crate::record::byte_size(shape, &record.output.datatype)).ok()
    });
    let (Some(bytes), Some(key)) = (bytes, key(session, record, (digest, file_path), &blocks)) else {
        return session.call(blocks);
    };
    if let Some(result) = results.0.get(&key, bytes..=bytes) {
        return session.give_output(0, &result);
    }
    session.call(blocks)?;
    if let Some(result) = session.output(0, bytes) {
        results.0.put(&key, &result);
    }
    Ok(())
}

/// Returns the digest of everything that the function can see. `None` when some of it is not in the memory of
/// this process.
fn key(
    session: &mut Session,
    record: &Record,
    (digest, file_path): (RecordDigest, &str),
    blocks: &[(u64, Block)],
) -> Option<CacheKey> {
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
            let bytes = usize::try_from(crate::record::byte_size(shape, &slot.datatype)).ok()?;
            field(session.input(n)?.get(..bytes)?);
        }
    }
    Some(CacheKey(hash.finalize().into()))
}

/// Reads `cache.toml` in the folder `config`: the cache of results, and whether code may be cached.
pub(super) fn read_setting(config: &Path) -> Result<(Option<Results>, bool)> {
    let path = config.join("cache.toml");
    match keys::read_own(&path, 0o022)? {
        Some(text) => parse_setting(&text).map_err(|e| e.about(path.display().to_string())),
        None => Ok((None, true)),
    }
}

fn parse_setting(text: &str) -> Result<(Option<Results>, bool)> {
    let file: File = match settings::parse(text) {
        Ok(file) => file,
        Err(error) => fail!(Key, "{error}"),
    };
    if file.version != 1 {
        fail!(Key, "version {} is not supported by this version of hyperchunk", file.version)
    }
    let results = match file.folder {
        _ if !file.enabled => None,
        Some(path) if !path.is_absolute() => fail!(Key, "`folder` is not an absolute path"),
        folder => {
            let folder = folder.map_or_else(default_folder, Ok)?;
            Some(Results::new(folder, file.max_mib.map_or(DEFAULT_MAX_BYTES, |n| n.clamp(1, 1 << 20) << 20)))
        }
    };
    Ok((results, file.code.unwrap_or(true)))
}

/// Returns `$XDG_CACHE_HOME/hyperchunk/results`, or the same in `~/.cache`.
fn default_folder() -> Result<PathBuf> {
    Ok(cache_folder()?.join("results"))
}
