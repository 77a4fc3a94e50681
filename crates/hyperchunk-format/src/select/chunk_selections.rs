//! Selection of data stored in chunks.

use super::blocks::{Blocks, Chunks};
use super::line::{IndexList, Line, Pattern};
use super::points::Points;
use super::program::{Column, Program, Run, Segments};
use super::selection::{check_chunk, product};
use super::{Selection, strides};
use crate::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Splits a selection into pieces, one for each touched chunk, in row-major order of the chunks. Together
/// they cover each position in the result once.
///
/// # Errors
/// As [`Selection::count`]; Corrupt if a chunk has no elements or another rank; Limit if a chunk or the
/// selection has more elements than the address space.
pub fn chunk_selections(selection: &Selection, dims: &[u64], chunk: &[u64]) -> Result<ChunkSelections> {
    check_chunk(dims, chunk)?;
    let count = selection.count(dims)?;
    let kind = if count == 0 { Kind::Nothing } else { Kind::new(selection, dims, chunk)? };
    let fits = |count: Option<u64>| count.is_some_and(|count| usize::try_from(count).is_ok());
    if count > 0 && !(fits(Some(count)) && fits(product(chunk))) {
        return Err(Error::limit("a selection or a chunk larger than the address space"));
    }
    let plan = Plan {
        kind,
        chunk: chunk.to_vec(),
        source_strides: strides(chunk),
        target_strides: strides(&selection.shape(dims)),
    };
    let next = match &plan.kind {
        Kind::Nothing => Next::Chunk(None),
        Kind::Axes(_) => Next::Chunk(plan.first(0, Vec::new())),
        Kind::Points(_) => Next::Group(0),
        Kind::Blocks(blocks) => Next::Blocks(blocks.chunks(chunk)),
    };
    Ok(ChunkSelections { plan: Arc::new(plan), next })
}

/// Iterator over the pieces of a selection; see [`chunk_selections`].
#[derive(Debug)]
pub struct ChunkSelections {
    plan: Arc<Plan>,
    next: Next,
}

/// Selected elements of one chunk.
#[derive(Debug)]
pub struct ChunkSelection {
    plan: Arc<Plan>,
    chunk: Vec<u64>,
    /// For a selection of points: the points in the chunk.
    entries: Range<usize>,
}

/// State shared by all pieces of a selection.
#[derive(Debug)]
struct Plan {
    kind: Kind,
    chunk: Vec<u64>,
    source_strides: Vec<u64>,
    target_strides: Vec<u64>,
}

#[derive(Debug)]
enum Kind {
    Nothing,
    Axes(Vec<Split>),
    Points(Points),
    Blocks(Blocks),
}

/// Selected indices of a dimension.
#[derive(Debug)]
enum Split {
    Pattern(Pattern),
    List(Arc<IndexList>),
}

/// Source of the next piece.
#[derive(Debug)]
enum Next {
    Chunk(Option<Vec<u64>>),
    Group(usize),
    Blocks(Chunks),
}

impl Kind {
    fn new(selection: &Selection, dims: &[u64], chunk: &[u64]) -> Result<Self> {
        Ok(match selection {
            Selection::None => Self::Nothing,
            Selection::All => Self::Axes(dims.iter().map(|dim| Split::Pattern(Pattern::all(*dim))).collect()),
            Selection::Axes(axes) => {
                let mut split = Vec::with_capacity(axes.len());
                for (at, ((axis, extent), chunk)) in axes.iter().zip(dims).zip(chunk).enumerate() {
                    split.push(match axis.line(at, *extent)? {
                        Line::Pattern(pattern) => Split::Pattern(pattern),
                        Line::List(indices) => Split::List(Arc::new(IndexList::new(indices, *chunk))),
                    });
                }
                Self::Axes(split)
            }
            Selection::Points { coordinates, .. } => Self::Points(Points::new(coordinates, dims, chunk)),
            Selection::Blocks(blocks) => Self::Blocks(blocks.clone()),
        })
    }
}

impl Plan {
    fn axes(&self) -> &[Split] {
        if let Kind::Axes(axes) = &self.kind { axes } else { &[] }
    }

    /// Returns the first touched chunk along an axis at or after `number`.
    fn next_number(&self, axis: usize, number: u64) -> Option<u64> {
        match self.axes().get(axis)? {
            Split::List(list) => list.next_chunk(number),
            Split::Pattern(pattern) => {
                let chunk = self.chunk.get(axis)?;
                pattern.next(number.checked_mul(*chunk)?)?.checked_div(*chunk)
            }
        }
    }

    /// Fills the chunk coordinates from `axis` on with the first touched ones.
    fn first(&self, axis: usize, mut numbers: Vec<u64>) -> Option<Vec<u64>> {
        numbers.truncate(axis);
        for axis in axis..self.chunk.len() {
            numbers.push(self.next_number(axis, 0)?);
        }
        Some(numbers)
    }

    /// Returns the next touched chunk in row-major order.
    fn after(&self, numbers: &[u64]) -> Option<Vec<u64>> {
        for (axis, number) in numbers.iter().enumerate().rev() {
            let next = number.checked_add(1).and_then(|number| self.next_number(axis, number));
            if let Some(next) = next {
                let mut numbers = numbers.to_vec();
                *numbers.get_mut(axis)? = next;
                return self.first(axis.saturating_add(1), numbers);
            }
        }
        None
    }
}

impl ChunkSelections {
    /// Returns the piece of one chunk, for orthogonal selections. A caller that knows which chunks exist can
    /// skip all others. `None` if the selection does not touch the chunk.
    ///
    /// # Errors
    /// Invalid for selections of points and of irregular blocks.
    pub fn in_chunk(&self, chunk: &[u64]) -> Result<Option<ChunkSelection>> {
        let Kind::Axes(axes) = &self.plan.kind else {
            return Err(Error::invalid(
                "the selection is not orthogonal: it consists of points or of irregular blocks",
            ));
        };
        let touched = |(axis, number)| self.plan.next_number(axis, number) == Some(number);
        let touched = axes.len() == chunk.len() && chunk.iter().copied().enumerate().all(touched);
        Ok(touched.then(|| ChunkSelection {
            plan: Arc::clone(&self.plan),
            chunk: chunk.to_vec(),
            entries: 0..0,
        }))
    }

    /// True if [`ChunkSelections::in_chunk`] is supported: the selection is orthogonal.
    #[must_use]
    pub fn is_grid(&self) -> bool {
        matches!(self.plan.kind, Kind::Axes(_))
    }
}

impl Iterator for ChunkSelections {
    type Item = ChunkSelection;

    fn next(&mut self) -> Option<ChunkSelection> {
        let mut entries = 0..0;
        let chunk = match &mut self.next {
            Next::Chunk(next) => {
                let chunk = next.take()?;
                *next = self.plan.after(&chunk);
                chunk
            }
            Next::Group(at) => {
                let Kind::Points(points) = &self.plan.kind else { return None };
                let (chunk, range) = points.group(*at)?;
                *at = at.saturating_add(1);
                entries = range;
                chunk.to_vec()
            }
            Next::Blocks(chunks) => chunks.next()?,
        };
        Some(ChunkSelection { plan: Arc::clone(&self.plan), chunk, entries })
    }
}

impl ChunkSelection {
    /// Returns the chunk's coordinates in the grid of chunks.
    #[must_use]
    pub fn chunk(&self) -> &[u64] {
        &self.chunk
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn count(&self) -> usize {
        let count = match &self.plan.kind {
            Kind::Nothing => 0,
            Kind::Points(_) => self.entries.len() as u64,
            Kind::Blocks(blocks) => blocks.count_in(&self.bounds()),
            Kind::Axes(axes) => {
                let counts = axes.iter().zip(self.bounds()).zip(&self.chunk).map(
                    |((axis, range), number)| match axis {
                        Split::Pattern(pattern) => {
                            pattern.rank(range.end).saturating_sub(pattern.rank(range.start))
                        }
                        Split::List(list) => list.range(*number).len() as u64,
                    },
                );
                counts.fold(1, u64::saturating_mul)
            }
        };
        super::program::narrow(count)
    }

    /// Returns the box of the chunk.
    fn bounds(&self) -> Vec<Range<u64>> {
        let range = |(number, extent): (&u64, &u64)| {
            let start = number.saturating_mul(*extent);
            start..start.saturating_add(*extent)
        };
        self.chunk.iter().zip(&self.plan.chunk).map(range).collect()
    }

    /// Calls `each` for every run that is contiguous both in the chunk and in the result: first element in
    /// row-major order of a whole chunk, position in the result, count.
    ///
    /// # Errors
    /// The error of `each`, which ends the iteration.
    pub fn runs<E>(&self, mut each: impl FnMut(usize, usize, usize) -> Result<(), E>) -> Result<(), E> {
        self.strided(|run| run.each(&mut each))
    }

    /// As [`ChunkSelection::runs`], with elements at equal distances combined in one run.
    ///
    /// # Errors
    /// The error of `each`, which ends the iteration.
    pub fn strided<E>(&self, mut each: impl FnMut(Run) -> Result<(), E>) -> Result<(), E> {
        match &self.plan.kind {
            Kind::Nothing => Ok(()),
            Kind::Axes(axes) => self.program(axes).for_each(each),
            Kind::Points(points) => points.for_each(self.entries.clone(), each),
            Kind::Blocks(blocks) => blocks.for_each(&self.bounds(), &self.plan.source_strides, &mut each),
        }
    }

    /// As [`ChunkSelection::strided`], and also combines runs at equal distances in the result, so that a
    /// chunk that is one element wide becomes a single column.
    ///
    /// # Errors
    /// The error of `each`, which ends the iteration.
    pub fn columns<E>(&self, mut each: impl FnMut(Column) -> Result<(), E>) -> Result<(), E> {
        match &self.plan.kind {
            Kind::Axes(axes) => self.program(axes).for_each_column(each),
            _ => self.strided(|run| each(run.into())),
        }
    }

    /// Returns the run, if it is the only one.
    #[must_use]
    pub fn only_run(&self) -> Option<Run> {
        let Kind::Axes(axes) = &self.plan.kind else { return None };
        let mut runs = self.program(axes);
        runs.next().filter(|_| runs.next().is_none())
    }

    fn program(&self, axes: &[Split]) -> Program {
        let plan = &*self.plan;
        let axes = axes.iter().zip(&plan.chunk).zip(&self.chunk);
        let segments = axes.map(|((axis, extent), number)| {
            let start = number.saturating_mul(*extent);
            match axis {
                Split::Pattern(pattern) => {
                    Segments::Few(pattern.segments(start..start.saturating_add(*extent)))
                }
                Split::List(list) => Segments::Many(Arc::clone(list), list.range(*number), start),
            }
        });
        let strides = plan.source_strides.iter().zip(&plan.target_strides);
        Program::new(segments.zip(strides).map(|(segments, (source, target))| (segments, *source, *target)))
    }
}
