//! Backfill: analyses of data that were written earlier.

use super::summary::{self, unanalyzed_boxes};
use super::{Analysis, attach};
use crate::to_udf_error;
use hyperchunk::io::Locking;
use hyperchunk::select::{Axis, Selection};
use hyperchunk::{File, OpenOptions};
use hyperchunk_store::commit::{CommitOptions, commit};
use hyperchunk_store::{Definition, Hyperslab, KnownStore, LogWriter, Manifest, Ticket, WriterOptions};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Minimum number of boxes that justify a worker for another thread.
const MIN_BOXES_PER_THREAD: usize = 8;

/// Boxes of an epoch without results of an analysis. The list is the same for every process that requests it,
/// so that any number of processes can work on parts of it.
#[derive(Debug)]
pub struct Backfill<'a> {
    path: PathBuf,
    analysis: &'a Analysis,
    known: KnownStore,
    definitions: Vec<Definition>,
    /// Boxes, each with the index of its dataset.
    boxes: Vec<(usize, Hyperslab)>,
}

impl<'a> Backfill<'a> {
    /// Lists the boxes written in some epochs for which `epoch`, or the newest, has no results.
    ///
    /// # Errors
    /// `Refused` if the analysis may not run here; `NotFound` if there is no such epoch or dataset; errors of
    /// reading the store.
    pub fn new(
        path: &Path,
        analysis: &'a Analysis,
        epochs: impl Fn(u64) -> bool,
        epoch: Option<u64>,
    ) -> Result<Self> {
        analysis.profile().map_err(|error| analysis.explain(&error))?;
        let path = std::path::absolute(path).map_err(|error| Error::io(path.display(), &error))?;
        let manifest = summary::epoch(&path, epoch)?;
        let (mut definitions, mut boxes) = (Vec::new(), Vec::new());
        for name in &analysis.declaration.datasets {
            let stored = manifest.datasets.iter().find(|stored| stored.definition.path == name.as_bytes());
            let stored = stored.ok_or_else(|| {
                let message = "the epoch has no dataset of that name";
                Error::new(ErrorKind::NotFound, message).about(name.clone())
            })?;
            let found = unanalyzed_boxes(&path, &manifest, name.as_bytes(), analysis.id, &epochs)?;
            boxes.extend(found.into_iter().map(|slab| (definitions.len(), slab)));
            definitions.push(stored.definition.clone());
        }
        let known = KnownStore { store: manifest.store, epoch: manifest.number, seen: None };
        Ok(Self { path, analysis, known, definitions, boxes })
    }

    /// Returns the epoch of the list.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.known.epoch
    }

    /// Returns the number of boxes.
    #[must_use]
    pub fn boxes(&self) -> usize {
        self.boxes.len()
    }

    /// Analyses some of the boxes, without the ones analysed since. Returns the ticket of the results, for
    /// [`Backfill::commit`]; `None` if no box was left.
    ///
    /// # Errors
    /// Errors of reading the data, and of writing the results.
    pub fn work(&self, boxes: Range<usize>) -> Result<Option<Ticket>> {
        let end = boxes.end.min(self.boxes.len());
        let mut boxes = self.boxes[boxes.start.min(end)..end].to_vec();
        let newest = summary::epoch(&self.path, None)?;
        if newest.number != self.known.epoch {
            let mut left = Vec::new();
            for definition in &self.definitions {
                let found =
                    unanalyzed_boxes(&self.path, &newest, &definition.path, self.analysis.id, |_| true)?;
                left.push(found.into_iter().collect::<HashSet<Hyperslab>>());
            }
            boxes.retain(|(dataset, slab)| left.get(*dataset).is_some_and(|left| left.contains(slab)));
        }
        if boxes.is_empty() { Ok(None) } else { self.analyze(&boxes).map(Some) }
    }

    /// Analyses all boxes on up to `threads` threads (0: one a processor), and commits an epoch; `None` if no
    /// box was left.
    ///
    /// # Errors
    /// Errors of [`Backfill::work`] and of the commit.
    pub fn fill(&self, threads: usize) -> Result<Option<Arc<Manifest>>> {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if threads == 0 { processors() } else { threads };
        let threads = threads.clamp(1, (self.boxes.len() / MIN_BOXES_PER_THREAD).max(1));
        let share = self.boxes.len().div_ceil(threads).max(1);
        let looked: Vec<Result<Option<Ticket>>> = std::thread::scope(|scope| {
            let first = (0..self.boxes.len()).step_by(share);
            let all: Vec<_> =
                first.map(|first| scope.spawn(move || self.work(first..first + share))).collect();
            let lost = || Err(Error::new(ErrorKind::Worker, "a thread ended without a result"));
            all.into_iter().map(|thread| thread.join().unwrap_or_else(|_| lost())).collect()
        });
        let tickets: Vec<Option<Ticket>> = looked.into_iter().collect::<Result<_>>()?;
        self.commit(tickets.into_iter().flatten().collect())
    }

    /// Commits the results as an epoch; `None` without results.
    ///
    /// # Errors
    /// Errors of the commit.
    pub fn commit(&self, tickets: Vec<Ticket>) -> Result<Option<Arc<Manifest>>> {
        if tickets.is_empty() {
            return Ok(None);
        }
        let mut options = CommitOptions::default();
        options.tickets = tickets;
        let made = commit(&self.path, &options).map_err(|error| to_udf_error(&error))?;
        Ok(made.map(|made| made.manifest))
    }

    /// Reads boxes, and calls the analysis for each.
    fn analyze(&self, boxes: &[(usize, Hyperslab)]) -> Result<Ticket> {
        let convert_error = |error: hyperchunk::Error| to_udf_error(&error);
        let mut options = WriterOptions::default();
        options.known = Some(self.known.clone());
        let writer = LogWriter::create(&self.path, &options).map_err(convert_error)?;
        attach(&writer, &[self.analysis.bytes.to_vec()], false)?;
        let mut options = OpenOptions::default();
        // The program that commits may have the file open through libhdf5.
        options.locking = Locking::Never;
        hyperchunk_store::register();
        let file = File::open(&self.path, &options).map_err(convert_error)?;
        let mut bytes = Vec::new();
        for (dataset, slab) in boxes {
            let definition = &self.definitions[*dataset];
            let mut read = || {
                let dataset = file.root()?.group()?.get(&definition.path)?.dataset()?;
                let number = writer.define(definition)?;
                // The dataset may have shrunk since.
                let Some(slab) = slab.clipped(dataset.dims()) else { return Ok(()) };
                let size = slab.elements()?.checked_mul(definition.element_size());
                let size = size.and_then(|size| usize::try_from(size).ok());
                bytes.resize(size.ok_or_else(|| hyperchunk::Error::limit("a box larger than memory"))?, 0);
                let axes = slab.start.iter().zip(&slab.count);
                let axes = axes.map(|(start, count)| Axis::range(*start..start.saturating_add(*count)));
                dataset.read(&Selection::Axes(axes.collect()), &mut bytes)?;
                writer.replay(number, &slab, &bytes)
            };
            read().map_err(convert_error)?;
        }
        writer.close().map_err(convert_error)
    }
}
