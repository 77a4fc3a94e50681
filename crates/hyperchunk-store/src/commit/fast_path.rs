//! Fast path to the first epoch.

use super::attempt::{Attempt, Round};
use super::new_logs::read_new_log;
use super::{CommitOptions, CommitReport, publish_skeleton, with_epoch};
use crate::Manifest;
use crate::location::file_identity::FileIdentity;
use crate::location::site::{LogName, Site};
use crate::read::scan_log::Log;
use hyperchunk::Result;
use hyperchunk::write::Sync;
use std::collections::HashSet;
use std::sync::Arc;

/// Makes the first epoch of a new store from complete reports of the writers, without reading the
/// folder or any log. `None` if another commit was faster, or information is missing.
pub(super) fn reported(site: Site<'_>, options: &CommitOptions) -> Result<Option<CommitReport>> {
    let Some(path) = site.local() else { return Ok(None) };
    let Some(fresh) = options.fresh.as_ref().filter(|_| !options.reports.is_empty()) else { return Ok(None) };
    let all =
        options.tickets.iter().all(|ticket| options.reports.iter().any(|report| report.ticket == *ticket));
    if !all || options.salvage || !options.ended.is_empty() || fresh.known.epoch != 0 {
        return Ok(None);
    }
    let mut new = Vec::new();
    for report in &options.reports {
        let header = &report.header;
        if header.truncates || header.base != 0 || header.store != fresh.known.store {
            return Ok(None);
        }
        let name = LogName::from((site, header.writer));
        new.push(read_new_log(name, Log::from_report(name, report)?, None)?);
    }
    new.sort_by_key(|new| (new.header.priority, new.header.started, new.writer()));
    new.dedup_by_key(|new| new.writer());
    let seen = FileIdentity::from_path(path);
    let known = seen.is_some() && seen == fresh.identity;
    // If no writer has an image, there is no structure to merge.
    let plain = fresh.plain.as_ref().filter(|_| known && new.iter().all(|new| new.image.is_none()));
    let attempt = Attempt {
        site,
        options,
        base: None,
        // If another commit was faster, this number is taken, and publishing fails.
        number: 1,
        new,
        left: Vec::new(),
        damaged: Vec::new(),
        floor: 0,
        hidden: HashSet::new(),
        image: known.then(|| Arc::clone(&fresh.image)),
        plain: plain.cloned(),
        set_aside: Vec::new(),
        round: Round::All,
        outdated: Vec::new(),
    };
    // If a log must be set aside, use the normal path.
    let (Some(made), aside) = attempt.finish()? else { return Ok(None) };
    if !aside.is_empty() {
        return Ok(None);
    }
    if !made.manifest.publish(site, options.sync != Sync::Never)? {
        return Ok(None);
    }
    let number = made.manifest.number;
    let replaced = site.operations().replace(&made.manifest.image, seen.as_ref(), options.sync);
    replaced.map_err(|error| with_epoch(error, number))?;
    if Manifest::path(path, number + 1).exists() {
        // This call may have overwritten a newer skeleton.
        publish_skeleton(site, &made.manifest, options.sync)?;
    }
    Ok(Some(made))
}
