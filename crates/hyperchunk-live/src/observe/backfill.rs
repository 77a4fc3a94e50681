//! Analyses over what was written before they were there.

use super::summary::{epoch, unseen};
use super::{Analyses, Analysis};
use crate::of_function;
use hyperchunk::select::{Axis, Choice};
use hyperchunk::store::commit::{CommitOptions, commit};
use hyperchunk::store::{Definition, Known, LogWriter, Manifest, Slab, Ticket, WriterOptions};
use hyperchunk::{File, OpenOptions};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

/// A thread that gets fewer boxes is not worth a worker of its own.
const WORTH: usize = 8;

/// Lets an analysis look at what the newest epoch has in the boxes that were written in some epochs and of which it has no
/// results; on up to `threads` threads (0: one a processor). Makes an epoch; `None` if there is nothing to look at.
///
/// # Errors
/// `Refused` when it may not run here; those of reading the data and of the commit.
pub fn backfill(
    path: &Path,
    analysis: &Analysis,
    epochs: impl Fn(u64) -> bool,
    threads: usize,
) -> Result<Option<Arc<Manifest>>> {
    analysis.profile().map_err(|error| analysis.explain(&error))?;
    let path = std::path::absolute(path).map_err(|error| Error::io(path.display(), &error))?;
    let manifest = epoch(&path, None)?;
    let mut tasks: Vec<(&Definition, Slab)> = Vec::new();
    for name in &analysis.declaration.datasets {
        let stored = manifest.datasets.iter().find(|stored| stored.definition.path == name.as_bytes());
        let stored = stored.ok_or_else(|| {
            let message = "the epoch has no dataset of that name";
            Error::new(ErrorKind::NotFound, message).about(name.clone())
        })?;
        let boxes = unseen(&path, &manifest, name.as_bytes(), analysis.id, &epochs)?;
        tasks.extend(boxes.into_iter().map(|slab| (&stored.definition, slab)));
    }
    if tasks.is_empty() {
        return Ok(None);
    }
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if threads == 0 { processors() } else { threads };
    let share = tasks.len().div_ceil(threads.clamp(1, (tasks.len() / WORTH).max(1)));
    let known = Known { store: manifest.store, epoch: manifest.number };
    let look = |tasks| look(&path, analysis, &known, tasks);
    let looked: Vec<Result<Ticket>> = std::thread::scope(|scope| {
        let all: Vec<_> = tasks.chunks(share).map(|tasks| scope.spawn(move || look(tasks))).collect();
        let lost = || Err(Error::new(ErrorKind::Worker, "a thread ended without a result"));
        all.into_iter().map(|thread| thread.join().unwrap_or_else(|_| lost())).collect()
    });
    let mut options = CommitOptions::default();
    options.tickets = looked.into_iter().collect::<Result<_>>()?;
    let made = commit(&path, &options).map_err(|error| of_function(&error))?;
    Ok(made.map(|made| made.manifest))
}

/// Reads boxes, and lets the analysis look at each.
fn look(path: &Path, analysis: &Analysis, known: &Known, tasks: &[(&Definition, Slab)]) -> Result<Ticket> {
    let of_engine = |error: hyperchunk::Error| of_function(&error);
    let mut options = WriterOptions::default();
    options.known = Some(known.clone());
    let writer = LogWriter::create(path, &options).map_err(of_engine)?;
    writer.observe(Arc::new(Analyses::of(&writer, &[analysis.bytes.to_vec()], false)?)).map_err(of_engine)?;
    let file = File::open(path, &OpenOptions::default()).map_err(of_engine)?;
    let mut bytes = Vec::new();
    for (definition, slab) in tasks {
        let mut read = || {
            let dataset = file.root()?.group()?.get(&definition.path)?.dataset()?;
            let number = writer.define(definition)?;
            // It may have shrunk since.
            let Some(slab) = slab.clipped(dataset.dims()) else { return Ok(()) };
            let size = slab.elements()?.checked_mul(definition.element_size());
            let size = size.and_then(|size| usize::try_from(size).ok());
            bytes.resize(size.ok_or_else(|| hyperchunk::Error::limit("a box larger than memory"))?, 0);
            let axes = slab.start.iter().zip(&slab.count);
            let axes = axes.map(|(start, count)| Axis::range(*start..start.saturating_add(*count)));
            dataset.read(&Choice::Axes(axes.collect()), &mut bytes)?;
            writer.look_at(number, &slab, &bytes)
        };
        read().map_err(of_engine)?;
    }
    writer.close().map_err(of_engine)
}
