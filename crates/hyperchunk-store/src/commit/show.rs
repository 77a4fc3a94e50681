//! Replacement of the file at the user's path by the skeleton of the newest epoch.

use super::{now, open_skeleton};
use crate::Manifest;
use crate::format::stamp;
use crate::location::site::Site;
use hyperchunk::write::Sync;
use hyperchunk::{Error, Result};
use std::sync::Arc;
use std::time::Duration;

/// Puts the newest skeleton at the user's path.
///
/// # Errors
/// Errors of replacing the file, which say that the epoch is committed.
pub(crate) fn publish_skeleton(site: Site<'_>, manifest: &Arc<Manifest>, sync: Sync) -> Result<()> {
    let mut shown = Arc::clone(manifest);
    loop {
        let number = shown.number;
        site.operations().replace(&shown.image, None, sync).map_err(|error| with_epoch(error, number))?;
        // This call may have overwritten a newer one.
        if Manifest::numbers(site)?.last().is_none_or(|last| *last <= shown.number) {
            return Ok(());
        }
        match Manifest::newest(site)? {
            Some(newest) if newest.number > shown.number => shown = newest,
            _ => return Ok(()),
        }
    }
}

/// Adds to an error after the publication of an epoch that its data are committed.
pub(crate) fn with_epoch(error: Error, number: u64) -> Error {
    let message = format!(
        "the data are committed as epoch {number}, but the file at the store's path could not be replaced: {}; remove the cause, \
         then repeat `hyperchunk store commit`, which finishes it",
        error.message()
    );
    error.with_message(message)
}

/// Replaces the file at the user's path if it still is the skeleton of an older epoch, because a
/// commit was stopped before it replaced the file.
pub(super) fn repair(site: Site<'_>, newest: &Arc<Manifest>, sync: Sync) -> Result<()> {
    let (Ok(bytes), Ok(file)) = (site.operations().file(), open_skeleton(site)) else { return Ok(()) };
    let is_older = match stamp::read_epoch(&bytes, &file)? {
        // It waits for a first commit: of the first epoch, or of writers that truncated the file
        // after that.
        Some(0) => {
            newest.number == 1
                && stamp::read_store_id(&bytes) == Some(newest.store)
                && is_from_before(site, newest)
        }
        Some(shown) => shown < newest.number && stamp::may_be_of(&bytes, newest),
        // It is another file.
        None => false,
    };
    if is_older { publish_skeleton(site, newest, sync) } else { Ok(()) }
}

/// Returns whether the file at the user's path did not change since an epoch was made. False for a
/// store in a bucket.
fn is_from_before(site: Site<'_>, epoch: &Manifest) -> bool {
    let Some(path) = site.local() else { return false };
    let changed = std::fs::metadata(path).and_then(|metadata| metadata.modified());
    let age = changed.ok().and_then(|time| time.elapsed().ok());
    age.is_some_and(|age| age > Duration::from_nanos(now().saturating_sub(epoch.time)))
}
