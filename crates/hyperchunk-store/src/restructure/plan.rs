//! Planning of a layout: shape of the tiles, number of passes, memory. A pure function of the
//! source's and the layout's geometry, so that all participating processes derive the same list of
//! tasks without communication.
//!
//! A tile is a box that one task reads and writes to its destination. Unfiltered chunks have known
//! offsets before anything is written, so tiles may have any shape and one pass is enough. Filtered
//! chunks must be complete when they are written, so their tiles consist of whole chunks. If that
//! would decode the source's chunks too often, there are two passes: the first writes unfiltered
//! chunks, the second filters each.

use super::boxes::Grid;
use hyperchunk::{Error, ErrorKind, Result};

/// Cost of an operation on a local file, expressed in bytes that could be copied meanwhile.
pub(super) const OPERATION_COST_BYTES: f64 = 4096.0;
/// Cost of a task, in bytes.
const TASK_COST_BYTES: f64 = 16_384.0;
/// Maximum size in bytes of a tile that stays in the processor's cache between reading and writing.
const MAX_CACHED_TILE_BYTES: u64 = 4 << 20;
/// Relative cost of bytes of larger tiles.
const UNCACHED_COST_RATIO: f64 = 1.25;
/// Memory for reading the source in addition to the tile, in bytes.
const READ_BUFFER_BYTES: u64 = 5 << 20;
/// Number of bytes gathered for one write.
pub(super) const WRITE_BUFFER_BYTES: u64 = 1 << 20;
/// Maximum number of bytes of chunks that are filtered in one task.
const MAX_TASK_BYTES: u64 = 16 << 20;
/// Maximum number of tile shapes that are compared exhaustively.
const MAX_SHAPES: usize = 100_000;
/// Maximum number of tasks.
const MAX_TASKS: u64 = 1 << 31;
/// Cost ratio from which two passes are preferred over one.
const MIN_TWO_PASS_GAIN: f64 = 1.2;

/// Input of the planner.
#[derive(Debug, Clone, PartialEq)]
pub struct Geometry {
    /// Extent of the dataset.
    pub extent: Vec<u64>,
    /// Size of an element in bytes.
    pub element: u64,
    /// Chunk shape of the source; its extent if it is contiguous.
    pub source: Vec<u64>,
    /// True if the source's chunks must be read as a whole, because they are filtered.
    pub decoded: bool,
    /// Cost of an operation on the source, in bytes; 0 for a local file.
    pub operation: u64,
    /// Chunk shape of the layout.
    pub target: Vec<u64>,
    /// True if the layout's chunks are filtered.
    pub encoded: bool,
    /// Memory limit of a process in bytes.
    pub memory: u64,
    /// Memory in bytes that is used independent of the tiles.
    pub fixed: u64,
}

/// Input and output of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// From the source to unfiltered chunks.
    Scatter,
    /// From the source to filtered chunks.
    Encode,
    /// From unfiltered chunks to filtered ones.
    Finish,
}

/// One pass over all data.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    /// Input and output.
    pub way: Endpoint,
    /// Its tiles, one per task.
    pub tiles: Grid,
    /// Estimated cost.
    pub cost: Cost,
    /// Memory per thread in bytes.
    pub thread_bytes: u64,
}

/// Estimated cost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Number of bytes read, before filters are undone.
    pub read: f64,
    /// Number of bytes written, before filters are applied.
    pub written: f64,
    /// Number of read operations.
    pub reads: f64,
    /// Number of write operations.
    pub writes: f64,
}

/// Plan of a layout.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// One pass, or two.
    pub passes: Vec<Pass>,
    /// Memory in bytes that is used independent of the tiles.
    pub fixed: u64,
    /// Memory limit of a process in bytes.
    pub memory: u64,
}

impl Plan {
    /// Finds the cheapest plan.
    ///
    /// # Errors
    /// Invalid for an invalid geometry; Limit if the memory is insufficient, with the required
    /// amount.
    pub fn new(geometry: &Geometry) -> Result<Self> {
        geometry.check()?;
        if !geometry.encoded {
            return geometry.plan(vec![geometry.pass(Endpoint::Scatter)]);
        }
        let one = geometry.pass(Endpoint::Encode);
        if !geometry.decoded && geometry.operation == 0 {
            return geometry.plan(vec![one]);
        }
        let two = geometry
            .pass(Endpoint::Scatter)
            .and_then(|first| Ok(vec![first, geometry.pass(Endpoint::Finish)?]));
        match (&one, two) {
            (Ok(one), Ok(two)) => {
                let both: f64 = two.iter().map(|pass| geometry.price(pass)).sum();
                let once = geometry.price(one) <= both * MIN_TWO_PASS_GAIN;
                geometry.plan(if once { vec![Ok(one.clone())] } else { two.into_iter().map(Ok).collect() })
            }
            (Err(_), Ok(two)) => geometry.plan(two.into_iter().map(Ok).collect()),
            _ => geometry.plan(vec![one]),
        }
    }

    /// Returns the number of tasks of all passes.
    #[must_use]
    pub fn tasks(&self) -> u64 {
        self.passes.iter().map(|pass| pass.tiles.len()).sum()
    }

    /// Returns the number of the first task of a pass.
    #[must_use]
    pub fn first(&self, pass: usize) -> u64 {
        self.passes.iter().take(pass).map(|pass| pass.tiles.len()).sum()
    }

    /// Returns the number of threads that fit into the memory for a pass, at most `wanted`.
    #[must_use]
    pub fn threads(&self, pass: &Pass, wanted: usize) -> usize {
        let room = self.memory.saturating_sub(self.fixed) / pass.thread_bytes.max(1);
        wanted.max(1).min(usize::try_from(room).unwrap_or(usize::MAX).max(1))
    }

    /// Returns the maximum memory of a process in bytes, with up to `wanted` threads.
    #[must_use]
    pub fn needs(&self, wanted: usize) -> u64 {
        let most = self.passes.iter().map(|pass| self.threads(pass, wanted) as u64 * pass.thread_bytes);
        self.fixed + most.max().unwrap_or(0)
    }

    /// Returns the total cost of all passes.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.passes.iter().fold(Cost::default(), |sum, pass| Cost {
            read: sum.read + pass.cost.read,
            written: sum.written + pass.cost.written,
            reads: sum.reads + pass.cost.reads,
            writes: sum.writes + pass.cost.writes,
        })
    }
}

impl Geometry {
    fn check(&self) -> Result<()> {
        let rank = self.extent.len();
        let shapes = [&self.source, &self.target];
        if rank == 0
            || self.element == 0
            || self.extent.contains(&0)
            || shapes.iter().any(|shape| shape.len() != rank || shape.contains(&0))
        {
            let message = format!("nothing to restructure in a dataset of {:?} elements", self.extent);
            return Err(Error::invalid(message));
        }
        let fits = |shape: &[u64]| {
            let product = shape.iter().try_fold(self.element, |product, count| product.checked_mul(*count));
            product.is_some_and(|bytes| bytes < 1 << 62)
        };
        if !fits(&self.extent) || !shapes.iter().all(|shape| fits(shape)) {
            return Err(Error::limit(format!("a dataset of {:?} elements is too large", self.extent)));
        }
        Ok(())
    }

    fn plan(&self, passes: Vec<Result<Pass>>) -> Result<Plan> {
        let passes = passes.into_iter().collect::<Result<Vec<Pass>>>()?;
        let plan = Plan { passes, fixed: self.fixed, memory: self.memory };
        if plan.tasks() > MAX_TASKS {
            return Err(Error::limit(format!("{} tasks are too many: allow more memory", plan.tasks())));
        }
        Ok(plan)
    }

    /// Plans a pass with the best tiles.
    fn pass(&self, way: Endpoint) -> Result<Pass> {
        let unit = self.unit(way);
        let room = self.memory.saturating_sub(self.fixed);
        let least = self.thread_bytes(way, &unit);
        if least > room {
            let needed = self.fixed.saturating_add(least);
            let message = format!(
                "{} bytes of memory are not enough: a tile of {unit:?} elements needs {needed} bytes",
                self.memory
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        // Leave memory for two threads, if possible.
        let room = if least <= room / 2 { room / 2 } else { room };
        let choices: Vec<Vec<u64>> =
            (0..unit.len()).map(|axis| self.choices(way, axis, unit[axis])).collect();
        let shapes = choices.iter().try_fold(1_usize, |product, some| product.checked_mul(some.len()));
        let tile = if shapes.is_some_and(|shapes| shapes <= MAX_SHAPES) {
            self.best(way, &choices, &unit, room)
        } else {
            self.grown(way, &choices, unit, room)
        };
        let tiles = Grid::new(&self.extent, &tile)?;
        let thread_bytes = self.thread_bytes(way, &tile);
        Ok(Pass { way, cost: self.cost(way, &tile), tiles, thread_bytes })
    }

    /// Returns the unit of which tiles are multiples.
    fn unit(&self, way: Endpoint) -> Vec<u64> {
        match way {
            Endpoint::Encode | Endpoint::Finish => self.target.clone(),
            // Whole chunks of the source, if they must be read as a whole.
            Endpoint::Scatter if self.decoded => {
                self.source.iter().zip(&self.extent).map(|(source, extent)| (*source).min(*extent)).collect()
            }
            Endpoint::Scatter => vec![1; self.extent.len()],
        }
    }

    /// Returns the possible lengths of a tile along an axis.
    fn choices(&self, way: Endpoint, axis: usize, unit: u64) -> Vec<u64> {
        let extent = self.extent[axis];
        let whole = extent.div_ceil(unit).saturating_mul(unit);
        let mut choices = vec![unit, whole];
        let steps = if way == Endpoint::Finish {
            vec![unit]
        } else {
            vec![unit, self.source[axis], self.target[axis]]
        };
        for step in steps {
            let mut length = step.div_ceil(unit).saturating_mul(unit);
            while length < whole {
                choices.push(length);
                length = length.saturating_mul(2);
            }
        }
        choices.sort_unstable();
        choices.dedup();
        choices
    }

    /// Returns the cheapest tile by exhaustive search.
    fn best(&self, way: Endpoint, choices: &[Vec<u64>], unit: &[u64], room: u64) -> Vec<u64> {
        let mut best = (unit.to_vec(), self.total(way, unit));
        let mut index = vec![0; choices.len()];
        loop {
            let tile: Vec<u64> = index.iter().zip(choices).map(|(at, some): (&usize, _)| some[*at]).collect();
            if self.fits(way, &tile, room) {
                let total = self.total(way, &tile);
                if total < best.1 {
                    best = (tile, total);
                }
            }
            let mut axis = choices.len();
            loop {
                if axis == 0 {
                    return best.0;
                }
                axis -= 1;
                index[axis] += 1;
                if index[axis] < choices[axis].len() {
                    break;
                }
                index[axis] = 0;
            }
        }
    }

    /// Returns a good tile by greedy growth along the most profitable axis, used if there are too
    /// many shapes.
    fn grown(&self, way: Endpoint, choices: &[Vec<u64>], unit: Vec<u64>, room: u64) -> Vec<u64> {
        let mut tile = unit;
        let mut total = self.total(way, &tile);
        loop {
            let mut better: Option<(f64, Vec<u64>)> = None;
            for axis in 0..tile.len() {
                for length in choices[axis].iter().filter(|length| **length > tile[axis]) {
                    let mut longer = tile.clone();
                    longer[axis] = *length;
                    let cost = self.total(way, &longer);
                    if self.fits(way, &longer, room) && better.as_ref().is_none_or(|(least, _)| cost < *least)
                    {
                        better = Some((cost, longer));
                    }
                }
            }
            match better {
                Some((cost, longer)) if cost < total => (total, tile) = (cost, longer),
                _ => return tile,
            }
        }
    }

    /// Returns whether tiles of a shape are small enough.
    fn fits(&self, way: Endpoint, tile: &[u64], room: u64) -> bool {
        let bytes = tile.iter().fold(self.element, |size, dim| size.saturating_mul(*dim));
        self.thread_bytes(way, tile) <= room && (way != Endpoint::Finish || bytes <= MAX_TASK_BYTES)
    }

    /// Returns the memory of a thread in bytes for tiles of a shape.
    fn thread_bytes(&self, way: Endpoint, tile: &[u64]) -> u64 {
        let bytes = |shape: &[u64]| shape.iter().fold(self.element, |size, dim| size.saturating_mul(*dim));
        let within: Vec<u64> =
            tile.iter().zip(&self.extent).map(|(tile, extent)| (*tile).min(*extent)).collect();
        let tile = bytes(&within);
        let reading = match (way, self.decoded) {
            (Endpoint::Finish, _) => 0,
            // The stored chunk, and the output of two filters.
            (_, true) => bytes(&self.source).saturating_mul(3).saturating_add(READ_BUFFER_BYTES),
            (_, false) => READ_BUFFER_BYTES,
        };
        let writing = match way {
            // At least one row of a chunk is gathered.
            Endpoint::Scatter => tile.min(WRITE_BUFFER_BYTES.max(self.row())),
            // The chunk, and the output of two filters; no filter enlarges it much.
            _ => bytes(&self.target).saturating_mul(7) / 2 + WRITE_BUFFER_BYTES,
        };
        let tile = if way == Endpoint::Finish { 0 } else { tile };
        tile.saturating_add(reading).saturating_add(writing)
    }

    /// Returns the size in bytes of one index of the first dimension of the layout's chunks.
    fn row(&self) -> u64 {
        self.target.iter().skip(1).fold(self.element, |size, dim| size.saturating_mul(*dim))
    }

    fn total(&self, way: Endpoint, tile: &[u64]) -> f64 {
        let tiles: f64 =
            tile.iter().zip(&self.extent).map(|(tile, extent)| extent.div_ceil(*tile) as f64).product();
        let bytes = tile.iter().fold(self.element, |size, dim| size.saturating_mul(*dim));
        let cost = self.cost(way, tile);
        let cached =
            if bytes <= MAX_CACHED_TILE_BYTES || way == Endpoint::Finish { 1.0 } else { UNCACHED_COST_RATIO };
        self.sum(way, &cost) * cached + tiles * TASK_COST_BYTES
    }

    fn sum(&self, way: Endpoint, cost: &Cost) -> f64 {
        let operation = if way == Endpoint::Finish { 0.0 } else { self.operation as f64 };
        cost.read
            + cost.written
            + cost.reads * operation.max(OPERATION_COST_BYTES)
            + cost.writes * OPERATION_COST_BYTES
    }

    fn price(&self, pass: &Pass) -> f64 {
        self.sum(pass.way, &pass.cost)
    }

    fn cost(&self, way: Endpoint, tile: &[u64]) -> Cost {
        let all = self.extent.iter().fold(self.element as f64, |size, dim| size * *dim as f64);
        let (read, reads) = match way {
            Endpoint::Finish => (all, self.chunks(&self.target)),
            _ if self.decoded => {
                let (pieces, bytes) = self.pieces(tile, &self.source);
                (bytes, pieces)
            }
            _ => (all, self.runs(tile, &self.source)),
        };
        let writes = match way {
            Endpoint::Scatter => self.runs(tile, &self.target),
            _ => self.chunks(&self.target),
        };
        Cost { read, written: all, reads, writes }
    }

    fn chunks(&self, chunk: &[u64]) -> f64 {
        self.extent.iter().zip(chunk).map(|(extent, chunk)| extent.div_ceil(*chunk) as f64).product()
    }

    /// Returns the total number of intersections of tiles and chunks, and the total size of the
    /// intersected chunks in bytes.
    fn pieces(&self, tile: &[u64], chunk: &[u64]) -> (f64, f64) {
        let mut pieces = 1.0;
        let mut bytes = self.element as f64;
        for ((extent, tile), chunk) in self.extent.iter().zip(tile).zip(chunk) {
            let touched = count_parts(*extent, *tile, *chunk);
            pieces *= touched;
            bytes *= touched * (*chunk).min(*extent) as f64;
        }
        (pieces, bytes)
    }

    /// Returns the number of contiguous runs in chunks of all intersections with tiles.
    fn runs(&self, tile: &[u64], chunk: &[u64]) -> f64 {
        let (pieces, _) = self.pieces(tile, chunk);
        let mut runs = 1.0;
        let mut whole = true;
        for ((extent, tile), chunk) in self.extent.iter().zip(tile).zip(chunk).rev() {
            // Average length of an intersection along this axis, in elements.
            let common = *extent as f64 / count_parts(*extent, *tile, *chunk);
            if !whole {
                runs *= common;
            }
            whole = whole && *tile >= (*chunk).min(*extent);
        }
        pieces * runs
    }
}

/// Returns the number of parts of an axis that is cut at the multiples of two lengths.
fn count_parts(extent: u64, one: u64, other: u64) -> f64 {
    let cuts = |length: u64| (extent - 1) / length;
    // Common cuts count once.
    let both = match one.checked_mul(other / greatest_common_divisor(one, other)) {
        Some(length) => cuts(length),
        None => 0,
    };
    (cuts(one) + cuts(other) - both + 1) as f64
}

/// Returns the greatest common divisor.
fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one.max(1)
}

#[cfg(test)]
mod tests;
