//! Reads of live datasets: the stubs are read from the file, then the function computes the chunks, on all
//! processors.

use super::cache::ChunkCache;
use super::chunked::{ChunkedRead, named, read_at};
use super::fetch::{Part, Parts, Scratch};
use super::output::Output;
use super::table::StoredChunk;
use super::workers::spread;
use crate::dataset::Dataset;
use crate::live::{Evaluator, spent, within_read};
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::model::Chunked;
use hyperchunk_format::select::{ChunkSelection, Selection};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Maximum size of a stub in bytes; a stub can contain a whole function.
pub(super) const MAX_STUB_BYTES: u64 = (64 << 20) + 128;

/// Stubs by their addresses.
type Stubs = HashMap<u64, Vec<u8>>;

/// Reads a selection of a live dataset.
pub(super) fn read(
    evaluator: &'static dyn Evaluator,
    dataset: &Dataset,
    chunked: &Chunked,
    selection: &Selection,
    output: &Output<'_>,
) -> Result<()> {
    let reading = ChunkedRead::new(dataset, chunked, output)?;
    let mut jobs = Vec::new();
    reading.each_there(selection, |piece, chunk| {
        if chunk.filter_mask != 0 || chunk.size > MAX_STUB_BYTES {
            let message = "a chunk of a live dataset does not contain a stub";
            return Err(named(Error::new(ErrorKind::Filter, message), Some(chunk)));
        }
        jobs.push((piece, chunk));
        Ok(())
    })?;
    let stubs = if dataset.object().file().is_remote() { Some(fetched(dataset, &jobs)?) } else { None };
    let threads = dataset.object().file().options().thread_count().min(jobs.len());
    let state = || (Scratch::default(), Vec::new());
    let account = spent();
    let evaluate = |stub: &[u8], chunk: &mut [u8]| {
        within_read(account.clone(), || evaluator.evaluate(dataset, stub, chunk))
    };
    spread(threads, jobs.into_iter(), state, |(scratch, own), (piece, chunk)| {
        let key = (dataset.object().address(), chunk.address);
        let cache = &dataset.object().file().0.chunks;
        let cached = !reading.is_whole(&piece) && ChunkCache::takes(reading.chunk_bytes());
        if let Some(bytes) = cached.then(|| cache.get(key)).flatten() {
            return reading.scatter(&piece, &bytes, &mut scratch.gathered);
        }
        let stub = match &stubs {
            Some(stubs) => stubs.get(&chunk.address).ok_or_else(|| Error::invalid("a stub is missing"))?,
            None => {
                read_at(dataset, chunk.address, chunk.size, own)
                    .map_err(|error| named(error, Some(chunk)))?;
                &*own
            }
        };
        // SAFETY: the pieces of a selection have disjoint targets, each piece is of one thread.
        if let Some(straight) = unsafe { reading.whole_chunk(&piece) }? {
            return evaluate(stub, straight);
        }
        crate::room::resize(&mut scratch.stored, reading.chunk_bytes())?;
        evaluate(stub, &mut scratch.stored)?;
        if cached {
            cache.insert(key, &scratch.stored);
        }
        reading.scatter(&piece, &scratch.stored, &mut scratch.gathered)
    })
}

/// Fetches the stubs of a file over a network, together.
fn fetched(dataset: &Dataset, jobs: &[(ChunkSelection, StoredChunk)]) -> Result<Stubs> {
    let limits = &dataset.object().file().options().limits;
    let total = jobs.iter().fold(0_u64, |total, (_, chunk)| total.saturating_add(chunk.size));
    if total > limits.in_flight_bytes {
        let message = format!(
            "the stubs of a live dataset have {total} bytes; the limit (`in_flight_bytes`) is {}",
            limits.in_flight_bytes
        );
        return Err(Error::limit(message));
    }
    let stubs = Mutex::new(Stubs::new());
    let mut parts = Parts::default();
    for (_, chunk) in jobs {
        let range = super::chunked::located(dataset, chunk.address, chunk.size)?;
        let work = |bytes: &[u8], _: &mut Scratch| {
            stubs.lock().unwrap_or_else(PoisonError::into_inner).insert(chunk.address, bytes.to_vec());
            Ok(())
        };
        parts.add(&dataset.object().file().0.source, Part { range, work: Box::new(work) });
    }
    parts.run(1, limits.in_flight_bytes)?;
    Ok(stubs.into_inner().unwrap_or_else(PoisonError::into_inner))
}
