//! Division of the selected elements of an unfiltered chunk into the parts that are fetched.

use hyperchunk_format::select::{ChunkSelection, Column, Run};
use std::ops::Range;

/// Maximum gap in bytes between selected elements that are fetched together, as in contiguous data.
const MAX_GAP_BYTES: usize = 4 << 10;
/// Maximum size in bytes of a part that is made of several runs.
const MAX_JOINED_BYTES: usize = 4 << 20;
/// Maximum number of runs of one chunk. With more of them, everything from the first to the last is fetched,
/// as the planner of requests would decide for so many.
const MAX_RUNS_PER_CHUNK: usize = 1 << 12;
/// Maximum number of runs of one read: a run takes 40 bytes of memory until it is fetched.
const MAX_RUNS_PER_READ: usize = 1 << 18;

/// A part of a chunk, and the runs in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cluster {
    /// Range of elements of the chunk.
    pub(super) elements: Range<usize>,
    pub(super) runs: Vec<Run>,
}

/// Divider of the chunks of one read.
pub(super) struct Divider {
    /// Number of runs that the read may still have.
    runs_left: usize,
    /// Size of an element in bytes.
    size: usize,
}

impl Divider {
    /// Creates the divider of a read of elements of `size` bytes.
    pub(super) fn new(size: usize) -> Self {
        Self { runs_left: MAX_RUNS_PER_READ, size: size.max(1) }
    }

    /// Divides a piece of a chunk; `None` if it is one part, or would be too many.
    pub(super) fn divide(&mut self, piece: &ChunkSelection) -> Option<Vec<Cluster>> {
        let most = self.runs_left.min(MAX_RUNS_PER_CHUNK);
        let mut clusters = Clusters::new(self.size, most);
        piece.strided(|run| clusters.add(run).ok_or(())).ok()?;
        if clusters.found.len() <= 1 {
            return None;
        }
        self.runs_left -= most - clusters.runs_left;
        Some(clusters.found)
    }
}

/// The clusters of a chunk so far.
struct Clusters {
    found: Vec<Cluster>,
    /// Number of further runs that are allowed.
    runs_left: usize,
    /// Maximum gap in a cluster, and maximum length of one that is made of several runs, in elements.
    gap: usize,
    largest: usize,
}

impl Clusters {
    fn new(size: usize, most: usize) -> Self {
        Self {
            found: Vec::new(),
            runs_left: most,
            gap: MAX_GAP_BYTES / size,
            largest: MAX_JOINED_BYTES / size,
        }
    }

    /// Adds the elements of a run; `None` if there are too many runs.
    fn add(&mut self, run: Run) -> Option<()> {
        if run.count == 0 || run.block == 0 {
            return Some(());
        }
        let gap = run.step.checked_sub(run.block);
        if run.count == 1 || gap.is_some_and(|gap| gap <= self.gap) {
            return self.add_whole(run);
        }
        let (mut source, mut target) = (run.source, run.target);
        for _ in 0..run.count {
            self.add_whole(Run { source, target, step: 0, count: 1, ..run })?;
            source = source.wrapping_add(run.step);
            target = target.wrapping_add(run.block);
        }
        Some(())
    }

    /// Adds a run with small gaps.
    fn add_whole(&mut self, run: Run) -> Option<()> {
        self.runs_left = self.runs_left.checked_sub(1)?;
        let (span, _) = Column::from(run).spans()?;
        let elements = run.source..run.source.checked_add(span)?;
        match self.found.last_mut() {
            Some(last)
                if elements.start >= last.elements.end
                    && elements.start - last.elements.end <= self.gap
                    && elements.end - last.elements.start <= self.largest =>
            {
                last.elements.end = elements.end;
                last.runs.push(run);
            }
            _ => self.found.push(Cluster { elements, runs: vec![run] }),
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperchunk_format::select::{Axis, Selection, chunk_selections};

    fn run(source: usize, step: usize, block: usize, count: usize, target: usize) -> Run {
        Run { source, step, block, count, target }
    }

    /// Checks the clusters of runs of elements of 8 bytes.
    #[track_caller]
    fn check(runs: &[Run], expected: &[(Range<usize>, usize)]) {
        let mut clusters = Clusters::new(8, 100);
        for run in runs {
            clusters.add(*run).unwrap();
        }
        let found: Vec<_> =
            clusters.found.iter().map(|cluster| (cluster.elements.clone(), cluster.runs.len())).collect();
        assert_eq!(found, expected);
        let elements = |runs: &[Run]| runs.iter().map(Run::elements).sum::<usize>();
        let all: Vec<Run> = clusters.found.into_iter().flat_map(|cluster| cluster.runs).collect();
        assert_eq!(elements(&all), elements(runs));
    }

    #[test]
    fn runs_with_small_gaps_are_together() {
        check(&[run(5, 0, 10, 1, 0), run(500, 0, 10, 1, 10)], &[(5..510, 2)]);
        check(&[run(5, 0, 10, 1, 0), run(528, 0, 10, 1, 10)], &[(5..15, 1), (528..538, 1)]);
        check(&[run(0, 512, 1, 3, 0)], &[(0..1025, 1)]);
        check(&[run(0, 514, 1, 3, 0)], &[(0..1, 1), (514..515, 1), (1028..1029, 1)]);
        // In descending order.
        check(&[run(20, 0, 1, 1, 0), run(10, 0, 1, 1, 1)], &[(20..21, 1), (10..11, 1)]);
        check(&[run(0, 0, 0, 5, 0), run(0, 7, 1, 0, 0)], &[]);
        check(
            &[run(0, 0, 600_000, 1, 0), run(600_000, 0, 5, 1, 600_000)],
            &[(0..600_000, 1), (600_000..600_005, 1)],
        );
    }

    #[test]
    fn their_number_is_bounded() {
        let mut clusters = Clusters::new(8, 3);
        assert!(clusters.add(run(0, 1000, 1, 3, 0)).is_some());
        assert!(clusters.add(run(9000, 0, 1, 1, 3)).is_none());
        assert!(Clusters::new(8, 3).add(run(0, 1000, 1, usize::MAX, 0)).is_none());
    }

    #[test]
    fn two_rows_of_a_chunk() {
        let selection = Selection::Axes(vec![Axis::steps(0, 999, 2), Axis::range(0..3)]);
        let mut pieces = chunk_selections(&selection, &[1000, 1000], &[1000, 1000]).unwrap();
        let piece = pieces.next().unwrap();
        let mut divider = Divider::new(8);
        let found = divider.divide(&piece).unwrap();
        assert_eq!(
            found.iter().map(|cluster| cluster.elements.clone()).collect::<Vec<_>>(),
            [0..3, 999_000..999_003]
        );
        assert_eq!(divider.runs_left, MAX_RUNS_PER_READ - 2);
        divider.runs_left = 1;
        assert!(divider.divide(&piece).is_none());
        assert!(Divider::new(1 << 13).divide(&piece).is_some());
    }
}
