//! Identity of the file at the path of a store.

use std::fs::Permissions;
use std::path::Path;
use std::time::SystemTime;

/// Identity of a file, to tell it from an earlier one at the same path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    size: u64,
    modified: SystemTime,
    #[cfg(unix)]
    inode: (u64, u64),
    pub(crate) permissions: Permissions,
}

impl FileIdentity {
    pub(crate) fn from_path(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self {
            size: metadata.len(),
            modified: metadata.modified().ok()?,
            #[cfg(unix)]
            inode: {
                use std::os::unix::fs::MetadataExt as _;
                (metadata.dev(), metadata.ino())
            },
            permissions: metadata.permissions(),
        })
    }
}
