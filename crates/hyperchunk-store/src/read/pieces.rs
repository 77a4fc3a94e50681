//! Spatial index of all pieces of a dataset. Pieces stay run-length encoded: a loop of a million
//! writes is one entry, and a search visits only the iterations that intersect the wanted box.
#![expect(
    clippy::cast_possible_truncation,
    reason = "runs are counted in 32 bits where they are added; loops are checked to stay in 64"
)]

use super::rtree::{RTree, meet};
use crate::format::index::DatasetWrites;
use crate::format::manifest::{Manifest, StoredDataset};
use crate::format::piece::{Extent, Piece, PieceForm};
use crate::format::run_length::{PackedPieces, Run};
use hyperchunk::{Error, Limits, Result};
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

/// Number of items that are collected before a tree is built from them.
const MAX_PENDING_ITEMS: usize = 64;
/// Number of items into which a loop with enough iterations is split, since runs of several writers
/// often interleave.
const SPLIT_ITEMS: u64 = 16;
/// Total number of items up to which loops are split further.
const MAX_SPLIT_ITEMS: u64 = 1 << 16;
/// Maximum number of pieces of a run that are enumerated one by one if coordinates overflow 2⁶⁴ and
/// loops cannot be bounded.
const MAX_ENUMERATED_PIECES: u64 = 4096;

/// Pieces of a dataset in layers: a later layer covers an earlier one.
#[derive(Debug)]
pub(crate) struct Pieces {
    rank: usize,
    pub(crate) layers: Vec<Layer>,
    /// The items in the trees.
    items: Vec<Item>,
    /// Number of the writer's runs that were added as items.
    done: usize,
    forest: Vec<RTree>,
    /// Bounding boxes and numbers of items that are in no tree yet.
    boxes: Vec<u64>,
    numbers: Vec<u32>,
    /// True if some pieces are fields.
    fields: bool,
    /// Current extent, for a writer's own pieces.
    extent: Vec<u64>,
}

/// A range of iterations of a run's outermost loop: the pieces of all iterations may be far apart.
#[derive(Debug, Clone)]
struct Item {
    layer: u32,
    run: u32,
    turns: Range<u64>,
}

/// Pieces of a dataset in one log, committed together.
#[derive(Debug)]
pub(crate) struct Layer {
    held: PieceSource,
    clips: Clips,
    /// Clip by later epochs.
    clip: Option<Vec<u64>>,
    /// Number of the log.
    pub(crate) log: u32,
    /// Length up to which the log may be read.
    pub(crate) length: u64,
}

#[derive(Debug)]
enum PieceSource {
    Own(PackedPieces),
    /// A part of a dataset of a manifest.
    Committed(Arc<Manifest>, usize, usize),
}

/// Extents that clip earlier writes; each is the minimum of itself and all later ones.
#[derive(Debug, Default, Clone)]
struct Clips(Vec<Extent>);

/// Remaining budget of visits in a search for pieces.
#[derive(Debug)]
pub(crate) struct Fuel {
    left: Cell<u64>,
}

/// Pieces that were found; in order of precedence once they are sorted.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    rank: usize,
    pub(crate) found: Vec<FoundPiece>,
    /// For each piece: start and extent of its box, then the wanted and visible part of it as
    /// ranges.
    coordinates: Vec<u64>,
    /// Scratch buffer.
    visible: Vec<u64>,
}

/// A piece that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundPiece {
    pub(crate) layer: u32,
    run: u32,
    index: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) order: u64,
    pub(crate) head: u64,
    pub(crate) form: PieceForm,
    /// Index of its coordinates.
    at: u32,
}

impl Clips {
    fn push(&mut self, extent: &Extent) {
        for before in self.0.iter_mut().rev() {
            let mut changed = false;
            for (least, dim) in before.dims.iter_mut().zip(&extent.dims) {
                changed |= *dim < *least;
                *least = (*least).min(*dim);
            }
            if !changed {
                break;
            }
        }
        while self.0.last().is_some_and(|last| last.dims == extent.dims) {
            self.0.pop();
        }
        self.0.push(extent.clone());
    }

    /// Returns the clip of a piece with that record number.
    fn after(&self, order: u64) -> Option<&[u64]> {
        let at = self.0.partition_point(|extent| extent.order <= order);
        self.0.get(at).map(|extent| &*extent.dims)
    }

    /// Returns the clip of everything before this layer.
    fn all(&self) -> Option<&[u64]> {
        self.0.first().map(|extent| &*extent.dims)
    }
}

impl Fuel {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { left: Cell::new(limits.visits) }
    }

    pub(crate) fn consume(&self, visits: u64) -> Result<()> {
        match self.left.get().checked_sub(visits) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(Error::limit("the read visits more pieces than the limit `visits`")),
        }
    }
}

impl Layer {
    fn new(rank: usize, held: PieceSource, extents: &[Extent], log: u32, length: u64) -> Result<Self> {
        let mut layer = Self { held, clips: Clips::default(), clip: None, log, length };
        if layer.packed().rank() != rank {
            let message =
                format!("pieces of {} dimensions for a dataset of {rank} dimensions", layer.packed().rank());
            return Err(Error::corrupt(message));
        }
        let mut sorted: Vec<&Extent> = extents.iter().collect();
        sorted.sort_by_key(|extent| extent.order);
        for extent in sorted {
            if extent.dims.len() != rank {
                return Err(Error::corrupt(format!("an extent of {} dimensions", extent.dims.len())));
            }
            layer.clips.push(extent);
        }
        Ok(layer)
    }

    fn packed(&self) -> &PackedPieces {
        match &self.held {
            PieceSource::Own(packed) => packed,
            PieceSource::Committed(manifest, dataset, part) => {
                &manifest.datasets[*dataset].parts[*part].written.pieces
            }
        }
    }
}

impl Pieces {
    /// Indexes the pieces of a dataset of an epoch.
    pub(crate) fn committed(manifest: &Arc<Manifest>, dataset: usize) -> Result<Self> {
        let StoredDataset { definition, extent, parts, .. } = &manifest.datasets[dataset];
        let rank = definition.dims.len();
        if extent.len() != rank {
            return Err(Error::corrupt(format!(
                "an extent of {} dimensions for a dataset of {rank} dimensions",
                extent.len()
            )));
        }
        let mut layers = Vec::with_capacity(parts.len());
        for (number, part) in parts.iter().enumerate() {
            let log = manifest.logs.get(part.log as usize);
            let length =
                log.ok_or_else(|| Error::corrupt("a part refers to a log that does not exist"))?.length;
            let held = PieceSource::Committed(Arc::clone(manifest), dataset, number);
            layers.push(Layer::new(rank, held, &part.written.extents, part.log, length)?);
        }
        // From the newest epoch back: the clip of each on the earlier ones. The current extent does
        // not clip here, since reads never go past it, and elements of a chunk past it become
        // visible if a writer enlarges the extent.
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|number| std::cmp::Reverse(parts[*number].epoch));
        let mut left = vec![u64::MAX; rank];
        for group in order.chunk_by(|a, b| parts[*a].epoch == parts[*b].epoch) {
            let before = left.clone();
            for number in group {
                clip(&mut left, layers[*number].clips.all());
                layers[*number].clip = Some(before.clone());
            }
        }
        let mut pieces = Self { layers, ..Self::empty(rank) };
        let runs = pieces.layers.iter().map(|layer| layer.packed().runs().len() as u64).sum::<u64>();
        let cut = (MAX_SPLIT_ITEMS / runs.max(1)).max(SPLIT_ITEMS);
        for layer in 0..pieces.layers.len() {
            for run in 0..pieces.layers[layer].packed().runs().len() {
                pieces.add(layer, run, cut)?;
            }
        }
        pieces.build_tree(usize::MAX);
        Ok(pieces)
    }

    /// Indexes the current pieces of a writer; `start` is the extent of the base epoch.
    pub(crate) fn own(start: &[u64], parts: &[&DatasetWrites]) -> Result<Self> {
        let rank = start.len();
        let mut pieces = Self { extent: start.to_vec(), ..Self::empty(rank) };
        let layer = Layer::new(rank, PieceSource::Own(PackedPieces::new(rank)), &[], 0, u64::MAX)?;
        pieces.layers.push(layer);
        for written in parts {
            for piece in written.pieces.iter() {
                pieces.push(&piece)?;
            }
            written.extents.iter().for_each(|extent| pieces.push_extent(extent));
        }
        Ok(pieces)
    }

    fn empty(rank: usize) -> Self {
        let (layers, items, forest) = (Vec::new(), Vec::new(), Vec::new());
        let (boxes, numbers, extent) = (Vec::new(), Vec::new(), Vec::new());
        Self { rank, layers, items, done: 0, forest, boxes, numbers, fields: false, extent }
    }

    /// Adds a piece of a writer.
    pub(crate) fn push(&mut self, piece: &Piece) -> Result<()> {
        let Some(Layer { held: PieceSource::Own(packed), .. }) = self.layers.first_mut() else {
            return Err(Error::invalid("pieces of an epoch do not change"));
        };
        packed.push(piece);
        self.fields |= piece.form.is_fields();
        // The last run may still grow; all others are final.
        let done = packed.runs().len() - 1;
        while self.done < done {
            self.add(0, self.done, SPLIT_ITEMS)?;
            self.done += 1;
        }
        self.build_tree(MAX_PENDING_ITEMS);
        Ok(())
    }

    /// Adds a change of extent of a writer; dimensions that shrink clip the existing pieces.
    pub(crate) fn push_extent(&mut self, extent: &Extent) {
        let clip = extent.clip(&self.extent);
        self.extent.clone_from(&extent.dims);
        if let (Some(layer), Some(clip)) = (self.layers.first_mut(), clip) {
            layer.clips.push(&clip);
        }
    }

    /// Returns the clip that the writer's changes of extent apply to everything before it.
    pub(crate) fn clip_extent(&self) -> Option<&[u64]> {
        self.layers.first().and_then(|layer| layer.clips.all())
    }

    /// Returns whether some pieces hold only a part of each element.
    pub(crate) fn has_fields(&self) -> bool {
        self.fields
    }

    /// Adds a run, split into at most `cut` items.
    fn add(&mut self, layer: usize, run: usize, cut: u64) -> Result<()> {
        let found = &self.layers[layer].packed().runs()[run];
        self.fields |= found.form.is_fields();
        let loops = loops(found, self.rank)?;
        let (layer, run) = (layer as u32, run as u32);
        let turns = found.levels.last().map_or(1, |(turns, _)| *turns);
        let step = if loops.wraps { turns } else { turns.div_ceil(cut) };
        let mut from = 0;
        while from < turns {
            let turns = from..(from + step).min(turns);
            from = turns.end;
            match found.levels.len().checked_sub(1).filter(|_| !loops.wraps) {
                Some(top) => {
                    for axis in 0..self.rank {
                        self.boxes.extend(loops.iteration_range(found, (top, &turns), &found.base, axis));
                    }
                }
                None => self.boxes.extend_from_slice(&loops.bounds),
            }
            let number = u32::try_from(self.items.len()).map_err(|_| Error::limit("2^32 runs of pieces"))?;
            self.numbers.push(number);
            self.items.push(Item { layer, run, turns });
        }
        Ok(())
    }

    /// Builds a tree of the waiting items if there are enough, merging trees that are not larger.
    fn build_tree(&mut self, waiting: usize) {
        if self.numbers.is_empty() || (self.numbers.len() < waiting && waiting != usize::MAX) {
            return;
        }
        let (mut boxes, mut numbers) = (std::mem::take(&mut self.boxes), std::mem::take(&mut self.numbers));
        while let Some(last) = self.forest.pop_if(|last| last.len() <= numbers.len()) {
            last.take_into(&mut boxes, &mut numbers);
        }
        self.forest.push(RTree::new(self.rank, &boxes, &numbers));
    }

    /// Adds the pieces that intersect a box to `hits`, with layers numbered from `first`. `see`
    /// receives the visible box of a piece and appends the wanted part of it. Returns `false` with
    /// some of the pieces if there would be more than `most`.
    pub(crate) fn find(
        &self,
        wanted: &[u64],
        (first, clip): (u32, Option<&[u64]>),
        (most, fuel): (usize, &Fuel),
        see: &mut (impl FnMut(&[u64], &mut Vec<u64>) -> bool + ?Sized),
        hits: &mut Hits,
    ) -> Result<bool> {
        hits.rank = self.rank;
        let mut tuple = Vec::new();
        let mut look = |item: &Item| -> Result<(), Option<Error>> {
            let Item { layer, run, turns } = item.clone();
            let from = &self.layers[layer as usize];
            let found = &from.packed().runs()[run as usize];
            let mut each = |tuple: &[u64], index: u64| -> Result<(), Option<Error>> {
                fuel.consume(1)?;
                if hits.found.len() >= most {
                    return Err(None);
                }
                hits.add(tuple, (first + layer, run, index), found.form, (from, clip), see);
                Ok(())
            };
            match found.levels.as_slice() {
                [] => each(&found.base, 0),
                [_] if turns.end - turns.start == 1 => {
                    found.at(turns.start, &mut tuple);
                    each(&tuple, turns.start)
                }
                _ => {
                    Walk { run: found, loops: loops(found, self.rank)?, wanted, fuel }.start(turns, &mut each)
                }
            }
        };
        let mut number = |number: u32| look(&self.items[number as usize]);
        let mut all = self.forest.iter().try_for_each(|tree| tree.each(wanted, &mut number));
        let width = 2 * self.rank;
        for (at, waits) in self.numbers.iter().enumerate() {
            if all.is_ok() && meet(&self.boxes[at * width..(at + 1) * width], wanted) {
                all = number(*waits);
            }
        }
        if let Some(Layer { held: PieceSource::Own(packed), .. }) = self.layers.first()
            && let Some(last) = packed.runs().last()
            && all.is_ok()
        {
            let turns = 0..last.levels.last().map_or(1, |(turns, _)| *turns);
            all = look(&Item { layer: 0, run: (packed.runs().len() - 1) as u32, turns });
        }
        match all {
            Ok(()) => Ok(true),
            Err(None) => Ok(false),
            Err(Some(error)) => Err(error),
        }
    }
}

impl FoundPiece {
    /// Returns the key that identifies it among the pieces of its dataset and orders it by
    /// precedence.
    pub(crate) fn key(&self) -> (u32, u32, u64) {
        (self.layer, self.run, self.index)
    }
}

impl Hits {
    fn add(
        &mut self,
        tuple: &[u64],
        (layer, run, index): (u32, u32, u64),
        form: PieceForm,
        (from, clip): (&Layer, Option<&[u64]>),
        see: &mut (impl FnMut(&[u64], &mut Vec<u64>) -> bool + ?Sized),
    ) {
        let rank = self.rank;
        let [offset, length, order, head] = [0, 1, 2, 3].map(|at| tuple[2 * rank + at]);
        let clips = [from.clips.after(order), from.clip.as_deref(), clip];
        let before = self.coordinates.len();
        self.coordinates.extend_from_slice(&tuple[..2 * rank]);
        let mut visible = std::mem::take(&mut self.visible);
        visible.clear();
        for axis in 0..rank {
            let clips = clips.iter().flatten().map(|dims| dims[axis]);
            let end = clips.fold(tuple[axis].saturating_add(tuple[rank + axis]), u64::min);
            visible.extend([tuple[axis], end]);
        }
        let empty = visible.chunks_exact(2).any(|range| range[0] >= range[1]);
        let seen = !empty && see(&visible, &mut self.coordinates);
        self.visible = visible;
        if !seen {
            self.coordinates.truncate(before);
            return;
        }
        let at = self.found.len() as u32;
        self.found.push(FoundPiece { layer, run, index, offset, length, order, head, form, at });
    }

    /// Removes all pieces.
    pub(crate) fn clear(&mut self) {
        self.found.clear();
        self.coordinates.clear();
    }

    /// Copies a piece that another search found; returns its index.
    pub(crate) fn copy(&mut self, from: &Self, found: &FoundPiece) -> usize {
        self.rank = from.rank;
        self.coordinates.extend_from_slice(from.part(found, 0, 4));
        let place = self.found.len();
        self.found.push(FoundPiece { at: place as u32, ..*found });
        place
    }

    /// Sorts by precedence, the lowest first.
    pub(crate) fn sort(&mut self) {
        self.found.sort_unstable_by_key(FoundPiece::key);
    }

    fn part(&self, found: &FoundPiece, from: usize, to: usize) -> &[u64] {
        let start = found.at as usize * 4 * self.rank;
        &self.coordinates[start + from * self.rank..start + to * self.rank]
    }

    /// Returns the start of a piece's box.
    pub(crate) fn start(&self, found: &FoundPiece) -> &[u64] {
        self.part(found, 0, 1)
    }

    /// Returns the extent of a piece's box.
    pub(crate) fn count(&self, found: &FoundPiece) -> &[u64] {
        self.part(found, 1, 2)
    }

    /// Returns the wanted and visible part of a piece: start and end of each dimension.
    pub(crate) fn visible(&self, found: &FoundPiece) -> &[u64] {
        self.part(found, 2, 4)
    }
}

/// Bounds of the loops of a run.
struct Loops {
    /// Bounding box of all pieces.
    bounds: Vec<u64>,
    /// For each level and dimension, the maximum distances below and above by which the inner
    /// levels move pieces away from their first iteration.
    reach: Vec<Vec<(u64, u64)>>,
    /// True if coordinates overflow 2⁶⁴; `reach` is then invalid.
    wraps: bool,
}

fn loops(run: &Run, rank: usize) -> Result<Loops> {
    let mut loops = Loops { bounds: Vec::with_capacity(2 * rank), reach: Vec::new(), wraps: false };
    for _ in &run.levels {
        loops.reach.push(vec![(0, 0); rank]);
    }
    let signed = |step: u64| i128::from(step.cast_signed());
    for axis in 0..rank {
        let (start, count) = (i128::from(run.base[axis]), i128::from(run.base[rank + axis]));
        let (mut low, mut high, mut least) = (0_i128, 0_i128, count);
        for ((turns, step), reach) in run.levels.iter().zip(&mut loops.reach) {
            reach[axis] = (low as u64, high as u64);
            let last = i128::from(*turns) - 1;
            let (starts, counts) = (signed(step[axis]), signed(step[rank + axis]));
            low += (starts * last).min(0);
            high += ((starts + counts) * last).max(0);
            least += (counts * last).min(0);
        }
        let end = start + count + high;
        loops.wraps |= start + low < 0 || end > i128::from(u64::MAX) || least < 0;
        loops.bounds.extend([(start + low) as u64, end as u64]);
    }
    if loops.wraps {
        if run.len() > MAX_ENUMERATED_PIECES {
            return Err(Error::corrupt("pieces of a dataset extend beyond 2^64"));
        }
        let mut tuple = Vec::new();
        loops.bounds = [u64::MAX, 0].repeat(rank);
        for index in 0..run.len() {
            run.at(index, &mut tuple);
            for (axis, bounds) in loops.bounds.chunks_exact_mut(2).enumerate() {
                bounds[0] = bounds[0].min(tuple[axis]);
                bounds[1] = bounds[1].max(tuple[axis].saturating_add(tuple[rank + axis]));
            }
        }
    }
    Ok(loops)
}

impl Loops {
    /// Returns the range of a level's iterations along a dimension; `base` is the tuple of the
    /// first iteration.
    fn iteration_range(
        &self,
        run: &Run,
        (level, turns): (usize, &Range<u64>),
        base: &[u64],
        axis: usize,
    ) -> [u64; 2] {
        let (_, step) = &run.levels[level];
        let rank = self.bounds.len() / 2;
        let start = |turn: u64| base[axis].wrapping_add(step[axis].wrapping_mul(turn));
        let end = |turn: u64| {
            let count = base[rank + axis].wrapping_add(step[rank + axis].wrapping_mul(turn));
            start(turn).wrapping_add(count)
        };
        let last = turns.end - 1;
        let (before, after) = self.reach[level][axis];
        [
            start(turns.start).min(start(last)).wrapping_add(before),
            end(turns.start).max(end(last)).wrapping_add(after),
        ]
    }
}

/// Visitor of the iterations of a run that intersect a box.
struct Walk<'a> {
    run: &'a Run,
    loops: Loops,
    wanted: &'a [u64],
    fuel: &'a Fuel,
}

type Each<'a> = dyn FnMut(&[u64], u64) -> Result<(), Option<Error>> + 'a;

impl Walk<'_> {
    /// Visits a range of iterations of the outermost loop.
    fn start(&self, turns: Range<u64>, each: &mut Each<'_>) -> Result<(), Option<Error>> {
        if self.loops.wraps {
            let mut tuple = Vec::new();
            return (0..self.run.len()).try_for_each(|index| {
                self.run.at(index, &mut tuple);
                let rank = self.wanted.len() / 2;
                let meets = self.wanted.chunks_exact(2).enumerate().all(|(axis, wanted)| {
                    tuple[axis] < wanted[1] && wanted[0] < tuple[axis].saturating_add(tuple[rank + axis])
                });
                if meets { each(&tuple, index) } else { Ok(()) }
            });
        }
        let top = self.run.levels.len() - 1;
        self.visit_iterations(top, turns, &self.run.base, 0, each)
    }

    /// Visits a range of iterations of a level; `base` and `index` are the tuple and the number of
    /// the first iteration.
    fn visit_iterations(
        &self,
        level: usize,
        turns: Range<u64>,
        base: &[u64],
        index: u64,
        each: &mut Each<'_>,
    ) -> Result<(), Option<Error>> {
        self.fuel.consume(1)?;
        for (axis, wanted) in self.wanted.chunks_exact(2).enumerate() {
            let [first, after] = self.loops.iteration_range(self.run, (level, &turns), base, axis);
            if first >= wanted[1] || after <= wanted[0] {
                return Ok(());
            }
        }
        let (_, step) = &self.run.levels[level];
        if turns.end - turns.start > 1 {
            let middle = turns.start + (turns.end - turns.start) / 2;
            self.visit_iterations(level, turns.start..middle, base, index, each)?;
            return self.visit_iterations(level, middle..turns.end, base, index, each);
        }
        let moved =
            base.iter().zip(step).map(|(base, step)| base.wrapping_add(step.wrapping_mul(turns.start)));
        let moved: Vec<u64> = moved.collect();
        let inner: u64 = self.run.levels[..level].iter().map(|(count, _)| *count).product();
        let index = index + turns.start * inner;
        match level.checked_sub(1) {
            Some(below) => self.visit_iterations(below, 0..self.run.levels[below].0, &moved, index, each),
            None => each(&moved, index),
        }
    }
}

/// Reduces an extent to the minimum of both.
fn clip(dims: &mut [u64], by: Option<&[u64]>) {
    dims.iter_mut().zip(by.unwrap_or_default()).for_each(|(dim, by)| *dim = (*dim).min(*by));
}
