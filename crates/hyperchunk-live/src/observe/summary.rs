//! What analyses found, with the analyses that found it: for people and for programs.

use super::{Analysis, bands, merged};
use crate::of_function;
use hyperchunk::store::pairs::Pairs;
use hyperchunk::store::results::{self, Known, Results};
use hyperchunk::store::{AnalysisId, Definition, Manifest, Slab};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use std::collections::HashSet;
use std::path::Path;

/// An analysis of a store, and what its record says if it holds.
#[derive(Debug)]
pub struct Listed {
    /// What the store says of it.
    pub known: Known,
    /// What it is.
    pub analysis: Result<Analysis>,
}

/// What one analysis found in a dataset.
#[derive(Debug)]
pub struct Summary {
    /// The analysis; an error if the store has no record of it that holds.
    pub analysis: Result<Analysis>,
    /// What it found.
    pub results: Results,
    /// Each group in one: as the function made it, or by rules. Nothing where neither can be.
    pub groups: Vec<Option<Pairs>>,
    /// All of it in one, by rules.
    pub whole: Option<Pairs>,
}

/// The epoch of a number, or the newest.
///
/// # Errors
/// `NotFound` if there is none; those of reading it.
pub fn epoch(path: &Path, number: Option<u64>) -> Result<std::sync::Arc<Manifest>> {
    let found = match number {
        Some(number) => Manifest::epoch(path, number).map(Some),
        None => Manifest::newest(path),
    };
    found.map_err(|error| of_function(&error))?.ok_or_else(|| {
        let message = "there is no store, or nothing of it was committed";
        Error::new(ErrorKind::NotFound, message).about(path.display().to_string())
    })
}

/// The analyses of an epoch.
///
/// # Errors
/// Those of reading it.
pub fn list(path: &Path, manifest: &Manifest) -> Result<Vec<Listed>> {
    let all = results::analyses(path, manifest).map_err(|error| of_function(&error))?;
    let listed = all.into_iter().map(|known| Listed { analysis: checked(&known), known });
    Ok(listed.collect())
}

/// What an analysis is, if the record that the store has for it holds, and is its own.
fn checked(known: &Known) -> Result<Analysis> {
    if Analysis::id_of(&known.record) != known.analysis {
        let message = "the record is not the one that the analysis is named after: it was changed";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Analysis::of(&known.record)
}

/// What analyses found in a dataset of an epoch. Nothing is run.
///
/// # Errors
/// Those of reading it.
pub fn of(path: &Path, manifest: &Manifest, dataset: &[u8]) -> Result<Vec<Summary>> {
    let all = results::results(path, manifest, dataset).map_err(|error| of_function(&error))?;
    let mut listed = list(path, manifest)?;
    let summary = |results: Results| {
        let place = listed.iter().position(|listed| listed.known.analysis == results.analysis);
        let analysis = match place {
            Some(place) => listed.swap_remove(place).analysis,
            None => Err(Error::new(ErrorKind::NotFound, "the store has no record of this analysis")),
        };
        let rules = analysis.as_ref().map(Analysis::rules).unwrap_or_default();
        let fold = |all: &mut dyn Iterator<Item = &Pairs>| {
            let mut merged: Option<Pairs> = None;
            for pairs in all {
                merged = Some(match merged {
                    None => pairs.merged(&Pairs::default(), &rules).ok()?,
                    Some(before) => before.merged(pairs, &rules).ok()?,
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
        // Values of single boxes, not of groups: what a function merged is not looked at.
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
    /// All of it in one, by the function: runs it, if this user trusts it.
    ///
    /// # Errors
    /// `Refused` when it may not run here; those of the function.
    pub fn run(&self, definition: &Definition) -> Result<Option<Pairs>> {
        let analysis = self.analysis.as_ref().map_err(Clone::clone)?;
        let found = self.results.groups.iter().zip(&self.groups);
        let all: Vec<Pairs> = found
            .flat_map(|(group, merged)| match merged {
                Some(merged) => vec![merged.clone()],
                None => group.found.iter().filter_map(|found| found.found.clone().ok()).collect(),
            })
            .collect();
        merged(analysis, definition, &all)
    }
}

/// The boxes of a dataset that an analysis has no results of: as they were written, those of some epochs.
///
/// # Errors
/// Those of reading the epoch.
pub fn unseen(
    path: &Path,
    manifest: &Manifest,
    dataset: &[u8],
    analysis: AnalysisId,
    epochs: impl Fn(u64) -> bool,
) -> Result<Vec<Slab>> {
    let all = results::results(path, manifest, dataset).map_err(|error| of_function(&error))?;
    let of_analysis = all.iter().filter(|results| results.analysis == analysis);
    let found = of_analysis.flat_map(|results| &results.groups).flat_map(|group| &group.found);
    let mut seen: HashSet<&Slab> = HashSet::new();
    seen.extend(found.filter(|found| found.found.is_ok()).map(|found| &found.slab));
    let Some(stored) = manifest.datasets.iter().find(|stored| stored.definition.path == dataset) else {
        return Ok(Vec::new());
    };
    let size = stored.definition.element_size();
    let mut unseen: Vec<Slab> = Vec::new();
    for part in stored.parts.iter().filter(|part| epochs(part.epoch)) {
        for piece in part.written.pieces.iter() {
            let Some(slab) = piece.slab.clipped(&stored.extent) else { continue };
            let bands = bands::of(&slab, size);
            unseen.extend(bands.into_iter().filter(|band| !seen.contains(band)));
        }
    }
    let mut known = HashSet::new();
    unseen.retain(|slab| known.insert(slab.clone()));
    Ok(unseen)
}
