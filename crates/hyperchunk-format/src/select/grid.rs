//! Orthogonal selection of data stored in boxes of any position and extent.

use super::line::{IndexList, Line, Pattern};
use super::program::{Program, Run, Segments};
use super::selection::product;
use super::{Selection, strides};
use crate::Result;
use std::ops::Range;
use std::sync::Arc;

/// Orthogonal selection that maps the elements of a box to their positions in the result.
#[derive(Debug)]
pub struct Grid {
    axes: Vec<AxisSelection>,
    /// Stride of each dimension in the result.
    target_strides: Vec<u64>,
}

/// Selected indices of a dimension.
#[derive(Debug)]
enum AxisSelection {
    Pattern(Pattern),
    /// Listed indices, sorted.
    List(Arc<IndexList>),
}

impl Grid {
    /// Creates a grid; `None` if the selection is not orthogonal.
    ///
    /// # Errors
    /// As [`Selection::check`].
    pub fn new(selection: &Selection, dims: &[u64]) -> Result<Option<Self>> {
        selection.check(dims)?;
        let axes = match selection {
            Selection::All => dims.iter().map(|dim| AxisSelection::Pattern(Pattern::all(*dim))).collect(),
            Selection::Axes(axes) => {
                let mut selected = Vec::with_capacity(axes.len());
                for (at, (axis, extent)) in axes.iter().zip(dims).enumerate() {
                    selected.push(match axis.line(at, *extent)? {
                        Line::Pattern(pattern) => AxisSelection::Pattern(pattern),
                        Line::List(indices) => AxisSelection::List(Arc::new(IndexList::new(indices, 1))),
                    });
                }
                selected
            }
            Selection::None | Selection::Points { .. } | Selection::Blocks(_) => return Ok(None),
        };
        Ok(Some(Self { axes, target_strides: strides(&selection.shape(dims)) }))
    }

    /// Returns the bounding box of the selected elements of a box; `None` if nothing is selected.
    #[must_use]
    pub fn within(&self, bounds: &[Range<u64>]) -> Option<Vec<Range<u64>>> {
        let axes = self.axes.iter().zip(bounds);
        axes.map(|(axis, range)| match axis {
            AxisSelection::Pattern(pattern) => {
                let first = pattern.next(range.start).filter(|first| *first < range.end)?;
                let last = pattern.at(pattern.rank(range.end).checked_sub(1)?);
                Some(first..last.checked_add(1)?)
            }
            AxisSelection::List(list) => list.around(range),
        })
        .collect()
    }

    /// Returns the number of selected elements of a box, counting repetitions. Saturates.
    #[must_use]
    pub fn count(&self, bounds: &[Range<u64>]) -> u64 {
        let counts = self.axes.iter().zip(bounds).map(|(axis, range)| match axis {
            AxisSelection::Pattern(pattern) => {
                pattern.rank(range.end).saturating_sub(pattern.rank(range.start))
            }
            AxisSelection::List(list) => list.between(range).len() as u64,
        });
        counts.fold(1, u64::saturating_mul)
    }

    /// True if all elements of a box are selected.
    #[must_use]
    pub fn covers(&self, bounds: &[Range<u64>]) -> bool {
        self.axes.iter().zip(bounds).all(|(axis, range)| {
            let different = match axis {
                AxisSelection::Pattern(pattern) => {
                    pattern.rank(range.end).saturating_sub(pattern.rank(range.start))
                }
                AxisSelection::List(list) => list.different(range),
            };
            different == range.end.saturating_sub(range.start)
        })
    }

    /// Calls `each` with the runs selected in the part `bounds` of a box that begins at `start` and has the
    /// extent `count`. Sources count in row-major order of the box; targets are positions in the result.
    ///
    /// # Errors
    /// The error of `each`, which ends the iteration.
    pub fn runs<E>(
        &self,
        (start, count): (&[u64], &[u64]),
        bounds: &[Range<u64>],
        each: impl FnMut(Run) -> Result<(), E>,
    ) -> Result<(), E> {
        self.program(start, count, bounds).for_each(each)
    }

    /// Returns the run of [`Grid::runs`], if it is the only one.
    #[must_use]
    pub fn only_run(&self, (start, count): (&[u64], &[u64]), bounds: &[Range<u64>]) -> Option<Run> {
        let mut runs = self.program(start, count, bounds);
        runs.next().filter(|_| runs.next().is_none())
    }

    fn program(&self, start: &[u64], count: &[u64], bounds: &[Range<u64>]) -> Program {
        let axes = self.axes.iter().zip(start).zip(bounds);
        let segments = axes.map(|((axis, start), range)| match axis {
            AxisSelection::Pattern(pattern) => {
                let mut segments = pattern.segments(range.clone());
                let before = range.start.wrapping_sub(*start);
                segments.iter_mut().for_each(|segment| segment.source = segment.source.wrapping_add(before));
                Segments::Few(segments)
            }
            AxisSelection::List(list) => Segments::Many(Arc::clone(list), list.between(range), *start),
        });
        let strides = strides(count).into_iter().zip(self.target_strides.iter().copied());
        let segments: Vec<(Segments, u64, u64)> =
            segments.zip(strides).map(|(segments, (source, target))| (segments, source, target)).collect();
        Program::new(segments.into_iter())
    }

    /// Returns the number of selected elements; `None` if more than 2⁶⁴ - 1.
    #[must_use]
    pub fn elements(&self) -> Option<u64> {
        let lengths: Vec<u64> = self
            .axes
            .iter()
            .map(|axis| match axis {
                AxisSelection::Pattern(pattern) => pattern.length(),
                AxisSelection::List(list) => list.between(&(0..u64::MAX)).len() as u64,
            })
            .collect();
        product(&lengths)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Axis;
    use super::*;

    /// Checks for every box of a small dataspace that its elements are the ones the whole selection has
    /// there.
    fn check(selection: &Selection, dims: &[u64]) {
        let grid = Grid::new(selection, dims).unwrap().unwrap();
        let all: Vec<(u64, u64)> = super::super::runs(selection, dims)
            .unwrap()
            .flat_map(|(first, count)| first..first + count)
            .zip(0..)
            .collect();
        assert_eq!(grid.elements(), Some(all.len() as u64));
        let [rows, columns] = dims else { panic!("two dimensions") };
        for (top, left) in (0..*rows).flat_map(|top| (0..*columns).map(move |left| (top, left))) {
            for (bottom, right) in
                (top + 1..=*rows).flat_map(|bottom| (left + 1..=*columns).map(move |r| (bottom, r)))
            {
                let bounds = [top..bottom, left..right];
                let inside = |element: &u64| {
                    bounds[0].contains(&(element / columns)) && bounds[1].contains(&(element % columns))
                };
                let expected: Vec<(u64, u64)> =
                    all.iter().copied().filter(|(element, _)| inside(element)).collect();
                assert_eq!(grid.count(&bounds), expected.len() as u64);
                // Inside a box that starts before and ends after it.
                let start = [top / 2, left / 2];
                let count = [bottom + 1 - start[0], right + 2 - start[1]];
                let mut found = Vec::new();
                grid.runs::<()>((&start, &count), &bounds, |run| {
                    run.each(|source, target, length| {
                        for at in 0..length {
                            let source = (source + at) as u64;
                            let element =
                                (start[0] + source / count[1]) * columns + start[1] + source % count[1];
                            found.push((element, (target + at) as u64));
                        }
                        Ok(())
                    })
                })
                .unwrap();
                found.sort_unstable_by_key(|(_, target)| *target);
                assert_eq!(found, expected, "{selection:?} in {bounds:?}");
                let mut different: Vec<u64> = expected.iter().map(|(element, _)| *element).collect();
                different.sort_unstable();
                different.dedup();
                let size = (bottom - top) * (right - left);
                assert_eq!(grid.covers(&bounds), different.len() as u64 == size);
                let around = grid.within(&bounds);
                assert_eq!(around.is_none(), different.is_empty());
                if let Some(around) = around {
                    assert_eq!(grid.count(&around), expected.len() as u64);
                    let first = different.iter().map(|element| element / columns).min().unwrap();
                    assert_eq!(around[0].start, first);
                }
            }
        }
    }

    #[test]
    fn boxes_of_a_selection() {
        let dims = [5, 6];
        check(&Selection::All, &dims);
        check(&Selection::Axes(vec![Axis::range(1..4), Axis::range(2..5)]), &dims);
        check(&Selection::Axes(vec![Axis::steps(0, 2, 3), Axis::steps(1, 3, 2)]), &dims);
        let blocks = Axis::Cut { start: 0, stride: 3, block: 2, length: 3 };
        check(&Selection::Axes(vec![Axis::range(0..5), blocks]), &dims);
        let list = Axis::List(vec![4, 1, 1, 0, 3]);
        check(&Selection::Axes(vec![list.clone(), Axis::List(vec![0, 1, 2, 5])]), &dims);
        check(&Selection::Axes(vec![Axis::range(0..5), list]), &dims);
    }

    #[test]
    fn others_have_no_axes() {
        let points = Selection::Points { rank: 1, coordinates: vec![1] };
        assert!(Grid::new(&points, &[3]).unwrap().is_none());
        assert!(Grid::new(&Selection::Axes(vec![Axis::range(0..4)]), &[3]).is_err());
    }
}
