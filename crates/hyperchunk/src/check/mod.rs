//! Suitability of a file for object stores: the cost of reading it there, and ways to reduce it.

mod advice;
mod cost;

pub use advice::{Finding, Weight};
pub use cost::Cost;

use crate::io::{FilePages, RemoteOptions, RequestCost};
use crate::read::ahead;
use crate::survey::{BlockCache, ChunkedDataset, Job, Survey, SurveyedDataset, merge_ranges};
use crate::{Error, File, Result};
use hyperchunk_format::model::{Chunk, ChunkIndex, Layout, LinkTarget};
use hyperchunk_format::parse::message::file_space::FileSpace;
use hyperchunk_format::parse::{chunk_index, group, object, object_header, superblock};
use std::ops::Range;
use std::time::Duration;

/// Maximum number of datasets that are checked one by one.
const MAX_DATASETS: usize = 10_000;

/// Assumptions about a network and a reader.
#[derive(Debug, Clone, PartialEq)]
pub struct Assumptions {
    /// The reader's options.
    pub options: RemoteOptions,
    /// The cost of a request.
    pub cost: RequestCost,
}

impl Assumptions {
    /// Creates assumptions from a latency in seconds and one request's bytes per second.
    #[must_use]
    pub fn new(latency: f64, bandwidth: f64) -> Self {
        let latency = Duration::try_from_secs_f64(latency).unwrap_or_default();
        Self { options: RemoteOptions::default(), cost: RequestCost { latency, bandwidth } }
    }
}

/// Result of checking a file.
#[derive(Debug)]
pub struct Report {
    /// Its size in bytes.
    pub size: u64,
    /// Number of groups.
    pub groups: usize,
    /// Number of datasets.
    pub datasets: usize,
    /// Number of attributes.
    pub attributes: usize,
    /// Size of its structure in bytes: everything but raw data and chunk indexes.
    pub structure: u64,
    /// The size of its pages, if it uses pages.
    pub page: Option<u64>,
    /// The cost of listing all objects and attributes, for a reader that opens the file for this
    /// ([`RemoteOptions::for_listing`]).
    pub list: Cost,
    /// The cost of reading each of the first ten thousand datasets.
    pub each: Vec<DatasetReport>,
    /// Findings, the most serious first.
    pub findings: Vec<Finding>,
    /// Unreadable objects: path and reason.
    pub errors: Vec<(Vec<u8>, Error)>,
}

impl Report {
    /// Returns whether there are neither serious findings nor errors.
    #[must_use]
    pub fn is_fit(&self) -> bool {
        self.errors.is_empty() && self.findings.iter().all(|finding| finding.weight != Weight::Serious)
    }
}

/// Result of checking a dataset.
#[derive(Debug)]
pub struct DatasetReport {
    /// Its path.
    pub path: Vec<u8>,
    /// Its extent.
    pub dims: Vec<u64>,
    /// Size of its elements, in bytes.
    pub bytes: u64,
    /// Stored size, in bytes.
    pub stored: u64,
    /// The extent of a chunk, and the number of stored chunks.
    pub chunks: Option<(Vec<u64>, u64)>,
    /// The cost of reading it whole, opening the file included.
    pub whole: Cost,
    /// The cost of reading 1 % of it, along the slowest axis.
    pub slice: Cost,
    /// The stored size of that slice, in bytes.
    pub slice_bytes: u64,
    /// Round trips for its chunk index.
    pub index_rounds: u64,
    version_1: bool,
    unfiltered: bool,
    /// Its number among the objects.
    object: usize,
}

/// Checks a file.
///
/// # Errors
/// The errors of the file's source.
pub fn check(file: &File, assumed: &Assumptions) -> Result<Report> {
    check_with(file, assumed, &|_| ())
}

/// Progress of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The structure is being read; number of objects found.
    Objects(usize),
    /// Datasets are being checked one by one; number done, and total.
    Datasets(usize, usize),
}

/// Checks a file as [`check`] does, and calls `progress` from time to time.
///
/// # Errors
/// As [`check`].
pub fn check_with(file: &File, assumed: &Assumptions, progress: &dyn Fn(Stage)) -> Result<Report> {
    look(file, assumed, progress).map_err(|error| file.with_context(error))
}

fn look(file: &File, assumed: &Assumptions, progress: &dyn Fn(Stage)) -> Result<Report> {
    let source = &*file.0.source;
    let limits = &file.options().limits;
    let size = source.size();
    let mut fetch = BlockCache::new(source);
    let mut survey = Survey::new(&mut fetch, limits)?;
    let jobs = Job::root(&mut survey.found, survey.superblock.root);
    survey.run_with(jobs, &|found| progress(Stage::Objects(found)))?;
    let rounds = survey.rounds.clone();
    let structure = survey.blocks.parts().map(|(_, bytes)| bytes.len() as u64).sum();
    let known = survey.superblock.clone();
    let space: Option<FileSpace> = match survey.one(|image| superblock::file_space(image, &known)) {
        Err(error) if error.is_of_reading() => return Err(error),
        space => space.unwrap_or(None),
    };
    let pages = FilePages::new(survey.superblock.base, space);
    let listing = Assumptions { options: assumed.options.clone().for_listing(), cost: assumed.cost };
    let list = Cost::new(&rounds, (&[], rounds.len()), size, pages, &listing);
    let Survey { found, .. } = survey;
    let mut errors: Vec<(Vec<u8>, Error)> =
        found.errors.iter().map(|(object, error)| (found.path(*object), error.clone())).collect();
    let mut each = Vec::new();
    let total = found.datasets.len().min(MAX_DATASETS);
    for (number, dataset) in found.datasets.iter().take(MAX_DATASETS).enumerate() {
        progress(Stage::Datasets(number, total));
        let mut survey = Survey::new(&mut fetch, limits)?;
        let names = found.names(dataset.object);
        match read(&mut survey, &names, dataset, (size, pages), assumed) {
            Ok(report) => each.push(DatasetReport { path: found.path(dataset.object), ..report }),
            Err(error) if error.is_of_reading() => return Err(error),
            Err(error) => errors.push((found.path(dataset.object), error)),
        }
    }
    let page = space.filter(|space| space.paged).map(|space| space.page_size);
    let mut report = Report {
        size,
        groups: found.groups,
        datasets: found.datasets.len(),
        attributes: found.attributes,
        structure,
        page,
        list,
        each,
        findings: Vec::new(),
        errors,
    };
    report.findings = advice::findings(&report, &found, assumed);
    Ok(report)
}

/// Computes the cost of reading a dataset: the path to it, its chunk index, its data.
fn read(
    survey: &mut Survey<'_>,
    names: &[&[u8]],
    dataset: &SurveyedDataset,
    (size, pages): (u64, Option<FilePages>),
    assumed: &Assumptions,
) -> Result<DatasetReport> {
    let mut address = survey.superblock.root;
    for name in names {
        let link = survey.one(|image| {
            let header = object_header::parse(image, address)?;
            group::find(image, &header, name)
        })?;
        match link.map(|link| link.target) {
            Some(LinkTarget::Hard(to)) => address = to,
            _ => return Err(Error::corrupt("a link that was found before is missing")),
        }
    }
    let header = survey.one(|image| object::dataset(image, &object_header::parse(image, address)?))?;
    let dims = header.dataspace.dims().to_vec();
    let elements = header.dataspace.elements().unwrap_or(u64::MAX);
    let mut report = DatasetReport {
        path: Vec::new(),
        bytes: elements.saturating_mul(header.datatype.size),
        stored: 0,
        chunks: None,
        whole: Cost::default(),
        slice: Cost::default(),
        slice_bytes: 0,
        index_rounds: 0,
        version_1: false,
        unfiltered: header.pipeline.is_empty(),
        object: dataset.object,
        dims,
    };
    let extent = report.dims.first().copied().unwrap_or(1);
    let rows = extent.div_ceil(100);
    let first = extent / 2;
    let rows = first..(first + rows).min(extent);
    let base = survey.superblock.base;
    let (whole, part) = match &header.layout {
        _ if !dataset.header.external.is_empty() => (Vec::new(), Vec::new()),
        Layout::Contiguous { address: Some(address), .. } => {
            report.stored = report.bytes;
            let row = report.bytes.checked_div(extent).unwrap_or(0);
            let start = base.saturating_add(*address);
            let clip = |from: u64, length: u64| {
                let start = start.saturating_add(from).min(size);
                start..start.saturating_add(length).min(size)
            };
            report.slice_bytes = row.saturating_mul(rows.end - rows.start);
            let part = clip(row.saturating_mul(rows.start), report.slice_bytes);
            (vec![clip(0, report.bytes)], vec![part])
        }
        Layout::Chunked(chunked) => {
            report.version_1 = matches!(chunked.index, ChunkIndex::BTreeV1 { .. });
            let Some(chunked) = ChunkedDataset::new(&header) else {
                return Err(Error::corrupt("chunks of another rank than the dataset"));
            };
            let before = survey.rounds.len();
            let row = match survey.one(|image| chunk_index::in_a_row(image, &chunked.map)) {
                Err(error) if error.is_of_reading() => return Err(error),
                // An error in the index is reported by the complete read below.
                row => row.ok().flatten(),
            };
            let top = survey.rounds.len();
            let chunks = survey.one(|image| chunk_index::chunks(image, &chunked.map))?;
            report.index_rounds = (survey.rounds.len() - before) as u64;
            report.stored = chunks.iter().fold(0, |sum, chunk| sum.saturating_add(chunk.size));
            report.chunks = Some((chunked.chunked.dims.clone(), chunks.len() as u64));
            let high = chunked.chunked.dims.first().copied().unwrap_or(1).max(1);
            let touched = rows.start / high..rows.end.div_ceil(high);
            let whole = places(chunks.iter(), base, size);
            let wanted = |chunk: &&Chunk| chunk.scaled.first().is_some_and(|at| touched.contains(at));
            let part = places(chunks.iter().filter(wanted), base, size);
            let stored: u64 = part.iter().map(|range| range.end - range.start).sum();
            let asked = u128::from(rows.end - rows.start);
            let held = u128::from(touched.end - touched.start) * u128::from(high);
            report.slice_bytes = u64::try_from(u128::from(stored) * asked / held.max(1)).unwrap_or(stored);
            // For the whole dataset, a reader fetches chunks that are stored contiguously together with the
            // leaves of their index (see `ahead`).
            let structure = survey.rounds.clone();
            let with = if row.is_some_and(|row| row.end - row.start <= ahead::MAX_BYTES) {
                top
            } else {
                structure.len()
            };
            report.whole = Cost::new(&structure, (&whole, with), size, pages, assumed);
            report.slice = Cost::new(&structure, (&part, structure.len()), size, pages, assumed);
            return Ok(report);
        }
        _ => (Vec::new(), Vec::new()),
    };
    let filled =
        |ranges: Vec<Range<u64>>| ranges.into_iter().filter(|range| !range.is_empty()).collect::<Vec<_>>();
    let rounds = survey.rounds.len();
    report.whole = Cost::new(&survey.rounds, (&filled(whole), rounds), size, pages, assumed);
    report.slice = Cost::new(&survey.rounds, (&filled(part), rounds), size, pages, assumed);
    Ok(report)
}

/// Returns the ranges of chunks, sorted and disjoint.
fn places<'c>(chunks: impl Iterator<Item = &'c Chunk>, base: u64, size: u64) -> Vec<Range<u64>> {
    let place = |chunk: &Chunk| {
        let start = base.saturating_add(chunk.address).min(size);
        start..start.saturating_add(chunk.size).min(size)
    };
    merge_ranges(chunks.map(place).filter(|range| !range.is_empty()).collect())
}
