//! Parallel copying of data.

use super::PackPlan;
use super::data::{CopyBatch, pieces};
use super::list::Item;
use super::make::CreatedObjects;
use super::plan::{CopyMethod, Plan};
use super::translate::AddressContext;
use crate::io::ranges::joined_within;
use crate::io::{ends_before, interrupt};
use crate::read::spread;
use crate::write::{DatasetWriter, DirectChunk, NewLayout, Writer};
use crate::{Dataset, Error, Result, room};
use hyperchunk_format::codec::{Decoder, Encoder};
use hyperchunk_format::model::{Chunk, Chunked, Class, Filter, Layout};
use hyperchunk_format::select::Selection;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Minimum size of a dataset for which more than one thread is started.
const MIN_THREADED_BYTES: u64 = 4 << 20;

/// Numbers of chunks and selections that were copied.
#[derive(Debug, Default)]
pub struct CopyCounts {
    /// Chunks copied without decoding.
    pub(crate) copied_chunks: u64,
    /// Chunks decoded and encoded again, and selections of elements.
    pub(crate) rewritten: u64,
}

/// A dataset and its copy.
struct DatasetPair<'a> {
    item: &'a Item,
    old: &'a Dataset,
    new: &'a DatasetWriter,
    plan: &'a Plan,
}

/// Copies the data of all datasets.
pub fn copy(
    packing: &PackPlan,
    writer: &Writer,
    made: &CreatedObjects,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<CopyCounts> {
    let numbers = 0..packing.contents.items.len();
    let pairs = numbers.filter_map(|number| pair(packing, made, number)).collect();
    copy_pairs(packing, writer, made, pairs, packing.threads(), progress)
}

/// Copies the data of one item. Small datasets are copied by the calling thread.
pub(crate) fn copy_item(
    packing: &PackPlan,
    writer: &Writer,
    made: &CreatedObjects,
    number: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<CopyCounts> {
    let Some(pair) = pair(packing, made, number) else { return Ok(CopyCounts::default()) };
    let threads = if pair.plan.bytes < MIN_THREADED_BYTES { 1 } else { packing.threads() };
    copy_pairs(packing, writer, made, vec![pair], threads, progress)
}

/// Returns an item's dataset and its copy, if there are data to copy.
fn pair<'a>(packing: &'a PackPlan, made: &'a CreatedObjects, number: usize) -> Option<DatasetPair<'a>> {
    let item = packing.contents.items.get(number)?;
    let (plan, new) = (packing.plans.get(number)?.as_ref()?, made.datasets.get(number)?.as_ref()?);
    let old = item.dataset.as_ref()?;
    (plan.how != CopyMethod::Nothing).then_some(DatasetPair { item, old, new, plan })
}

fn copy_pairs(
    packing: &PackPlan,
    writer: &Writer,
    made: &CreatedObjects,
    pairs: Vec<DatasetPair<'_>>,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<CopyCounts> {
    let memory = (packing.options.memory / threads.max(1) as u64).max(1);
    let jobs =
        pairs.iter().flat_map(|pair| match pieces(pair.old, pair.plan, memory, packing.options.cloud) {
            Ok(pieces) => Box::new(pieces.map(move |piece| Ok((pair, piece)))),
            Err(error) => Box::new(std::iter::once(Err(pair.old.with_context(error))))
                as Box<dyn Iterator<Item = _> + Send>,
        });
    let (copied_chunks, rewritten) = (AtomicU64::new(0), AtomicU64::new(0));
    spread(threads, jobs, Scratch::default, |scratch, job: Result<(&DatasetPair<'_>, CopyBatch)>| {
        let (pair, piece) = job?;
        let done = match piece {
            CopyBatch::Chunks(chunks) => {
                let count = if pair.plan.how == CopyMethod::Stored { &copied_chunks } else { &rewritten };
                count.fetch_add(chunks.len() as u64, Ordering::Relaxed);
                copy_chunks(pair, &chunks, scratch)
            }
            CopyBatch::Elements(selection) => {
                rewritten.fetch_add(1, Ordering::Relaxed);
                copy_elements(packing, writer, made, pair, &selection, scratch)
            }
        };
        progress(done.map_err(|error| pair.old.with_context(error))?);
        Ok(())
    })?;
    Ok(CopyCounts { copied_chunks: copied_chunks.into_inner(), rewritten: rewritten.into_inner() })
}

/// One thread's buffers.
#[derive(Default)]
struct Scratch {
    bytes: Vec<u8>,
    decoder: Decoder,
    encoder: Encoder,
}

/// Copies chunks; returns their decoded size in bytes.
fn copy_chunks(pair: &DatasetPair<'_>, chunks: &[Chunk], scratch: &mut Scratch) -> Result<u64> {
    let Some(chunked) = pair.old.chunked() else { return Err(Error::invalid("the dataset is not chunked")) };
    let size = chunked.dims.iter().fold(chunked.element_size, |size, dim| size.saturating_mul(*dim));
    let stored = read(pair.old, chunks, &mut scratch.bytes)?;
    let offsets: Vec<Vec<u64>> = chunks.iter().map(|chunk| offset(chunk, chunked)).collect();
    let parts = chunks.iter().zip(&offsets).zip(&stored);
    if pair.plan.how == CopyMethod::Stored {
        let many: Vec<DirectChunk<'_>> = parts
            .map(|((chunk, offset), bytes)| {
                let filters = filters(pair.old, chunked, offset);
                let unfiltered = filters.is_empty() && !pair.old.pipeline().is_empty();
                let mask = if unfiltered { full_mask(pair.old.pipeline()) } else { chunk.filter_mask };
                (&**offset, *bytes, mask)
            })
            .collect();
        pair.new.write_chunks(&many)?;
    } else {
        let whole = usize::try_from(size).map_err(|_| Error::limit("a chunk exceeds the address space"))?;
        let ask = interrupt::current_interrupt();
        for ((chunk, offset), bytes) in parts {
            interrupt::check(ask.as_ref())?;
            let filters = filters(pair.old, chunked, offset);
            let inside = chunked.elements_inside(&chunk.scaled, pair.old.dims());
            let least = usize::try_from(inside.saturating_mul(chunked.element_size)).unwrap_or(whole);
            let decoded =
                scratch.decoder.decode_padded(filters, chunk.filter_mask, bytes, whole, least.min(whole));
            let decoded = decoded.map_err(|error| error.within("chunk").at(chunk.address))?;
            let (encoded, mask) = scratch.encoder.encode(&pair.plan.pipeline, decoded)?;
            pair.new.write_chunk(offset, encoded, mask)?;
        }
    }
    Ok(size.saturating_mul(chunks.len() as u64))
}

fn offset(chunk: &Chunk, chunked: &Chunked) -> Vec<u64> {
    chunk.scaled.iter().zip(&chunked.dims).map(|(place, dim)| place.saturating_mul(*dim)).collect()
}

/// Returns the filters of a chunk: partial edge chunks may be stored unfiltered.
pub(crate) fn filters<'d>(dataset: &'d Dataset, chunked: &Chunked, offset: &[u64]) -> &'d [Filter] {
    let mut ends = offset.iter().zip(&chunked.dims).map(|(start, dim)| start.saturating_add(*dim));
    let edge = dataset.dims().iter().any(|extent| ends.next().is_some_and(|end| end > *extent));
    if chunked.edge_chunks_unfiltered && edge { &[] } else { dataset.pipeline() }
}

/// Returns the filter mask that skips all filters.
fn full_mask(pipeline: &[Filter]) -> u32 {
    (0..32).zip(pipeline).fold(0, |mask, (filter, _)| mask | 1 << filter)
}

/// Writes the stored bytes of one chunk to the new dataset.
pub(crate) fn put_stored(
    old: &Dataset,
    new: &DatasetWriter,
    chunked: &Chunked,
    chunk: &Chunk,
    bytes: &[u8],
) -> Result<()> {
    let offset = offset(chunk, chunked);
    let unfiltered = filters(old, chunked, &offset).is_empty() && !old.pipeline().is_empty();
    let mask = if unfiltered { full_mask(old.pipeline()) } else { chunk.filter_mask };
    new.write_chunk(&offset, bytes, mask)
}

/// Reads the stored bytes of chunks into `buffer`; returns the part of it for each chunk.
fn read<'b>(dataset: &Dataset, chunks: &[Chunk], buffer: &'b mut Vec<u8>) -> Result<Vec<&'b [u8]>> {
    let file = dataset.object().file();
    let source = &*file.0.source;
    let base = file.superblock().base;
    let file_range = |chunk: &Chunk| -> Result<Range<u64>> {
        let start = base.checked_add(chunk.address);
        let end = start.and_then(|start| start.checked_add(chunk.size)).filter(|end| *end <= file.size());
        let length = usize::try_from(chunk.size).unwrap_or(usize::MAX);
        let range = start.zip(end).map(|(start, end)| start..end);
        range.ok_or_else(|| ends_before(file.size(), chunk.address, length))
    };
    let ranges: Vec<Range<u64>> = chunks.iter().map(file_range).collect::<Result<_>>()?;
    let narrow =
        |number: u64| usize::try_from(number).map_err(|_| Error::limit("chunks exceed the address space"));
    let mut parts = Vec::with_capacity(ranges.len());
    if let Some(remote) = source.remote() {
        let total = ranges.iter().map(|range| range.end - range.start).sum();
        room::resize(buffer, narrow(total)?)?;
        let mut at = 0;
        for range in &ranges {
            let length = narrow(range.end - range.start)?;
            parts.push(at..at + length);
            at += length;
        }
        let mut order: Vec<usize> = (0..ranges.len()).collect();
        order.sort_by_key(|number| ranges[*number].start);
        let options = remote.options();
        let sorted = order.iter().map(|number| ranges[*number].clone());
        let blocks = joined_within(sorted, options.gap, options.largest_request);
        remote.fetch(&blocks, &mut |number, bytes| {
            let block = &blocks[number];
            let from = order.partition_point(|number| ranges[*number].start < block.start);
            for number in order.iter().skip(from).take_while(|number| ranges[**number].start < block.end) {
                let (range, part) = (&ranges[*number], parts[*number].clone());
                let start = narrow(range.start - block.start)?;
                if let Some(stored) = bytes.get(start..start.saturating_add(part.len())) {
                    buffer[part].copy_from_slice(stored);
                }
            }
            Ok(())
        })?;
    } else {
        let first = ranges.first().map_or(0, |range| range.start);
        let end = ranges.iter().map(|range| range.end).max().unwrap_or(first);
        let length = narrow(end - first)?;
        room::resize(buffer, length)?;
        source.read_at(first, buffer)?;
        for range in &ranges {
            parts.push(narrow(range.start - first)?..narrow(range.end - first)?);
        }
    }
    Ok(parts.into_iter().map(|part| buffer.get(part).unwrap_or_default()).collect())
}

/// Copies the elements of a selection of one dataset.
pub fn copy_choice(
    packing: &PackPlan,
    writer: &Writer,
    made: &CreatedObjects,
    (item, old, new): (&Item, &Dataset, &DatasetWriter),
    plan: &Plan,
    selection: &Selection,
) -> Result<()> {
    let pair = DatasetPair { item, old, new, plan };
    copy_elements(packing, writer, made, &pair, selection, &mut Scratch::default()).map(drop)
}

/// Returns whether these elements are of a virtual dataset and all equal to its fill value, as where it has
/// no source. They are not written, so that the new dataset's chunks stay unallocated.
fn is_unwritten(pair: &DatasetPair<'_>, bytes: &[u8]) -> Result<bool> {
    let sources = matches!(pair.old.layout(), Layout::Virtual { .. });
    if !sources || !matches!(pair.plan.layout, NewLayout::Chunked(_)) || !pair.plan.translation.is_copy() {
        return Ok(false);
    }
    let fill = pair.old.fill_bytes()?;
    Ok(bytes.chunks_exact(fill.len().max(1)).all(|element| element == fill))
}

/// Copies elements; returns their size in bytes.
fn copy_elements(
    packing: &PackPlan,
    writer: &Writer,
    made: &CreatedObjects,
    pair: &DatasetPair<'_>,
    selection: &Selection,
    scratch: &mut Scratch,
) -> Result<u64> {
    let count = selection.count(pair.old.dims())?;
    let bytes = count.checked_mul(pair.old.datatype().size).and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = bytes.ok_or_else(|| Error::limit("the elements exceed the address space"))?;
    room::resize(&mut scratch.bytes, bytes)?;
    pair.old.read(selection, &mut scratch.bytes)?;
    if is_unwritten(pair, &scratch.bytes)? {
        return Ok(bytes as u64);
    }
    if pair.plan.translation.is_copy() {
        pair.new.write(selection, &scratch.bytes)?;
    } else {
        let file = pair.item.object.file();
        if matches!(pair.old.datatype().class, Class::Vlen { .. } | Class::VlenString { .. }) {
            file.load_heaps(&scratch.bytes)?;
        }
        let address = |old| made.address(packing, writer, pair.item.input, old);
        let ends = AddressContext { file, writer, address: &address, attribute: false };
        pair.new.write(selection, &pair.plan.translation.run(&scratch.bytes, &ends)?)?;
    }
    Ok(bytes as u64)
}
