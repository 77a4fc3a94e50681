//! File metadata by which changes under an open handle are noticed.

use crate::os;
use std::fs::{File, Metadata};
use std::path::Path;
use std::time::SystemTime;

/// Size, times and links of a file. Equal stamps mean equal contents, as exactly as the system keeps time.
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
pub(super) enum Found {
    /// Its name, its links or its permissions changed.
    Same,
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

    /// Finds the change between this stamp and a later one. Renaming, linking, deleting or changing
    /// permissions also changes the time of the last change, but not the contents. Where nothing else
    /// explains it, the file was written to and its modification time set back (`rsync -t`, `cp -p`).
    #[cfg(unix)]
    pub(super) fn compare(&self, now: &Self, path: Option<&Path>, file: &File) -> Found {
        if (self.size, self.written) != (now.size, now.written) {
            return Found::Written;
        }
        let at = path.map(std::fs::metadata);
        let moved = match (at, file.metadata()) {
            (Some(Ok(at)), Ok(own)) if os::is_same(&at, &own) => false,
            (Some(Ok(_)), _) if !path.is_some_and(is_of_a_store) => return Found::Replaced,
            // Each commit of a store replaces the file; the version that was opened stays whole.
            (Some(_), _) => true,
            (None, _) => false,
        };
        if moved || self.links != now.links || self.permissions != now.permissions {
            return Found::Same;
        }
        Found::Written
    }

    #[cfg(not(unix))]
    pub(super) fn compare(&self, _: &Self, _: Option<&Path>, _: &File) -> Found {
        Found::Written
    }
}

/// Returns whether a store's folder of logs is beside the file.
#[cfg(unix)]
fn is_of_a_store(path: &Path) -> bool {
    let mut folder = path.as_os_str().to_owned();
    folder.push(".d");
    Path::new(&folder).is_dir()
}
