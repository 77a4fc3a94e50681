//! Salvage: copies the undamaged content of a damaged file to a new file.
//!
//! The steps are **open → find → scan → check → rebuild**. The superblock is read, or guessed. Objects are
//! found by following the undamaged links. If anything is damaged, the bytes are scanned for object headers
//! that no link leads to. The data of each dataset are read and decoded. Undamaged content is written to a
//! new file by the code of [`crate::pack`]. No value is invented: an incomplete dataset is omitted, or
//! written with a list of its missing parts.

mod check;
mod copying;
mod divide;
mod extents;
mod find;
mod holes;
mod live;
mod open;
mod rebuild;
mod report;
mod scan;
mod structure;

pub use live::{LiveChecks, set_live_checks};
pub use report::{Condition, Evidence, Loss, MissingPart, SalvageReport, SalvagedObject};

use crate::io::{LocalFile, Source};
use crate::output;
use crate::{OpenOptions, Result};
use check::ObjectCheck;
use extents::Extents;
use std::path::Path;
use std::sync::Arc;

/// Options of a salvage.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SalvageOptions {
    /// True to write the undamaged parts of incomplete datasets. The attribute [`MISSING_ATTRIBUTE`] lists
    /// the missing parts, which read as the fill value.
    pub partial: bool,
    /// True if an existing output may be replaced.
    pub replace: bool,
    /// Number of threads that copy; 0 for the number of processors.
    pub threads: usize,
    /// Approximate maximum number of bytes of data in memory at a time.
    pub memory: u64,
}

impl Default for SalvageOptions {
    fn default() -> Self {
        Self { partial: false, replace: false, threads: 0, memory: 64 << 20 }
    }
}

/// Step of a salvage that reports progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Reads and decodes the data of objects.
    Check,
    /// Scans the bytes for objects that no link leads to.
    Scan,
    /// Copies the undamaged data.
    Copy,
}

/// Attribute that lists the missing parts of an incomplete dataset: start and count of each, as an array of
/// shape (parts, 2, rank).
pub const MISSING_ATTRIBUTE: &str = "hyperchunk_salvage_missing";

/// Group in the new file for objects that no link leads to.
pub const LOST_AND_FOUND: &str = "lost+found";

/// Copies the undamaged content of the file at `path` to a new file at `output`. The damaged file is not
/// changed. `progress` is called repeatedly with a step and the number of bytes that it has processed since
/// the last call.
///
/// # Errors
/// Errors of the system; NotHdf5 if no object of an HDF5 file is found; Exists or Invalid for an output that
/// cannot be written. Damage is not an error: the report lists it.
pub fn salvage(
    path: &Path,
    output: &Path,
    options: &SalvageOptions,
    progress: &(dyn Fn(Step, u64) + Sync),
) -> Result<SalvageReport> {
    let check = |bytes| progress(Step::Check, bytes);
    output::check(output, options.replace, &[path])?;
    let (source, note) = open_source(path)?;
    source.follow_growth();
    let open_options = OpenOptions {
        ignore_locks: true,
        allow_truncated: true,
        ignore_stores: true,
        ignore_layouts: true,
        threads: options.threads,
        ..OpenOptions::default()
    };
    let opened = open::open(&source, path, &open_options)?;
    let file = opened.file;
    let mut found = find::KnownObjects::default();
    if let Some(root) = opened.root {
        found.walk(&file, root, b"/", false)?;
    }
    let mut checks = check_from(&found, 0, &check)?;
    let mut extents = Extents::default();
    for (object, checked) in found.objects.iter().zip(&checks) {
        extents.add_object(object, checked);
    }
    extents.sort();
    let mut damage = opened.damage;
    damage.extend(note);
    if !damage.is_empty() || opened.unclosed || found.is_damaged() {
        let first = found.objects.len();
        let scanned = scan::orphans(&source, path, &file, &open_options, &found, &extents, &|bytes| {
            progress(Step::Scan, bytes);
        })?;
        damage.extend(scanned.notes);
        found.adopt(&file, scanned.objects)?;
        let orphans = check_from(&found, first, &check)?;
        found.drop_overlapping(first, &orphans, &extents, &mut checks, &mut damage);
    }
    if found.objects.is_empty() && found.lost.is_empty() {
        let error = crate::Error::new(crate::ErrorKind::NotHdf5, "no object of an HDF5 file was found");
        return Err(error.file(path.display()));
    }
    damage.extend(extents::conflicts(&found.objects, &checks));
    rebuild::rebuild(found, checks, &file, output, options, damage, progress)
}

/// Opens the damaged file. If an edit of it was interrupted, its bytes are those after the commit, which are read from
/// the journal. If the journal cannot be used, returns a note with the reason.
fn open_source(path: &Path) -> Result<(Arc<dyn Source>, Option<String>)> {
    let open = || LocalFile::open(path).map_err(|error| error.file(path.display()));
    let file = open()?;
    let waiting = crate::write::read_to_salvage(path);
    let error = match waiting {
        Ok(None) => return Ok((Arc::new(file), None)),
        Ok(Some(waiting)) => match waiting.over(file) {
            Ok(committed) => return Ok((Arc::new(committed), None)),
            Err(error) => error,
        },
        Err(error) => error,
    };
    let note =
        format!("the journal of an interrupted edit was not used, so a commit may be incomplete: {error}");
    Ok((Arc::new(open()?), Some(note)))
}

/// Checks the objects with index `first` or higher.
fn check_from(
    found: &find::KnownObjects,
    first: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<ObjectCheck>> {
    let objects = found.objects.get(first..).unwrap_or_default();
    objects.iter().map(|object| check::check(object, progress)).collect()
}
