//! State of a store: epochs, logs, datasets and conflicts, for display and for programs.

use crate::commit::external_links::{LinkReport, dataset_bytes};
use crate::commit::{self, PendingLog};
use crate::format::manifest::manifest_name;
use crate::format::stamp;
use crate::location::process;
use crate::location::site::{Site, log_name};
use crate::read::scan_log::{Log, LogEnd};
use crate::{
    BegunUpload, Bucket, Conflict, DatasetId, LogHeader, LogPart, Manifest, Marker, Statistics, StoreId,
    WriterId,
};
use hyperchunk::{ErrorKind, Result};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// State of a store.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Status {
    /// Path of the store's file.
    pub path: PathBuf,
    /// ID of the store; `None` as long as nothing was committed.
    pub store: Option<StoreId>,
    /// All epochs, the oldest first.
    pub epochs: Vec<Epoch>,
    /// All logs, by writer.
    pub logs: Vec<LogState>,
    /// The datasets of the newest epoch.
    pub datasets: Vec<DatasetState>,
    /// The conflicts of the newest epoch.
    pub conflicts: Vec<Conflict>,
    /// State of the file at the user's path.
    pub skeleton: Skeleton,
    /// Total size of the logs in bytes.
    pub log_bytes: u64,
    /// Total size of the manifests in bytes.
    pub manifest_bytes: u64,
    /// Unfinished uploads to an object store: their writers are at work, or were stopped.
    pub uploads: Vec<BegunUpload>,
    /// True if there is something of a store, apart from the file itself.
    made: bool,
}

/// An epoch, possibly incomplete.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Epoch {
    /// Its number.
    pub number: u64,
    /// Epoch that it continues; 0 for none.
    pub parent: u64,
    /// Content of epochs up to this one is invisible.
    pub floor: u64,
    /// Time of creation, in nanoseconds since 1970.
    pub time: u64,
    /// Size of the manifest in bytes.
    pub size: u64,
    /// False if its commit was stopped while writing it.
    pub complete: bool,
    /// Number of logs whose content it includes.
    pub logs: usize,
    /// Number of datasets.
    pub datasets: usize,
    /// Number of conflicts that were found when it was made.
    pub conflicts: usize,
}

/// A log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogState {
    /// Its writer.
    pub writer: WriterId,
    /// Its header; `None` if its writer was stopped before it wrote one.
    pub header: Option<LogHeader>,
    /// State of its end.
    pub ending: LogEnd,
    /// True if the newest epoch ignores it: a later writer truncated the file, or a compaction
    /// replaced it.
    pub hidden: bool,
    /// True if its batches were read to commit it, because its writer was stopped before it wrote an
    /// index of them.
    pub salvaged: bool,
    /// Size in bytes.
    pub size: u64,
    /// Number of committed bytes.
    pub committed: u64,
    /// Last epoch that committed content of it; 0 for none.
    pub epoch: u64,
    /// Whether its writer's process is running; `None` if it is, or was, on another machine or in
    /// another container.
    pub runs: Option<bool>,
    /// Description of its damage.
    pub damage: Option<String>,
}

/// A dataset of the newest epoch.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DatasetState {
    /// Its identity.
    pub id: DatasetId,
    /// Its path.
    pub path: Vec<u8>,
    /// Its extent.
    pub extent: Vec<u64>,
    /// Size in bytes.
    pub bytes: u64,
    /// Number of bytes written to it, including overwritten ones.
    pub written: u64,
    /// Number of its pieces.
    pub pieces: u64,
    /// Number of index entries that they are packed into.
    pub entries: usize,
    /// Statistics of its elements, if all writers recorded them. They include overwritten elements.
    pub statistics: Option<Statistics>,
}

/// State of the file at the user's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skeleton {
    /// There is no file.
    Missing,
    /// A file that is not the skeleton of an epoch: it waits for the first commit, or is another
    /// file.
    Other,
    /// The skeleton of an epoch.
    Of {
        /// Number of the epoch.
        epoch: u64,
        /// State of its links.
        linked: LinkReport,
        /// True if it was changed since.
        edited: bool,
    },
}

impl Status {
    /// Examines the store of a file.
    ///
    /// # Errors
    /// Io; Corrupt if the newest epoch is damaged.
    pub fn read<'a>(site: impl Into<Site<'a>>) -> Result<Self> {
        let site = site.into();
        let newest = Manifest::newest(site)?;
        let numbers = Manifest::numbers(site)?;
        let epochs = site.map_concurrently(&numbers, |number| epoch(site, *number, newest.as_ref()));
        let epochs = epochs.into_iter().collect::<Result<Vec<_>>>()?;
        let writers = commit::writers(site)?;
        let logs = site.map_concurrently(&writers, |writer| log(site, *writer, newest.as_deref()));
        let mut logs = logs.into_iter().collect::<Result<Vec<_>>>()?;
        // Add the reason to logs that a commit would set aside.
        let waits =
            |log: &LogState| log.ending == LogEnd::Finished && log.damage.is_none() && log.waiting() > 0;
        let is_foreign = match &newest {
            Some(newest) => matches!(commit::skeleton_state(site, newest)?, commit::SkeletonState::Foreign),
            None => false,
        };
        if logs.iter().any(waits) && !is_foreign {
            for aside in commit::set_aside(site)? {
                if let Some(log) =
                    logs.iter_mut().find(|log| log.writer == aside.writer && log.damage.is_none())
                {
                    log.damage = Some(format!("set aside: {}", aside.reason));
                }
            }
        }
        let datasets = match &newest {
            Some(newest) => datasets(site, newest)?,
            None => Vec::new(),
        };
        Ok(Self {
            path: site.operations().path().to_owned(),
            made: site.has_store()?,
            store: newest.as_ref().map(|newest| newest.store),
            log_bytes: logs.iter().map(|log| log.size).sum(),
            manifest_bytes: epochs.iter().map(|epoch| epoch.size).sum(),
            epochs,
            logs,
            datasets,
            conflicts: newest.as_ref().map(|newest| newest.conflicts.clone()).unwrap_or_default(),
            skeleton: if is_foreign { Skeleton::Other } else { skeleton(site, newest.as_deref())? },
            uploads: site.bucket().map_or_else(|| Ok(Vec::new()), Bucket::uploads)?,
        })
    }

    /// Returns whether there is a store.
    #[must_use]
    pub fn is_store(&self) -> bool {
        let any = !self.epochs.is_empty() || !self.logs.is_empty() || !self.uploads.is_empty();
        any || self.made
    }

    /// Returns the state as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let epochs = self.epochs.iter().map(|epoch| {
            json!({
                "number": epoch.number, "parent": epoch.parent, "floor": epoch.floor, "time": epoch.time,
                "size": epoch.size, "complete": epoch.complete, "logs": epoch.logs, "datasets": epoch.datasets,
                "conflicts": epoch.conflicts,
            })
        });
        let logs = self.logs.iter().map(|log| {
            json!({
                "writer": log.writer.to_string(),
                "state": log.state(),
                "size": log.size, "committed": log.committed, "epoch": log.epoch,
                "salvaged": log.salvaged, "runs": log.runs, "damage": log.damage,
                "process": log.header.as_ref().map(|header| header.process),
                "started": log.header.as_ref().map(|header| header.started),
                "session": log.header.as_ref().map(|header| header.session.to_string()),
                "priority": log.header.as_ref().map(|header| header.priority),
                "truncates": log.header.as_ref().map(|header| header.truncates),
            })
        });
        let datasets = self.datasets.iter().map(|dataset| {
            json!({
                "path": String::from_utf8_lossy(&dataset.path), "id": dataset.id.to_string(),
                "extent": dataset.extent, "bytes": dataset.bytes, "written": dataset.written,
                "pieces": dataset.pieces, "entries": dataset.entries,
            })
        });
        let conflicts = self.conflicts.iter().map(|conflict| {
            json!({
                "path": String::from_utf8_lossy(&conflict.path), "what": conflict.what,
                "start": conflict.slab.start, "count": conflict.slab.count,
                "kept": conflict.kept.to_string(), "other": conflict.other.to_string(),
            })
        });
        let uploads = self.uploads.iter().map(|begun| {
            json!({
                "writer": begun.writer.to_string(), "from": begun.from, "age": begun.age.as_secs(),
            })
        });
        let skeleton = match &self.skeleton {
            Skeleton::Missing => json!({ "state": "missing" }),
            Skeleton::Other => json!({ "state": "other" }),
            Skeleton::Of { epoch, linked, edited } => json!({
                "state": "epoch", "epoch": epoch, "edited": edited, "linked": linked.linked,
                "unlinked": linked.unlinked, "missing": linked.missing,
            }),
        };
        json!({
            "path": self.path.to_string_lossy(),
            "store": self.store.map(|store| store.to_string()),
            "epochs": epochs.collect::<Vec<_>>(),
            "logs": logs.collect::<Vec<_>>(),
            "datasets": datasets.collect::<Vec<_>>(),
            "conflicts": conflicts.collect::<Vec<_>>(),
            "skeleton": skeleton,
            "log_bytes": self.log_bytes,
            "manifest_bytes": self.manifest_bytes,
            "uploads": uploads.collect::<Vec<_>>(),
        })
    }
}

impl LogState {
    /// Returns its state in one word: `committed`, `finished`, `stopped`, `flushed`, `writing`,
    /// `failed`, `hidden`, `torn` or `damaged`. A log is `stopped` if its writer's process ended on
    /// this machine without closing it; for processes of other machines this is unknown.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (self.ending, &self.header) {
            _ if self.damage.is_some() => "damaged",
            (_, None) => "torn",
            _ if self.hidden => "hidden",
            (_, Some(header)) if header.failed && !self.salvaged => "failed",
            (LogEnd::Finished, _) if self.committed >= self.size => "committed",
            (LogEnd::Finished, _) => "finished",
            _ if self.salvaged || self.runs == Some(false) && self.committed >= self.size => "committed",
            _ if self.runs == Some(false) => "stopped",
            (LogEnd::Flushed, _) => "flushed",
            (LogEnd::Unfinished, _) => "writing",
        }
    }

    /// Returns the number of bytes that are not committed; 0 for a hidden log.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        if self.hidden { 0 } else { self.size.saturating_sub(self.committed) }
    }
}

fn epoch(site: Site<'_>, number: u64, newest: Option<&Arc<Manifest>>) -> Result<Epoch> {
    let size = site.operations().size(&manifest_name(number)).unwrap_or(0);
    let manifest = match newest.filter(|newest| newest.number == number) {
        Some(newest) => Ok(Arc::clone(newest)),
        None => Manifest::epoch(site, number),
    };
    let nothing = Epoch {
        number,
        parent: 0,
        floor: 0,
        time: 0,
        size,
        complete: false,
        logs: 0,
        datasets: 0,
        conflicts: 0,
    };
    Ok(match manifest {
        Ok(manifest) => Epoch {
            parent: manifest.parent,
            floor: manifest.floor,
            time: manifest.time,
            complete: true,
            logs: manifest.logs.len(),
            datasets: manifest.datasets.len(),
            conflicts: manifest.conflicts.len(),
            ..nothing
        },
        Err(error)
            if matches!(error.kind(), ErrorKind::Truncated | ErrorKind::NotFound | ErrorKind::Corrupt) =>
        {
            nothing
        }
        Err(error) => return Err(error),
    })
}

/// Returns whether the process of a writer is known to have ended without closing its log.
#[must_use]
pub fn has_stopped(left: &PendingLog) -> bool {
    process::is_stopped(&left.header)
}

fn log(site: Site<'_>, writer: WriterId, newest: Option<&Manifest>) -> Result<LogState> {
    let known: Option<&LogPart> = newest.and_then(|newest| newest.log(&writer));
    let mut state = LogState {
        writer,
        header: None,
        ending: LogEnd::Unfinished,
        hidden: newest.is_some_and(|newest| newest.hidden.contains(&writer)),
        salvaged: known.is_some_and(|known| known.salvaged),
        size: site.operations().size(&log_name(writer)).unwrap_or(0),
        committed: known.map_or(0, |known| known.length),
        epoch: known.map_or(0, |known| known.epoch),
        runs: None,
        damage: None,
    };
    match Log::peek((site, writer)) {
        Ok((header, ending, size)) => {
            state.runs = process::is_running(header.place, header.process);
            (state.header, state.ending, state.size) = (Some(header), ending, size);
        }
        // The writer was stopped at once, or the log was deleted just now.
        Err(error) if matches!(error.kind(), ErrorKind::Truncated | ErrorKind::NotFound) => {}
        Err(error) if error.kind() == ErrorKind::Corrupt => state.damage = Some(error.message().to_owned()),
        Err(error) => return Err(error),
    }
    if state.damage.is_none() && state.committed > state.size {
        let message = format!("{} bytes are committed, but the log has only {}", state.committed, state.size);
        state.damage = Some(message);
    }
    Ok(state)
}

fn datasets(site: Site<'_>, newest: &Manifest) -> Result<Vec<DatasetState>> {
    let file = commit::skeleton(site, newest, false)?;
    let mut all = Vec::new();
    for (place, marker, _) in Marker::find_all(&file)? {
        let Some(stored) = newest.dataset(&marker.dataset) else { continue };
        let mut statistics: Option<Statistics> = None;
        let mut complete = true;
        for part in stored.parts.iter().filter(|part| !part.written.pieces.is_empty()) {
            match (&mut statistics, &part.written.statistics) {
                (Some(all), Some(more)) => all.merge(more),
                (all @ None, more) => *all = *more,
                _ => {}
            }
            // A part that only has pages about other writers' data has no statistics.
            complete &= part.written.statistics.is_some() || part.written.pieces.is_empty();
        }
        let pieces = || stored.parts.iter().map(|part| &part.written.pieces);
        all.push(DatasetState {
            id: marker.dataset,
            path: place,
            extent: stored.extent.clone(),
            bytes: dataset_bytes(stored)?,
            written: pieces().flat_map(|pieces| pieces.iter()).map(|piece| piece.length).sum(),
            pieces: pieces().map(crate::PackedPieces::len).sum(),
            entries: pieces().map(crate::PackedPieces::entries).sum(),
            statistics: statistics.filter(|_| complete),
        });
    }
    Ok(all)
}

fn skeleton(site: Site<'_>, newest: Option<&Manifest>) -> Result<Skeleton> {
    let file = match commit::open_skeleton(site) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Skeleton::Missing),
        Err(_) => return Ok(Skeleton::Other),
    };
    let epoch = stamp::read_epoch(&stamp::start(&file)?, &file)?;
    // An ordinary file may be too large to be read whole.
    let may_be = |newest: &&Manifest| newest.image.len() as u64 == file.source().size();
    let same =
        |newest: &&Manifest| may_be(newest) && site.operations().file().is_ok_and(|now| now == newest.image);
    // A store without datasets has no markers.
    let same = newest.filter(same);
    let Some(epoch) = epoch.filter(|epoch| *epoch > 0).or(same.map(|newest| newest.number)) else {
        return Ok(Skeleton::Other);
    };
    let linked = match site.local() {
        Some(path) => LinkReport::examine(path)?,
        // Plain HDF5 does not read object stores, so nothing is linked.
        None => LinkReport { unlinked: Marker::find_all(&file)?.len(), ..LinkReport::default() },
    };
    let of_newest = newest.is_some_and(|newest| newest.number == epoch);
    Ok(Skeleton::Of { epoch, linked, edited: of_newest && same.is_none() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::external_links;
    use crate::commit::{CommitOptions, commit};
    use crate::tests::{Folder, options};
    use crate::{Definition, LogWriter, Session, log_path};
    use hyperchunk::write::Sync;
    use hyperchunk_format::model::{ByteOrder, Datatype};
    use std::fs;

    #[test]
    fn everything_is_shown() {
        let folder = Folder::new();
        let path = folder.0.join("a.h5");
        let nothing = Status::read(&path).unwrap();
        assert!(!nothing.is_store());
        assert_eq!((nothing.skeleton, nothing.store), (Skeleton::Missing, None));
        let definition = Definition::new("/g/a", Datatype::integer(1, false, ByteOrder::Little), vec![10]);
        let write = |start: u64, close: bool| {
            let writer = LogWriter::create(&path, &options()).unwrap();
            let dataset = writer.define(&definition).unwrap();
            writer.write_box(dataset, &[start], &[5], &[u8::try_from(start).unwrap() + 1; 5]).unwrap();
            if close {
                writer.close().unwrap();
            }
            writer
        };
        let writers = [write(0, true), write(4, true)];
        let never = CommitOptions { sync: Sync::Never, ..CommitOptions::default() };
        commit(&path, &never).unwrap().unwrap();
        let (late, open) = (write(0, true), write(0, false));
        open.read_at(0, &mut [0]).unwrap();
        let torn = log_path(&path, WriterId([9; 16]));
        fs::write(&torn, b"HCLOG").unwrap();
        let status = Status::read(&path).unwrap();
        let state = |writer: WriterId| {
            let log = status.logs.iter().find(|log| log.writer == writer).unwrap();
            (log.state(), log.waiting() > 0)
        };
        assert!(writers.iter().all(|writer| state(writer.id()) == ("committed", false)));
        assert_eq!(state(late.id()), ("finished", true));
        assert_eq!((state(open.id()).0, state(WriterId([9; 16])).0), ("writing", "torn"));
        let [epoch] = &*status.epochs else { panic!("{:?}", status.epochs) };
        assert!(epoch.complete && epoch.number == 1 && epoch.logs == 2 && epoch.conflicts == 1);
        let [dataset] = &*status.datasets else { panic!("{:?}", status.datasets) };
        assert_eq!(
            (&*dataset.path, dataset.bytes, dataset.written, dataset.pieces),
            (&b"/g/a"[..], 10, 10, 2)
        );
        assert_eq!(dataset.statistics.unwrap().count, 10);
        assert_eq!(status.conflicts.len(), 1);
        let linked = LinkReport { linked: 1, ..LinkReport::default() };
        assert_eq!(status.skeleton, Skeleton::Of { epoch: 1, linked, edited: false });
        let json = status.to_json();
        assert_eq!(json["skeleton"]["linked"], 1);
        assert_eq!(json["conflicts"][0]["start"][0], 4);
        assert_eq!(json["logs"].as_array().unwrap().len(), 5);
        let logs = json["logs"].as_array().unwrap();
        let unknown = Session::default().to_string();
        assert_eq!(logs.iter().filter(|log| log["session"] == *unknown).count(), 4);
        external_links::link(&path, external_links::Linking::Never, Sync::Never).unwrap();
        assert!(matches!(Status::read(&path).unwrap().skeleton, Skeleton::Of { edited: true, .. }));
        assert!(status.log_bytes > 400 && status.manifest_bytes > 400);
    }
}
