//! Results of analyses of an epoch's data, read from the pages that its parts refer to. No function
//! is run.

use super::observer::{AnalysisId, Announcement, Entry, Findings};
use crate::format::analysis_values::Pairs;
use crate::format::record;
use crate::format::record::{Body, FIXED_HEADER_BYTES};
use crate::location::site::Site;
use crate::read::log_cache::LogCache;
use crate::read::scan_log::Log;
use crate::{Hyperslab, LogWriter, Manifest, Page, PageKind, Part, StoredDataset, WriterId};
use hyperchunk::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::path::Path;

/// Number of entries in a rewritten page; entries of maximum size fit into it.
const PAGE_ENTRIES: usize = 100;
/// Maximum number of pages of a dataset that are read.
const MAX_PAGES: usize = 1 << 20;
/// Maximum number of analyses of a dataset.
const MAX_ANALYSES: usize = 1 << 12;

/// Result of an analysis for one box.
#[derive(Debug, Clone, PartialEq)]
pub struct AnalysisResult {
    /// The box in the dataset.
    pub slab: Hyperslab,
    /// Writer of the data, or of a later analysis.
    pub writer: WriterId,
    /// Epoch that committed it.
    pub epoch: u64,
    /// The results, or the reason for their absence.
    pub found: std::result::Result<Pairs, String>,
}

/// Results of a writer from one flush to the next, which belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The writer.
    pub writer: WriterId,
    /// Epoch that committed it.
    pub epoch: u64,
    /// Merged results of the group, if the function can merge.
    pub merged: Option<Pairs>,
    /// Results of each box.
    pub found: Vec<AnalysisResult>,
}

/// Results of one analysis of a dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// The analysis.
    pub analysis: AnalysisId,
    /// Groups by precedence of their parts, the lowest first.
    pub groups: Vec<Group>,
    /// Number of bytes of pages that were read.
    pub bytes_scanned: u64,
}

/// An analysis of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreAnalysis {
    /// Its identity.
    pub analysis: AnalysisId,
    /// Its signed record. The signature is not verified here.
    pub record: Vec<u8>,
    /// True if it applies to future writes.
    pub runs: bool,
    /// Paths of the datasets that it was announced for.
    pub datasets: Vec<Vec<u8>>,
}

/// Returns the analyses of an epoch.
///
/// # Errors
/// NotFound or Io; Corrupt.
pub fn analyses<'a>(site: impl Into<Site<'a>>, manifest: &Manifest) -> Result<Vec<StoreAnalysis>> {
    let logs = LogCache::new(site, manifest);
    let mut all: Vec<StoreAnalysis> = Vec::new();
    for stored in &manifest.datasets {
        for announced in find_announcements(&logs, stored)? {
            let known = match all.iter_mut().find(|known| known.analysis == announced.analysis) {
                Some(known) => known,
                None => {
                    let (analysis, record) = (announced.analysis, Vec::new());
                    all.push(StoreAnalysis { analysis, record, runs: false, datasets: Vec::new() });
                    all.last_mut().ok_or_else(|| Error::corrupt("no analysis"))?
                }
            };
            let path = &stored.definition.path;
            // The later announcement counts.
            known.runs = !announced.record.is_empty();
            if known.runs {
                known.record = announced.record;
            }
            if !known.datasets.contains(path) {
                known.datasets.push(path.clone());
            }
        }
    }
    all.retain(|known| !known.record.is_empty());
    Ok(all)
}

/// Returns the last announcement of each analysis of a dataset, and the last one that ended it, if any.
fn find_announcements(logs: &LogCache<'_>, stored: &StoredDataset) -> Result<Vec<Announcement>> {
    let mut all: Vec<Announcement> = Vec::new();
    let mut reading = PageReader::new(logs);
    for (part, page) in pages(stored, PageKind::Analysis)? {
        let announced = Announcement::decode(&reading.read(part, page)?)?;
        // The record of a stopped analysis is kept, since its results still exist.
        let same = |known: &Announcement| {
            known.analysis == announced.analysis && known.record.is_empty() == announced.record.is_empty()
        };
        all.retain(|known| !same(known));
        all.push(announced);
        check_count(all.len(), stored)?;
    }
    Ok(all)
}

/// Copies the results about a dataset of an epoch to another log.
pub(crate) fn copy_results(
    path: &Path,
    manifest: &Manifest,
    stored: &StoredDataset,
    writer: &LogWriter,
    number: u32,
) -> Result<()> {
    for announced in find_announcements(&LogCache::new(path, manifest), stored)? {
        writer.announce(number, announced.analysis, &announced.record)?;
    }
    for results in read_all(path.into(), manifest, stored)? {
        for group in results.groups {
            let mut entries: Vec<Entry> = group
                .found
                .into_iter()
                .map(|found| Entry { slab: found.slab, appended: false, found: found.found })
                .collect();
            loop {
                let rest = entries.split_off(entries.len().min(PAGE_ENTRIES));
                let ends = rest.is_empty();
                let merged = group.merged.clone().filter(|_| ends);
                let findings = Findings { analysis: results.analysis, ends, merged, entries };
                writer.put_findings(number, &findings)?;
                if ends {
                    break;
                }
                entries = rest;
            }
        }
    }
    Ok(())
}

/// Returns the results of all analyses of a dataset of an epoch.
///
/// # Errors
/// NotFound or Io; Corrupt.
pub fn results<'a>(site: impl Into<Site<'a>>, manifest: &Manifest, dataset: &[u8]) -> Result<Vec<Results>> {
    let stored = manifest.datasets.iter().find(|stored| stored.definition.path == dataset);
    let named = |error: Error| error.object(String::from_utf8_lossy(dataset));
    let stored = stored
        .ok_or_else(|| named(Error::new(ErrorKind::NotFound, "the epoch has no dataset of that name")))?;
    read_all(site.into(), manifest, stored).map_err(named)
}

fn read_all(site: Site<'_>, manifest: &Manifest, stored: &StoredDataset) -> Result<Vec<Results>> {
    let logs = LogCache::new(site, manifest);
    let mut all: Vec<Results> = Vec::new();
    let mut shifts: HashMap<(u32, u64), u64> = HashMap::new();
    let mut reading = PageReader::new(&logs);
    // Analyses whose last group is continued on the next page.
    let mut open: HashMap<AnalysisId, (WriterId, u64)> = HashMap::new();
    for (part, page) in pages(stored, PageKind::Pairs)? {
        let findings = Findings::decode(&reading.read(part, page)?, stored.extent.len())?;
        let writer = manifest.logs.get(part.log as usize).map(|log| log.writer).unwrap_or_default();
        let analysis = findings.analysis;
        let place = all.iter().position(|results| results.analysis == analysis).unwrap_or_else(|| {
            all.push(Results { analysis, groups: Vec::new(), bytes_scanned: 0 });
            all.len() - 1
        });
        check_count(all.len(), stored)?;
        let results = &mut all[place];
        results.bytes_scanned += page.length;
        let epoch = part.epoch;
        let goes_on = open.get(&analysis) == Some(&(writer, epoch));
        if !goes_on {
            results.groups.push(Group { writer, epoch, merged: None, found: Vec::new() });
        }
        if findings.ends {
            open.remove(&analysis);
        } else {
            open.insert(analysis, (writer, epoch));
        }
        let Some(group) = results.groups.last_mut() else { continue };
        group.merged = findings.merged;
        for entry in findings.entries {
            let mut slab = entry.slab;
            if entry.appended {
                let key = (part.log, part.epoch);
                let shift = match shifts.get(&key) {
                    Some(shift) => *shift,
                    None => *shifts.entry(key).or_insert(appended_shift(&logs, stored, key)?),
                };
                if let Some(first) = slab.start.first_mut() {
                    *first = first.wrapping_add(shift);
                }
                slab.check(stored.extent.len())?;
            }
            group.found.push(AnalysisResult { slab, writer, epoch, found: entry.found });
        }
    }
    Ok(all)
}

/// Returns the pages of a kind, by precedence of their parts, the lowest first.
fn pages(stored: &StoredDataset, kind: PageKind) -> Result<Vec<(&Part, &Page)>> {
    let all = stored.parts.iter().flat_map(|part| part.written.pages.iter().map(move |page| (part, page)));
    let found: Vec<_> = all.filter(|(_, page)| page.head.kind == kind).take(MAX_PAGES + 1).collect();
    if found.len() > MAX_PAGES {
        let message = format!("more than {MAX_PAGES} pages of results of one dataset");
        return Err(Error::limit(message).object(String::from_utf8_lossy(&stored.definition.path)));
    }
    Ok(found)
}

fn check_count(analyses: usize, stored: &StoredDataset) -> Result<()> {
    if analyses > 2 * MAX_ANALYSES {
        let message = format!("more than {MAX_ANALYSES} analyses of one dataset");
        return Err(Error::limit(message).object(String::from_utf8_lossy(&stored.definition.path)));
    }
    Ok(())
}

/// Reader of pages with a limit of each log's size: a manifest that names one page many times is
/// damaged.
struct PageReader<'a> {
    logs: &'a LogCache<'a>,
    read: HashMap<u32, u64>,
}

impl<'a> PageReader<'a> {
    fn new(logs: &'a LogCache<'a>) -> Self {
        Self { logs, read: HashMap::new() }
    }

    fn read(&mut self, part: &Part, page: &Page) -> Result<Vec<u8>> {
        let log = self.logs.get(part.log)?;
        let read = self.read.entry(part.log).or_insert(0);
        *read = read.saturating_add(page.length);
        if *read > log.file_size() {
            return Err(Error::corrupt("pages that have more bytes than their log").at(page.offset));
        }
        page.read(|offset, out| log.read_at(offset, out))
    }
}

/// Returns the distance between the final position of a writer's appended rows and the position
/// that it counted, taken from the first record for which both are known.
fn appended_shift(logs: &LogCache<'_>, stored: &StoredDataset, (log, epoch): (u32, u64)) -> Result<u64> {
    let parts = stored.parts.iter().filter(|part| (part.log, part.epoch) == (log, epoch));
    for part in parts {
        let Some(piece) = part.written.pieces.iter().next() else { continue };
        let batch = batch(&*logs.get(log)?, piece.head)?;
        let place = piece.order.checked_sub(batch.first).and_then(|place| usize::try_from(place).ok());
        let record = place.and_then(|place| batch.records.get(place));
        let record =
            record.ok_or_else(|| Error::corrupt("a piece that belongs to no record").at(piece.head))?;
        let was = match &record.body {
            Body::Append(slab) | Body::Rows { slab, append: true, .. } => slab.start.first(),
            _ => continue,
        };
        if let (Some(was), Some(is)) = (was, piece.slab.start.first()) {
            return Ok(is.wrapping_sub(*was));
        }
    }
    Err(Error::corrupt("results of appended rows that the epoch does not have"))
}

fn batch(log: &Log, head: u64) -> Result<record::Batch> {
    let none = || Error::corrupt("no batch begins here").at(head);
    let mut fixed = [0; FIXED_HEADER_BYTES];
    log.read_at(head, &mut fixed)?;
    let (length, _) = record::lengths(&fixed).ok_or_else(none)?;
    if head.checked_add(length).is_none_or(|end| end > log.file_size()) {
        return Err(none());
    }
    let mut header = hyperchunk::room::zeros(usize::try_from(length).map_err(|_| none())?)?;
    log.read_at(head, &mut header)?;
    record::decode(&header, head)
}
