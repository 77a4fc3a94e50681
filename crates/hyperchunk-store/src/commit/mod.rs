//! Commits: an epoch made from the logs of finished writers.
//!
//! A commit reads the newest epoch, finds logs with new content, determines the precedence of all
//! writes, and publishes one manifest under the next number. If another commit published that
//! number first, this one starts over. Last, the new skeleton, a copy of the one in the manifest,
//! replaces the file at the user's path.

mod appended_extents;
mod attempt;
mod clipped_data;
mod collective;
pub mod external_links;
mod fast_path;
pub(crate) mod known_store;
pub mod merged_file;
mod new_logs;
pub(crate) mod overlap;
pub(crate) mod sessions;
mod show;
mod stopped;
pub(crate) mod uncommitted;
pub(crate) mod virtual_blocks;
mod whole_files;

use super::{LogHeader, LogPart, Manifest, Marker, Session, Ticket, WriterId};
use crate::commit::external_links::{Linking, Links};
use crate::format::commit_report::Report;
use crate::format::header::HEADER_BYTES;
use crate::format::manifest::manifest_name;
use crate::format::stamp;
use crate::location::site::Site;
use crate::read::scan_log::{Log, LogEnd};
use attempt::{Attempt, Round};
use hyperchunk::index::IndexOption;
use hyperchunk::io::Locking;
use hyperchunk::write::Sync;
use hyperchunk::{Error, ErrorKind, File, OpenOptions, Result};
use known_store::NewStore;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use sessions::{SessionProgress, are_done, is_complete, progress};
pub(crate) use show::{publish_skeleton, with_epoch};
pub use stopped::last_flushes;

/// Maximum number of attempts when other commits are faster.
const MAX_ATTEMPTS: usize = 1000;
/// Age up to which an incomplete manifest counts as still being written.
const MAX_INCOMPLETE_AGE: Duration = Duration::from_secs(2);

/// Options of a commit: the logs to include, and how the epoch is made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CommitOptions {
    /// Only these writers, each up to its ticket. If empty, all finished writers.
    pub tickets: Vec<Ticket>,
    /// Reports of the writers of those tickets, which save reading their logs.
    pub reports: Vec<Report>,
    /// The store as it was created, if nothing was committed to it since; saves reading it.
    pub fresh: Option<NewStore>,
    /// In addition, writers that were stopped, each up to its last flush ([`last_flushes`]).
    pub ended: Vec<Ticket>,
    /// Only writers of this session.
    pub session: Option<Session>,
    /// Also include writers still at work, up to their last flush.
    pub flushed: bool,
    /// Also include writers that were stopped, up to their last complete record. A writer still at
    /// work is included up to now. Everything committed since such a writer began, or since it was
    /// last committed, takes precedence over its data.
    pub salvage: bool,
    /// Treat it as an error if writers wrote different data to the same place.
    pub conflicts_are_errors: bool,
    /// Take the raw data of logs whose structure cannot be merged: the datasets that they define,
    /// at the paths of their definitions. Otherwise such logs are set aside as a whole.
    pub data_only: bool,
    /// Make an epoch of changes that a program without hyperchunk made to the file, even if no
    /// writer has new content.
    pub edits: bool,
    /// Linking of the data for plain libhdf5.
    pub link: Linking,
    /// Point at which the epoch must be on disk.
    pub sync: Sync,
}

impl Default for CommitOptions {
    fn default() -> Self {
        Self {
            tickets: Vec::new(),
            reports: Vec::new(),
            fresh: None,
            ended: Vec::new(),
            session: None,
            flushed: false,
            salvage: false,
            conflicts_are_errors: false,
            data_only: false,
            edits: false,
            link: Linking::Absolute,
            sync: Sync::Commit,
        }
    }
}

/// A published epoch.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CommitReport {
    /// Its manifest.
    pub manifest: Arc<Manifest>,
    /// Writers whose new content it includes.
    pub writers: Vec<WriterId>,
    /// Logs with content that is not committed.
    pub left: Vec<PendingLog>,
    /// Unreadable logs, with damaged headers.
    pub damaged: Vec<WriterId>,
    /// Datasets that plain libhdf5 can read.
    pub links: Links,
    /// Logs left out of the epoch because of their content.
    pub set_aside: Vec<DeferredLog>,
}

/// A log left out of an epoch so that it does not block the others. It stays in place, and a later
/// commit tries it again.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeferredLog {
    /// Writer of the log.
    pub writer: WriterId,
    /// Session of the writer.
    pub session: Session,
    /// Reason why it cannot be committed.
    pub reason: Error,
    /// True if its raw data are in the epoch and only its structure is not
    /// ([`CommitOptions::data_only`]).
    pub has_data: bool,
    /// True if it truncated the file: with it set aside, the logs that it hides are committed.
    truncates: bool,
    /// True if it is intact but belongs to a file that no longer exists.
    is_of_other_file: bool,
}

/// Result of a commit.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// The epoch; `None` if nothing was committed.
    pub made: Option<CommitReport>,
    /// Logs that were set aside from the epoch, or from the attempt to make one.
    pub set_aside: Vec<DeferredLog>,
    /// Stopped writers that became outdated; they need a round of their own.
    outdated: Vec<WriterId>,
}

/// A log that has, or may get, content that is not committed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingLog {
    /// Header of the log.
    pub header: LogHeader,
    /// State of the end of the log.
    pub ending: LogEnd,
    /// Its size in bytes.
    pub size: u64,
    /// Number of bytes that are committed.
    pub committed: u64,
}

impl PendingLog {
    /// Returns whether nothing has been written to the log: if its writer was stopped, nothing is lost.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ending != LogEnd::Finished && self.size <= HEADER_BYTES as u64
    }
}

/// Returns the writers that have logs in the folder of a store, in order.
pub(crate) fn writers(site: Site<'_>) -> Result<Vec<WriterId>> {
    let names = site.operations().list()?;
    let mut found: Vec<WriterId> =
        names.iter().filter_map(|name| WriterId::from_hex(name.strip_suffix(".log")?)).collect();
    found.sort_unstable();
    Ok(found)
}

/// Returns the logs that have, or may get, content that `manifest` does not include; used to decide
/// when to commit. Reads only the first and last bytes of each log. Leaves out logs without a
/// header, whose writers were stopped at once, and logs with a damaged header.
///
/// # Errors
/// Io.
pub fn waiting<'a>(site: impl Into<Site<'a>>, manifest: Option<&Manifest>) -> Result<Vec<PendingLog>> {
    waiting_and_damaged(site.into(), manifest).map(|(waiting, _)| waiting)
}

/// As [`waiting`], without the logs of the writer `own` and of its session. If the session is unknown,
/// every other writer counts as one of another session. Logs whose names show that they belong to
/// the session are not read.
///
/// # Errors
/// Io.
pub fn waiting_of_others<'a>(
    site: impl Into<Site<'a>>,
    session: Session,
    own: WriterId,
) -> Result<Vec<PendingLog>> {
    let site = site.into();
    let mut others = writers(site)?;
    others.retain(|writer| *writer != own && (session.is_unknown() || !writer.may_belong_to(session)));
    if others.is_empty() {
        return Ok(Vec::new());
    }
    let manifest = Manifest::newest(site)?;
    let (mut waiting, _) = waiting_among(site, others, manifest.as_deref())?;
    waiting.retain(|log| session.is_unknown() || log.header.session != session);
    Ok(waiting)
}

/// As [`waiting`]; also returns the writers whose logs have damaged headers.
fn waiting_and_damaged(
    site: Site<'_>,
    manifest: Option<&Manifest>,
) -> Result<(Vec<PendingLog>, Vec<WriterId>)> {
    waiting_among(site, writers(site)?, manifest)
}

fn waiting_among(
    site: Site<'_>,
    writers: Vec<WriterId>,
    manifest: Option<&Manifest>,
) -> Result<(Vec<PendingLog>, Vec<WriterId>)> {
    let (mut all, mut damaged) = (Vec::new(), Vec::new());
    let mut writers = writers;
    writers.retain(|writer| {
        let known = manifest.and_then(|manifest| manifest.log(writer));
        !known.is_some_and(|log| log.finished)
            && !manifest.is_some_and(|manifest| manifest.hidden.contains(writer))
    });
    let peeked = site.map_concurrently(&writers, |writer| Log::peek((site, *writer)));
    for (writer, peeked) in writers.into_iter().zip(peeked) {
        let known = manifest.and_then(|manifest| manifest.log(&writer));
        let (header, ending, size) = match peeked {
            Err(error) if matches!(error.kind(), ErrorKind::Truncated | ErrorKind::NotFound) => continue,
            // An unreadable log must not block the commit of the others.
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                damaged.push(writer);
                continue;
            }
            peeked => peeked?,
        };
        if header.session == Session::compaction() {
            continue;
        }
        // The log of a writer that had a write error counts as unfinished, even if it ends with a
        // trailer.
        let ending = if header.failed { LogEnd::Unfinished } else { ending };
        let committed = known.map_or(0, |log| log.length);
        all.push(PendingLog { header, ending, size, committed });
    }
    Ok((all, damaged))
}

/// Makes an epoch of the new content; `None` if there is no new content. As [`commit_all`], but a
/// log that was set aside is an error if nothing else was committed or if a ticket is for it.
///
/// # Errors
/// As [`commit_all`]; the reason why a log was set aside. Other new content is committed in that
/// case.
pub fn commit<'a>(site: impl Into<Site<'a>>, options: &CommitOptions) -> Result<Option<CommitReport>> {
    let outcome = commit_all(site, options)?;
    let asked = |aside: &&DeferredLog| options.tickets.iter().any(|ticket| ticket.writer == aside.writer);
    match outcome
        .set_aside
        .iter()
        .find(asked)
        .or(outcome.set_aside.first().filter(|_| outcome.made.is_none()))
    {
        Some(aside) if outcome.made.is_none() || asked(&aside) => Err(aside.error()),
        _ => Ok(outcome.made),
    }
}

impl DeferredLog {
    fn new(writer: WriterId, session: Session, reason: Error) -> Self {
        Self { writer, session, reason, has_data: false, truncates: false, is_of_other_file: false }
    }

    /// Returns the reason as an error that also says how to proceed.
    #[must_use]
    pub fn error(&self) -> Error {
        if self.is_of_other_file {
            let message = format!(
                "cannot commit the log of writer {0}: {1}; nothing of it is lost: to get it as a file of its own, move {0}.log to \
                 the folder of a new store, NEW.h5.d, and run `hyperchunk store recover NEW.h5`",
                self.writer, self.reason
            );
            return Error::new(self.reason.kind(), message);
        }
        let message = format!(
            "cannot commit the log of writer {}: {}; other writers are not affected, and `hyperchunk store recover \
             --data-only` takes its raw data alone",
            self.writer, self.reason
        );
        Error::new(self.reason.kind(), message)
    }
}

/// Makes an epoch of the new content. A log that cannot be included because of its content is set
/// aside.
///
/// # Errors
/// Corrupt or Truncated if the newest epoch or the file at the store's path is damaged; NotFound
/// for tickets of missing logs; Invalid if writers conflict and conflicts are errors, or if the
/// file at `path` is not HDF5; Io.
pub fn commit_all<'a>(site: impl Into<Site<'a>>, options: &CommitOptions) -> Result<Outcome> {
    let site = site.into().absolute()?;
    let site = site.site();
    let named = |error: Error| error.file(site.operations().path().display());
    if let Some(made) = fast_path::reported(site, options).map_err(named)? {
        return Ok(Outcome { made: Some(made), ..Outcome::default() });
    }
    if !options.tickets.is_empty() || (!options.salvage && options.ended.is_empty()) {
        let flushed = flushed_tickets(site, options).map_err(named)?;
        if flushed.is_empty() {
            return commit_round(site, options, Round::All);
        }
        let options = CommitOptions { ended: flushed, ..options.clone() };
        return commit_round(site, &options, Round::All);
    }
    let mut all = Outcome::default();
    for _ in 0..MAX_ATTEMPTS {
        for round in [Round::Outdated, Round::Current] {
            let next = commit_round(site, options, round)?;
            let known: HashSet<WriterId> = all.set_aside.iter().map(|aside| aside.writer).collect();
            all.set_aside.extend(next.set_aside.into_iter().filter(|aside| !known.contains(&aside.writer)));
            all.outdated = next.outdated;
            all.made = match (all.made, next.made) {
                (Some(earlier), Some(made)) => Some(made.with_earlier(earlier)),
                (earlier, made) => made.or(earlier),
            };
        }
        let set_aside: HashSet<WriterId> = all.set_aside.iter().map(|aside| aside.writer).collect();
        // Otherwise another process committed between the two rounds.
        if all.outdated.iter().all(|writer| set_aside.contains(writer)) {
            break;
        }
    }
    Ok(all)
}

/// Returns tickets for the last flushes of writers still at work, if the options ask for them.
/// Leaves out writers that had a write error; [`refuse_failed`] reports them.
fn flushed_tickets(site: Site<'_>, options: &CommitOptions) -> Result<Vec<Ticket>> {
    if !options.flushed || !options.tickets.is_empty() {
        return Ok(Vec::new());
    }
    let mut at_work = waiting(site, Manifest::newest(site)?.as_deref())?;
    let of_session = |waiting: &PendingLog| options.session.is_none_or(|it| it == waiting.header.session);
    at_work.retain(|waiting| {
        waiting.ending == LogEnd::Unfinished && !waiting.header.failed && of_session(waiting)
    });
    last_flushes(site, &at_work)
}

impl CommitReport {
    /// Adds the writers and conflicts of an earlier epoch that the same commit made.
    fn with_earlier(mut self, earlier: CommitReport) -> Self {
        let mut manifest = Manifest::clone(&self.manifest);
        manifest.conflicts = [earlier.manifest.conflicts.clone(), manifest.conflicts].concat();
        self.manifest = Arc::new(manifest);
        self.writers.extend(earlier.writers);
        self
    }
}

fn commit_round(site: Site<'_>, options: &CommitOptions, round: Round) -> Result<Outcome> {
    let named = |error: Error| error.file(site.operations().path().display());
    // The file does not change from this read until it is replaced.
    let _held = site.operations().hold()?;
    let mut made: Option<CommitReport> = None;
    let mut set_aside: Vec<DeferredLog> = Vec::new();
    let mut outdated = Vec::new();
    for _ in 0..MAX_ATTEMPTS {
        let number = made.as_ref().map(|made| made.manifest.number);
        if number.is_some() && Manifest::numbers(site)?.last().copied() == number {
            break;
        }
        let (base, number) = newest(site).map_err(named)?;
        if let Some(made) = &made
            && base.as_ref().is_some_and(|base| includes(base, made))
        {
            break;
        }
        // Otherwise another commit started from the epoch before this one, without seeing it.
        let before = std::mem::take(&mut set_aside);
        let known: HashSet<WriterId> = before.iter().map(|aside| aside.writer).collect();
        let attempt = Attempt::new(site, (base.clone(), number), options, (round, before)).map_err(named)?;
        outdated.clone_from(&attempt.outdated);
        let (next, aside) = attempt.finish().map_err(named)?;
        set_aside = aside;
        if set_aside.iter().any(|aside| aside.truncates && !aside.has_data && !known.contains(&aside.writer))
        {
            continue;
        }
        set_aside.retain(|aside| !aside.has_data || next.is_some());
        let Some(next) = next else {
            match (&base, &made) {
                (Some(base), None) => show::repair(site, base, options.sync).map_err(named)?,
                (None, None) => uncommitted::check_folder(site).map_err(named)?,
                _ => {}
            }
            if made.is_none() && options.tickets.is_empty() && !options.salvage && round != Round::Outdated {
                refuse_failed(site, base.as_deref(), options.session)?;
            }
            break;
        };
        if next.manifest.publish(site, options.sync != Sync::Never)? {
            made = Some(next);
        }
    }
    if let Some(made) = &made {
        publish_skeleton(site, &made.manifest, options.sync)?;
    }
    let set_aside = made.as_ref().map_or(set_aside, |made| made.set_aside.clone());
    Ok(Outcome { made, set_aside, outdated })
}

/// Makes an epoch of the changes that a program without hyperchunk made to the file since the last
/// one, if there are any, so that a new writer sees them.
///
/// # Errors
/// As [`commit_all`].
pub fn commit_edits<'a>(site: impl Into<Site<'a>>) -> Result<()> {
    let site = site.into();
    // A session that no writer has.
    let session = Some(Session::named(&format!("edits {}", WriterId::new())));
    let options = CommitOptions { edits: true, session, ..CommitOptions::default() };
    commit_all(site, &options).map(drop)
}

/// Returns the finished logs that a commit would set aside now, without changing anything.
///
/// # Errors
/// As [`commit_all`].
pub fn set_aside<'a>(site: impl Into<Site<'a>>) -> Result<Vec<DeferredLog>> {
    let site = site.into().absolute()?;
    let site = site.site();
    let newest = newest(site)?;
    let options = CommitOptions::default();
    Ok(Attempt::new(site, newest, &options, (Round::All, Vec::new()))?.finish()?.1)
}

/// Returns an error instead of "nothing new" if a writer had a write error and its intact part is
/// not committed.
fn refuse_failed(site: Site<'_>, base: Option<&Manifest>, session: Option<Session>) -> Result<()> {
    let waiting = waiting(site, base)?;
    let is_taken = |log: &PendingLog| {
        let known = base.and_then(|base| base.log(&log.header.writer));
        known.is_some_and(|known| known.salvaged || known.length >= log.size)
    };
    let failed: Vec<_> = waiting
        .iter()
        .filter(|log| log.header.failed && session.is_none_or(|session| session == log.header.session))
        .filter(|log| !is_taken(log))
        .collect();
    let Some(first) = failed.first() else { return Ok(()) };
    let more = if failed.len() > 1 { format!(" (and {} more)", failed.len() - 1) } else { String::new() };
    let message = format!(
        "cannot commit: expected writers that are done, got writer {}{more} of process {}, which could not write all of its data \
         and got an error (a full disk, or another error of the system); data after its last flush are missing: commit \
         by the ticket of that flush, or commit the intact part with `hyperchunk store recover` (salvage=True)",
        first.header.writer, first.header.process
    );
    Err(Error::new(ErrorKind::Io, message)
        .file(site.operations().place(&crate::location::site::log_name(first.header.writer)).display()))
}

/// Returns the newest epoch and the number of the next one. Waits for a manifest that is being
/// written at the moment; taking the returned number therefore proves that no other epoch follows
/// the newest one.
pub(crate) fn newest(site: Site<'_>) -> Result<(Option<Arc<Manifest>>, u64)> {
    loop {
        let last = Manifest::numbers(site)?.pop().unwrap_or(0);
        let newest = Manifest::newest(site)?;
        let number = newest.as_ref().map_or(0, |newest| newest.number);
        if number >= last {
            return Ok((newest, number + 1));
        }
        if site.bucket().is_some() {
            // In a bucket, a manifest is complete or absent. Continuing from an earlier epoch would
            // lose this one.
            let message = format!("epoch {last} exists, but cannot be read");
            return Err(Error::corrupt(message).file(Manifest::path(site, last).display()));
        }
        let young = site.operations().age(&manifest_name(last)).is_some_and(|age| age < MAX_INCOMPLETE_AGE);
        if !young {
            return Ok((newest, last + 1));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns whether an epoch includes all of another.
fn includes(manifest: &Manifest, other: &CommitReport) -> bool {
    manifest.number == other.manifest.number
        || other.writers.iter().all(|writer| {
            let length = |manifest: &Manifest| manifest.log(writer).map(|log| log.length);
            length(manifest) >= length(&other.manifest) || manifest.hidden.contains(writer)
        })
}

/// State of the file at the user's path.
#[derive(Debug)]
pub(crate) enum SkeletonState {
    /// The skeleton as committed, or an unreadable file.
    Unchanged,
    /// The skeleton of that epoch, changed since by a program that does not know stores.
    Edited(File),
    /// The skeleton of another epoch, or a file without objects: it waits for a first commit.
    Waiting,
    /// A file with objects that do not belong to the store.
    Foreign,
}

/// Returns the error for a file that is not the store's and would be replaced.
pub(crate) fn foreign_file(site: Site<'_>, verb: &str) -> Error {
    let path = site.operations().path().display();
    Error::invalid(format!(
        "cannot {verb}: expected the file of the store whose folder is {path}.d, got another HDF5 file at {path}; move it away \
         and {verb} again (`hyperchunk store link` makes the store's file again), or move {path}.d away to keep the file that is \
         there; what was written to the store is kept in {path}.d until it is committed"
    ))
}

/// Refuses a file at the store's path that is not the store's. `verb` names the operation for the
/// message.
///
/// # Errors
/// Invalid if it is another file; errors of reading the newest epoch and the file.
pub fn check_file<'a>(site: impl Into<Site<'a>>, verb: &str) -> Result<()> {
    let site = site.into();
    match Manifest::newest(site)? {
        Some(newest) if matches!(skeleton_state(site, &newest)?, SkeletonState::Foreign) => {
            Err(foreign_file(site, verb))
        }
        _ => Ok(()),
    }
}

/// Compares the file at the user's path with an epoch.
pub(crate) fn skeleton_state(site: Site<'_>, epoch: &Manifest) -> Result<SkeletonState> {
    let bytes = match site.operations().file() {
        Ok(bytes) => bytes,
        Err(error) if site.bucket().is_some() && error.kind() != ErrorKind::NotFound => return Err(error),
        Err(_) => return Ok(SkeletonState::Unchanged),
    };
    if bytes == epoch.image {
        return Ok(SkeletonState::Unchanged);
    }
    let open = |bytes: Vec<u8>| {
        let source = Arc::new(hyperchunk::io::Memory::new(bytes));
        File::from_source(source, Some(site.operations().path().to_owned()), &skeleton_options())
    };
    let Ok(file) = open(bytes.clone()) else { return Ok(SkeletonState::Unchanged) };
    if !stamp::may_be_of(&bytes, epoch) {
        return Ok(SkeletonState::Foreign);
    }
    match stamp::read_epoch(&bytes, &file)? {
        Some(number) if number == epoch.number => {
            // Stamps of earlier versions do not name the store.
            let is_known = |(_, marker, _): &(_, Marker, _)| epoch.dataset(&marker.dataset).is_some();
            let is_foreign =
                stamp::read_store_id(&bytes).is_none() && !Marker::find_all(&file)?.iter().all(is_known);
            return Ok(if is_foreign { SkeletonState::Foreign } else { SkeletonState::Edited(file) });
        }
        Some(_) => return Ok(SkeletonState::Waiting),
        None => {}
    }
    let has_objects = !file.root()?.group()?.links()?.is_empty();
    // A skeleton without datasets that an earlier version made cannot be recognized.
    let known = has_objects && stamp::read_epoch(&epoch.image, &open(epoch.image.clone())?)?.is_some();
    Ok(if known { SkeletonState::Foreign } else { SkeletonState::Waiting })
}

/// Returns the file at the user's path, if it is the skeleton of that epoch and was changed since.
fn edited_file(site: Site<'_>, epoch: &Manifest) -> Result<Option<File>> {
    match skeleton_state(site, epoch)? {
        SkeletonState::Edited(file) => Ok(Some(file)),
        SkeletonState::Unchanged | SkeletonState::Waiting | SkeletonState::Foreign => Ok(None),
    }
}

/// Returns the skeleton of an epoch. With `newest`, changes made to the file at the user's path are
/// included.
pub(crate) fn skeleton(site: Site<'_>, epoch: &Manifest, newest: bool) -> Result<File> {
    if newest && let Some(file) = edited_file(site, epoch)? {
        return Ok(file);
    }
    let source = Arc::new(hyperchunk::io::Memory::new(epoch.image.clone()));
    File::from_source(source, Some(site.operations().path().to_owned()), &skeleton_options())
}

/// Opens the file at the user's path.
pub(crate) fn open_skeleton(site: Site<'_>) -> Result<File> {
    match site.local() {
        Some(path) => File::open(path, &skeleton_options()),
        None => {
            let source = Arc::new(hyperchunk::io::Memory::new(site.operations().file()?));
            File::from_source(source, Some(site.operations().path().to_owned()), &skeleton_options())
        }
    }
}

pub(crate) fn add_log(manifest: &mut Manifest, log: LogPart) -> Result<u32> {
    let number = u32::try_from(manifest.logs.len()).map_err(|_| Error::limit("2^32 logs"))?;
    manifest.logs.push(log);
    Ok(number)
}

pub(crate) fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    u64::try_from(time).unwrap_or(u64::MAX)
}

/// Returns options for opening skeletons, whose datasets are markers and which have no indexes.
pub(crate) fn skeleton_options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.ignore_stores = true;
    options.index = IndexOption::Never;
    // This very program may have the file open through libhdf5. Commits use locks of their own.
    options.locking = Locking::Never;
    options
}

#[cfg(test)]
mod tests;
