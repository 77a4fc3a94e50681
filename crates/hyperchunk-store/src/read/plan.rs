//! Reading a dataset of a store: finds the pieces, sorts them by precedence, and copies them over
//! each other.
//!
//! Data read as a whole unit are verified: a chunk, a record of raw elements, all boxes of a record
//! with several boxes. The header of the batch is read with them. Not verified are parts of
//! records, records of more than 64 MiB and rows of fragments over a network, and records that a
//! single later piece hides; `hyperchunk store verify` checks everything.
#![expect(clippy::cast_possible_truncation, reason = "the number of found pieces is limited by memory")]

use super::io_plan::IoPlan;
use super::overlay_order::waves;
use super::pieces::{FoundPiece, Fuel, Hits};
use crate::format::checksums::{Checks, Headers};
use crate::format::fragment_offset::is_in;
use crate::format::piece::PieceForm;
use hyperchunk::internal::{ChunkCache, Output, Parts, spread};
use hyperchunk::io::Source;
use hyperchunk::{Error, Limits, Result};
use hyperchunk_format::model::Pipeline;
use hyperchunk_format::select::{Grid, Run, Selection, runs};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Properties of a dataset that a read of its pieces needs.
#[derive(Debug)]
pub(crate) struct DatasetInfo {
    pub(crate) dims: Vec<u64>,
    /// Size of an element in bytes.
    pub(crate) element: usize,
    /// Extent of its chunks; empty if it is not chunked.
    pub(crate) chunk: Vec<u64>,
    pub(crate) pipeline: Pipeline,
    /// Value of unwritten elements; zeros if `None`.
    pub(crate) fill: Option<Vec<u8>>,
}

/// The logs that contain layers of pieces.
pub(crate) trait Logs: Send + Sync + std::fmt::Debug {
    /// Returns the log of a layer, which is at least as long as its committed part.
    fn log(&self, layer: u32) -> Result<Arc<dyn Source>>;
    /// Returns the fragment that contains rows of a layer, if there is one.
    fn fragment(&self, _layer: u32) -> Result<Option<Arc<dyn Source>>> {
        Ok(None)
    }
    /// Returns the number of a layer's log, and the length up to which it may be read.
    fn extent(&self, layer: u32) -> (u64, u64);
    /// Returns the name of a layer's log for messages.
    fn name(&self, layer: u32) -> String;
    /// Returns the cache of batch headers; `None` if checksums need not be verified.
    fn headers(&self, layer: u32) -> Option<&Headers>;
    /// Returns the cache of decoded chunks.
    fn chunks(&self) -> &ChunkCache;
}

/// Search for the pieces that intersect a box, as [`crate::read::pieces::Pieces::find`], in all layers.
pub(crate) trait Find {
    fn find(
        &self,
        wanted: &[u64],
        bounds: (usize, &Fuel),
        see: &mut dyn FnMut(&[u64], &mut Vec<u64>) -> bool,
        hits: &mut Hits,
    ) -> Result<bool>;

    /// Returns whether some pieces hold only a part of each element.
    fn has_fields(&self) -> bool;
}

/// Resources of a read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadResources<'l> {
    pub(crate) threads: usize,
    pub(crate) limits: &'l Limits,
}

/// State of one part of a read: its pieces and their destination.
pub(crate) struct PartRead<'a> {
    pub(crate) about: Arc<DatasetInfo>,
    pub(crate) logs: Arc<dyn Logs>,
    pub(crate) output: &'a Output<'a>,
    pub(crate) grid: Option<Grid>,
    pub(crate) hits: Hits,
    /// For a selection without a grid: the copies to be made of each piece.
    pub(crate) moves: Vec<Vec<Run>>,
    pub(crate) checks: Checks,
    pub(crate) chunk_bytes: usize,
}

/// Number of elements filled at a time.
const FILL_ELEMENTS: usize = 1 << 20;

/// Reads a selection of a dataset. With `parts`, ranges to fetch from remote logs are added there
/// instead of being read, unless other pieces cover them.
pub(crate) fn read<'a>(
    about: &Arc<DatasetInfo>,
    logs: &Arc<dyn Logs>,
    find: &dyn Find,
    selection: &Selection,
    output: &'a Output<'a>,
    means: ReadResources<'_>,
    mut parts: Option<&mut Parts<'a>>,
) -> Result<()> {
    if !output.is_copy() && find.has_fields() {
        return read_converted(about, logs, find, selection, output, means);
    }
    let fuel = Fuel::new(means.limits);
    let fill = about.fill.as_deref();
    let all_filled = || {
        let steps = (0..output.count()).step_by(FILL_ELEMENTS);
        spread(
            means.threads,
            steps,
            || (),
            |(), first| {
                let count = FILL_ELEMENTS.min(output.count() - first);
                // SAFETY: each step has elements of its own.
                unsafe { output.fill(first, count, fill) }
            },
        )
    };
    let Some(bounds) = selection.bounds(&about.dims)? else { return Ok(()) };
    let Some(grid) = Grid::new(selection, &about.dims)? else {
        let (part_read, covered) = plan_points(about, logs, find, selection, output, &fuel)?;
        if covered < output.count() as u64 {
            all_filled()?;
        }
        let waves = part_read.wave_order();
        return part_read.copy_waves(waves, means, &mut parts);
    };
    let most =
        usize::try_from(means.limits.metadata_bytes).unwrap_or(usize::MAX) / (128 + 64 * about.dims.len());
    let mut grid = Some(grid);
    let mut regions = vec![bounds];
    let mut filled = false;
    while let Some(region) = regions.pop() {
        let grid = match grid.take() {
            Some(grid) => grid,
            None => Grid::new(selection, &about.dims)?
                .ok_or_else(|| Error::invalid("a selection that changes"))?,
        };
        let mut hits = Hits::default();
        let all = find_pieces(find, &grid, &region, (most, &fuel), &mut hits)?;
        if !all {
            let Some([first, second]) = split_region(&region) else {
                return Err(Error::limit(
                    "more pieces of one element than the limit `metadata_bytes` has room for",
                ));
            };
            // The last one pushed, the first half, is processed first.
            regions.extend([second, first]);
            if !filled {
                all_filled()?;
                filled = true;
            }
            continue;
        }
        hits.sort();
        let waves = waves(&hits);
        let part_read = PartRead::new(about, logs, output, Some(grid), hits, Vec::new());
        if !filled && part_read.count_elements(waves.first()) < output.count() as u64 {
            all_filled()?;
        }
        filled = true;
        part_read.copy_waves(waves, means, &mut parts)?;
    }
    Ok(())
}

/// As [`read`], for elements that need a conversion although some pieces contain only a part of each
/// element: they are assembled before they are converted.
fn read_converted<'a>(
    about: &Arc<DatasetInfo>,
    logs: &Arc<dyn Logs>,
    find: &dyn Find,
    selection: &Selection,
    output: &'a Output<'a>,
    means: ReadResources<'_>,
) -> Result<()> {
    let mut stored = Vec::new();
    let size = output.count().checked_mul(about.element);
    let size = size.filter(|size| stored.try_reserve_exact(*size).is_ok());
    let size = size.ok_or_else(|| Error::limit("the selected elements do not fit into memory"))?;
    stored.resize(size, 0);
    let whole = Output::new(&mut stored, about.element, about.element, None);
    read(about, logs, find, selection, &whole, means, None)?;
    // SAFETY: no other thread has the output yet.
    unsafe { output.put(0, &stored) }
}

/// Finds the pieces with selected elements in a region.
fn find_pieces(
    find: &dyn Find,
    grid: &Grid,
    region: &[Range<u64>],
    bounds: (usize, &Fuel),
    hits: &mut Hits,
) -> Result<bool> {
    let wanted: Vec<u64> = region.iter().flat_map(|range| [range.start, range.end]).collect();
    let mut ranges: Vec<Range<u64>> = region.to_vec();
    find.find(
        &wanted,
        bounds,
        &mut |visible, out| {
            for ((range, region), visible) in ranges.iter_mut().zip(region).zip(visible.chunks_exact(2)) {
                *range = visible[0].max(region.start)..visible[1].min(region.end);
                if range.is_empty() {
                    return false;
                }
            }
            let Some(tight) = grid.within(&ranges) else { return false };
            out.extend(tight.iter().flat_map(|range| [range.start, range.end]));
            true
        },
        hits,
    )
}

/// Splits a region in two.
fn split_region(region: &[Range<u64>]) -> Option<[Vec<Range<u64>>; 2]> {
    let axis = region.iter().position(|range| range.end - range.start > 1)?;
    let range = &region[axis];
    let middle = range.start + (range.end - range.start) / 2;
    let (mut first, mut second) = (region.to_vec(), region.to_vec());
    first[axis].end = middle;
    second[axis].start = middle;
    Some([first, second])
}

/// Plans a selection of points or irregular blocks: searches for each row of it, and reads each
/// element from the topmost piece. Also returns the number of elements that pieces provide.
fn plan_points<'a>(
    about: &Arc<DatasetInfo>,
    logs: &Arc<dyn Logs>,
    find: &dyn Find,
    selection: &Selection,
    output: &'a Output<'a>,
    fuel: &Fuel,
) -> Result<(PartRead<'a>, u64)> {
    let rank = about.dims.len();
    let row = about.dims.last().copied().unwrap_or(1).max(1);
    let mut all = Hits::default();
    let mut moves: Vec<Vec<Run>> = Vec::new();
    let mut places: HashMap<(u32, u32, u64), usize> = HashMap::new();
    let (mut target, mut covered) = (0_u64, 0_u64);
    let mut wanted = vec![0; 2 * rank];
    let mut one = Hits::default();
    let mut free: Vec<Range<u64>> = Vec::new();
    for (mut first, mut count) in runs(selection, &about.dims)? {
        while count > 0 {
            let taken = count.min(row - first % row);
            let mut rest = first;
            for (axis, dim) in about.dims.iter().enumerate().rev() {
                let at = rest % (*dim).max(1);
                rest /= (*dim).max(1);
                wanted[2 * axis] = at;
                wanted[2 * axis + 1] = at + if axis + 1 == rank { taken } else { 1 };
            }
            one.clear();
            let last = 2 * rank.saturating_sub(1);
            let line = wanted[last]..wanted[last + 1];
            let mut see = |visible: &[u64], out: &mut Vec<u64>| {
                let meets = super::rtree::meet(visible, &wanted);
                out.extend_from_slice(visible);
                meets
            };
            if !find.find(&wanted, (usize::MAX, fuel), &mut see, &mut one)? {
                return Err(Error::limit("too many pieces"));
            }
            one.sort();
            free.clear();
            free.push(line.clone());
            // From the top down, each piece provides the elements that those above it do not.
            // Fields provide only a part, so the elements stay free.
            for found in one.found.iter().rev() {
                if free.is_empty() {
                    break;
                }
                let visible = one.visible(found);
                let range = visible[last]..visible[last + 1];
                let (start, extent) = (one.start(found), one.count(found));
                let mut before = 0_u64;
                for axis in 0..rank {
                    let at = if axis + 1 == rank { 0 } else { wanted[2 * axis] - start[axis] };
                    before = before.saturating_mul(extent[axis]).saturating_add(at);
                }
                let mut left = Vec::new();
                let is_fields = found.form.is_fields();
                for free in &free {
                    let (from, to) = (free.start.max(range.start), free.end.min(range.end));
                    if from >= to {
                        left.push(free.clone());
                        continue;
                    }
                    left.extend(
                        [free.start..from, to..free.end].into_iter().filter(|range| !range.is_empty()),
                    );
                    let narrow = |number: u64| {
                        usize::try_from(number).map_err(|_| Error::limit("larger than the address space"))
                    };
                    let source = before.saturating_add(from - start[rank - 1]);
                    let run = Run {
                        source: narrow(source)?,
                        step: 0,
                        block: narrow(to - from)?,
                        count: 1,
                        target: narrow(target + (from - line.start))?,
                    };
                    covered += if is_fields { 0 } else { to - from };
                    let place = *places.entry(found.key()).or_insert_with(|| {
                        moves.push(Vec::new());
                        all.copy(&one, found)
                    });
                    match moves[place].last_mut() {
                        Some(last)
                            if last.source + last.block == run.source
                                && last.target + last.block == run.target =>
                        {
                            last.block += run.block;
                        }
                        _ => moves[place].push(run),
                    }
                }
                if !is_fields {
                    free = left;
                }
            }
            (first, count, target) = (first + taken, count - taken, target + taken);
        }
    }
    for moves in &mut moves {
        moves.sort_unstable_by_key(|run| run.source);
    }
    Ok((PartRead::new(about, logs, output, None, all, moves), covered))
}

impl<'a> PartRead<'a> {
    fn new(
        about: &Arc<DatasetInfo>,
        logs: &Arc<dyn Logs>,
        output: &'a Output<'a>,
        grid: Option<Grid>,
        hits: Hits,
        moves: Vec<Vec<Run>>,
    ) -> Self {
        let (about, logs) = (Arc::clone(about), Arc::clone(logs));
        let elements = about.chunk.iter().fold(1_u64, |product, dim| product.saturating_mul(*dim));
        let chunk_bytes = usize::try_from(elements).unwrap_or(usize::MAX).saturating_mul(about.element);
        Self { about, logs, output, grid, hits, moves, checks: Checks::default(), chunk_bytes }
    }

    /// Returns the waves (sets of pieces without overlaps) of a selection without a grid: one,
    /// unless there are fields, which overlay other pieces.
    fn wave_order(&self) -> Vec<Vec<u32>> {
        let mut all: Vec<u32> = (0..self.hits.found.len() as u32).collect();
        if !self.hits.found.iter().any(|found| found.form.is_fields()) {
            return vec![all];
        }
        all.sort_unstable_by_key(|place| self.piece(*place).key());
        all.into_iter().map(|place| vec![place]).collect()
    }

    /// Returns the number of elements that the pieces of a wave provide completely.
    fn count_elements(&self, wave: Option<&Vec<u32>>) -> u64 {
        let Some(grid) = &self.grid else { return 0 };
        let whole = wave.into_iter().flatten().filter(|place| !self.piece(**place).form.is_fields());
        let pieces = whole.map(|place| grid.count(&self.bounds(*place)));
        pieces.fold(0, u64::saturating_add)
    }

    /// Copies wave after wave. Only the last one may be deferred to `parts`.
    fn copy_waves(
        self,
        waves: Vec<Vec<u32>>,
        means: ReadResources<'_>,
        parts: &mut Option<&mut Parts<'a>>,
    ) -> Result<()> {
        let last = waves.len().saturating_sub(1);
        match parts {
            None => {
                for wave in waves {
                    let spans = IoPlan::new(&self, wave, means)?;
                    let bytes: u64 = spans.bytes();
                    let worth = usize::try_from(bytes >> 20).unwrap_or(usize::MAX).max(1);
                    spread(means.threads.min(worth), spans.jobs.iter(), Default::default, |scratch, job| {
                        self.execute(&spans, job, scratch)
                    })?;
                }
                Ok(())
            }
            Some(parts) => {
                let part_read = Arc::new(self);
                for (number, wave) in waves.into_iter().enumerate() {
                    let spans = Arc::new(IoPlan::new(&part_read, wave, means)?);
                    if number == last {
                        part_read.plan(&spans, parts)?;
                    } else {
                        let mut now = Parts::default();
                        part_read.plan(&spans, &mut now)?;
                        now.run(means.threads, means.limits.in_flight_bytes)?;
                    }
                }
                Ok(())
            }
        }
    }

    pub(crate) fn piece(&self, place: u32) -> &FoundPiece {
        &self.hits.found[place as usize]
    }

    /// Returns the wanted part of a piece.
    pub(crate) fn bounds(&self, place: u32) -> Vec<Range<u64>> {
        let visible = self.hits.visible(self.piece(place));
        visible.chunks_exact(2).map(|range| range[0]..range[1]).collect()
    }

    /// Returns the box of a piece.
    pub(crate) fn slab(&self, place: u32) -> (&[u64], &[u64]) {
        let found = self.piece(place);
        (self.hits.start(found), self.hits.count(found))
    }

    /// Returns whether all of a piece is wanted.
    pub(crate) fn is_whole(&self, place: u32, bounds: &[Range<u64>]) -> bool {
        let (start, count) = self.slab(place);
        let all = start.iter().zip(count).zip(bounds);
        let same = all
            .into_iter()
            .all(|((start, count), range)| range.start == *start && range.end - range.start == *count);
        same && self.grid.as_ref().is_some_and(|grid| grid.covers(bounds))
    }

    /// Calls `each` with the copies to be made of a part of a piece.
    pub(crate) fn runs(
        &self,
        place: u32,
        bounds: &[Range<u64>],
        mut each: impl FnMut(Run) -> Result<()>,
    ) -> Result<()> {
        match &self.grid {
            Some(grid) => grid.runs(self.slab(place), bounds, each),
            None => self.moves[place as usize].iter().try_for_each(|run| each(*run)),
        }
    }

    /// Checks the location of a piece in a manifest for plausibility.
    pub(crate) fn check(&self, place: u32) -> Result<()> {
        let found = self.piece(place);
        let (start, count) = self.slab(place);
        let (_, length) = self.logs.extent(found.layer);
        let wrong = |message: String| {
            Err(Error::corrupt(message).within("log").at(found.offset).file(self.logs.name(found.layer)))
        };
        // The length of a fragment is checked when it is read.
        let length = if is_in(found.offset) { u64::MAX } else { length };
        if found.offset.checked_add(found.length).is_none_or(|end| end > length) {
            return wrong(format!(
                "a piece of {} bytes ends past the {length} bytes of its log",
                found.length
            ));
        }
        match found.form {
            PieceForm::Raw | PieceForm::Fields { .. } => {
                let element = self.about.element as u64;
                let size = found.form.size(element);
                let needed = count.iter().try_fold(size, |size, dim| size.checked_mul(*dim));
                if needed != Some(found.length) || found.form.range(element).end > element {
                    return wrong(format!(
                        "a piece of {} bytes does not have {count:?} elements",
                        found.length
                    ));
                }
            }
            PieceForm::Chunk { .. } => {
                let chunk = &self.about.chunk;
                let aligned = start.iter().zip(chunk).all(|(start, dim)| *dim > 0 && start % dim == 0);
                if count != chunk || !aligned {
                    return wrong(format!(
                        "a chunk of {count:?} elements at {start:?}, expected the grid of chunks of {chunk:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Adds the location in a log to an error.
    pub(crate) fn with_location(&self, error: Error, layer: u32, offset: u64) -> Error {
        error.within("log").at(offset).file(self.logs.name(layer))
    }
}

#[cfg(test)]
mod tests;
