//! What analyses found in the data of an epoch: read from the pages that its parts lead to. Nothing is run.

use super::observer::{AnalysisId, Announced, Entry, Findings};
use super::pairs::Pairs;
use super::pool::Pool;
use super::record::{self, Body, FIXED};
use super::scan::Log;
use super::site::Site;
use super::{LogWriter, Manifest, Page, PageKind, Part, Slab, Stored, WriterId};
use crate::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::path::Path;

/// So many entries are in a page that is written anew: one of the largest has room for them.
const AT_ONCE: usize = 100;
/// No dataset has more pages that are read.
const MOST_PAGES: usize = 1 << 20;
/// No dataset has more analyses.
const MOST_ANALYSES: usize = 1 << 12;

/// What an analysis found in one box.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Where, in the dataset.
    pub slab: Slab,
    /// Who wrote it, or looked at it later.
    pub writer: WriterId,
    /// The epoch in which it was committed.
    pub epoch: u64,
    /// What was found, or why there is nothing.
    pub found: std::result::Result<Pairs, String>,
}

/// What belongs together: what a writer found from one flush to the next.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The writer.
    pub writer: WriterId,
    /// The epoch in which it was committed.
    pub epoch: u64,
    /// All of it in one, where the function made one.
    pub merged: Option<Pairs>,
    /// Box by box.
    pub found: Vec<Found>,
}

/// What one analysis found in a dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// The analysis.
    pub analysis: AnalysisId,
    /// What lies lower comes first.
    pub groups: Vec<Group>,
    /// How many bytes of pages were read.
    pub looked_at: u64,
}

/// An analysis of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its identity.
    pub analysis: AnalysisId,
    /// Its record, signed. Nothing of it is verified here.
    pub record: Vec<u8>,
    /// Whether it is to run on what is written from now on.
    pub runs: bool,
    /// The datasets that it is announced for.
    pub datasets: Vec<Vec<u8>>,
}

/// The analyses of an epoch.
///
/// # Errors
/// NotFound or Io; Corrupt.
pub fn analyses<'a>(site: impl Into<Site<'a>>, manifest: &Manifest) -> Result<Vec<Known>> {
    let logs = Pool::new(site, manifest);
    let mut all: Vec<Known> = Vec::new();
    for stored in &manifest.datasets {
        for announced in announced(&logs, stored)? {
            let known = match all.iter_mut().find(|known| known.analysis == announced.analysis) {
                Some(known) => known,
                None => {
                    let (analysis, record) = (announced.analysis, Vec::new());
                    all.push(Known { analysis, record, runs: false, datasets: Vec::new() });
                    all.last_mut().ok_or_else(|| Error::corrupt("no analysis"))?
                }
            };
            let path = &stored.definition.path;
            // What comes later counts.
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

/// What was last said of each analysis of a dataset.
fn announced(logs: &Pool<'_>, stored: &Stored) -> Result<Vec<Announced>> {
    let mut all: Vec<Announced> = Vec::new();
    let mut reading = Reading::new(logs);
    for (part, page) in pages(stored, PageKind::Analysis)? {
        let announced = Announced::decode(&reading.read(part, page)?)?;
        // The record of one that runs no more is kept: what it found is there.
        let same = |known: &Announced| {
            known.analysis == announced.analysis && known.record.is_empty() == announced.record.is_empty()
        };
        all.retain(|known| !same(known));
        all.push(announced);
        few(all.len(), stored)?;
    }
    Ok(all)
}

/// Writes what a dataset of an epoch has of results to another log.
pub(super) fn carry(
    path: &Path,
    manifest: &Manifest,
    stored: &Stored,
    writer: &LogWriter,
    number: u32,
) -> Result<()> {
    for announced in announced(&Pool::new(path, manifest), stored)? {
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
                let rest = entries.split_off(entries.len().min(AT_ONCE));
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

/// What analyses found in a dataset of an epoch.
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

fn read_all(site: Site<'_>, manifest: &Manifest, stored: &Stored) -> Result<Vec<Results>> {
    let logs = Pool::new(site, manifest);
    let mut all: Vec<Results> = Vec::new();
    let mut shifts: HashMap<(u32, u64), u64> = HashMap::new();
    let mut reading = Reading::new(&logs);
    // Those whose last group goes on.
    let mut open: HashMap<AnalysisId, (WriterId, u64)> = HashMap::new();
    for (part, page) in pages(stored, PageKind::Pairs)? {
        let findings = Findings::decode(&reading.read(part, page)?, stored.extent.len())?;
        let writer = manifest.logs.get(part.log as usize).map(|log| log.writer).unwrap_or_default();
        let analysis = findings.analysis;
        let place = all.iter().position(|results| results.analysis == analysis).unwrap_or_else(|| {
            all.push(Results { analysis, groups: Vec::new(), looked_at: 0 });
            all.len() - 1
        });
        few(all.len(), stored)?;
        let results = &mut all[place];
        results.looked_at += page.length;
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
                    None => *shifts.entry(key).or_insert(shift(&logs, stored, key)?),
                };
                if let Some(first) = slab.start.first_mut() {
                    *first = first.wrapping_add(shift);
                }
                slab.check(stored.extent.len())?;
            }
            group.found.push(Found { slab, writer, epoch, found: entry.found });
        }
    }
    Ok(all)
}

/// The pages of a kind, those of lower parts first.
fn pages(stored: &Stored, kind: PageKind) -> Result<Vec<(&Part, &Page)>> {
    let all = stored.parts.iter().flat_map(|part| part.written.pages.iter().map(move |page| (part, page)));
    let found: Vec<_> = all.filter(|(_, page)| page.head.kind == kind).take(MOST_PAGES + 1).collect();
    if found.len() > MOST_PAGES {
        let message = format!("more than {MOST_PAGES} pages of results of one dataset");
        return Err(Error::limit(message).object(String::from_utf8_lossy(&stored.definition.path)));
    }
    Ok(found)
}

fn few(analyses: usize, stored: &Stored) -> Result<()> {
    if analyses > 2 * MOST_ANALYSES {
        let message = format!("more than {MOST_ANALYSES} analyses of one dataset");
        return Err(Error::limit(message).object(String::from_utf8_lossy(&stored.definition.path)));
    }
    Ok(())
}

/// Reads pages, of a log no more than it has: a manifest that names one page again and again is damaged.
struct Reading<'a> {
    logs: &'a Pool<'a>,
    read: HashMap<u32, u64>,
}

impl<'a> Reading<'a> {
    fn new(logs: &'a Pool<'a>) -> Self {
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

/// How far the rows that a writer appended lie behind where it counted them, by the first record of which that is known.
fn shift(logs: &Pool<'_>, stored: &Stored, (log, epoch): (u32, u64)) -> Result<u64> {
    let parts = stored.parts.iter().filter(|part| (part.log, part.epoch) == (log, epoch));
    for part in parts {
        let Some(piece) = part.written.pieces.iter().next() else { continue };
        let batch = batch(&*logs.get(log)?, piece.head)?;
        let place = piece.order.checked_sub(batch.first).and_then(|place| usize::try_from(place).ok());
        let record = place.and_then(|place| batch.records.get(place));
        let record = record.ok_or_else(|| Error::corrupt("a piece of no record").at(piece.head))?;
        let was = match &record.body {
            Body::Append(slab) | Body::Rows { slab, append: true, .. } => slab.start.first(),
            _ => continue,
        };
        if let (Some(was), Some(is)) = (was, piece.slab.start.first()) {
            return Ok(is.wrapping_sub(*was));
        }
    }
    Err(Error::corrupt("results of appended rows that are not there"))
}

fn batch(log: &Log, head: u64) -> Result<record::Batch> {
    let none = || Error::corrupt("no batch begins here").at(head);
    let mut fixed = [0; FIXED];
    log.read_at(head, &mut fixed)?;
    let (length, _) = record::lengths(&fixed).ok_or_else(none)?;
    if head.checked_add(length).is_none_or(|end| end > log.file_size()) {
        return Err(none());
    }
    let mut header = vec![0; usize::try_from(length).map_err(|_| none())?];
    log.read_at(head, &mut header)?;
    record::decode(&header, head)
}
