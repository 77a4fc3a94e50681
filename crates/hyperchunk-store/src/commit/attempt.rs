//! One attempt to make an epoch: precedence of the data, merged structure, and hidden content.

use super::appended_extents::{AppendedExtents, append_rows};
use super::collective;
use super::new_logs::{NewLog, open};
use super::open_skeleton;
use super::{
    CommitOptions, CommitReport, DeferredLog, PendingLog, SkeletonState, add_log, foreign_file, now,
    sessions, skeleton_options, skeleton_state, stopped, uncommitted, waiting_and_damaged, writers,
};
use crate::commit::merged_file::{Change, Identity, Merge};
use crate::commit::{external_links, overlap};
use crate::format::id::hash;
use crate::format::manifest::StoredDataset;
use crate::format::stamp::Stamp;
use crate::location::site::Site;
use crate::read::scan_log::{Log, LogEnd};
use crate::{
    Conflict, DatasetId, DatasetWrites, Definition, Extent, Hyperslab, LogPart, Manifest, Marker, NAMELESS,
    PackedPieces, Page, PageKind, Part, StoreId, Ticket, WriterId,
};
use hyperchunk::{Error, ErrorKind, File, OpenOptions, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Selection of the writers that a commit round includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Round {
    /// All that the commit requests.
    All,
    /// Only stopped writers that are outdated: there were other epochs since they began, or were
    /// last committed.
    Outdated,
    /// All others.
    Current,
}

/// One attempt to make an epoch.
pub(super) struct Attempt<'a> {
    pub(super) site: Site<'a>,
    pub(super) options: &'a CommitOptions,
    pub(super) base: Option<Arc<Manifest>>,
    /// Number of the next epoch.
    pub(super) number: u64,
    /// New content, in order of precedence, the lowest first.
    pub(super) new: Vec<NewLog>,
    pub(super) left: Vec<PendingLog>,
    pub(super) damaged: Vec<WriterId>,
    pub(super) floor: u64,
    pub(super) hidden: HashSet<WriterId>,
    /// The file at the user's path, if known.
    pub(super) image: Option<Arc<[u8]>>,
    /// The datasets in it, if known and if the file has nothing else.
    pub(super) plain: Option<Arc<[Definition]>>,
    /// Logs that cannot be included.
    pub(super) set_aside: Vec<DeferredLog>,
    pub(super) round: Round,
    /// Outdated writers that need another round.
    pub(super) outdated: Vec<WriterId>,
}

impl<'a> Attempt<'a> {
    /// Finds new content, except in logs that were set aside before.
    pub(super) fn new(
        site: Site<'a>,
        (base, number): (Option<Arc<Manifest>>, u64),
        options: &'a CommitOptions,
        (round, mut set_aside): (Round, Vec<DeferredLog>),
    ) -> Result<Self> {
        let (mut left, damaged) = waiting_and_damaged(site, base.as_deref())?;
        let mut new = Vec::new();
        let tickets: HashMap<WriterId, &Ticket> =
            options.tickets.iter().map(|ticket| (ticket.writer, ticket)).collect();
        let ended: HashMap<WriterId, &Ticket> =
            options.ended.iter().map(|ticket| (ticket.writer, ticket)).collect();
        let ticket_of = |waiting: &PendingLog| {
            let writer = waiting.header.writer;
            // A writer that finished in the meantime is committed as a whole.
            let ended = || ended.get(&writer).filter(|_| waiting.ending != LogEnd::Finished);
            tickets.get(&writer).or_else(ended).copied()
        };
        let there: HashSet<WriterId> = left.iter().map(|log| log.header.writer).collect();
        for ticket in &options.tickets {
            let known = base.as_ref().and_then(|base| base.log(&ticket.writer));
            let there = there.contains(&ticket.writer) || known.is_some_and(|log| log.finished);
            match base.as_ref().filter(|base| base.hidden.contains(&ticket.writer)) {
                Some(base) => set_aside.extend(uncommitted::hidden(site, base, ticket, &set_aside)?),
                None if there => {}
                None => {
                    let message = format!("there is no log of the ticket's writer, {}", ticket.writer);
                    return Err(Error::new(ErrorKind::NotFound, message));
                }
            }
        }
        let wanted = |waiting: &PendingLog| {
            let ticket = tickets.get(&waiting.header.writer);
            let done = match waiting.ending {
                LogEnd::Finished => true,
                LogEnd::Flushed => options.flushed || options.salvage,
                LogEnd::Unfinished => options.salvage,
            };
            let of_session = options.session.is_none_or(|session| session == waiting.header.session);
            let done = (done && of_session) || ended.contains_key(&waiting.header.writer);
            if tickets.is_empty() { done } else { ticket.is_some() }
        };
        let chosen: Vec<&PendingLog> = left.iter().filter(|waiting| wanted(waiting)).collect();
        let mut foreign: HashSet<WriterId> = set_aside.iter().map(|aside| aside.writer).collect();
        for waiting in
            chosen.iter().filter(|waiting| !foreign.contains(&waiting.header.writer)).collect::<Vec<_>>()
        {
            let writer = waiting.header.writer;
            let store = base.as_ref().map(|base| base.store).unwrap_or_default();
            // A writer that began before the first epoch need not know the store's id.
            if waiting.header.base > 0 && base.is_some() && waiting.header.store != store {
                let reason = Error::corrupt("it belongs to another store");
                let session = waiting.header.session;
                set_aside.push(DeferredLog::new(writer, session, reason));
                foreign.insert(writer);
            }
        }
        let chosen: Vec<&PendingLog> =
            chosen.into_iter().filter(|waiting| !foreign.contains(&waiting.header.writer)).collect();
        let opened = site.map_concurrently(&chosen, |waiting| {
            let writer = waiting.header.writer;
            let known = base.as_ref().and_then(|base| base.log(&writer)).copied();
            open(site, writer, ticket_of(waiting), waiting.ending, known)
        });
        for (waiting, next) in chosen.iter().zip(opened) {
            match next {
                Err(reason) if is_of_content(site, &reason) => {
                    let writer = waiting.header.writer;
                    let (session, truncates) = (waiting.header.session, waiting.header.truncates);
                    set_aside.push(DeferredLog { truncates, ..DeferredLog::new(writer, session, reason) });
                }
                next => new.extend(next?),
            }
        }
        sessions::hide_interrupted_runs(&mut new);
        let hidden: HashSet<WriterId> =
            new.iter().filter(|new| new.header.truncates).flat_map(|new| new.hidden.clone()).collect();
        new.retain(|new| !hidden.contains(&new.writer()));
        left.retain(|waiting| !hidden.contains(&waiting.header.writer));
        new.sort_by_key(|new| (new.header.priority, new.header.started, new.writer()));
        let mut outdated = Vec::new();
        if round != Round::All {
            new.retain(|new| {
                let is_outdated = stopped::outdated(new, base.as_deref()).is_some();
                if is_outdated && round == Round::Current {
                    outdated.push(new.writer());
                }
                is_outdated == (round == Round::Outdated)
            });
        }
        let taken: HashSet<WriterId> = new.iter().map(NewLog::writer).collect();
        left.retain(|waiting| !taken.contains(&waiting.header.writer));
        let mut attempt = Self {
            site,
            options,
            base,
            number,
            new,
            left,
            damaged,
            floor: 0,
            hidden: HashSet::new(),
            image: None,
            plain: None,
            set_aside,
            round,
            outdated,
        };
        attempt.find_hidden();
        attempt.defer_foreign();
        Ok(attempt)
    }

    /// Determines the content that is invisible because writers truncated the file.
    pub(super) fn find_hidden(&mut self) {
        self.floor = 0;
        self.hidden.clear();
        if let Some(base) = &self.base {
            self.floor = base.floor;
            self.hidden.extend(&base.hidden);
        }
        for new in &self.new {
            // Also set by a writer that joined one that truncated the file.
            self.floor = self.floor.max(new.header.floor);
            if new.header.truncates {
                self.hidden.extend(&new.hidden);
            }
        }
    }

    /// Returns whether no content of the previous epoch stays visible.
    fn starts_over(&self) -> bool {
        let truncates = self.new.iter().any(|new| new.header.truncates);
        self.base.as_ref().map_or(truncates, |base| self.floor >= base.number)
    }

    /// Makes the epoch, without the logs that cannot be included; `None` if there is no new
    /// content.
    pub(super) fn finish(mut self) -> Result<(Option<CommitReport>, Vec<DeferredLog>)> {
        match self.epoch() {
            Err(error) if is_of_content(self.site, &error) && !self.new.is_empty() => {
                self.part_with_bad(error)?;
                let made = self.epoch()?;
                Ok((made, self.set_aside))
            }
            made => made.map(|made| (made, self.set_aside)),
        }
    }

    /// Sets aside those logs that prevent an epoch. `error` is the error with all logs included.
    fn part_with_bad(&mut self, error: Error) -> Result<()> {
        if self.options.conflicts_are_errors && error.kind() == ErrorKind::Invalid {
            // If a conflict caused the error, no log is at fault.
            let plain = CommitOptions { conflicts_are_errors: false, ..self.options.clone() };
            if self.with_options(&plain, |attempt| attempt.epoch().map(drop)).is_ok() {
                return Err(error);
            }
        }
        let options = CommitOptions { conflicts_are_errors: false, ..self.options.clone() };
        let mut all = std::mem::take(&mut self.new);
        if let Err(own) = self.with_options(&options, |attempt| attempt.structure().map(drop)) {
            // The store itself cannot be read.
            self.new = all;
            return Err(own);
        }
        for new in all.drain(..) {
            let writer = new.writer();
            self.new.push(new);
            self.find_hidden();
            let Err(reason) = self.with_options(&options, |attempt| attempt.epoch().map(drop)) else {
                continue;
            };
            if !is_of_content(self.site, &reason) {
                return Err(reason);
            }
            let Some(mut bad) = self.new.pop() else { continue };
            let (session, truncates) = (bad.header.session, bad.header.truncates);
            let mut has_data = false;
            if self.options.data_only && bad.image.take().is_some() {
                self.new.push(bad);
                has_data = self.with_options(&options, |attempt| attempt.epoch().map(drop)).is_ok();
                if !has_data {
                    self.new.pop();
                }
            }
            self.find_hidden();
            self.set_aside.push(DeferredLog {
                has_data,
                truncates,
                ..DeferredLog::new(writer, session, reason)
            });
        }
        Ok(())
    }

    /// Calls `work` with other options.
    fn with_options<T>(&mut self, options: &CommitOptions, work: impl FnOnce(&mut Attempt<'_>) -> T) -> T {
        let mut attempt = Attempt {
            site: self.site,
            options,
            base: self.base.clone(),
            number: self.number,
            new: std::mem::take(&mut self.new),
            left: Vec::new(),
            damaged: Vec::new(),
            floor: self.floor,
            hidden: self.hidden.clone(),
            image: self.image.clone(),
            plain: self.plain.clone(),
            set_aside: Vec::new(),
            round: self.round,
            outdated: Vec::new(),
        };
        let done = work(&mut attempt);
        self.new = attempt.new;
        done
    }

    /// Makes the epoch of all new content; `None` if there is no new content.
    fn epoch(&mut self) -> Result<Option<CommitReport>> {
        if self.new.is_empty() && !self.has_edits()? {
            return Ok(None);
        }
        let number = self.number;
        let (mut merge, current) = self.structure()?;
        let paths = merge.datasets();
        let mut manifest = self.data(number, &paths, merge.aliases(), current.as_ref())?;
        let collective = collective::lower_common_writes(&mut manifest, self.site)?;
        let places: HashMap<DatasetId, &[u8]> = paths.iter().map(|(id, path)| (*id, &**path)).collect();
        for stored in &manifest.datasets {
            let path = places.get(&stored.id).copied().unwrap_or_default();
            let collective = collective.contains(&stored.id);
            let found = overlap::conflicts(&manifest, stored, path, self.site, collective)?;
            manifest.conflicts.extend(found);
            manifest.conflicts.extend(match self.round {
                Round::Outdated => self.outdated_conflicts(&manifest, path, stored)?,
                Round::All | Round::Current => self.clipped_conflicts(path, stored)?,
            });
        }
        manifest.conflicts.extend(merge.conflicts().iter().map(|found| Conflict {
            path: found.path.clone(),
            slab: Hyperslab::default(),
            what: match &found.attribute {
                Some(name) => format!("attribute {}: {}", String::from_utf8_lossy(name), found.what),
                None => found.what.to_string(),
            },
            kept: found.last,
            other: found.first.unwrap_or_default(),
        }));
        if let Some(conflict) = manifest.conflicts.first().filter(|_| self.options.conflicts_are_errors) {
            return Err(Error::invalid(describe(conflict, manifest.conflicts.len())));
        }
        let (shown, links) =
            external_links::shown(self.site, &manifest, (self.options.link, Some(number)), &paths)?;
        manifest.image = merge.write(Stamp::of(&manifest), &shown)?;
        let writers = self.new.iter().map(|new| new.writer()).collect();
        Ok(Some(CommitReport {
            manifest: Arc::new(manifest),
            writers,
            left: self.left.clone(),
            damaged: self.damaged.clone(),
            links,
            set_aside: self.set_aside.clone(),
        }))
    }

    /// Returns whether the file was edited, and edits alone are to make an epoch.
    fn has_edits(&self) -> Result<bool> {
        match &self.base {
            Some(base) if self.options.edits => {
                Ok(matches!(skeleton_state(self.site, base)?, SkeletonState::Edited(_)))
            }
            _ => Ok(false),
        }
    }

    /// Merges the current skeleton and the writers' images. Also returns the skeleton.
    fn structure(&self) -> Result<(Merge, Option<File>)> {
        let open = |bytes: Vec<u8>| {
            let mut options = OpenOptions::default();
            (options.ignore_locks, options.ignore_stores) = (true, true);
            let path = self.site.operations().path().to_owned();
            File::from_source(Arc::new(hyperchunk::io::Memory::new(bytes)), Some(path), &options)
        };
        let mut changes = Vec::new();
        let mut current = None;
        let mut epochs: BTreeMap<u64, File> = BTreeMap::new();
        if self.round == Round::Outdated {
            let change = &mut |new: &NewLog| self.change(new, None, &mut epochs, &open);
            (current, changes) = self.outdated_structure(&open, change)?;
        } else {
            if !self.starts_over() {
                match &self.base {
                    Some(base) => {
                        let file = open(base.image.clone())?;
                        epochs.insert(base.number, file.clone());
                        match skeleton_state(self.site, base)? {
                            SkeletonState::Edited(image) => changes.push(Change {
                                writer: WriterId::default(),
                                base: Some(file.clone()),
                                image,
                                deletes: true,
                                // Other programs may have rewritten it.
                                in_place: false,
                                written: HashSet::new(),
                            }),
                            SkeletonState::Foreign => return Err(foreign_file(self.site, "commit")),
                            SkeletonState::Unchanged | SkeletonState::Waiting => {}
                        }
                        current = Some(file);
                    }
                    None if self.plain.is_some() => {}
                    None => current = self.initial_file()?,
                }
            }
            // Images of many processes are often identical.
            let mut images: HashSet<[u8; 16]> = HashSet::new();
            for new in &self.new {
                let Some(image) = &new.image else { continue };
                let Some(change) = self.change(new, current.as_ref(), &mut epochs, &open)? else { continue };
                let alone = !change.deletes && (change.base.is_none() || new.header.base == 0);
                if !alone || images.insert(hash(image)) {
                    changes.push(change);
                }
            }
        }
        let mut merge = Merge::with_identities(current.as_ref(), &changes, self.identities()?)?;
        for definition in self.plain.iter().flat_map(|plain| plain.iter()) {
            merge.add_dataset(definition.id()?, &definition.path, WriterId::default());
        }
        let named: HashSet<DatasetId> = merge.datasets().into_iter().map(|(id, _)| id).collect();
        for new in self.new.iter().filter(|new| new.image.is_none() || new.salvaged) {
            let wrote = new.wrote();
            for (id, definition) in new.definitions.iter().filter(|(id, _)| !named.contains(id)) {
                if !self.was_committed(new, *id)? {
                    merge.add_dataset(*id, &definition.path, new.writer());
                } else if wrote.contains(id) {
                    merge.keep_written(*id, &definition.path, new.writer());
                }
            }
        }
        Ok((merge, current))
    }

    /// Returns a writer's changes to the structure, if there are any.
    fn change(
        &self,
        new: &NewLog,
        current: Option<&File>,
        epochs: &mut BTreeMap<u64, File>,
        open: &dyn Fn(Vec<u8>) -> Result<File>,
    ) -> Result<Option<Change>> {
        let header = &new.header;
        let Some(image) = &new.image else { return Ok(None) };
        let before = new.before.as_ref().filter(|_| new.known.is_some_and(|known| self.floor < known.epoch));
        if before == Some(image) {
            return Ok(None);
        }
        let base = match before {
            Some(before) => Some(open(before.clone())?),
            None if header.truncates => None,
            // Additions to the file that the store was created with, which its writers know.
            None if header.base == 0 && self.base.is_none() && !header.edits_skeleton => current.cloned(),
            None if header.base == 0 => None,
            None => match epochs.get(&header.base) {
                Some(file) => Some(file.clone()),
                None => match Manifest::epoch(self.site, header.base) {
                    Ok(epoch) => {
                        let file = open(epoch.image.clone())?;
                        epochs.insert(header.base, file.clone());
                        Some(file)
                    }
                    // Without the epoch that the writer started from, its deletions and unchanged
                    // objects are unknown: its image only adds, and differences from the current
                    // skeleton are conflicts.
                    Err(error) if error.kind() == ErrorKind::NotFound => None,
                    Err(error) => return Err(error),
                },
            },
        };
        let deletes = before.is_some() || (header.edits_skeleton && base.is_some());
        // Images of API writers are completely rewritten each time, so addresses of objects change.
        let in_place = header.edits_skeleton && base.is_some();
        let image = open(image.clone())?;
        Ok(Some(Change { writer: header.writer, base, image, deletes, in_place, written: new.wrote() }))
    }

    /// Returns whether a dataset was committed when a writer began.
    fn was_committed(&self, new: &NewLog, id: DatasetId) -> Result<bool> {
        let base = new.header.base;
        if base == 0 || base <= self.floor {
            return Ok(false);
        }
        match &self.base {
            Some(newest) if newest.dataset(&id).is_some() => Ok(true),
            Some(newest) if newest.number == base => Ok(false),
            _ => match Manifest::epoch(self.site, base) {
                Ok(epoch) => Ok(epoch.dataset(&id).is_some()),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            },
        }
    }

    /// Returns the file before the first epoch, which was made for the writers.
    fn initial_file(&self) -> Result<Option<File>> {
        if let Some(image) = &self.image {
            let source = Arc::new(hyperchunk::io::Memory::new(Arc::clone(image)));
            return File::from_source(
                source,
                Some(self.site.operations().path().to_owned()),
                &skeleton_options(),
            )
            .map(Some);
        }
        match open_skeleton(self.site) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => match self.site.operations().file() {
                Ok(bytes) if bytes.is_empty() => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Assembles the data: the parts of logs that each dataset has.
    fn data(
        &self,
        number: u64,
        paths: &[(DatasetId, Vec<u8>)],
        aliases: &HashMap<DatasetId, DatasetId>,
        current: Option<&File>,
    ) -> Result<Manifest> {
        let mut manifest = Manifest {
            store: self.store(),
            number,
            parent: self.base.as_ref().map_or(0, |base| base.number),
            floor: self.floor,
            time: now(),
            ..Manifest::default()
        };
        // Datasets of the initial file that no log defines yet.
        let announced = match current.filter(|_| self.base.is_none()) {
            Some(file) => Marker::find_all(file)?,
            None => Vec::new(),
        };
        let announced = announced.into_iter().filter_map(|(_, marker, dataset)| {
            Some((marker.dataset, Definition::from_external_files(dataset.external())?))
        });
        let announced: HashMap<DatasetId, Definition> = announced.collect();
        let mut definitions: HashMap<DatasetId, &Definition> =
            announced.iter().map(|(id, definition)| (*id, definition)).collect();
        for definition in self.plain.iter().flat_map(|plain| plain.iter()) {
            definitions.insert(definition.id()?, definition);
        }
        let mut numbers: HashMap<WriterId, u32> = HashMap::new();
        if let Some(base) = &self.base {
            definitions.extend(base.datasets.iter().map(|stored| (stored.id, &stored.definition)));
            for log in &base.logs {
                // A log that may continue is kept, since its committed length must be known.
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
            let mut ids = vec![*id];
            ids.extend(aliases.iter().filter(|(_, one)| *one == id).map(|(alias, _)| *alias));
            manifest.datasets.push(self.assemble_dataset(&ids, definition, number, &numbers)?);
        }
        manifest.hidden = self.hidden_writers(&manifest)?;
        manifest.renumber();
        Ok(manifest)
    }

    /// Returns the identities of all known datasets, if any was created without a name; used to
    /// recognize equal ones.
    fn identities(&self) -> Result<HashMap<DatasetId, Identity>> {
        let new = self.new.iter().flat_map(|new| new.definitions.iter().map(|(id, it)| (*id, it)));
        if !new.clone().any(|(_, definition)| definition.path.starts_with(NAMELESS)) {
            return Ok(HashMap::new());
        }
        let base = self.base.iter().flat_map(|base| base.datasets.iter().map(|it| (it.id, &it.definition)));
        base.chain(new).map(|(id, definition)| Ok((id, Identity::new(definition)?))).collect()
    }

    fn store(&self) -> StoreId {
        let logs = self.new.iter().map(|new| new.header.store);
        let known =
            self.base.iter().map(|base| base.store).chain(logs).find(|store| *store != StoreId::default());
        known.unwrap_or_else(StoreId::new)
    }

    /// Returns the existing logs that are invisible.
    fn hidden_writers(&self, manifest: &Manifest) -> Result<Vec<WriterId>> {
        let mut hidden = self.hidden.clone();
        if let Some(base) = &self.base {
            hidden.extend(
                base.logs.iter().map(|log| log.writer).filter(|writer| manifest.log(writer).is_none()),
            );
        }
        if hidden.is_empty() {
            return Ok(Vec::new());
        }
        let there: HashSet<WriterId> = writers(self.site)?.into_iter().collect();
        let mut hidden: Vec<_> = hidden.into_iter().filter(|writer| there.contains(writer)).collect();
        hidden.sort_unstable();
        Ok(hidden)
    }

    /// Assembles a dataset; `ids` are its own id, and ids that writers used before it had a name.
    fn assemble_dataset(
        &self,
        ids: &[DatasetId],
        definition: &Definition,
        number: u64,
        numbers: &HashMap<WriterId, u32>,
    ) -> Result<StoredDataset> {
        let mut parts = Vec::new();
        let id = ids.first().copied().unwrap_or_default();
        let before = self.base.as_ref().and_then(|base| Some((base, base.dataset(&id)?)));
        if let Some((base, stored)) = before {
            for part in stored.parts.iter().filter(|part| part.epoch > self.floor) {
                let writer = base.logs.get(part.log as usize).map(|log| log.writer).unwrap_or_default();
                if let Some(log) = numbers.get(&writer) {
                    parts.push(Part { log: *log, ..part.clone() });
                }
            }
        }
        let seen = before.filter(|_| !self.starts_over()).map(|(_, stored)| &*stored.extent);
        let mut ends = AppendedExtents::new(seen.unwrap_or(&definition.dims));
        let mut made = Vec::new();
        let mut appended_parts = Vec::new();
        let of_ids = self.new.iter().flat_map(|new| ids.iter().map(move |id| (new, new.numbers.get(id))));
        for (new, found) in of_ids {
            let Some((dataset, Some(place))) = found.copied() else { continue };
            let Some((_, written)) = new.written.get(place) else { continue };
            let mut written = written.clone();
            let done = before.and_then(|(base, stored)| last_order(base, stored, new.writer()));
            let done = done.filter(|_| new.known.is_some_and(|known| known.salvaged));
            if let Some(done) = done {
                // The salvaged records are committed already.
                let mut pieces = PackedPieces::new(definition.dims.len());
                written
                    .pieces
                    .iter()
                    .filter(|piece| piece.order > done)
                    .for_each(|piece| pieces.push(&piece));
                pieces.pack();
                written.pieces = pieces;
                written.extents.retain(|extent| extent.order > done);
                let mut appended = PackedPieces::new(definition.dims.len());
                written
                    .appended
                    .iter()
                    .filter(|piece| piece.order > done)
                    .for_each(|piece| appended.push(&piece));
                written.appended = appended;
                written.pages.retain(|page| page.order > done);
                // The statistics include the salvaged records.
                written.statistics = None;
            }
            let appended = std::mem::replace(&mut written.appended, PackedPieces::new(definition.dims.len()));
            if let Some(log) = numbers.get(&new.writer()).filter(|_| !appended.is_empty()) {
                // The statistics describe all writes; they apply to the rows only if there are no
                // other writes.
                let of_rows = done.is_none() && written.pieces.is_empty();
                let statistics = written.statistics.filter(|_| of_rows);
                if !of_rows {
                    written.statistics = None;
                }
                // Zones are found by their records' numbers, so they may be in both parts; other
                // results must occur once.
                let rows_alone = written.pieces.is_empty() && written.extents.is_empty();
                let zones = |page: &&Page| rows_alone || page.head.kind == PageKind::Zones;
                let pages = written.pages.iter().filter(zones).cloned().collect();
                if rows_alone {
                    written.pages.clear();
                }
                let rows = DatasetWrites { statistics, pages, appended, ..DatasetWrites::nothing(0) };
                appended_parts.push(((new.header.priority, new.header.started), *log, rows));
            }
            let start = self.first_extent(new, dataset, id, definition)?;
            let last = written.extents.last().map_or_else(|| start.clone(), |extent| extent.dims.clone());
            let under =
                stopped::outdated(new, self.base.as_deref()).filter(|_| self.round == Round::Outdated);
            written.extents = match (under, before) {
                (Some(seen), Some((_, stored))) => {
                    let known = self.extent_at(seen, id, definition)?;
                    let is_written = stored.parts.iter().any(|part| part.epoch > seen);
                    ends.take_below(&start, &written.extents, &known, is_written)
                }
                _ => ends.take(&start, &written.extents),
            };
            if let Some(log) = numbers.get(&new.writer()).filter(|_| !written.is_empty()) {
                let epoch = under.map_or(number, |seen| seen + 1);
                made.push((Part { log: *log, epoch, written }, last));
            }
        }
        let mut extent = ends.extent();
        let mut outdated = Vec::new();
        for (mut part, last) in made {
            // Data outside another writer's extent must not reappear when the dataset grows again.
            if last.iter().zip(&extent).any(|(last, dim)| last > dim) {
                let clip = Extent { order: u64::MAX, dims: extent.clone() };
                part.written.extents.push(clip);
            }
            match part.epoch == number {
                true => parts.push(part),
                false => outdated.push(part),
            }
        }
        stopped::insert(&mut parts, outdated);
        append_rows(&mut parts, appended_parts, &mut extent, number)
            .map_err(|error| error.object(String::from_utf8_lossy(&definition.path)))?;
        Ok(StoredDataset { id, definition: definition.clone(), extent, parts })
    }

    /// Returns the extent that a writer started from, before its new records.
    pub(super) fn first_extent(
        &self,
        new: &NewLog,
        dataset: u32,
        id: DatasetId,
        definition: &Definition,
    ) -> Result<Vec<u64>> {
        let header = &new.header;
        if new.known.is_some() {
            // Its earlier records may have changed the extent.
            let log = (self.site, header.writer);
            let all = if new.salvaged { Log::salvage(log, 0)? } else { Log::open(log, None, 0)? };
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
        let seen = if header.truncates { 0 } else { header.base };
        self.extent_at(seen, id, definition)
    }

    /// Returns the extent of a dataset in an epoch, or in the newest epoch if that one no longer
    /// exists; the initial extent, if the dataset did not exist.
    pub(super) fn extent_at(&self, number: u64, id: DatasetId, definition: &Definition) -> Result<Vec<u64>> {
        let epoch = match &self.base {
            _ if number == 0 => None,
            Some(base) if base.number == number => Some(Arc::clone(base)),
            base => match Manifest::epoch(self.site, number) {
                Ok(epoch) => Some(epoch),
                Err(error) if error.kind() == ErrorKind::NotFound => base.clone(),
                Err(error) => return Err(error),
            },
        };
        let stored = epoch.as_ref().and_then(|epoch| epoch.dataset(&id));
        Ok(stored.map_or_else(|| definition.dims.clone(), |stored| stored.extent.clone()))
    }
}

/// Returns the number of a writer's last record that an epoch has of a dataset.
fn last_order(base: &Manifest, stored: &StoredDataset, writer: WriterId) -> Option<u64> {
    let is_from_writer =
        |part: &&Part| base.logs.get(part.log as usize).is_some_and(|log| log.writer == writer);
    let part = stored.parts.iter().rev().find(is_from_writer)?;
    let pieces = part.written.pieces.iter().map(|piece| piece.order).max();
    let pages = part.written.pages.iter().map(|page| page.order).max();
    pieces.max(part.written.extents.iter().map(|extent| extent.order).max()).max(pages)
}

/// Returns whether an error concerns the content of a log, as opposed to access. In an object
/// store, a missing log was deleted in the meantime.
fn is_of_content(site: Site<'_>, error: &Error) -> bool {
    !error.is_of_reading() && (site.bucket().is_none() || error.kind() != ErrorKind::NotFound)
}

/// Returns the message of a refused commit.
fn describe(conflict: &Conflict, all: usize) -> String {
    let more = if all > 1 { format!(", and {} more conflicts", all - 1) } else { String::new() };
    format!(
        "cannot commit: writers do not agree: {conflict}{more}; nothing was committed; to commit the visible values, pass \
         on_conflict=\"warn\" (`hyperchunk store commit --on-conflict warn`)"
    )
}
