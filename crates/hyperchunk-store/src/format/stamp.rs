//! Stamp of a skeleton, the HDF5 file at the user's path: number of its epoch and id of its store, in
//! bytes that no object owns.
//!
//! HDF5 does not touch bytes that nothing refers to, so the stamp survives edits of the file in
//! place. It distinguishes the skeleton of a store without datasets, which has no markers, from any
//! other file, and the skeletons of different stores from each other.

use crate::{Marker, StoreId};
use hyperchunk::write::Writer;
use hyperchunk::{File, Result};
use std::io::IoSlice;

/// Signature of a stamp.
const MAGIC: &[u8; 16] = b"hyperchunk epoch";

/// Signature of the second half of a stamp.
const STORE_MAGIC: &[u8; 16] = b"hyperchunk store";

/// Size in bytes: the signature, the number of the epoch as a little-endian integer of 64 bits, the
/// second signature, the store's id.
const STAMP_BYTES: u64 = 56;

/// Number of bytes from the start of the file within which the stamp is.
pub const STAMPED_WITHIN_BYTES: usize = 4096;

/// Writes the stamp of an epoch to an otherwise empty file.
pub(crate) fn write(writer: &Writer, store: StoreId, epoch: u64) -> Result<()> {
    let address = writer.reserve(STAMP_BYTES, 8)?;
    let stamp = [MAGIC.as_slice(), &epoch.to_le_bytes(), STORE_MAGIC, &store.0].concat();
    writer.write_reserved(address, &mut [IoSlice::new(&stamp)])
}

/// Returns the first bytes of a file, which have its stamp, if it has one.
///
/// # Errors
/// Errors of reading the file.
pub(crate) fn start(file: &File) -> Result<Vec<u8>> {
    let source = file.source();
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

/// Returns the epoch in the stamp.
fn stamped(bytes: &[u8]) -> Option<u64> {
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
            write(&writer, StoreId([7; 16]), epoch).unwrap();
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
        }
        assert_eq!(stamped(b""), None);
        assert_eq!(stamped(&MAGIC[..]), None);
    }
}
