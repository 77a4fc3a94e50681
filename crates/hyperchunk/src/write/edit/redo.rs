//! Redo journal of an edit: the bytes with which a commit replaces committed ones, and a small number of new
//! ones. It is kept beside the file until all of them are written to the file.
//!
//! Layout: a header of [`HEADER_BYTES`]; the new bytes, in the order in which they were written; an index of
//! the ranges (pieces); a footer of [`FOOTER_BYTES`]. A journal without a valid footer is incomplete, and is
//! ignored. The index has a checksum of the old bytes of each sector: when a journal is applied, each sector
//! must have its old or its new bytes. Otherwise another program has changed the file in the meantime, and
//! the journal must not be applied.

use super::super::sink::Sink;
use super::super::snapshot::narrow;
use super::guard::guarded;
use super::waiting::{MAX_WAITING_BYTES, WaitingCommit, WaitingPiece};
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::checksum::lookup3;
use std::collections::BTreeMap;
use std::fmt;

/// Signature of a redo journal.
const MAGIC: &[u8; 16] = b"Hyperchunk redo1";
const FOOTER_MAGIC: &[u8; 16] = b"Hyperchunk rend1";
const HEADER_BYTES: u64 = 64;
const FOOTER_BYTES: u64 = 64;
/// Number of bytes that a disk writes atomically: after a power failure, a sector has only old or only new
/// bytes.
const SECTOR_BYTES: u64 = 512;
/// Number of bytes copied at a time, a multiple of the page size.
const COPY_BYTES: u64 = 1 << 20;
/// Size of a memory page in bytes, or a divisor of it.
const PAGE_BYTES: usize = 4096;
/// Maximum number of bytes of a superblock.
const MAX_SUPERBLOCK_BYTES: u64 = 100;
/// Maximum size in bytes of a file of zeros that is considered the remains of a journal. Systems write the
/// first bytes of a longer journal to disk before the last ones are appended; so a longer file was allocated
/// by another program.
const MAX_ZERO_BYTES: u64 = 256 << 20;
/// Number of `u64` fields of a piece in the index.
const PIECE_FIELDS: usize = 3;

/// File of a journal.
pub(crate) trait JournalFile: fmt::Debug + Send + Sync {
    /// Writes bytes at an offset.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Reads written bytes.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;
    /// Syncs the bytes to disk.
    fn sync(&mut self) -> Result<()>;
    /// Truncates the file to `size` bytes.
    fn cut(&mut self, size: u64) -> Result<()>;
    /// Syncs the truncation by [`JournalFile::cut`] to disk.
    fn sync_cut(&mut self) -> Result<()>;
    /// Checks that there is no journal of another editor.
    fn check_place(&self) -> Result<()>;
    /// Deletes the file.
    fn remove(&mut self) -> Result<()>;
}

/// A range of the edited file with new bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    length: u64,
    /// Offset of the new bytes in the journal.
    at: u64,
    /// True if the last commit does not use the range.
    is_free: bool,
}

/// State of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not committed yet.
    Waiting,
    /// Committed: the journal is complete and on disk.
    Journaled,
    /// Committed: written to one sector of the file, which is not synced yet.
    InPlace,
}

/// A journal that is being written.
#[derive(Debug)]
pub(crate) struct Redo {
    file: Box<dyn JournalFile>,
    /// Pieces by their offset in the edited file; they do not overlap.
    pieces: BTreeMap<u64, Piece>,
    /// End of the written bytes in the journal; 0 before the header is written.
    end: u64,
    state: State,
    /// True if the journal of an earlier commit may reappear after a power failure.
    may_return: bool,
    /// True if a commit within one sector is written without the journal.
    skips: bool,
    /// Offset and length of the superblock, if it guards commits.
    guard: Option<(u64, usize)>,
}

impl Redo {
    pub(crate) fn new(file: Box<dyn JournalFile>) -> Self {
        Self {
            file,
            pieces: BTreeMap::new(),
            end: 0,
            state: State::Waiting,
            may_return: false,
            skips: true,
            guard: None,
        }
    }

    /// Makes every commit use the journal, also those within one sector.
    pub(crate) fn always(self) -> Self {
        Self { skips: false, ..self }
    }

    /// Makes the superblock guard commits: see [`guarded`].
    pub(crate) fn with_guard(self, at: u64, length: usize) -> Self {
        Self { guard: Some((at, length)), ..self }
    }

    /// Returns whether there is a valid commit whose bytes are not all written to the file and synced.
    pub(crate) fn is_complete(&self) -> bool {
        self.state != State::Waiting
    }

    /// Adds new bytes for an offset of the edited file, in a range that the last commit uses.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.add(offset, bytes, false)
    }

    /// Adds new bytes for an offset of the edited file, in a range that the last commit does not use.
    pub(crate) fn write_free(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.add(offset, bytes, true)
    }

    fn add(&mut self, offset: u64, bytes: &[u8], is_free: bool) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.end == 0 {
            let header = header();
            self.file.write_at(0, &header)?;
            self.end = HEADER_BYTES;
        }
        let length = bytes.len() as u64;
        if let Some(piece) = self.pieces.get(&offset).filter(|piece| piece.length == length) {
            return self.file.write_at(piece.at, bytes);
        }
        let at = self.end;
        self.file.write_at(at, bytes)?;
        self.end += length;
        self.put(offset, Piece { length, at, is_free });
        Ok(())
    }

    /// Returns whether a piece overlaps a range.
    pub(crate) fn overlaps(&self, offset: u64, length: u64) -> bool {
        let before = self.pieces.range(..offset.saturating_add(length)).next_back();
        before.is_some_and(|(start, piece)| start + piece.length > offset)
    }

    /// Adds a piece, which replaces the parts of others that it overlaps.
    fn put(&mut self, offset: u64, piece: Piece) {
        let end = offset + piece.length;
        let before = self.pieces.range(..offset).next_back().map(|(start, old)| (*start, *old));
        let over: Vec<(u64, Piece)> =
            before.into_iter().chain(self.pieces.range(offset..end).map(|(s, p)| (*s, *p))).collect();
        for (start, old) in over {
            let old_end = start + old.length;
            if old_end <= offset {
                continue;
            }
            self.pieces.remove(&start);
            if start < offset {
                self.pieces.insert(start, Piece { length: offset - start, ..old });
            }
            if old_end > end {
                self.pieces.insert(end, Piece { length: old_end - end, at: old.at + (end - start), ..old });
            }
        }
        self.pieces.insert(offset, piece);
    }

    /// Applies the new bytes to a buffer that was read at an offset of the file.
    pub(crate) fn overlay(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset + buffer.len() as u64;
        let before = self.pieces.range(..offset).next_back();
        for (start, piece) in before.into_iter().chain(self.pieces.range(offset..end)) {
            let (from, to) = ((*start).max(offset), (start + piece.length).min(end));
            if from < to {
                let target = &mut buffer[narrow(from - offset)..narrow(to - offset)];
                self.file.read_at(piece.at + (from - start), target)?;
            }
        }
        Ok(())
    }

    /// Returns whether the new bytes of a commit must be written to the file and synced before the commit is
    /// completed: if it needs no journal otherwise, or if the bytes do not reach the end of the file after the
    /// commit (`size`). Without the pieces the file has `length` bytes.
    pub(crate) fn needs_free_bytes(&self, size: u64, length: u64) -> bool {
        let mut pieces = self.pieces.values();
        let last = self.pieces.last_key_value().map_or(0, |(start, piece)| start + piece.length);
        self.in_one_sector().is_some() && (size > length || pieces.any(|piece| piece.is_free))
            || size > length.max(last)
    }

    /// Writes the new bytes for ranges that the last commit does not use to the file, instead of the journal.
    /// May be repeated after a failure.
    pub(crate) fn write_free_bytes(&mut self, file: &dyn Sink) -> Result<()> {
        self.copy_free_bytes(file)?;
        self.pieces.retain(|_, piece| !piece.is_free);
        Ok(())
    }

    fn copy_free_bytes(&self, file: &dyn Sink) -> Result<()> {
        let mut free = self.pieces.iter().filter(|(_, piece)| piece.is_free);
        free.try_for_each(|(start, piece)| copy(&*self.file, piece.at, file, *start, piece.length))
    }

    /// Completes the journal: from now on the commit is valid, even if the process or the machine stops.
    /// `size` is the size of the file after the commit; without the journal's pieces, it has at least `length`
    /// bytes. A commit within one sector, which a disk writes atomically, is written to the file directly.
    pub(crate) fn complete(&mut self, file: &dyn Sink, size: u64, length: u64) -> Result<()> {
        if self.is_complete() || self.pieces.is_empty() {
            return Ok(());
        }
        if let Some((start, length)) = self.in_one_sector() {
            let mut bytes = vec![0; length];
            file.read_at(start, &mut bytes)?;
            self.overlay(start, &mut bytes)?;
            self.file.check_place()?;
            if self.may_return {
                self.file.sync_cut()?;
                self.may_return = false;
            }
            write(file, start, &bytes)?;
            self.state = State::InPlace;
            return Ok(());
        }
        if let Some((at, length)) = self.guard {
            // The superblock becomes a piece of its own, even if the commit does not change it.
            let mut superblock = vec![0; length];
            file.read_at(at, &mut superblock)?;
            self.overlay(at, &mut superblock)?;
            self.write(at, &superblock)?;
        }
        let mut index = Vec::new();
        for (start, piece) in &self.pieces {
            let new = checksum(&*self.file, piece.at, piece.length)?;
            for field in [*start, piece.length, piece.at] {
                index.extend_from_slice(&field.to_le_bytes());
            }
            index.extend_from_slice(&new.to_le_bytes());
            put_sector_checksums(file, *start, piece.length, &mut index)?;
        }
        // A full disk must be noticed before the commit is valid, so the file gets its space now.
        self.copy_free_bytes(file)?;
        let mut footer = FOOTER_MAGIC.to_vec();
        for field in [self.end, index.len() as u64, self.pieces.len() as u64, size] {
            footer.extend_from_slice(&field.to_le_bytes());
        }
        footer.extend_from_slice(&lookup3(&index).to_le_bytes());
        footer.extend_from_slice(&size.saturating_sub(length).to_le_bytes());
        footer.resize(narrow(FOOTER_BYTES) - 4, 0);
        footer.extend_from_slice(&lookup3(&footer).to_le_bytes());
        index.extend(footer);
        let written = self.file.write_at(self.end, &index).and_then(|()| self.file.sync());
        if let Err(error) = written {
            // The commit has failed, so a footer that may have been written must be removed.
            self.file.cut(self.end).and_then(|()| self.file.sync())?;
            return Err(error);
        }
        (self.state, self.may_return) = (State::Journaled, true);
        Ok(())
    }

    /// Returns offset and length of the range of all pieces for committed bytes, if it has no gaps, is within
    /// one sector and needs no journal. With a gap the journal is needed, as other threads may write to free
    /// space in it.
    fn in_one_sector(&self) -> Option<(u64, usize)> {
        let mut pieces = self.pieces.iter().filter(|(_, piece)| !piece.is_free);
        let (start, first) = pieces.next()?;
        let mut end = start + first.length;
        for (next, piece) in pieces {
            if *next != end {
                return None;
            }
            end += piece.length;
        }
        let is_one = self.skips && self.guard.is_none() && start / SECTOR_BYTES == (end - 1) / SECTOR_BYTES;
        is_one.then(|| (*start, narrow(end - start)))
    }

    /// Writes all bytes to the file, and empties the journal. May be repeated after a failure.
    pub(crate) fn apply(&mut self, file: &dyn Sink) -> Result<()> {
        match self.state {
            State::Waiting => return Ok(()),
            State::InPlace => {
                file.sync()?;
                return self.clear();
            }
            State::Journaled => {}
        }
        let last = self.guard.and_then(|(at, _)| Some((at, *self.pieces.get(&at)?)));
        let last = match last {
            Some((start, piece)) => {
                let mut bytes = vec![0; narrow(piece.length)];
                self.file.read_at(piece.at, &mut bytes)?;
                guarded(&bytes).map(|guarded| (start, guarded, bytes))
            }
            None => None,
        };
        if let Some((start, guarded, _)) = &last {
            write(file, *start, guarded)?;
            file.sync()?;
        }
        for (start, piece) in &self.pieces {
            if last.as_ref().is_none_or(|(guard, ..)| guard != start) {
                copy(&*self.file, piece.at, file, *start, piece.length)?;
            }
        }
        file.sync()?;
        if let Some((start, _, bytes)) = &last {
            write(file, *start, bytes)?;
            file.sync()?;
        }
        self.clear()
    }

    /// Empties the journal.
    fn clear(&mut self) -> Result<()> {
        self.file.cut(0)?;
        (self.end, self.state) = (0, State::Waiting);
        self.pieces.clear();
        Ok(())
    }

    /// Deletes the journal, unless it has a commit that is not yet in the file.
    pub(crate) fn remove(&mut self) -> Result<()> {
        if self.is_complete() {
            return Ok(());
        }
        self.pieces.clear();
        self.end = 0;
        // The truncation is synced, so that no complete journal can reappear after a power failure.
        self.file.cut(0).and_then(|()| self.file.sync_cut())?;
        self.may_return = false;
        self.file.remove()
    }
}

/// Appends the checksum of each sector of a range of the file.
fn put_sector_checksums(file: &dyn Sink, start: u64, length: u64, index: &mut Vec<u8>) -> Result<()> {
    let (mut at, end) = (start, start.saturating_add(length));
    let mut bytes = Vec::new();
    while at < end {
        // Parts end at sector boundaries.
        let next = (at.saturating_add(COPY_BYTES) / SECTOR_BYTES).saturating_mul(SECTOR_BYTES).min(end);
        bytes.resize(narrow(next - at), 0);
        file.read_at(at, &mut bytes)?;
        for (sector, length) in sectors(at, next - at) {
            let first = narrow(sector - at);
            index.extend_from_slice(&lookup3(&bytes[first..first + narrow(length)]).to_le_bytes());
        }
        at = next;
    }
    Ok(())
}

/// Buffer for parts of a file. Bytes have the same offset in a memory page as in a page of the file.
///
/// If a process is killed, its write ends at the end of a page of the file, of a memory page, or of the part.
/// All of these are ends of sectors, so that each sector has only old or only new bytes.
struct PartBuffer {
    memory: Vec<u8>,
    /// Index of the first page.
    first: usize,
}

impl PartBuffer {
    /// Creates a buffer for parts of the `length` bytes of a file from `offset` on.
    fn new(offset: u64, length: u64) -> Self {
        let needed = narrow((offset % PAGE_BYTES as u64).saturating_add(length).min(COPY_BYTES));
        let memory = vec![0; needed + PAGE_BYTES];
        let first = (PAGE_BYTES - memory.as_ptr().addr() % PAGE_BYTES) % PAGE_BYTES;
        Self { memory, first }
    }

    /// Returns the buffer for the part at an offset, which has at most `length` bytes.
    fn part(&mut self, offset: u64, length: u64) -> &mut [u8] {
        let before = offset % PAGE_BYTES as u64;
        let start = self.first + narrow(before);
        &mut self.memory[start..start + narrow(length.min(COPY_BYTES - before))]
    }
}

/// Writes a small number of bytes to a file, as [`copy`] does.
fn write(file: &dyn Sink, offset: u64, bytes: &[u8]) -> Result<()> {
    let length = bytes.len() as u64;
    let mut buffer = PartBuffer::new(offset, length);
    let part = buffer.part(offset, length);
    part.copy_from_slice(bytes);
    file.write_at(offset, part)
}

/// Copies `length` bytes of a journal, from `at` on, to offset `start` of the file.
fn copy(journal: &dyn JournalFile, at: u64, file: &dyn Sink, start: u64, length: u64) -> Result<()> {
    let mut buffer = PartBuffer::new(start, length);
    let mut done = 0;
    while done < length {
        let part = buffer.part(start + done, length - done);
        journal.read_at(at + done, part)?;
        file.write_at(start + done, part)?;
        done += part.len() as u64;
    }
    Ok(())
}

/// Computes the checksum of bytes of a journal.
fn checksum(journal: &dyn JournalFile, at: u64, length: u64) -> Result<u32> {
    let mut state: u32 = 0;
    let mut bytes = vec![0; narrow(length.min(COPY_BYTES))];
    let mut done = 0;
    while done < length {
        let part = &mut bytes[..narrow((length - done).min(COPY_BYTES))];
        journal.read_at(at + done, part)?;
        state = lookup3(&[state.to_le_bytes(), lookup3(part).to_le_bytes()].concat());
        done += part.len() as u64;
    }
    Ok(state)
}

/// Divides a range at sector boundaries; returns offset and length of each part.
pub(super) fn sectors(start: u64, length: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = start + length;
    let mut at = start;
    std::iter::from_fn(move || {
        let next = (at / SECTOR_BYTES + 1).saturating_mul(SECTOR_BYTES).min(end);
        (at < end).then(|| {
            let part = (at, next - at);
            at = next;
            part
        })
    })
}

/// A piece of a journal that was found.
struct FoundPiece {
    start: u64,
    length: u64,
    at: u64,
    old: Vec<u32>,
}

/// A complete journal of an interrupted edit.
pub(crate) struct LeftRedo<'a> {
    journal: &'a dyn JournalFile,
    pieces: Vec<FoundPiece>,
    /// Minimum size of the file without the pieces: the end of the commit's other new data.
    size: u64,
}

impl<'a> LeftRedo<'a> {
    /// Reads a journal of `size` bytes; `None` if it is incomplete.
    pub(crate) fn read(journal: &'a dyn JournalFile, size: u64) -> Result<Option<Self>> {
        let Some((footer_at, fields)) = footer(journal, size)? else { return Ok(None) };
        let mut header = [0; 16];
        journal.read_at(0, &mut header)?;
        if &header != MAGIC {
            return Ok(None);
        }
        let field = |number: usize| long(&fields, 16 + 8 * number).unwrap_or(0);
        let (index_at, index_bytes, count) = (field(0), field(1), field(2));
        let sum = word(&fields, 48);
        let lacking = long(&fields, 52).unwrap_or(0);
        if index_at.checked_add(index_bytes) != Some(footer_at) {
            return Ok(None);
        }
        let mut index = crate::room::zeros(narrow(index_bytes))?;
        journal.read_at(index_at, &mut index)?;
        if sum != Some(lookup3(&index)) {
            return Ok(None);
        }
        let damaged = || Error::corrupt("the index of the journal is damaged");
        let mut left = Self { journal, pieces: Vec::new(), size: field(3).saturating_sub(lacking) };
        let mut at = 0;
        for _ in 0..count {
            let fields: Option<Vec<u64>> = (0..PIECE_FIELDS).map(|n| long(&index, at + 8 * n)).collect();
            let fields = fields.ok_or_else(damaged)?;
            let [start, length, place] = fields[..] else { return Err(damaged()) };
            at += 8 * PIECE_FIELDS;
            let new = word(&index, at).ok_or_else(damaged)?;
            at += 4;
            let end = start.checked_add(length).ok_or_else(damaged)?;
            if place.checked_add(length).is_none_or(|end| end > index_at) || end < start {
                return Err(damaged());
            }
            let mut old = Vec::new();
            for _ in sectors(start, length) {
                old.push(word(&index, at).ok_or_else(damaged)?);
                at += 4;
            }
            let piece = FoundPiece { start, length, at: place, old };
            if checksum(journal, place, length)? != new {
                return Ok(None);
            }
            left.pieces.push(piece);
        }
        Ok(Some(left))
    }

    /// Reads the commit into memory; returns `None` if it is too large for that.
    pub(crate) fn waiting(&self) -> Result<Option<WaitingCommit>> {
        let total = self.pieces.iter().fold(0, |total: u64, piece| total.saturating_add(piece.length));
        if total > MAX_WAITING_BYTES {
            return Ok(None);
        }
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            let mut bytes = crate::room::zeros(narrow(piece.length))?;
            self.journal.read_at(piece.at, &mut bytes)?;
            pieces.push(WaitingPiece { start: piece.start, bytes, old: piece.old.clone() });
        }
        Ok(Some(WaitingCommit::new(pieces, self.size)))
    }

    /// Writes all bytes to the file, which has `length` bytes.
    ///
    /// # Errors
    /// Changed if a sector has neither its old nor its new bytes, or the file lacks new data of the commit.
    pub(crate) fn apply(&self, file: &dyn Sink, length: u64) -> Result<()> {
        if length < self.size {
            return Err(truncated(self.size, length));
        }
        let mut last = None;
        for piece in &self.pieces {
            let guard = self.guard(piece)?;
            for ((start, length), old) in sectors(piece.start, piece.length).zip(&piece.old) {
                let (mut now, mut new) = (vec![0; narrow(length)], vec![0; narrow(length)]);
                file.read_at(start, &mut now)?;
                self.journal.read_at(piece.at + (start - piece.start), &mut new)?;
                if lookup3(&now) == *old || now == new {
                    continue;
                }
                if !is_part(&now, start - piece.start, guard.as_deref()) {
                    return Err(foreign(start));
                }
                last = Some(piece);
            }
        }
        let put = |piece: &FoundPiece| copy(self.journal, piece.at, file, piece.start, piece.length);
        for piece in &self.pieces {
            if last.is_none_or(|last| last.start != piece.start) {
                put(piece)?;
            }
        }
        if let Some(piece) = last {
            // The superblock guards the file until all other bytes are written.
            file.sync()?;
            put(piece)?;
        }
        file.sync()
    }

    /// Returns the guarded bytes of a piece, if it is a superblock.
    fn guard(&self, piece: &FoundPiece) -> Result<Option<Vec<u8>>> {
        if piece.length > MAX_SUPERBLOCK_BYTES {
            return Ok(None);
        }
        let mut bytes = vec![0; narrow(piece.length)];
        self.journal.read_at(piece.at, &mut bytes)?;
        Ok(guarded(&bytes))
    }
}

/// Returns the header of a journal.
fn header() -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.resize(narrow(HEADER_BYTES), 0);
    header
}

/// Returns the offset of the footer of a journal of `size` bytes, and its bytes before the checksum; `None`
/// if there is no valid footer.
fn footer(journal: &dyn JournalFile, size: u64) -> Result<Option<(u64, Vec<u8>)>> {
    let Some(at) = size.checked_sub(FOOTER_BYTES).filter(|at| *at >= HEADER_BYTES) else { return Ok(None) };
    let mut footer = vec![0; narrow(FOOTER_BYTES)];
    journal.read_at(at, &mut footer)?;
    let sum = footer.split_off(narrow(FOOTER_BYTES) - 4);
    let is_valid = footer.starts_with(FOOTER_MAGIC) && word(&sum, 0) == Some(lookup3(&footer));
    Ok(is_valid.then_some((at, footer)))
}

/// Kind of a file that has the name of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// A journal, by its first bytes.
    Journal,
    /// Remains of a journal that was never complete. Nothing of its commit has been written to the file.
    Remnant,
    /// Another file, of the user.
    Other,
}

impl Content {
    /// Classifies a file of `size` bytes. File systems may extend a file before its bytes are on disk, so
    /// that it has zeros instead of them after a power failure. A journal is synced before its commit is
    /// written to the file; so one whose header is zeros was never complete. As a file of the user may also
    /// begin with zeros, only zeros, or the end of a journal, may follow.
    pub(super) fn of(journal: &dyn JournalFile, size: u64) -> Result<Self> {
        let mut start = vec![0; narrow(size.min(HEADER_BYTES))];
        journal.read_at(0, &mut start)?;
        let header = header();
        if start == header {
            return Ok(Self::Journal);
        }
        if header.starts_with(&start) {
            return Ok(Self::Remnant);
        }
        let is_blank = start.iter().all(|byte| *byte == 0);
        let is_remnant = is_blank && (footer(journal, size)?.is_some() || has_only_zeros(journal, size)?);
        Ok(if is_remnant { Self::Remnant } else { Self::Other })
    }
}

/// Returns whether a file has only zeros, and at most [`MAX_ZERO_BYTES`].
fn has_only_zeros(journal: &dyn JournalFile, size: u64) -> Result<bool> {
    if size > MAX_ZERO_BYTES {
        return Ok(false);
    }
    let mut at = 0;
    let mut bytes = vec![0; narrow(size.min(COPY_BYTES))];
    while at < size {
        let part = &mut bytes[..narrow((size - at).min(COPY_BYTES))];
        journal.read_at(at, part)?;
        if part.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += part.len() as u64;
    }
    Ok(true)
}

/// Returns whether a guarded superblock has the bytes `now` at offset `at`.
pub(super) fn is_part(now: &[u8], at: u64, guard: Option<&[u8]>) -> bool {
    let end = narrow(at) + now.len();
    guard.and_then(|guard| guard.get(narrow(at)..end)) == Some(now)
}

/// Returns the error for a file that is shorter than a commit needs.
pub(super) fn truncated(needed: u64, length: u64) -> Error {
    let message = format!(
        "cannot complete an interrupted edit: expected a file of at least {needed} bytes, got {length}: it was \
         truncated or replaced since; delete its journal (FILE.redo) to keep the file as it is"
    );
    Error::new(ErrorKind::Changed, message)
}

/// Returns the error for a sector that has neither its old nor its new bytes.
pub(super) fn foreign(start: u64) -> Error {
    let message = "cannot complete an interrupted edit: expected the bytes from before or after it, got others: \
                   another program changed the file since; delete its journal (FILE.redo) to keep the file as it is";
    Error::new(ErrorKind::Changed, message).at(start)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|long| u64::from_le_bytes(*long))
}
