//! Stopped writers: their last flushes, the epoch that their data belong to, and whether their file
//! still exists.

use super::attempt::Attempt;
use super::new_logs::NewLog;
use super::{DeferredLog, PendingLog, SkeletonState, foreign_file, skeleton_state};
use crate::commit::merged_file::Change;
use crate::commit::overlap;
use crate::location::site::{LogName, Site};
use crate::read::scan_log::Log;
use crate::{Conflict, Hyperslab, Manifest, Part, StoredDataset, Ticket, WriterId};
use hyperchunk::{Error, ErrorKind, File, Result};
use std::collections::{HashMap, HashSet};

/// Returns tickets for the last flushes of writers with uncommitted content. Logs with an
/// unreadable header or batches are left out.
///
/// # Errors
/// Io.
pub fn last_flushes<'a>(site: impl Into<Site<'a>>, logs: &[PendingLog]) -> Result<Vec<Ticket>> {
    let site = site.into();
    let mut tickets = Vec::new();
    for waiting in logs {
        let name = LogName::from((site, waiting.header.writer));
        match Log::last_flush(name, waiting.ending, waiting.committed) {
            Ok(Some(ticket)) if ticket.trailer >= waiting.committed => tickets.push(ticket),
            Ok(_) => {}
            Err(error) if error.is_of_reading() && error.kind() != ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
    }
    Ok(tickets)
}

/// Returns the newest epoch that has content of a writer, or the one that it started from. Later
/// records of the writer are newer only than this epoch.
fn base_epoch(new: &NewLog) -> u64 {
    new.known.map_or(new.header.base, |known| known.epoch)
}

/// Returns the epoch directly above which the writes of a stopped writer belong; `None` if no epoch
/// follows it, or the writer is finished.
pub(super) fn outdated(new: &NewLog, base: Option<&Manifest>) -> Option<u64> {
    let seen = base_epoch(new);
    base.filter(|base| !new.finished && base.number > seen).map(|_| seen)
}

/// Returns the reason why a writer's file is not the current one, if that is the case. `floor` is
/// the floor of the next epoch.
fn other_file(new: &NewLog, base: &Manifest, floor: u64) -> Option<Error> {
    let header = &new.header;
    let is_older = if header.truncates { header.floor < base.floor } else { header.floor < floor };
    let reason = if is_older && base_epoch(new) <= floor {
        format!("the file that it wrote to was begun anew after epoch {floor}")
    } else if header.truncates && header.floor > base.floor && outdated(new, Some(base)).is_some() {
        format!(
            "it truncated the file after epoch {}, but epoch {} continues the file that it was to replace",
            header.floor, base.number
        )
    } else {
        return None;
    };
    Some(Error::invalid(reason))
}

impl Attempt<'_> {
    /// Sets aside the writers whose file is not the current one.
    pub(super) fn defer_foreign(&mut self) {
        let Some(base) = self.base.clone() else { return };
        loop {
            let floor = self.floor;
            let found = self
                .new
                .iter()
                .enumerate()
                .find_map(|(at, new)| other_file(new, &base, floor).map(|error| (at, error)));
            let Some((at, reason)) = found else { return };
            let NewLog { header, .. } = self.new.remove(at);
            let truncates = header.truncates;
            let aside = DeferredLog::new(header.writer, header.session, reason);
            self.set_aside.push(DeferredLog { truncates, is_of_other_file: true, ..aside });
            self.find_hidden();
        }
    }

    /// Returns the skeleton that the changes start from, and the structural changes of stopped
    /// writers, each followed by the changes of later epochs.
    pub(super) fn outdated_structure(
        &self,
        open: &dyn Fn(Vec<u8>) -> Result<File>,
        change_of: &mut dyn FnMut(&NewLog) -> Result<Option<Change>>,
    ) -> Result<(Option<File>, Vec<Change>)> {
        let Some(base) = &self.base else { return Ok((None, Vec::new())) };
        let file_at = |number: u64| -> Result<Option<File>> {
            if number <= self.floor {
                return Ok(None);
            }
            if number == base.number {
                return open(base.image.clone()).map(Some);
            }
            match Manifest::epoch(self.site, number) {
                Ok(epoch) => open(epoch.image.clone()).map(Some),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        };
        let mut new: Vec<&NewLog> = self.new.iter().collect();
        new.sort_by_key(|new| (base_epoch(new), new.writer()));
        let mut seen = new.first().map_or(base.number, |new| base_epoch(new));
        let first = file_at(seen)?;
        let mut last = first.clone();
        let mut changes = Vec::new();
        let go_on = |changes: &mut Vec<Change>, from: u64, last: &mut Option<File>, to: u64| -> Result<()> {
            // Without the writers' base epoch, differences from it are conflicts, and there are no
            // deletions.
            let Some(image) = file_at(to)? else { return Ok(()) };
            let parts = |id: &StoredDataset| id.parts.iter().any(|part| part.epoch > from);
            changes.push(Change {
                writer: WriterId::default(),
                base: last.clone(),
                image: image.clone(),
                deletes: last.is_some(),
                in_place: false,
                written: base
                    .datasets
                    .iter()
                    .filter(|stored| parts(stored))
                    .map(|stored| stored.id)
                    .collect(),
            });
            *last = Some(image);
            Ok(())
        };
        for new in new {
            let own = base_epoch(new);
            if own > seen {
                go_on(&mut changes, seen, &mut last, own)?;
                seen = own;
            }
            changes.extend(change_of(new)?);
        }
        go_on(&mut changes, seen, &mut last, base.number)?;
        match skeleton_state(self.site, base)? {
            SkeletonState::Edited(image) => changes.push(Change {
                writer: WriterId::default(),
                base: last,
                image,
                deletes: true,
                in_place: false,
                written: HashSet::new(),
            }),
            SkeletonState::Foreign => return Err(foreign_file(self.site, "commit")),
            SkeletonState::Unchanged | SkeletonState::Waiting => {}
        }
        Ok((first, changes))
    }

    /// Returns conflicts between stopped writers and later epochs, which take precedence.
    pub(super) fn outdated_conflicts(
        &self,
        manifest: &Manifest,
        path: &[u8],
        stored: &StoredDataset,
    ) -> Result<Vec<Conflict>> {
        let seen: HashMap<WriterId, u64> =
            self.new.iter().map(|new| (new.writer(), base_epoch(new))).collect();
        let is_outdated = |part: &Part| {
            let log = manifest.logs.get(part.log as usize);
            log.and_then(|log| seen.get(&log.writer)).is_some_and(|seen| part.epoch == seen + 1)
        };
        let mut found = overlap::conflicts_with_later(manifest, stored, path, self.site, &is_outdated)?;
        for new in &self.new {
            let is_of_it = |part: &&Part| {
                is_outdated(part)
                    && manifest.logs.get(part.log as usize).is_some_and(|log| log.writer == new.writer())
            };
            let Some(part) = stored.parts.iter().find(is_of_it) else { continue };
            let known = self.extent_at(base_epoch(new), stored.id, &stored.definition)?;
            found.extend(extent_conflict(new, part, stored, &known).map(|(slab, what)| Conflict {
                path: path.to_vec(),
                slab,
                what,
                kept: WriterId::default(),
                other: new.writer(),
            }));
        }
        Ok(found)
    }
}

/// Returns the loss of a stopped writer due to the extent of later epochs: data, or its own extent.
/// `known` is the extent that the writer started from.
fn extent_conflict(
    new: &NewLog,
    part: &Part,
    stored: &StoredDataset,
    known: &[u64],
) -> Option<(Hyperslab, String)> {
    let dims = format!("{:?}", stored.extent).replace(['[', ']'], "");
    let (_, place) = new.numbers.get(&stored.id)?;
    let (_, written) = new.written.get((*place)?)?;
    // Data that the writer clipped itself are no loss.
    let visible = |slab: Hyperslab, order: u64| {
        let mut own = written.extents.iter().filter(|extent| extent.order > order);
        own.try_fold(slab, |slab, extent| slab.clipped(&extent.dims))
    };
    let cut = part.written.pieces.iter().filter_map(|piece| visible(piece.slab, piece.order));
    if let Some(slab) = cut.into_iter().find(|slab| slab.clipped(&stored.extent).as_ref() != Some(slab)) {
        return Some((slab, format!("data outside the extent ({dims}) of later epochs")));
    }
    let last = &written.extents.last()?.dims;
    // If both enlarged it, the larger extent counts, and there is no loss.
    let mut axes = last.iter().zip(&stored.extent).zip(known);
    let differs = axes.any(|((own, now), known)| own > now || (own < now && own < known));
    let own = format!("{last:?}").replace(['[', ']'], "");
    differs.then(|| (Hyperslab::default(), format!("different extents, ({own}) and ({dims})")))
}

/// Inserts the parts of stopped writers below the parts of epochs after the one that each started
/// from.
pub(super) fn insert(parts: &mut Vec<Part>, outdated: Vec<Part>) {
    let mut inserted: HashMap<u64, usize> = HashMap::new();
    for part in outdated {
        let before = inserted.entry(part.epoch).or_default();
        let at = parts.partition_point(|other| other.epoch < part.epoch) + *before;
        *before += 1;
        parts.insert(at, part);
    }
}
