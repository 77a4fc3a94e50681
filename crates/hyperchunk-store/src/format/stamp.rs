//! Stamp of a skeleton, the HDF5 file at the user's path: number of its epoch, id of its store and digest
//! of its logs, in bytes that no object owns.
//!
//! HDF5 does not touch bytes that nothing refers to, so the stamp survives edits of the file in
//! place. It distinguishes the skeleton of a store without datasets, which has no markers, from any
//! other file, and the skeletons of different stores, and of copies of one store, from each other.

use crate::{Manifest, Marker, StoreId};
use hyperchunk::io::Source;
use hyperchunk::write::Writer;
use hyperchunk::{File, Result};
use std::io::IoSlice;
use twox_hash::XxHash3_128;

/// Signature of a stamp.
const MAGIC: &[u8; 16] = b"hyperchunk epoch";

/// Signature of the second half of a stamp.
const STORE_MAGIC: &[u8; 16] = b"hyperchunk store";

/// Signature of the third part of a stamp.
const LOGS_MAGIC: &[u8; 16] = b"hyperchunk logs:";

/// Size in bytes: the signature, the number of the epoch as a little-endian integer of 64 bits, the
/// second signature, the store's id, the third signature, the digest of the logs.
const STAMP_BYTES: u64 = 88;

/// Number of bytes from the start of the file within which the stamp is.
pub const STAMPED_WITHIN_BYTES: usize = 4096;

/// Contents of a stamp.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    store: StoreId,
    epoch: u64,
    /// Digest of the epoch's logs; zeros for a file without an epoch.
    logs: [u8; 16],
}

impl Stamp {
    /// Returns the stamp of an epoch, which has its logs already.
    #[must_use]
    pub fn of(manifest: &Manifest) -> Self {
        Self { store: manifest.store, epoch: manifest.number, logs: logs_digest(manifest) }
    }

    /// Returns the number of the epoch.
    #[must_use]
    pub fn epoch(self) -> u64 {
        self.epoch
    }

    /// Returns the stamp of a store without an epoch.
    #[must_use]
    pub fn of_new(store: StoreId) -> Self {
        Self { store, epoch: 0, logs: [0; 16] }
    }
}

/// Returns a digest of the logs of an epoch and their lengths, in any order.
fn logs_digest(manifest: &Manifest) -> [u8; 16] {
    let mut logs: Vec<_> = manifest.logs.iter().map(|log| (log.writer.0, log.length)).collect();
    logs.sort_unstable();
    let bytes: Vec<u8> =
        logs.iter().flat_map(|(writer, length)| writer.iter().copied().chain(length.to_le_bytes())).collect();
    XxHash3_128::oneshot(&bytes).to_le_bytes()
}

/// Writes a stamp to an otherwise empty file.
pub(crate) fn write(writer: &Writer, stamp: Stamp) -> Result<()> {
    let address = writer.reserve(STAMP_BYTES, 8)?;
    let Stamp { store, epoch, logs } = stamp;
    let bytes = [MAGIC.as_slice(), &epoch.to_le_bytes(), STORE_MAGIC, &store.0, LOGS_MAGIC, &logs].concat();
    writer.write_reserved(address, &mut [IoSlice::new(&bytes)])
}

/// Returns false if a stamp says that the file is the skeleton of another store, or of the epoch of this
/// number of another copy of the store. The first [`STAMPED_WITHIN_BYTES`] of the file are enough.
pub(crate) fn may_be_of(bytes: &[u8], manifest: &Manifest) -> bool {
    if read_store_id(bytes).is_some_and(|store| store != manifest.store) {
        return false;
    }
    stamped(bytes) != Some(manifest.number)
        || read_logs_digest(bytes).is_none_or(|logs| logs == logs_digest(manifest))
}

/// Returns the first bytes of a file, which have its stamp, if it has one.
///
/// # Errors
/// Errors of reading the file.
pub(crate) fn start(file: &File) -> Result<Vec<u8>> {
    start_of(&**file.source())
}

/// Returns the first bytes of a source, as [`start`].
///
/// # Errors
/// Errors of reading the source.
pub(crate) fn start_of(source: &dyn Source) -> Result<Vec<u8>> {
    let length = source.size().min(STAMPED_WITHIN_BYTES as u64);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(STAMPED_WITHIN_BYTES)];
    source.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Returns the store whose skeleton a file is, from its stamp; `None` without a stamp, or for one
/// of an earlier version. The first [`STAMPED_WITHIN_BYTES`] of the file are enough.
#[must_use]
pub fn read_store_id(bytes: &[u8]) -> Option<StoreId> {
    let start = bytes.get(..bytes.len().min(STAMPED_WITHIN_BYTES))?;
    let at = (0..start.len()).step_by(8).find(|at| start[*at..].starts_with(MAGIC))?;
    let rest = bytes.get(at + MAGIC.len() + size_of::<u64>()..)?.strip_prefix(STORE_MAGIC)?;
    rest.first_chunk().map(|id| StoreId(*id)).filter(|id| *id != StoreId::default())
}

/// Returns the digest of the logs; `None` for a file without an epoch, and for stamps of earlier versions.
fn read_logs_digest(bytes: &[u8]) -> Option<[u8; 16]> {
    let start = bytes.get(..bytes.len().min(STAMPED_WITHIN_BYTES))?;
    let at = (0..start.len()).step_by(8).find(|at| start[*at..].starts_with(MAGIC))?;
    let third = at + MAGIC.len() + size_of::<u64>() + STORE_MAGIC.len() + size_of::<StoreId>();
    let digest = bytes.get(third..)?.strip_prefix(LOGS_MAGIC)?.first_chunk()?;
    Some(*digest).filter(|digest| *digest != [0; 16])
}

/// Returns the epoch in the stamp.
pub(crate) fn stamped(bytes: &[u8]) -> Option<u64> {
    let start = bytes.get(..bytes.len().min(STAMPED_WITHIN_BYTES))?;
    let at = (0..start.len()).step_by(8).find(|at| start[*at..].starts_with(MAGIC))?;
    let number = bytes.get(at + MAGIC.len()..)?.first_chunk()?;
    Some(u64::from_le_bytes(*number))
}

/// Returns the epoch whose skeleton a file is, from its stamp or else its markers; 0 if it is not
/// committed, `None` if it is not a skeleton. The first [`STAMPED_WITHIN_BYTES`] of the file are
/// enough.
///
/// # Errors
/// Errors of reading the file.
pub fn read_epoch(bytes: &[u8], file: &File) -> Result<Option<u64>> {
    match stamped(bytes) {
        Some(epoch) => Ok(Some(epoch)),
        None => Ok(Marker::find_all(file)?.into_iter().map(|(_, marker, _)| marker.epoch).max()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperchunk::OpenOptions;
    use hyperchunk::write::{CreateOptions, MemorySink, NodeId};
    use std::sync::Arc;

    fn made(epoch: Option<u64>) -> Vec<u8> {
        let sink = Arc::new(MemorySink::default());
        let writer =
            Writer::create_in(Arc::<MemorySink>::clone(&sink), None, &CreateOptions::default()).unwrap();
        if let Some(epoch) = epoch {
            write(&writer, Stamp { store: StoreId([7; 16]), epoch, logs: [3; 16] }).unwrap();
        }
        writer.create_group(NodeId::ROOT, b"g", true).unwrap();
        writer.close().unwrap();
        sink.bytes()
    }

    #[test]
    fn a_file_without_markers_says_of_which_epoch_it_is() {
        for epoch in [None, Some(1), Some(u64::MAX)] {
            let bytes = made(epoch);
            let file = File::from_bytes(bytes.clone(), &OpenOptions::default()).unwrap();
            assert!(
                file.root()
                    .unwrap()
                    .group()
                    .unwrap()
                    .links()
                    .unwrap()
                    .iter()
                    .any(|link| link.name.as_bytes() == b"g")
            );
            assert_eq!(read_epoch(&bytes, &file).unwrap(), epoch);
            assert_eq!(read_store_id(&bytes), epoch.map(|_| StoreId([7; 16])));
            assert_eq!(read_logs_digest(&bytes), epoch.map(|_| [3; 16]));
        }
        assert_eq!(stamped(b""), None);
        assert_eq!(stamped(&MAGIC[..]), None);
    }
}
