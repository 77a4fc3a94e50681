//! Files opened either by one process alone, or by all ranks of a communicator together.
//!
//! Ranks that request MPI-IO (`H5Pset_fapl_mpio`) create, open, flush and close files together. In a store
//! each rank has its own log and skeleton, with the usual driver. The first rank determines the kind of file
//! and the name of the session, and commits when all ranks have closed the file: when `H5Fclose` returns at
//! any rank, the file at the path is complete.

use super::super::api::P;
use super::super::failure::{ON_ERROR_STACK, Outcome, refuse};
use super::super::file::LowerAccess;
use super::super::mpi::Ranks;
use super::super::object::Object;
use super::super::options::{Commit, Options};
use super::super::slot::{NO_REQUEST, PropertyList, Slot};
use super::open_store::{self, Call};
use super::{OpenStore, Store, describe};
use crate::symbols::Hid;
use hyperchunk_store::{LogWriter, Session, WriterId, commit};
use std::fs;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Time limit for a network file system to show the data that another machine has written.
const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The process or the ranks that open a file together; see the module.
pub(super) struct ProcessGroup {
    ranks: Option<Arc<Ranks>>,
}

impl ProcessGroup {
    /// Returns the processes that open a file with this access list; `None` if its driver stores files
    /// elsewhere, or shares them in another way.
    pub(super) fn from_access_list(slot: &'static Slot, fapl: Hid) -> Outcome<Option<Self>> {
        if open_store::is_plain_driver(slot, fapl) {
            return Ok(Some(ProcessGroup { ranks: None }));
        }
        Ok(Ranks::from_access_list(slot, fapl)?.map(|ranks| ProcessGroup { ranks: Some(Arc::new(ranks)) }))
    }

    /// Returns whether this process performs the tasks that only one of the group performs.
    pub(super) fn is_first(&self) -> bool {
        self.ranks.as_ref().is_none_or(|ranks| ranks.is_first())
    }

    /// Determines the kind of file and the writers' session; `None` if it is not a store. The first rank
    /// calls `find`, then the others call `again`.
    pub(super) fn decide<T>(
        &self,
        options: &Options,
        find: impl FnOnce() -> Outcome<Option<T>>,
        number: impl Fn(&T) -> u8,
        again: impl FnOnce() -> Outcome<T>,
    ) -> Outcome<Option<(T, Session)>> {
        let Some(ranks) = &self.ranks else {
            return Ok(find()?.map(|found| (found, open_store::session(options))));
        };
        let mut own = None;
        let told = ranks.broadcast_from_first(|| {
            own = find()?;
            let Some(found) = &own else { return Ok(Vec::new()) };
            // A new name, so that logs left by earlier sessions of the same job do not count.
            let name = options.session.clone().unwrap_or_else(|| format!("ranks {}", WriterId::new()));
            Ok([&[number(found)], name.as_bytes()].concat())
        })?;
        let Some((kind, name)) = told.split_first() else { return Ok(None) };
        let found = match own {
            Some(found) => Ok(found),
            None => again().and_then(|found| match number(&found) == *kind {
                true => Ok(found),
                false => {
                    refuse!("ranks see different states of the file: another process may be changing it")
                }
            }),
        };
        let found = ranks.agreed(found, drop)?;
        Ok(Some((found, Session::named(&String::from_utf8_lossy(name)))))
    }

    /// Returns the options, with the number of ranks as the default number of writers.
    pub(super) fn options(&self, options: &Options) -> Options {
        let mut options = options.clone();
        if let Some(ranks) = &self.ranks {
            options.writers = options.writers.or(Some(ranks.size));
        }
        options
    }

    /// Returns the options and the access list for the connector below, without MPI-IO.
    pub(super) fn below(&self, below: &LowerAccess) -> Outcome<LowerAccess> {
        let fapl = match &self.ranks {
            Some(ranks) => ranks.list_without(below.fapl.id),
            None => PropertyList::copy(below.fapl.slot, below.fapl.id),
        }?;
        Ok(LowerAccess { fapl, vol: below.vol, options: below.options.clone() })
    }

    /// Runs `each` at every rank; all fail if one fails.
    pub(super) fn all<T>(&self, each: impl FnOnce() -> Outcome<T>, undo: impl FnOnce(T)) -> Outcome<T> {
        match &self.ranks {
            Some(ranks) => ranks.agreed(each(), undo),
            None => each(),
        }
    }

    /// Calls [`open_store::begin`] at every rank.
    pub(super) fn begin(
        &self,
        slot: &'static Slot,
        below: &LowerAccess,
        store: Store,
        call: Call<'_>,
        image: Option<&[u8]>,
    ) -> Outcome<P> {
        self.agree(slot, open_store::begin(slot, below, store, call, image))
    }

    /// Calls [`open_store::read`] at every rank.
    pub(super) fn read(
        &self,
        slot: &'static Slot,
        below: &LowerAccess,
        store: Store,
        call: Call<'_>,
    ) -> Outcome<P> {
        let made = open_store::read(below, slot, store, call);
        let made = made.and_then(|made| if made.is_null() { Err(ON_ERROR_STACK) } else { Ok(made) });
        self.agree(slot, made)
    }

    /// Returns an open file, after all ranks have opened it.
    fn agree(&self, slot: &'static Slot, made: Outcome<P>) -> Outcome<P> {
        let Some(ranks) = &self.ranks else { return made };
        let made = ranks.agreed(made, |made| abandon(slot, made))?;
        // SAFETY: an object that was just made.
        if let Some(file) = unsafe { Object::from_pointer(made) }.file.as_ref() {
            *file.store.ranks.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(ranks));
        }
        Ok(made)
    }
}

/// Closes a file that another rank could not open. Nothing is written to the store.
fn abandon(slot: &'static Slot, made: P) {
    // SAFETY: an object that was just made and is not shared.
    let file = unsafe { Object::from_pointer(made) }.file.clone();
    let store = file.as_ref().map(|file| &file.store);
    if let Some(store) = store {
        store.settled.store(true, Ordering::Relaxed);
    }
    slot.keep_errors(|| {
        // SAFETY: as above; it is not used any more.
        let closed =
            unsafe { Object::close(made, |under, vol| (slot.api.file_close)(under, vol, 0, NO_REQUEST)) };
        // The error of the other rank is reported.
        drop(closed);
    });
    if let Some(writer) = store.and_then(|store| store.writer.as_ref()) {
        drop(fs::remove_file(writer.log()));
    }
}

impl Store {
    /// Returns the ranks that have the store open, if MPI can still be called.
    pub(super) fn ranks(&self) -> Option<Arc<Ranks>> {
        let ranks = self.ranks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ranks.filter(|ranks| ranks.are_there())
    }

    /// Returns the ranks and this rank's writer, if they have the store open for writing.
    fn writing_ranks(&self) -> Option<(Arc<Ranks>, &LogWriter)> {
        let writer = self.writer.as_ref().filter(|writer| writer.is_of_this_process())?;
        self.ranks().map(|ranks| (ranks, writer))
    }

    /// Waits until this process sees the closed logs of all ranks: a network file system may show them late.
    fn wait_for(&self, writer: &LogWriter, ranks: u32) -> Outcome<()> {
        let until = Instant::now() + VISIBILITY_TIMEOUT;
        while !commit::are_done(&self.path, writer.header().session, ranks)? {
            if Instant::now() > until {
                refuse!(
                    "cannot commit {}: expected the logs of {ranks} ranks in its folder, which they have closed, got fewer after {} s: run hyperchunk store commit {0}",
                    self.path.display(),
                    VISIBILITY_TIMEOUT.as_secs()
                )
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Ends the session of all ranks after each has ended its own log, or failed to: the first rank commits.
    pub(super) fn settle(&self, written: Outcome<()>) -> Outcome<()> {
        let Some((ranks, writer)) = self.writing_ranks() else { return written };
        self.settled.store(true, Ordering::Relaxed);
        let settled = ranks.agreed(written, drop).and_then(|()| {
            let commit = || match self.options.commit {
                Commit::Manual => Ok(Vec::new()),
                Commit::Auto if self.options.writers == Some(ranks.size) => {
                    self.wait_for(writer, ranks.size)?;
                    self.commit(writer).map(|()| Vec::new())
                }
                _ => self.commit(writer).map(|()| Vec::new()),
            };
            ranks.broadcast_from_first(commit).map(drop)
        });
        *self.ranks.lock().unwrap_or_else(PoisonError::into_inner) = None;
        settled
    }
}

impl OpenStore {
    /// Returns whether ranks have the file open together.
    pub(in crate::vol) fn has_ranks(&self) -> bool {
        self.store.ranks().is_some()
    }

    /// Returns a transfer list for the connector below, if `dxpl` requests collective transfers.
    pub(in crate::vol) fn independent(&self, dxpl: Hid) -> Outcome<Option<Hid>> {
        self.store.ranks().map_or(Ok(None), |ranks| ranks.independent(dxpl))
    }

    /// Waits until all ranks have flushed; then each sees the data of the others.
    pub(in crate::vol) fn wait_for_flushes(&self) -> Outcome<()> {
        let Some((ranks, writer)) = self.store.writing_ranks() else { return Ok(()) };
        let flushed = writer.flush_visible().map_err(Into::into);
        ranks.agreed(flushed, drop)
    }

    /// Rejects a read of a dataset in the ranks' skeletons to which this rank has written nothing, since
    /// another rank may have written to it.
    pub(in crate::vol) fn check_own(&self, under: P, vol: Hid) -> Outcome<()> {
        let store = &self.store;
        if store.writing_ranks().is_none() {
            return Ok(());
        }
        if describe::is_untouched(store.slot, under, vol)? {
            refuse!(
                "H5Dread: cannot read this dataset of {} while its ranks have it open: expected elements that this rank wrote, got none, and those that another wrote are in that rank's own file; read it after H5Fclose",
                store.path.display()
            )
        }
        Ok(())
    }

    /// Flushes at all ranks; returns when all have flushed.
    pub(in crate::vol) fn flush_together(&self) -> Outcome<()> {
        let flushed = self.flush();
        match self.store.writing_ranks() {
            Some((ranks, _)) => ranks.agreed(flushed, drop),
            None => flushed,
        }
    }

    /// Makes written data visible to other ranks, as in a file that they share.
    pub(in crate::vol) fn publish(&self) -> Outcome<()> {
        if let Some((_, writer)) = self.store.writing_ranks() {
            writer.write_out()?;
        }
        Ok(())
    }

    /// Returns the access list with which ranks opened the file; `None` if no ranks did.
    pub(in crate::vol) fn list(&self) -> Outcome<Option<PropertyList>> {
        self.store.ranks().map_or(Ok(None), |ranks| ranks.list())
    }
}
