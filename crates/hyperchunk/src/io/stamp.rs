//! File metadata by which changes of an open file are detected.

use crate::os;
use std::fs::Metadata;
use std::path::Path;
use std::time::SystemTime;

/// Size, times, number of links, and permissions of a file. Equal stamps mean equal contents, within the
/// resolution of the file system's times, and the same file at the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    size: u64,
    written: Option<SystemTime>,
    changed: Option<(i64, i64)>,
    links: u64,
    #[cfg(unix)]
    permissions: (u32, u32, u32),
    /// False if the file had lost its name. If another file takes the name later, nothing about this file
    /// changes, so the name is looked up at each comparison.
    is_named: bool,
}

/// Reason why a file's stamp changed.
#[cfg_attr(not(unix), expect(dead_code, reason = "a file without a number may have changed at any time"))]
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
            is_named: true,
        }
    }

    /// Returns the stamp of a file that was just opened, which may have lost all its names meanwhile.
    pub(super) fn at_opening(metadata: &Metadata) -> Self {
        Self { is_named: os::names(metadata) > 0, ..Self::of(metadata) }
    }

    /// Determines the change between this stamp and a later one of the file whose metadata are `own`, and
    /// records in the later one whether `path` leads to a file.
    ///
    /// Renaming, linking, deleting or changing permissions also changes the change time, but not the contents.
    /// If none of these explains a new change time, the file was written to and its modification time set back
    /// (`rsync -t`, `cp -p`).
    #[cfg(unix)]
    pub(super) fn compare(&self, now: &mut Self, path: Option<&Path>, own: &Metadata) -> Change {
        let at = path.map(std::fs::metadata);
        now.is_named = !matches!(at, Some(Err(_)));
        let is_elsewhere = matches!(&at, Some(Ok(at)) if !os::is_same(at, own));
        // Each commit of a store replaces the file; the opened version stays unchanged.
        if is_elsewhere && !path.is_some_and(is_of_a_store) {
            return Change::Replaced;
        }
        if (self.size, self.written) != (now.size, now.written) {
            return Change::Written;
        }
        let moved = is_elsewhere || !now.is_named || !self.is_named;
        if moved || self.links != now.links || self.permissions != now.permissions {
            return Change::MetadataOnly;
        }
        Change::Written
    }

    #[cfg(not(unix))]
    pub(super) fn compare(&self, _: &mut Self, _: Option<&Path>, _: &Metadata) -> Change {
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
