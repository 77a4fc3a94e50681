//! What a layout is called when it is whole. One that nobody waited for until it was on the disk may lose bytes when the
//! machine stops: its name says in which run of the machine it was made, and in another run it is no layout.

use super::marks::boot;
use super::{LAYOUT, PARTIAL};
use std::path::{Path, PathBuf};

/// The layout of a folder that can be read, if there is one.
pub(super) fn whole(folder: &Path) -> Option<PathBuf> {
    let synced = folder.join(LAYOUT);
    if synced.exists() {
        return Some(synced);
    }
    unsynced(folder).filter(|path| path.exists())
}

/// What one is called that may be lost with this run of the machine; `None` where runs cannot be told apart.
pub(super) fn unsynced(folder: &Path) -> Option<PathBuf> {
    Some(boot()).filter(|boot| *boot != 0).map(|boot| folder.join(format!("layout.{boot:016x}.h5")))
}

/// Deletes what lies beside a layout that is whole: what it was made from, and those of other runs.
pub(super) fn tidy(folder: &Path, kept: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let made_from = ["marks", "between", "encoded", "sizes"].contains(&name);
        let boot = name.strip_prefix("layout.").and_then(|name| name.strip_suffix(".h5"));
        let of_a_run =
            boot.is_some_and(|boot| boot.len() == 16 && boot.bytes().all(|byte| byte.is_ascii_hexdigit()));
        // Of whoever else made it, or was stopped while it did.
        let is_unfinished = name.trim_start_matches('.').starts_with(PARTIAL);
        if (made_from || of_a_run || is_unfinished) && entry.path() != kept {
            drop(std::fs::remove_file(entry.path()));
        }
    }
}
