//! Content that no epoch has, and that a commit must not pass over in silence.

use super::DeferredLog;
use crate::format::stamp;
use crate::format::stamp::STAMPED_WITHIN_BYTES;
use crate::location::site::Site;
use crate::{Log, Manifest, Ticket, store_folder};
use hyperchunk::{Error, ErrorKind, Result};
use std::io::Read;

/// Returns the log of a ticket to set aside if its writer is invisible since the store was created anew, and
/// no epoch has its data. A compaction makes writers invisible, too, but their data are committed.
pub(super) fn hidden(
    site: Site<'_>,
    base: &Manifest,
    ticket: &Ticket,
    set_aside: &[DeferredLog],
) -> Result<Option<DeferredLog>> {
    let writer = ticket.writer;
    if set_aside.iter().any(|aside| aside.writer == writer) {
        return Ok(None);
    }
    let Ok((header, _, _)) = Log::peek((site, writer)) else { return Ok(None) };
    for number in Manifest::numbers(site)?.into_iter().rev().filter(|number| *number < base.number) {
        let is_in = |epoch: &Manifest| epoch.log(&writer).is_some_and(|log| log.trailer >= ticket.trailer);
        match Manifest::epoch(site, number) {
            Ok(epoch) if is_in(&epoch) => return Ok(None),
            // A vacuum deletes epochs.
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let reason = Error::invalid("the store was created anew after this writer began");
    let aside = DeferredLog::new(writer, header.session, reason);
    Ok(Some(DeferredLog { is_of_other_file: true, ..aside }))
}

/// Checks, where no epoch was found, that the file at the store's path is not the skeleton of one: its folder
/// was moved away or deleted, and a new one would replace what was committed.
///
/// # Errors
/// NotFound if it is.
pub(crate) fn check_folder(site: Site<'_>) -> Result<()> {
    let Some(path) = site.local() else { return Ok(()) };
    let mut start = Vec::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(STAMPED_WITHIN_BYTES as u64).read_to_end(&mut start));
    // A file that cannot be read is reported where it is needed.
    if read.is_err() || stamp::stamped(&start).is_none_or(|epoch| epoch == 0) {
        return Ok(());
    }
    let found = if store_folder(path).is_dir() { "no epoch in it" } else { "no such folder" };
    let message = format!(
        "cannot use the store: expected its folder {0}.d beside it, got {found}; move the folder back, or use the file where \
         its folder is",
        path.display()
    );
    Err(Error::new(ErrorKind::NotFound, message))
}
