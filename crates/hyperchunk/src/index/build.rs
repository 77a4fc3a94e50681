//! Building of an index.

use super::Identity;
use super::layout::{self, CompressedSection};
use super::packed::{pack, put};
use crate::survey::{ChunkedDataset, Job, SourceFetch, Survey, SurveyedDataset};
use crate::{Error, File, Result};
use hyperchunk_format::model::{Chunk, Name};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Size in bytes at which a section of the structure is ended.
const SECTION_BYTES: usize = 1 << 20;
/// Number of datasets whose chunks are looked up together.
const DATASETS_PER_LOOKUP: usize = 256;

/// Chunks from another source than the file, such as kerchunk's references, by dataset path. For these
/// datasets, the file's own chunk index is not read.
pub type Tables = HashMap<Vec<u8>, DatasetChunks>;

/// The chunks of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetChunks {
    /// The extent of a chunk.
    pub chunk: Vec<u64>,
    /// Its chunks; addresses count from the start of the file.
    pub chunks: Vec<Chunk>,
    /// Number of filters. If the dataset has another number, some chunks skip filters, and this entry is
    /// ignored.
    pub filters: usize,
}

/// A new index, with statistics about it.
#[derive(Debug)]
pub struct NewIndex {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Number of objects in the file.
    pub objects: usize,
    /// Number of datasets among them.
    pub datasets: usize,
    /// Number of chunks in its tables and in datasets that need no table.
    pub chunks: u64,
    /// Size of the indexed structure, in bytes.
    pub structure: u64,
    /// Size of its tables, in bytes.
    pub tables: u64,
    /// Unreadable objects: path and reason. They are not in the index, so readers find the same errors in the
    /// file.
    pub errors: Vec<(Vec<u8>, Error)>,
}

impl super::Index {
    /// Builds the index of a file.
    ///
    /// # Errors
    /// The errors of the file's source; Invalid if its version is unknown, or `known` does not fit the file.
    pub fn build(file: &File, known: &Tables) -> Result<NewIndex> {
        build(file, known).map_err(|error| file.with_context(error))
    }
}

fn build(file: &File, known: &Tables) -> Result<NewIndex> {
    let source = &*file.0.source;
    let identity = Identity::from_source(source)
        .ok_or_else(|| Error::invalid("cannot make an index: the file's version is unknown"))?;
    let limits = &file.options().limits;
    let mut fetch = SourceFetch(source);
    let mut survey = Survey::new(&mut fetch, limits)?;
    let jobs = Job::root(&mut survey.found, survey.superblock.root);
    survey.run(jobs)?;
    let mut structure = Vec::new();
    let mut bytes_of_structure = 0;
    let parts: Vec<(u64, &[u8])> = survey.blocks.parts().collect();
    for parts in sections(&parts) {
        let (span, bytes) = section(parts);
        bytes_of_structure += bytes.len() as u64;
        structure.push((span, CompressedSection::new(&bytes)?));
    }
    let datasets = std::mem::take(&mut survey.found.datasets);
    let mut tables = Vec::new();
    let mut without_tables: u64 = 0;
    for datasets in datasets.chunks(DATASETS_PER_LOOKUP) {
        // Chunk indexes are not part of the structure, and may be large.
        survey.forget();
        let jobs = datasets.iter().filter_map(|dataset| {
            let indexed = ChunkedDataset::new(&dataset.header)?.is_indexed();
            let known = find_chunks(known, dataset, &survey.found.path(dataset.object)).is_some();
            (indexed && !known).then(|| Job::Chunks(dataset.object, Arc::clone(&dataset.header)))
        });
        survey.run(jobs.collect())?;
        for dataset in datasets {
            let path = survey.found.path(dataset.object);
            let Some(chunked) = ChunkedDataset::new(&dataset.header) else { continue };
            let chunks = match find_chunks(known, dataset, &path) {
                Some(known) => place(known, &chunked, survey.superblock.base, source.size())
                    .map_err(|error| error.object(Name::from(&*path)))?,
                None => match survey.found.chunks.remove(&dataset.object) {
                    Some(chunks) => chunks,
                    None => {
                        without_tables = without_tables.saturating_add(chunked.unindexed());
                        continue;
                    }
                },
            };
            let address = survey.found.objects.get(dataset.object).map(|object| object.address);
            if let Some((address, bytes)) = address.zip(pack(&chunked.grid, &chunks)) {
                tables.push((address, chunks.len() as u64, CompressedSection::new(&bytes)?));
            }
        }
    }
    let failed = std::mem::take(&mut survey.found.errors).into_iter();
    let errors = failed.map(|(object, error)| (survey.found.path(object), error)).collect();
    tables.sort_by_key(|(address, ..)| *address);
    let bytes = layout::encode(&identity, &structure, &tables)?;
    Ok(NewIndex {
        objects: survey.found.objects.len(),
        datasets: datasets.len(),
        chunks: tables.iter().map(|(_, count, _)| count).sum::<u64>().saturating_add(without_tables),
        structure: bytes_of_structure,
        tables: tables.iter().map(|(.., packed)| packed.stored()).sum(),
        errors,
        bytes,
    })
}

/// Returns a dataset's chunks from the other source, if it has them.
fn find_chunks<'k>(known: &'k Tables, dataset: &SurveyedDataset, path: &[u8]) -> Option<&'k DatasetChunks> {
    known.get(path).filter(|known| known.filters == dataset.header.pipeline.len())
}

/// Checks and sorts chunks from another source, and makes their addresses relative to the file's base
/// address.
fn place(known: &DatasetChunks, dataset: &ChunkedDataset<'_>, base: u64, size: u64) -> Result<Vec<Chunk>> {
    if known.chunk != dataset.chunked.dims {
        let message = format!(
            "the references do not fit the file: their chunks are {:?}, the dataset's are {:?}",
            known.chunk, dataset.chunked.dims
        );
        return Err(Error::invalid(message));
    }
    let grid = &dataset.grid;
    let mut chunks = Vec::with_capacity(known.chunks.len());
    for chunk in &known.chunks {
        let inside =
            chunk.scaled.len() == grid.len() && chunk.scaled.iter().zip(grid).all(|(at, count)| at < count);
        let fits = chunk.address.checked_add(chunk.size).is_some_and(|stop| stop <= size);
        let address = chunk.address.checked_sub(base).filter(|_| inside && fits);
        let Some(address) = address else {
            let message = format!(
                "the references do not fit the file: chunk {:?} of {} bytes at {}, in a grid of {grid:?} and a file of {size} bytes",
                chunk.scaled, chunk.size, chunk.address
            );
            return Err(Error::invalid(message));
        };
        chunks.push(Chunk { address, ..chunk.clone() });
    }
    chunks.sort_by(|a, b| a.scaled.cmp(&b.scaled));
    if chunks.windows(2).any(|pair| matches!(pair, [a, b] if a.scaled == b.scaled)) {
        return Err(Error::invalid("the references contain a chunk twice"));
    }
    Ok(chunks)
}

/// Groups the parts of the structure into sections.
fn sections<'p, 'b>(parts: &'p [(u64, &'b [u8])]) -> impl Iterator<Item = &'p [(u64, &'b [u8])]> {
    let mut rest = parts;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let end = rest.iter().position(|(_, part)| {
            bytes += part.len();
            bytes >= SECTION_BYTES
        });
        let (section, left) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        rest = left;
        Some(section).filter(|section| !section.is_empty())
    })
}

/// Encodes a section: the number of ranges, for each the gap before it and its length, then their bytes.
fn section(parts: &[(u64, &[u8])]) -> (Range<u64>, Vec<u8>) {
    let start = parts.first().map_or(0, |(start, _)| *start);
    let mut end = start;
    let mut bytes = Vec::new();
    put(&mut bytes, parts.len() as u64);
    for (at, part) in parts {
        put(&mut bytes, at - end);
        put(&mut bytes, part.len() as u64);
        end = at + part.len() as u64;
    }
    parts.iter().for_each(|(_, part)| bytes.extend_from_slice(part));
    (start..end, bytes)
}
