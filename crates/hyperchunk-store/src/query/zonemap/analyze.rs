//! Analysis: computes statistics of datasets in one pass over their values.

use super::layout::{NewZones, encode};
use super::{Elements, Zonemap, grid};
use crate::Statistics;
use crate::query::answer::read_slab;
use hyperchunk::index::Identity;
use hyperchunk::internal::{contents, spread};
use hyperchunk::io::Source;
use hyperchunk::output::Output;
use hyperchunk::walk::{Next, VisitedItem};
use hyperchunk::{Dataset, Error, ErrorKind, File, Result};
use hyperchunk_format::model::{Dataspace, Layout, Name, ObjectKind};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Coarsest resolution of time stamps, except on file systems that count whole seconds.
const TIMESTAMP_RESOLUTION: Duration = Duration::from_millis(20);
/// Number of concurrent requests for remote files.
const CONCURRENT_REQUESTS: usize = 32;

/// Result of an analysis.
#[derive(Debug)]
#[non_exhaustive]
pub struct AnalyzeReport {
    /// The encoded statistics, to be written to [`super::Zonemap::place`].
    pub bytes: Vec<u8>,
    /// The datasets, each with its number of zones.
    pub datasets: Vec<(Vec<u8>, u64)>,
    /// Datasets that were skipped, with the reason.
    pub skipped: Vec<(Vec<u8>, Error)>,
    /// Number of bytes of elements that were read.
    pub bytes_scanned: u64,
}

impl AnalyzeReport {
    /// Writes the statistics to [`super::Zonemap::place`], replacing earlier ones; returns the path.
    ///
    /// # Errors
    /// Exists if a file of another kind has that path; Invalid for a file without a name; Io.
    pub fn save(&self, file: &File) -> Result<PathBuf> {
        let place = Zonemap::place(file)
            .ok_or_else(|| Error::invalid("cannot save statistics of a file without a name"))?;
        let refused = |error: std::io::Error| {
            Error::new(ErrorKind::Io, format!("cannot write {}: {error}", place.display()))
        };
        check_replaced(&place)?;
        if let Some(folder) = place.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            hyperchunk::output::make_folders(folder)?;
        }
        let of = file.path().filter(|_| file.source().remote().is_none());
        let mut output = Output::create(&place, true)?;
        output.write_all(&self.bytes).map_err(refused)?;
        output.tighten(of.unwrap_or(std::path::Path::new("")));
        output.finish()?;
        Ok(place)
    }
}

/// Fails if a file of another kind is at the path of the statistics.
fn check_replaced(place: &std::path::Path) -> Result<()> {
    let zones = &super::layout::ZONES;
    hyperchunk::companion::check_replaced(place, zones.signature, zones.one, "move it away, or delete it")
}

/// Computes statistics of datasets of a file on all processors; of all datasets with numbers, if
/// `names` is empty. `add` is called with the number of bytes just processed and the total.
///
/// # Errors
/// Invalid if the version of the file cannot be determined; Unsupported for a named dataset that
/// cannot be analysed; errors of reading.
pub fn analyze(file: &File, names: &[Vec<u8>], add: &(dyn Fn(u64, u64) + Sync)) -> Result<AnalyzeReport> {
    if let Some(place) = Zonemap::place(file) {
        check_replaced(&place)?;
    }
    let identity = Identity::from_source(&**file.source()).ok_or_else(|| {
        file.with_context(Error::invalid(
            "cannot keep statistics: the version of the file cannot be determined",
        ))
    })?;
    if let Some(time) = file.source().file().and_then(|file| file.metadata().ok()?.modified().ok()) {
        // Wait until a later write has a different time stamp, and therefore a different identity.
        let since = time.elapsed().unwrap_or_default();
        std::thread::sleep(TIMESTAMP_RESOLUTION.saturating_sub(since));
    }
    let mut left = Vec::new();
    let mut found: Vec<(Vec<u8>, Dataset)> = Vec::new();
    if names.is_empty() {
        file.walk(&file.root()?, b"/", &mut |visit| {
            if let VisitedItem::Object(object) = visit.found
                && object.kind() == ObjectKind::Dataset
            {
                let dataset = object.clone().dataset();
                match dataset.and_then(|dataset| check_numeric(&dataset).map(|()| dataset)) {
                    Ok(dataset) => found.push((visit.path.to_vec(), dataset)),
                    Err(error) if error.is_of_reading() => return Err(error),
                    Err(error) => left.push((visit.path.to_vec(), error)),
                }
            }
            Ok(Next::Enter)
        })?;
    } else {
        let root = file.root()?.named("/").group()?;
        for name in names {
            let dataset = root.get(name)?.dataset()?;
            check_numeric(&dataset).map_err(|error| error.object(Name::from(&**name)))?;
            found.push((name.clone(), dataset));
        }
    }
    let total = found.iter().fold(0_u64, |sum, (_, dataset)| {
        let bytes = dataset.elements().unwrap_or(0).saturating_mul(dataset.datatype().size);
        sum.saturating_add(bytes)
    });
    let mut made = Vec::new();
    let mut bytes_scanned = 0_u64;
    for (path, dataset) in found {
        let (new, bytes) = analyze_dataset(path, &dataset, &|bytes| add(bytes, total))?;
        bytes_scanned = bytes_scanned.saturating_add(bytes);
        made.push(new);
    }
    // The file may have been written to in the meantime.
    let named = match file.path().filter(|_| file.source().remote().is_none()) {
        Some(path) => Identity::from_source(&hyperchunk::io::LocalFile::open(path)?),
        None => Some(identity.clone()),
    };
    let now = [named, Identity::now(&**file.source())];
    if now.iter().any(|now| now.as_ref() != Some(&identity)) {
        let message = "the file changed while it was analysed";
        return Err(file.with_context(Error::new(ErrorKind::Changed, message)));
    }
    Ok(AnalyzeReport {
        bytes: encode(&with_contents(&**file.source(), identity)?, &made)?,
        datasets: made.into_iter().map(|new| (new.path, new.zones.len() as u64)).collect(),
        skipped: left,
        bytes_scanned,
    })
}

/// Adds the digest of the file's contents to its identity, so that the statistics also fit copies of it.
fn with_contents(source: &dyn Source, identity: Identity) -> Result<Identity> {
    let found = contents::of(source)?.filter(|(version, _)| *version == identity);
    Ok(found.map_or(identity, |(version, digest)| version.with_contents(&digest)))
}

/// Checks that the values of a dataset are numbers, stored in the file itself.
pub(in crate::query) fn check_numeric(dataset: &Dataset) -> Result<()> {
    Elements::from_datatype(dataset.datatype())?;
    let elsewhere = !dataset.external().is_empty() || matches!(dataset.layout(), Layout::Virtual { .. });
    let what = match () {
        () if dataset.store().is_some() => "it is in a sharded store: its writers keep statistics",
        () if dataset.is_live() => "it is live: its values are computed when they are read",
        () if elsewhere => "its values are in other files",
        () if *dataset.dataspace() == Dataspace::Null => "it has no values",
        () => return Ok(()),
    };
    Err(Error::unsupported(what))
}

/// Computes the statistics of a dataset; also returns the number of bytes read.
fn analyze_dataset(path: Vec<u8>, dataset: &Dataset, add: &(dyn Fn(u64) + Sync)) -> Result<(NewZones, u64)> {
    let elements = Elements::from_datatype(dataset.datatype())?;
    let grid = grid(dataset, elements);
    let counts = grid.counts();
    let places = match dataset.chunked() {
        Some(_) => {
            let number = |place: &Vec<u64>| {
                let all = place.iter().zip(&counts);
                all.fold(0_u64, |number, (at, count)| number.saturating_mul(*count).saturating_add(*at))
            };
            let inside = |place: &Vec<u64>| place.iter().zip(&counts).all(|(at, count)| at < count);
            let mut places: Vec<u64> =
                dataset.written_chunks()?.iter().filter(|place| inside(place)).map(number).collect();
            places.sort_unstable();
            places.dedup();
            places
        }
        None => {
            let all = grid.places().filter(|places| *places <= 1 << 32);
            (0..all.ok_or_else(|| dataset.with_context(Error::limit("more than 2^32 zones")))?).collect()
        }
    };
    let found: Mutex<Vec<(u64, Statistics)>> = Mutex::new(Vec::with_capacity(places.len()));
    let bytes_scanned = Mutex::new(0_u64);
    let remote = dataset.object().file().source().remote().is_some();
    let threads = if remote { CONCURRENT_REQUESTS } else { dataset.object().file().options().thread_count() };
    spread(threads.min(places.len()).max(1), places.iter(), Vec::new, |bytes: &mut Vec<u8>, number| {
        read_slab(dataset, &grid.slab(*number), elements.size(), bytes)?;
        let statistics = elements.statistics(bytes);
        found.lock().unwrap_or_else(PoisonError::into_inner).push((*number, statistics));
        *bytes_scanned.lock().unwrap_or_else(PoisonError::into_inner) += bytes.len() as u64;
        add(bytes.len() as u64);
        Ok(())
    })?;
    let mut zones = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    zones.sort_unstable_by_key(|(number, _)| *number);
    let object = dataset.object().address();
    let bytes_scanned = bytes_scanned.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((NewZones { path, object, grid, zones }, bytes_scanned))
}
