//! Collective writes: data that all writers of a dataset wrote first and identically.
//!
//! MPI programs often fill a dataset on every rank (`f["x"] = zeros`), and each
//! rank then writes a part. The identical fills are treated as one write below the parts; otherwise
//! every part would conflict with the fills of the other ranks.

use super::overlap::is_same_elements;
use crate::format::manifest::StoredDataset;
use crate::location::site::Site;
use crate::read::log_cache::LogCache;
use crate::{DatasetId, DatasetWrites, Manifest, PackedPieces, Part, Piece};
use hyperchunk::Result;
use std::collections::HashSet;

/// Maximum number of leading pieces that are compared.
const MAX_PIECES: usize = 64;

/// Moves the identical first writes of all writers of the newest epoch below everything else that
/// they wrote. Returns the datasets for which that was done: the common part is the first of their
/// parts of that epoch.
pub(crate) fn lower_common_writes(manifest: &mut Manifest, site: Site<'_>) -> Result<HashSet<DatasetId>> {
    let mut lowered = Vec::new();
    {
        let logs = LogCache::new(site, manifest);
        for (number, stored) in manifest.datasets.iter().enumerate() {
            let common = common_prefix(manifest, stored, &logs)?;
            if common > 0 {
                lowered.push((number, common));
            }
        }
    }
    let epoch = manifest.number;
    let mut ids = HashSet::new();
    for (number, common) in lowered {
        let Some(stored) = manifest.datasets.get_mut(number) else { continue };
        ids.insert(stored.id);
        let rank = stored.definition.dims.len();
        let parts = std::mem::take(&mut stored.parts);
        for mut part in parts {
            if part.epoch != epoch || part.written.pieces.is_empty() {
                stored.parts.push(part);
                continue;
            }
            let is_first = !stored.parts.iter().any(|part| part.epoch == epoch);
            let (mut first, mut rest) = (PackedPieces::new(rank), PackedPieces::new(rank));
            for (at, piece) in part.written.pieces.iter().enumerate() {
                if at < common { first.push(&piece) } else { rest.push(&piece) }
            }
            first.pack();
            rest.pack();
            if is_first {
                let written = DatasetWrites { pieces: first, ..DatasetWrites::nothing(rank) };
                stored.parts.push(Part { log: part.log, epoch, written });
            }
            part.written.pieces = rest;
            if !part.written.is_empty() {
                stored.parts.push(part);
            }
        }
    }
    Ok(ids)
}

/// Returns the number of leading pieces that all parts of the newest epoch have in common; 0 unless
/// there are several writers of equal priority.
fn common_prefix(manifest: &Manifest, stored: &StoredDataset, logs: &LogCache<'_>) -> Result<usize> {
    let of_epoch = || stored.parts.iter().filter(|part| part.epoch == manifest.number);
    let parts: Vec<&Part> = of_epoch().filter(|part| !part.written.pieces.is_empty()).collect();
    let mut writers: Vec<u32> = parts.iter().map(|part| part.log).collect();
    writers.sort_unstable();
    writers.dedup();
    let priority = |part: &&Part| manifest.logs.get(part.log as usize).map(|log| log.priority);
    let alike = parts.windows(2).all(|two| priority(&two[0]) == priority(&two[1]));
    // A change of extent clips earlier pieces, so their order matters.
    let resized = of_epoch().any(|part| !part.written.extents.is_empty());
    if writers.len() < 2 || writers.len() < parts.len() || !alike || resized {
        return Ok(0);
    }
    // Nearly always the first pieces already differ, and no data are read.
    let lists: Vec<Vec<Piece>> =
        parts.iter().map(|part| part.written.pieces.iter().take(MAX_PIECES).collect()).collect();
    let Some((first, others)) = lists.split_first() else { return Ok(0) };
    let mut common = 0;
    for (at, piece) in first.iter().enumerate() {
        for (part, list) in parts.iter().skip(1).zip(others) {
            let Some(other) = list.get(at) else { return Ok(common) };
            if other.slab != piece.slab || other.form != piece.form || other.length != piece.length {
                return Ok(common);
            }
            let (one, two) = (logs.get(parts[0].log)?, logs.get(part.log)?);
            if !is_same_elements(&stored.definition, (&one, piece), (&two, other), &piece.slab)? {
                return Ok(common);
            }
        }
        common += 1;
    }
    Ok(common)
}
