//! Epoch that a new writer adds to.

use super::{Mode, WriterOptions};
use crate::Manifest;
use crate::commit::known_store::KnownStore;
use crate::commit::uncommitted;
use crate::location::site::Site;
use hyperchunk::Result;
use std::sync::Arc;

/// Finds the state of the store, and the epoch that the writer adds to, if there is one.
///
/// # Errors
/// NotFound if the store has epochs, but its folder is missing; errors of reading the newest epoch.
pub(super) fn find(site: Site<'_>, options: &WriterOptions) -> Result<(KnownStore, Option<Arc<Manifest>>)> {
    let found = match (&options.known, options.mode) {
        (Some(known), Mode::Truncate | Mode::JoinAnew) => (known.clone(), None),
        (Some(known), Mode::Join) => match (known.newer(site)?, known.epoch) {
            (Some(newest), _) => {
                let known = KnownStore { store: newest.store, epoch: newest.number, seen: None };
                (known, Some(newest))
            }
            (None, 0) => (known.clone(), None),
            (None, epoch) => (known.clone(), Some(Manifest::epoch(site, epoch)?)),
        },
        (None, mode) => {
            let newest = Manifest::newest(site)?;
            if newest.is_none() && mode == Mode::Join {
                uncommitted::check_folder(site)?;
            }
            let known =
                newest.as_ref().map(|base| KnownStore { store: base.store, epoch: base.number, seen: None });
            (known.unwrap_or_default(), newest.filter(|_| mode == Mode::Join))
        }
    };
    Ok(found)
}
