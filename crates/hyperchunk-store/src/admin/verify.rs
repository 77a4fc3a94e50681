//! Verification of all stored data against their checksums.

use crate::commit::writers;
use crate::location::site::{LogName, Site};
use crate::{Log, LogEnd, Manifest, WriterId};
use hyperchunk::internal::spread;
use hyperchunk::{ErrorKind, Result};
use std::collections::HashSet;

/// Result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Number of logs.
    pub logs: usize,
    /// Number of bytes that match.
    pub bytes: u64,
    /// Description of each damaged log.
    pub damaged: Vec<String>,
}

/// Reads all logs except hidden ones, and compares the content with its checksums. Data written
/// without checksums are not compared. A missing log that an epoch needs is reported as damage.
///
/// # Errors
/// Io; Corrupt if the newest epoch is damaged.
pub fn verify<'a>(site: impl Into<Site<'a>>) -> Result<VerifyReport> {
    let site = site.into();
    let newest = Manifest::newest(site)?;
    let there: HashSet<WriterId> = writers(site)?.into_iter().collect();
    let hidden: HashSet<WriterId> = newest.iter().flat_map(|newest| newest.hidden.iter().copied()).collect();
    let needed = newest.iter().flat_map(|newest| newest.logs.iter().map(|log| log.writer));
    let mut all: Vec<WriterId> =
        there.iter().copied().filter(|writer| !hidden.contains(writer)).chain(needed).collect();
    all.sort_unstable();
    all.dedup();
    let mut verified = VerifyReport::default();
    for writer in all {
        verified.logs += 1;
        let name = LogName::from((site, writer));
        let committed = newest.as_ref().and_then(|newest| newest.log(&writer)).map_or(0, |log| log.length);
        match open_whole(name).and_then(|log| log.verify().map(|bytes| (log, bytes))) {
            Ok((log, bytes)) if log.length >= committed => verified.bytes += bytes,
            Ok((log, _)) => verified.damaged.push(format!(
                "{}: valid up to byte {}, but {committed} bytes are committed",
                name.path().display(),
                log.length
            )),
            // The writer was stopped before it wrote anything.
            Err(error) if error.kind() == ErrorKind::Truncated && committed == 0 => {}
            Err(error) => verified.damaged.push(error.file(name.path().display()).to_string()),
        }
    }
    Ok(verified)
}

/// Opens a log with everything that can be read of it.
fn open_whole(name: LogName<'_>) -> Result<Log> {
    match Log::open(name, None, 0) {
        Ok(log) if log.ending == LogEnd::Unfinished => Log::salvage(name, 0),
        opened => opened,
    }
}

/// Compares the logs that an epoch has data in with their checksums, before these data get new ones: a copy
/// of damaged data would be valid.
///
/// # Errors
/// Corrupt for the first damaged log; NotFound, Truncated or Io.
pub(super) fn check_sources(site: Site<'_>, epoch: &Manifest, threads: usize) -> Result<()> {
    let parts = epoch.datasets.iter().flat_map(|stored| &stored.parts);
    let mut used: Vec<u32> = parts.map(|part| part.log).collect();
    used.sort_unstable();
    used.dedup();
    let used = used.into_iter().filter_map(|number| epoch.logs.get(number as usize));
    spread(
        threads,
        used,
        || (),
        |(), part| {
            let name = LogName::from((site, part.writer));
            let checked = open_whole(name).and_then(|log| log.verify());
            checked.map(drop).map_err(|error| {
                let message = format!("{}; `hyperchunk store verify` lists all damage", error.message());
                error.with_message(message).file(name.path().display())
            })
        },
    )
}
