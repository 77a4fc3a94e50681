//! Copies that an orthogonal selection makes between a box of elements and the result, in the order of the
//! result.

use super::line::{IndexList, Segment};
use std::ops::Range;
use std::sync::Arc;

/// Elements with consecutive positions in the result: `count` blocks of `block` elements, `step` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First element.
    pub source: usize,
    /// Distance between the starts of two blocks.
    pub step: usize,
    /// Number of elements in a block.
    pub block: usize,
    /// Number of blocks.
    pub count: usize,
    /// Position of the first element in the result.
    pub target: usize,
}

/// Elements at equal distances on both sides: `count` blocks of `block` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// First element.
    pub source: usize,
    /// Position of the first element in the result.
    pub target: usize,
    /// Distance between the starts of two blocks in the box.
    pub source_step: usize,
    /// Distance between the starts of two blocks in the result.
    pub target_step: usize,
    /// Number of elements in a block.
    pub block: usize,
    /// Number of blocks.
    pub count: usize,
}

impl From<Run> for Column {
    fn from(run: Run) -> Self {
        let Run { source, step, block, count, target } = run;
        Self { source, target, source_step: step, target_step: block, block, count }
    }
}

impl Column {
    /// Returns the number of elements from the first to the last, in the box and in the result. `None` if it
    /// is empty or on overflow.
    #[must_use]
    pub fn spans(&self) -> Option<(usize, usize)> {
        let gaps = self.count.checked_sub(1)?;
        let span = |step: usize| gaps.checked_mul(step)?.checked_add(self.block);
        Some((span(self.source_step)?, span(self.target_step)?))
    }
}

impl Run {
    pub(super) fn single(source: u64, target: u64, block: u64) -> Self {
        let [source, block, target] = [source, block, target].map(narrow);
        Self { source, step: 0, block, count: 1, target }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.block.saturating_mul(self.count)
    }

    /// Calls `each` for every block: first element, position in the result, count.
    pub(super) fn each<E>(
        &self,
        mut each: impl FnMut(usize, usize, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut source, mut target) = (self.source, self.target);
        for _ in 0..self.count {
            each(source, target, self.block)?;
            source = source.wrapping_add(self.step);
            target = target.wrapping_add(self.block);
        }
        Ok(())
    }

    /// Copies the elements, of `size` bytes each. `source` has the bytes of the whole box, `target` the bytes
    /// of this run. Returns `false`, with arbitrary bytes in `target`, if the sizes do not fit.
    #[must_use]
    pub fn copy(&self, size: usize, source: &[u8], target: &mut [u8]) -> bool {
        let bytes = |elements: usize| elements.checked_mul(size);
        let (Some(start), Some(step), Some(block)) =
            (bytes(self.source), bytes(self.step), bytes(self.block))
        else {
            return false;
        };
        let Some(source) = source.get(start..) else { return false };
        if self.count.checked_mul(block) != Some(target.len()) {
            return false;
        }
        if self.count <= 1 || block == 0 {
            return source.get(..target.len()).map(|source| target.copy_from_slice(source)).is_some();
        }
        match block {
            1 => gather::<1>(step, source, target),
            2 => gather::<2>(step, source, target),
            4 => gather::<4>(step, source, target),
            8 => gather::<8>(step, source, target),
            16 => gather::<16>(step, source, target),
            _ => {
                let mut done = 0_usize;
                for (to, from) in target.chunks_exact_mut(block).zip(source.chunks(step.max(1))) {
                    let Some(from) = from.get(..block) else { return false };
                    to.copy_from_slice(from);
                    done = done.wrapping_add(1);
                }
                done == self.count
            }
        }
    }
}

/// Gathers blocks of `N` bytes that are `step` bytes apart.
fn gather<const N: usize>(step: usize, source: &[u8], target: &mut [u8]) -> bool {
    let (target, _) = target.as_chunks_mut::<N>();
    let mut done = 0_usize;
    for (to, from) in target.iter_mut().zip(source.chunks(step.max(1))) {
        let Some(from) = from.first_chunk::<N>() else { return false };
        *to = *from;
        done = done.wrapping_add(1);
    }
    done == target.len()
}

/// Selected segments of one dimension.
#[derive(Debug, Clone)]
pub(super) enum Segments {
    Few([Segment; 3]),
    /// Range of entries of a list; indices count from an origin.
    Many(Arc<IndexList>, Range<usize>, u64),
}

impl Segments {
    /// Returns the first non-empty segment from a position on, and the position after it.
    #[inline]
    fn next(&self, at: usize) -> Option<(usize, Segment)> {
        match self {
            Self::Few(segments) => {
                let mut rest = segments.iter().enumerate().skip(at);
                rest.find(|(_, segment)| segment.count > 0)
                    .map(|(at, segment)| (at.wrapping_add(1), *segment))
            }
            Self::Many(list, range, origin) => {
                let start = range.start.checked_add(at)?;
                let (end, segment) = list.segment(&(start..range.end), *origin)?;
                Some((end.wrapping_sub(range.start), segment))
            }
        }
    }

    /// Returns the segment, if it is the only one.
    fn only(&self) -> Option<Segment> {
        let (at, segment) = self.next(0)?;
        self.next(at).is_none().then_some(segment)
    }
}

/// Loop over one dimension: its segments and its strides.
#[derive(Debug, Clone)]
struct Loop {
    segments: Segments,
    source_stride: u64,
    target_stride: u64,
}

/// Position in a loop.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    /// Position of the next segment.
    next: usize,
    segment: Segment,
    /// Number of finished blocks of the segment, and of finished elements of the block.
    block: u64,
    element: u64,
    /// Offsets summed over the loops from the outermost to this one.
    source: u64,
    target: u64,
}

/// Nested loops over dimensions, as an iterator over runs. Dimensions that are contiguous on both sides are
/// merged into one unit.
#[derive(Debug)]
pub(super) struct Program {
    /// All loops except the innermost, from the inside out.
    outer: Vec<(Loop, Position)>,
    inner: Loop,
    /// Number of elements of the contiguous unit.
    unit: u64,
    /// Start of the innermost loop's runs, and the position in it.
    source: u64,
    target: u64,
    place: Option<Position>,
}

impl Program {
    /// Creates the loops. `axes` gives the segments, the stride in the box and the stride in the result of
    /// each dimension. The products of both extents must fit 64 bits.
    pub(super) fn new(axes: impl DoubleEndedIterator<Item = (Segments, u64, u64)>) -> Self {
        let one = Segment { source: 0, target: 0, step: 1, block: 1, count: 1 };
        let trivial = Segments::Few([one, Segment::default(), Segment::default()]);
        let (mut source, mut target, mut unit) = (0_u64, 0_u64, 1_u64);
        let mut inner: Option<Loop> = None;
        let mut outer: Vec<(Loop, Position)> = Vec::new();
        for (segments, source_stride, target_stride) in axes.rev() {
            if let Some(segment) = segments.only().filter(|segment| segment.count == 1) {
                let together = inner.is_none() && source_stride == unit && target_stride == unit;
                if together || segment.block == 1 {
                    source = source.wrapping_add(segment.source.wrapping_mul(source_stride));
                    target = target.wrapping_add(segment.target.wrapping_mul(target_stride));
                    unit = unit.wrapping_mul(segment.block);
                    continue;
                }
            }
            let kept = Loop { segments, source_stride, target_stride };
            if inner.is_none() {
                inner = Some(kept);
            } else {
                outer.push((kept, Position::default()));
            }
        }
        let inner = inner.unwrap_or(Loop { segments: trivial, source_stride: unit, target_stride: unit });
        let mut program = Self { outer, inner, unit, source, target, place: None };
        if program.rewind(program.outer.len(), source, target) {
            program.place = program.inner.first();
        }
        program
    }

    /// Resets the `count` innermost of the outer loops. Returns `false` if one of them is empty.
    #[inline]
    fn rewind(&mut self, count: usize, mut source: u64, mut target: u64) -> bool {
        for (one, place) in self.outer.iter_mut().take(count).rev() {
            let Some(mut first) = one.first() else { return false };
            (source, target) = one.offset(&first, source, target);
            (first.source, first.target) = (source, target);
            *place = first;
        }
        (self.source, self.target) = (source, target);
        true
    }

    /// Moves the outer loops to their next position.
    #[inline]
    fn advance(&mut self) -> bool {
        for level in 0..self.outer.len() {
            let Some((one, place)) = self.outer.get_mut(level) else { return false };
            if one.step(place) {
                let (source, target) = (place.source, place.target);
                return self.rewind(level, source, target);
            }
        }
        false
    }

    /// Calls `each` for every run until it returns an error.
    #[inline]
    pub(super) fn for_each<E>(mut self, mut each: impl FnMut(Run) -> Result<(), E>) -> Result<(), E> {
        if self.place.is_none() {
            return Ok(());
        }
        let rows = self.inner.segments.only().filter(|segment| self.whole(segment));
        let Some(segment) = rows else { return self.for_each_segment(each) };
        // Common case: one run a row, equal except for its offsets.
        let first = self.run(&segment, 0, 0);
        let source = segment.source.wrapping_mul(self.inner.source_stride);
        let target = segment.target.wrapping_mul(self.inner.target_stride);
        loop {
            let source = narrow(self.source.wrapping_add(source));
            let target = narrow(self.target.wrapping_add(target));
            each(Run { source, target, ..first })?;
            if !self.advance() {
                return Ok(());
            }
        }
    }

    /// Calls `each` for every column; the runs of the innermost loop are combined if they are apart in the
    /// result.
    pub(super) fn for_each_column<E>(
        mut self,
        mut each: impl FnMut(Column) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.place.is_none() {
            return Ok(());
        }
        if self.inner.target_stride == self.unit {
            return self.for_each(|run| each(run.into()));
        }
        let [source_step, target_step, unit] =
            [self.inner.source_stride, self.inner.target_stride, self.unit].map(narrow);
        loop {
            let mut at = 0;
            while let Some((next, segment)) = self.inner.segments.next(at) {
                at = next;
                if segment.block == 1 {
                    let Run { source, target, .. } = self.run(&segment, 0, 0);
                    let source_step = narrow(segment.step.wrapping_mul(self.inner.source_stride));
                    let count = narrow(segment.count);
                    each(Column { source, target, source_step, target_step, block: unit, count })?;
                    continue;
                }
                for block in 0..segment.count {
                    let Run { source, target, .. } = self.run(&segment, block, 0);
                    let count = narrow(segment.block);
                    each(Column { source, target, source_step, target_step, block: unit, count })?;
                }
            }
            if !self.advance() {
                return Ok(());
            }
        }
    }

    fn for_each_segment<E>(mut self, mut each: impl FnMut(Run) -> Result<(), E>) -> Result<(), E> {
        loop {
            let mut place = self.inner.first();
            while let Some(at) = &mut place {
                each(self.run(&at.segment, at.block, at.element))?;
                if !self.next_inner(at) {
                    break;
                }
            }
            if !self.advance() {
                return Ok(());
            }
        }
    }

    /// True if a segment of the innermost loop is a single run.
    #[inline]
    fn whole(&self, segment: &Segment) -> bool {
        let Loop { source_stride, target_stride, .. } = self.inner;
        target_stride == self.unit && (source_stride == self.unit || segment.block == 1 || segment.count == 1)
    }

    /// Returns the run at a position of the innermost loop.
    #[inline]
    fn run(&self, segment: &Segment, block: u64, element: u64) -> Run {
        let Loop { source_stride, target_stride, .. } = self.inner;
        let index = segment.source.wrapping_add(block.wrapping_mul(segment.step)).wrapping_add(element);
        let place = segment.target.wrapping_add(block.wrapping_mul(segment.block)).wrapping_add(element);
        let source = self.source.wrapping_add(index.wrapping_mul(source_stride));
        let target = self.target.wrapping_add(place.wrapping_mul(target_stride));
        let (step, block, count) = if target_stride != self.unit {
            (0, self.unit, 1)
        } else if source_stride == self.unit {
            (segment.step.wrapping_mul(source_stride), segment.block.wrapping_mul(self.unit), segment.count)
        } else if segment.block == 1 {
            (segment.step.wrapping_mul(source_stride), self.unit, segment.count)
        } else {
            (source_stride, self.unit, segment.block)
        };
        let [source, step, block, count, target] = [source, step, block, count, target].map(narrow);
        Run { source, step, block, count, target }
    }

    /// Moves the innermost loop to its next run.
    #[inline]
    fn next_inner(&self, place: &mut Position) -> bool {
        let whole = self.whole(&place.segment);
        if !whole && self.inner.target_stride != self.unit {
            place.element = place.element.wrapping_add(1);
            if place.element < place.segment.block {
                return true;
            }
        }
        place.element = 0;
        place.block = place.block.wrapping_add(1);
        if !whole && place.block < place.segment.count {
            return true;
        }
        place.block = 0;
        match self.inner.segments.next(place.next) {
            Some((next, segment)) => {
                (place.next, place.segment) = (next, segment);
                true
            }
            None => false,
        }
    }
}

impl Iterator for Program {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let mut place = self.place?;
        let run = self.run(&place.segment, place.block, place.element);
        self.place = if self.next_inner(&mut place) {
            Some(place)
        } else if self.advance() {
            self.inner.first()
        } else {
            None
        };
        Some(run)
    }
}

impl Loop {
    /// Returns the first position; `None` if the loop is empty.
    fn first(&self) -> Option<Position> {
        let (next, segment) = self.segments.next(0)?;
        Some(Position { next, segment, ..Position::default() })
    }

    /// Returns the offsets of the element at a position, relative to the start of the loop.
    fn offset(&self, place: &Position, source: u64, target: u64) -> (u64, u64) {
        (
            source.wrapping_add(place.segment.source.wrapping_mul(self.source_stride)),
            target.wrapping_add(place.segment.target.wrapping_mul(self.target_stride)),
        )
    }

    /// Moves to the next element. Returns `false` after the last.
    #[inline]
    fn step(&self, place: &mut Position) -> bool {
        let Segment { step, block, count, .. } = place.segment;
        place.element = place.element.wrapping_add(1);
        if place.element < block {
            place.source = place.source.wrapping_add(self.source_stride);
            place.target = place.target.wrapping_add(self.target_stride);
            return true;
        }
        place.block = place.block.wrapping_add(1);
        if place.block < count {
            place.element = 0;
            let skip = step.wrapping_sub(block).wrapping_add(1);
            place.source = place.source.wrapping_add(skip.wrapping_mul(self.source_stride));
            place.target = place.target.wrapping_add(self.target_stride);
            return true;
        }
        let Some((next, segment)) = self.segments.next(place.next) else { return false };
        // Skip from the last element of a segment to the first of the next.
        let last = place.segment.source.wrapping_add(count.wrapping_sub(1).wrapping_mul(step));
        let last = last.wrapping_add(block.wrapping_sub(1));
        let skip = segment.source.wrapping_sub(last);
        place.source = place.source.wrapping_add(skip.wrapping_mul(self.source_stride));
        let last = place.segment.target.wrapping_add(count.wrapping_mul(block)).wrapping_sub(1);
        let skip = segment.target.wrapping_sub(last);
        place.target = place.target.wrapping_add(skip.wrapping_mul(self.target_stride));
        (place.next, place.segment, place.block, place.element) = (next, segment, 0, 0);
        true
    }
}

/// Narrows a number known to fit.
pub(super) fn narrow(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
