//! Digest of all bytes of a local file. A companion that stores it is valid for every copy of the file, whatever its
//! name and times, and for no other version, even one of the same size and times.
//!
//! HDF5's structure and checksums are not enough, because elements can be overwritten in place. A digest costs one read
//! of the file, so only files of up to [`MAX_FILE_BYTES`] have one, and results are cached for the process.

use crate::index::Identity;
use crate::io::Source;
use crate::os;
use crate::read::spread;
use crate::{Error, Result};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Maximum size of a file with a digest. Larger files are identified by their times alone.
pub const MAX_FILE_BYTES: u64 = 1 << 30;
/// Number of bytes that a thread reads and hashes at a time.
const PIECE_BYTES: u64 = 1 << 20;
/// Resolution of a file system's clock. Some old file systems have whole seconds, which this does not cover.
const CLOCK_RESOLUTION: Duration = Duration::from_millis(20);
/// Maximum number of digests in the cache.
const MAX_CACHED_DIGESTS: usize = 256;

/// Digests by device, inode, size and version of the file.
type Cache = HashMap<(u64, u64, u64, String), String>;

static CACHE: Mutex<Option<Cache>> = Mutex::new(None);

/// Returns the version of an open file and the digest of its bytes as hexadecimal digits; `None` for a large, remote or
/// changing file.
///
/// # Errors
/// Those of reading.
pub fn of(source: &dyn Source) -> Result<Option<(Identity, String)>> {
    let Some((device, inode)) = place(source) else { return Ok(None) };
    let Some(identity) = Identity::from_source(source).filter(|identity| identity.size <= MAX_FILE_BYTES)
    else {
        return Ok(None);
    };
    if Identity::now(source).as_ref() != Some(&identity) {
        return Ok(None);
    }
    let key = (device, inode, identity.size, identity.version.clone());
    let known =
        CACHE.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(|all| all.get(&key).cloned());
    if let Some(digest) = known {
        return Ok(Some((identity, digest)));
    }
    settle(source);
    let digest = digest(source, identity.size)?;
    if Identity::now(source).as_ref() != Some(&identity) {
        return Ok(None);
    }
    let mut known = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let all = known.get_or_insert_default();
    if all.len() >= MAX_CACHED_DIGESTS {
        all.clear();
    }
    all.insert(key, digest.clone());
    Ok(Some((identity, digest)))
}

/// Computes the digest of the size and the pieces' digests.
fn digest(source: &dyn Source, size: u64) -> Result<String> {
    let pieces = size.div_ceil(PIECE_BYTES);
    let count =
        usize::try_from(pieces).map_err(|_| Error::limit("the file is larger than the address space"))?;
    let digests = Mutex::new(vec![[0_u8; 32]; count]);
    spread(os::processors().min(count).max(1), 0..pieces, Vec::new, |bytes: &mut Vec<u8>, number| {
        let start = number * PIECE_BYTES;
        let length = PIECE_BYTES.min(size - start);
        bytes.resize(usize::try_from(length).unwrap_or(0), 0);
        source.read_at(start, bytes)?;
        let digest = Sha256::digest(&*bytes);
        let mut digests = digests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = usize::try_from(number).ok().and_then(|number| digests.get_mut(number)) {
            place.copy_from_slice(&digest);
        }
        Ok(())
    })?;
    let mut whole = Sha256::new().chain_update(size.to_le_bytes());
    for digest in digests.into_inner().unwrap_or_else(PoisonError::into_inner) {
        whole.update(digest);
    }
    Ok(whole.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Waits until the last change is older than the clock's resolution, so that a later write gets another time.
fn settle(source: &dyn Source) {
    let Some(metadata) = source.file().and_then(|file| file.metadata().ok()) else { return };
    if let Some(age) = os::last_change(&metadata).and_then(|changed| changed.elapsed().ok()) {
        std::thread::sleep(CLOCK_RESOLUTION.saturating_sub(age));
    }
}

/// Returns the device and inode of a local file. `None` on systems without a time of the last change, where a
/// change during the read would not be noticed.
fn place(source: &dyn Source) -> Option<(u64, u64)> {
    os::identity(&source.file()?.metadata().ok()?)
}
