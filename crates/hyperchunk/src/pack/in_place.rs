//! Packing of a file in place: a new file beside it, compared with it, which then takes its name.

use super::{Input, PackOptions, PackPlan, PackReport, VerifyReport};
use crate::os;
use crate::output::{self, Folder};
use crate::storage::store_folder;
use crate::write::{check_not_edited, check_recovered, check_unjournalled};
use crate::{Error, ErrorKind, File, OpenOptions, Result};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

/// A new file, which is deleted unless it gets the name of the old one.
struct NewFile {
    path: PathBuf,
    kept: bool,
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.kept {
            // The error that led here is the one to report.
            drop(std::fs::remove_file(&self.path));
        }
    }
}

/// Packs a local file in place. The new file is written beside it, read again and compared with it, synced, and
/// renamed to it; until then the file is as it was. It keeps its permissions, owner and extended attributes where
/// that is possible; a note names what could not be kept. The file is locked for writers meanwhile.
///
/// `progress` gets the number of bytes copied, and then compared, each time.
///
/// # Errors
/// Invalid for a file with several names (hard links of the file system), for one of a sharded store, and for
/// options that make no sense; Changed if the file changed meanwhile; the errors of packing. Then there is no new
/// file.
pub fn pack_in_place(
    path: &Path,
    opening: &OpenOptions,
    options: PackOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(PackReport, VerifyReport)> {
    let path = &*output::target(path)?;
    pack(path, opening, options, progress).map_err(|error| error.file(path.display()))
}

fn failed(what: &str, error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {what}: {error}"))
}

fn pack(
    path: &Path,
    opening: &OpenOptions,
    options: PackOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(PackReport, VerifyReport)> {
    let old = File::open(path, opening)?;
    let metadata = path.metadata().map_err(|error| failed("read the file's metadata", &error))?;
    check(path, &metadata)?;
    output::check_permission(path)?;
    // A lock does not keep a program from its own file.
    check_not_edited(&metadata)?;
    check_unjournalled(path)?;
    check_recovered(path)?;
    let (folder, name) = Folder::of(path).map_err(|error| failed("open the folder", &error))?;
    let identity = folder.look(&name).map_err(|error| failed("find the file", &error))?.identity;
    let temporary = output::temporary(&name);
    let input = Input { file: old.clone(), into: String::new() };
    let packing = PackPlan::new(vec![input], PackOptions { replace: true, ..options })?;
    // Nobody else reads it before it has the permissions of the old one.
    folder.create(&temporary, 0, 0o600).map_err(|error| failed("make a file beside it", &error))?;
    let mut new = NewFile { path: folder.path().join(&temporary), kept: false };
    let mut packed = packing.write(&new.path, progress)?;
    let mut reading = OpenOptions { index: crate::index::IndexOption::Never, ..opening.clone() };
    reading.locking = crate::io::Locking::Never;
    let verified = packing.verify(&File::open(&new.path, &reading)?, progress)?;
    let file = folder.open_file(&temporary).map_err(|error| failed("open the new file", &error))?;
    packed.notes.extend(keep_metadata(path, &metadata, &file));
    file.sync_all().map_err(|error| failed("sync the new file", &error))?;
    old.check_unchanged()?;
    check_not_edited(&metadata)?;
    check_unjournalled(path)?;
    let now = folder.look(&name).map_err(|error| failed("find the file", &error))?;
    if now.identity != identity || !folder.is_at(&temporary, &file) {
        let message = "cannot replace the file: another program replaced it meanwhile; pack it again";
        return Err(Error::new(ErrorKind::Changed, message));
    }
    folder
        .rename(&temporary, (&folder, &name), true)
        .map_err(|error| failed("give the new file its name", &error))?;
    new.kept = true;
    folder.sync();
    Ok((packed, verified))
}

fn check(path: &Path, metadata: &Metadata) -> Result<()> {
    if os::names(metadata) > 1 {
        return Err(Error::invalid(format!(
            "cannot pack the file in place: expected one name, got {} (hard links of the file system), of which \
             only one would lead to the new file; pack it to another file",
            os::names(metadata)
        )));
    }
    if !metadata.is_file() {
        return Err(Error::invalid(
            "cannot pack in place: expected a file, got a folder, a pipe or a device",
        ));
    }
    if store_folder(path).is_dir() {
        return Err(Error::invalid(
            "cannot pack the file of a sharded store in place; `hyperchunk store pack` makes one file of it",
        ));
    }
    Ok(())
}

/// Gives the new file the metadata of the old one; returns what was not possible.
#[cfg(unix)]
fn keep_metadata(path: &Path, old: &Metadata, new: &std::fs::File) -> Vec<String> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
    let mut notes = Vec::new();
    let own = new.metadata().map(|new| (new.uid(), new.gid())).ok();
    if own != Some((old.uid(), old.gid()))
        && let Err(error) = fchown(new, Some(old.uid()), Some(old.gid()))
    {
        notes.push(format!("the owner (user {}, group {}) is not kept: {error}", old.uid(), old.gid()));
    }
    // After the owner: a change of the owner clears some bits.
    let mode = std::fs::Permissions::from_mode(old.mode() & 0o7777);
    if let Err(error) = new.set_permissions(mode) {
        notes.push(format!("the permissions are not kept: {error}"));
    }
    #[cfg(target_os = "linux")]
    notes.extend(output::copy_extended_attributes(path, new));
    #[cfg(not(target_os = "linux"))]
    let _ = path;
    notes
}

#[cfg(not(unix))]
fn keep_metadata(_: &Path, _: &Metadata, _: &std::fs::File) -> Vec<String> {
    Vec::new()
}
