//! Reading of a file after an interrupted edit, with the bytes of its complete journal, if the file cannot be
//! written.

use super::super::snapshot::narrow;
use super::guard::guarded;
use super::redo::{foreign, is_part, sectors, truncated};
use crate::Result;
use crate::io::{LocalFile, Source, ends_before};
use hyperchunk_format::checksum::lookup3;
use std::fmt;
use std::sync::Arc;

/// Maximum number of bytes of a commit that is kept in memory.
pub(super) const MAX_WAITING_BYTES: u64 = 256 << 20;

/// A range of the file with its bytes after the commit.
#[derive(Debug)]
pub(super) struct WaitingPiece {
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
    /// Checksums of the range's sectors before the commit.
    pub(super) old: Vec<u32>,
}

/// A commit that is complete in a journal, but not or only partly written to its file.
#[derive(Debug, Clone)]
pub(crate) struct WaitingCommit {
    /// Pieces in order of offset; they do not overlap.
    pieces: Arc<[WaitingPiece]>,
    /// Minimum size of the file without the pieces.
    size: u64,
    checksum: u32,
}

impl WaitingCommit {
    pub(super) fn new(mut pieces: Vec<WaitingPiece>, size: u64) -> Self {
        pieces.sort_by_key(|piece| piece.start);
        let sums = pieces.iter().flat_map(|piece| {
            [&piece.start.to_le_bytes()[..], &lookup3(&piece.bytes).to_le_bytes()].concat()
        });
        let checksum = lookup3(&sums.collect::<Vec<u8>>());
        Self { pieces: pieces.into(), size, checksum }
    }

    /// Returns a source that reads the file in its state after the commit.
    ///
    /// # Errors
    /// Changed if the commit belongs to another file, or another program has changed the file since; the
    /// errors of reading.
    pub(crate) fn over(&self, file: LocalFile) -> Result<CommittedSource> {
        if file.size() < self.size {
            return Err(truncated(self.size, file.size()));
        }
        for piece in &*self.pieces {
            for ((start, length), old) in sectors(piece.start, piece.bytes.len() as u64).zip(&piece.old) {
                let at = narrow(start - piece.start);
                let mut now = vec![0; narrow(length)];
                read_there(&file, start, &mut now)?;
                if lookup3(&now) != *old
                    && Some(&now[..]) != piece.bytes.get(at..at + now.len())
                    && !is_part(&now, start - piece.start, guarded(&piece.bytes).as_deref())
                {
                    return Err(foreign(start));
                }
            }
        }
        Ok(CommittedSource { file, commit: self.clone() })
    }

    /// Returns the end of the last piece.
    fn end(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.start + piece.bytes.len() as u64)
    }
}

/// Reads a part of a file; bytes past its end are zeros.
fn read_there(file: &LocalFile, offset: u64, buffer: &mut [u8]) -> Result<()> {
    let there = narrow(file.size().saturating_sub(offset)).min(buffer.len());
    let (there, beyond) = buffer.split_at_mut(there);
    beyond.fill(0);
    if there.is_empty() { Ok(()) } else { file.read_at(offset, there) }
}

/// A file in its state after a commit that is only in its journal.
pub(crate) struct CommittedSource {
    file: LocalFile,
    commit: WaitingCommit,
}

impl fmt::Debug for CommittedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommittedSource").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Source for CommittedSource {
    fn size(&self) -> u64 {
        self.file.size().max(self.commit.end())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.size());
        let end = end.ok_or_else(|| ends_before(self.size(), offset, buffer.len()))?;
        read_there(&self.file, offset, buffer)?;
        let pieces = &self.commit.pieces;
        let first = pieces.partition_point(|piece| piece.start + piece.bytes.len() as u64 <= offset);
        for piece in pieces.iter().skip(first).take_while(|piece| piece.start < end) {
            let from = piece.start.max(offset);
            let to = (piece.start + piece.bytes.len() as u64).min(end);
            let bytes = &piece.bytes[narrow(from - piece.start)..narrow(to - piece.start)];
            buffer[narrow(from - offset)..narrow(to - offset)].copy_from_slice(bytes);
        }
        Ok(())
    }

    fn version(&self) -> Option<String> {
        // The state after the commit has its own version, as companions of the file do not describe it.
        self.file.version().map(|version| format!("{version};commit:{:08x}", self.commit.checksum))
    }

    fn check_unchanged(&self) -> Result<()> {
        self.file.check_unchanged()
    }

    fn follow_growth(&self) {
        self.file.follow_growth();
    }

    fn release(&self) {
        self.file.release();
    }
}
