//! Compaction: rewrites the content of many logs to one.
//!
//! The visible data are written again, in order, to a new log; overwritten data are dropped. The
//! next epoch has the same content in few pieces: they are found faster and linked with fewer
//! segments, and the old logs can be deleted ([`super::vacuum`]). Writers and commits continue in
//! the meantime; their data take precedence over the compacted ones.

use super::blocks::{Blocks, Content, Scratch};
use super::verify;
use crate::commit;
use crate::commit::external_links;
use crate::commit::external_links::{Linking, Links};
use crate::commit::merged_file::Merge;
use crate::commit::overlap::{layers, rows};
use crate::commit::{add_log, now};
use crate::format::fragment_offset::FRAGMENT_FLAG;
use crate::format::manifest::StoredDataset;
use crate::format::piece::block_extent;
use crate::format::stamp::Stamp;
use crate::location::site::Site;
use crate::observe::results;
use crate::read::log_cache::LogCache;
use crate::read::scan_log::Log;
use crate::{
    Hyperslab, KnownStore, LogPart, LogWriter, Manifest, Part, Segments, Session, WriterId, WriterOptions,
};
use hyperchunk::write::Sync;
use hyperchunk::{Error, ErrorKind, Result};
use hyperchunk_format::codec::Encoder;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of attempts to publish the epoch when other commits are faster.
const MAX_ATTEMPTS: usize = 1000;

/// Number of raw pieces above which a dataset is compacted even if a single log has all its data.
const MAX_UNCOMPACTED_PIECES: usize = 64;

/// Options of a compaction.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CompactOptions {
    /// Approximate number of bytes of data held in memory at a time.
    pub memory: u64,
    /// Point at which the result must be on disk.
    pub sync: Sync,
    /// Linking of the data for plain libhdf5.
    pub link: Linking,
}

impl Default for CompactOptions {
    fn default() -> Self {
        Self { memory: 64 << 20, sync: Sync::Commit, link: Linking::Absolute }
    }
}

/// Result of a compaction.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CompactReport {
    /// The new epoch.
    pub manifest: Arc<Manifest>,
    /// Writer of the new log.
    pub writer: WriterId,
    /// Number of pieces before and after.
    pub pieces: (u64, u64),
    /// Logs that only older epochs still need.
    pub replaced: Vec<WriterId>,
    /// Datasets that plain libhdf5 can read.
    pub links: Links,
}

/// Writes the content of the newest epoch of a store to one log; `None` if one log has it
/// already, in few contiguous pieces.
///
/// # Errors
/// NotFound if nothing was committed; Io; errors of reading the logs; Invalid if the file was
/// truncated in the meantime.
pub fn compact(path: &Path, options: &CompactOptions) -> Result<Option<CompactReport>> {
    let path = hyperchunk::output::target(path)?;
    let site = Site::from(&path).absolute()?;
    let path = site.site().operations().path().to_owned();
    let named = |error: Error| error.file(path.display());
    let base = Manifest::newest(&path)?.ok_or_else(|| {
        named(Error::new(ErrorKind::NotFound, "there is no store, or nothing of it was committed"))
    })?;
    commit::check_file(&path, "compact").map_err(named)?;
    let parts = || base.datasets.iter().flat_map(|stored| &stored.parts);
    let logs: HashSet<u32> = parts().map(|part| part.log).collect();
    let most = base.datasets.iter().map(|stored| stored.parts.len()).max().unwrap_or(0);
    let scattered = base.datasets.iter().any(|stored| {
        let raw = stored.parts.iter().flat_map(|part| part.written.pieces.iter());
        let mut raw = raw.filter(|piece| !piece.form.is_chunk());
        let has_fields = |piece: &crate::Piece| piece.form.is_fields();
        raw.by_ref()
            .take(MAX_UNCOMPACTED_PIECES)
            .any(|piece| has_fields(&piece) || !is_contiguous(&piece.slab, &stored.extent))
            || raw.next().is_some()
    });
    if logs.len() <= 1 && most <= 1 && !scattered {
        return Ok(None);
    }
    verify::check_sources(site.site(), &base, super::pack::thread_count(0))?;
    let statistics = parts().all(|part| part.written.pieces.is_empty() || part.written.statistics.is_some());
    // Rows from Arrow fragments go to one Arrow fragment again.
    let rows = parts().any(|part| part.written.pieces.may_have_offset_bits(FRAGMENT_FLAG));
    let known = KnownStore { store: base.store, epoch: base.number, seen: None };
    let writing = WriterOptions {
        session: Session::compaction(),
        statistics,
        sync: options.sync,
        known: Some(known),
        segments: if rows { Segments::Arrow } else { Segments::Log },
        ..WriterOptions::default()
    };
    let writer = LogWriter::create(&path, &writing).map_err(named)?;
    let written = write(&path, &base, &writer, options.memory).and_then(|()| writer.close().map(drop));
    let made =
        written.map_err(CompactionFailure::from).and_then(|()| publish(&path, &base, &writer, options));
    if made.as_ref().is_err_and(|failed| !failed.may_be_published) {
        // Report the first error, not one of the clean-up.
        for file in writer.fragments().into_iter().chain([writer.log().to_owned()]) {
            drop(std::fs::remove_file(file));
        }
    }
    made.map(Some).map_err(|failed| named(failed.error))
}

/// A compaction that failed.
#[derive(Debug)]
struct CompactionFailure {
    error: Error,
    /// True if an epoch that needs the new log exists, or may exist.
    may_be_published: bool,
}

impl From<Error> for CompactionFailure {
    fn from(error: Error) -> Self {
        Self { error, may_be_published: false }
    }
}

impl CompactionFailure {
    fn after_publishing(error: Error) -> Self {
        Self { error, may_be_published: true }
    }
}

/// Returns whether a box is one run of elements in row-major order.
fn is_contiguous(slab: &Hyperslab, extent: &[u64]) -> bool {
    let first = slab.count.iter().position(|count| *count != 1).unwrap_or(slab.count.len());
    slab.count.iter().zip(extent).skip(first + 1).all(|(count, dim)| count == dim)
}

/// Writes the data of all datasets.
fn write(path: &Path, base: &Manifest, writer: &LogWriter, memory: u64) -> Result<()> {
    let logs = LogCache::new(path, base);
    for stored in &base.datasets {
        let named = |error: Error| error.object(String::from_utf8_lossy(&stored.definition.path));
        let number = writer.define(&stored.definition).map_err(named)?;
        dataset(&logs, stored, writer, number, memory).map_err(named)?;
        results::copy_results(path, base, stored, writer, number).map_err(named)?;
    }
    Ok(())
}

fn dataset(
    logs: &LogCache<'_>,
    stored: &StoredDataset,
    writer: &LogWriter,
    number: u32,
    memory: u64,
) -> Result<()> {
    let definition = &stored.definition;
    if let Some(chunk) = &definition.chunk
        && layers(stored).any(|layer| layer.piece.form.is_chunk())
    {
        return chunks(logs, stored, chunk, writer, number);
    }
    let block = block_extent(&stored.extent, definition.element_size(), memory);
    let blocks = Blocks::new(logs, stored, block)?;
    let mut scratch = Scratch::default();
    for key in blocks.keys() {
        let Some(within) = blocks.slab(key).clipped(&stored.extent) else { continue };
        let Some(Content::Elements(bytes)) = blocks.content(key, false, &mut scratch)? else { continue };
        for part in blocks.written(key)? {
            if part == within {
                writer.write_box(number, &part.start, &part.count, bytes)?;
            } else {
                let bytes = copy_part(bytes, &within, &part, definition.element_size())?;
                writer.write_box(number, &part.start, &part.count, &bytes)?;
            }
        }
    }
    Ok(())
}

/// Writes each chunk as a whole: as stored, or composed of its layers. Elements of a chunk past the
/// edge of the extent are kept, since they become visible when the dataset grows.
fn chunks(
    logs: &LogCache<'_>,
    stored: &StoredDataset,
    chunk: &[u64],
    writer: &LogWriter,
    number: u32,
) -> Result<()> {
    let mut whole = stored.clone();
    for (dim, chunk) in whole.extent.iter_mut().zip(chunk) {
        *dim = dim.checked_next_multiple_of(*chunk).unwrap_or(*dim);
    }
    let blocks = Blocks::new(logs, &whole, chunk.to_vec())?;
    let (mut scratch, mut encoder) = (Scratch::default(), Encoder::default());
    for key in blocks.keys() {
        let offset = blocks.slab(key).start;
        match blocks.content(key, true, &mut scratch)? {
            None => {}
            Some(Content::Chunk(bytes, mask)) => writer.write_chunk(number, &offset, mask, bytes)?,
            Some(Content::Elements(bytes)) => {
                let (encoded, mask) = encoder.encode(&stored.definition.pipeline, bytes)?;
                writer.write_chunk(number, &offset, mask, encoded)?;
            }
        }
    }
    Ok(())
}

/// Copies the elements of a part out of a box.
fn copy_part(bytes: &[u8], outer: &Hyperslab, part: &Hyperslab, size: u64) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for (_, from, length) in rows(part, part, outer) {
        let range = usize::try_from(from * size).ok().zip(usize::try_from(length * size).ok());
        let found = range.and_then(|(start, length)| bytes.get(start..start.checked_add(length)?));
        out.extend_from_slice(found.ok_or_else(|| Error::corrupt("a block with fewer bytes than its box"))?);
    }
    Ok(out)
}

/// Publishes the epoch in which the new log replaces the content of `base`.
fn publish(
    path: &Path,
    base: &Manifest,
    writer: &LogWriter,
    options: &CompactOptions,
) -> std::result::Result<CompactReport, CompactionFailure> {
    let log = Log::open(writer.log(), None, 0)?;
    for _ in 0..MAX_ATTEMPTS {
        let (newest, number) = commit::newest(path.into())?;
        let newest = newest
            .ok_or_else(|| Error::corrupt("all epochs of the store were deleted during the compaction"))?;
        let mut manifest = replace_parts(base, &newest, &log)?;
        manifest.number = number;
        commit::check_file(path, "compact")?;
        let file = commit::skeleton(path.into(), &newest, true)?;
        let mut merge = Merge::new(Some(&file), &[])?;
        let (shown, links) =
            external_links::shown(path.into(), &manifest, (options.link, None), &merge.datasets())?;
        manifest.image = merge.write(Stamp::of(&manifest), &shown)?;
        // Without its log, the epoch would be unreadable.
        writer.check_files()?;
        // A manifest whose writing failed may be complete nevertheless.
        if !manifest
            .publish(path, options.sync != Sync::Never)
            .map_err(CompactionFailure::after_publishing)?
        {
            continue;
        }
        writer.check_files().map_err(|error| {
            let place = Manifest::path(path, manifest.number);
            let message = format!(
                "epoch {} was made, and another program deleted its log in the meantime ({}); delete {} to go back to epoch {}",
                manifest.number,
                error.message(),
                place.display(),
                newest.number
            );
            CompactionFailure::after_publishing(error.with_message(message))
        })?;
        let count = |manifest: &Manifest| -> u64 {
            let parts = manifest.datasets.iter().flat_map(|stored| &stored.parts);
            parts.map(|part| part.written.pieces.len()).sum()
        };
        let pieces = (count(&newest), count(&manifest));
        let gone = newest.logs.iter().map(|log| log.writer).filter(|writer| manifest.log(writer).is_none());
        let replaced = gone.collect();
        let manifest = Arc::new(manifest);
        let shown = commit::publish_skeleton(path.into(), &manifest, options.sync);
        shown.map_err(CompactionFailure::after_publishing)?;
        return Ok(CompactReport { manifest, writer: writer.id(), pieces, replaced, links });
    }
    Err(Error::new(
        ErrorKind::Io,
        "cannot publish the epoch: other commits were faster in every attempt; try again",
    )
    .into())
}

/// Returns the newest epoch with the new log in place of the parts that `base` had.
fn replace_parts(base: &Manifest, newest: &Manifest, log: &Log) -> Result<Manifest> {
    let mut manifest = Manifest {
        parent: newest.number,
        time: now(),
        logs: Vec::new(),
        conflicts: Vec::new(),
        image: Vec::new(),
        ..newest.clone()
    };
    let part = LogPart {
        writer: log.writer(),
        length: log.length,
        trailer: log.trailer,
        epoch: base.number,
        finished: true,
        salvaged: false,
        priority: 0,
    };
    let own = add_log(&mut manifest, part)?;
    // Logs that are still referenced, and logs that may grow.
    let is_new = |part: &Part| part.epoch > base.number;
    let used: HashSet<u32> = newest
        .datasets
        .iter()
        .flat_map(|stored| stored.parts.iter().filter(|part| is_new(part)))
        .map(|part| part.log)
        .collect();
    let mut numbers = vec![0; newest.logs.len()];
    for ((old, number), place) in newest.logs.iter().zip(0..).zip(&mut numbers) {
        if used.contains(&number) || !old.finished {
            *place = add_log(&mut manifest, *old)?;
        } else {
            manifest.hidden.push(old.writer);
        }
    }
    manifest.hidden.sort_unstable();
    manifest.hidden.dedup();
    for stored in &mut manifest.datasets {
        let before: Vec<&Part> =
            base.dataset(&stored.id).map(|stored| stored.parts.iter().collect()).unwrap_or_default();
        let known: Vec<&Part> = stored.parts.iter().filter(|part| !is_new(part)).collect();
        let same = before.len() == known.len()
            && before
                .iter()
                .zip(&known)
                .all(|(one, other)| one.written == other.written && one.epoch == other.epoch);
        if !same {
            let message = "the file was truncated, or compacted by another process, during this compaction";
            return Err(Error::invalid(message));
        }
        let mut parts = Vec::new();
        let dataset = log.defined.iter().position(|defined| defined.id == stored.id);
        let written = dataset.and_then(|dataset| {
            log.written
                .iter()
                .find(|(number, _)| usize::try_from(*number).is_ok_and(|number| number == dataset))
        });
        if let Some((_, written)) = written {
            parts.push(Part { log: own, epoch: base.number, written: written.clone() });
        }
        for part in stored.parts.iter().filter(|part| is_new(part)) {
            let log = numbers.get(part.log as usize).copied().unwrap_or_default();
            parts.push(Part { log, ..part.clone() });
        }
        stored.parts = parts;
    }
    manifest.renumber();
    Ok(manifest)
}

#[cfg(test)]
mod tests;
