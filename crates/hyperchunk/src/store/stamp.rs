//! The stamp of a skeleton: bytes of the file that no object owns, which say of which epoch it is.
//!
//! HDF5 leaves bytes alone that nothing leads to, so the stamp is still there in a file that a program edited in place. It tells
//! the skeleton of a store without datasets of its own, which has no markers, from any other file.

use super::Marker;
use crate::write::Writer;
use crate::{File, Result};
use std::io::IoSlice;

/// What a stamp begins with.
const MAGIC: &[u8; 16] = b"hyperchunk epoch";

/// Its size in bytes: the magic and the number of the epoch, as a little-endian integer of 64 bits.
const STAMP_BYTES: u64 = 24;

/// How far from the start of a file its stamp ends at the latest.
pub const STAMPED_WITHIN_BYTES: usize = 4096;

/// Puts the stamp of an epoch into a file of which nothing else was written yet.
pub(super) fn write(writer: &Writer, epoch: u64) -> Result<()> {
    let address = writer.reserve(STAMP_BYTES, 8)?;
    writer.write_reserved(address, &mut [IoSlice::new(MAGIC), IoSlice::new(&epoch.to_le_bytes())])
}

/// The epoch that a file is stamped with.
fn stamped(bytes: &[u8]) -> Option<u64> {
    let start = bytes.get(..bytes.len().min(STAMPED_WITHIN_BYTES))?;
    let at = (0..start.len()).step_by(8).find(|at| start[*at..].starts_with(MAGIC))?;
    let number = bytes.get(at + MAGIC.len()..)?.first_chunk()?;
    Some(u64::from_le_bytes(*number))
}

/// The epoch whose skeleton a file is, as its stamp or else its markers say; 0 if it is not committed, `None` if it is no
/// skeleton. The first [`STAMPED_WITHIN_BYTES`] are enough.
///
/// # Errors
/// Those of reading the file.
pub fn epoch_of(bytes: &[u8], file: &File) -> Result<Option<u64>> {
    match stamped(bytes) {
        Some(epoch) => Ok(Some(epoch)),
        None => Ok(Marker::all(file)?.into_iter().map(|(_, marker, _)| marker.epoch).max()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;
    use crate::write::{CreateOptions, MemorySink, NodeId};
    use std::sync::Arc;

    fn made(epoch: Option<u64>) -> Vec<u8> {
        let sink = Arc::new(MemorySink::default());
        let writer =
            Writer::create_in(Arc::<MemorySink>::clone(&sink), None, &CreateOptions::default()).unwrap();
        if let Some(epoch) = epoch {
            write(&writer, epoch).unwrap();
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
            assert_eq!(epoch_of(&bytes, &file).unwrap(), epoch);
        }
        assert_eq!(stamped(b""), None);
        assert_eq!(stamped(&MAGIC[..]), None);
    }
}
