//! Other writers of the same file, running or done, whose flushed data can be read.

use super::finish;
use super::layers::{Layer, Source};
use hyperchunk::{Error, ErrorKind, Result};
use hyperchunk_store::commit::{self, PendingLog};
use hyperchunk_store::{
    DatasetId, Definition, Log, LogEnd, Manifest, Session, WriterBytes, WriterId, log_path, store_folder,
};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// The epoch of peers' data: above all committed data, below the data of this process.
pub(super) const PEERS_EPOCH: u64 = u64::MAX - 1;
/// Age from which a folder's modification time is reliable: a later change is certain to alter it.
const CLOCK_TICK: Duration = Duration::from_millis(100);

/// The other writers of a file that this process writes to.
#[derive(Debug)]
pub(super) struct Peers {
    path: PathBuf,
    own: WriterId,
    session: Session,
    /// Finished writers of earlier sessions, which this writer hides, and writers that were stopped before
    /// this one began.
    hidden: HashSet<WriterId>,
    /// The epoch that this writer began with.
    base: Option<Arc<Manifest>>,
    /// The epoch that this file replaced when it was truncated.
    floor: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The folder's modification time when there was no other writer: while it stays the same, there is none.
    alone: Option<SystemTime>,
    /// The peers and the sizes of their logs at the last refresh.
    seen: Vec<(WriterId, u64)>,
    logs: Vec<Arc<Log>>,
    files: HashMap<WriterId, Arc<File>>,
    /// Counter of changes to `logs`.
    generation: u64,
}

/// The peers' data of one dataset.
#[derive(Debug, Default)]
pub(super) struct PeerData {
    pub(super) definition: Option<Definition>,
    /// The largest extent that one of them gave it; empty if none did.
    pub(super) dims: Vec<u64>,
    pub(super) layers: Vec<Layer>,
}

impl PeerData {
    fn grow(&mut self, dims: &[u64]) {
        if self.dims.is_empty() {
            self.dims = dims.to_vec();
        }
        self.dims.iter_mut().zip(dims).for_each(|(dim, other)| *dim = (*dim).max(*other));
    }
}

impl Peers {
    pub(super) fn new(
        path: PathBuf,
        own: WriterId,
        session: Session,
        hidden: &[WriterId],
        base: Option<Arc<Manifest>>,
    ) -> Self {
        let hidden = hidden.iter().copied().collect();
        Self { path, own, session, hidden, base, floor: 0, state: Mutex::default() }
    }

    /// Restricts the peers to writers after epoch `floor`, for a truncated file.
    pub(super) fn after_epoch(self, floor: u64) -> Self {
        Self { floor, ..self }
    }

    /// Checks whether others have flushed since the last call; returns the generation of their state.
    pub(super) fn refresh(&self) -> Result<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = fs::metadata(store_folder(&self.path)).and_then(|folder| folder.modified()).ok();
        if changed.is_some() && state.alone == changed {
            return Ok(state.generation);
        }
        let settled = changed.and_then(|time| time.elapsed().ok()).is_some_and(|age| age > CLOCK_TICK);
        let mut waiting = commit::waiting(&*self.path, self.base.as_deref())?;
        waiting.retain(|log| self.is_peer(log));
        state.alone = changed.filter(|_| settled && waiting.is_empty());
        waiting.sort_by_key(|log| (log.header.started, log.header.writer));
        let seen: Vec<_> = waiting.iter().map(|log| (log.header.writer, log.size)).collect();
        if seen == state.seen {
            return Ok(state.generation);
        }
        let mut logs = Vec::new();
        for log in &waiting {
            match self.open(log) {
                Ok(log) => logs.extend(log.map(Arc::new)),
                // Nothing has been written to this log yet.
                Err(error) if matches!(error.kind(), ErrorKind::Truncated | ErrorKind::NotFound) => {}
                Err(error) => return Err(error.file(log_path(&self.path, log.header.writer).display())),
            }
        }
        let hidden: HashSet<_> = logs.iter().flat_map(|log| log.hidden.iter().copied()).collect();
        logs.retain(|log| !hidden.contains(&log.writer()));
        (state.seen, state.logs) = (seen, logs);
        state.generation = state.generation.saturating_add(1);
        Ok(state.generation)
    }

    /// Opens the new part of a log, if any: data that the base epoch already contains is below the data of
    /// later epochs.
    fn open(&self, waiting: &PendingLog) -> Result<Option<Log>> {
        let name = log_path(&self.path, waiting.header.writer);
        let known = self.base.as_ref().and_then(|base| base.log(&waiting.header.writer));
        let (after, trailer) = known.map_or((0, 0), |known| (known.length, known.trailer));
        let is_salvaged = known.is_some_and(|known| known.salvaged);
        // An index is searched at the end of a log, but the log of a running writer has data after its last
        // index.
        if waiting.ending == LogEnd::Unfinished && finish::was_stopped(waiting) && !is_salvaged {
            // Data after its last flush will not be committed with the rest.
            let flushes = commit::last_flushes(&*self.path, std::slice::from_ref(waiting))?;
            return flushes.first().map(|ticket| Log::open(&*name, Some(ticket), trailer)).transpose();
        }
        if waiting.ending == LogEnd::Unfinished || is_salvaged {
            return Log::salvage(&*name, after).map(Some);
        }
        let log = Log::open(&*name, None, trailer)?;
        // The writer has continued in the meantime.
        let has_gone_on = log.trailer == 0 && !log.salvaged;
        if has_gone_on { Log::salvage(&*name, after) } else { Ok(log) }.map(Some)
    }

    fn is_peer(&self, log: &PendingLog) -> bool {
        let header = &log.header;
        let of_session = self.session.is_unknown() || header.session == self.session;
        // The next epoch places a finished writer's data above all earlier epochs, but a stopped process's data
        // below the epochs that were committed after it began.
        let is_older = log.ending != LogEnd::Finished
            && self.base.as_ref().is_some_and(|base| header.base < base.number);
        header.writer != self.own
            && header.floor >= self.floor
            && of_session
            && !self.hidden.contains(&header.writer)
            && !(is_older && finish::is_done(log))
    }

    /// Returns the peers' data of a dataset, as of the last [`Peers::refresh`].
    pub(super) fn dataset(&self, id: DatasetId) -> Result<PeerData> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = PeerData::default();
        // A log has the definition from the time of the dataset's creation, whose extent differs from the
        // epoch's.
        let is_known = self.base.as_ref().is_some_and(|base| base.dataset(&id).is_some());
        for log in state.logs.clone() {
            for number in (0..log.defined.len())
                .filter(|number| log.defined.get(*number).is_some_and(|one| one.id == id))
            {
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                let (_, definition) = log.definition(number)?;
                if !is_known {
                    found.grow(&definition.dims);
                }
                let written = log.written.iter().find(|(of, _)| *of == number).map(|(_, written)| written);
                if let Some(written) = written {
                    if let Some(last) = written.extents.last() {
                        found.grow(&last.dims);
                    }
                    let file = file(&mut state.files, &self.path, log.writer())?;
                    let bytes = WriterBytes::new(&self.path, log.writer(), file, &definition);
                    found.layers.push(Layer::new(Source::Other(Arc::new(bytes)), PEERS_EPOCH, written));
                }
                found.definition.get_or_insert(definition);
            }
        }
        Ok(found)
    }
}

fn file(
    known: &mut HashMap<WriterId, Arc<File>>,
    path: &std::path::Path,
    writer: WriterId,
) -> Result<Arc<File>> {
    if let Some(file) = known.get(&writer) {
        return Ok(Arc::clone(file));
    }
    let name = log_path(path, writer);
    let file = File::open(&name).map_err(|error| {
        Error::new(ErrorKind::Io, format!("cannot open the log of another writer: {error}"))
            .file(name.display())
    })?;
    let file = Arc::new(file);
    known.insert(writer, Arc::clone(&file));
    Ok(file)
}
