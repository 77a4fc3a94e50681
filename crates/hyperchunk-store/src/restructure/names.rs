//! File names of complete layouts. A layout that was not synced may lose data in a crash, so its
//! name contains the machine's boot id, and it is ignored after a reboot.

use super::marks::boot;
use super::{CONTENTS, LAYOUT, PARTIAL};
use std::path::{Path, PathBuf};

/// Returns the layout of a folder that can be read, if there is one.
pub(super) fn whole(folder: &Path) -> Option<PathBuf> {
    let synced = folder.join(LAYOUT);
    if synced.exists() {
        return Some(synced);
    }
    unsynced(folder).filter(|path| path.exists())
}

/// Returns the name of a layout that was not synced; `None` if boots cannot be distinguished.
pub(super) fn unsynced(folder: &Path) -> Option<PathBuf> {
    Some(boot()).filter(|boot| *boot != 0).map(|boot| folder.join(format!("layout.{boot:016x}.h5")))
}

/// Deletes leftovers next to a complete layout: intermediate files, and layouts of other boots.
pub(super) fn tidy(folder: &Path, kept: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let made_from = ["marks", "between", "encoded", "sizes"].contains(&name);
        let boot = name.strip_prefix("layout.").and_then(|name| name.strip_suffix(".h5"));
        let of_a_run =
            boot.is_some_and(|boot| boot.len() == 16 && boot.bytes().all(|byte| byte.is_ascii_hexdigit()));
        // From other processes that made the layout as well, or were stopped.
        let is_note = name.starts_with(&format!(".{CONTENTS}.")) && name.ends_with(".part");
        let is_unfinished = is_note || name.trim_start_matches('.').starts_with(PARTIAL);
        if (made_from || of_a_run || is_unfinished) && entry.path() != kept {
            drop(std::fs::remove_file(entry.path()));
        }
    }
}
