//! What a file of this machine holds, as one digest of all its bytes. Companions that keep it are of any copy that has the same,
//! whatever its name and its times; and of nothing else, also where another version has the same size and the same times.
//!
//! Nothing less would do: structure and its checksums say nothing about elements, which may be written over in place. It costs
//! reading the file once, so only files of up to [`MOST`] bytes are looked at, and what was found is remembered.

use crate::file::processors;
use crate::index::Identity;
use crate::io::Source;
use crate::read::spread;
use crate::{Error, Result};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Larger files are told by their times alone.
pub(crate) const MOST: u64 = 1 << 30;
/// A thread looks at so many bytes at a time.
const PIECE: u64 = 1 << 20;
/// No clock of a file system is slower, but those of seconds.
const TICK: Duration = Duration::from_millis(20);
/// Of how many files a process remembers it.
const KEPT: usize = 256;

/// The digest of each version of a file, by device, inode and identity.
type Known = HashMap<(u64, u64, u64, String), String>;

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// The digest of an open file as hexadecimal digits, and the version that has it. `None` for a file that is large, over a network
/// or changing.
///
/// # Errors
/// Those of reading.
pub(crate) fn of(source: &dyn Source) -> Result<Option<(Identity, String)>> {
    let Some((device, inode)) = place(source) else { return Ok(None) };
    let Some(identity) = Identity::of(source).filter(|identity| identity.size <= MOST) else {
        return Ok(None);
    };
    if Identity::now(source).as_ref() != Some(&identity) {
        return Ok(None);
    }
    let key = (device, inode, identity.size, identity.version.clone());
    let known =
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(|all| all.get(&key).cloned());
    if let Some(digest) = known {
        return Ok(Some((identity, digest)));
    }
    settle(source);
    let digest = digest(source, identity.size)?;
    if Identity::now(source).as_ref() != Some(&identity) {
        return Ok(None);
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let all = known.get_or_insert_default();
    if all.len() >= KEPT {
        all.clear();
    }
    all.insert(key, digest.clone());
    Ok(Some((identity, digest)))
}

/// The digest of the digests of its pieces.
fn digest(source: &dyn Source, size: u64) -> Result<String> {
    let pieces = size.div_ceil(PIECE);
    let count = usize::try_from(pieces).map_err(|_| Error::limit("larger than the address space"))?;
    let digests = Mutex::new(vec![[0_u8; 32]; count]);
    spread(processors().min(count).max(1), 0..pieces, Vec::new, |bytes: &mut Vec<u8>, number| {
        let start = number * PIECE;
        let length = PIECE.min(size - start);
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

/// Waits until whatever is written from now on has another time.
fn settle(source: &dyn Source) {
    let Some(metadata) = source.file().and_then(|file| file.metadata().ok()) else { return };
    #[cfg(unix)]
    let changed = {
        use std::os::unix::fs::MetadataExt as _;
        let seconds = u64::try_from(metadata.ctime()).unwrap_or(0);
        let nanoseconds = u32::try_from(metadata.ctime_nsec()).unwrap_or(0);
        Some(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds))
    };
    #[cfg(not(unix))]
    let changed = metadata.modified().ok();
    if let Some(age) = changed.and_then(|changed| changed.elapsed().ok()) {
        std::thread::sleep(TICK.saturating_sub(age));
    }
}

#[cfg(unix)]
fn place(source: &dyn Source) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = source.file()?.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Without a time of the last change, nothing says whether it changed while it was looked at.
#[cfg(not(unix))]
fn place(_: &dyn Source) -> Option<(u64, u64)> {
    None
}
