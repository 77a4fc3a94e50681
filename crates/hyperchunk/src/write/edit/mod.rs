//! Edits of existing files.
//!
//! Objects are loaded into the tree when they are first used; a commit encodes only those that have changed.
//! Their messages are written to new space, and the headers, whose addresses are fixed, get a continuation
//! message that points there. Headers, the superblock and contiguous data are replaced through a redo journal
//! ([`redo`]), so that a commit is atomic.

mod base;
mod collections;
mod commit;
#[cfg(test)]
mod failing_disk;
mod guard;
#[cfg(test)]
mod header_tests;
mod journal_file;
mod load;
mod managers;
mod own_space;
mod redo;
#[cfg(test)]
mod salvage_tests;
mod sink;
mod structures;
#[cfg(test)]
mod tests;
mod transaction;
mod waiting;
mod written_headers;

pub(super) use base::{BaseObject, ReplacedParts};
pub(crate) use journal_file::{
    read_to_salvage, redo_path, settle, settle_in_file, settle_to_read, settle_to_replace,
};
pub(crate) use waiting::WaitingCommit;

use self::redo::{JournalFile, Redo};
use super::options::CreateOptions;
use super::sink::{LocalSink, Sink};
use super::space::SpaceState;
use super::tree::{Node, NodeId, NodeKind, Tree};
use super::writer::Writer;
use crate::os;
use crate::storage::BLOCKS;
use crate::{Error, ErrorKind, File, OpenOptions, Result};
use hyperchunk_format::checksum::lookup3;
use hyperchunk_format::encode::LibVersion;
use hyperchunk_format::model::Superblock;
use hyperchunk_format::parse::superblock;
use std::collections::{BTreeSet, HashMap};
use std::fs::Metadata;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// Page sizes in bytes that libhdf5 allows.
const PAGE_BYTES: std::ops::RangeInclusive<u64> = 512..=1 << 30;
/// Maximum number of bytes of a superblock that can be edited.
const SUPERBLOCK_BYTES: usize = 100;

/// State of an edit.
#[derive(Debug)]
pub(super) struct Edit {
    /// File at the start of the edit. Objects that have not been loaded are unchanged in it.
    pub(super) base: File,
    superblock: SuperblockBytes,
    /// Superblock extension without free-space managers, if it had any.
    pub(super) without_managers: Option<managers::Patch>,
    /// Objects of the file that are in the tree, by address.
    pub(super) known: Mutex<HashMap<u64, NodeId>>,
    /// True once a heap collection for strings has been searched.
    has_looked: AtomicBool,
    /// State of the allocator at the beginning of the open transaction.
    transaction: Mutex<Option<SpaceState>>,
}

/// Device and inode of a file.
type FileNumber = (u64, u64);

/// Files that this process edits. A file lock does not exclude other edits of the same process.
static EDITED: Mutex<BTreeSet<FileNumber>> = Mutex::new(BTreeSet::new());

/// Registration of an edit of a local file; `None` for files without an inode.
#[derive(Debug, Default)]
pub(super) struct OnlyEdit(Option<FileNumber>);

impl OnlyEdit {
    fn take(metadata: &Metadata) -> Result<Self> {
        let Some(number) = os::identity(metadata) else { return Ok(Self(None)) };
        if !EDITED.lock().unwrap_or_else(PoisonError::into_inner).insert(number) {
            return Err(edited());
        }
        Ok(Self(Some(number)))
    }
}

impl Drop for OnlyEdit {
    fn drop(&mut self) {
        if let Some(number) = self.0 {
            EDITED.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        }
    }
}

fn edited() -> Error {
    Error::new(
        ErrorKind::Locked,
        "cannot write the file: this program edits it already; close it there first",
    )
}

/// Checks that this process does not edit a file that is about to be replaced.
pub(crate) fn check_not_edited(metadata: &Metadata) -> Result<()> {
    let edits = EDITED.lock().unwrap_or_else(PoisonError::into_inner);
    if os::identity(metadata).is_some_and(|number| edits.contains(&number)) { Err(edited()) } else { Ok(()) }
}

/// Checks that a file has only one name. The journal has the name of one, and would not be found by the
/// others.
fn check_names(metadata: &Metadata) -> Result<()> {
    if os::names(metadata) > 1 {
        return Err(Error::unsupported(format!(
            "cannot edit the file: expected one name, got {} (hard links of the file system); edit a copy",
            os::names(metadata)
        )));
    }
    Ok(())
}

/// Encoded superblock of the file, and offsets of its fields.
#[derive(Debug, Clone)]
struct SuperblockBytes {
    bytes: Vec<u8>,
    base_at: usize,
    end_at: usize,
    /// True if the superblock has a checksum.
    is_checked: bool,
}

impl SuperblockBytes {
    fn read(sink: &dyn Sink, superblock: &Superblock) -> Result<Self> {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        sink.read_at(superblock.base, &mut bytes)?;
        let (base_at, end_at, length) = match superblock.version {
            0 => (24, 40, 48),
            1 => (28, 44, 52),
            _ => (12, 28, 48),
        };
        bytes.truncate(length);
        let this = Self { bytes, base_at, end_at, is_checked: superblock.version >= 2 };
        if this.field(base_at) != Some(superblock.base)
            || this.field(end_at) != superblock.end.checked_add(superblock.base)
        {
            return Err(Error::unsupported(
                "cannot edit the file: the size of its user block differs from the one in its superblock; \
                 `hyperchunk pack` makes a file that can be edited",
            ));
        }
        Ok(this)
    }

    fn field(&self, at: usize) -> Option<u64> {
        self.bytes.get(at..)?.first_chunk().map(|field| u64::from_le_bytes(*field))
    }

    /// Returns the superblock of a file whose superblock is at offset `base`, and whose end is `end` bytes
    /// after that.
    fn with_end(&self, end: u64, base: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let whole = end.saturating_add(base);
        bytes[self.base_at..self.base_at + 8].copy_from_slice(&base.to_le_bytes());
        bytes[self.end_at..self.end_at + 8].copy_from_slice(&whole.to_le_bytes());
        if self.is_checked {
            let body = bytes.len() - 4;
            let sum = lookup3(&bytes[..body]).to_le_bytes();
            bytes[body..].copy_from_slice(&sum);
        }
        bytes
    }
}

impl Edit {
    /// Encodes the superblock of a commit.
    pub(super) fn superblock(&self, end: u64, base: u64) -> Vec<u8> {
        self.superblock.with_end(end, base)
    }

    /// Returns the object at an address; adds it to the tree, without loading it, if it is missing there.
    pub(super) fn at(&self, tree: &mut Tree, address: u64) -> NodeId {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(address).or_insert_with(|| tree.add(Node::new(NodeKind::Unread { address }, false)))
    }
}

impl Writer {
    /// Opens an existing local file for changes. A commit is atomic: if the process or the machine stops
    /// during it, the file is in the state before or after it. Objects and chunks that are not changed keep
    /// their bytes.
    ///
    /// # Errors
    /// As [`File::open`]; Locked if a program has the file open; Unsupported, before anything is written, for
    /// files with a metadata cache image or with addresses that do not have 8 bytes, for files with several
    /// names (hard links), and for files of a sharded store.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::write::{CreateOptions, NodeId, Writer};
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let path = std::env::temp_dir().join("hyperchunk-edit.h5");
    /// std::fs::copy("examples/scene.h5", &path).unwrap();
    /// let file = Writer::edit(&path, &CreateOptions::default())?;
    /// file.create_group(NodeId::ROOT, b"made", false)?;
    /// file.close()?;
    /// assert_eq!(File::open(&path, &OpenOptions::default())?.root()?.group()?.len()?, 7);
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn edit(path: impl AsRef<Path>, options: &CreateOptions) -> Result<Self> {
        let path = path.as_ref();
        edit(path, options).map_err(|error| error.file(path.display()))
    }
}

fn edit(path: &Path, options: &CreateOptions) -> Result<Writer> {
    let path = &*crate::output::target(path)?;
    if crate::companion::has_store(path) {
        return Err(Error::unsupported(
            "cannot edit the file of a sharded store: open the store, and use one of its writers",
        ));
    }
    settle(path)?;
    // Checked before the file is locked: a lock does not exclude the same process, and closing a second
    // handle would release the first one's lock.
    if let Ok(metadata) = path.metadata() {
        check_not_edited(&metadata)?;
    }
    let sink = LocalSink::editable(path, options.sync, options.locking)?;
    // As the file is locked, a writer's journal beside it is abandoned.
    super::check_recovered(path)?;
    let metadata = sink.metadata()?;
    check_names(&metadata)?;
    let only = OnlyEdit::take(&metadata)?;
    let sink: Arc<dyn Sink> = Arc::new(sink);
    let mut reading = OpenOptions { index: crate::index::IndexOption::Never, ..OpenOptions::default() };
    // The file is not locked again: this process already has an exclusive lock.
    reading.locking = crate::io::Locking::Never;
    reading.ignore_layouts = true;
    let base = File::open(path, &reading)?;
    base.0.source.follow_growth();
    let mut journal = journal_file::LocalJournal::new(path, metadata, options.sync)?;
    if options.locking == crate::io::Locking::Never {
        journal = journal.created_early();
    }
    let journal = Box::new(journal);
    begin(sink, journal, base, (&path.to_string_lossy(), only), options)
}

/// Starts an edit of the file in a sink; `base` is the same file, open for reading.
fn begin(
    sink: Arc<dyn Sink>,
    journal: Box<dyn JournalFile>,
    base: File,
    (name, only): (&str, OnlyEdit),
    options: &CreateOptions,
) -> Result<Writer> {
    let found = base.superblock().clone();
    let page = check(&base, &found)?;
    let mut options = CreateOptions { journal: false, user_block: found.base, ..options.clone() };
    options.layout = super::options::FileLayout::AtEnd;
    options.oldest = if found.version >= 3 { LibVersion::V110 } else { LibVersion::V18 };
    options.newest = options.newest.max(options.oldest);
    let superblock = SuperblockBytes::read(&*sink, &found)?;
    let length = base.size().max(found.end.saturating_add(found.base));
    let mut redo = Redo::new(journal);
    if options.locking == crate::io::Locking::Never {
        // Without locks, editors detect each other only by the journal, so it is always written.
        redo = redo.always();
    }
    if options.guard {
        redo = redo.with_guard(found.base, superblock.bytes.len());
    }
    let is_synced = options.sync != super::options::Sync::Never;
    let sink = Arc::new(sink::EditSink::new(sink, redo, length, (is_synced, only)));
    let end = length.saturating_sub(found.base).next_multiple_of(8);
    let without_managers = managers::without_managers(&base)?;
    let edit = Edit {
        base,
        superblock,
        without_managers,
        known: Mutex::default(),
        has_looked: AtomicBool::new(false),
        transaction: Mutex::default(),
    };
    let root = found.root;
    let writer = Writer::editing(Arc::<sink::EditSink>::clone(&sink), name, &options, (end, page), edit);
    sink.set_reused(writer.0.space.reused_since_commit(), found.base);
    {
        let mut tree = writer.0.tree_mut();
        tree.nodes.clear();
        if let Some(edit) = &writer.0.edit {
            edit.at(&mut tree, root);
        }
    }
    writer.load_content(NodeId::ROOT)?;
    // There are no changes to commit yet.
    *writer.0.commits() = Some(writer.changes());
    Ok(writer)
}

/// Checks that a file has no structures that an edit does not support. Returns the page size of a paged file.
fn check(file: &File, found: &Superblock) -> Result<Option<u64>> {
    let space = file.parse(|image| superblock::file_space(image, found))?;
    let page = space.filter(|space| space.paged).map(|space| space.page_size);
    let is_of_store = file.root()?.group()?.link(BLOCKS)?.is_some();
    let odd = [
        (is_of_store, "datasets of a sharded store, whose folder is missing"),
        (found.cache_image.is_some(), "a metadata cache image"),
        (found.driver.is_some(), "driver information"),
        (found.chunk_k == 0, "chunk B-trees of rank 0"),
        (found.sizes.address != 8 || found.sizes.length != 8, "addresses that do not have 8 bytes"),
        (page.is_some_and(|page| !PAGE_BYTES.contains(&page)), "pages of a size that HDF5 does not allow"),
    ];
    match odd.iter().find(|(is, _)| *is) {
        Some((_, what)) => Err(Error::new(
            ErrorKind::Unsupported,
            format!("cannot edit the file: it has {what}; `hyperchunk pack` makes a file that can be edited"),
        )),
        None => Ok(page),
    }
}
