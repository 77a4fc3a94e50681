//! File metadata by which changes of an open file are detected.

use crate::os;
use std::fs::{File, Metadata};
use std::path::Path;
use std::time::SystemTime;

/// Size, times, number of links, and permissions of a file. Equal stamps mean equal contents, within the
/// resolution of the file system's times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    size: u64,
    written: Option<SystemTime>,
    changed: Option<(i64, i64)>,
    links: u64,
    #[cfg(unix)]
    permissions: (u32, u32, u32),
}

/// Reason why a file's stamp changed.
pub(super) enum Change {
    /// Its name, its links or its permissions changed.
    MetadataOnly,
    /// Its contents changed, or may have.
    Written,
    /// Another file is at its path.
    Replaced,
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt as _;
        Self {
            size: metadata.len(),
            written: metadata.modified().ok(),
            changed: os::change_time(metadata),
            links: os::names(metadata),
            #[cfg(unix)]
            permissions: (metadata.mode(), metadata.uid(), metadata.gid()),
        }
    }

    /// Determines the change between this stamp and a later one. Renaming, linking, deleting or changing
    /// permissions also changes the change time, but not the contents. If none of these explains a new change
    /// time, the file was written to and its modification time set back (`rsync -t`, `cp -p`).
    #[cfg(unix)]
    pub(super) fn compare(&self, now: &Self, path: Option<&Path>, file: &File) -> Change {
        if (self.size, self.written) != (now.size, now.written) {
            return Change::Written;
        }
        let at = path.map(std::fs::metadata);
        let moved = match (at, file.metadata()) {
            (Some(Ok(at)), Ok(own)) if os::is_same(&at, &own) => false,
            (Some(Ok(_)), _) if !path.is_some_and(is_of_a_store) => return Change::Replaced,
            // Each commit of a store replaces the file; the opened version stays unchanged.
            (Some(_), _) => true,
            (None, _) => false,
        };
        if moved || self.links != now.links || self.permissions != now.permissions {
            return Change::MetadataOnly;
        }
        Change::Written
    }

    #[cfg(not(unix))]
    pub(super) fn compare(&self, _: &Self, _: Option<&Path>, _: &File) -> Change {
        Change::Written
    }
}

/// Returns whether a store's folder of logs is beside the file.
#[cfg(unix)]
fn is_of_a_store(path: &Path) -> bool {
    let mut folder = path.as_os_str().to_owned();
    folder.push(".d");
    Path::new(&folder).is_dir()
}
