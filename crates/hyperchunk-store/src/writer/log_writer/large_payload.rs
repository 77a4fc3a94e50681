//! Large writes: straight from the caller's memory to a file, with checksum and statistics computed
//! on the way.

use super::{LogWriter, State, Target, WriteTarget};
use crate::format::record;
use crate::format::record::Record;
use crate::statistics::{BLOCK_BYTES, Pass};
use hyperchunk::write::Sync;
use hyperchunk::{Error, Result};

/// Alignment of large payloads. They begin at a multiple of this, or have the same misalignment as
/// in memory: copying is fast only if source and destination are aligned alike.
const ALIGNMENT_BYTES: usize = 64;
/// Size in bytes from which payloads keep their misalignment in memory. If buffers are irregular in
/// memory, the log becomes irregular, and each such write is an entry of the index.
const MIN_MISALIGNED_BYTES: usize = 256 << 10;
/// Number of bytes that are written before they are processed; source and destination of the copy
/// are then still in the processor's cache.
const PIECE_BYTES: usize = 2 * BLOCK_BYTES;

impl LogWriter {
    /// Writes a batch of one large record.
    pub(super) fn put_large<'a>(
        &self,
        state: &mut State,
        record: Record,
        bytes: &'a [u8],
        mut pass: Pass<'a>,
    ) -> Result<()> {
        self.write_waiting(state)?;
        let mut records = [record];
        let mut header = record::encode(state.next, &records);
        let batch_at = state.end;
        let length = header_length(batch_at, header.len(), bytes);
        if length as u64 > record::MAX_HEADER_BYTES {
            return Err(
                Error::limit("a write of too many boxes: write it in parts").file(self.0.log.display())
            );
        }
        let place = batch_at + length as u64;
        self.write_and_summarize(WriteTarget::Log, place, bytes, &mut pass)?;
        state.cuts.extend(pass.zones().map(|zones| (state.next, zones)));
        let looked = !pass.is_idle();
        (records[0].checksum, records[0].statistics) = pass.finish();
        if looked {
            header = record::encode(state.next, &records);
        }
        record::pad(&mut header, length);
        // The header is written last, so that an incomplete batch has none.
        self.write_to(WriteTarget::Log, batch_at, &header)?;
        let end = place + bytes.len() as u64;
        state.end = end.next_multiple_of(8);
        self.record_end(state.end);
        if let Target::Object(sent) = &self.0.target {
            sent.skip(end, state.end - end)?;
        }
        let first = state.next;
        state.next += 1;
        state.note_records(first, batch_at, place, &records);
        if self.0.options.sync == Sync::Write { self.sync() } else { Ok(()) }
    }

    /// Writes bytes to a file. They are processed after the copy, which loads them from memory
    /// faster than the processing would.
    pub(super) fn write_and_summarize<'a>(
        &self,
        to: WriteTarget<'_>,
        mut place: u64,
        mut bytes: &'a [u8],
        pass: &mut Pass<'a>,
    ) -> Result<()> {
        if pass.is_idle() {
            return self.write_to(to, place, bytes);
        }
        while !bytes.is_empty() {
            // Avoid a small last piece.
            let length = if bytes.len() < 2 * PIECE_BYTES { bytes.len() } else { PIECE_BYTES };
            let (piece, rest) = bytes.split_at(length);
            self.write_to(to, place, piece)?;
            pass.update(piece);
            (place, bytes) = (place + length as u64, rest);
        }
        Ok(())
    }
}

/// Returns the length of a batch's header including padding, such that the payload is aligned.
fn header_length(batch_at: u64, length: usize, payload: &[u8]) -> usize {
    let wanted = if payload.len() < MIN_MISALIGNED_BYTES { 0 } else { payload.as_ptr().addr() };
    // The modulus is a power of two, so wrapping does not matter.
    let place = usize::try_from(batch_at % ALIGNMENT_BYTES as u64).unwrap_or(0).wrapping_add(length);
    length + wanted.wrapping_sub(place) % ALIGNMENT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_aligned_as_memory_is() {
        let memory = vec![0_u8; MIN_MISALIGNED_BYTES + 200];
        for (at, length, skip) in [(128_usize, 60, 0), (136, 64, 16), (1000, 40, 63), (7, 65, 10)] {
            let large = &memory[skip..][..MIN_MISALIGNED_BYTES];
            let header = header_length(at as u64, length, large);
            assert!((length..length + ALIGNMENT_BYTES).contains(&header));
            assert_eq!((at + header) % ALIGNMENT_BYTES, large.as_ptr().addr() % ALIGNMENT_BYTES);
            let header = header_length(at as u64, length, &large[..100]);
            assert!((length..length + ALIGNMENT_BYTES).contains(&header));
            assert_eq!((at + header) % ALIGNMENT_BYTES, 0);
        }
    }
}
