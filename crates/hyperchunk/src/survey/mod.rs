//! Surveys of a file's structure: everything but raw data. Parsers run until they lack bytes; then the bytes
//! that all of them lack are fetched in one round. The rounds are thus the ones that the structure forces on
//! any reader, and the fetched bytes are the structure.

mod chunks;
mod fetch;
mod jobs;

pub(crate) use chunks::{ChunkedDataset, grid};
pub(crate) use fetch::{BlockCache, Fetch, SourceFetch, joined};
pub(crate) use jobs::Job;

use crate::{Error, Limits, Result};
use hyperchunk_format::model::{Chunk, Superblock, VirtualMapping};
use hyperchunk_format::parse::object::DatasetHeader;
use hyperchunk_format::parse::{cache_image, superblock};
use hyperchunk_format::{Blocks, Fuel, Image, Overlay, Step, View, step};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of objects of a survey.
const MAX_OBJECTS: usize = 10_000_000;

/// Bytes that override the file's, by address: the entries of a metadata cache image.
type Patches = Vec<(u64, Vec<u8>)>;

/// A survey of one file.
pub(crate) struct Survey<'f> {
    fetch: &'f mut dyn Fetch,
    limits: &'f Limits,
    /// The bytes that parsers requested.
    pub(crate) blocks: Blocks,
    /// The ranges fetched in each round, sorted and disjoint.
    pub(crate) rounds: Vec<Vec<Range<u64>>>,
    pub(crate) superblock: Superblock,
    patches: Patches,
    pub(crate) found: SurveyReport,
}

/// Results of a survey.
#[derive(Default)]
pub(crate) struct SurveyReport {
    /// The objects, each with its parent and the name of the link to it. The first is the starting point.
    pub(crate) objects: Vec<VisitedObject>,
    places: HashMap<u64, usize>,
    pub(crate) datasets: Vec<SurveyedDataset>,
    pub(crate) groups: usize,
    pub(crate) attributes: usize,
    /// Collections of the global heap that hold parts of attributes.
    pub(crate) collections: HashSet<u64>,
    /// Number of groups that store links in symbol tables; `dense` counts fractal heaps.
    pub(crate) symbol_tables: usize,
    pub(crate) dense: usize,
    /// Objects that could not be parsed: number and error.
    pub(crate) errors: Vec<(usize, Error)>,
    /// The chunks of the datasets for which they were requested, by number of the object.
    pub(crate) chunks: HashMap<usize, Vec<Chunk>>,
    /// Number of bytes of nested sequences that were followed.
    nested: usize,
}

/// An object that a survey found.
pub(crate) struct VisitedObject {
    pub(crate) address: u64,
    parent: usize,
    name: Box<[u8]>,
}

/// A dataset that a survey found.
pub(crate) struct SurveyedDataset {
    /// Its number among the objects.
    pub(crate) object: usize,
    pub(crate) header: Arc<DatasetHeader>,
    pub(crate) mappings: Option<Vec<VirtualMapping>>,
}

impl SurveyReport {
    /// Adds an object that a link points to; `None` if it was already found.
    fn add_object(&mut self, address: u64, parent: usize, name: &[u8]) -> Option<usize> {
        let place = self.objects.len();
        if place >= MAX_OBJECTS {
            return None;
        }
        if *self.places.entry(address).or_insert(place) != place {
            return None;
        }
        self.objects.push(VisitedObject { address, parent, name: name.into() });
        Some(place)
    }

    /// Returns the names of the links on the path from the starting point to an object.
    pub(crate) fn names(&self, mut object: usize) -> Vec<&[u8]> {
        let mut names = Vec::new();
        while let Some(met) = self.objects.get(object).filter(|_| object != 0) {
            names.push(&*met.name);
            object = met.parent;
        }
        names.reverse();
        names
    }

    /// Returns the path of an object.
    pub(crate) fn path(&self, object: usize) -> Vec<u8> {
        let names = self.names(object);
        if names.is_empty() {
            return b"/".to_vec();
        }
        names.iter().flat_map(|name| [b"/".as_slice(), name]).flatten().copied().collect()
    }
}

impl<'f> Survey<'f> {
    /// Starts a survey by reading the superblock.
    pub(crate) fn new(fetch: &'f mut dyn Fetch, limits: &'f Limits) -> Result<Self> {
        let mut blocks = Blocks::new(fetch.size());
        let mut rounds = Vec::new();
        let superblock =
            one(fetch, &mut blocks, &mut rounds, |view| superblock::parse(view, limits, &Fuel::new(limits)))?;
        let patches = one(fetch, &mut blocks, &mut rounds, |view| {
            let fuel = Fuel::new(limits);
            cache_image::entries(
                Image::new(view, superblock.base, superblock.sizes, limits, &fuel),
                &superblock,
            )
        })?;
        let patches = patches
            .into_iter()
            .map(|(address, bytes)| (superblock.base.saturating_add(address), bytes))
            .collect();
        Ok(Self { fetch, limits, blocks, rounds, superblock, patches, found: SurveyReport::default() })
    }

    /// Runs jobs, and the jobs that they return, until none is left.
    ///
    /// # Errors
    /// Only errors of the source; parse errors are recorded among the results.
    pub(crate) fn run(&mut self, jobs: Vec<Job>) -> Result<()> {
        self.run_with(jobs, &|_| ())
    }

    /// Runs jobs as [`Survey::run`] does, and calls `progress` with the number of objects found.
    pub(crate) fn run_with(&mut self, jobs: Vec<Job>, progress: &dyn Fn(usize)) -> Result<()> {
        let mut ready = jobs;
        loop {
            let mut waiting = Vec::new();
            let mut needs = Vec::new();
            while let Some(job) = ready.pop() {
                progress(self.found.objects.len());
                let found = &mut self.found;
                let done = look(&self.blocks, &self.superblock, &self.patches, self.limits, |image| {
                    job.run(image, found)
                });
                match done {
                    Ok(Step::Done(more)) => ready.extend(more),
                    Ok(Step::Need(ranges)) => {
                        needs.extend(ranges);
                        waiting.push(job);
                    }
                    Err(error) => self.found.errors.push((job.object(), error)),
                }
            }
            if waiting.is_empty() {
                return Ok(());
            }
            round(self.fetch, &mut self.blocks, &mut self.rounds, needs)?;
            ready = waiting;
        }
    }

    /// Runs one parser.
    ///
    /// # Errors
    /// The errors of the parser and of the source.
    pub(crate) fn one<T>(&mut self, parser: impl Fn(Image<'_>) -> Result<T>) -> Result<T> {
        loop {
            match look(&self.blocks, &self.superblock, &self.patches, self.limits, &parser)? {
                Step::Done(value) => return Ok(value),
                Step::Need(ranges) => round(self.fetch, &mut self.blocks, &mut self.rounds, ranges)?,
            }
        }
    }

    /// Discards all bytes.
    pub(crate) fn forget(&mut self) {
        self.blocks = Blocks::new(self.fetch.size());
    }
}

/// Runs a parser over the available blocks.
fn look<T>(
    blocks: &Blocks,
    superblock: &Superblock,
    patches: &Patches,
    limits: &Limits,
    parser: impl FnOnce(Image<'_>) -> Result<T>,
) -> Result<Step<T>> {
    step(blocks, |view| {
        let fuel = Fuel::new(limits);
        let run = |view: &dyn View| {
            let image = Image::new(view, superblock.base, superblock.sizes, limits, &fuel);
            parser(image.with_shared_messages(superblock.shared_messages))
        };
        if patches.is_empty() { run(view) } else { run(&Overlay::new(view, patches.iter().cloned())) }
    })
}

fn one<T>(
    fetch: &mut dyn Fetch,
    blocks: &mut Blocks,
    rounds: &mut Vec<Vec<Range<u64>>>,
    parser: impl Fn(&dyn View) -> Result<T>,
) -> Result<T> {
    loop {
        match step(blocks, &parser)? {
            Step::Done(value) => return Ok(value),
            Step::Need(ranges) => round(fetch, blocks, rounds, ranges)?,
        }
    }
}

fn round(
    fetch: &mut dyn Fetch,
    blocks: &mut Blocks,
    rounds: &mut Vec<Vec<Range<u64>>>,
    needs: Vec<Range<u64>>,
) -> Result<()> {
    let ranges = merge_ranges(needs);
    fetch.fetch(&ranges, &mut |offset, bytes| blocks.insert(offset, bytes))?;
    rounds.push(ranges);
    Ok(())
}

/// Sorts ranges, and joins ranges that overlap or touch.
pub(crate) fn merge_ranges(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut apart: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}
