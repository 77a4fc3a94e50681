//! Division of a dataset's data into batches for copying.

use super::plan::{CopyMethod, Plan};
use super::shape::ChunkGroups;
use crate::slabs::slabs;
use crate::write::NewLayout;
use crate::{Dataset, Result};
use hyperchunk_format::model::Chunk;
use hyperchunk_format::select::Selection;
use std::collections::HashMap;

/// Maximum size in bytes of the stored chunks in a batch; a single larger chunk is allowed.
const BATCH_BYTES: u64 = 4 << 20;
/// Maximum gap in bytes between chunks that are read together.
const MAX_GAP_BYTES: u64 = 64 << 10;
/// Maximum number of chunks in a batch.
const MAX_BATCH_CHUNKS: usize = 4096;

/// Part of a dataset that one thread copies at a time.
#[derive(Debug)]
pub(super) enum CopyBatch {
    /// Stored chunks, near each other in the file.
    Chunks(Vec<Chunk>),
    /// A selection of elements.
    Elements(Selection),
}

type CopyBatches = Box<dyn Iterator<Item = CopyBatch> + Send>;

/// Iterates over the batches of a dataset, each of at most about `memory` bytes. With `in_order`, stored
/// chunks are in order of their coordinates, otherwise of their addresses.
pub(super) fn pieces(dataset: &Dataset, plan: &Plan, memory: u64, in_order: bool) -> Result<CopyBatches> {
    Ok(match (plan.how, &plan.layout) {
        (CopyMethod::Nothing, _) => Box::new(std::iter::empty()),
        (CopyMethod::Stored | CopyMethod::Recoded, _) => {
            let remote = dataset.object().file().is_remote();
            let batch = if remote { memory } else { BATCH_BYTES };
            let gap = if remote { u64::MAX } else { MAX_GAP_BYTES };
            Box::new(batches(stored(dataset, in_order)?, batch.min(memory), gap).map(CopyBatch::Chunks))
        }
        (CopyMethod::Elements, NewLayout::Chunked(chunk)) => {
            let many = boxes(plan, chunk, memory);
            match dataset.chunked() {
                None => {
                    let keys = many.all();
                    Box::new(keys.map(move |key| CopyBatch::Elements(many.selection(&key))))
                }
                Some(old) => {
                    let chunks = dataset.written_chunks()?;
                    let choices = sparse(&many, &boxes(plan, chunk, 1), &old.dims, &chunks);
                    Box::new(choices.into_iter().map(CopyBatch::Elements))
                }
            }
        }
        (CopyMethod::Elements, _) => Box::new(slabs(dataset, memory).map(CopyBatch::Elements)),
    })
}

/// Returns selections that cover exactly the new chunks with written data: boxes of many chunks where all of
/// them have data, single chunks elsewhere.
fn sparse(many: &ChunkGroups, one: &ChunkGroups, old: &[u64], chunks: &[Vec<u64>]) -> Vec<Selection> {
    let touched = |boxes: &ChunkGroups| boxes.touched(old, chunks.iter().map(|chunk| &**chunk));
    let mut single: HashMap<Vec<u64>, Vec<u64>> = HashMap::new();
    for key in touched(one) {
        for chunk in one.places(&key) {
            single.insert(chunk, key.clone());
        }
    }
    let mut choices = Vec::new();
    for key in touched(many) {
        let members = many.places(&key);
        if members.iter().all(|chunk| single.contains_key(chunk)) {
            choices.push(many.selection(&key));
        } else {
            let keys = members.iter().filter_map(|chunk| single.get(chunk));
            choices.extend(keys.map(|key| one.selection(key)));
        }
    }
    choices
}

/// Returns the boxes of new chunks in which elements are copied, each of about `memory` bytes.
fn boxes(plan: &Plan, chunk: &[u64], memory: u64) -> ChunkGroups {
    let bytes = chunk.iter().fold(plan.translation.datatype.size, |size, dim| size.saturating_mul(*dim));
    ChunkGroups::new(plan.dataspace.dims(), chunk, (memory / bytes.max(1)).max(1))
}

/// Returns the scaled coordinates of the chunks that the new dataset will have.
pub(super) fn new_chunks(dataset: &Dataset, plan: &Plan) -> Result<Vec<Vec<u64>>> {
    let NewLayout::Chunked(chunk) = &plan.layout else { return Ok(Vec::new()) };
    Ok(match (plan.how, dataset.chunked()) {
        (CopyMethod::Nothing, _) => Vec::new(),
        (CopyMethod::Stored | CopyMethod::Recoded, _) => {
            stored(dataset, false)?.into_iter().map(|chunk| chunk.scaled).collect()
        }
        (CopyMethod::Elements, old) => {
            let boxes = boxes(plan, chunk, 1);
            match old {
                None => boxes.all().flat_map(|key| boxes.places(&key)).collect(),
                Some(old) => {
                    let chunks = dataset.written_chunks()?;
                    let touched = boxes.touched(&old.dims, chunks.iter().map(|chunk| &**chunk));
                    touched.iter().flat_map(|key| boxes.places(key)).collect()
                }
            }
        }
    })
}

/// Returns the stored chunks, except those outside the dataset's current extent, which remain when it
/// shrinks. With `in_order`, they are in order of their coordinates, otherwise of their addresses.
fn stored(dataset: &Dataset, in_order: bool) -> Result<Vec<Chunk>> {
    let mut chunks = dataset.chunks()?;
    let dims = dataset.chunked().map(|chunked| chunked.dims.clone()).unwrap_or_default();
    chunks.retain(|chunk| {
        let starts = chunk.scaled.iter().zip(&dims).map(|(place, dim)| place.saturating_mul(*dim));
        starts.zip(dataset.dims()).all(|(start, extent)| start < *extent)
    });
    if !in_order {
        chunks.sort_by_key(|chunk| chunk.address);
    }
    Ok(chunks)
}

/// Groups chunks that are read together: at most `most` bytes, with gaps of at most `gap` bytes.
fn batches(chunks: Vec<Chunk>, most: u64, gap: u64) -> impl Iterator<Item = Vec<Chunk>> {
    let mut chunks = chunks.into_iter().peekable();
    std::iter::from_fn(move || {
        let mut batch = vec![chunks.next()?];
        let mut bytes = batch[0].size;
        while let Some(next) = chunks.peek() {
            let last = batch.last().map_or(0, |chunk| chunk.address.saturating_add(chunk.size));
            let near = gap == u64::MAX || (next.address >= last && next.address - last <= gap);
            if !near || bytes.saturating_add(next.size) > most || batch.len() >= MAX_BATCH_CHUNKS {
                break;
            }
            bytes += next.size;
            batch.extend(chunks.next());
        }
        Some(batch)
    })
}
