//! Journals that killed writers left.

use super::journal::{Entry, Journal, MAGIC, UNMARKED_MAGIC, busy, journal_path};
use crate::companion::Trust;
use crate::output::Folder;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::Cursor;
use hyperchunk_format::checksum::lookup3;
use std::fs::{File, Metadata};
use std::io::Read as _;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The journal that a killed writer left, locked.
#[derive(Debug)]
pub(super) struct AbandonedJournal {
    file: File,
    folder: Folder,
    path: PathBuf,
}

impl AbandonedJournal {
    /// Opens and locks a journal that no writer holds any more. It must belong to the user, root or the
    /// file's owner, or be in a folder that only its owner may write to: a journal decides the contents of
    /// a file.
    pub(super) fn open(file: &Path) -> Result<Self> {
        let path = journal_path(file);
        let refused = |error: std::io::Error| {
            let kind = match error.kind() {
                std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot read the journal: {error}")).file(path.display())
        };
        let (folder, name) = Folder::of(&path).map_err(refused)?;
        let journal = folder.open_file(&name).map_err(refused)?;
        let metadata = journal.metadata().map_err(refused)?;
        check_made_by(&folder, file, &path, &metadata)?;
        journal.try_lock().map_err(|_| busy(&path))?;
        // Its writer may have ended since it was opened.
        if !folder.is_at(&name, &journal) {
            return Err(busy(&path));
        }
        Ok(Self { file: journal, folder, path })
    }

    /// Checks that the unfinished file is trusted, by the same rules as the journal.
    pub(super) fn check(&self, file: &Path, partial: &Path, metadata: &Metadata) -> Result<()> {
        check_made_by(&self.folder, file, partial, metadata)
    }

    /// Continues the journal after its last complete entry, which ends at `end`.
    pub(super) fn resume(self, end: u64) -> Result<Journal> {
        Journal::resume(self.file, (self.folder, self.path), end)
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Deletes the journal.
    pub(super) fn end(self) -> Result<()> {
        let removed = self.folder.remove(self.path.file_name().unwrap_or_default());
        removed.map_err(|error| Error::new(ErrorKind::Io, format!("cannot delete the journal: {error}")))
    }
}

/// Refuses a file that another user could have put there.
pub(super) fn check_made_by(folder: &Folder, file: &Path, path: &Path, metadata: &Metadata) -> Result<()> {
    let trust = Trust::for_writer(file);
    #[cfg(unix)]
    if let Ok(above) = folder.metadata()
        && above.mode() & 0o022 == 0
        && trust.check_file_owner(path, &above).is_ok()
    {
        return Ok(());
    }
    #[cfg(not(unix))]
    let _ = folder;
    trust.check_file_owner(path, metadata)
}

/// Contents of a journal.
#[derive(Debug, Default)]
pub(super) struct JournalContents {
    pub(super) entries: Vec<Entry>,
    /// The end of the last complete entry.
    pub(super) end: u64,
    /// Number of bytes after it.
    pub(super) torn: u64,
    /// True if each commit is marked.
    pub(super) is_marked: bool,
}

/// Reads all entries of a journal, up to a torn one.
pub(super) fn read(journal: &AbandonedJournal) -> Result<JournalContents> {
    let path = &journal.path;
    let refused = |error: std::io::Error| {
        Error::new(ErrorKind::Io, format!("cannot read the journal: {error}")).file(path.display())
    };
    let mut file = &journal.file;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(refused)?;
    if MAGIC.starts_with(&bytes) {
        // At least the signature is needed by whoever continues it.
        return Ok(JournalContents {
            is_marked: true,
            end: bytes.len() as u64,
            ..JournalContents::default()
        });
    }
    let is_marked = bytes.starts_with(MAGIC);
    let Some(mut rest) = bytes.strip_prefix(MAGIC).or_else(|| bytes.strip_prefix(UNMARKED_MAGIC)) else {
        return Err(Error::corrupt("not a journal of a writer").file(path.display()));
    };
    let mut entries = Vec::new();
    while let Some((head, behind)) = rest.split_first_chunk::<8>() {
        let [a, b, c, d, e, f, g, h] = *head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let Some(body) =
            behind.get(..length).filter(|body| lookup3(body) == u32::from_le_bytes([e, f, g, h]))
        else {
            break;
        };
        let mut cursor = Cursor::new(body, "journal", 0);
        entries.push(Entry::decode(&mut cursor).map_err(|error| error.file(path.display()))?);
        rest = behind.get(length..).unwrap_or_default();
    }
    let torn = rest.len() as u64;
    Ok(JournalContents { entries, end: bytes.len() as u64 - torn, torn, is_marked })
}
