//! Surveys of a file's structure: everything but raw data, read in rounds in which all parsers that wait for bytes wait
//! together. The rounds are what the structure forces; the bytes that were asked for are the structure.

mod chunks;
mod fetch;
mod jobs;

pub(crate) use chunks::{ChunkedDataset, grid};
pub(crate) use fetch::{Fetch, Kept, SourceFetch, joined};
pub(crate) use jobs::Job;

use crate::{Error, Limits, Result};
use hyperchunk_format::model::{Chunk, Superblock, VirtualMapping};
use hyperchunk_format::parse::object::DatasetHeader;
use hyperchunk_format::parse::{cache_image, superblock};
use hyperchunk_format::{Blocks, Fuel, Image, Overlay, Step, View, step};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// The most objects that a survey looks at.
const OBJECTS: usize = 10_000_000;

/// What is laid over the bytes of the file: the entries of a cache image.
type Patches = Vec<(u64, Vec<u8>)>;

/// A survey of one file.
pub(crate) struct Survey<'f> {
    fetch: &'f mut dyn Fetch,
    limits: &'f Limits,
    /// The bytes that parsers asked for.
    pub(crate) blocks: Blocks,
    /// What was fetched in each round, in order and apart.
    pub(crate) rounds: Vec<Vec<Range<u64>>>,
    pub(crate) superblock: Superblock,
    patches: Patches,
    pub(crate) found: Found,
}

/// What a survey found.
#[derive(Default)]
pub(crate) struct Found {
    /// The objects, each with the object whose link led to it, and the link's name. The first is where the survey began.
    pub(crate) objects: Vec<Met>,
    places: HashMap<u64, usize>,
    pub(crate) datasets: Vec<Surveyed>,
    pub(crate) groups: usize,
    pub(crate) attributes: usize,
    /// Collections of the global heap that attributes lie in, in part.
    pub(crate) collections: HashSet<u64>,
    /// How many objects are in each of the ways that groups store links: symbol tables, headers, heaps.
    pub(crate) symbol_tables: usize,
    pub(crate) dense: usize,
    /// What could not be parsed: the object's number and why.
    pub(crate) errors: Vec<(usize, Error)>,
    /// The chunks of datasets that were asked for, by number of the object.
    pub(crate) chunks: HashMap<usize, Vec<Chunk>>,
    /// How many bytes of sequences in sequences were looked at.
    nested: usize,
}

/// An object that a survey met.
pub(crate) struct Met {
    pub(crate) address: u64,
    parent: usize,
    name: Box<[u8]>,
}

/// A dataset that a survey met.
pub(crate) struct Surveyed {
    /// Its number among the objects.
    pub(crate) object: usize,
    pub(crate) header: Arc<DatasetHeader>,
    pub(crate) mappings: Option<Vec<VirtualMapping>>,
}

impl Found {
    /// Adds an object that a link leads to; `None` if it was met before.
    fn meet(&mut self, address: u64, parent: usize, name: &[u8]) -> Option<usize> {
        let place = self.objects.len();
        if place >= OBJECTS {
            return None;
        }
        if *self.places.entry(address).or_insert(place) != place {
            return None;
        }
        self.objects.push(Met { address, parent, name: name.into() });
        Some(place)
    }

    /// The names of the links that lead from the first object to this one.
    pub(crate) fn names(&self, mut object: usize) -> Vec<&[u8]> {
        let mut names = Vec::new();
        while let Some(met) = self.objects.get(object).filter(|_| object != 0) {
            names.push(&*met.name);
            object = met.parent;
        }
        names.reverse();
        names
    }

    /// The path of an object.
    pub(crate) fn path(&self, object: usize) -> Vec<u8> {
        let names = self.names(object);
        if names.is_empty() {
            return b"/".to_vec();
        }
        names.iter().flat_map(|name| [b"/".as_slice(), name]).flatten().copied().collect()
    }
}

impl<'f> Survey<'f> {
    /// A survey that has read the superblock.
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
        Ok(Self { fetch, limits, blocks, rounds, superblock, patches, found: Found::default() })
    }

    /// Does jobs, and those that they lead to, to the last.
    ///
    /// # Errors
    /// Of the source alone; what cannot be parsed is among the errors found.
    pub(crate) fn run(&mut self, jobs: Vec<Job>) -> Result<()> {
        self.run_with(jobs, &|_| ())
    }

    /// As [`Survey::run`]; `progress` hears now and then how many objects were found.
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
    /// Those of the parser and of the source.
    pub(crate) fn one<T>(&mut self, parser: impl Fn(Image<'_>) -> Result<T>) -> Result<T> {
        loop {
            match look(&self.blocks, &self.superblock, &self.patches, self.limits, &parser)? {
                Step::Done(value) => return Ok(value),
                Step::Need(ranges) => round(self.fetch, &mut self.blocks, &mut self.rounds, ranges)?,
            }
        }
    }

    /// Forgets all bytes.
    pub(crate) fn forget(&mut self) {
        self.blocks = Blocks::new(self.fetch.size());
    }
}

/// Runs a parser over the blocks at hand.
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
    let ranges = apart(needs);
    fetch.fetch(&ranges, &mut |offset, bytes| blocks.insert(offset, bytes))?;
    rounds.push(ranges);
    Ok(())
}

/// The same bytes as ranges in order, none touching another.
pub(crate) fn apart(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
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
