//! The end of a writer, and the commit that may follow.

use super::super::api::P;
use super::super::failure::{ON_ERROR_STACK, Outcome, done, refuse};
use super::super::options::{Commit, Options, Sync};
use super::super::slot::{NO_REQUEST, Slot};
use super::location::Location;
use super::{Keeper, OpenStore, Store, paths};
use crate::symbols::Hid;
use hyperchunk::write;
use hyperchunk_format::checksum::lookup3;
use hyperchunk_store::commit::{self, CommitOptions, DeferredLog, PendingLog, SessionProgress};
use hyperchunk_store::{
    LogEnd, LogWriter, MARKER, Manifest, Session, Ticket, WriterId, launched, process_place,
};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_int, c_uint};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// `H5VL_FILE_FLUSH`, `H5I_FILE`, `H5F_SCOPE_GLOBAL`.
const FLUSH: i64 = 0;
const FILE: c_int = 1;
const GLOBAL: c_int = 1;
/// `H5F_ACC_RDWR`.
const WRITE: c_uint = 1;
/// `H5I_GROUP`, `H5VL_OBJECT_GET_FILE`.
const GROUP: c_int = 2;
const GET_FILE: i64 = 0;
/// `H5VL_NATIVE_FILE_GET_FILE_IMAGE`.
const GET_IMAGE: c_int = 1;

/// Error of a writer that ends because libhdf5 could not write its skeleton.
const UNWRITTEN: &str = "HDF5 cannot write out the groups, attributes and small data of the file";

/// `H5VL_LINK_DELETE`, `H5VL_LINK_EXISTS`.
const LINK_DELETE: i64 = 0;
const LINK_EXISTS: i64 = 1;

/// `H5VL_link_specific_args_t`. The fields after the operation are aligned to 8.
#[repr(C)]
struct LinkArguments {
    operation: i64,
    exists: *mut bool,
    // The largest variant has more fields.
    rest: [u64; 6],
}

/// `H5VL_file_specific_args_t` for a flush. The fields after the operation are aligned to 8.
#[repr(C)]
struct FlushArguments {
    operation: i64,
    kind: c_int,
    scope: c_int,
}

/// `H5VL_native_file_get_file_image_t`.
#[repr(C)]
struct ImageArguments {
    size: usize,
    buffer: P,
    length: *mut usize,
}

/// `H5VL_optional_args_t`.
#[repr(C)]
struct OptionalArguments {
    operation: c_int,
    arguments: P,
}

/// `H5VL_object_get_args_t` for a file.
#[repr(C)]
struct FileArguments {
    operation: i64,
    file: *mut P,
}

/// Opens the root group of a lower file.
pub(super) fn open_root(slot: &Slot, file: P, vol: Hid) -> Outcome<P> {
    let mut at = Location::itself(FILE);
    // SAFETY: a lower file, a location that is the file itself, the default lists.
    let group = unsafe { (slot.api.group_open)(file, at.pointer(), vol, c"/".as_ptr(), 0, 0, NO_REQUEST) };
    if group.is_null() { Err(ON_ERROR_STACK) } else { Ok(group) }
}

/// Deletes the group of blocks (virtual datasets over pieces of logs) from the copy of a store's skeleton
/// that an application edits: it is not part of the application's data, and the next commit creates it again.
pub(super) fn hide_blocks(slot: &Slot, root: P, vol: Hid) -> Outcome<()> {
    let name = CString::new(MARKER.trim_matches('/')).unwrap_or_default();
    let mut at = Location::named(slot, GROUP, &name)?;
    let mut exists = false;
    let mut args = LinkArguments { operation: LINK_EXISTS, exists: &raw mut exists, rest: [0; 6] };
    let place = at.pointer();
    // SAFETY: a lower group, the location of a link in it, a live place.
    done(unsafe { (slot.api.link_specific)(root, place, vol, (&raw mut args).cast(), 0, NO_REQUEST) })?;
    if exists {
        args.operation = LINK_DELETE;
        let place = at.pointer();
        // SAFETY: as above.
        done(unsafe { (slot.api.link_specific)(root, place, vol, (&raw mut args).cast(), 0, NO_REQUEST) })?;
    }
    Ok(())
}

/// Deletes the group of blocks from a private copy of a skeleton that is about to be read.
pub(super) fn hide_blocks_in_copy(
    slot: &Slot,
    vol: Hid,
    name: &CStr,
    (fapl, dxpl): (Hid, Hid),
) -> Outcome<()> {
    // SAFETY: a NUL-terminated name, lists that are open.
    let file = unsafe { (slot.api.file_open)(name.as_ptr(), WRITE, fapl, dxpl, NO_REQUEST) };
    if file.is_null() {
        return Err(ON_ERROR_STACK);
    }
    let hidden = open_root(slot, file, vol).and_then(|root| {
        let hidden = hide_blocks(slot, root, vol);
        // SAFETY: the group from above.
        slot.keep_errors(|| unsafe { (slot.api.group_close)(root, vol, 0, NO_REQUEST) });
        hidden
    });
    // SAFETY: the file from above.
    let close = || unsafe { (slot.api.file_close)(file, vol, dxpl, NO_REQUEST) };
    match hidden {
        Ok(()) => done(close()).map(drop),
        Err(error) => {
            slot.keep_errors(close);
            Err(error)
        }
    }
}

impl Keeper {
    /// Returns the lower file.
    pub(super) fn file(&self, slot: &Slot) -> Outcome<P> {
        match self.file {
            Some(file) => Ok(file as P),
            None => lower_file(slot, self.group as P, self.vol),
        }
    }
}

/// Returns the lower file of a lower group.
fn lower_file(slot: &Slot, group: P, vol: Hid) -> Outcome<P> {
    let mut at = Location::itself(GROUP);
    let mut file = null_mut();
    let mut args = FileArguments { operation: GET_FILE, file: &raw mut file };
    let place = at.pointer();
    // SAFETY: a lower group, a location that is the group itself, a live place.
    done(unsafe { (slot.api.object_get)(group, place, vol, (&raw mut args).cast(), 0, NO_REQUEST) })?;
    Ok(file)
}

/// Returns an image of the skeleton in its current state.
fn image(slot: &Slot, keeper: Keeper) -> Outcome<Vec<u8>> {
    let (file, vol) = (keeper.file(slot)?, keeper.vol);
    let mut flush = FlushArguments { operation: FLUSH, kind: FILE, scope: GLOBAL };
    // SAFETY: the lower file that is kept open, arguments of our own.
    done(unsafe { (slot.api.file_specific)(file, vol, (&raw mut flush).cast(), 0, NO_REQUEST) })?;
    let mut length = 0;
    let get = |size: usize, buffer: P, length: *mut usize| {
        let mut args = ImageArguments { size, buffer, length };
        let mut call = OptionalArguments { operation: GET_IMAGE, arguments: (&raw mut args).cast() };
        // SAFETY: as above; the buffer has `size` bytes.
        done(unsafe { (slot.api.file_optional)(file, vol, (&raw mut call).cast(), 0, NO_REQUEST) })
    };
    get(0, null_mut(), &raw mut length)?;
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(length).is_err() {
        refuse!("no memory for a skeleton of {length} bytes")
    }
    bytes.resize(length, 0);
    get(length, bytes.as_mut_ptr().cast(), &raw mut length)?;
    bytes.truncate(length);
    restore_checksum(&mut bytes);
    Ok(bytes)
}

/// Repairs the superblock of an image that HDF5 made: releases 1.14 and older clear the status flags in the
/// copy (marking the file as not open), but leave the checksum of the open file's flags. Only this damage is
/// repaired: the stored checksum must match an open file. Any other superblock stays as it is, and
/// readers reject it.
fn restore_checksum(image: &mut [u8]) {
    const FLAGS_OFFSET: usize = 11;
    /// Open for writing, and for SWMR writing.
    const OPEN: [u8; 3] = [1, 4, 5];
    let Some([2 | 3, size]) = image.get(8..10) else { return };
    let end = 12 + 4 * usize::from(*size);
    let Some((block, [a, b, c, d, ..])) = image.split_at_mut_checked(end) else { return };
    let stored = u32::from_le_bytes([*a, *b, *c, *d]);
    if block.get(FLAGS_OFFSET) != Some(&0) || lookup3(block) == stored {
        return;
    }
    let clean = lookup3(block);
    let of_open_file = OPEN.into_iter().any(|flags| {
        let mut open = block.to_vec();
        open.get_mut(FLAGS_OFFSET).is_some_and(|byte| {
            *byte = flags;
            true
        }) && lookup3(&open) == stored
    });
    if of_open_file {
        [*a, *b, *c, *d] = clean.to_le_bytes();
    }
}

impl OpenStore {
    /// Publishes all data written before the call: others can commit it, or join.
    pub(in crate::vol) fn flush(&self) -> Outcome<()> {
        let store = &self.store;
        let (Some(writer), Some(keeper)) = (&store.writer, store.keeper()) else { return Ok(()) };
        let image = image(store.slot, keeper).inspect_err(|_| writer.disable(UNWRITTEN))?;
        writer.put_image(&image)?;
        writer.flush()?;
        store.check_path()
    }

    /// Fails if the writer has ended, since a new object would be lost.
    pub(in crate::vol) fn check(&self) -> Outcome<()> {
        if self.store.writer.is_some() && self.store.ended.load(Ordering::Relaxed) {
            refuse!("{} is closed", self.store.path.display())
        }
        Ok(())
    }

    /// Returns whether any dataset of the store has been opened.
    pub(in crate::vol) fn has_datasets(&self) -> bool {
        !self.store.datasets.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Counts a new object of the file.
    pub(in crate::vol) fn held(&self) {
        self.store.objects.fetch_add(1, Ordering::Relaxed);
    }

    /// Prepares for closing an object; before the last one is closed, the writer ends.
    pub(in crate::vol) fn before_close(&self) -> Outcome<()> {
        let last = self.store.objects.load(Ordering::Relaxed) <= 1;
        if !last || self.store.ended.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let written = self.store.write_out();
        self.store.settle(written)
    }

    /// Counts a closed object; after the last one, the skeleton is dropped, and the session may be committed.
    pub(in crate::vol) fn after_close(&self) -> Outcome<()> {
        if self.store.objects.fetch_sub(1, Ordering::Relaxed) > 1 {
            return Ok(());
        }
        self.store.end()
    }

    /// Counts an object that is freed without being closed.
    pub(in crate::vol) fn released(&self) {
        self.store.objects.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Store {
    /// Fails if another file was put at the store's path: the store cannot be committed until that file is
    /// moved away.
    fn check_path(&self) -> Outcome<()> {
        let mut known = self.at_path.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = |file: Metadata| (file.dev(), file.ino(), file.size(), (file.mtime(), file.mtime_nsec()));
        let now = std::fs::metadata(&self.path).ok().map(stamp);
        if *known != now {
            commit::check_file(&self.path, "commit")?;
            *known = now;
        }
        Ok(())
    }

    /// Returns the writer, unless this process is a fork of the one that opened it.
    fn own(&self) -> Option<&LogWriter> {
        self.writer.as_ref().filter(|writer| writer.is_of_this_process())
    }

    /// Writes the skeleton into the log, and closes the log.
    fn write_out(&self) -> Outcome<()> {
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(keeper) = keeper else { return Ok(()) };
        let (group, vol) = (keeper.group as P, keeper.vol);
        paths::remove_writer(self);
        let written = match self.own() {
            Some(writer) => {
                image(self.slot, keeper).inspect_err(|_| writer.disable(UNWRITTEN)).and_then(|image| {
                    writer.put_image(&image)?;
                    Ok(writer.close().map(drop)?)
                })
            }
            None => Ok(()),
        };
        // SAFETY: the lower group that kept the file open, given up here.
        let close = || unsafe { (self.slot.api.group_close)(group, vol, 0, NO_REQUEST) };
        let closed = self.slot.keep_errors(close);
        written?;
        done(closed).map(drop)
    }

    /// Commits after the last object was closed.
    fn end(&self) -> Outcome<()> {
        match self.own() {
            Some(writer) if self.ended.load(Ordering::Relaxed) && !self.settled.load(Ordering::Relaxed) => {
                self.commit(writer)
            }
            _ => Ok(()),
        }
    }

    /// Commits, if the options make this process responsible.
    pub(super) fn commit(&self, writer: &LogWriter) -> Outcome<()> {
        let session = writer.header().session;
        let mut options = CommitOptions::default();
        if self.options.sync == Sync::Never {
            options.sync = write::Sync::Never;
        }
        let due = match self.options.commit {
            Commit::Manual => false,
            Commit::Close => true,
            Commit::Auto => self.all_done(session, &mut options)?,
        };
        if due {
            options.ended = ended_tickets(&self.path, &waiting(&self.path)?)?;
            let outcome = commit::commit_all(&self.path, &options)?;
            self.check_commit(writer, &outcome)?;
        }
        Ok(())
    }

    /// Fails if data of this session were left out of an epoch, or are hidden by data of others.
    fn check_commit(&self, writer: &LogWriter, outcome: &commit::Outcome) -> Outcome<()> {
        let session = writer.header().session;
        let ours = |aside: &&DeferredLog| {
            aside.writer == writer.id() || (!session.is_unknown() && aside.session == session)
        };
        if let Some(aside) = outcome.set_aside.iter().find(ours) {
            return Err(aside.error().file(self.path.display()).into());
        }
        let Some(made) = &outcome.made else { return Ok(()) };
        let Some(conflict) = made.manifest.conflicts.first() else { return Ok(()) };
        refuse!(
            "{}: epoch {} was committed, and writers do not agree in {} places: {conflict}",
            self.path.display(),
            made.manifest.number,
            made.manifest.conflicts.len()
        )
    }

    /// Returns whether all writers of the session are done; if their number is unknown, whether no writer is
    /// at work.
    fn all_done(&self, session: Session, options: &mut CommitOptions) -> Outcome<bool> {
        let Some(writers) = self.options.writers.or_else(launched) else {
            let waiting = commit::waiting(&self.path, Manifest::newest(&self.path)?.as_deref())?;
            return Ok(waiting.iter().all(is_done));
        };
        // A writer that joined before the first epoch may have added to the objects of other finished writers.
        let header = self.writer.as_ref().map(LogWriter::header);
        let adds_to_others = header.is_some_and(|header| header.base == 0 && !header.truncates);
        options.session = (!adds_to_others).then_some(session);
        Ok(commit::is_complete(&*self.path, session, writers, is_gone)?)
    }
}

/// Returns whether a log will not grow: its writer is done, or its process has ended. (A process of another
/// machine counts as ended if its number is free here; data that it writes later go into another epoch.)
pub(super) fn is_done(log: &PendingLog) -> bool {
    if log.ending == LogEnd::Finished || log.header.failed {
        return true;
    }
    is_gone(log)
}

/// Returns whether the process of a writer has ended. On another machine, or in another container, it counts
/// as ended if its number is free here.
fn is_gone(log: &PendingLog) -> bool {
    let Ok(process) = i32::try_from(log.header.process) else { return true };
    // SAFETY: signal 0 only tests whether the process exists.
    let there = unsafe { libc::kill(process, 0) } == 0;
    if !there {
        return std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
    }
    has_ended(process) || began_after(process, log.header.started)
}

/// Returns whether a writer was stopped: it is not done, and its process has ended.
pub(super) fn was_stopped(log: &PendingLog) -> bool {
    log.ending != LogEnd::Finished && is_gone(log)
}

/// Returns whether a log certainly will not grow: its writer is done, or its process, of this machine, has ended.
pub(super) fn has_certainly_ended(log: &PendingLog) -> bool {
    let is_here = log.header.place != 0 && log.header.place == process_place();
    log.ending == LogEnd::Finished || (is_here && is_gone(log))
}

/// Returns the progress of the first session among uncommitted logs that is to be committed by the last of its
/// writers, and is not complete.
pub(super) fn incomplete_session(path: &Path, waiting: &[PendingLog]) -> Outcome<Option<SessionProgress>> {
    let counted: BTreeSet<_> = waiting
        .iter()
        .filter(|log| log.header.writers > 0 && !log.header.session.is_unknown())
        .map(|log| (log.header.session, log.header.writers))
        .collect();
    for (session, writers) in counted {
        let progress = commit::progress(path, session, writers, is_gone)?;
        if !progress.is_complete() {
            return Ok(Some(progress));
        }
    }
    Ok(None)
}

/// Returns whether a writer certainly has the committed file open: its process is running, on this machine,
/// and it did not truncate the file.
pub(super) fn has_committed_open(log: &PendingLog) -> bool {
    let header = &log.header;
    let goes_on = log.ending != LogEnd::Finished && !header.failed && !is_gone(log);
    goes_on && !header.truncates && header.base > 0 && header.place != 0 && header.place == process_place()
}

/// Returns the uncommitted logs of a store.
fn waiting(path: &Path) -> Outcome<Vec<PendingLog>> {
    Ok(commit::waiting(path, Manifest::newest(path)?.as_deref())?)
}

/// Returns the tickets of the last flushes of stopped writers.
fn ended_tickets(path: &Path, waiting: &[PendingLog]) -> Outcome<Vec<Ticket>> {
    let stopped: Vec<PendingLog> = waiting.iter().filter(|log| was_stopped(log)).cloned().collect();
    Ok(commit::last_flushes(path, &stopped)?)
}

/// Commits data that stopped writers flushed, when a program opens a file after a crash. A program that only
/// reads commits only for processes that certainly have ended, because they ran on this machine.
pub(super) fn commit_flushed(path: &Path, options: &Options, writable: bool) -> Outcome<()> {
    if options.commit == Commit::Manual {
        return Ok(());
    }
    let waiting = waiting(path)?;
    let here = process_place();
    let is_certain = |log: &&PendingLog| writable || (here != 0 && log.header.place == here);
    let certain: Vec<PendingLog> = waiting.iter().filter(is_certain).cloned().collect();
    let mut wanted = CommitOptions::default();
    wanted.ended = ended_tickets(path, &certain)?;
    if wanted.ended.is_empty() {
        return Ok(());
    }
    let counted =
        options.writers.or_else(launched).is_some() || waiting.iter().any(|log| log.header.writers > 0);
    if counted || !waiting.iter().all(is_done) {
        // Stopped writers saw data of finished ones, so these are committed together, when all are done.
        if waiting.iter().any(|log| log.ending == LogEnd::Finished) {
            return Ok(());
        }
        wanted.session = Some(Session::named(&format!("stopped {}", WriterId::new())));
    }
    if options.sync == Sync::Never {
        wanted.sync = write::Sync::Never;
    }
    commit::commit_all(path, &wanted)?;
    Ok(())
}

/// Returns whether a process started after a writer with the same process number, so that the number was
/// reused. Tolerates a clock difference of one minute.
fn began_after(process: i32, started: u64) -> bool {
    const CLOCK_TOLERANCE_SECONDS: u64 = 60;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let ticks =
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19)?.parse::<u64>().ok());
    let system = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let boot = system.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok());
    // SAFETY: a query of the system configuration.
    let second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(0);
    let began = boot.zip(ticks).and_then(|(boot, ticks)| Some(boot + ticks.checked_div(second)?));
    began.is_some_and(|began| began > started / 1_000_000_000 + CLOCK_TOLERANCE_SECONDS)
}

/// Returns whether a process is a zombie.
fn has_ended(process: i32) -> bool {
    let Ok(status) = std::fs::read(format!("/proc/{process}/stat")) else { return false };
    // The state follows the name in parentheses, which may contain any character.
    let end = status.iter().rposition(|byte| *byte == b')');
    let state = end.and_then(|end| status.get(end + 2));
    matches!(state, Some(b'Z' | b'X'))
}

#[cfg(test)]
mod tests {
    use super::restore_checksum;
    use hyperchunk_format::encode::superblock;

    #[test]
    fn test_checksum_is_restored_only_for_cleared_flags() {
        for version in [2, 3] {
            let clean = superblock::encode(version, 48, 1000, None, 0).unwrap();
            for flags in [1, 4, 5] {
                let mut image = clean.clone();
                image[11] = flags;
                let sum = hyperchunk_format::checksum::lookup3(&image[..44]);
                image[44..].copy_from_slice(&sum.to_le_bytes());
                image[11] = 0;
                assert_ne!(image, clean);
                restore_checksum(&mut image);
                assert_eq!(image, clean);
            }
            // Any other damage stays.
            for at in 8..48 {
                let mut image = clean.clone();
                image[at] ^= 0x10;
                let before = image.clone();
                restore_checksum(&mut image);
                assert_eq!(image, before, "byte {at}");
            }
        }
        restore_checksum(&mut []);
        restore_checksum(&mut [0; 20]);
    }
}
