//! Journals of killed writers. Unlike journals of running writers, they are not locked.

use super::journal::{Entry, Journal, MAGIC, UNMARKED_MAGIC, busy};
use crate::companion::Trust;
use crate::io::journal_path;
use crate::os::read_exact_at;
use crate::output::Folder;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::Cursor;
use hyperchunk_format::checksum::lookup3;
use std::fs::{File, Metadata, TryLockError};
use std::io::Read as _;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The journal of a killed writer, locked by this process.
#[derive(Debug)]
pub(super) struct AbandonedJournal {
    file: File,
    folder: Folder,
    path: PathBuf,
}

impl AbandonedJournal {
    /// Opens and locks a journal that no writer has locked. A journal determines the content of a file, so it
    /// must belong to this user, root or the file's owner, or be in a folder that only its owner may write
    /// to.
    pub(super) fn open(file: &Path) -> Result<Self> {
        let path = journal_path(file);
        let refused = |error: std::io::Error| {
            let kind = match error.kind() {
                std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot read the journal: {error}")).file(path.display())
        };
        let (folder, name) = Folder::open_parent(&path).map_err(refused)?;
        let journal = folder.open_file(&name).map_err(refused)?;
        let metadata = journal.metadata().map_err(refused)?;
        check_made_by(&folder, file, &path, &metadata)?;
        journal.try_lock().map_err(|_| busy(&path))?;
        // The writer may have ended, and deleted the journal, between opening and locking.
        if !folder.is_at(&name, &journal) {
            return Err(busy(&path));
        }
        Ok(Self { file: journal, folder, path })
    }

    /// Checks that the unfinished file is trusted, by the rules of [`AbandonedJournal::open`].
    pub(super) fn check(&self, file: &Path, partial: &Path, metadata: &Metadata) -> Result<()> {
        check_made_by(&self.folder, file, partial, metadata)
    }

    /// Continues the journal after its last complete entry, which ends at `end`.
    pub(super) fn resume(self, end: u64) -> Result<Journal> {
        Journal::resume(self.file, (self.folder, self.path), end)
    }

    /// Returns the path of the journal.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Deletes the journal.
    pub(super) fn end(self) -> Result<()> {
        let removed = self.folder.remove(self.path.file_name().unwrap_or_default());
        removed.map_err(|error| Error::new(ErrorKind::Io, format!("cannot delete the journal: {error}")))
    }
}

/// Checks that a file cannot have been created by another, untrusted user.
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

/// Content of a journal.
#[derive(Debug, Default)]
pub(super) struct JournalContents {
    pub(super) entries: Vec<Entry>,
    /// End of the last complete entry.
    pub(super) end: u64,
    /// Number of bytes of an incomplete entry after it.
    pub(super) torn: u64,
    /// True if the journal has an entry for each commit.
    pub(super) is_marked: bool,
}

/// Reads the entries of a journal up to the first incomplete one.
pub(super) fn read(journal: &AbandonedJournal) -> Result<JournalContents> {
    let path = &journal.path;
    let refused = |error: std::io::Error| {
        Error::new(ErrorKind::Io, format!("cannot read the journal: {error}")).file(path.display())
    };
    let mut file = &journal.file;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(refused)?;
    if MAGIC.starts_with(&bytes) {
        // The signature is incomplete; `Journal::resume` writes it again.
        return Ok(JournalContents {
            is_marked: true,
            end: bytes.len() as u64,
            ..JournalContents::default()
        });
    }
    let is_marked = bytes.starts_with(MAGIC);
    let Some(mut rest) = bytes.strip_prefix(MAGIC).or_else(|| bytes.strip_prefix(UNMARKED_MAGIC)) else {
        return Err(Error::corrupt("not a writer's journal: wrong signature").file(path.display()));
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

/// State of the journal beside a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FoundJournal {
    /// There is no trusted journal.
    None,
    /// A running writer has locked it.
    Held,
    /// Its writer was killed.
    Abandoned,
    /// Only its owner can read it.
    Unreadable,
}

/// Looks for a journal beside a file. It must be trusted by the rules of [`AbandonedJournal::open`], and
/// begin with a signature: its writer has locked it before it wrote that.
fn look(file: &Path) -> FoundJournal {
    let path = journal_path(file);
    // In the usual case, without a journal, one system call suffices.
    let Ok(metadata) = path.symlink_metadata() else { return FoundJournal::None };
    let Ok((folder, name)) = Folder::open_parent(&path) else { return FoundJournal::None };
    if !metadata.is_file() || check_made_by(&folder, file, &path, &metadata).is_err() {
        return FoundJournal::None;
    }
    let journal = match folder.open_to_read(&name) {
        Ok(journal) => journal,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return FoundJournal::Unreadable;
        }
        Err(_) => return FoundJournal::None,
    };
    let mut start = [0; MAGIC.len()];
    let is_journal =
        read_exact_at(&journal, 0, &mut start).is_ok() && [MAGIC, UNMARKED_MAGIC].contains(&&start);
    match journal.try_lock_shared() {
        _ if !is_journal => FoundJournal::None,
        Ok(()) if !folder.is_at(&name, &journal) => FoundJournal::None,
        Ok(()) => FoundJournal::Abandoned,
        Err(TryLockError::WouldBlock) => FoundJournal::Held,
        Err(TryLockError::Error(_)) => FoundJournal::None,
    }
}

/// Checks that there is no journal of a killed writer beside a file that is about to be changed: `recover`
/// would later overwrite the change.
///
/// # Errors
/// Exists if there is such a journal.
pub(crate) fn check_recovered(file: &Path) -> Result<()> {
    if !matches!(look(file), FoundJournal::Abandoned | FoundJournal::Unreadable) {
        return Ok(());
    }
    let (file, journal) = (file.display(), journal_path(file));
    let message = format!(
        "cannot change the file: expected a complete file, got one whose writer was killed; run `hyperchunk recover \
         {file}` first, or move {} away to keep the file as it is",
        journal.display()
    );
    Err(Error::new(ErrorKind::Exists, message))
}

/// Checks that no program writes a file that is about to be replaced. The journal also shows this for a
/// committed file, whose lock is shared with readers.
///
/// # Errors
/// Locked if a program writes the file.
pub(crate) fn check_unjournalled(file: &Path) -> Result<()> {
    if !matches!(look(file), FoundJournal::Held | FoundJournal::Unreadable) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Locked,
        format!(
            "cannot replace the file: expected that no program writes it, got one that has its journal, {}; close the \
             file in that program, or its data would be lost",
            journal_path(file).display()
        ),
    ))
}
