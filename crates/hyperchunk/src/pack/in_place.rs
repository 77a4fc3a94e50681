//! Packing of a file in place: writes a new file in the same folder, compares it with the old one, and
//! renames it over the old one.

use super::{Input, PackOptions, PackPlan, PackReport, VerifyReport};
use crate::os;
use crate::output::{self, Folder};
use crate::storage::has_store;
use crate::write::{check_not_edited, check_recovered, check_unjournalled};
use crate::{Error, ErrorKind, File, OpenOptions, Result};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

/// A temporary file, which is deleted when dropped unless it has replaced the old file.
struct NewFile {
    path: PathBuf,
    kept: bool,
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.kept {
            // An error is ignored: the one that caused the drop is reported.
            drop(std::fs::remove_file(&self.path));
        }
    }
}

/// Packs a local file in place. The new file is written to the same folder, read again and compared with the
/// old one, synced, and renamed over it; until then the old file is unchanged. Permissions, owner and
/// extended attributes are kept where that is possible; a note in the report names the others.
/// Meanwhile the file is locked, so that it cannot be opened for writing.
///
/// `progress` is called with the number of bytes copied, and then compared, since the last call.
///
/// # Errors
/// Invalid for a file with several names (hard links of the file system), for a file of a sharded store, and
/// for invalid options; Changed if the file was changed meanwhile; the errors of packing. On an error, the
/// old file is unchanged.
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
    // The lock does not protect the file from writers in this process.
    check_not_edited(&metadata)?;
    check_unjournalled(path)?;
    check_recovered(path)?;
    let (folder, name) = Folder::open_parent(path).map_err(|error| failed("open the folder", &error))?;
    let identity = folder.look(&name).map_err(|error| failed("find the file", &error))?.identity;
    let temporary = output::temporary(&name);
    let input = Input { file: old.clone(), into: String::new() };
    let packing = PackPlan::new(vec![input], PackOptions { replace: true, ..options })?;
    // Other users cannot read the new file before it has the permissions of the old one.
    folder.create(&temporary, 0, 0o600).map_err(|error| failed("create a file in the folder", &error))?;
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
        .map_err(|error| failed("rename the new file to the old one", &error))?;
    new.kept = true;
    folder.sync();
    Ok((packed, verified))
}

fn check(path: &Path, metadata: &Metadata) -> Result<()> {
    if os::names(metadata) > 1 {
        return Err(Error::invalid(format!(
            "cannot pack the file in place: expected one name, got {} (hard links of the file system), of which \
             only one would refer to the new file; pack it to another file",
            os::names(metadata)
        )));
    }
    if !metadata.is_file() {
        return Err(Error::invalid(
            "cannot pack in place: expected a file, got a folder, a pipe or a device",
        ));
    }
    if has_store(path) {
        return Err(Error::invalid(
            "cannot pack the file of a sharded store in place: use `hyperchunk store pack` to make one file of it",
        ));
    }
    Ok(())
}

/// Copies owner, permissions and extended attributes of the old file to the new one; returns a note for each
/// that could not be copied.
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
    // The permissions are set after the owner: changing the owner clears the set-user-ID and set-group-ID
    // bits.
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
