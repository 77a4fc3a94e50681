//! Packing: copies an epoch of a store to one self-contained HDF5 file.
//!
//! Structure, attributes and native datasets come from the skeleton. Contiguous data are copied
//! from the logs by the operating system; chunks are copied in their stored form, without decoding.
//! Elements are composed and compressed only where pieces overlap or do not fill a chunk.

use super::blocks::{Blocks, Content, Scratch};
use super::verify;
use crate::commit::external_links::{LinkedSegment, linked_segments};
use crate::commit::merged_file::Merge;
use crate::format::fragment_offset::{inside, is_in};
use crate::format::manifest::StoredDataset;
use crate::format::piece::block_extent;
use crate::location::site::Site;
use crate::read::log_cache::LogCache;
use crate::{Bucket, Definition, Log, Manifest};
use hyperchunk::internal::pack::{Contents, good_chunk, needed};
use hyperchunk::internal::spread;
use hyperchunk::io::Source;
use hyperchunk::pack::{self, Input, PackPlan};
use hyperchunk::write::{
    CreateOptions, DatasetOptions, DatasetWriter, DirectChunk, FilePart, NewLayout, Sync, Writer,
};
use hyperchunk::{Error, ErrorKind, Result, output};
use hyperchunk_format::codec::Encoder;
use hyperchunk_format::encode::LibVersion;
use hyperchunk_format::model::{AllocationTime, Dataspace};
use hyperchunk_format::select::{Axis, Selection};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Approximate size in bytes of the blocks in which contiguous data are composed if they have too
/// many segments.
const BLOCK_BYTES: u64 = 8 << 20;
/// Maximum number of open files while contiguous data are copied.
const MAX_OPEN_FILES: usize = 200;
/// Number of bytes of chunks copied at a time.
const BATCH_BYTES: u64 = 4 << 20;

/// Options of packing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PackOptions {
    /// Epoch to pack; the newest if `None`.
    pub epoch: Option<u64>,
    /// Number of threads; 0 for one per processor.
    pub threads: usize,
    /// Point at which data must be on disk.
    pub sync: Sync,
    /// Replace an existing file.
    pub replace: bool,
}

impl Default for PackOptions {
    fn default() -> Self {
        Self { epoch: None, threads: 0, sync: Sync::Commit, replace: false }
    }
}

/// Result of packing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PackReport {
    /// The epoch.
    pub epoch: u64,
    /// Number of datasets of the store.
    pub datasets: usize,
    /// Number of bytes that were copied in their stored form.
    pub copied: u64,
    /// Number of bytes of elements that were composed of several pieces.
    pub reencoded_bytes: u64,
    /// Size of the new file in bytes.
    pub size: u64,
}

/// Packs an epoch of the store at `path` into one file.
///
/// # Errors
/// NotFound if there is no such epoch; Invalid if `out` is the store's own file, or one to which the
/// store refers; errors of reading the logs and of writing, in which case no new file is left.
pub fn pack<'a>(site: impl Into<Site<'a>>, out: &Path, options: &PackOptions) -> Result<PackReport> {
    let site = site.into();
    output::accept(out, &[output::Kind::Hdf5])?;
    if let Some(bucket) = site.bucket() {
        output::check(out, options.replace, &[])?;
        return from_bucket(site, bucket, out, options);
    }
    let path = site.operations().path();
    output::check(out, options.replace, &[path])?;
    let named = |error: Error| error.file(path.display());
    let newest = Manifest::newest(path)?;
    let manifest = match options.epoch {
        Some(number) => Manifest::epoch(path, number)?,
        None => newest.clone().ok_or_else(|| {
            named(Error::new(ErrorKind::NotFound, "there is no store, or nothing of it was committed"))
        })?,
    };
    output::check_folder(out, &crate::store_folder(path))?;
    if output::same_file(path, out) {
        return Err(named(Error::invalid(
            "cannot replace the store's own file by the packed one; choose another name",
        )));
    }
    let is_newest = newest.is_some_and(|newest| newest.number == manifest.number);
    if is_newest {
        crate::commit::check_file(path, "pack")?;
    }
    let file = crate::commit::skeleton(path.into(), &manifest, is_newest)?;
    if out.exists() {
        Contents::list(vec![Input { file: file.clone(), into: String::new() }])?.check_not_a_source(out)?;
    }
    let mut merge = Merge::new(Some(&file), &[])?;
    let datasets = merge.datasets();
    let mut all = HashMap::new();
    let mut oldest = merge.prepare()?;
    for (id, place) in &datasets {
        let stored = manifest.dataset(id).ok_or_else(|| {
            let message = "the epoch's manifest does not have this dataset of the store";
            named(Error::corrupt(message).object(String::from_utf8_lossy(place)))
        })?;
        let (made, needs) = packed_options(stored)?;
        oldest = oldest.max(needs);
        all.insert(*id, (stored, made));
    }
    verify::check_sources(site, &manifest, thread_count(options.threads))?;
    let writer = Writer::create(out, &create_options(options, oldest))?;
    let filled = merge.build(&writer, &|id| all.get(&id).map(|(_, made)| made.clone())).and_then(|made| {
        let mut packed = PackReport { epoch: manifest.number, datasets: made.len(), ..PackReport::default() };
        let logs = LogCache::new(path, &manifest);
        for (id, place) in &datasets {
            let (Some((stored, _)), Some(dataset)) = (all.get(id), made.get(id)) else { continue };
            fill(&logs, stored, dataset, options.threads, &mut packed)
                .map_err(|error| error.object(String::from_utf8_lossy(place)))?;
        }
        writer.close()?;
        packed.size = writer.size();
        Ok(packed)
    });
    filled.inspect_err(|_| drop(writer.discard()))
}

/// Packs a store in an object store, in the same way as any remote file.
fn from_bucket(site: Site<'_>, bucket: &Bucket, out: &Path, options: &PackOptions) -> Result<PackReport> {
    let epoch = match options.epoch {
        Some(number) => number,
        None => Manifest::newest(site)?.map(|newest| newest.number).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "there is no store, or nothing of it was committed")
                .file(site.operations().path().display())
        })?,
    };
    let input = Input { file: bucket.epoch(epoch)?, into: String::new() };
    let mut how = pack::PackOptions::default();
    (how.threads, how.sync, how.replace) = (options.threads, options.sync, options.replace);
    let packing = PackPlan::new(vec![input], how)?;
    let reencoded_bytes = packing.total();
    let packed = packing.write(out, &|_| {})?;
    let datasets = packed.datasets;
    Ok(PackReport { epoch, datasets, copied: 0, reencoded_bytes, size: packed.size })
}

fn create_options(options: &PackOptions, oldest: LibVersion) -> CreateOptions {
    let mut create = CreateOptions::default();
    create.oldest = oldest;
    (create.threads, create.sync, create.replace) = (options.threads, options.sync, options.replace);
    // An incomplete file is discarded, so there is nothing that a journal could repair.
    create.journal = false;
    create
}

/// Returns the options of a dataset in the new file, and the oldest release that can read it.
fn packed_options(stored: &StoredDataset) -> Result<(DatasetOptions, LibVersion)> {
    let Definition { datatype, chunk, pipeline, fill, max, .. } = &stored.definition;
    let dims = stored.extent.clone();
    let grows = dims.iter().zip(max).any(|(dim, max)| *max != Some(*dim));
    // Contiguous data cannot grow.
    let chunk = chunk.clone().or_else(|| grows.then(|| good_chunk(&dims, datatype.size)));
    let mut oldest = needed(datatype)?;
    let (layout, max) = match chunk.filter(|chunk| !chunk.is_empty()) {
        Some(chunk) => {
            let bytes = chunk.iter().fold(datatype.size, |size, dim| size.saturating_mul(*dim));
            if u32::try_from(bytes).is_err() {
                oldest = LibVersion::V200;
            }
            let max = dims.iter().zip(max).map(|(dim, max)| max.map(|max| max.max(*dim))).collect();
            (NewLayout::Chunked(chunk), max)
        }
        None => (NewLayout::Contiguous, dims.iter().copied().map(Some).collect()),
    };
    let dataspace = if dims.is_empty() { Dataspace::Scalar } else { Dataspace::Simple { dims, max } };
    let mut options = DatasetOptions::new(datatype.clone(), dataspace).with_layout(layout.clone());
    if matches!(layout, NewLayout::Chunked(_)) {
        options = options.with_pipeline(pipeline.clone());
    }
    options.fill = fill.clone();
    options.fill.allocation = AllocationTime::Default;
    Ok((options, oldest))
}

pub(super) fn thread_count(threads: usize) -> usize {
    match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
}

/// A log, and the fragment of its writer if the segment is in that.
type OpenLog = (Arc<Log>, Option<Arc<dyn Source>>);

/// Copies the data of a dataset.
fn fill(
    logs: &LogCache<'_>,
    stored: &StoredDataset,
    dataset: &DatasetWriter,
    threads: usize,
    packed: &mut PackReport,
) -> Result<()> {
    let threads = thread_count(threads);
    if stored.parts.iter().all(|part| part.written.pieces.is_empty()) {
        return Ok(());
    }
    if let Some(chunk) = dataset.chunk() {
        return chunks(logs, stored, dataset, chunk, threads, packed);
    }
    let Ok(segments) = linked_segments(stored)? else { return slabs(logs, stored, dataset, threads, packed) };
    let key = |segment: &LinkedSegment| (segment.log, is_in(segment.offset));
    // Process as many parts at a time as files may be open.
    let mut waiting = segments.0.iter().peekable();
    while waiting.peek().is_some() {
        let mut files: HashMap<(u32, bool), OpenLog> = HashMap::new();
        let mut some = Vec::new();
        while let Some((at, segment)) =
            waiting.next_if(|(_, segment)| files.contains_key(&key(segment)) || files.len() < MAX_OPEN_FILES)
        {
            if let Entry::Vacant(entry) = files.entry(key(segment)) {
                let log = logs.get(segment.log)?;
                let rows = is_in(segment.offset).then(|| log.fragment(&stored.definition)).transpose()?;
                entry.insert((log, rows));
            }
            some.push((*at, segment));
        }
        let mut parts: Vec<FilePart<'_>> = Vec::with_capacity(some.len());
        for (at, segment) in some {
            let Some((log, rows)) = files.get(&key(segment)) else { continue };
            let (source, from) = match rows {
                Some(rows) => (rows, inside(segment.offset)),
                None => (log.source()?, segment.offset),
            };
            let file = source.file().ok_or_else(|| Error::invalid("the log is not a local file"))?;
            parts.push(FilePart { at, file, from, length: segment.end - at });
            packed.copied += segment.end - at;
        }
        // A file is written by one thread at a time; more threads would only wait for each other.
        dataset.copy_parts(&parts, 1)?;
    }
    Ok(())
}

/// Copies or composes the chunks of a chunked dataset.
fn chunks(
    logs: &LogCache<'_>,
    stored: &StoredDataset,
    dataset: &DatasetWriter,
    chunk: &[u64],
    threads: usize,
    packed: &mut PackReport,
) -> Result<()> {
    let definition = &stored.definition;
    let bytes = chunk.iter().fold(definition.element_size(), |size, dim| size.saturating_mul(*dim));
    let blocks = Blocks::new(logs, stored, chunk.to_vec())?;
    let keys = blocks.keys();
    let batch = usize::try_from(BATCH_BYTES / bytes.max(1)).unwrap_or(1).clamp(1, 4096);
    let (copied, reencoded_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let pipeline = if dataset.is_filtered() { &*definition.pipeline } else { &[] };
    spread(
        threads,
        keys.chunks(batch),
        <(Scratch, Encoder)>::default,
        |(scratch, encoder), keys: &[&[u64]]| {
            let mut ready: Vec<(Vec<u64>, Vec<u8>, u32)> = Vec::with_capacity(keys.len());
            for key in keys {
                let offset = blocks.slab(key).start;
                match blocks.content(key, true, scratch)? {
                    None => {}
                    Some(Content::Chunk(bytes, mask)) => {
                        copied.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                        ready.push((offset, hyperchunk::room::copy(bytes)?, mask));
                    }
                    Some(Content::Elements(bytes)) => {
                        reencoded_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                        let (encoded, mask) = encoder.encode(pipeline, bytes)?;
                        ready.push((offset, hyperchunk::room::copy(encoded)?, mask));
                    }
                }
            }
            let all: Vec<DirectChunk<'_>> =
                ready.iter().map(|(offset, bytes, mask)| (&**offset, &**bytes, *mask)).collect();
            if all.is_empty() { Ok(()) } else { dataset.write_chunks(&all) }
        },
    )?;
    packed.copied += copied.into_inner();
    packed.reencoded_bytes += reencoded_bytes.into_inner();
    Ok(())
}

/// Composes the elements of a contiguous dataset, block by block.
fn slabs(
    logs: &LogCache<'_>,
    stored: &StoredDataset,
    dataset: &DatasetWriter,
    threads: usize,
    packed: &mut PackReport,
) -> Result<()> {
    let block = block_extent(&stored.extent, stored.definition.element_size(), BLOCK_BYTES);
    let blocks = Blocks::new(logs, stored, block)?;
    let reencoded_bytes = AtomicU64::new(0);
    spread(threads, blocks.keys().into_iter(), Scratch::default, |scratch, key: &[u64]| {
        let Some(within) = blocks.slab(key).clipped(&stored.extent) else { return Ok(()) };
        let Some(Content::Elements(bytes)) = blocks.content(key, false, scratch)? else { return Ok(()) };
        reencoded_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let axes = within.start.iter().zip(&within.count);
        let axes = axes.map(|(start, count)| Axis::range(*start..start + count)).collect();
        dataset.write(&Selection::Axes(axes), bytes)
    })?;
    packed.reencoded_bytes += reencoded_bytes.into_inner();
    Ok(())
}

#[cfg(test)]
mod tests;
