//! Catalogue of the layouts of a file's datasets, and the choice of the cheapest one for a read.

use super::job::{chunk_shape, request_in};
use super::plan::OPERATION_COST_BYTES;
use super::{ADOPTED, CONTENTS, FOLDER, Request, names, source};
use crate::{real_file, store_folder};
use hyperchunk::companion::{self, Trust};
use hyperchunk::internal::contents;
use hyperchunk::io::{LocalFile, Source};
use hyperchunk::output;
use hyperchunk::{Dataset, Error, ErrorKind, ExternalPolicy, File, OpenOptions, Result};
use hyperchunk_format::select::Selection;
use std::collections::HashMap;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Maximum number of layouts of a file that are considered.
const MAX_LAYOUTS: usize = 256;
/// Maximum length in bytes of a note in the folder of a layout.
const MAX_NOTE_BYTES: u64 = 4096;
/// Cost of a byte in a filtered chunk, relative to an unfiltered one.
const FILTERED_COST_RATIO: f64 = 3.0;
/// Smallest unit of disk reads, in bytes.
const PAGE_BYTES: f64 = 4096.0;
/// Fraction of the dataset's own cost below which a layout is used.
const MAX_COST_RATIO: f64 = 0.8;

/// A layout in the folder of a file.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LayoutInfo {
    /// Its id.
    pub id: String,
    /// The request that it was made from.
    pub request: Request,
    /// Its folder.
    pub folder: PathBuf,
    /// Its file, if it is complete.
    pub path: Option<PathBuf>,
    /// Size of its files in bytes.
    pub bytes: u64,
    /// Its state.
    pub state: State,
}

/// State of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Complete and current; it is used for reading.
    Used,
    /// In progress, or interrupted.
    Unfinished,
    /// The dataset changed since, so it is not read.
    Stale,
}

/// Returns the layouts of a local file.
///
/// # Errors
/// Errors of opening the file; Io.
pub fn layouts(path: &Path) -> Result<Vec<LayoutInfo>> {
    let mut options = OpenOptions::default();
    options.ignore_layouts = true;
    crate::register();
    let file = File::open(path, &options)?;
    let mut listed = Vec::new();
    let of = real_file(path);
    let trust = Trust::for_path(&of);
    for (id, folder) in folders(&of, &trust)? {
        let Ok((request, identity)) = request_in(&folder, &trust) else { continue };
        let path = names::whole(&folder);
        let state = match (path.is_some(), matches_file(&file, &request, &identity, (&folder, &trust))) {
            (_, Ok(false)) => State::Stale,
            (false, _) => State::Unfinished,
            (true, Ok(true)) => State::Used,
            (true, Err(_)) => State::Stale,
        };
        listed.push(LayoutInfo { id, request, bytes: folder_bytes(&folder), folder, path, state });
    }
    Ok(listed)
}

/// Deletes a layout, finished or not; the file itself is not changed. Readers of the layout
/// continue with the file.
///
/// # Errors
/// NotFound if no layout, or more than one, has an id with this prefix; Io.
pub fn remove(path: &Path, id: &str) -> Result<PathBuf> {
    let path = &*output::target(path)?;
    let folder = store_folder(path).join(FOLDER).join(find(path, id)?);
    let refused = |error: std::io::Error| {
        Error::new(ErrorKind::Io, format!("cannot delete the layout: {error}")).file(folder.display())
    };
    std::fs::remove_dir_all(&folder).map_err(refused)?;
    // Succeeds only for empty folders.
    drop(std::fs::remove_dir(store_folder(path).join(FOLDER)));
    drop(std::fs::remove_dir(store_folder(path)));
    Ok(folder)
}

/// Returns the layout whose id has this prefix.
pub(super) fn find(path: &Path, id: &str) -> Result<String> {
    let none = |message: &str| Error::new(ErrorKind::NotFound, message).file(path.display());
    let all = folders(path, &Trust::for_path(path))?;
    let mut found =
        all.into_iter().map(|(name, _)| name).filter(|name| !id.is_empty() && name.starts_with(id));
    match (found.next(), found.next()) {
        (Some(name), None) => Ok(name),
        (Some(_), Some(_)) => Err(none(&format!("several layouts begin with {}", id.escape_debug()))),
        _ => Err(none(&format!("there is no layout {}", id.escape_debug()))),
    }
}

/// Returns the folders of layouts, sorted by name. Folders that other users could have made are
/// ignored.
fn folders(path: &Path, trust: &Trust) -> Result<Vec<(String, PathBuf)>> {
    let folder = store_folder(path).join(FOLDER);
    let counts = |folder: &Path| {
        let found = trust.folder(folder).map(|there| there.then_some(()));
        companion::counted("a folder of layouts", found).is_some()
    };
    if !counts(&store_folder(path)) || !counts(&folder) {
        return Ok(Vec::new());
    }
    let refused = |error: std::io::Error| {
        Error::new(ErrorKind::Io, format!("cannot read the folder: {error}")).file(folder.display())
    };
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(refused(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(refused)?;
        let name = entry.file_name();
        let name = name
            .to_str()
            .filter(|name| name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if let Some(name) = name
            && found.len() < MAX_LAYOUTS
            && counts(&entry.path())
        {
            found.push((name.to_owned(), entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).fold(0, u64::saturating_add)
}

/// Opens the dataset of a request in an open file.
fn open_dataset(file: &File, request: &Request) -> Result<Dataset> {
    file.root()?.named("/").group()?.get(request.dataset.as_bytes())?.dataset()
}

/// Returns whether a layout matches the current version of a file.
fn matches_file(file: &File, request: &Request, identity: &str, of: (&Path, &Trust)) -> Result<bool> {
    if identity.starts_with("store:") {
        let dataset = open_dataset(file, request)?;
        return Ok(dataset.store().is_some() && source::identity(&dataset)? == identity);
    }
    let is = |identity: &str| -> Result<bool> {
        // Most changes are detected without reading data.
        if source::quick(file).is_none_or(|quick| !identity.starts_with(&quick)) {
            return Ok(false);
        }
        let dataset = open_dataset(file, request)?;
        Ok(dataset.store().is_none() && source::identity(&dataset)? == identity)
    };
    if is(identity)? {
        return Ok(true);
    }
    // The file may be a copy of the one that the layout was made from.
    let (folder, trust) = of;
    if note(folder, ADOPTED, trust).map_or(Ok(false), |(adopted, _)| is(&adopted))? {
        return Ok(true);
    }
    let Some((digest, opened)) = note(folder, CONTENTS, trust) else { return Ok(false) };
    if contents::of(&**file.source())?.is_none_or(|(_, found)| found != digest) {
        return Ok(false);
    }
    let dataset = open_dataset(file, request)?;
    if dataset.store().is_some() {
        return Ok(false);
    }
    // Saves other processes from reading the contents. A failure is ignored: it costs only time.
    if companion::is_own(&opened) {
        let path = folder.join(ADOPTED);
        let written = output::write(&path, source::identity(&dataset)?.as_bytes(), true);
        drop(written.map(|()| companion::tighten(&path, file.path().unwrap_or(Path::new("")))));
    }
    Ok(true)
}

/// Returns a short text in the folder of a layout, and its open file.
fn note(folder: &Path, name: &str, trust: &Trust) -> Option<(String, LocalFile)> {
    let opened = trust.open(&folder.join(name), 0).ok()??;
    let mut text = String::new();
    std::io::Read::take(opened.as_file(), MAX_NOTE_BYTES).read_to_string(&mut text).ok()?;
    Some((text, opened))
}

/// Layouts of an open file that can be read in place of its datasets.
#[derive(Debug, Default)]
pub(crate) struct Layouts(OnceLock<HashMap<u64, Vec<Arc<UsableLayout>>>>);

#[derive(Debug)]
struct UsableLayout {
    trust: Trust,
    path: PathBuf,
    request: Request,
    chunk: Vec<u64>,
    /// True if its chunks are filtered.
    decoded: bool,
    /// Its dataset, after the first attempt to open it; `Some(None)` if that failed.
    opened: Mutex<Option<Option<Dataset>>>,
}

impl Layouts {
    /// Returns the layout that serves a selection at the lowest cost, if it is cheaper than the
    /// dataset itself.
    pub(crate) fn cheapest(&self, dataset: &Dataset, selection: &Selection) -> Option<Dataset> {
        let file = dataset.object().file();
        let all = self.0.get_or_init(|| load(file).unwrap_or_default());
        if all.is_empty() {
            return None;
        }
        let of_it = all.get(&dataset.object().address())?;
        let bounds = selection.bounds(dataset.dims()).ok()??;
        let own = cost(
            dataset.dims(),
            &bounds,
            &chunk_shape(dataset),
            dataset.datatype().size,
            !dataset.pipeline().is_empty(),
        );
        let mut best: Option<(f64, &Arc<UsableLayout>)> = None;
        for usable in of_it {
            let cost = cost(dataset.dims(), &bounds, &usable.chunk, dataset.datatype().size, usable.decoded);
            if cost < own * MAX_COST_RATIO && best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, usable));
            }
        }
        let (_, usable) = best?;
        // Epochs are immutable; a file may be written to at any time.
        if dataset.store().is_none() && !source::is_same(file).unwrap_or(false) {
            return None;
        }
        usable.dataset(dataset)
    }
}

impl UsableLayout {
    /// Opens the layout; `None` if it is invalid.
    fn dataset(&self, of: &Dataset) -> Option<Dataset> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let open = || {
            let mut options = of.object().file().options().clone();
            options.ignore_layouts = true;
            // Our layouts do not refer to other files.
            options.external = ExternalPolicy::Never;
            options.epoch = None;
            options.index = hyperchunk::index::IndexOption::Never;
            let opened = self.trust.open(&self.path, 0);
            let opened: Arc<dyn Source> = Arc::new(companion::counted("a layout", opened)?);
            let file = File::from_source(opened, Some(self.path.clone()), &options).ok()?;
            let dataset = open_dataset(&file, &self.request).ok()?;
            let same = dataset.dims() == of.dims() && dataset.datatype() == of.datatype();
            // Our layouts are plain chunked datasets of this file.
            let plain = dataset.chunked().is_some() && !dataset.is_live() && dataset.store().is_none();
            let here = dataset.object().file().path() == Some(self.path.as_path());
            Some(dataset).filter(|_| same && plain && here)
        };
        opened.get_or_insert_with(open).clone()
    }
}

/// Loads all layouts that match the current version of a file.
fn load(file: &File) -> Result<HashMap<u64, Vec<Arc<UsableLayout>>>> {
    let mut all: HashMap<u64, Vec<Arc<UsableLayout>>> = HashMap::new();
    let options = file.options();
    let may = !file.is_remote() && !options.ignore_layouts && options.external != ExternalPolicy::Never;
    let Some(path) = file.path().filter(|_| may) else {
        return Ok(all);
    };
    let of = &*real_file(path);
    let trust = Trust::of(&**file.source(), of);
    for (id, folder) in folders(of, &trust)? {
        let Some(path) = names::whole(&folder) else { continue };
        let Ok((request, identity)) = request_in(&folder, &trust) else { continue };
        if request.id(&identity) != id
            || !matches_file(file, &request, &identity, (&folder, &trust)).unwrap_or(false)
        {
            continue;
        }
        let Ok(dataset) = open_dataset(file, &request) else { continue };
        let Ok(chunk) = request.shape(dataset.dims(), dataset.datatype().size) else { continue };
        let decoded = request
            .pipeline(dataset.datatype(), &chunk, &dataset.fill().value)
            .is_ok_and(|pipeline| !pipeline.is_empty());
        let usable =
            UsableLayout { trust: trust.clone(), path, request, chunk, decoded, opened: Mutex::default() };
        all.entry(dataset.object().address()).or_default().push(Arc::new(usable));
    }
    Ok(all)
}

/// Estimates the cost of reading a box: bytes, and operations expressed in bytes.
fn cost(extent: &[u64], bounds: &[Range<u64>], chunk: &[u64], element: u64, decoded: bool) -> f64 {
    // Over all dimensions: number of chunks, runs per chunk, and elements per run.
    let (mut chunks, mut whole, mut runs, mut run) = (1.0, element as f64, 1.0, 1.0);
    let mut inside = true;
    for ((range, chunk), extent) in bounds.iter().zip(chunk).zip(extent).rev() {
        let touched = (range.end.div_ceil(*chunk) - range.start / chunk) as f64;
        let common = (range.end - range.start) as f64 / touched;
        chunks *= touched;
        whole *= (*chunk).min(*extent) as f64;
        if inside {
            run *= common;
        } else {
            runs *= common;
        }
        inside = inside && range.end - range.start >= (*chunk).min(*extent);
    }
    if decoded {
        return chunks * (whole * FILTERED_COST_RATIO + OPERATION_COST_BYTES);
    }
    chunks
        * (runs * ((run * element as f64).max(PAGE_BYTES) + OPERATION_COST_BYTES))
            .min(whole + OPERATION_COST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_decides() {
        let extent = [8192, 8192];
        let column = [0..8192, 5..6];
        let row = [5..6, 0..8192];
        let contiguous = |bounds: &[Range<u64>]| cost(&extent, bounds, &extent, 4, false);
        let columns = |bounds: &[Range<u64>]| cost(&extent, bounds, &[8192, 32], 4, false);
        let packed = |bounds: &[Range<u64>]| cost(&extent, bounds, &[8192, 32], 4, true);
        assert!(columns(&column) * 20.0 < contiguous(&column));
        assert!(packed(&column) * 10.0 < contiguous(&column));
        assert!(contiguous(&row) * 20.0 < columns(&row));
        let all = [0..8192, 0..8192];
        assert!(contiguous(&all) <= columns(&all) && columns(&all) < packed(&all));
    }
}
