//! The quick way to the first epoch.

use super::attempt::{Attempt, Round};
use super::taken::taken;
use super::{CommitOptions, Committed, show};
use crate::Result;
use crate::store::Manifest;
use crate::store::create::Stamp;
use crate::store::scan::Log;
use crate::store::site::{LogName, Site};
use crate::write::Sync;
use std::collections::HashSet;
use std::sync::Arc;

/// The first epoch after a store was made, of writers that reported everything: neither the folder nor a log is looked at.
/// `None` if somebody was faster, or not everything is known.
pub(super) fn reported(site: Site<'_>, options: &CommitOptions) -> Result<Option<Committed>> {
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
        new.push(taken(name, Log::reported(name, report)?, None)?);
    }
    new.sort_by_key(|new| (new.header.priority, new.writer()));
    new.dedup_by_key(|new| new.writer());
    let seen = Stamp::of(path);
    let known = seen.is_some() && seen == fresh.stamp;
    // Without a file of any writer there is nothing to merge.
    let plain = fresh.plain.as_ref().filter(|_| known && new.iter().all(|new| new.image.is_none()));
    let attempt = Attempt {
        site,
        options,
        base: None,
        // Whoever was faster has it.
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
    // With a log that has to be set aside, all are looked at again.
    let (Some(made), aside) = attempt.finish()? else { return Ok(None) };
    if !aside.is_empty() {
        return Ok(None);
    }
    if !made.manifest.publish(site, options.sync != Sync::Never)? {
        return Ok(None);
    }
    site.at().replace(&made.manifest.image, seen.as_ref(), options.sync)?;
    if Manifest::path(path, made.manifest.number + 1).exists() {
        // It may have been replaced by this older one.
        show(site, &made.manifest, options.sync)?;
    }
    Ok(Some(made))
}
