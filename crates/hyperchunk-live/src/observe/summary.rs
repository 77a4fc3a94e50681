//! Results of analyses together with the analyses, for display and for programs.

use super::{Analysis, merge, split};
use crate::to_udf_error;
use hyperchunk_store::format::analysis_values::Pairs;
use hyperchunk_store::observe::results::{self, Results, StoreAnalysis};
use hyperchunk_store::{AnalysisId, Definition, Hyperslab, Manifest};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use std::collections::HashSet;
use std::path::Path;

/// Analysis of a store, with its verified record.
#[derive(Debug)]
pub struct AnalysisEntry {
    /// Entry of the store.
    pub known: StoreAnalysis,
    /// Verified analysis.
    pub analysis: Result<Analysis>,
}

/// Results of one analysis for a dataset.
#[derive(Debug)]
pub struct Summary {
    /// Analysis; an error if the store has no valid record of it.
    pub analysis: Result<Analysis>,
    /// Results.
    pub results: Results,
    /// Merged results of each group, by the function or by rules; `None` if neither is possible.
    pub groups: Vec<Option<Pairs>>,
    /// All results merged by rules.
    pub whole: Option<Pairs>,
}

/// Opens an epoch by number, or the newest.
///
/// # Errors
/// `NotFound` if it does not exist; errors of reading it.
pub fn epoch(path: &Path, number: Option<u64>) -> Result<std::sync::Arc<Manifest>> {
    let found = match number {
        Some(number) => Manifest::epoch(path, number).map(Some),
        None => Manifest::newest(path),
    };
    found.map_err(|error| to_udf_error(&error))?.ok_or_else(|| {
        let message = "there is no store, or nothing of it was committed";
        Error::new(ErrorKind::NotFound, message).about(path.display().to_string())
    })
}

/// Lists the analyses of an epoch.
///
/// # Errors
/// Errors of reading it.
pub fn list(path: &Path, manifest: &Manifest) -> Result<Vec<AnalysisEntry>> {
    let all = results::analyses(path, manifest).map_err(|error| to_udf_error(&error))?;
    let listed = all.into_iter().map(|known| AnalysisEntry { analysis: verify(&known), known });
    Ok(listed.collect())
}

/// Verifies that the record of the store is valid and belongs to the analysis.
fn verify(known: &StoreAnalysis) -> Result<Analysis> {
    if Analysis::compute_id(&known.record) != known.analysis {
        let message = "the digest of the record differs from the analysis's id: it was changed";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Analysis::parse(&known.record)
}

/// Returns the results of all analyses for a dataset of an epoch. Runs no function.
///
/// # Errors
/// Errors of reading it.
pub fn summaries(path: &Path, manifest: &Manifest, dataset: &[u8]) -> Result<Vec<Summary>> {
    let all = results::results(path, manifest, dataset).map_err(|error| to_udf_error(&error))?;
    let mut listed = list(path, manifest)?;
    let summary = |results: Results| {
        let index = listed.iter().position(|listed| listed.known.analysis == results.analysis);
        let analysis = match index {
            Some(index) => listed.swap_remove(index).analysis,
            None => Err(Error::new(ErrorKind::NotFound, "the store has no record of this analysis")),
        };
        let rules = analysis.as_ref().map(Analysis::rules).unwrap_or_default();
        let fold = |all: &mut dyn Iterator<Item = &Pairs>| {
            let mut merged: Option<Pairs> = None;
            for pairs in all {
                merged = Some(match merged {
                    None => pairs.merge(&Pairs::default(), &rules).ok()?,
                    Some(before) => before.merge(pairs, &rules).ok()?,
                });
            }
            merged
        };
        let groups: Vec<Option<Pairs>> = results
            .groups
            .iter()
            .map(|group| match &group.merged {
                Some(merged) => Some(merged.clone()),
                None if rules.is_empty() => None,
                None => fold(&mut group.found.iter().filter_map(|found| found.found.as_ref().ok())),
            })
            .collect();
        let every = || results.groups.iter().flat_map(|group| &group.found);
        // Values of single boxes, not of groups: results merged by a function are ignored.
        let whole = if rules.is_empty() {
            None
        } else {
            fold(&mut every().filter_map(|found| found.found.as_ref().ok()))
        };
        Summary { analysis, results, groups, whole }
    };
    Ok(all.into_iter().map(summary).collect())
}

impl Summary {
    /// Merges all results by the function, which runs it if this user trusts it.
    ///
    /// # Errors
    /// `Refused` if it may not run here; errors of the function.
    pub fn run(&self, definition: &Definition) -> Result<Option<Pairs>> {
        let analysis = self.analysis.as_ref().map_err(Clone::clone)?;
        let found = self.results.groups.iter().zip(&self.groups);
        let all: Vec<Pairs> = found
            .flat_map(|(group, merged)| match merged {
                Some(merged) => vec![merged.clone()],
                None => group.found.iter().filter_map(|found| found.found.clone().ok()).collect(),
            })
            .collect();
        merge(analysis, definition, &all)
    }
}

/// Lists the boxes of a dataset without results of an analysis, as written in some epochs.
///
/// # Errors
/// Errors of reading the epoch.
pub fn unanalyzed_boxes(
    path: &Path,
    manifest: &Manifest,
    dataset: &[u8],
    analysis: AnalysisId,
    epochs: impl Fn(u64) -> bool,
) -> Result<Vec<Hyperslab>> {
    let all = results::results(path, manifest, dataset).map_err(|error| to_udf_error(&error))?;
    let of_analysis = all.iter().filter(|results| results.analysis == analysis);
    let found = of_analysis.flat_map(|results| &results.groups).flat_map(|group| &group.found);
    let mut seen: HashSet<&Hyperslab> = HashSet::new();
    seen.extend(found.filter(|found| found.found.is_ok()).map(|found| &found.slab));
    let Some(stored) = manifest.datasets.iter().find(|stored| stored.definition.path == dataset) else {
        return Ok(Vec::new());
    };
    let size = stored.definition.element_size();
    let mut unanalyzed_boxes: Vec<Hyperslab> = Vec::new();
    for part in stored.parts.iter().filter(|part| epochs(part.epoch)) {
        for piece in part.written.pieces.iter() {
            let Some(slab) = piece.slab.clipped(&stored.extent) else { continue };
            let parts = split::split(&slab, size);
            unanalyzed_boxes.extend(parts.into_iter().filter(|part| !seen.contains(part)));
        }
    }
    let mut known = HashSet::new();
    unanalyzed_boxes.retain(|slab| known.insert(slab.clone()));
    Ok(unanalyzed_boxes)
}
