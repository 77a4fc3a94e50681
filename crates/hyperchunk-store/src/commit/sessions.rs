//! Sessions of a known number of writers: their progress, and runs of a session that follow an interrupted one.

use super::new_logs::NewLog;
use super::{PendingLog, waiting, waiting_among, writers};
use crate::format::manifest::Manifest;
use crate::location::process;
use crate::location::site::Site;
use crate::read::scan_log::{Log, LogEnd};
use crate::{LogHeader, Session, WriterId};
use hyperchunk::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::path::Path;

/// Progress of a session whose number of writers is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SessionProgress {
    /// Number of writers that form the session.
    pub writers: u32,
    /// Finished writers that are not committed.
    pub finished: usize,
    /// Finished writers of the same round that another program's commit has already included.
    pub committed: usize,
    /// Writers that are not finished and were stopped.
    pub stopped: usize,
    /// Writers at work.
    pub working: usize,
}

impl SessionProgress {
    /// Returns the number of finished writers.
    #[must_use]
    pub fn done(&self) -> usize {
        self.finished + self.committed
    }

    /// Returns whether the session is to be committed: all of its writers are finished, and at least one
    /// of them is not committed. If a writer was stopped, the finished ones may belong to two runs of the
    /// session, so none may be at work.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.finished > 0 && self.done() >= self.writers as usize && (self.stopped == 0 || self.working == 0)
    }
}

/// Returns whether at least `writer_count` writers of a session are finished and not committed.
/// Counts names first and stops reading as soon as the answer is known, since every one of many
/// writers may ask this when it closes.
///
/// # Errors
/// Io.
pub fn are_done<'a>(site: impl Into<Site<'a>>, session: Session, writer_count: u32) -> Result<bool> {
    let site = site.into();
    let needed = writer_count as usize;
    let ours = of_session(site, session)?;
    if ours.len() < needed {
        return Ok(false);
    }
    let manifest = Manifest::newest(site)?;
    let (mut left, mut done) = (ours.len(), 0);
    for writer in ours {
        left -= 1;
        let (waiting, _) = waiting_among(site, vec![writer], manifest.as_deref())?;
        let is_ours = |log: &&PendingLog| log.header.session == session && log.ending == LogEnd::Finished;
        done += waiting.iter().filter(is_ours).count();
        if done >= needed || done + left < needed {
            break;
        }
    }
    Ok(done >= needed)
}

/// Returns the progress of a session of `writer_count` writers. `is_gone` tells whether the process of an
/// unfinished log has ended. Of the writers committed after the file was last truncated, complete groups of
/// `writer_count` are earlier rounds of the session and do not count.
///
/// # Errors
/// Io.
pub fn progress<'a>(
    site: impl Into<Site<'a>>,
    session: Session,
    writer_count: u32,
    is_gone: impl Fn(&PendingLog) -> bool,
) -> Result<SessionProgress> {
    progress_of(site.into(), session, writer_count, &is_gone, false)
}

/// Returns [`SessionProgress::is_complete`]. Stops reading as soon as the session cannot be complete, since
/// every one of many writers may ask this when it closes.
///
/// # Errors
/// Io.
pub fn is_complete<'a>(
    site: impl Into<Site<'a>>,
    session: Session,
    writer_count: u32,
    is_gone: impl Fn(&PendingLog) -> bool,
) -> Result<bool> {
    Ok(progress_of(site.into(), session, writer_count, &is_gone, true)?.is_complete())
}

fn progress_of(
    site: Site<'_>,
    session: Session,
    writer_count: u32,
    is_gone: &dyn Fn(&PendingLog) -> bool,
    stops_early: bool,
) -> Result<SessionProgress> {
    let needed = writer_count as usize;
    let mut found = SessionProgress { writers: writer_count, ..SessionProgress::default() };
    let ours = of_session(site, session)?;
    let mut left = ours.len();
    let manifest = Manifest::newest(site)?;
    let mut floor = manifest.as_ref().map_or(0, |manifest| manifest.floor);
    let mut epochs: Vec<u64> = Vec::new();
    for writer in ours {
        if stops_early && found.finished + epochs.len() + left < needed {
            break;
        }
        left -= 1;
        let known = manifest.as_ref().and_then(|manifest| manifest.log(&writer));
        if let Some(part) = known.filter(|part| part.finished) {
            if Log::peek((site, writer)).is_ok_and(|(header, ..)| header.session == session) {
                epochs.push(part.epoch);
            }
            continue;
        }
        let (waiting, _) = waiting_among(site, vec![writer], manifest.as_deref())?;
        for log in waiting.iter().filter(|log| log.header.session == session) {
            match log.ending {
                LogEnd::Finished => found.finished += 1,
                _ if is_gone(log) => found.stopped += 1,
                _ => found.working += 1,
            }
            floor = floor.max(if log.header.truncates { log.header.floor } else { 0 });
        }
    }
    let earlier = epochs.iter().filter(|epoch| **epoch > floor).count();
    found.committed = earlier.checked_rem(needed).unwrap_or(0);
    Ok(found)
}

/// Returns the writers that may belong to a session, judged by their names. Concurrent callers get different
/// orders.
fn of_session(site: Site<'_>, session: Session) -> Result<Vec<WriterId>> {
    let mut ours = writers(site)?;
    ours.retain(|writer| writer.may_belong_to(session));
    let first = std::process::id() as usize % ours.len().max(1);
    ours.rotate_left(first);
    Ok(ours)
}

/// Returns the floor of a new writer that truncates the file, if writers of its session that did so too were
/// committed before all of them had finished: then it continues their file. `None` if it begins a new one.
///
/// # Errors
/// Io; errors of reading the newest epoch.
pub(crate) fn continued_floor(site: Site<'_>, session: Session, writer_count: u32) -> Result<Option<u64>> {
    if session.is_unknown() || writer_count < 2 {
        return Ok(None);
    }
    let Some(newest) = Manifest::newest(site)? else { return Ok(None) };
    let ours = of_session(site, session)?;
    let (mut committed, mut finished) = (0, 0);
    for writer in ours.into_iter().filter(|writer| !newest.hidden.contains(writer)) {
        let Ok((header, ending, _)) = Log::peek((site, writer)) else { continue };
        if header.session != session || !header.truncates || header.floor != newest.floor {
            continue;
        }
        let is_committed = newest.log(&writer).is_some_and(|part| part.finished);
        committed += usize::from(is_committed);
        finished += usize::from(is_committed || ending == LogEnd::Finished);
        if ending != LogEnd::Finished && process::is_stopped(&header) {
            // The session was interrupted, and this is another run of it.
            return Ok(None);
        }
    }
    let continues = committed > 0 && finished % writer_count as usize > 0;
    Ok(continues.then_some(newest.floor))
}

/// Checks, for an empty file at the path of a store, that no writer has truncated it and is not committed.
///
/// # Errors
/// NotFound if one has; errors of reading the newest epoch and the logs.
pub(crate) fn check_committed(path: &Path) -> Result<()> {
    let site = Site::from(path);
    let mut logs = waiting(site, Manifest::newest(site)?.as_deref())?;
    logs.retain(|log| !(log.is_empty() && process::is_stopped(&log.header)));
    if !logs.iter().any(|log| log.header.truncates) {
        return Ok(());
    }
    let done = logs.iter().filter(|log| log.ending == LogEnd::Finished).count();
    let stopped =
        logs.iter().filter(|log| log.ending != LogEnd::Finished && process::is_stopped(&log.header)).count();
    let working = logs.len() - done - stopped;
    let writers = logs.iter().map(|log| log.header.writers as usize).max().filter(|writers| *writers > done);
    let of = writers.map(|writers| format!(" of {writers}")).unwrap_or_default();
    let command = if stopped > 0 { "recover" } else { "commit" };
    let message = format!(
        "cannot read the file: expected a committed store, got one of which {done}{of} writers have closed it, {working} are at work \
         and {stopped} were stopped; read it when all have closed it, or after `hyperchunk store {command} {}`",
        path.display()
    );
    Err(Error::new(ErrorKind::NotFound, message))
}

/// Hides the data that a later run of a session replaces. Of the logs of a session whose writers truncated the
/// file, the finished ones that began last, as many as form the session, are one run. Finished logs that began
/// before them are of an interrupted run, and so are unfinished logs that began before the last one.
pub(super) fn hide_interrupted_runs(new: &mut [NewLog]) {
    let mut sessions: HashMap<(Session, u32), Vec<&mut NewLog>> = HashMap::new();
    for new in new.iter_mut() {
        let LogHeader { session, writers, truncates, .. } = new.header;
        if truncates && writers > 0 && !session.is_unknown() {
            sessions.entry((session, writers)).or_default().push(new);
        }
    }
    for ((_, writers), mut logs) in sessions {
        logs.sort_by_key(|log| (log.header.started, log.writer()));
        let finished: Vec<usize> =
            logs.iter().enumerate().filter(|(_, log)| log.finished).map(|(at, _)| at).collect();
        let first = finished.len().checked_sub(writers as usize).and_then(|at| finished.get(at));
        let (Some(first), Some(last)) = (first, finished.last()) else { continue };
        let is_interrupted = |(at, log): &(usize, &&mut NewLog)| at < first || (at < last && !log.finished);
        let hidden: Vec<WriterId> =
            logs.iter().enumerate().filter(is_interrupted).map(|(_, log)| log.writer()).collect();
        if let Some(last) = logs.get_mut(*last) {
            last.hidden.extend(hidden);
        }
    }
}
