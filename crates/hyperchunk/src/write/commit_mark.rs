//! Marks in a journal by which `recover` checks that a file is the one that the journal belongs to.

use super::journal::Entry;
use super::sink::Sink;
use crate::{Error, ErrorKind, Result, os};
use hyperchunk_format::Cursor;
use hyperchunk_format::checksum::lookup3;
use hyperchunk_format::encode::superblock;
use std::fs::Metadata;
use std::path::Path;

/// Number of bytes of a superblock before its checksum.
const FIELD_BYTES: usize = 44;
/// Offset of the status flags, which `h5clear` and SWMR readers change.
const FLAGS_AT: usize = 11;

/// Mark of a commit: the superblock, and address, length and checksum of its structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommitMark {
    superblock: Vec<u8>,
    start: u64,
    length: u64,
    sum: u32,
}

/// Returns the fields of a superblock that do not change until the next commit: without flags and checksum.
fn lasting_fields(superblock: &[u8]) -> Vec<u8> {
    let mut fields = superblock[..superblock.len().min(FIELD_BYTES)].to_vec();
    if let Some(flags) = fields.get_mut(FLAGS_AT) {
        *flags = 0;
    }
    fields
}

impl CommitMark {
    /// Creates the mark of a commit whose structure is stored at `start`. In SWMR mode, where the structure
    /// changes in place, `structure` is empty.
    pub(super) fn new(superblock: &[u8], start: u64, structure: &[u8]) -> Self {
        let (length, sum) = (structure.len() as u64, lookup3(structure));
        Self { superblock: lasting_fields(superblock), start, length, sum }
    }

    /// Returns whether the file of `length` bytes in a sink has this commit, with unchanged structure.
    fn is_in(&self, sink: &dyn Sink, length: u64) -> Result<bool> {
        let mut found = vec![0; usize::try_from(superblock::SUPERBLOCK_BYTES).unwrap_or(0)];
        sink.read_at(0, &mut found)?;
        let end = self.start.checked_add(self.length).filter(|end| *end <= length);
        if lasting_fields(&found) != self.superblock || end.is_none() {
            return Ok(false);
        }
        let too_large = |_| Error::limit("the structure exceeds the address space");
        let size = usize::try_from(self.length).map_err(too_large)?;
        let mut structure = crate::room::zeros(size)?;
        sink.read_at(self.start, &mut structure)?;
        Ok(lookup3(&structure) == self.sum)
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&(self.superblock.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&self.superblock);
        bytes.extend_from_slice(&self.start.to_le_bytes());
        bytes.extend_from_slice(&self.length.to_le_bytes());
        bytes.extend_from_slice(&self.sum.to_le_bytes());
    }

    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let too_long = |_| Error::corrupt("a length exceeds the address space");
        let size = usize::try_from(cursor.u64()?).map_err(too_long)?;
        let superblock = cursor.take(size)?.to_vec();
        Ok(Self { superblock, start: cursor.u64()?, length: cursor.u64()?, sum: cursor.u32()? })
    }
}

/// Finds the journalled commit that the file in a sink has. It need not be the last one, since a failed
/// commit has a mark, too. Returns the number of entries before its mark; 0 in SWMR mode, in which the
/// structure changes in place.
///
/// # Errors
/// Changed if the file has none of the commits, or may have been changed since.
pub(super) fn find_commit(entries: &[Entry], sink: &dyn Sink, length: u64, journal: &Path) -> Result<usize> {
    for (number, entry) in entries.iter().enumerate().rev() {
        let Entry::Commit(mark) = entry else { continue };
        if !mark.is_in(sink, length)? {
            continue;
        }
        if mark.length > 0 {
            return Ok(number);
        }
        let mut flags = [0];
        sink.read_at(FLAGS_AT as u64, &mut flags)?;
        // In SWMR mode the mark has no checksum of the structure. But while the superblock marks the file as
        // open for writing, other programs do not change it.
        if flags == [0] {
            return Err(changed(
                "one whose mark of a writer was cleared (h5clear), which may be changed",
                journal,
            ));
        }
        return Ok(0);
    }
    Err(changed("one that was replaced or changed", journal))
}

/// Returns the error for a file that was changed after its writer was killed.
pub(super) fn changed(got: &str, journal: &Path) -> Error {
    let message = format!(
        "cannot recover the file: expected the file of a killed writer, unchanged, got {got} since; move {} away to \
         keep the file as it is",
        journal.display()
    );
    Error::new(ErrorKind::Changed, message)
}

/// Mark of the file that a new one is to replace, if it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReplacedMark(Option<FileMark>);

/// Identification of a file and of its version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct FileMark {
    /// Size, and modification time in seconds and nanoseconds.
    version: (u64, i64, i64),
    /// Inode, and its change time in seconds and nanoseconds; `None` where files have none, and in journals
    /// of earlier releases. The device number is not included, as it may differ after a restart.
    inode: Option<(u64, i64, i64)>,
}

impl FileMark {
    /// Returns whether both may identify the same version of the same file.
    fn is_same(&self, other: &Self) -> bool {
        let inodes = self.inode.zip(other.inode);
        self.version == other.version && inodes.is_none_or(|(one, other)| one == other)
    }
}

impl ReplacedMark {
    /// Returns the mark of the file at a path.
    pub(super) fn of(path: &Path) -> Self {
        let mark = |found: Metadata| {
            let ((_, inode), version) = os::version(&found);
            let inode = os::change_time(&found).map(|(seconds, nanoseconds)| (inode, seconds, nanoseconds));
            FileMark { version, inode }
        };
        Self(path.symlink_metadata().ok().map(mark))
    }

    /// Checks that the file that the unfinished one will replace has not changed.
    ///
    /// # Errors
    /// Changed if there is another file, or another version of it.
    pub(super) fn check(self, path: &Path, partial: &Path, journal: &Path) -> Result<()> {
        let now = Self::of(path);
        let Some(found) = now.0 else { return Ok(()) };
        if self.0.is_some_and(|mark| mark.is_same(&found)) {
            return Ok(());
        }
        let expected = if self.0.is_some() { "the file that its writer was to replace" } else { "no file" };
        let message = format!(
            "cannot recover the file: expected {expected} at its path, got one that was created or changed since; \
             move it away to recover {}, or delete that and {} to keep it",
            partial.display(),
            journal.display()
        );
        Err(Error::new(ErrorKind::Changed, message))
    }

    pub(super) fn encode(self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self.0.is_some()));
        let FileMark { version, inode } = self.0.unwrap_or_default();
        for (number, seconds, nanoseconds) in std::iter::once(version).chain(inode) {
            bytes.extend_from_slice(&number.to_le_bytes());
            bytes.extend_from_slice(&seconds.to_le_bytes());
            bytes.extend_from_slice(&nanoseconds.to_le_bytes());
        }
    }

    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let is_there = cursor.u8()? != 0;
        let take = |cursor: &mut Cursor<'_>| -> Result<_> {
            Ok((cursor.u64()?, cursor.u64()?.cast_signed(), cursor.u64()?.cast_signed()))
        };
        let version = take(cursor)?;
        let inode = if cursor.left() > 0 { Some(take(cursor)?) } else { None };
        Ok(Self(is_there.then_some(FileMark { version, inode })))
    }
}
