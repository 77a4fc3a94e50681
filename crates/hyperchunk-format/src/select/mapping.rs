//! Mappings of virtual datasets: the elements of a source that a caller's selection needs, and their
//! positions in the result. Source: specification §III.H; HDF5's "Virtual Dataset" RFC.
//!
//! In this file, the rank of an element is its position in the order of one side of a mapping.

use super::blocks::Blocks;
use super::line::{IndexList, Line, Pattern, Segment};
use super::program::{Program, Segments, narrow};
use super::{Axis, Selection, runs, strides};
use crate::{Error, Result};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Selection of a source, and the positions of its elements in the result.
#[derive(Debug)]
pub struct MappedSelection {
    /// Elements of the source, in the order of the source.
    pub source: Selection,
    moves: Moves,
}

/// Positions of elements in the result.
#[derive(Debug)]
enum Moves {
    /// For each dimension of the virtual dataset: the positions in the result by the position in the data
    /// read; its stride in the result; its stride in the data read.
    Axes(Vec<(Segments, u64, u64)>),
    /// Position in the data read, position in the result, count.
    Runs(Vec<(u64, u64, u64)>),
}

impl MappedSelection {
    /// Calls `each` for every run of elements: position in the data read from the source, position in the
    /// result, count.
    ///
    /// # Errors
    /// The error of `each`, which ends the iteration.
    pub fn runs<E>(&self, mut each: impl FnMut(usize, usize, usize) -> Result<(), E>) -> Result<(), E> {
        match &self.moves {
            Moves::Runs(runs) => {
                runs.iter().try_for_each(|(from, to, count)| each(narrow(*from), narrow(*to), narrow(*count)))
            }
            Moves::Axes(axes) => {
                let program = Program::new(axes.iter().cloned());
                // The data read are contiguous and the result may not be; for a chunk it is the other way
                // round.
                program.for_each(|run| run.each(|to, from, count| each(from, to, count)))
            }
        }
    }

    /// Returns the position in the result of the first element read, if all elements stay contiguous and in
    /// order.
    #[must_use]
    pub fn place(&self) -> Option<usize> {
        let mut first = None;
        let only = self.runs(|from, to, count| match first {
            None if from == 0 => {
                first = Some((to, count));
                Ok(())
            }
            _ => Err(()),
        });
        let (to, count) = first.filter(|_| only.is_ok())?;
        (self.count() == count as u64).then_some(to)
    }

    /// Returns the number of elements read from the source.
    fn count(&self) -> u64 {
        match &self.source {
            Selection::Axes(axes) => axes.iter().map(Axis::length).fold(1, u64::saturating_mul),
            Selection::All => 1,
            other => other.shape(&[]).into_iter().fold(1, u64::saturating_mul),
        }
    }
}

/// Maps `selection` to a source. The elements of `target`, in a dataspace of extent `dims`, correspond one to
/// one to the elements of `source`, in a dataspace of extent `source_dims`, each in its own order. `None` if
/// `selection` needs none of them.
///
/// If one side is shorter along a dimension, the excess of the other is ignored: this is the end of an
/// unlimited mapping.
///
/// # Errors
/// As [`Selection::check`] for each of the three; Corrupt if the two sides cannot be matched; Limit if there
/// are more than 2⁶⁴ - 1 elements.
pub fn map(
    source: &Selection,
    source_dims: &[u64],
    target: &Selection,
    dims: &[u64],
    selection: &Selection,
) -> Result<Option<MappedSelection>> {
    let counts = (source.count(source_dims)?, target.count(dims)?);
    if selection.count(dims)? == 0 || counts.0 == 0 || counts.1 == 0 {
        return Ok(None);
    }
    let (from, to) = (patterns(source, source_dims)?, patterns(target, dims)?);
    if let (Some(from), Some(to), Some(asked)) = (&from, &to, lines(selection, dims)?)
        && let Some(pairs) = pair(from, to, counts.0 == counts.1)
    {
        let places = strides(&selection.shape(dims));
        return Ok(along_axes(from, to, &asked, &pairs, &places));
    }
    if counts.0 != counts.1 {
        let message =
            format!("a virtual dataset's mapping of {} source elements to {} elements", counts.0, counts.1);
        return Err(Error::corrupt(message));
    }
    one_by_one(source, source_dims, target, dims, selection)
}

/// Returns the axes of an orthogonal selection; `None` for other selections.
fn lines<'a>(selection: &'a Selection, dims: &[u64]) -> Result<Option<Vec<Line<'a>>>> {
    match selection {
        Selection::All => Ok(Some(dims.iter().map(|dim| Line::Pattern(Pattern::all(*dim))).collect())),
        Selection::Axes(axes) => {
            let axes = axes.iter().zip(dims).enumerate();
            axes.map(|(at, (axis, dim))| axis.line(at, *dim)).collect::<Result<_>>().map(Some)
        }
        _ => Ok(None),
    }
}

/// As [`lines`], for one side of a mapping, which has no lists.
fn patterns(selection: &Selection, dims: &[u64]) -> Result<Option<Vec<Pattern>>> {
    let Some(lines) = lines(selection, dims)? else { return Ok(None) };
    let patterns = lines.into_iter().map(|line| match line {
        Line::Pattern(pattern) => Ok(pattern),
        Line::List(_) => Err(Error::invalid("a mapping by lists of indices")),
    });
    patterns.collect::<Result<_>>().map(Some)
}

/// Returns for each dimension of the target the matching dimension of the source; `None` if they do not
/// match. A dimension of one index has no match.
fn pair(from: &[Pattern], to: &[Pattern], same_count: bool) -> Option<Vec<Option<usize>>> {
    let long = |patterns: &[Pattern]| -> Vec<u64> {
        patterns.iter().map(Pattern::length).filter(|length| *length != 1).collect()
    };
    if long(from) != long(to) {
        let same_rank = from.len() == to.len();
        return (same_rank && !same_count).then(|| (0..to.len()).map(Some).collect());
    }
    let mut next = from.iter().enumerate().filter(|(_, pattern)| pattern.length() != 1);
    let pairs = to.iter().map(|pattern| {
        let paired = (pattern.length() != 1).then(|| next.next());
        paired.flatten().map(|(at, _)| at)
    });
    Some(pairs.collect())
}

/// Maps dimension by dimension.
fn along_axes(
    from: &[Pattern],
    to: &[Pattern],
    asked: &[Line<'_>],
    pairs: &[Option<usize>],
    places: &[u64],
) -> Option<MappedSelection> {
    let mut axes: Vec<Axis> = from.iter().map(|pattern| part(pattern, 0..1)).collect();
    let mut moves = Vec::with_capacity(to.len());
    for (((to, asked), pair), place) in to.iter().zip(asked).zip(pairs).zip(places) {
        let one = Pattern::all(1);
        let from = pair.and_then(|at| from.get(at)).unwrap_or(&one);
        let (axis, segments) = along_axis(from, to, asked)?;
        if let Some(slot) = pair.and_then(|at| axes.get_mut(at)) {
            *slot = axis;
        }
        moves.push((segments, *place, *pair));
    }
    let lengths: Vec<u64> = axes.iter().map(Axis::length).collect();
    let read = strides(&lengths);
    // A dimension without a match in the source has stride 0 in the data read.
    let step = |pair: Option<usize>| pair.and_then(|at| read.get(at)).copied().unwrap_or(0);
    let moves = moves.into_iter().map(|(segments, place, pair)| (segments, place, step(pair)));
    Some(MappedSelection { moves: Moves::Axes(moves.collect()), source: Selection::Axes(axes) })
}

/// Maps one dimension: returns the needed indices of the source, and their positions in the result. `None` if
/// no index is needed.
fn along_axis(from: &Pattern, to: &Pattern, asked: &Line<'_>) -> Option<(Axis, Segments)> {
    let length = from.length().min(to.length());
    let end = |indices: &Range<u64>| if length < to.length() { to.at(length) } else { indices.end };
    if let Line::Pattern(asked) = asked {
        if let Some(indices) = asked.contiguous() {
            // A position in the result is an index minus the first one.
            let indices = indices.start..indices.end.min(end(&to.bounds()));
            let ranks = to.rank(indices.start)..to.rank(indices.end);
            let mut segments = to.segments(indices);
            segments.iter_mut().for_each(|segment| segment.target = segment.target.wrapping_sub(ranks.start));
            return (ranks.start < ranks.end).then(|| (part(from, ranks), Segments::Few(segments)));
        }
        if let (Some(target), Some(source)) = (to.contiguous(), from.contiguous()) {
            let places = asked.rank(target.start)..asked.rank(target.end.min(end(&target)));
            if places.start >= places.end {
                return None;
            }
            if let Some(axis) = moved(asked, &places, target.start, source.start) {
                let block = places.end.wrapping_sub(places.start);
                let all = Segment { source: places.start, target: 0, step: 0, block, count: 1 };
                return Some((axis, Segments::Few([all, Segment::default(), Segment::default()])));
            }
        }
    }
    let (mut indices, mut goals): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
    let places = match asked {
        Line::Pattern(asked) => asked.rank(to.bounds().start)..asked.rank(to.bounds().end),
        Line::List(indices) => 0..indices.len() as u64,
    };
    for place in places {
        let index = asked.at(place);
        let rank = to.rank(index);
        if rank < length && to.at(rank) == index {
            indices.push(from.at(rank));
            goals.push(place);
        }
    }
    let range = 0..goals.len();
    (!goals.is_empty())
        .then(|| (Axis::List(indices), Segments::Many(Arc::new(IndexList::of(goals)), range, 0)))
}

/// Returns the indices of a pattern whose ranks are in a range.
fn part(pattern: &Pattern, ranks: Range<u64>) -> Axis {
    let length = ranks.end.saturating_sub(ranks.start);
    pattern
        .cut(ranks.start, length)
        .unwrap_or_else(|| Axis::List(ranks.map(|rank| pattern.at(rank)).collect()))
}

/// Returns the indices of a pattern whose ranks are in a range, shifted by `to - from`.
fn moved(pattern: &Pattern, ranks: &Range<u64>, from: u64, to: u64) -> Option<Axis> {
    let axis = pattern.cut(ranks.start, ranks.end.saturating_sub(ranks.start))?;
    let shift = |start: u64| start.wrapping_sub(from).wrapping_add(to);
    Some(match axis {
        Axis::Range { start, stride, count, block } => {
            Axis::Range { start: shift(start), stride, count, block }
        }
        Axis::Cut { start, stride, block, length } => {
            Axis::Cut { start: shift(start), stride, block, length }
        }
        Axis::List(indices) => Axis::List(indices.into_iter().map(shift).collect()),
    })
}

/// Maps arbitrary selections: looks up every run of the request in the target.
fn one_by_one(
    source: &Selection,
    source_dims: &[u64],
    target: &Selection,
    dims: &[u64],
    selection: &Selection,
) -> Result<Option<MappedSelection>> {
    let ranks = Ranks::new(target, dims)?;
    // Rank in the mapping, position in the result, count.
    let mut found: Vec<(u64, u64, u64)> = Vec::new();
    let row = dims.last().copied().unwrap_or(1).max(1);
    let mut place: u64 = 0;
    for (mut first, mut count) in runs(selection, dims)? {
        while count > 0 {
            let column = first.checked_rem(row).unwrap_or(0);
            let taken = count.min(row.saturating_sub(column));
            ranks.look_up(first, dims, taken, &mut |rank, after, count| {
                let place = place.wrapping_add(after);
                match found.last_mut() {
                    Some((start, at, length))
                        if start.wrapping_add(*length) == rank && at.wrapping_add(*length) == place =>
                    {
                        *length = length.wrapping_add(count);
                    }
                    _ => found.push((rank, place, count)),
                }
            });
            (first, count) = (first.wrapping_add(taken), count.wrapping_sub(taken));
            place = place.wrapping_add(taken);
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    // Read the element of each rank once, in order.
    found.sort_unstable();
    let mut read: Vec<Range<u64>> = Vec::new();
    for (rank, _, count) in &found {
        let end = rank.saturating_add(*count);
        match read.last_mut() {
            Some(last) if *rank <= last.end => last.end = last.end.max(end),
            _ => read.push(*rank..end),
        }
    }
    let mut before = Vec::with_capacity(read.len());
    let mut total: u64 = 0;
    for range in &read {
        before.push((range.start, total));
        total = total.saturating_add(range.end.saturating_sub(range.start));
    }
    let moves = found.into_iter().map(|(rank, place, count)| {
        let at = before.partition_point(|(start, _)| *start <= rank).saturating_sub(1);
        let (start, read) = before.get(at).copied().unwrap_or((0, 0));
        (read.saturating_add(rank.saturating_sub(start)), place, count)
    });
    let moves = Moves::Runs(moves.collect());
    Ok(Some(MappedSelection { source: at_ranks(source, source_dims, &read)?, moves }))
}

/// Selects the elements of a source with these ranks.
fn at_ranks(source: &Selection, dims: &[u64], ranks: &[Range<u64>]) -> Result<Selection> {
    if dims.is_empty() {
        return Ok(Selection::All);
    }
    if let Selection::Points { rank, coordinates } = source {
        let points: Vec<&[u64]> = coordinates.chunks_exact((*rank).max(1)).collect();
        let part =
            |range: &Range<u64>| points.get(narrow(range.start)..narrow(range.end)).unwrap_or_default();
        let coordinates = ranks.iter().flat_map(part).flat_map(|point| point.iter().copied()).collect();
        return Ok(Selection::Points { rank: *rank, coordinates });
    }
    let mut corners = Vec::new();
    if let Selection::Blocks(blocks) = source {
        ranks.iter().for_each(|range| blocks.corners(range.clone(), &mut corners));
    } else {
        let axes = patterns(source, dims)?.unwrap_or_default();
        let lengths: Vec<u64> = axes.iter().map(Pattern::length).collect();
        for range in ranks {
            rows(range.clone(), &axes, &lengths, &mut corners);
        }
    }
    Ok(Selection::Blocks(Blocks::new(dims.len(), &corners)?))
}

/// Appends the corners of one-row boxes that cover the elements with these ranks.
fn rows(mut ranks: Range<u64>, axes: &[Pattern], lengths: &[u64], corners: &mut Vec<u64>) {
    let Some((row, outer)) = axes.split_last() else { return };
    while ranks.start < ranks.end {
        let at = coordinates(ranks.start, lengths);
        let column = at.last().copied().unwrap_or(0);
        let taken = row.together(column).min(ranks.end.saturating_sub(ranks.start)).max(1);
        let first = row.at(column);
        for last in [first, first.saturating_add(taken).saturating_sub(1)] {
            corners.extend(outer.iter().zip(&at).map(|(axis, place)| axis.at(*place)));
            corners.push(last);
        }
        ranks.start = ranks.start.saturating_add(taken);
    }
}

/// Returns the coordinates of an element from its row-major number.
fn coordinates(element: u64, dims: &[u64]) -> Vec<u64> {
    let mut rest = element;
    let mut coordinates: Vec<u64> = dims
        .iter()
        .rev()
        .map(|dim| {
            let index = rest.checked_rem(*dim).unwrap_or(0);
            rest = rest.checked_div(*dim).unwrap_or(0);
            index
        })
        .collect();
    coordinates.reverse();
    coordinates
}

/// Lookup of the ranks of elements in a target.
enum Ranks {
    Axes(Vec<Pattern>),
    Blocks(Blocks),
    /// Rank by the number of the element.
    Points(HashMap<u64, u64>),
    None,
}

impl Ranks {
    fn new(target: &Selection, dims: &[u64]) -> Result<Self> {
        Ok(match target {
            Selection::None => Self::None,
            Selection::Blocks(blocks) => Self::Blocks(blocks.clone()),
            Selection::Points { rank, coordinates } => {
                let strides = strides(dims);
                let element = |point: &[u64]| {
                    point
                        .iter()
                        .zip(&strides)
                        .fold(0_u64, |sum, (index, stride)| sum.wrapping_add(index.wrapping_mul(*stride)))
                };
                let points = coordinates.chunks_exact((*rank).max(1)).map(element);
                Self::Points(points.zip(0..).collect())
            }
            _ => Self::Axes(patterns(target, dims)?.unwrap_or_default()),
        })
    }

    /// Calls `each` for every run of ranks that the target has among `count` elements of one row, from
    /// `first` on. Arguments: rank, offset from `first`, count.
    fn look_up(&self, first: u64, dims: &[u64], count: u64, each: &mut impl FnMut(u64, u64, u64)) {
        match self {
            Self::None => {}
            Self::Points(points) => {
                for after in 0..count {
                    if let Some(rank) = points.get(&first.wrapping_add(after)) {
                        each(*rank, after, 1);
                    }
                }
            }
            Self::Blocks(blocks) => {
                let at = coordinates(first, dims);
                let mut bounds: Vec<Range<u64>> =
                    at.iter().map(|index| *index..index.saturating_add(1)).collect();
                if let Some(last) = bounds.last_mut() {
                    last.end = last.start.saturating_add(count);
                }
                // In a box of one row, the position in the box is the distance from the first element.
                let strides = vec![1; dims.len()];
                let found = blocks.for_each(&bounds, &strides, &mut |run| {
                    each(run.target as u64, run.source as u64, run.block as u64);
                    Ok::<(), ()>(())
                });
                debug_assert!(found.is_ok(), "the closure returns no error");
            }
            Self::Axes(axes) => {
                let at = coordinates(first, dims);
                let Some((row, outer)) = axes.split_last() else { return each(0, 0, 1) };
                let mut rank: u64 = 0;
                for (axis, index) in outer.iter().zip(&at) {
                    let place = axis.rank(*index);
                    if place >= axis.length() || axis.at(place) != *index {
                        return;
                    }
                    rank = rank.saturating_mul(axis.length()).saturating_add(place);
                }
                let column = at.last().copied().unwrap_or(0);
                let rank = rank.saturating_mul(row.length());
                for segment in row.segments(column..column.saturating_add(count)) {
                    for block in 0..segment.count {
                        let place = segment.target.wrapping_add(block.wrapping_mul(segment.block));
                        let after = segment.source.wrapping_add(block.wrapping_mul(segment.step));
                        each(rank.saturating_add(place), after, segment.block);
                    }
                }
            }
        }
    }
}
