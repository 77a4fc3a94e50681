//! State of the store that writers start from, and the check that it is still current.

use super::uncommitted;
use crate::location::file_identity::FileIdentity;
use crate::location::site::Site;
use crate::{DatasetId, Definition, Manifest, StoreId};
use hyperchunk::{Error, ErrorKind, Result};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// State of a store that a writer needs. The process that created the store passes it to the
/// others, so that they need not read the store.
#[derive(Debug, Clone, Default)]
pub struct KnownStore {
    /// ID of the store.
    pub store: StoreId,
    /// The newest epoch; 0 for none.
    pub epoch: u64,
    /// Identity of the file at the store's path at that time; each commit replaces the file.
    pub seen: Option<FileStamp>,
}

/// A store that was just created; committing with it saves reading the store.
#[derive(Debug, Clone)]
pub struct NewStore {
    /// State of the store that its writers need.
    pub known: KnownStore,
    /// The file at its path.
    pub(crate) image: Arc<[u8]>,
    /// The datasets, if the file has nothing else.
    pub(crate) plain: Option<Arc<[Definition]>>,
    /// Identity of that file, to detect that it was replaced.
    pub(crate) identity: Option<FileIdentity>,
}

/// Identity of a file, equal on all nodes of a shared file system: inode, size and time of
/// modification. It differs after the file was replaced or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileStamp {
    /// Inode.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Time of modification, in nanoseconds since 1970.
    pub modified: u64,
}

impl FileStamp {
    /// Returns the identity of the file at a path; `None` if there is no file.
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Some(Self { inode, size: metadata.len(), modified: u64::try_from(modified).unwrap_or(u64::MAX) })
    }
}

impl KnownStore {
    /// Returns the newest epoch, if others have committed since. If the file's identity is known
    /// and unchanged, nothing else is read; otherwise the store's folder is listed.
    pub(crate) fn newer(&self, site: Site<'_>) -> Result<Option<Arc<Manifest>>> {
        match (site.local(), self.seen) {
            (Some(path), Some(seen)) if FileStamp::from_path(path) == Some(seen) => return Ok(None),
            (Some(path), Some(_)) if !path.exists() => {
                let message = "cannot write to the store: its file no longer exists";
                return Err(Error::new(ErrorKind::NotFound, message).file(path.display()));
            }
            // The state was determined before the file was created, or is the base of a compaction.
            (Some(_), None) if self.epoch > 0 || !site.operations().has_file()? => return Ok(None),
            _ => {}
        }
        let newest = Manifest::newest(site)?;
        if newest.is_none() {
            uncommitted::check_folder(site)?;
        }
        // The first epoch may have been made by writers that did not know the store's id.
        let other = |newest: &Arc<Manifest>| self.epoch > 0 && newest.store != self.store;
        if newest.as_ref().is_some_and(other) {
            let message = "cannot write to the store: another store has taken its place; open it again";
            return Err(Error::invalid(message).file(site.operations().path().display()));
        }
        Ok(newest.filter(|newest| newest.number > self.epoch))
    }
}

/// A writer's view of a dataset that it defined.
#[derive(Debug, Clone)]
pub struct OwnDataset {
    /// Its definition.
    pub definition: Arc<Definition>,
    /// Its identity.
    pub id: DatasetId,
    /// Its extent.
    pub dims: Vec<u64>,
}
