//! Making an epoch of what writers have finished.
//!
//! Whoever commits reads the newest epoch, looks for logs that have something new, decides what lies over what, and writes one
//! manifest under the next number. If somebody else was faster, it begins again. The new skeleton takes the place of the file
//! at the user's path last: it is a copy of what the manifest has.

mod ends;
mod reported;

use super::create::{Fresh, Stamp};
use super::id::hash;
use super::link::{self, Linking, Links};
use super::manifest::Stored;
use super::overlap;
use super::report::Report;
use super::scan::{Ending, Log};
use super::skeleton::{Change, Merge};
use super::{
    Conflict, DatasetId, Definition, Extent, LogHeader, LogPart, Manifest, Marker, PackedPieces, Part,
    Session, Slab, StoreId, Ticket, WriterId, Written, folder_of, log_of,
};
use crate::index::IndexOption;
use crate::write::Sync;
use crate::{Error, ErrorKind, File, OpenOptions, Result};
use ends::Ends;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, io};

/// How often it is begun again when others are faster.
const TRIES: usize = 1000;
/// How long a manifest that is not whole may still be being written.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is committed, and how.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CommitOptions {
    /// Only these writers, each up to its ticket; if there are none, all that are done.
    pub tickets: Vec<Ticket>,
    /// What the writers of those tickets reported: their logs need not be looked at.
    pub reports: Vec<Report>,
    /// The store as it was made, if nothing was committed to it since: it need not be looked at either.
    pub fresh: Option<Fresh>,
    /// Only writers of this session.
    pub session: Option<Session>,
    /// Also writers that go on, up to where they flushed last, if they did nothing since.
    pub flushed: bool,
    /// Also writers that were stopped, up to the last thing that they did whole. Of one that is still at work, that is what
    /// it did until now.
    pub salvage: bool,
    /// Whether it is an error if writers wrote different things to the same place.
    pub conflicts_are_errors: bool,
    /// How plain libhdf5 finds the data.
    pub link: Linking,
    /// When the epoch must have reached the disk.
    pub sync: Sync,
}

impl Default for CommitOptions {
    fn default() -> Self {
        Self {
            tickets: Vec::new(),
            reports: Vec::new(),
            fresh: None,
            session: None,
            flushed: false,
            salvage: false,
            conflicts_are_errors: false,
            link: Linking::Absolute,
            sync: Sync::Commit,
        }
    }
}

/// An epoch that was made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Committed {
    /// Its manifest.
    pub manifest: Arc<Manifest>,
    /// The writers that it has something new of.
    pub writers: Vec<WriterId>,
    /// Logs that have something that is not committed.
    pub left: Vec<Waiting>,
    /// What plain libhdf5 can read.
    pub links: Links,
}

/// A log that has something that is not committed, or may get it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// What it says of itself.
    pub header: LogHeader,
    /// How it ends.
    pub ending: Ending,
    /// How many bytes it has.
    pub size: u64,
    /// How many of them are committed.
    pub committed: u64,
}

/// The writers that have logs in the folder of a store, in order.
pub(super) fn writers(path: &Path) -> Result<Vec<WriterId>> {
    let folder = folder_of(path);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| refused("read", &folder, &error))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| refused("read", &folder, &error))?.file_name();
        found.extend(name.to_str().and_then(|name| WriterId::from_hex(name.strip_suffix(".log")?)));
    }
    found.sort_unstable();
    Ok(found)
}

/// The logs that have something that `manifest` has not, or may get it: for whoever decides when to commit. Only the first
/// and last bytes of each are read. Logs without a header, whose writers were stopped at once, are left out.
///
/// # Errors
/// Io; Corrupt for a damaged header.
pub fn waiting(path: &Path, manifest: Option<&Manifest>) -> Result<Vec<Waiting>> {
    let mut all = Vec::new();
    for writer in writers(path)? {
        let known = manifest.and_then(|manifest| manifest.log(&writer));
        if known.is_some_and(|log| log.finished)
            || manifest.is_some_and(|manifest| manifest.hidden.contains(&writer))
        {
            continue;
        }
        let (header, ending, size) = match Log::peek(&log_of(path, writer)) {
            Err(error) if matches!(error.kind(), ErrorKind::Truncated | ErrorKind::NotFound) => continue,
            peeked => peeked?,
        };
        if header.session == super::compact::session() {
            continue;
        }
        let committed = known.map_or(0, |log| log.length);
        all.push(Waiting { header, ending, size, committed });
    }
    Ok(all)
}

/// Makes an epoch of what is new; `None` if nothing is.
///
/// # Errors
/// Corrupt or Truncated for logs, tickets and images that are damaged; Invalid if writers do not agree and that is to be an
/// error, or if the file at `path` is no HDF5 file; Io.
pub fn commit(path: &Path, options: &CommitOptions) -> Result<Option<Committed>> {
    let path = std::path::absolute(path).map_err(|error| refused("find", path, &error))?;
    let named = |error: Error| error.file(path.display());
    if let Some(made) = reported::reported(&path, options).map_err(named)? {
        return Ok(Some(made));
    }
    let mut made: Option<Committed> = None;
    for _ in 0..TRIES {
        let number = made.as_ref().map(|made| made.manifest.number);
        if number.is_some() && Manifest::numbers(&path)?.last().copied() == number {
            break;
        }
        let (base, number) = newest(&path).map_err(named)?;
        if let Some(made) = &made
            && base.as_ref().is_some_and(|base| holds(base, made))
        {
            break;
        }
        // Else somebody went on from the epoch before this one, and did not see it.
        let next =
            Attempt::new(&path, (base.clone(), number), options).and_then(Attempt::finish).map_err(named)?;
        let Some(next) = next else {
            if let (Some(base), None) = (&base, &made) {
                repair(&path, base, options.sync).map_err(named)?;
            }
            break;
        };
        if next.manifest.publish(&path, options.sync != Sync::Never)? {
            made = Some(next);
        }
    }
    let Some(made) = made else { return Ok(None) };
    show(&path, &made.manifest, options.sync)?;
    Ok(Some(made))
}

/// The newest epoch, one that somebody is writing at this moment being waited for; and the number that comes next: who takes
/// it knows that nobody else went on from there.
pub(super) fn newest(path: &Path) -> Result<(Option<Arc<Manifest>>, u64)> {
    loop {
        let last = Manifest::numbers(path)?.pop().unwrap_or(0);
        let newest = Manifest::newest(path)?;
        let number = newest.as_ref().map_or(0, |newest| newest.number);
        if number >= last {
            return Ok((newest, number + 1));
        }
        let age = fs::metadata(Manifest::path(path, last)).and_then(|metadata| metadata.modified());
        let young = age.is_ok_and(|time| time.elapsed().is_ok_and(|age| age < PATIENCE));
        if !young {
            return Ok((newest, last + 1));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether an epoch has all of another.
fn holds(manifest: &Manifest, other: &Committed) -> bool {
    manifest.number == other.manifest.number
        || other.writers.iter().all(|writer| {
            let length = |manifest: &Manifest| manifest.log(writer).map(|log| log.length);
            length(manifest) >= length(&other.manifest) || manifest.hidden.contains(writer)
        })
}

/// Puts the newest skeleton at the user's path.
pub(super) fn show(path: &Path, manifest: &Arc<Manifest>, sync: Sync) -> Result<()> {
    let mut shown = Arc::clone(manifest);
    loop {
        replace(path, &shown.image, None, sync)?;
        // A faster one may have been replaced by this one.
        if Manifest::numbers(path)?.last().is_none_or(|last| *last <= shown.number) {
            return Ok(());
        }
        match Manifest::newest(path)? {
            Some(newest) if newest.number > shown.number => shown = newest,
            _ => return Ok(()),
        }
    }
}

/// Shows an epoch whose maker was stopped before it could: then the file at the user's path is that of an older one.
fn repair(path: &Path, newest: &Arc<Manifest>, sync: Sync) -> Result<()> {
    let Ok(file) = File::open(path, &plain()) else { return Ok(()) };
    let shown = Marker::all(&file)?.into_iter().map(|(_, marker, _)| marker.epoch).max();
    // Else it is another file, or one that waits for the commit of those who began it anew.
    if shown.is_some_and(|shown| shown > 0 && shown < newest.number) {
        show(path, newest, sync)
    } else {
        Ok(())
    }
}

/// Replaces the file at the user's path: whoever opens it finds the old one or the new one.
pub(super) fn replace(path: &Path, bytes: &[u8], old: Option<&Stamp>, sync: Sync) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", WriterId::new()));
    let temporary = PathBuf::from(name);
    let write = || -> io::Result<()> {
        let mut file = fs::File::options().create_new(true).write(true).open(&temporary)?;
        io::Write::write_all(&mut file, bytes)?;
        let old = old.map(|old| old.permissions.clone());
        if let Some(old) = old.or_else(|| Some(fs::metadata(path).ok()?.permissions())) {
            // Who could read it before still can.
            file.set_permissions(old)?;
        }
        if sync != Sync::Never {
            file.sync_all()?;
        }
        fs::rename(&temporary, path)?;
        #[cfg(unix)]
        if sync != Sync::Never {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            // Where folders cannot be synced, the name is as safe as it gets.
            drop(fs::File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()));
        }
        Ok(())
    };
    write().map_err(|error| {
        drop(fs::remove_file(&temporary));
        refused("replace", path, &error)
    })
}

fn refused(what: &str, path: &Path, error: &io::Error) -> Error {
    let kind = if error.kind() == io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Io };
    Error::new(kind, format!("cannot {what} {}: {error}", path.display()))
}

/// A log that something new is taken from, closed again: there may be more of them than a process may have open.
struct New {
    header: LogHeader,
    finished: bool,
    salvaged: bool,
    length: u64,
    trailer: u64,
    hidden: Vec<WriterId>,
    /// Its own file, and that which was committed before.
    image: Option<Vec<u8>>,
    before: Option<Vec<u8>>,
    written: Vec<(u32, Written)>,
    /// What the epoch before has of it.
    known: Option<LogPart>,
    /// Its datasets, by their numbers.
    definitions: Vec<(DatasetId, Definition)>,
    /// The number of each, and where what was written to it is among all that was written.
    numbers: HashMap<DatasetId, (u32, Option<usize>)>,
}

impl New {
    fn writer(&self) -> WriterId {
        self.header.writer
    }
}

/// One try to make an epoch.
struct Attempt<'a> {
    path: &'a Path,
    options: &'a CommitOptions,
    base: Option<Arc<Manifest>>,
    /// The number of the epoch that comes next.
    number: u64,
    /// In the order in which they lie over each other.
    new: Vec<New>,
    left: Vec<Waiting>,
    floor: u64,
    hidden: HashSet<WriterId>,
    /// The file at the user's path, if it is known.
    image: Option<Arc<[u8]>>,
}

impl<'a> Attempt<'a> {
    /// Finds what is new.
    fn new(
        path: &'a Path,
        (base, number): (Option<Arc<Manifest>>, u64),
        options: &'a CommitOptions,
    ) -> Result<Self> {
        let mut left = waiting(path, base.as_deref())?;
        let mut new = Vec::new();
        let tickets: HashMap<WriterId, &Ticket> =
            options.tickets.iter().map(|ticket| (ticket.writer, ticket)).collect();
        let there: HashSet<WriterId> = left.iter().map(|log| log.header.writer).collect();
        for ticket in &options.tickets {
            let known = base.as_ref().and_then(|base| base.log(&ticket.writer));
            let there = there.contains(&ticket.writer) || known.is_some_and(|log| log.finished);
            if !there && !base.as_ref().is_some_and(|base| base.hidden.contains(&ticket.writer)) {
                let message = format!("there is no log of writer {}, which gave a ticket", ticket.writer);
                return Err(Error::new(ErrorKind::NotFound, message));
            }
        }
        let wanted = |waiting: &Waiting| {
            let ticket = tickets.get(&waiting.header.writer);
            let done = match waiting.ending {
                Ending::Finished => true,
                Ending::Flushed => options.flushed || options.salvage,
                Ending::Unfinished => options.salvage,
            };
            let of_session = options.session.is_none_or(|session| session == waiting.header.session);
            if tickets.is_empty() { done && of_session } else { ticket.is_some() }
        };
        for waiting in left.iter().filter(|waiting| wanted(waiting)) {
            let writer = waiting.header.writer;
            let known = base.as_ref().and_then(|base| base.log(&writer)).copied();
            let store = base.as_ref().map(|base| base.store).unwrap_or_default();
            if waiting.header.store != StoreId::default() && base.is_some() && waiting.header.store != store {
                let message = format!("the log of writer {writer} belongs to another store");
                return Err(Error::corrupt(message));
            }
            if let Some(next) = open(path, writer, tickets.get(&writer).copied(), waiting.ending, known)? {
                new.push(next);
            }
        }
        let hidden: HashSet<WriterId> =
            new.iter().filter(|new| new.header.truncates).flat_map(|new| new.hidden.clone()).collect();
        new.retain(|new| !hidden.contains(&new.writer()));
        left.retain(|waiting| !hidden.contains(&waiting.header.writer));
        new.sort_by_key(|new| (new.header.priority, new.writer()));
        let taken: HashSet<WriterId> = new.iter().map(New::writer).collect();
        left.retain(|waiting| !taken.contains(&waiting.header.writer));
        let mut attempt =
            Self { path, options, base, number, new, left, floor: 0, hidden: HashSet::new(), image: None };
        attempt.hide();
        Ok(attempt)
    }

    /// What is not to be seen any more, because writers began the file anew.
    fn hide(&mut self) {
        if let Some(base) = &self.base {
            self.floor = base.floor;
            self.hidden.extend(&base.hidden);
        }
        for new in self.new.iter().filter(|new| new.header.truncates) {
            self.floor = self.floor.max(new.header.floor);
            self.hidden.extend(&new.hidden);
        }
    }

    /// Whether nothing of the epoch before is left.
    fn is_anew(&self) -> bool {
        let truncates = self.new.iter().any(|new| new.header.truncates);
        self.base.as_ref().map_or(truncates, |base| self.floor >= base.number)
    }

    fn finish(self) -> Result<Option<Committed>> {
        if self.new.is_empty() {
            return Ok(None);
        }
        let number = self.number;
        let (mut merge, current) = self.merge()?;
        let paths = merge.datasets();
        let mut manifest = self.data(number, &paths, current.as_ref())?;
        let places: HashMap<DatasetId, &[u8]> = paths.iter().map(|(id, path)| (*id, &**path)).collect();
        for stored in &manifest.datasets {
            let path = places.get(&stored.id).copied().unwrap_or_default();
            let found = overlap::conflicts(&manifest, stored, path, self.path)?;
            manifest.conflicts.extend(found);
        }
        manifest.conflicts.extend(merge.disagreements().iter().map(|found| Conflict {
            path: found.path.clone(),
            slab: Slab::default(),
            what: match &found.attribute {
                Some(name) => format!("attribute {}: {}", String::from_utf8_lossy(name), found.what),
                None => found.what.to_owned(),
            },
            kept: found.last,
            other: found.first.unwrap_or_default(),
        }));
        if let Some(conflict) = manifest.conflicts.first().filter(|_| self.options.conflicts_are_errors) {
            return Err(Error::invalid(describe(conflict, manifest.conflicts.len())));
        }
        let (shown, links) = link::shown(self.path, &manifest, self.options.link, &paths)?;
        manifest.image = merge.write(number, &shown)?;
        let writers = self.new.iter().map(|new| new.writer()).collect();
        Ok(Some(Committed { manifest: Arc::new(manifest), writers, left: self.left, links }))
    }

    /// The structure.
    fn merge(&self) -> Result<(Merge, Option<File>)> {
        let open = |bytes: Vec<u8>| {
            File::from_source(
                Arc::new(crate::io::Memory::new(bytes)),
                Some(self.path.to_owned()),
                &OpenOptions { ignore_locks: true, ignore_stores: true, ..OpenOptions::default() },
            )
        };
        let mut changes = Vec::new();
        let mut current = None;
        let mut epochs: BTreeMap<u64, File> = BTreeMap::new();
        if !self.is_anew() {
            match &self.base {
                Some(base) => {
                    let file = open(base.image.clone())?;
                    epochs.insert(base.number, file.clone());
                    let edited = edited(self.path, base)?;
                    changes.extend(edited.map(|image| Change {
                        writer: WriterId::default(),
                        base: Some(file.clone()),
                        image,
                    }));
                    current = Some(file);
                }
                None => current = self.before()?,
            }
        }
        // Those of many processes are often the same.
        let mut images: HashSet<[u8; 16]> = HashSet::new();
        for new in &self.new {
            let header = &new.header;
            let Some(image) = &new.image else { continue };
            let before =
                new.before.as_ref().filter(|_| new.known.is_some_and(|known| self.floor < known.epoch));
            if before == Some(image) {
                continue;
            }
            let base = match before {
                Some(before) => Some(open(before.clone())?),
                None if header.truncates || header.base == 0 => None,
                None => match epochs.get(&header.base) {
                    Some(file) => Some(file.clone()),
                    None => match Manifest::epoch(self.path, header.base) {
                        Ok(epoch) => {
                            let file = open(epoch.image.clone())?;
                            epochs.insert(header.base, file.clone());
                            Some(file)
                        }
                        // It is gone. What is there now is the nearest to what the writer saw.
                        Err(error) if error.kind() == ErrorKind::NotFound => current.clone(),
                        Err(error) => return Err(error),
                    },
                },
            };
            if base.is_none() && !images.insert(hash(image)) {
                continue;
            }
            changes.push(Change { writer: header.writer, base, image: open(image.clone())? });
        }
        changes.sort_by_key(|change| change.writer);
        let mut merge = Merge::new(current.as_ref(), &changes)?;
        let named: HashSet<DatasetId> = merge.datasets().into_iter().map(|(id, _)| id).collect();
        for new in self.new.iter().filter(|new| new.image.is_none() || new.salvaged) {
            for (id, definition) in &new.definitions {
                if !named.contains(id) {
                    merge.define(*id, &definition.path, new.writer());
                }
            }
        }
        Ok((merge, current))
    }

    /// What was there before the first epoch: a file that somebody made for the writers.
    fn before(&self) -> Result<Option<File>> {
        if let Some(image) = &self.image {
            let source = Arc::new(crate::io::Memory::new(Arc::clone(image)));
            return File::from_source(source, Some(self.path.to_owned()), &plain()).map(Some);
        }
        match File::open(self.path, &plain()) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => match fs::metadata(self.path) {
                Ok(metadata) if metadata.len() == 0 => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// The data: which parts of which logs each dataset has.
    fn data(&self, number: u64, paths: &[(DatasetId, Vec<u8>)], current: Option<&File>) -> Result<Manifest> {
        let mut manifest = Manifest {
            store: self.store(),
            number,
            parent: self.base.as_ref().map_or(0, |base| base.number),
            floor: self.floor,
            time: now(),
            ..Manifest::default()
        };
        // Datasets that were announced, of which no log says anything yet.
        let announced = match current.filter(|_| self.base.is_none()) {
            Some(file) => Marker::all(file)?,
            None => Vec::new(),
        };
        let announced = announced.into_iter().filter_map(|(_, marker, dataset)| {
            Some((marker.dataset, Marker::definition(dataset.external())?))
        });
        let announced: HashMap<DatasetId, Definition> = announced.collect();
        let mut definitions: HashMap<DatasetId, &Definition> =
            announced.iter().map(|(id, definition)| (*id, definition)).collect();
        let mut numbers: HashMap<WriterId, u32> = HashMap::new();
        if let Some(base) = &self.base {
            definitions.extend(base.datasets.iter().map(|stored| (stored.id, &stored.definition)));
            for log in &base.logs {
                // A log that can go on is kept: it is known how far it was read.
                if (log.epoch <= self.floor && log.finished) || self.hidden.contains(&log.writer) {
                    continue;
                }
                numbers.insert(log.writer, add_log(&mut manifest, *log)?);
            }
        }
        for new in &self.new {
            definitions.extend(new.definitions.iter().map(|(id, definition)| (*id, definition)));
            let part = LogPart {
                writer: new.writer(),
                length: new.length,
                trailer: new.trailer,
                epoch: number,
                finished: new.finished,
                salvaged: new.salvaged,
                priority: new.header.priority,
            };
            match numbers.get(&new.writer()) {
                Some(known) => manifest.logs[*known as usize] = part,
                None => {
                    numbers.insert(new.writer(), add_log(&mut manifest, part)?);
                }
            }
        }
        for (id, path) in paths {
            let Some(definition) = definitions.get(id) else {
                let message = format!("the structure has the dataset {id}, of which there is no definition");
                return Err(Error::corrupt(message).object(String::from_utf8_lossy(path)));
            };
            manifest.datasets.push(self.stored(*id, definition, number, &numbers)?);
        }
        manifest.hidden = self.hidden(&manifest)?;
        manifest.renumber();
        Ok(manifest)
    }

    fn store(&self) -> StoreId {
        let logs = self.new.iter().map(|new| new.header.store);
        let known =
            self.base.iter().map(|base| base.store).chain(logs).find(|store| *store != StoreId::default());
        known.unwrap_or_else(StoreId::new)
    }

    /// Logs that are there and not to be seen.
    fn hidden(&self, manifest: &Manifest) -> Result<Vec<WriterId>> {
        let mut hidden = self.hidden.clone();
        if let Some(base) = &self.base {
            hidden.extend(
                base.logs.iter().map(|log| log.writer).filter(|writer| manifest.log(writer).is_none()),
            );
        }
        if hidden.is_empty() {
            return Ok(Vec::new());
        }
        let there: HashSet<WriterId> = writers(self.path)?.into_iter().collect();
        let mut hidden: Vec<_> = hidden.into_iter().filter(|writer| there.contains(writer)).collect();
        hidden.sort_unstable();
        Ok(hidden)
    }

    fn stored(
        &self,
        id: DatasetId,
        definition: &Definition,
        number: u64,
        numbers: &HashMap<WriterId, u32>,
    ) -> Result<Stored> {
        let mut parts = Vec::new();
        let before = self.base.as_ref().and_then(|base| Some((base, base.dataset(&id)?)));
        if let Some((base, stored)) = before {
            for part in stored.parts.iter().filter(|part| part.epoch > self.floor) {
                let writer = base.logs.get(part.log as usize).map(|log| log.writer).unwrap_or_default();
                if let Some(log) = numbers.get(&writer) {
                    parts.push(Part { log: *log, ..part.clone() });
                }
            }
        }
        let seen = before.filter(|_| !self.is_anew()).map(|(_, stored)| &*stored.extent);
        let mut ends = Ends::new(seen.unwrap_or(&definition.dims));
        let mut wanted = Vec::new();
        for new in &self.new {
            let Some((dataset, Some(place))) = new.numbers.get(&id).copied() else { continue };
            let Some((_, written)) = new.written.get(place) else { continue };
            let mut written = written.clone();
            let done = before.and_then(|(base, stored)| last_order(base, stored, new.writer()));
            if let Some(done) = done.filter(|_| new.known.is_some_and(|known| known.salvaged)) {
                // What was salvaged is there already.
                let mut pieces = PackedPieces::new(definition.dims.len());
                written
                    .pieces
                    .iter()
                    .filter(|piece| piece.order > done)
                    .for_each(|piece| pieces.push(&piece));
                pieces.pack();
                written.pieces = pieces;
                written.extents.retain(|extent| extent.order > done);
            }
            let start = self.first_extent(new, dataset, id, definition)?;
            let last = written.extents.last().map_or_else(|| start.clone(), |extent| extent.dims.clone());
            written.extents = ends.take(&start, &written.extents);
            if let Some(log) = numbers.get(&new.writer()).filter(|_| !written.is_empty()) {
                wanted.push((parts.len(), last));
                parts.push(Part { log: *log, epoch: number, written });
            }
        }
        let extent = ends.extent();
        for (part, last) in wanted {
            // What another writer's extent leaves out does not come back when the dataset grows again.
            if last.iter().zip(&extent).any(|(last, dim)| last > dim) {
                let clip = Extent { order: u64::MAX, dims: extent.clone() };
                parts[part].written.extents.push(clip);
            }
        }
        Ok(Stored { id, definition: definition.clone(), extent, parts })
    }

    /// The extent that a writer found, before what is new of it.
    fn first_extent(
        &self,
        new: &New,
        dataset: u32,
        id: DatasetId,
        definition: &Definition,
    ) -> Result<Vec<u64>> {
        let header = &new.header;
        if new.known.is_some() {
            // What it did before.
            let path = log_of(self.path, header.writer);
            let all = if new.salvaged { Log::salvage(&path, 0)? } else { Log::open(&path, None, 0)? };
            let first = new.written.iter().find(|(own, _)| *own == dataset);
            let first = first
                .and_then(|(_, written)| written.extents.first())
                .map_or(u64::MAX, |extent| extent.order);
            let own =
                all.written.iter().find(|(own, _)| *own == dataset).map(|(_, written)| &written.extents);
            if let Some(last) = own.and_then(|own| own.iter().rev().find(|extent| extent.order < first)) {
                return Ok(last.dims.clone());
            }
        }
        if !header.truncates && header.base > 0 {
            let epoch = match &self.base {
                Some(base) if base.number == header.base => Some(Arc::clone(base)),
                base => match Manifest::epoch(self.path, header.base) {
                    Ok(epoch) => Some(epoch),
                    Err(error) if error.kind() == ErrorKind::NotFound => base.clone(),
                    Err(error) => return Err(error),
                },
            };
            if let Some(stored) = epoch.as_ref().and_then(|epoch| epoch.dataset(&id)) {
                return Ok(stored.extent.clone());
            }
        }
        Ok(definition.dims.clone())
    }
}

/// The file at the user's path, if it is the skeleton of that epoch and somebody changed it since, with a program that knows
/// nothing of stores.
pub(super) fn edited(path: &Path, epoch: &Manifest) -> Result<Option<File>> {
    let Ok(bytes) = fs::read(path) else { return Ok(None) };
    if bytes == epoch.image {
        return Ok(None);
    }
    let source = Arc::new(crate::io::Memory::new(bytes));
    let Ok(file) = File::from_source(source, Some(path.to_owned()), &plain()) else {
        return Ok(None);
    };
    // Else it is another file, or one that waits for its first commit.
    let markers = Marker::all(&file)?;
    Ok(markers.iter().any(|(_, marker, _)| marker.epoch == epoch.number).then_some(file))
}

/// The skeleton of an epoch, of the newest one with what somebody changed in it.
pub(super) fn skeleton(path: &Path, epoch: &Manifest, newest: bool) -> Result<File> {
    if newest && let Some(file) = edited(path, epoch)? {
        return Ok(file);
    }
    let source = Arc::new(crate::io::Memory::new(epoch.image.clone()));
    File::from_source(source, Some(path.to_owned()), &plain())
}

/// The number of the last thing of a writer that an epoch has in a dataset.
fn last_order(base: &Manifest, stored: &Stored, writer: WriterId) -> Option<u64> {
    let of_writer = |part: &&Part| base.logs.get(part.log as usize).is_some_and(|log| log.writer == writer);
    let part = stored.parts.iter().rev().find(of_writer)?;
    let pieces = part.written.pieces.iter().map(|piece| piece.order).max();
    pieces.max(part.written.extents.iter().map(|extent| extent.order).max())
}

/// Opens a log from which something new may come; `None` if there is nothing.
fn open(
    path: &Path,
    writer: WriterId,
    ticket: Option<&Ticket>,
    ending: Ending,
    known: Option<LogPart>,
) -> Result<Option<New>> {
    let name = log_of(path, writer);
    let log = match (ticket, ending) {
        (None, Ending::Unfinished) => Log::salvage(&name, known.map_or(0, |known| known.length))?,
        _ => Log::open(&name, ticket, known.map_or(0, |known| known.trailer))?,
    };
    let finished = log.ending == Ending::Finished;
    if known.is_some_and(|known| known.length >= log.length && known.finished == finished) {
        return Ok(None);
    }
    taken(&name, log, known).map(Some).map_err(|error| error.file(name.display()))
}

/// A log with its definitions.
fn taken(name: &Path, log: Log, known: Option<LogPart>) -> Result<New> {
    let count = u32::try_from(log.defined.len()).map_err(|_| Error::limit("2^32 datasets"))?;
    let definitions = (0..count).map(|number| log.definition(number)).collect::<Result<Vec<_>>>()?;
    let places: HashMap<u32, usize> =
        log.written.iter().enumerate().map(|(place, (number, _))| (*number, place)).collect();
    let numbers = definitions.iter().zip(0..);
    let numbers = numbers.map(|((id, _), number)| (*id, (number, places.get(&number).copied()))).collect();
    let image = log.read_image()?;
    let before = match known.filter(|known| known.trailer > 0 && image.is_some()) {
        Some(known) => match log.ticket(known.trailer)? {
            Some(ticket) => Log::open(name, Some(&ticket), known.trailer)?.read_image()?,
            None => None,
        },
        None => None,
    };
    Ok(New {
        finished: log.ending == Ending::Finished,
        salvaged: log.salvaged,
        length: log.length,
        trailer: log.trailer,
        image,
        before,
        known,
        definitions,
        numbers,
        header: log.header,
        hidden: log.hidden,
        written: log.written,
    })
}

pub(super) fn add_log(manifest: &mut Manifest, log: LogPart) -> Result<u32> {
    let number = u32::try_from(manifest.logs.len()).map_err(|_| Error::limit("2^32 logs"))?;
    manifest.logs.push(log);
    Ok(number)
}

pub(super) fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    u64::try_from(time).unwrap_or(u64::MAX)
}

/// A conflict in words.
fn describe(conflict: &Conflict, all: usize) -> String {
    let place = if conflict.slab.start.is_empty() {
        String::new()
    } else {
        format!(" in {:?} at {:?}", conflict.slab.count, conflict.slab.start)
    };
    let more = if all > 1 { format!(", and {} more conflicts", all - 1) } else { String::new() };
    format!(
        "{}{place}: {} (writers {} and {}){more}: nothing was committed",
        String::from_utf8_lossy(&conflict.path),
        conflict.what,
        conflict.other,
        conflict.kept
    )
}

/// For skeletons, whose datasets are markers, and of which there are no indexes.
pub(super) fn plain() -> OpenOptions {
    OpenOptions { ignore_stores: true, index: IndexOption::Never, ..OpenOptions::default() }
}

#[cfg(test)]
mod tests;
