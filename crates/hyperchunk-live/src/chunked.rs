//! Chunked inputs, for a reader that accesses a file both through libhdf5 and as bytes.

use crate::inputs;
use crate::to_udf_error;
use hyperchunk::live::on_this_thread;
use hyperchunk::model::Datatype;
use hyperchunk::{Dataset, File};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::record::{Record, Slot, byte_size};

/// Chunked input, of which each chunk is decoded for a single block of the live dataset.
#[derive(Debug)]
pub struct ChunkedInput {
    dataset: Dataset,
    memory: Datatype,
    slot: Slot,
    cut: bool,
}

impl ChunkedInput {
    /// Opens an input of a record; `None` unless it is stored in chunks in this file, and its elements
    /// contain no addresses.
    #[must_use]
    pub fn open(file: &File, record: &Record, slot: &Slot) -> Option<Self> {
        let dataset = inputs::open(file, record, slot).ok()?;
        let chunk = &dataset.chunked()?.dims;
        let cut = record.is_cut(slot);
        // Otherwise a chunk would be decoded for each block that it touches, whereas libhdf5 caches it.
        let aligned = record.halo.iter().all(|halo| *halo == 0)
            && record.chunk.len() == chunk.len()
            && chunk.iter().all(|length| *length > 0)
            && chunk
                .iter()
                .zip(&record.chunk)
                .zip(dataset.dims())
                .all(|((chunk, block), whole)| block % chunk == 0 || block >= whole);
        if !inputs::is_stored_in(file, &dataset) || slot.datatype.has_pointers() || (cut && !aligned) {
            return None;
        }
        let (_, memory) = inputs::memory_type(dataset.datatype()).ok()?;
        Some(ChunkedInput { dataset, memory, slot: slot.clone(), cut })
    }

    /// Returns the input's name in the source.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.slot.name
    }

    /// Returns whether a block gets only its own part of the input.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Returns the size of a part in bytes.
    #[must_use]
    pub fn bytes(&self, shape: &[u64]) -> Option<usize> {
        usize::try_from(byte_size(shape, &self.slot.datatype)).ok()
    }

    /// Reads a part, on all processors.
    ///
    /// # Errors
    /// Errors of reading; libhdf5 may still succeed in that case.
    pub fn read(&self, (offset, shape): (&[u64], &[u64]), to: &mut [u8]) -> Result<()> {
        let to = self.bytes(shape).and_then(|bytes| to.get_mut(..bytes));
        let to = to.ok_or_else(|| Error::new(ErrorKind::Worker, "the memory for an input is too small"))?;
        let block = inputs::block_selection(offset, shape);
        self.dataset.read_as(&block, &self.memory, to).map_err(|error| to_udf_error(&error))
    }

    /// Reads a part, on this thread.
    ///
    /// # Errors
    /// As [`ChunkedInput::read`].
    pub fn read_here(&self, part: (&[u64], &[u64]), to: &mut [u8]) -> Result<()> {
        on_this_thread(|| self.read(part, to))
    }
}
